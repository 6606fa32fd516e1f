"""The comparison with the holdout: unbiased and covering under a policy that skips what earns more, and silent where nothing is measured."""

import itertools
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from scipy import stats

from sparing.service import comparison, events
from sparing.service.comparison import HOUR, MAX_BINS, HourlyTotals, TimeBins
from sparing.service.events import ChangeEvent
from sparing.service.messages import Options
from sparing.service.store.store import HourlyTotal

RUNS, DECISIONS, HOURS = 400, 1500, 5
CALLED, SKIPPED, ASIDE = 0.2, 0.8, 0.5
"""Mean rewards of decisions that the policy asks about, that it skips, and of the holdout."""

ASKS, CHECK, HOLDOUT, COME = 0.3, 0.1, 0.15, 0.9
TRUTH = ASKS * CALLED + (1 - ASKS) * SKIPPED
OPTIONS = Options(check=CHECK, holdout=HOLDOUT)


class World(NamedTuple):
    """How rewards are drawn around a mean."""

    name: str
    noise: object


WORLDS = [
    World("normal", lambda rng, mean: mean + rng.normal(0, 0.5, len(mean))),
    World("binary", lambda rng, mean: (rng.random(len(mean)) < mean).astype(float)),
]


def drawn(world, seed):
    """Totals of a history in a world that is known: the policy asks where it would earn little; a part of all rewards never comes."""
    rng = np.random.default_rng([seed, 5])
    n = DECISIONS
    aside, asks, checked = rng.random(n) < HOLDOUT, rng.random(n) < ASKS, rng.random(n) < CHECK
    mean = np.where(aside, ASIDE, np.where(asks, CALLED, SKIPPED))
    asked = aside | asks | checked
    reason = np.select([aside, asks, checked], ["holdout", "explore", "check"], "confident")
    reward, come = world.noise(rng, mean), asked & (rng.random(n) < COME)
    hour = rng.integers(0, HOURS, n)
    found = []
    for h, why in itertools.product(range(HOURS), ("holdout", "explore", "check", "confident")):
        mine = (hour == h) & (reason == why)
        got = reward[mine & come]
        arm = "holdout" if why == "holdout" else "policy"
        numbers = int(mine.sum()), len(got), float(got.sum()), float((got**2).sum())
        found.append(HourlyTotal(h, why, arm, why != "confident", *numbers))
    return [total for total in found if total.decisions]


def judged(totals, options=OPTIONS, *, since=0, now=HOURS * events.HOUR - 1):
    tally = HourlyTotals.of(totals)
    return comparison.compare(tally, TimeBins.of(tally, now), options, since=since, now=now, ratio=None)


def naive(totals):
    """The mean of all rewards that the policy has had."""
    mine = [total for total in totals if total.arm == "policy"]
    return sum(total.reward_sum for total in mine) / sum(total.rewarded for total in mine)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_intervals_cover_and_values_are_unbiased_though_skipped_decisions_earn_more(world):
    runs = [drawn(world, seed) for seed in range(RUNS)]
    found = [judged(totals)[0] for totals in runs]
    assert all(one.why is None for one in found)
    tolerance = 3.5 * np.sqrt(0.95 * 0.05 / RUNS)
    for name, truth in (("policy", TRUTH), ("holdout", ASIDE), ("difference", TRUTH - ASIDE)):
        each = [getattr(one, name) for one in found]
        covered = np.mean([one.low <= truth <= one.high for one in each])
        assert abs(covered - 0.95) <= tolerance, (name, covered)
        values = np.array([one.value for one in each])
        assert abs(values.mean() - truth) <= 3.5 * values.std() / np.sqrt(RUNS), name
    # Control: what was called earns less than what was skipped, so that the mean of called rewards is far off.
    plain = np.array([naive(totals) for totals in runs])
    assert abs(plain.mean() - TRUTH) > 50 * plain.std() / np.sqrt(RUNS)
    assert (
        np.mean([one.policy.low <= mean <= one.policy.high for one, mean in zip(found, plain, strict=True)])
        < 0.01
    )


def test_the_variance_is_that_of_the_value_over_worlds():
    found = [
        comparison.estimates(comparison.counted(tally, TimeBins.of(tally, 0), 0))[0]
        for tally in map(HourlyTotals.of, map(drawn, [WORLDS[0]] * RUNS, range(RUNS)))
    ]
    seen = np.var([one.value[-1] for one in found], ddof=1)
    told = np.mean([one.variance[-1] for one in found])
    assert abs(seen / told - 1) <= 3.5 * np.sqrt(2 / (RUNS - 1))


def test_where_all_are_asked_and_rewarded_it_is_the_mean_with_students_interval():
    """Σ w_h²s_h²/m_h + Σ w_h(r̄_h − v)²/N is then the plain variance of a mean, but for N − 1 or N."""
    rng = np.random.default_rng(0)
    rewards = rng.normal(3, 2, 4000)
    calls = np.array_split(rewards, [1500])
    totals = [HourlyTotal(0, "explore", "policy", True, 1500, 1500, calls[0].sum(), (calls[0] ** 2).sum())]
    totals += [HourlyTotal(0, "check", "policy", True, 2500, 2500, calls[1].sum(), (calls[1] ** 2).sum())]
    totals += [
        HourlyTotal(0, "holdout", "holdout", True, 40, 40, rewards[:40].sum(), (rewards[:40] ** 2).sum())
    ]
    found = judged(totals)[0]
    assert found.policy.value == pytest.approx(rewards.mean(), rel=1e-12)
    half = 1.959964 * rewards.std() / np.sqrt(4000)
    assert found.policy.high - found.policy.value == pytest.approx(half, rel=2e-3)
    known = stats.ttest_1samp(rewards[:40], 0).confidence_interval(0.95)
    assert (found.holdout.low, found.holdout.high) == pytest.approx((known.low, known.high), rel=1e-9)


def test_the_difference_is_welchs():
    rng = np.random.default_rng(1)
    one, other = rng.normal(1, 2, 30), rng.normal(0, 0.5, 12)
    totals = [
        HourlyTotal(0, reason, arm, True, len(r), len(r), r.sum(), (r**2).sum())
        for reason, arm, r in (("explore", "policy", one), ("holdout", "holdout", other))
    ]
    found, known = (
        judged(totals)[0].difference,
        stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.95),
    )
    assert (found.low, found.high) == pytest.approx((known.low, known.high), rel=1e-9)
    assert found.rewards == 42


@pytest.mark.parametrize(
    ("dropped", "options", "words", "left"),
    [
        ("check", Options(holdout=0.1), "set the option check", "holdout"),
        ("holdout", Options(check=0.1), "set the option holdout", "policy"),
        ("check", OPTIONS, "wait, or raise the option check", "holdout"),
        ("holdout", OPTIONS, "No reward of the holdout has arrived", "policy"),
    ],
)
def test_what_is_not_measured_is_said_and_has_no_number(dropped, options, words, left):
    totals = [total for total in drawn(WORLDS[0], 0) if total.reason != dropped]
    found = judged(totals, options)[0]
    assert words in found.why
    assert found.why.endswith(".")
    assert found.difference is None
    assert (found.policy is None, found.holdout is None) == (left != "policy", left != "holdout")


@pytest.mark.parametrize("reason", ["explore", "check", "holdout"])
@pytest.mark.parametrize("rewards", [0, 1, 2, 3])
def test_fewer_than_two_rewards_or_equal_ones_are_no_measurement(reason, rewards):
    rows = [t for t in drawn(WORLDS[0], 0) if t.reason != reason]
    arm = "holdout" if reason == "holdout" else "policy"
    different = rewards == 3
    rows.append(
        HourlyTotal(
            0, reason, arm, True, 9, rewards, 0.3 * rewards + different, 0.09 * rewards + 2 * different
        )
    )
    found = judged(sorted(rows))[0]
    assert (found.why is None) == different
    assert (found.difference is None) != different
    assert ("equal" in (found.why or "")) == (rewards == 2)


def test_without_skips_no_checks_are_needed_and_without_calls_no_called_rewards():
    whole = drawn(WORLDS[0], 0)
    asking = [total for total in whole if total.reason not in ("check", "confident")]
    assert judged(asking, Options(holdout=0.1))[0].policy.value == pytest.approx(naive(asking))
    quiet = [total for total in whole if total.reason != "explore"]
    assert judged(quiet)[0].policy.value == pytest.approx(naive(quiet))


def test_rewards_that_nobody_asked_for_and_other_arms_do_not_count():
    whole = drawn(WORLDS[0], 0)
    unasked = [
        t._replace(rewarded=3, reward_sum=900.0, reward_squares=9e5) if t.reason == "confident" else t
        for t in whole
    ]
    other = HourlyTotal(0, "fallback", "shadow", True, 50, 50, 500.0, 5000.0)
    assert judged([*unasked, other])[0] == judged(whole)[0]


def test_hours_in_which_nothing_could_be_asked_are_left_out_of_both_arms():
    whole = drawn(WORLDS[0], 0)
    spent = [t for t in whole if t.hour == 2 and t.reason in ("confident", "holdout")]
    spent = [t._replace(decisions=9 * t.decisions) for t in spent]
    spent.append(HourlyTotal(2, "budget", "policy", False, 300, 0, 0.0, 0.0))
    rest = [t for t in whole if t.hour != 2]
    assert judged(sorted(rest + spent))[0] == judged(rest)[0]
    alone = judged(spent)[0]
    assert "raise budget_calls" in alone.why
    assert alone.policy is None


def test_only_hours_since_the_shares_last_changed_count():
    whole = drawn(WORLDS[0], 0)
    found, so_far = judged(whole, since=3)
    assert found == judged([t for t in whole if t.hour >= 3])[0]
    assert [one.policy is None for one in so_far] == [True] * 3 + [False] * 2
    early = judged(whole, since=HOURS + 1)[0]
    assert "measured from 1970-01-01T06:00" in early.why


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
    totals = drawn(WORLDS[0], 3)
    found, so_far = judged(totals)
    assert (so_far[-1].policy, so_far[-1].holdout) == (found.policy, found.holdout)
    for hour, one in enumerate(so_far):
        then = judged([t for t in totals if t.hour <= hour], now=hour * events.HOUR)[0]
        assert one.policy.value == pytest.approx(then.policy.value, rel=1e-12)
        assert one.holdout.low == pytest.approx(then.holdout.low, rel=1e-12)


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
