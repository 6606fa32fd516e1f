"""The interval of a decision holds the action's mean reward in 95 % of the decisions, in worlds of the learner's own prior.

Scales of worlds are drawn from the hyperprior, rewards arrive late, and 2, 3, 5 or 10 actions are logged and one is not.
"""

import numpy as np
import pytest

import sparing
from research.tables.predicted import world

WORLDS, ROUNDS, LATE = 50, 20, 3
MAKE = {
    "confident": sparing.confident,
    "economical": lambda log: sparing.economical(log, call_cost=0.05, horizon=1000),
}


def distances(make):
    """|truth − value| in units of the interval's half, for every decision in 200 worlds, (200, ROUNDS)."""
    found = np.empty((4 * WORLDS, ROUNDS))
    places = [(logged, seed) for logged in (2, 3, 5, 10) for seed in range(WORLDS)]
    for row, (logged, seed) in zip(found, places, strict=True):
        log, stream = world("normal", logged, seed, rows=300)
        learner, waiting = make(log), []
        for t in range(ROUNDS):
            decision = learner.decide(stream.contexts[t])
            mean = stream.means[t, decision.action]
            row[t] = abs(mean - decision.value) / (decision.high - decision.value)
            if decision.needs_reward:
                waiting.append((decision, float(mean + stream.draws[t])))
            if len(waiting) > LATE:
                learner.update(*waiting.pop(0))
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("name", MAKE)
def test_95_of_100_intervals_hold(name):
    found = distances(MAKE[name])
    assert (found <= 1).mean() == pytest.approx(0.95, abs=0.02)
    one_deviation = (1.959964 * found <= 1).mean()
    assert one_deviation < 0.8, "the control: one deviation is not 95 %"


@pytest.mark.parametrize("name", ["linucb", "lints"])
def test_intervals_of_baselines_hold_whatever_their_multiplier(name):
    """Worlds of the ridge's prior, N(0, σ²/λ), with σ and λ given."""
    setting, held = {"linucb": "alpha", "lints": "scale"}[name], []
    for seed in range(150):
        rng = np.random.default_rng([seed, 3])
        theta, x = 0.5 * rng.standard_normal((4, 3)), rng.standard_normal((40, 3))
        actions = rng.integers(3, size=40)
        rewards = (x * theta[actions]).sum(axis=1) + 0.5 * rng.standard_normal(40)
        log = sparing.Log.from_arrays(x, actions, rewards, action_names=range(4))
        for multiplier in (0.2, 3.0):
            learner = getattr(sparing, name)(log, noise=0.5, ridge=1.0, seed=seed, **{setting: multiplier})
            made = learner.decide_many(x := rng.standard_normal((5, 3)))
            means = (x * theta[made.actions]).sum(axis=1)
            held += ((made.lows <= means) & (means <= made.highs)).tolist()
    assert np.mean(held) == pytest.approx(0.95, abs=0.02)


def test_rewards_that_have_not_arrived_do_not_narrow_an_interval():
    log, stream = world("normal", 2, 0, rows=40)
    learner = sparing.linucb(log)
    x = stream.contexts[0]
    first = learner.decide(x, eligible=[2])
    assert first.needs_reward
    again = [learner.decide(x, eligible=[2]) for _ in range(3)]
    assert {(one.low, one.high) for one in again} == {(first.low, first.high)}
    learner.update(first, first.value)
    after = learner.decide(x, eligible=[2])
    assert after.high - after.low < 0.95 * (first.high - first.low)


def test_the_level_is_stated():
    log, _ = world("normal", 2, 0, rows=40)
    assert [sparing.confident(log).level, sparing.linucb(log).level] == [0.95, 0.95]
    assert sparing.certified(log, tolerance=0.1, delta=0.2).level == pytest.approx(0.8)
    assert sparing.certified(log, tolerance=0.1, radius_scale=0.3).level is None
