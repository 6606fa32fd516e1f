"""The empirical-Bayes prior: its formula, and when it must be given."""

import numpy as np
import pytest

from sparing.errors import SettingError
from sparing.log import Log
from sparing.model.assumptions import empirical_prior
from sparing.model.statistics import Statistics
from sparing.simulation import LinearWorld, draw_log

D = 2


def sums_of(counts, *, seed=0, theta=None, noise=1.0):
    rng = np.random.default_rng(seed)
    actions = np.repeat(np.arange(len(counts)), counts)
    theta = rng.normal(size=(len(counts), D)) if theta is None else np.asarray(theta)
    contexts = rng.uniform(size=(len(actions), D))
    rewards = np.einsum("ij,ij->i", contexts, theta[actions]) + noise * rng.normal(size=len(actions))
    log = Log.from_arrays(contexts, actions, rewards, action_names=list(range(len(counts))))
    return log, Statistics.of(log)


def test_mean_and_scale_come_from_least_squares_of_the_well_logged_actions():
    log, sums = sums_of([20, 4, 3, 9, 0, 1])
    known = [0, 1, 3]  # N_a ≥ 2d = 4
    theta = np.array(
        [
            np.linalg.lstsq(log.contexts[log.actions == a], log.rewards[log.actions == a], rcond=None)[0]
            for a in known
        ]
    )
    center = theta.sum(axis=0) / 3
    variance = ((theta - center) ** 2).sum(axis=0) / (3 - 1)
    prior = empirical_prior(sums, 1.0)
    np.testing.assert_allclose(prior.mean, center, rtol=1e-9)
    np.testing.assert_allclose(prior.scale, np.sqrt(variance.mean()), rtol=1e-9)
    assert prior.actions == 3


def test_hand_worked_prior_of_noiseless_actions():
    """θ = (0, 1), (2, 1), (4, 1): mean (2, 1), variances 4 and 0, so s₀ = √2."""
    _, sums = sums_of([30, 30, 30, 0], theta=[[0, 1], [2, 1], [4, 1], [99, 99]], noise=0.0)
    prior = empirical_prior(sums, 1.0)
    np.testing.assert_allclose(prior.mean, [2, 1], atol=1e-9)
    np.testing.assert_allclose(prior.scale, np.sqrt(2), rtol=1e-9)


def test_the_scale_is_not_corrected_for_estimation_noise():
    """Equal true parameters, noisy rows: the corrected variance would be about 0, this one is not."""
    _, sums = sums_of([40] * 30, theta=[[1.0, 1.0]] * 30, noise=2.0)
    expected = np.sqrt(np.mean([np.trace(np.linalg.inv(gram)) for gram in sums.gram]) * 2.0**2 / D)
    # From 30 actions s₀² deviates by at most √(2/29), 26 % of it, and s₀ by half of that.
    assert abs(empirical_prior(sums, 1.0).scale / expected - 1) < 3 * 0.13


@pytest.mark.parametrize("counts", [[20, 20], [20, 20, 3], [20, 20, 0, 0], [1, 1, 1, 1], [0, 0, 0]])
def test_fewer_than_three_well_logged_actions_ask_for_a_scale(counts):
    _, sums = sums_of(counts)
    with pytest.raises(SettingError, match="prior_scale="):
        empirical_prior(sums, 1.0)
    with pytest.raises(SettingError, match="prior_scale="):
        empirical_prior(sums, 1.0, mean=[0.0, 0.0])
    given = empirical_prior(sums, 1.0, scale=0.5)
    np.testing.assert_array_equal(given.mean, [0, 0])
    assert (given.scale, given.actions) == (0.5, 0)
    centred = empirical_prior(sums, 1.0, scale=0.5, mean=[1, 2])
    np.testing.assert_array_equal(centred.mean, [1.0, 2.0])
    assert centred.scale == 0.5


def test_a_given_mean_replaces_the_mean_alone():
    _, sums = sums_of([20, 20, 20])
    learnt, given = empirical_prior(sums, 1.0), empirical_prior(sums, 1.0, mean=[5, 6])
    np.testing.assert_array_equal(given.mean, [5, 6])
    assert (given.scale, given.actions) == (learnt.scale, 3)


def test_the_prior_keeps_a_copy_of_the_mean():
    _, sums = sums_of([20, 20, 20])
    mean = np.array([1.0, 2.0])
    prior = empirical_prior(sums, 1.0, scale=1.0, mean=mean)
    mean[0] = 99
    np.testing.assert_array_equal(prior.mean, [1, 2])


@pytest.mark.parametrize(
    "mean", [[1.0], [1.0, 2.0, 3.0], 1.0, [[1.0, 2.0]], [1.0, float("nan")], [float("inf"), 0.0]]
)
def test_a_mean_of_the_wrong_shape_or_not_finite_is_refused(mean):
    _, sums = sums_of([20, 20, 20])
    with pytest.raises(SettingError, match="prior_mean"):
        empirical_prior(sums, 1.0, mean=mean)
    with pytest.raises(SettingError, match="prior_mean"):
        empirical_prior(sums, 1.0, mean=mean, scale=1.0)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_is_not_positive_is_refused(scale):
    _, sums = sums_of([20, 20, 20])
    with pytest.raises(SettingError, match="prior_scale="):
        empirical_prior(sums, 1.0, scale=scale)


def test_actions_that_do_not_differ_ask_for_a_scale():
    _, sums = sums_of([20, 20, 20], theta=np.zeros((3, D)), noise=0.0)
    with pytest.raises(SettingError, match="prior_scale="):
        empirical_prior(sums, 1.0)


def test_a_given_scale_leaves_the_mean_to_the_log():
    """Otherwise offset rewards lock never-logged actions out."""
    log = draw_log(LinearWorld(n_actions=6, n_features=2, noise=0.1, seed=0, offset=5.0), rows=600, seed=1)
    sums = Statistics.of(log)
    assert np.array_equal(empirical_prior(sums, 1.0, scale=1.0).mean, empirical_prior(sums, 1.0).mean)
    assert empirical_prior(sums, 1.0, scale=1.0).scale == 1.0
