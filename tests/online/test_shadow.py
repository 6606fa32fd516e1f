"""Shadow calls of a learner: the best mean is served, the call is worth what its definition says, and new actions are still found."""

import numpy as np
import pytest

import sparing
from reference.worth import costs_of, expected, priority
from sparing.errors import DecisionError
from sparing.simulation import LinearWorld, draw_log

NOISE = 0.7
LEARNERS = {
    "economical": {"call_cost": 0.02, "horizon": 2000},
    "confident": {"tolerance": 0.05, "spot_check": 0.1},
    "certified": {"tolerance": 0.3, "radius_scale": 0.3},
    "warm_started": {"radius_scale": 0.3},
    "moful": {"radius_scale": 0.3},
    "eps_moful": {"supported": sparing.most_logged(3)},
    "eps_moful_ips": {"supported": sparing.most_logged(3)},
    "linucb": {},
    "lints": {},
}


def world_and_log(seed, k=6, d=3, rows=150, never=0.4):
    world = LinearWorld(n_actions=k, n_features=d, noise=NOISE, seed=seed)
    return world, draw_log(world, rows=rows, support="never-logged", unsupported=never, seed=seed)


def best_mean(learner, x, eligible=None, costs=None):
    """The action with the best mean of reward − cost, by the definition."""
    mean, _ = learner.sets.evaluate(x)
    mean = mean - costs_of(learner, costs)
    mean[~(learner.active() if eligible is None else eligible)] = -np.inf
    return int(np.lexsort((priority(learner, costs), -mean))[0])


@pytest.mark.parametrize("bounds", ["none", "quick"])
def test_the_call_is_worth_its_gain_without_the_loss(bounds, monkeypatch):
    """Eligible actions, costs, pending calls, a budget: the compiled choice is the definition."""
    monkeypatch.setattr("sparing.online.confidence_sets.BOUNDED_FROM", 10**12 if bounds == "none" else 0)
    monkeypatch.setattr("sparing.online.confidence_sets.QUICK_FROM", 0)
    counts = {"call": 0, "none": 0, "pending": 0}
    differs = 0
    for seed, more in enumerate(({}, {"calls": 60}, {"costs": True}, {"misfit": 0.3})):
        world, log = world_and_log(seed)
        costs = (
            {name: 0.1 * place for place, name in enumerate(log.action_names)}
            if more.pop("costs", 0)
            else None
        )
        learner = sparing.economical(log, call_cost=0.02, horizon=2000, seed=seed, costs=costs, **more)
        rng, waiting = np.random.default_rng(seed), []
        for t in range(250):
            x = rng.random(3)
            mask = rng.random(6) < 0.6
            mask = mask if rng.random() < 0.3 and mask.any() else None
            round_costs = rng.random(6) if costs and rng.random() < 0.3 else None
            expect = in_shadow(learner, x, mask, round_costs)
            names = None if mask is None else [learner.action_names[a] for a in np.flatnonzero(mask)]
            decision, also = learner.decide_in_shadow(x, eligible=names, costs=round_costs)
            assert learner.index(decision.action) == expect[2]
            assert not decision.needs_reward
            assert (None if also is None else learner.index(also.action)) == expect[0], f"round {t}"
            assert decision.worth == pytest.approx(expect[1], rel=1e-6, abs=1e-12)
            counts["call" if also else "pending" if decision.reason == "pending" else "none"] += 1
            if also is not None:
                assert decision.reason == "also"
                assert also.worth == decision.worth
                differs += also.action != decision.action
                mean = world.theta[learner.index(also.action)] @ x
                waiting.append((t + rng.integers(40), also, mean + NOISE * rng.standard_normal()))
            for due in [one for one in waiting if one[0] <= t]:
                waiting.remove(due)
                learner.update(*due[1:])
    assert min(counts.values()) > 5, counts
    assert differs > 50


def in_shadow(learner, x, mask, costs):
    """The call's action and worth, and the best mean, by the definition."""
    played = best_mean(learner, x, mask, costs)
    action, called, worth = expected(learner, x, mask, costs=costs, loses=False)
    if called and learner._imputed:
        action, called, worth = expected(learner, x, mask, ahead=True, costs=costs, loses=False)
    return (action, worth, played) if called else (None, 0.0, played)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_serves_the_best_mean_and_calls_where_it_would_call(name):
    """For all but `economical` the shadow calls are the calls of `decide`."""
    world, log = world_and_log(1)
    learner = getattr(sparing, name)(log, seed=3, **LEARNERS[name])
    rng, calls = np.random.default_rng(5), 0
    for _ in range(80):
        x = rng.random(3)
        twin = learner.copy()
        best = best_mean(learner, x)
        decision, also = learner.decide_in_shadow(x)
        assert learner.index(decision.action) == best
        assert (decision.play_probability, decision.needs_reward) == (1.0, False)
        if name != "economical":
            plain = twin.decide(x)
            assert plain.needs_reward == (also is not None)
            assert also is None or (also.action, also.reason) == (plain.action, plain.reason)
            assert also is not None or decision.reason == plain.reason
        if also is not None:
            calls += 1
            action = learner.index(also.action)
            rewards = learner.sets.live[action]
            learner.update(also, float(world.theta[action] @ x + NOISE * rng.standard_normal()))
            assert learner.sets.live[action] == rewards + 1
    assert calls == learner.calls > 0
    assert learner.rounds == 80


def live(learner, world, rounds, *, rewarded=True, seed=0):
    """Rounds in the shadow; losses of what was served, of each round."""
    rng, losses = np.random.default_rng([seed, 4]), []
    for _ in range(rounds):
        x = world.contexts(1, rng)[0]
        best = best_mean(learner, x)
        decision, also = learner.decide_in_shadow(x)
        served = learner.index(decision.action)
        assert served == best, "nobody is served an experiment"
        losses.append((world.theta @ x).max() - world.theta[served] @ x)
        if also is not None:
            value = world.theta[learner.index(also.action)] @ x + world.noise * rng.standard_normal()
            if rewarded:
                learner.update(also, float(value))
            else:
                learner.forget(also)
    return np.array(losses)


def test_nobody_is_served_an_experiment_and_the_new_best_action_is_found():
    """The best action was never logged. Without the rewards of shadow calls (the control) nothing is found."""
    found = {True: [], False: []}
    for seed in range(6):
        world = LinearWorld(n_actions=4, n_features=3, noise=0.5, seed=seed)
        best = int(np.argmax(world.theta.sum(axis=1)))
        log = draw_log(world, rows=400, never=[best], seed=seed)
        for rewarded, losses in found.items():
            learner = sparing.economical(log, call_cost=0.02, horizon=2000)
            lost = live(learner, world, 800, rewarded=rewarded, seed=seed)
            losses.append(lost[-400:].mean())
            if rewarded:
                assert learner.calls < 400
    assert np.mean(found[True]) < 0.25 * np.mean(found[False])


def test_a_saved_learner_goes_on_in_the_shadow_bit_for_bit(tmp_path):
    world, log = world_and_log(2)
    learner = sparing.economical(log, call_cost=0.01, horizon=3000)
    live(learner, world, 40)
    _, also = next(
        made for x in np.random.default_rng(1).random((50, 3)) if (made := learner.decide_in_shadow(x))[1]
    )
    learner.save(tmp_path / "it.sparing")
    again = sparing.load(tmp_path / "it.sparing")
    for each in (learner, again):
        each.update(also.id, 0.4)
    x = np.array([0.2, 0.4, 0.9])
    assert again.digest() == learner.digest()
    assert again.decide_in_shadow(x) == learner.decide_in_shadow(x)


def test_rewards_of_what_was_served_are_refused():
    _, log = world_and_log(2)
    learner = sparing.warm_started(log)
    decision, also = learner.decide_in_shadow([0.1, 0.2, 0.3])
    with pytest.raises(DecisionError, match="needs no reward"):
        learner.update(decision, 1.0)
    learner.update(also, 1.0)
    with pytest.raises(DecisionError, match="is closed"):
        learner.update(also, 1.0)


def test_a_proposal_changes_nothing_and_is_the_decision():
    _, log = world_and_log(4)
    for name in ("economical", "confident", "lints"):
        learner = getattr(sparing, name)(log, seed=3, **LEARNERS[name])
        x, before = np.array([0.3, 0.9, 0.1]), learner.digest()
        first = learner.propose_in_shadow(x, entropy=b"e")
        assert first == learner.propose_in_shadow(x, entropy=b"e")
        assert (learner.rounds, learner.calls, learner.digest(), learner.open) == (0, 0, before, {})
        if name == "economical":
            served, also = learner.decide_in_shadow(x)
            assert (served.value, also and also.worth) == (first[0].value, first[1] and first[1].worth)
