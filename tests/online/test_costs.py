"""Known costs: compiled code equals the definition bit for bit, and reward − cost is what is compared."""

import math
from collections import Counter

import numpy as np
import pytest

import sparing
from each import for_each
from reference.cases import make_log, make_rounds, parameters
from reference.rules import use_reference_choice
from sparing.errors import DecisionError, SettingError, UnitWarning

GIVEN = {"noise": 0.5, "theta_bound": 2.0, "context_bound": math.sqrt(3)}
LEARNERS = {
    "moful": (sparing.moful, {**GIVEN, "radius_scale": 0.3}),
    "warm_started": (sparing.warm_started, {**GIVEN, "radius_scale": 0.3}),
    "certified": (sparing.certified, {**GIVEN, "radius_scale": 0.1, "tolerance": 0.3, "growing": True}),
    "wider": (sparing.certified, {**GIVEN, "radius_scale": 0.1, "tolerance": 0.3, "explore": "wider"}),
    "confident": (sparing.confident, {"spot_check": 0.1}),
    "strict": (sparing.confident, {"strict": True, "explore": "wider", "tolerance": 0.01}),
    "sampled": (sparing.confident, {"explore": "sampled", "tolerance": 0.01}),
    "economical": (sparing.economical, {"call_cost": 0.02, "horizon": 2000, "spot_check": 0.05}),
    "budget": (sparing.economical, {"call_cost": 0.01, "discount": 0.999, "calls": 20}),
    "linucb": (sparing.linucb, {"alpha": 0.5}),
    "lints": (sparing.lints, {}),
}
BOUNDS = {"none": (10**12, 10**12), "shared": (0, 10**12), "quick": (0, 0)}
DRAWN = [0.0, 0.0, 0.1, 0.3, 1e-18, -0.2]
"""Costs of the random cases: equal ones, some lost in rounding, and one that is a gain."""


def bounded(monkeypatch, bounds):
    for name, least in zip(("BOUNDED_FROM", "QUICK_FROM"), BOUNDS[bounds], strict=True):
        monkeypatch.setattr(f"sparing.online.confidence_sets.{name}", least)


@for_each("bounds", BOUNDS)
@pytest.mark.parametrize("kind", LEARNERS)
def test_compiled_code_is_the_reference(kind, bounds, monkeypatch):
    """Prices that change, costs of one round, eligible sets, pending calls, actions added and retired."""
    bounded(monkeypatch, bounds)
    make, settings = LEARNERS[kind]
    seed = list(LEARNERS).index(kind)
    rng, theta, counts = np.random.default_rng(seed), parameters(seed), Counter()
    log = make_log(seed, theta, never=[2, 4], rows=60)
    learner = make(log, seed=seed, costs=rng.choice(DRAWN, 6).tolist(), **settings)
    plain = learner.copy()
    use_reference_choice(plain)
    waiting, grows = [], kind in ("certified", "confident", "strict", "economical", "budget")
    for t in range(150):
        x = rng.random(3) if t % 3 else np.round(rng.random(3))
        if t % 20 == 10:
            # A common cost that is large moves all alike; bounds must allow for its rounding.
            costs = (rng.choice(DRAWN, learner.n_actions) + 1000.0 * (t > 60)).tolist()
            for one in (learner, plain):
                one.set_costs(costs)
        if t == 60:
            for one in (learner, plain):
                one.retire(1)
        if t == 90 and grows:
            for one in (learner, plain):
                one.add_action("new", cost=0.05)
                use_reference_choice(plain)
        if t == 120 and learner.prior is not None:
            for one in (learner, plain):
                one.refresh()
        active = [name for name in learner.action_names if learner.active()[learner.index(name)]]
        eligible = None if t % 4 else rng.choice(np.array(active, dtype=object), 3, replace=False).tolist()
        costs = None
        if t % 5 == 0:
            costs = {name: rng.choice(DRAWN) for name in active[: rng.integers(1, len(active))]}
        first, second = (one.decide(x, eligible=eligible, costs=costs) for one in (learner, plain))
        assert first[:7] == second[:7], f"step {t}"
        assert first.cost == second.cost
        assert first.play_probability == pytest.approx(second.play_probability, abs=1e-9)
        counts[first.reason] += 1
        if first.needs_reward:
            waiting.append((first, second, rng.standard_normal()))
        while len(waiting) > 3 * (t % 2):
            one, other, reward = waiting.pop(0)
            learner.update(one, reward)
            plain.update(other, reward)
    assert counts["explore"] > 5
    assert learner.digest() == plain.digest()


@pytest.mark.parametrize("kind", ["confident", "economical", "lints", "certified"])
def test_costs_of_single_rounds_alone(kind):
    """A learner without costs, in which actions share the prior: each round has its own."""
    make, settings = LEARNERS[kind]
    rng, theta = np.random.default_rng(3), parameters(3)
    learner = make(make_log(3, theta, never=[2, 4, 5], rows=40), **settings)
    plain = learner.copy()
    use_reference_choice(plain)
    for t in range(80):
        x, costs = rng.random(3), rng.choice(DRAWN, 6)
        priced = costs.tolist() if t % 3 else None
        first, second = (one.decide(x, costs=priced) for one in (learner, plain))
        assert first[:7] == second[:7], f"step {t}"
        assert first.cost == (costs[first.action] if t % 3 else None)
        for one, decision in ((learner, first), (plain, second)):
            if decision.needs_reward and t % 2:
                one.update(decision, 0.3)


def shifted(log, costs):
    """The same log with the costs inside its rewards."""
    return sparing.Log.from_arrays(
        log.contexts,
        [log.action_names[a] for a in log.actions],
        log.rewards - costs[log.actions],
        action_names=log.action_names,
    )


def with_level(seed, rows=400, k=5):
    """A log whose last feature is 1, and the parameters behind it."""
    rng, theta = np.random.default_rng([seed, 3]), parameters(seed, k, 3, offset=0.3)
    contexts = np.column_stack([rng.random((rows, 2)), np.ones(rows)])
    actions = rng.integers(0, k, rows)
    rewards = (contexts * theta[actions]).sum(axis=1) + 0.3 * rng.standard_normal(rows)
    return sparing.Log.from_arrays(contexts, actions, rewards, action_names=range(k)), theta


@pytest.mark.parametrize("kind", ["warm_started", "certified", "linucb", "confident", "economical"])
def test_one_cost_for_all_is_the_cost_inside_the_reward(kind):
    """Exact where nothing shrinks the level: equal costs only move it, and no comparison changes at all."""
    log, theta = with_level(5)
    settings = {"call_cost": 0.01, "horizon": 500} if kind == "economical" else {}
    make = getattr(sparing, kind)
    free, priced = make(log, **settings), make(log, costs=[0.25] * 5, **settings)
    rounds = np.random.default_rng(1)
    for _ in range(150):
        x = np.append(rounds.random(2), 1.0)
        one, other = free.decide(x), priced.decide(x)
        assert (one.action, one.reason, one.needs_reward) == (other.action, other.reason, other.needs_reward)
        assert other.value == pytest.approx(one.value - 0.25, abs=1e-12)
        assert (other.high - other.low) == pytest.approx(one.high - one.low, rel=1e-9)
        if one.needs_reward:
            reward = theta[one.action] @ x + 0.3 * rounds.standard_normal()
            free.update(one, reward)
            priced.update(other, reward)
    assert free.digest() == priced.digest()


def test_costs_are_the_costs_inside_the_reward_where_the_level_is_free():
    """With a ridge that hardly shrinks the level, θ̂ of net rewards is θ̂ less the cost on the level: decisions are equal."""
    log, theta = with_level(6)
    costs = np.array([0.0, 0.4, 0.1, 0.25, 0.05])
    settings = {"noise": 0.3, "theta_bound": 1.0, "context_bound": 2.0, "ridge": 1e-9, "center": "zero"}
    settings["tolerance"] = 0.05
    apart = sparing.certified(log, costs=costs, **settings)
    inside = sparing.certified(shifted(log, costs), **settings)
    rounds, calls = np.random.default_rng(2), 0
    for _ in range(300):
        x = np.append(rounds.random(2), 1.0)
        one, other = apart.decide(x), inside.decide(x)
        assert (one.action, one.reason) == (other.action, other.reason)
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high), abs=1e-6)
        if one.needs_reward:
            calls += 1
            reward = theta[one.action] @ x + 0.3 * rounds.standard_normal()
            apart.update(one, reward)
            inside.update(other, reward - costs[one.action])
    assert calls > 10


@pytest.mark.parametrize("kind", ["confident", "economical"])
def test_with_a_fitted_prior_net_reward_is_as_high(kind):
    """A prior from the log shrinks levels, so decisions may differ; what they earn hardly does."""
    settings = {"call_cost": 0.02, "horizon": 300} if kind == "economical" else {}
    gains = []
    for seed in range(6):
        log, theta = with_level(seed, rows=150)
        costs = np.array([0.0, 0.6, 0.1, 0.3, 0.2])
        apart = getattr(sparing, kind)(log, costs=costs, seed=seed, **settings)
        inside = getattr(sparing, kind)(shifted(log, costs), seed=seed, **settings)
        rounds, earned = np.random.default_rng([seed, 4]), np.zeros(2)
        for _ in range(300):
            x, noise = np.append(rounds.random(2), 1.0), 0.3 * rounds.standard_normal()
            for place, (learner, paid) in enumerate([(apart, 0.0), (inside, costs)]):
                decision = learner.decide(x)
                earned[place] += theta[decision.action] @ x - costs[decision.action]
                if decision.needs_reward:
                    own = paid if np.isscalar(paid) else paid[decision.action]
                    learner.update(decision, theta[decision.action] @ x + noise - own)
        gains.append((earned[0] - earned[1]) / 300)
    error = np.std(gains, ddof=1) / np.sqrt(len(gains))
    assert np.mean(gains) > -0.01 - 2 * error


@pytest.mark.parametrize("kind", ["confident", "economical", "certified"])
def test_a_new_price_changes_the_next_decision_without_a_reward(kind):
    log, _ = with_level(7)
    settings = {"call_cost": 0.5} if kind == "economical" else {"tolerance": 1.0}
    learner = getattr(sparing, kind)(log, costs=[0.0] * 5, **settings)
    x, before = [0.5, 0.5, 1.0], learner.digest()
    best = learner.decide(x).action
    learner.set_costs({best: 10.0})
    dear = learner.decide(x)
    assert dear.action != best
    assert learner.decide(x, costs={best: -10.0}).action == best  # for one round
    assert learner.decide(x).action == dear.action
    learner.set_costs({best: 0.0})
    assert learner.decide(x).action == best
    assert learner.digest() == before


def test_saved_learners_and_policies_keep_their_costs(tmp_path):
    log, _ = with_level(8)
    learner = sparing.economical(log, call_cost=0.01, costs={0: 0.1, 1: 0.0, 2: 0.3, 3: 0.2, 4: 0.0})
    x = np.append(np.random.default_rng(0).random((40, 2)), np.ones((40, 1)), axis=1)
    learner.decide(x[0])
    learner.save(tmp_path / "a.sparing")
    again = sparing.load(tmp_path / "a.sparing")
    assert again.costs == learner.costs
    assert [learner.decide(row)[:8] for row in x] == [again.decide(row)[:8] for row in x]
    policy = learner.policy()
    sparing.save_policy(policy, tmp_path / "p.sparing")
    read = sparing.load_policy(tmp_path / "p.sparing")
    assert np.array_equal(read.costs, policy.costs)
    net = x @ learner.sets.theta.T - learner.action_costs
    assert np.array_equal(read.actions(x), net.argmax(axis=1))


def test_untouched_actions_of_different_costs(monkeypatch):
    """Hundreds of actions share the prior; the cheapest of them leads, and what each costs decides whether it may be better."""
    bounded(monkeypatch, "quick")
    rng, k, theta = np.random.default_rng(9), 400, parameters(9, 400, 4)
    log, counts = make_log(9, theta, rows=600, never=range(4, k)), Counter()
    for least, scale in ((0.0, 1.0), (0.4, 0.5), (0.7, 0.5), (1.0, 0.5)):
        costs = np.where(log.counts > 0, 0.0, least + rng.choice(np.linspace(0.0, 2.0, 7), k))
        learner = sparing.confident(
            log, costs=costs, prior_scale=scale, noise=0.5, spot_check=0.0, tolerance=0.3
        )
        plain = learner.copy()
        use_reference_choice(plain)
        for x in make_rounds(9, theta, 40).contexts:
            first, second = learner.decide(x), plain.decide(x)
            assert first[:7] == second[:7]
            counts[first.reason] += 1
            for one, decision in ((learner, first), (plain, second)):
                if decision.needs_reward:
                    one.update(decision, 0.5)
    assert min(counts["explore"], counts["confident"]) > 20


def test_an_untried_action_is_certified_against_the_next_one_at_its_own_cost():
    """Both have one interval, m ± s: no call exactly if the second costs at least 2s more than the first."""
    log = make_log(2, parameters(2), never=[1, 2], rows=50)
    x = np.array([0.2, 0.5, 0.3])
    free = sparing.certified(log, tolerance=0.0, **GIVEN).decide(x, eligible=[1])
    width = free.high - free.low
    for share, reason in ((0.0, "explore"), (0.99, "explore"), (1.01, "certified")):
        costs = [100.0, 0.0, share * width, 100.0, 100.0, 100.0]
        with pytest.warns(UnitWarning):
            learner = sparing.certified(log, tolerance=0.0, costs=costs, **GIVEN)
        assert learner.decide(x).reason == reason


def test_wrong_costs_are_named():
    log, _ = with_level(10)
    named = {0: 0.1, 1: 0.0, 2: 0.3, 3: 0.2, 4: 0.0}
    for costs, said in [
        ({**named, 9: 0.1}, "9, which is unknown"),
        ({0: 0.1, 1: 0.2}, "leaves out 3 of 5 actions: 2, 3, 4"),
        ({**named, 3: math.nan}, "cost of action 3 is nan"),
        ({**named, 3: "cheap"}, "must be a finite number"),
        ([0.1, 0.2], "2 numbers"),
        (0.3, "must be a mapping"),
    ]:
        with pytest.raises(SettingError, match=said):
            sparing.confident(log, costs=costs)
    learner = sparing.confident(log, costs=named)
    with pytest.raises(DecisionError, match="which is unknown"):
        learner.decide([0.1, 0.2, 1.0], costs={"x": 1.0})
    assert learner.rounds == 0
    with pytest.raises(SettingError, match="expects its cost"):
        learner.add_action("new")
    with pytest.raises(DecisionError, match="leaves out"):
        sparing.confident(log).decide([0.1, 0.2, 1.0], costs={0: 0.1})
    with pytest.raises(SettingError, match="eps_moful_ips"):
        sparing.eps_moful_ips(make_log(1, parameters(1)), supported=sparing.most_logged(1), costs=[0.0] * 6)
    with pytest.warns(UnitWarning, match="larger than the span"):
        sparing.confident(log, costs=[100.0] * 5)
    with pytest.warns(UnitWarning, match="larger than the span"):
        sparing.read_log({"action": ["a", "b"], "reward": [0.0, 1.0]}, costs={"a": 0.0, "b": -40})
