"""Many contexts at once: as one by one, and nothing changes."""

import numpy as np
import pytest

import sparing
from sparing.errors import DecisionError
from sparing.online.engine.state import NEVER
from sparing.simulation import LinearWorld, draw_log

WORLD = LinearWorld(n_actions=30, n_features=6, noise=0.5, seed=1)
LOG = draw_log(WORLD, rows=900, support="never-logged", unsupported=0.2, seed=1)
GIVEN = {"noise": 0.5, "theta_bound": 4.0, "context_bound": 2.5, "radius_scale": 0.2}
LEARNERS = {
    "moful": lambda: sparing.moful(LOG, **GIVEN),
    "eps_moful_ips": lambda: sparing.eps_moful_ips(
        LOG, supported=sparing.most_logged(5), clip="inf", **GIVEN
    ),
    "policy": lambda: sparing.eps_moful_ips(LOG, supported=sparing.most_logged(5), answer="policy", **GIVEN),
    "limit": lambda: sparing.eps_moful_ips(LOG, supported=sparing.most_logged(5), beats="limit", **GIVEN),
    "certified": lambda: sparing.certified(LOG, tolerance=0.5, **GIVEN),
    "confident": lambda: sparing.confident(LOG, tolerance=0.3, spot_check=0, noise=0.5),
    "economical": lambda: sparing.economical(LOG, call_cost=0.002, horizon=5000, noise=0.5),
    "lints": lambda: sparing.lints(LOG, **GIVEN),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_the_answers_are_those_of_decide(name, monkeypatch):
    """Also in parts, by several threads."""
    monkeypatch.setattr("sparing.online.decision.PART", 50)
    learner, twin = LEARNERS[name](), LEARNERS[name]()
    sparing.simulate(learner, WORLD, rounds=100, seed=3)
    sparing.simulate(twin, WORLD, rounds=100, seed=3)
    contexts = np.concatenate([LOG.contexts[:150], WORLD.contexts(150, np.random.default_rng(4))])
    before = learner.rounds, learner.calls, learner.digest()
    found = learner.decide_many(contexts, threads=3)
    assert (learner.rounds, learner.calls, learner.digest()) == before
    assert not learner.open
    expected = []
    twin.sets.arrays.sampled_from = NEVER  # what was decided before changes no answer
    twin.find_next_entry()
    for x in contexts:
        expected.append(twin.decide(x))
        if expected[-1].needs_reward:
            twin.forget(expected[-1])
    assert found.labels() == [decision.action for decision in expected]
    assert found.needs_reward.tolist() == [decision.needs_reward for decision in expected]
    assert found.reasons.tolist() == [decision.reason for decision in expected]
    assert found.values.tolist() == [decision.value for decision in expected]
    assert found.lows.tolist() == [decision.low for decision in expected]
    assert found.highs.tolist() == [decision.high for decision in expected]
    assert len(found) == 300


def test_no_contexts_no_answers():
    assert len(LEARNERS["certified"]().decide_many(np.empty((0, 6)))) == 0


@pytest.mark.parametrize(
    "contexts", [np.ones(6), np.ones((2, 5)), np.array([["a"] * 6]), np.full((3, 6), np.nan)]
)
def test_contexts_that_do_not_fit_are_refused(contexts):
    with pytest.raises(DecisionError, match="context"):
        LEARNERS["moful"]().decide_many(contexts)


def test_ids_and_threads_that_do_not_fit_are_refused():
    with pytest.raises(DecisionError, match="one for each of 2"):
        LEARNERS["moful"]().decide_many(np.ones((2, 6)), context_ids=[1])
    with pytest.raises(DecisionError, match="threads=0"):
        LEARNERS["moful"]().decide_many(np.ones((2, 6)), threads=0)


def test_a_call_that_must_be_looked_at_closely_is_a_call():
    """Contexts of very different sizes: a bound cannot show that a reward could be learnt exactly."""
    learner = sparing.linucb(
        actions=["a", "b"], n_features=2, noise=1.0, theta_bound=1.0, context_bound=1.0, ridge=1e-6
    )
    contexts = np.array([[1e4, 1.0], [1.0, 1.0]])
    many = learner.decide_many(contexts)
    assert many.needs_reward.tolist() == [True, True]
    assert many.reasons.tolist() == ["explore", "explore"]
    assert [learner.decide(x).needs_reward for x in contexts] == [True, True]


def test_the_summary_does_not_count_calls():
    """Each answer is for the next round: a run that learns makes far fewer calls than the answers add up to."""
    learner = LEARNERS["economical"]()
    contexts = WORLD.contexts(1500, np.random.default_rng(4))
    found = learner.decide_many(contexts)
    wanted = int(found.needs_reward.sum())
    assert sparing.simulate(learner.copy(), WORLD, rounds=1500, seed=3).calls[-1] < wanted / 2
    told = repr(found)
    assert str(wanted) not in told.partition("contexts")[2]
    assert "next round" in told
    assert f"{wanted / 1500:.0%}" in told
