"""The noise monitor stays quiet where the noise is right, and finds the factor where it is not."""

import numpy as np
import pytest

import sparing
from reference.cases import make_log, make_rounds, parameters
from sparing.model.confidence import Assumptions
from sparing.model.statistics import Statistics
from sparing.online.confidence_sets import ConfidenceSets
from sparing.online.engine.updates import monitor_residual

RUNS, CALLS = 300, 200


def watching(noise, misfit=0.0):
    """Sets that watch the noise of live rewards."""
    nothing = Statistics(np.zeros(1, dtype=np.int64), np.zeros((1, 1, 1)), np.zeros((1, 1)), np.zeros(1), 0.0)
    assumptions = Assumptions(noise=noise, theta_bound=0.0, context_bound=0.0)
    return ConfidenceSets(nothing, assumptions, constant=noise, misfit=misfit, watch=True)


def posterior_runs(runs, factor):
    """Bayesian regressions of one action each, whose rewards have `factor` times the noise believed in."""
    rng = np.random.default_rng(4)
    watched = [watching(noise=0.5) for _ in range(runs)]
    theta = rng.standard_normal((runs, 3))
    gram, response = np.tile(0.5**2 * np.eye(3), (runs, 1, 1)), np.zeros((runs, 3))
    for _ in range(CALLS):
        x = rng.random((runs, 3))
        rewards = (x * theta).sum(axis=1) + factor * 0.5 * rng.standard_normal(runs)
        inverse = np.linalg.inv(gram)
        means = np.einsum("ni,nij,nj->n", x, inverse, response)
        widths = np.sqrt(np.einsum("ni,nij,nj->n", x, inverse, x))
        for sets, *call in zip(watched, rewards, means, widths, strict=True):
            monitor_residual(sets.scratch.observed, *call)
        gram += x[:, :, None] * x[:, None, :]
        response += x * rewards[:, None]
    return [sets.monitor for sets in watched]


def test_no_inflation_at_the_right_noise():
    """The limit is the 99.9 % point of the surprise: of a thousand runs that are right, one inflates."""
    inflated = sum(monitor.inflation > 1 for monitor in posterior_runs(RUNS, 1.0))
    assert inflated <= 0.01 * RUNS


def test_standardised_errors_have_mean_square_one_at_the_right_noise():
    """They are independent normals, so that the mean of their squares has deviation sqrt(2/n)."""
    surprises = [monitor.mean_squared_residual for monitor in posterior_runs(RUNS, 1.0)]
    assert np.mean(surprises) == pytest.approx(1, abs=4 * np.sqrt(2 / CALLS / RUNS))


@pytest.mark.parametrize("factor", [2.0, 4.0])
def test_inflation_comes_to_the_right_factor(factor):
    """(r − m)²/(σ² + s²) has mean near factor² once s is small, so that its root is near the factor."""
    inflations = np.array([monitor.inflation for monitor in posterior_runs(100, factor)])
    assert np.abs(inflations / factor - 1).max() < 4 * np.sqrt(1 / (2 * CALLS)) + 0.03
    assert np.mean(inflations) == pytest.approx(factor, rel=0.03)


def test_less_noise_than_believed_never_shrinks_it():
    assert {monitor.inflation for monitor in posterior_runs(20, 0.1)} == {1.0}


def test_nothing_observed_inflates_nothing():
    monitor = watching(noise=2.0).monitor
    assert (monitor.inflation, monitor.mean_squared_residual) == (1.0, 1.0)


def test_misfit_counts_as_deviation():
    sets = watching(noise=1.0, misfit=2.0)
    monitor_residual(sets.scratch.observed, 3.0, 1.0, 0.5)
    assert sets.monitor.mean_squared_residual == pytest.approx(4 / (1 + 0.25 + 4))


def test_a_learner_widens_by_the_inflation():
    theta = parameters(6)
    log = make_log(6, theta)
    learner = sparing.confident(log, noise=0.5, spot_check=0.5, seed=6)
    rounds = make_rounds(6, theta, 400, noise=1.5)
    for x, rewards in zip(rounds.contexts, rounds.rewards, strict=True):
        decision = learner.decide(x)
        if decision.needs_reward:
            learner.update(decision, rewards[decision.action])
    assert learner.calls > 150
    assert learner.monitor.inflation == pytest.approx(3, rel=0.25)
    width = np.sqrt(x @ learner.sets.inverse[0] @ x)
    assert learner.sets.evaluate(x)[1][0] == pytest.approx(0.5 * learner.monitor.inflation * width)
