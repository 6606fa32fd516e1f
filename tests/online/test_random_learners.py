"""Learners that draw luck: compiled rounds are those that the plain rules choose with all actions in view."""

import numpy as np
import pytest

import sparing
from reference.rules import use_reference_choice
from sparing.simulation import LinearWorld, draw_log

GIVEN = {"noise": 0.5, "theta_bound": 4.0, "context_bound": 2.5}
LEARNERS = {
    "spot checks": lambda log: sparing.confident(log, tolerance=0.2, spot_check=0.3, noise=0.5),
    "sampled": lambda log: sparing.confident(
        log, tolerance=0.2, spot_check=0.1, explore="sampled", noise=0.5
    ),
    "wider": lambda log: sparing.confident(log, tolerance=0.2, spot_check=0.2, explore="wider", noise=0.5),
    "lints": lambda log: sparing.lints(log, **GIVEN),
    "lints cold": lambda log: sparing.lints(actions=log.action_names, n_features=log.n_features, **GIVEN),
}


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("name", LEARNERS)
def test_the_same_rounds_and_propensities(name, bounded, monkeypatch):
    """Eligible subsets and untouched actions among them."""
    monkeypatch.setattr("sparing.online.confidence_sets.BOUNDED_FROM", 0 if bounded else 10**12)
    world = LinearWorld(n_actions=12, n_features=4, noise=0.5, seed=2)
    log = draw_log(world, rows=400, support="never-logged", unsupported=0.25, seed=2)
    fast, plain = LEARNERS[name](log), LEARNERS[name](log)
    use_reference_choice(plain)
    rng = np.random.default_rng(5)
    reasons = set()
    for t in range(400):
        x = world.contexts(1, rng)[0]
        eligible = None if t % 3 else rng.permutation(12)[: rng.integers(1, 13)].tolist()
        one, two = fast.decide(x, eligible=eligible), plain.decide(x, eligible=eligible)
        assert one[:4] == two[:4]
        assert one[4:7] == two[4:7]
        assert one.play_probability == pytest.approx(two.play_probability, rel=1e-9)
        assert one.call_probability == pytest.approx(two.call_probability, rel=1e-9)
        reasons.add(one.reason)
        if one.needs_reward:
            reward = float(world.theta[one.action] @ x + 0.5 * rng.standard_normal())
            fast.update(one, reward)
            plain.update(two, reward)
    assert reasons == ({"explore"} if "lints" in name else {"explore", "confident", "spot-check"})


def test_ten_thousand_actions_take_little_time_and_memory():
    """A round of `confident` with many untouched actions does not look at each of them."""
    log = draw_log(LinearWorld(n_actions=2000, n_features=3, seed=0), rows=900, never=range(40, 2000), seed=0)
    learner = sparing.confident(log, spot_check=0.2, noise=2.0)
    for x in np.random.default_rng(1).random((50, 3)):
        decision = learner.decide(x)
        if decision.needs_reward:
            assert 0 < decision.call_probability <= decision.play_probability <= 1
            learner.update(decision, 0.5)
