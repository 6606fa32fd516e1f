"""`economical`: the compiled rule equals its definition, and the definition does what it is for."""

import itertools
import math
import os
from dataclasses import replace

import numpy as np
import pytest

import sparing
from reference.cases import make_log, make_rounds, parameters
from reference.worth import expected, psi
from sparing.errors import SettingError
from sparing.online.engine import value_of_information
from sparing.simulation import LinearWorld, draw_log, simulate

STEPS = int(os.environ.get("SPARING_STEPS", "9000"))
"""Decisions that are compared with the definition; 100,000 take about a minute."""


def play(learner, rng, theta, noise, steps, *, eligible=0.0, delay=0):
    """Decide and learn, comparing every decision with the definition; how many were calls."""
    calls, waiting = 0, []
    for t in range(steps):
        x = rng.random(learner.n_features)
        mask = rng.random(learner.n_actions) < 0.5
        mask = mask if rng.random() < eligible and (mask & learner.active()).any() else None
        allowed = None if mask is None else mask & learner.active()
        names = None if allowed is None else [learner.action_names[a] for a in np.flatnonzero(allowed)]
        learner._impute_deferred()  # as `decide` would
        action, called, most = expected(learner, x, allowed)
        pending = False
        if called and learner._imputed:
            action, called, most = expected(learner, x, allowed, ahead=True)
            pending = not called
        decision = learner.decide(x, eligible=names)
        assert (learner.index(decision.action), decision.needs_reward) == (action, called), f"step {t}"
        assert decision.worth == pytest.approx(most, rel=1e-6, abs=1e-12)
        assert decision.reason == ("explore" if called else "pending" if pending else reason(learner))
        if called:
            calls += 1
            waiting.append(
                (t + rng.integers(delay + 1), decision, theta[action] @ x + noise * rng.standard_normal())
            )
        for due in [one for one in waiting if one[0] <= t]:
            waiting.remove(due)
            learner.update(*due[1:])
    return calls


def reason(learner):
    budget = learner.rules[0].calls
    return "spent" if budget is not None and learner.calls >= budget else "not-worth-it"


CASES = [
    # K, d, rows, price, share of actions never logged, more
    (2, 1, 40, 0.02, 0.5, {}),
    (5, 3, 60, 0.05, 0.4, {}),
    (5, 3, 60, 0.0, 0.4, {"horizon": 400}),
    (6, 3, 400, 0.05, 0.3, {"discount": 0.999}),
    (6, 4, 200, 0.01, 0.3, {"misfit": 0.3}),
    (5, 3, 100, 0.05, 0.4, {"calls": 40}),
    (12, 3, 100, 0.02, 0.5, {}),
    (8, 2, 30, 0.01, 0.4, {"noise": 0.2, "prior_scale": 3.0}),  # a call can tell nearly all
    (
        6,
        3,
        60,
        0.01,
        0.7,
        {"noise": 0.7, "prior_scale": 1.0, "prior_mean": [1.0, 1.0, 1.0]},
    ),  # untried ones seem best
]


@pytest.mark.parametrize("bounds", ["none", "shared", "quick"])
def test_compiled_is_the_definition(bounds, monkeypatch):
    monkeypatch.setattr("sparing.online.confidence_sets.BOUNDED_FROM", 10**12 if bounds == "none" else 0)
    monkeypatch.setattr("sparing.online.confidence_sets.QUICK_FROM", 0 if bounds == "quick" else 10**12)
    each = STEPS // (3 * len(CASES) * 2)
    called = skipped = 0
    for number, (k, d, rows, price, never, more) in enumerate(CASES):
        for eligible, delay in ((0.0, 0), (0.3, 5)):
            rng = np.random.default_rng([number, delay])
            world = LinearWorld(n_actions=k, n_features=d, noise=0.7, seed=number)
            log = draw_log(world, rows=rows, support="never-logged", unsupported=never, seed=number)
            told = {"horizon": 2000} | more
            if "discount" in more:
                del told["horizon"]
            learner = sparing.economical(log, call_cost=price, seed=number, **told)
            calls = play(learner, rng, world.theta, 0.7, each, eligible=eligible, delay=delay)
            called, skipped = called + calls, skipped + each - calls
    assert min(called, skipped) > STEPS / 60


def test_psi_is_an_expectation_and_stays_below_its_bound():
    z = np.linspace(-12, 12, 200_001)
    for gap, s in itertools.product((0.0, 1e-3, 0.3, 2.0), (1e-3, 0.2, 1.5)):
        exact = np.trapezoid(np.maximum(s * z - gap, 0) * np.exp(-z * z / 2) / math.sqrt(2 * math.pi), z)
        assert value_of_information.knowledge_gradient(gap, s) == pytest.approx(exact, abs=1e-9)
        assert value_of_information.knowledge_gradient(gap, s) == pytest.approx(
            float(psi(gap, s)), rel=1e-9, abs=1e-15
        )
        assert value_of_information.knowledge_gradient(
            gap, s
        ) <= value_of_information.knowledge_gradient_bound(gap, s)
    assert (
        value_of_information.knowledge_gradient(0.5, 0.0)
        == value_of_information.knowledge_gradient(math.inf, 1.0)
        == 0.0
    )


def a_log(seed=3, rows=120, never=(4, 5)):
    theta = parameters(seed)
    return theta, make_log(seed, theta, rows=rows, never=list(never))


GIVEN = {"noise": 0.5, "prior_scale": 1.0}


@pytest.mark.parametrize(
    "settings",
    [
        {"call_cost": 1e6, "horizon": 10_000, **GIVEN},
        {"call_cost": 0.0, "horizon": 1, **GIVEN},
        {"call_cost": 0.0, "horizon": 10_000, "calls": 0, **GIVEN},
        {"calls": 0, "horizon": 10_000, **GIVEN},
        {"call_cost": 0.0, "horizon": 10_000, "noise": 1e-9, "prior_scale": 1e-9},
    ],
    ids=["dear", "last round", "no budget", "only no budget", "nothing to learn"],
)
def test_where_nothing_can_repay_itself_nothing_is_asked(settings):
    theta, log = a_log()
    learner = sparing.economical(log, prior_mean=np.full(3, 0.1), **settings)
    rounds = make_rounds(3, theta, 60)
    decisions = [learner.decide(x) for x in rounds.contexts]
    assert not any(decision.needs_reward for decision in decisions)
    best = np.argmax(rounds.contexts @ learner.sets.theta.T, axis=1)
    assert [decision.action for decision in decisions] == best.tolist()
    assert {decision.worth for decision in decisions} == {0.0}


def test_units_do_not_matter():
    """Rewards, noise, prior and price eight times as large: the same decisions, to the bit, worth eight times as much."""
    theta, log = a_log()
    larger = sparing.Log.from_arrays(
        log.contexts, log.actions, 8 * log.rewards, action_names=log.action_names
    )
    one = sparing.economical(log, call_cost=0.05, horizon=500, noise=0.5, prior_scale=1.0)
    other = sparing.economical(larger, call_cost=0.4, horizon=500, noise=4.0, prior_scale=8.0)
    rounds = make_rounds(3, theta, 200)
    for x, rewards in zip(rounds.contexts, rounds.rewards, strict=True):
        decisions = one.decide(x), other.decide(x)
        assert decisions[0][1:4] == decisions[1][1:4]
        assert decisions[1].worth == 8 * decisions[0].worth
        if decisions[0].needs_reward:
            one.update(decisions[0], rewards[decisions[0].action])
            other.update(decisions[1], 8 * rewards[decisions[1].action])
    assert 0 < one.calls < 200


def test_names_do_not_matter():
    """Actions in another order, ties in the same: the same actions by name."""
    theta, log = a_log()
    order = np.array([3, 5, 0, 4, 1, 2])
    names = [log.action_names[a] for a in order]
    other = sparing.Log.from_arrays(log.contexts, log.actions, log.rewards, action_names=names)
    made = [sparing.economical(one, call_cost=0.001, horizon=4000, **GIVEN) for one in (log, other)]
    made[1].sets.prioritise(made[0].priority[order])
    rounds = make_rounds(3, theta, 150)
    for x, rewards in zip(rounds.contexts, rounds.rewards, strict=True):
        decisions = [learner.decide(x) for learner in made]
        assert decisions[0][1:4] == decisions[1][1:4]
        for learner, decision in zip(made, decisions, strict=True):
            if decision.needs_reward:
                learner.update(decision, rewards[decision.action])
    assert made[0].calls > 5


def test_the_fused_run_is_the_run_step_by_step():
    world = LinearWorld(n_actions=8, n_features=4, noise=1.0, seed=2)
    log = draw_log(world, rows=400, support="never-logged", unsupported=0.4, seed=2)
    for more in ({}, {"calls": 30}, {"spot_check": 0.1}, {"spot_check": 0.1, "calls": 30}):
        learner = sparing.economical(log, call_cost=0.02, horizon=1500, seed=7, **more)
        twin = learner.copy()
        trace = simulate(learner, world, rounds=1500, seed=5)
        stream = world.live_stream(1500, np.random.default_rng([5, 3]))
        for t, x in enumerate(stream.contexts):
            decision = twin.decide(x)
            assert (twin.index(decision.action), decision.reason) == (trace.actions[t], trace.reasons[t]), t
            if decision.needs_reward:
                twin.update(decision, stream.reward(t, trace.actions[t]))
        assert twin.digest() == learner.digest()
        assert (twin.calls, twin.rounds) == (learner.calls, learner.rounds) == (int(trace.calls[-1]), 1500)
        assert "calls" not in more or learner.calls == 30
        assert np.array_equal(twin.sets.arrays.rounds_left, learner.sets.arrays.rounds_left)


def test_many_at_once_are_one_by_one():
    theta, log = a_log()
    learner = sparing.economical(log, call_cost=0.01, horizon=3000, **GIVEN)
    contexts = make_rounds(8, theta, 300).contexts
    many = learner.decide_many(contexts, threads=2)
    assert many.worths is not None
    for x, action, called, value in zip(contexts, many.actions, many.needs_reward, many.worths, strict=True):
        one = learner.propose(x)
        assert (one.action, one.needs_reward, one.worth) == (action, called, value)
    assert 0 < many.needs_reward.sum() < 300


def test_it_goes_on_from_a_file_bit_for_bit(tmp_path):
    theta, log = a_log()
    for more in ({"horizon": 900}, {"discount": 0.998}, {"horizon": 900, "calls": 25}):
        learner = sparing.economical(log, call_cost=0.02, **GIVEN, **more)
        rounds = make_rounds(9, theta, 300)
        left = []
        for t, x in enumerate(rounds.contexts):
            if t == 40:
                learner.save(tmp_path / "learner.sparing")
                twin = sparing.load(tmp_path / "learner.sparing")
                left = list(learner.open)
            decision = learner.decide(x)
            if t >= 40:
                assert twin.decide(x) == decision
            if decision.needs_reward and t % 3:
                learner.update(decision, rounds.rewards[t, decision.action])
                if t >= 40:
                    twin.update(decision.id, rounds.rewards[t, decision.action])
        assert left
        assert twin.digest() == learner.digest()
        assert twin.guarantee == learner.guarantee


def test_actions_come_and_go():
    """An added action is weighed like any untried one, a retired one no more."""
    theta, log = a_log(never=(5,))
    learner = sparing.economical(log, call_cost=0.02, horizon=2000, **GIVEN)
    rng = np.random.default_rng(4)
    truth = np.vstack([theta, theta[0] + 0.3])
    play(learner, rng, truth, 0.5, 60, eligible=0.2, delay=3)
    learner.add_action("new")
    assert play(learner, rng, truth, 0.5, 60, eligible=0.2, delay=3) > 0
    learner.retire(learner.action_names[1])
    learner.retire(learner.action_names[2])
    play(learner, rng, truth, 0.5, 60, eligible=0.2, delay=3)
    learner.refresh()
    play(learner, rng, truth, 0.5, 60, eligible=0.2, delay=3)


def test_items_are_weighed_too():
    rng = np.random.default_rng(0)
    items = rng.standard_normal((8, 2))
    theta = items @ rng.standard_normal((2, 3)) + 0.2 * rng.standard_normal((8, 3))
    world = LinearWorld(theta=theta, noise=0.7, seed=1)
    log = draw_log(world, rows=300, support="never-logged", unsupported=0.5, seed=1)
    learner = sparing.economical(log, call_cost=0.02, horizon=1000, items=items)
    assert play(learner, rng, theta, 0.7, 150) > 0


def test_live_noise_above_the_logs_is_weighed_as_such():
    theta, log = a_log()
    learner = sparing.economical(log, call_cost=0.0005, horizon=20_000, noise=0.05, prior_scale=1.0)
    play(learner, np.random.default_rng(2), theta, 2.0, 200)
    assert learner.monitor is not None
    assert learner.monitor.inflation > 2


def test_nothing_worse_than_the_log_alone_in_its_own_worlds():
    """Worlds drawn from the posterior: regret + c·calls is below the regret of the best means, pooled, one-sided 95 %."""
    saved = []
    for k, d, noise, price, seed in itertools.product((3, 8), (2, 5), (0.5, 2.0), (0.01, 0.2), range(13)):
        rng = np.random.default_rng([seed, k, d])
        world = LinearWorld(n_actions=k, n_features=d, noise=noise, seed=seed)
        log = draw_log(world, rows=40 * k, support="never-logged", unsupported=0.4, seed=seed)
        learner = sparing.economical(log, call_cost=price * noise, horizon=500, noise=noise, prior_scale=1.0)
        root = noise * np.linalg.cholesky(learner.sets.inverse)
        theta = learner.sets.theta + np.einsum("kij,kj->ki", root, rng.standard_normal((k, d)))
        drawn = LinearWorld(theta=theta, noise=noise, seed=seed)
        alone = learner.sets.theta.copy()
        trace = simulate(learner, drawn, rounds=500, seed=seed)
        stream = drawn.live_stream(500, np.random.default_rng([seed, 3]))
        idle = (
            stream.means.max(axis=1)
            - stream.means[np.arange(500), (stream.contexts @ alone.T).argmax(axis=1)]
        )
        saved.append((idle.sum() - trace.regret[-1] - price * noise * trace.calls[-1]) / noise)
    saved = np.array(saved)
    assert len(saved) >= 200
    assert saved.mean() > 1.645 * saved.std() / math.sqrt(len(saved))


def tree(learner, contexts, rounds, nodes, cost):
    """Expected reward less price of the rounds left under the learner's own posterior, exactly but for the quadrature."""
    if not rounds:
        return 0.0
    total = 0.0
    for x in contexts:
        twin = learner.copy()
        decision = twin.decide(x)
        value = decision.value
        if decision.needs_reward:
            value -= cost
            sets, action = twin.sets, twin.index(decision.action)
            deviation = twin.assumptions.noise * math.sqrt(1 + x @ sets.inverse[action] @ x)
            later = 0.0
            for z, weight in zip(*nodes, strict=True):
                next_one = twin.copy()
                next_one.update(decision.id, decision.value + deviation * z)
                later += weight * tree(next_one, contexts, rounds - 1, nodes, cost)
            value += later
        else:
            value += tree(twin, contexts, rounds - 1, nodes, cost)
        total += value / len(contexts)
    return total


def never(learner, contexts, rounds):
    """The same without a call."""
    return rounds * float(np.mean([(learner.sets.theta @ x).max() for x in contexts]))


@pytest.mark.parametrize("cost", [0.0, 0.02, 0.1])
def test_one_call_ahead_is_a_rollout_of_never_calling(cost):
    """With four rounds only n = 1 is looked at: the rule's value, summed over all that may happen, is not below the log's."""
    contexts = np.array([[1.0, 0.0], [1.0, 1.0]])
    log = sparing.Log.from_arrays(
        np.repeat(contexts, 4, axis=0), [0] * 8, np.linspace(-0.1, 0.3, 8), action_names=[0, 1]
    )
    learner = sparing.economical(log, call_cost=cost, horizon=4, noise=0.3, prior_scale=0.5)
    z, weight = np.polynomial.hermite_e.hermegauss(5)
    gained = tree(learner, contexts, 4, (z, weight / weight.sum()), cost) - never(learner, contexts, 4)
    assert learner.copy().decide(contexts[1]).needs_reward
    assert gained > 0.05


def test_a_budget_finds_its_price_and_is_kept():
    world = LinearWorld(n_actions=10, n_features=4, noise=1.0, seed=6)
    log = draw_log(world, rows=1000, support="never-logged", unsupported=0.4, seed=6)
    prices = []
    for budget in (10, 40, 160):
        learner = sparing.economical(log, calls=budget, horizon=2000)
        prices.append(learner.rules[0].call_cost)
        trace = simulate(learner, world, rounds=2000, seed=1)
        assert trace.calls[-1] <= budget
        assert f"at most {budget} calls" in learner.guarantee
    assert prices[0] > prices[1] > prices[2] > 0


def test_a_summary_starts_the_same_learner(tmp_path):
    world = LinearWorld(n_actions=5, n_features=3, noise=1.0, seed=1)
    log = draw_log(world, rows=500, support="never-logged", unsupported=0.4, seed=1)
    sparing.write_log(log, tmp_path / "log.parquet")
    for summary in (sparing.LogSummary.of(log), sparing.scan(tmp_path / "log.parquet").summary()):
        one, other = (sparing.economical(source, call_cost=0.05) for source in (log, summary))
        assert one.rules == other.rules
        assert one.rules[0].horizon == 500
        assert np.array_equal(one.sets.arrays.context_sample, other.sets.arrays.context_sample)
        assert simulate(one, world, rounds=300).calls[-1] == simulate(other, world, rounds=300).calls[-1]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "what a reward costs.*call_cost.*calls"),
        ({"call_cost": -1.0}, "call_cost=-1"),
        ({"call_cost": math.nan}, "call_cost=nan"),
        ({"call_cost": 0.1, "horizon": 0}, "horizon=0"),
        ({"call_cost": 0.1, "horizon": 2.5}, "horizon=2.5"),
        ({"call_cost": 0.1, "discount": 1.0}, "discount=1.0"),
        ({"call_cost": 0.1, "horizon": 10, "discount": 0.9}, "one of them"),
        ({"calls": -1}, "calls=-1"),
        ({"call_cost": 0.1, "misfit": -1}, "misfit"),
        ({"call_cost": 0.1, "spot_check": 2}, "spot_check"),
        ({"call_cost": 0.1, "tolerance": 2}, "unknown setting 'tolerance'"),
    ],
)
def test_bad_settings_say_what_to_mend(settings, words):
    _, log = a_log()
    with pytest.raises(SettingError, match=words):
        sparing.economical(log, **settings)


def test_no_rows_stand_for_nothing_to_come():
    empty = sparing.Log.from_arrays(np.empty((0, 3)), [], [], action_names=["a", "b"])
    with pytest.raises(SettingError, match="logged contexts"):
        sparing.economical(empty, call_cost=0.1, horizon=10, prior_scale=1.0, noise=1.0)


def without_early_stopping(learner):
    """The same learner with the rule of files before version 7."""
    twin = learner.copy()
    twin.rules = (replace(twin.rules[0], stops_early=False),)
    twin.set_actions(twin.action_names)
    return twin


def test_only_calls_on_new_actions_count_less_and_one_call_counts_as_one():
    _theta, log = a_log()
    new, contexts = np.flatnonzero(log.counts == 0), np.random.default_rng(3).random((40, log.n_features))
    learner = sparing.economical(log, call_cost=0.01, horizon=500)
    more = learner.decide_many(contexts).worths - without_early_stopping(learner).decide_many(contexts).worths
    assert (more >= 0).all()
    assert more.max() > 0.01
    short = sparing.economical(log, call_cost=0.0, horizon=4)  # three rounds remain: only n = 1 is considered
    same = without_early_stopping(short).decide_many(contexts)
    np.testing.assert_array_equal(short.decide_many(contexts).worths, same.worths)
    for action, x in itertools.product(
        new, np.random.default_rng(4).random((2 * log.n_features, log.n_features))
    ):
        learner.sets.add_observation(int(action), x, 0.0)
    known = without_early_stopping(learner).decide_many(contexts)
    np.testing.assert_array_equal(learner.decide_many(contexts).worths, known.worths)
