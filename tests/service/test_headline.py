"""The comparison with the holdout: unbiased under a policy that skips what earns more, right at every look, and silent where nothing is measured."""

import itertools
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from scipy import stats

from sparing.interval import interval, watched_deviations
from sparing.service import comparison, events, subject_sums
from sparing.service.comparison import HOUR, MAX_BINS, HourlyTotals, TimeBins
from sparing.service.events import ChangeEvent, DecisionEvent
from sparing.service.messages import Options
from sparing.service.store.store import HourlyTotal
from sparing.service.subject_sums import CALLED, CHECKED, COLUMNS, HOLDOUT, PAIRS, SKIPPED, Count, SumsByHour

RUNS, DECISIONS, HOURS = 400, 1500, 5
CALLED_MEAN, SKIPPED_MEAN, HELD_OUT = 0.2, 0.8, 0.5
"""Mean rewards of decisions that the policy asks about, that it skips, and of the holdout."""

ASKS, CHECK, SHARE, COME = 0.3, 0.1, 0.15, 0.9
TRUTH = ASKS * CALLED_MEAN + (1 - ASKS) * SKIPPED_MEAN
OPTIONS = Options(check=CHECK, holdout=SHARE)


class World(NamedTuple):
    """How rewards are drawn around a mean."""

    name: str
    noise: object


WORLDS = [
    World("normal", lambda rng, mean: mean + rng.normal(0, 0.5, len(mean))),
    World("binary", lambda rng, mean: (rng.random(len(mean)) < mean).astype(float)),
]


class History(NamedTuple):
    """Decisions in order: what each is, its reward (NaN: none came), its subject (−1: none), and its hour."""

    kinds: np.ndarray
    rewards: np.ndarray
    subjects: np.ndarray
    hours: np.ndarray

    def __getitem__(self, rows):
        return History(*(each[rows] for each in tuple(self)))


def history(kinds, rewards, subjects=None, hours=None):
    nobody, first = np.full(len(kinds), -1), np.zeros(len(kinds), dtype=int)
    return History(
        np.asarray(kinds),
        np.asarray(rewards, dtype=float),
        nobody if subjects is None else subjects,
        first if hours is None else hours,
    )


def together(*histories):
    return History(*map(np.concatenate, zip(*histories, strict=True)))


def summed(found, looks):
    """The sums at the end of each look (numbers of decisions), from the definition: products of each subject's sums, added up."""
    n = len(found.kinds)
    part = np.isin(found.kinds, (SKIPPED, CHECKED))
    come = ~np.isnan(found.rewards) & (found.kinds != SKIPPED)
    reward = np.where(come, found.rewards, 0.0)
    each = np.zeros((n, 2, 3))
    each[np.arange(n), part.astype(int)] = np.stack([np.ones(n), come, reward], axis=1)
    each = each.reshape(n, 6)
    more = np.stack([reward**2 * ~part, reward**2 * part, found.kinds == CHECKED], axis=1)
    who = np.where(found.subjects < 0, n + np.arange(n), found.subjects)
    order = np.argsort(who, kind="stable")
    first = np.r_[True, np.diff(who[order]) != 0]
    begin = np.maximum.accumulate(np.where(first, np.arange(n), 0))
    sums = np.cumsum(each[order], axis=0)
    sums -= (sums - each[order])[begin]  # of this subject alone, this decision included
    before = sums - each[order]
    one, other = PAIRS
    products = np.empty((n, len(one)))
    products[order] = sums[:, one] * sums[:, other] - before[:, one] * before[:, other]
    steps, held = np.concatenate([each, more, products], axis=1), found.kinds == HOLDOUT
    out = np.empty((len(looks), 2, len(COLUMNS)))
    for arm in (0, 1):
        mine = np.flatnonzero(held == arm)
        until = np.searchsorted(mine, looks)  # rows of the variant before each look
        parts = np.split(steps[mine[: until[-1]]], until[:-1])
        out[:, arm] = np.cumsum([one.sum(axis=0) for one in parts], axis=0)
    return out


def by_hour(found):
    """The sums as the store has them: what each hour added."""
    found = found[np.argsort(found.hours, kind="stable")]
    hours = np.unique(found.hours)
    if not len(hours):
        return SumsByHour(hours, np.zeros((0, 2, len(COLUMNS))))
    looks = np.searchsorted(found.hours, hours, side="right")
    return SumsByHour(hours, np.diff(summed(found, looks), axis=0, prepend=0.0))


def drawn(world, seed):
    """Decisions in a world that is known: the policy asks where it would earn little; a part of all rewards never comes."""
    rng = np.random.default_rng([seed, 5])
    n = DECISIONS
    aside, asks, checked = rng.random(n) < SHARE, rng.random(n) < ASKS, rng.random(n) < CHECK
    mean = np.where(aside, HELD_OUT, np.where(asks, CALLED_MEAN, SKIPPED_MEAN))
    kinds = np.select([aside, asks, checked], [HOLDOUT, CALLED, CHECKED], SKIPPED)
    reward, come = world.noise(rng, mean), (kinds != SKIPPED) & (rng.random(n) < COME)
    return history(kinds, np.where(come, reward, np.nan), hours=np.sort(rng.integers(0, HOURS, n)))


REASONS = {CALLED: "explore", SKIPPED: "confident", CHECKED: "check", HOLDOUT: "holdout"}


def totals_of(found):
    """The hourly totals of decisions, which say what the bins of the history are."""
    rows = []
    for hour, what in itertools.product(np.unique(found.hours).tolist(), REASONS):
        mine = (found.hours == hour) & (found.kinds == what)
        got = found.rewards[mine & ~np.isnan(found.rewards)]
        arm = "holdout" if what == HOLDOUT else "policy"
        numbers = int(mine.sum()), len(got), float(got.sum()), float((got**2).sum())
        rows.append(HourlyTotal(hour, REASONS[what], arm, what != SKIPPED, *numbers))
    return [one for one in rows if one.decisions]


def judged(found, options=OPTIONS, *, now=HOURS * events.HOUR - 1, **settings):
    tally = HourlyTotals.of(totals_of(found))
    return comparison.compare(
        by_hour(found), TimeBins.of(tally, now), options, now=now, ratio=None, **settings
    )


def naive(found):
    """The mean of all rewards that the policy has had."""
    mine = (found.kinds != HOLDOUT) & ~np.isnan(found.rewards)
    return found.rewards[mine].mean()


def estimates(found, looks=None):
    sums = summed(found, [len(found.kinds)] if looks is None else looks)
    return comparison.mean_reward(sums[:, 0]), comparison.mean_reward(sums[:, 1])


def once(estimate):
    """The limits for one look that is fixed beforehand (Student)."""
    return interval(estimate.value, np.sqrt(estimate.variance), stats.t.ppf(0.975, estimate.free))


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_values_are_unbiased_and_their_variance_is_right_though_skipped_decisions_earn_more(world):
    runs = [drawn(world, seed) for seed in range(RUNS)]
    found = [estimates(one) for one in runs]
    tolerance = 3.5 * np.sqrt(0.95 * 0.05 / RUNS)
    pairs = [(*one, comparison.difference(*one)) for one in found]
    for place, truth in enumerate((TRUTH, HELD_OUT, TRUTH - HELD_OUT)):
        each = [one[place] for one in pairs]
        low, high = np.array([once(one) for one in each])[..., 0].T
        covered = np.mean((low <= truth) & (truth <= high))
        assert abs(covered - 0.95) <= tolerance, (place, covered)
        values = np.array([one.value[0] for one in each])
        assert abs(values.mean() - truth) <= 3.5 * values.std() / np.sqrt(RUNS), place
        told = np.mean([one.variance[0] for one in each])
        assert abs(values.var(ddof=1) / told - 1) <= 3.5 * np.sqrt(2 / (RUNS - 1)), place
    # Control: what was called earns less than what was skipped, so that the mean of called rewards is far off.
    plain = np.array([naive(one) for one in runs])
    assert abs(plain.mean() - TRUTH) > 50 * plain.std() / np.sqrt(RUNS)
    shown = [judged(one)[0] for one in runs[:50]]
    assert all(one.why is None for one in shown)
    assert not any(one.policy.low <= mean <= one.policy.high for one, mean in zip(shown, plain, strict=False))


SUBJECTS, LOOKS, WORLDS_WATCHED, CONTROLS = 500, np.arange(50, 10_001, 50), 200, 60


def watched(seed, order, alike):
    """10,000 binary rewards of subjects that come back, are alike in themselves, and are held out or not for good; no difference."""
    rng = np.random.default_rng([seed, 9])
    n = LOOKS[-1]
    if order == "once":
        who, chance = np.arange(n), np.full(n, 0.3)
    else:
        who = np.arange(n) % SUBJECTS if order == "rounds" else rng.integers(0, SUBJECTS, n)
        spread = 1 / alike - 1
        chance = rng.beta(0.3 * spread, 0.7 * spread, SUBJECTS)[who]
    aside = (rng.random(who.max() + 1) < 0.1)[who]
    kinds = np.select([aside, rng.random(n) < 0.1, rng.random(n) < 0.1], [HOLDOUT, CALLED, CHECKED], SKIPPED)
    rewards = np.where(kinds == SKIPPED, np.nan, (rng.random(n) < chance).astype(float))
    return history(kinds, rewards, who)


@pytest.mark.parametrize(
    ("order", "alike"), [("once", 0.0), ("random", 0.05), ("random", 0.2), ("rounds", 0.2)], ids=str
)
def test_intervals_hold_at_every_look_at_once_also_if_subjects_come_back(order, alike):
    """No policy differs from the holdout here; each of 200 looks at a history is a chance to be wrong."""
    wrong, wrong_once, wrong_at_the_end = 0, 0, 0
    for seed in range(WORLDS_WATCHED):
        found = watched(seed, order, alike)
        gap = comparison.difference(*estimates(found, LOOKS))
        many = watched_deviations(gap.free, gap.spread / gap.variance)
        wrong += bool((np.abs(gap.value) > many * np.sqrt(gap.variance)).any())
        if seed >= CONTROLS:
            continue
        alone = comparison.difference(*estimates(found._replace(subjects=np.full(LOOKS[-1], -1)), LOOKS))
        low, high = once(alone)
        wrong_once += bool(((low > 0) | (high < 0)).any())
        wrong_at_the_end += bool(low[-1] > 0 or high[-1] < 0)
    assert wrong <= 0.05 * WORLDS_WATCHED, wrong
    # Controls: the interval of one look, that takes decisions for independent.
    assert wrong_once > 3 * 0.05 * CONTROLS, wrong_once
    if alike >= 0.2:
        assert wrong_at_the_end > 2 * 0.05 * CONTROLS, wrong_at_the_end


def test_where_all_are_asked_and_rewarded_it_is_the_mean():
    """Σ w_h²s_h²/m_h + Σ w_h(r̄_h − v)²/N is then the plain variance of a mean, but for N − 1 or N."""
    rng = np.random.default_rng(0)
    rewards = rng.normal(3, 2, 4000)
    kinds = np.r_[np.full(1500, CALLED), np.full(2500, CHECKED), np.full(40, HOLDOUT)]
    policy, holdout = estimates(history(kinds, np.r_[rewards, rewards[:40]]))
    assert policy.value[0] == pytest.approx(rewards.mean(), rel=1e-12)
    assert policy.variance[0] == pytest.approx(rewards.var() / 4000, rel=2e-3)
    known = stats.ttest_1samp(rewards[:40], 0).confidence_interval(0.95)
    assert np.ravel(once(holdout)) == pytest.approx((known.low, known.high), rel=1e-9)


def test_the_difference_is_welchs():
    rng = np.random.default_rng(1)
    one, other = rng.normal(1, 2, 30), rng.normal(0, 0.5, 12)
    found = history(np.r_[np.full(30, CALLED), np.full(12, HOLDOUT)], np.r_[one, other])
    gap = comparison.difference(*estimates(found))
    known = stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
    assert np.ravel(once(gap)) == pytest.approx((known.low, known.high), rel=1e-9)
    assert gap.rewards[0] == 42


def test_a_subject_that_comes_back_is_one_observation():
    """Each decision of a subject repeated: the same value, variance and degrees of freedom, for there is nothing new."""
    found = drawn(WORLDS[0], 3)
    found = found._replace(subjects=np.arange(DECISIONS))
    again = together(found, found, found)
    for one, other in zip(estimates(found), estimates(again), strict=True):
        for name in ("value", "variance", "free", "spread"):
            assert getattr(other, name)[0] == pytest.approx(getattr(one, name)[0], rel=1e-9), name


def test_the_number_of_deviations_makes_a_mixture_of_t_tests_a_martingale_of_one_in_twenty():
    """At the limit the mixture's likelihood ratio is 1/α, and the ratio is a martingale; Robbins' limit with many observations."""
    alpha = 0.05 * 0.99
    for n in (60, 200):
        t2 = float(watched_deviations(n - 1.0, float(n))) ** 2
        shifts, step = np.linspace(-15, 25, 8001, retstep=True)  # of t; beyond them its density is nothing
        density = np.nan_to_num(stats.nct.pdf(np.sqrt(t2), n - 1, shifts))  # far from the shift it is none
        mixed = (density * stats.norm.pdf(shifts, 0, np.sqrt(n / 50))).sum() * step
        assert mixed / stats.t.pdf(np.sqrt(t2), n - 1) == pytest.approx(1 / alpha, rel=2e-3)
    many, share = float(watched_deviations(1e9, 1e6)), 50 / (1e6 + 50)
    assert many**2 == pytest.approx((1 + 50 / 1e6) * np.log(1 / (share * alpha**2)), rel=1e-4)
    assert np.isinf(watched_deviations(5.0, 6.0))


def test_sums_by_subject_do_not_depend_on_how_events_are_grouped():
    """Decisions, rewards that come later and corrected ones, some in one group, are the sums from the definition."""
    rng = np.random.default_rng(4)
    n = 300
    who = np.where(rng.random(n) < 0.3, -1, rng.integers(0, 25, n))
    aside = np.where(who < 0, rng.random(n) < 0.3, who < 6)
    kinds = np.where(aside, HOLDOUT, rng.choice([CALLED, SKIPPED, CHECKED], n))
    rewards = np.where((kinds == SKIPPED) | (rng.random(n) < 0.2), np.nan, rng.normal(2, 3, n))
    found = history(kinds, rewards, who)
    steps = [(i + 0.0, i, None, None) for i in range(n)]
    for i in np.flatnonzero(~np.isnan(rewards)):
        late, later = rng.exponential(20, 2)
        wrong = rng.random() < 0.2
        steps.append((i + late, i, rewards[i] + (5 if wrong else 0), None))
        if wrong:
            steps.append((i + late + later, i, rewards[i], rewards[i] + 5))

    def count(i, reward, replaced):
        arm = "holdout" if aside[i] else "policy"
        subject = None if who[i] < 0 else bytes([who[i]])
        return Count(1, 0, arm, subject, i, int(kinds[i]), reward, replaced)

    steps.sort()
    for size in (1, 7, len(steps)):
        known, added = {}, np.zeros((2, len(COLUMNS)))
        for begin in range(0, len(steps), size):
            more, changed = subject_sums.settle(
                [count(*one[1:]) for one in steps[begin : begin + size]], known
            )
            known |= changed
            for (_, _, arm), sums in more.items():
                added[int(arm == "holdout")] += sums
        assert added == pytest.approx(summed(found, [n])[0], rel=1e-9, abs=1e-8)
        assert {key[1][0]: last for key, (_, last, _) in known.items()} == {
            one: int(np.flatnonzero(who == one)[-1]) for one in set(who[who >= 0].tolist())
        }


@pytest.mark.parametrize(
    ("dropped", "options", "words", "left"),
    [
        (CHECKED, Options(holdout=0.1), "set the option check", "holdout"),
        (HOLDOUT, Options(check=0.1), "set the option holdout", "policy"),
        (CHECKED, OPTIONS, "wait, or raise the option check", "holdout"),
        (HOLDOUT, OPTIONS, "No reward of the holdout has arrived", "policy"),
    ],
)
def test_what_is_not_measured_is_said_and_has_no_number(dropped, options, words, left):
    whole = drawn(WORLDS[0], 0)
    found = judged(whole[whole.kinds != dropped], options)[0]
    assert words in found.why
    assert found.why.endswith(".")
    assert found.difference is None
    assert (found.policy is None, found.holdout is None) == (left != "policy", left != "holdout")


@pytest.mark.parametrize("what", [CALLED, CHECKED, HOLDOUT])
@pytest.mark.parametrize("rewards", [0, 1, 2, 3])
def test_fewer_than_two_rewards_or_equal_ones_are_no_measurement(what, rewards):
    whole = drawn(WORLDS[0], 0)
    values = np.full(9, np.nan)
    values[:rewards] = 0.3
    values[2] = 1.3 if rewards == 3 else np.nan
    few = history(np.full(9, what), values)
    policy, holdout = estimates(together(whole[whole.kinds != what], few))
    mine = holdout if what == HOLDOUT else policy
    assert np.isnan(mine.value[0]) == (rewards < 3)
    found = judged(together(whole[whole.kinds != what], few))[0]
    assert ("equal" in (found.why or "")) == (rewards == 2)
    if what == HOLDOUT:  # three are not enough for an interval that holds at every look
        assert found.difference is None
        assert ("of too few subjects" in found.why) == (rewards == 3)


def test_one_subject_is_no_measurement():
    whole = drawn(WORLDS[0], 0)
    found = whole._replace(subjects=np.where(whole.kinds == HOLDOUT, 5, -1))
    assert np.isnan(estimates(found)[1].value[0])
    assert judged(found)[0].holdout is None


def test_without_skips_no_checks_are_needed_and_without_calls_no_called_rewards():
    whole = drawn(WORLDS[0], 0)
    asking = whole[(whole.kinds == CALLED) | (whole.kinds == HOLDOUT)]
    assert judged(asking, Options(holdout=0.1))[0].policy.value == pytest.approx(naive(asking))
    quiet = whole[whole.kinds != CALLED]
    assert judged(quiet)[0].policy.value == pytest.approx(naive(quiet))


def decided(**changed):
    said = {
        "seq": 7,
        "experiment": 1,
        "ts": 0,
        "decision_id": bytes(16),
        "request_id": None,
        "request_hash": None,
    }
    said |= {"subject": None, "context_id": None, "context": None, "eligible": None}
    return DecisionEvent(**said | {"arm": "policy", "reason": "confident", "call_probability": 0.1} | changed)


@pytest.mark.parametrize(
    ("changed", "options", "expected"),
    [
        ({}, {}, SKIPPED),
        ({"needs_reward": True, "reason": "check"}, {}, CHECKED),
        ({"needs_reward": True, "reason": "explore"}, {}, CALLED),
        ({"needs_reward": True, "reason": "holdout", "arm": "holdout"}, {}, HOLDOUT),
        ({"needs_reward": True, "reason": "fallback", "arm": "shadow"}, {}, None),
        ({"call_probability": 0.0}, {}, None),  # the budget was used up
        ({"call_probability": 0.0, "reason": "budget"}, {"check": 0.0}, None),
        ({"call_probability": 0.0, "reason": "budget", "arm": "holdout"}, {}, None),
        ({"call_probability": 0.0}, {"check": 0.0}, SKIPPED),  # nothing is checked
        ({}, {"since": 7}, None),
        ({}, {"reward": 1.0}, None),  # a reward that nobody asked for
    ],
)
def test_what_is_compared(changed, options, expected):
    found = subject_sums.count(decided(**changed), **{"since": 6, "check": 0.1} | options)
    assert (found and found.kind) == expected


def test_rewards_are_less_known_costs():
    asked = decided(needs_reward=True, reason="explore", cost=0.25)
    found = subject_sums.count(asked, 0, 0.1, 1.0, 3.0)
    assert (found.reward, found.replaced) == (0.75, 2.75)


def test_hours_of_a_budget_that_is_used_up_are_told():
    whole = drawn(WORLDS[0], 0)
    nothing = by_hour(whole[:0])
    steps = TimeBins.of(HourlyTotals.of(totals_of(whole)), HOURS * events.HOUR)
    for limited, words in (
        (True, "raise budget_calls"),
        (False, "since the options check and holdout were set"),
    ):
        found, _ = comparison.compare(nothing, steps, OPTIONS, now=0, ratio=None, limited=limited)
        assert words in found.why
        assert found.policy is None


def test_the_last_change_of_the_shares_is_found_among_other_changes():
    def change(seq, **options):
        return ChangeEvent(seq, 1, seq, events.OPTIONS, msgspec.json.encode(Options(**options)), "t")

    history = [change(3, price=2.0), change(5, check=0.1), change(8, check=0.1, price=1.0)]
    began = msgspec.to_builtins(Options())
    assert comparison.changed(history, began).seq == 5
    assert comparison.changed(history[:1], began) is None
    assert comparison.changed([], None) is None
    assert comparison.changed(history[:1], None).seq == 3
    assert comparison.changed([*history, change(9)], began).seq == 9


def test_so_far_ends_with_the_headline_and_each_is_what_it_was_then():
    whole = drawn(WORLDS[0], 3)
    found, so_far = judged(whole)
    assert (so_far[-1].policy, so_far[-1].holdout) == (found.policy, found.holdout)
    for hour, one in enumerate(so_far):
        then = judged(whole[whole.hours <= hour], now=hour * events.HOUR)[0]
        for mine, its in ((one.policy, then.policy), (one.holdout, then.holdout)):
            assert (mine is None) == (its is None)
            if mine is not None:
                assert (mine.value, mine.low) == pytest.approx((its.value, its.low), rel=1e-9)
    assert so_far[0].holdout is not None


@pytest.mark.parametrize(
    ("span", "step"), [(1, 1), (96, 1), (97, 2), (720, 12), (24 * 365, 96), (24 * 3650, 1008)]
)
def test_a_history_of_any_length_has_few_steps_without_gaps(span, step):
    first = 480_001
    totals = [HourlyTotal(first, "explore", "policy", True, 2, 0, 0.0, 0.0)]
    totals += [HourlyTotal(first + span - 1, "confident", "policy", False, 5, 0, 0.0, 0.0)]
    tally = HourlyTotals.of(totals)
    steps = TimeBins.of(tally, (first + span - 1) * events.HOUR + 7 * events.SECOND)
    hours = steps.by_reason(tally)
    assert len(hours) <= MAX_BINS
    assert steps.hours == step
    assert np.diff([one.start for one in hours]).tolist() == [steps.seconds] * (len(hours) - 1)
    assert hours[0].start <= first * HOUR < hours[0].start + steps.seconds
    assert sum(sum(one.decisions.values()) for one in hours) == 7
    ends = steps.ends((first + span - 1) * events.HOUR + 7 * events.SECOND)
    assert ends[-1] == (first + span - 1) * HOUR + 7
    assert ends[:-1] == [one.start for one in hours[1:]]


def test_the_sample_ratio_is_an_exact_test_that_keeps_its_level_and_sees_a_loss():
    for policy, holdout in ((900, 100), (950, 50), (10, 0), (0, 10), (970, 130)):
        low = stats.binom.cdf(holdout, policy + holdout, 0.1)
        high = stats.binom.sf(holdout - 1, policy + holdout, 0.1)
        assert comparison.sample_ratio(0.1, policy, holdout).p == pytest.approx(
            min(1, 2 * min(low, high)), rel=1e-9
        )
    assert comparison.sample_ratio(0.1, 9000, 1000).p == 1
    assert comparison.sample_ratio(0.1, 9000, 850).p < 1e-4
    assert comparison.sample_ratio(0.0, 100, 0) is None
    assert comparison.sample_ratio(0.1, 0, 0) is None
    rng = np.random.default_rng(0)
    drawn_shares = rng.binomial(2000, 0.1, 2000)
    small = np.mean([comparison.sample_ratio(0.1, 2000 - k, int(k)).p < 0.05 for k in drawn_shares.tolist()])
    assert small <= 0.05 + 3.5 * np.sqrt(0.05 * 0.95 / 2000)


def test_large_rewards_with_a_small_spread_are_not_taken_for_equal_ones():
    rng = np.random.default_rng(0)
    for scale, size in ((1e5, 200), (1.0, 200)):
        rewards = scale + rng.normal(0, 1, size)
        sums = np.array([size, rewards.sum(), (rewards**2).sum()])
        assert not comparison.all_equal(*sums)
        equal = np.full(size, rewards[0])
        assert comparison.all_equal(np.array(float(size)), equal.sum(), (equal**2).sum())
