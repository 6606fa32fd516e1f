"""Live contexts stand for future ones too: which enter, when they count, and what `economical` makes of them."""

from dataclasses import replace

import numpy as np
import pytest

import sparing
from reference.future import Future
from reference.worth import expected
from sparing.online.engine.state import NEVER
from sparing.simulation import LinearWorld, draw_log
from sparing.simulation.simulate import play

WORLD = LinearWorld(n_actions=6, n_features=3, noise=0.5, seed=0)
LOG = draw_log(WORLD, rows=300, support="never-logged", unsupported=0.2, seed=1)


def made(log=LOG, **settings):
    return sparing.economical(log, **{"call_cost": 0.002, "horizon": 3000, "seed": 3, **settings})


def future_of(learner, log):
    return Future(learner.sets.arrays.logged_sample.copy(), learner.key, log.contexts)


def same(learner, future):
    a = learner.sets.arrays
    assert np.array_equal(a.next_sample, future.next)
    assert np.array_equal(a.context_sample, future.used)
    assert (a.entered, learner.rounds) == (future.new, future.rounds)


def lived(learner, contexts, future=None, rng=None):
    rng = rng or np.random.default_rng(0)
    for x in contexts:
        decision = learner.decide(x)
        if future is not None:
            future.meet(x)
        if decision.needs_reward:
            mean = x @ WORLD.theta[learner.index(decision.action)]
            learner.update(decision, float(mean + 0.5 * rng.standard_normal()))


@pytest.mark.parametrize("rows", [300, 40, 3])
def test_the_sample_is_that_of_plain_python(rows, tmp_path):
    """Decided one by one and in compiled runs, copied, saved and loaded, with a refreshed prior, with contexts too long to enter."""
    log = LOG.take(range(rows))
    learner = made(log, prior_scale=1.0, noise=0.5)
    future = future_of(learner, log)
    contexts = np.random.default_rng(1).random((400, 3)) + 3 * np.eye(3)[2]
    contexts[::50] *= 100
    lived(learner, contexts[:150], future)
    same(learner, future)
    learner.save(tmp_path / "saved.sparing")
    learner = sparing.load(tmp_path / "saved.sparing").copy()
    same(learner, future)
    lived(learner, contexts[150:200], future)
    learner.refresh()
    lived(learner, contexts[200:], future)
    same(learner, future)
    trace = sparing.simulate(learner, WORLD, rounds=700, seed=5)
    assert len(trace.actions) == 700
    for x in WORLD.live_stream(700, np.random.default_rng([5, 3]), None).contexts:
        future.meet(x)
    same(learner, future)
    assert not np.array_equal(future.used, future.logged)


def test_compiled_runs_and_single_decisions_agree_and_follow_the_definition():
    """In contexts that the log did not have: the sample in use changes on the way."""
    live = WORLD.live_stream(400, np.random.default_rng([7, 3]), None)
    live = replace(live, contexts=1.8 * live.contexts, means=1.8 * live.means)
    run, single = made(), made()
    trace = play(run, live)
    renewed = 0
    for t, x in enumerate(live.contexts):
        before = single.sets.arrays.resampled
        action, called, worth = expected(single, x)
        decision = single.decide(x)
        assert (single.index(decision.action), decision.needs_reward) == (action, called)
        assert decision.worth == pytest.approx(worth, rel=1e-6, abs=1e-12)
        assert (trace.actions[t], trace.needs_reward[t]) == (action, called)
        if called:
            single.update(decision, live.reward(t, action))
        renewed += single.sets.arrays.resampled > before
    assert renewed > 3
    assert run.digest() == single.digest()


def used(logged, live, *, key=5):
    """The places of a learner's sample, (m,), that are live after these contexts (n, d)."""
    future = Future(logged, key)
    for x in live:
        future.meet(x)
    return (future.used != future.logged).any(axis=1)


def test_live_contexts_like_the_logged_ones_change_nothing():
    """Normal numbers, or a constant and one of four countries: in at most 1 of 50 worlds is anything replaced."""
    changed = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        if seed % 2:
            rows = rng.standard_normal((700, 5))
        else:
            rows = np.column_stack([np.ones(700), np.eye(4)[rng.choice(4, 700, p=[0.4, 0.3, 0.2, 0.1])]])
        changed += used(rows[:128], rows[128:], key=seed).any()
    assert changed <= 1


def test_another_mixture_of_known_contexts_is_met():
    """A country of a tenth of the log that becomes nine tenths of the visits is most of the sample."""
    rng = np.random.default_rng(1)
    rows, live = (
        np.column_stack([np.ones(n), np.eye(3)[rng.choice(3, n, p=p)]])
        for n, p in ((128, [0.5, 0.4, 0.1]), (800, [0.05, 0.05, 0.9]))
    )
    future = Future(rows, 3)
    for x in live:
        future.meet(x)
    assert future.used[:, 3].mean() > 0.6


def test_another_mixture_is_met_by_a_learner_as_in_plain_python():
    rng = np.random.default_rng(1)
    rows, live = (
        np.column_stack([np.ones(n), np.eye(3)[rng.choice(3, n, p=p)]])
        for n, p in ((128, [0.5, 0.4, 0.1]), (600, [0.05, 0.05, 0.9]))
    )
    log = sparing.Log.from_arrays(rows, rng.integers(0, 3, 128), rng.standard_normal(128))
    learner = made(log, call_cost=1e6, noise=1.0, prior_scale=1.0)
    future = future_of(learner, log)
    lived(learner, live, future)
    same(learner, future)
    assert future.used[:, 3].mean() > 0.5


def test_contexts_that_a_large_log_knows_well_keep_their_places():
    """The same mixture with 100 times the rows: the estimate of the rarer country has a standard error of .03 deviations."""
    rng = np.random.default_rng(1)
    rows, live = (
        np.column_stack([np.ones(n), np.eye(3)[rng.choice(3, n, p=p)]])
        for n, p in ((12_800, [0.5, 0.4, 0.1]), (800, [0.05, 0.05, 0.9]))
    )
    future = Future(rows[:128], 3, rows)
    for x in live:
        future.meet(x)
    assert np.array_equal(future.used, future.logged)


def test_later_dates_request_no_more_rewards():
    """A log of two days whose live traffic comes a week later decides as if live contexts were not looked at."""
    rng = np.random.default_rng(4)
    moments = [f"2026-03-0{1 + minute // 720} {minute // 30 % 24:02}:00" for minute in range(1440)]
    table = {"seen_at": moments, "action": rng.choice(["a", "b"], 1440), "reward": rng.random(1440)}
    log = sparing.read_log(table, features="auto", actions=["a", "b", "new"])
    usual = sparing.economical(log, call_cost=0.01, horizon=2000, seed=0)
    blind = usual.copy()
    blind.sets.arrays.sampled_from = NEVER
    blind.find_next_entry()
    for minute in range(1000):
        row = {"seen_at": f"2026-03-1{minute // 100} {minute % 24:02}:30"}
        first, second = usual.decide(row), blind.decide(row)
        assert first == second
        if first.needs_reward:
            reward = float(rng.random())
            usual.update(first, reward)
            blind.update(second, reward)
    assert usual.sets.arrays.next_sample.sum() != blind.sets.arrays.next_sample.sum()


def test_few_contexts_unlike_the_log_are_met_and_others_keep_their_places():
    """One visit in thirty is from a country that the log never had."""
    rng = np.random.default_rng(2)
    rows = np.column_stack([np.ones(128), np.eye(4)[rng.choice(3, 128)]])
    live = np.column_stack([np.ones(2000), np.eye(4)[rng.choice(4, 2000, p=[0.32, 0.32, 0.32, 0.04])]])
    future = Future(rows, 4)
    for x in live:
        future.meet(x)
    replaced = (future.used != future.logged).any(axis=1)
    assert 1 <= replaced.sum() <= 12
    assert future.used[replaced, 4].all()


def test_answers_that_change_nothing_leave_the_sample():
    learner = made()
    lived(learner, np.random.default_rng(2).random((30, 3)))
    before = learner.sets.arrays.next_sample.copy(), learner.sets.arrays.entered, learner.next_entry
    contexts = np.random.default_rng(3).random((500, 3))
    learner.decide_many(contexts)
    for x in contexts[:50]:
        learner.propose(x)
    assert np.array_equal(learner.sets.arrays.next_sample, before[0])
    assert (learner.sets.arrays.entered, learner.next_entry) == before[1:]


def test_live_contexts_have_their_share_and_every_round_the_same_chance():
    """After n rounds a place is live with probability n/(n + 200), from each round with 1/(n + 200)."""
    n, found = 600, []
    for seed in range(60):
        future = Future(np.ones((128, 1)), 977 * seed)
        for t in range(n):
            future.meet(np.array([2.0 + t / n]))
        found.append(future.next[:, 0])
    drawn = np.concatenate(found)
    share, expect = (drawn > 1.5).mean(), n / (n + 200)
    assert abs(share - expect) < 4 * np.sqrt(expect * (1 - expect) / len(drawn))
    halves = (drawn >= 2.5).sum() / (drawn > 1.5).sum()
    assert abs(halves - 0.5) < 4 * 0.5 / np.sqrt((drawn > 1.5).sum())


def test_renewals_become_rare():
    """A quarter of the places changes in about a quarter more rounds."""
    learner, times = made(horizon=100_000, call_cost=10.0), []
    for t, x in enumerate(2 * np.random.default_rng(4).random((6000, 3))):
        before = learner.sets.arrays.resampled
        learner.decide(x)
        if learner.sets.arrays.resampled > before:
            times.append(t + 200)
    assert times[0] < 300
    assert 8 <= len(times) <= 20
    growth = np.diff(np.log(times))
    assert 0.15 < growth.mean() < 0.4


def test_contexts_are_withdrawn():
    """A withdrawn context leaves the sample in use too, also one whose place another has taken since."""
    learner = made()
    secret = np.array([4.12345, 0.54321, 0.11111])
    entered = 0
    for _ in range(300):
        if learner.rounds == learner.next_entry:
            entered += 1
            learner.enter_context(secret if entered % 2 else np.array([0.5, 0.5, 5.0]), entered)
        learner.set_counters(rounds=learner.rounds + 1, calls=0)
    a = learner.sets.arrays
    assert (a.context_sample == secret).all(axis=1).any()
    learner.forget_contexts(range(1, 400, 2))
    for name in ("context_sample", "next_sample"):
        assert not (getattr(a, name) == secret).all(axis=1).any()
        assert (getattr(a, name) == [0.5, 0.5, 5.0]).all(axis=1).any()
    back = a.sample_ids < 0
    assert np.array_equal(a.next_sample[back], a.logged_sample[back])


def test_rounds_whose_contexts_are_unknown_do_not_count():
    """A learner that is told of 10,000 rounds learns contexts as quickly as a new one."""
    learner = made(horizon=20_000)
    learner.set_counters(rounds=10_000, calls=0)
    lived(learner, np.random.default_rng(5).random((100, 3)))
    live = (learner.sets.arrays.next_sample != learner.sets.arrays.logged_sample).any(axis=1)
    assert live.mean() > 0.2


def test_a_learner_of_an_older_file_keeps_its_contexts():
    from frozen.cases import DATA

    learner = sparing.load(DATA / "learners" / "economical.sparing")
    before = learner.sets.arrays.context_sample.copy()
    assert learner.next_entry == NEVER
    for x in np.random.default_rng(6).random((200, learner.n_features)):
        decision = learner.decide(x)
        if decision.needs_reward:
            learner.forget(decision)
    assert np.array_equal(learner.sets.arrays.context_sample, before)


@pytest.mark.parametrize("others", [0.0, 0.02], ids=["three countries", "and rare ones"])
@pytest.mark.parametrize("gold", ["any", "worst"])
@pytest.mark.parametrize("seed", range(5))
def test_a_country_that_the_log_never_had_is_learnt(seed, gold, others):
    """Half of the visits are from a fourth country, where gold earns .5 and the others .1."""
    rng = np.random.default_rng(seed)
    known, names = ["de", "fr", "it"], ["gold", "blue", "red"]
    drawn = {
        country: rng.permutation([0.1, 0.2, 0.3]) if gold == "any" else [0.1, 0.3, 0.2] for country in known
    }
    rates = {country: dict(zip(names, found, strict=True)) for country, found in drawn.items()}
    rare = [f"rare {i}" for i in range(30)]
    rates |= {country: dict.fromkeys(names, 0.2) for country in rare}
    rates["jp"] = {"gold": 0.5, "blue": 0.1, "red": 0.1}
    countries = rng.choice(known + rare, 3000, p=[(1 - others) / 3] * 3 + [others / 30] * 30).tolist()
    actions = rng.choice(names, 3000).tolist()
    rewards = [float(rng.random() < rates[c][a]) for c, a in zip(countries, actions, strict=True)]
    table = {"country": countries, "action": actions, "reward": rewards, "propensity": [1 / 3] * 3000}
    log = sparing.read_log(table, features="auto")
    learner = sparing.economical(log, call_cost=0.01, horizon=4000, seed=seed)
    earned, elsewhere = [], []
    for _ in range(4000):
        country = "jp" if rng.random() < 0.5 else str(rng.choice(known))
        decision = learner.decide({"country": country})
        chance = rates[country][decision.action]
        if decision.needs_reward:
            learner.update(decision, float(rng.random() < chance))
        (earned if country == "jp" else elsewhere).append(chance)
    assert np.mean(earned) >= 0.45
    assert np.mean(elsewhere) >= 0.29
    assert learner.calls < 400
