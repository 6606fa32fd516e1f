"""The loop and its trace: checked arguments, budgets, progress, and the identities of a run."""

import numpy as np
import pytest

from sparing import certified, confident, eps_moful_ips, moful, most_logged, simulate
from sparing.errors import SettingError
from sparing.simulation import LinearWorld, Trace, draw_log
from sparing.simulation.simulate import REPORT_EVERY

WORLD = LinearWorld(n_actions=4, n_features=2, noise=0.5, seed=1)
LOG = draw_log(WORLD, rows=800, support="never-logged", unsupported=0.25, seed=1)
GIVEN = {"noise": 0.5, "theta_bound": 3.0, "context_bound": 1.5}

LEARNERS = {
    "moful": lambda: moful(LOG, **GIVEN),
    "eps_moful_ips": lambda: eps_moful_ips(LOG, supported=most_logged(2), radius_scale=0.2, **GIVEN),
    "certified": lambda: certified(LOG, tolerance=0.5, radius_scale=0.5, **GIVEN),
    "confident": lambda: confident(LOG, spot_check=0.05, **GIVEN),
}


@pytest.fixture
def learner():
    return moful(n_actions=4, n_features=2, **GIVEN)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_trace_keeps_its_identities(name):
    learner = LEARNERS[name]()
    trace = simulate(learner, WORLD, rounds=300, seed=4, stream="in-log", log=LOG)
    assert len(trace) == 300
    assert trace.algorithm == name
    np.testing.assert_array_equal(trace.calls, [trace.needs_reward[: t + 1].sum() for t in range(300)])
    np.testing.assert_allclose(trace.regret, [trace.losses[: t + 1].sum() for t in range(300)])
    assert (trace.losses >= 0).all()
    assert sum(trace.reason_counts().values()) == 300
    assert trace.reason_counts() == {reason: (trace.reasons == reason).sum() for reason in set(trace.reasons)}
    np.testing.assert_array_equal(trace.needs_reward, np.isin(trace.reasons, ["explore", "spot-check"]))
    np.testing.assert_array_equal(trace.skipped_losses, trace.losses[~trace.needs_reward])
    assert (learner.calls, learner.rounds, len(learner.open)) == (trace.calls[-1], 300, 0)
    if name != "moful":
        assert 0 < trace.calls[-1] < 300, "both calls and skips, or this test shows little"


def test_losses_are_the_gaps_of_the_worlds_own_means(learner):
    """Rebuilt from the stream that the seed fixes."""
    trace = simulate(learner, WORLD, rounds=60, seed=4)
    stream = WORLD.live_stream(60, np.random.default_rng([4, 3]))
    means = np.array([[x @ theta for theta in WORLD.theta] for x in stream.contexts])
    np.testing.assert_allclose(trace.losses, means.max(axis=1) - means[np.arange(60), trace.actions])


def test_called_rewards_and_only_they_reach_the_learner():
    learner = certified(LOG, tolerance=0.5, radius_scale=0.5, **GIVEN)
    trace = simulate(learner, WORLD, rounds=200, seed=4)
    called = np.bincount(trace.actions[trace.needs_reward], minlength=4)
    np.testing.assert_array_equal(learner.sets.live, called)


def test_a_run_can_be_repeated_and_continued(learner):
    twin = learner.copy()
    first, again = (simulate(one, WORLD, rounds=50, seed=2) for one in (learner, twin))
    np.testing.assert_array_equal(first.actions, again.actions)
    np.testing.assert_array_equal(first.losses, again.losses)
    simulate(learner, WORLD, rounds=50, seed=3)
    assert learner.rounds == 100


@pytest.mark.parametrize("budget", [0, 1, 30])
def test_a_budget_ends_the_run_with_its_last_call(budget):
    learner = LEARNERS["confident"]()
    whole = simulate(learner.copy(), WORLD, rounds=600, seed=4)
    trace = simulate(learner, WORLD, rounds=600, seed=4, call_budget=budget)
    assert 30 < whole.calls[-1] < 600
    assert trace.needs_reward.sum() == learner.calls == budget
    assert len(trace) == (0 if budget == 0 else np.searchsorted(whole.calls, budget) + 1)
    np.testing.assert_array_equal(trace.actions, whole.actions[: len(trace)])
    np.testing.assert_array_equal(trace.losses, whole.losses[: len(trace)])


def test_a_budget_that_is_never_spent_changes_nothing(learner):
    assert len(simulate(learner, WORLD, rounds=40, call_budget=41)) == 40


@pytest.mark.parametrize(("rounds", "budget"), [(0, None), (450, None), (400, None), (450, 210), (450, 0)])
def test_progress_rises_and_ends_at_the_total(learner, rounds, budget):
    heard = []
    simulate(
        learner,
        WORLD,
        rounds=rounds,
        call_budget=budget,
        progress=lambda done, total: heard.append((done, total)),
    )
    done = [done for done, _ in heard]
    assert {total for _, total in heard} == {rounds}
    assert done == sorted(done)
    assert done[-1] == rounds
    played = rounds if budget is None else budget
    assert set(range(REPORT_EVERY, played + 1, REPORT_EVERY)) <= set(done)


def test_no_rounds_make_an_empty_trace(learner):
    trace = simulate(learner, WORLD, rounds=0)
    assert len(trace) == len(trace.calls) == len(trace.regret) == 0
    assert trace.reason_counts() == {}
    assert repr(trace) == "Trace(moful, 0 rounds)"


def test_a_trace_shows_its_totals():
    trace = Trace(
        "moful",
        np.array([0, 1, 0]),
        np.array([True, False, True]),
        np.array(["explore", "certified", "explore"]),
        np.array([0.5, 0.25, 0.0]),
    )
    assert repr(trace) == "Trace(moful, 3 rounds, 2 calls, regret 0.75)"
    assert trace.reason_counts() == {"explore": 2, "certified": 1}


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"rounds": 5, "stream": "replayed"}, "'replayed'.*fresh, in-log"),
        ({"rounds": 5, "stream": "in-log"}, "pass log="),
        ({"rounds": -1}, "rounds=-1"),
        ({"rounds": None}, "rounds=None"),
        ({"rounds": 5, "call_budget": -1}, "call_budget=-1"),
    ],
)
def test_bad_arguments_are_refused(learner, settings, complaint):
    with pytest.raises(SettingError, match=complaint):
        simulate(learner, WORLD, **settings)
    assert learner.rounds == 0


@pytest.mark.parametrize(
    "shape",
    [
        {"n_actions": 5, "n_features": 2},
        {"n_actions": 4, "n_features": 3},
        {"actions": list("abcd"), "n_features": 2},
    ],
)
def test_a_learner_of_another_world_is_refused(shape):
    with pytest.raises(SettingError, match="4 and 2, or their labels differ"):
        simulate(moful(**shape), WORLD, rounds=5)


def test_a_log_of_another_world_is_refused(learner):
    """One feature would otherwise spread over two without a word."""
    log = draw_log(LinearWorld(n_actions=4, n_features=1), rows=20)
    with pytest.raises(SettingError, match="have 1 features, the world's 2"):
        simulate(learner, WORLD, rounds=5, stream="in-log", log=log)
