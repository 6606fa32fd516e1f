"""Regression from sums agrees with regression from rows; the noise estimate is an upper limit."""

import numpy as np
import pytest
from scipy import stats

from sparing.errors import SettingError
from sparing.log import Log
from sparing.model.statistics import Statistics, least_squares, residual_noise, ridge_regression


def draw(rng, *, rows, n_actions, d, noise=1.0, scale=1.0):
    theta = rng.normal(size=(n_actions, d))
    contexts = scale * rng.uniform(size=(rows, d))
    actions = rng.permutation(np.arange(rows) % n_actions)
    rewards = np.einsum("ij,ij->i", contexts, theta[actions]) + noise * rng.normal(size=rows)
    return Log.from_arrays(contexts, actions, rewards, action_names=list(range(n_actions)))


def rows_of(log, action):
    chosen = log.actions == action
    return log.contexts[chosen], log.rewards[chosen]


def ridge_from_rows(x, r, ridge):
    """Least squares with √λ·I as d further rows that earned 0."""
    d = x.shape[1]
    design = np.vstack([x, np.sqrt(ridge) * np.eye(d)])
    return np.linalg.lstsq(design, np.concatenate([r, np.zeros(d)]), rcond=None)[0]


@pytest.mark.parametrize("ridge", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize(("rows", "d"), [(60, 4), (12, 4), (8, 10)], ids=["many", "few", "d>n"])
def test_ridge_equals_least_squares_with_rows_for_the_ridge(ridge, rows, d):
    log = draw(np.random.default_rng(rows), rows=rows, n_actions=4, d=d)
    theta = ridge_regression(Statistics.of(log), ridge)
    for action in range(4):
        np.testing.assert_allclose(
            theta[action], ridge_from_rows(*rows_of(log, action), ridge), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_least_squares_equals_lstsq_whatever_the_unit_of_the_contexts(scale):
    log = draw(np.random.default_rng(1), rows=80, n_actions=3, d=5, scale=scale)
    theta = least_squares(Statistics.of(log), ridge=1.0)
    for action in range(3):
        x, r = rows_of(log, action)
        expected = np.linalg.lstsq(x, r, rcond=None)[0]
        np.testing.assert_allclose(theta[action], expected, rtol=1e-7, atol=1e-9 / scale)


def test_least_squares_does_not_depend_on_the_ridge_where_the_gram_matrix_is_regular():
    sums = Statistics.of(draw(np.random.default_rng(2), rows=60, n_actions=3, d=4))
    np.testing.assert_array_equal(least_squares(sums, 1e-3), least_squares(sums, 1e3))


def test_a_singular_gram_matrix_falls_back_to_ridge_and_only_there():
    rng = np.random.default_rng(3)
    contexts = rng.normal(size=(40, 3))
    actions = np.arange(40) % 2
    contexts[actions == 1, 2] = 2 * contexts[actions == 1, 0]
    log = Log.from_arrays(contexts, actions, rng.normal(size=40), action_names=[0, 1, 2])
    theta = least_squares(Statistics.of(log), ridge=0.5)
    x, r = rows_of(log, 0)
    np.testing.assert_allclose(theta[0], np.linalg.lstsq(x, r, rcond=None)[0], rtol=1e-9)
    np.testing.assert_allclose(theta[1], ridge_from_rows(*rows_of(log, 1), 0.5), rtol=1e-9)
    np.testing.assert_array_equal(theta[2], 0)


def test_fewer_rows_than_features_fall_back_to_ridge():
    log = draw(np.random.default_rng(4), rows=9, n_actions=3, d=6)
    theta = least_squares(Statistics.of(log), ridge=2.0)
    for action in range(3):
        np.testing.assert_allclose(theta[action], ridge_from_rows(*rows_of(log, action), 2.0), rtol=1e-9)


def test_a_log_without_rows_fits_zero():
    sums = Statistics.zero(3, 2)
    np.testing.assert_array_equal(least_squares(sums, 1.0), np.zeros((3, 2)))
    np.testing.assert_array_equal(ridge_regression(sums, 1.0), np.zeros((3, 2)))


def noise_from_rows(log, ridge):
    """The same limit from residuals and hat matrices, row by row."""
    squares, freedom = 0.0, float(log.n_rows)
    for action in np.flatnonzero(log.counts):
        x, r = rows_of(log, action)
        residuals = r - x @ ridge_from_rows(x, r, ridge)
        squares += residuals @ residuals
        freedom -= np.trace(x @ np.linalg.solve(ridge * np.eye(x.shape[1]) + x.T @ x, x.T))
    return np.sqrt(squares / freedom * freedom / stats.chi2.ppf(0.05, freedom))


@pytest.mark.parametrize(
    ("ridge", "rows", "d"),
    [(1e-6, 60, 4), (1e-6, 21, 5), (1.0, 60, 4), (1.0, 12, 8), (30.0, 60, 4), (30.0, 12, 8)],
)
def test_noise_equals_the_limit_from_explicit_residuals(ridge, rows, d):
    log = draw(np.random.default_rng(rows + d), rows=rows, n_actions=4, d=d, noise=2.0)
    np.testing.assert_allclose(
        residual_noise(Statistics.of(log), ridge), noise_from_rows(log, ridge), rtol=1e-6
    )


def test_noise_is_an_upper_limit_in_95_percent_of_worlds():
    """With next to no ridge and normal noise, Σ RSS/σ² is χ² with ν = n − K·d: the level is exact."""
    worlds, noise = 400, 2.0
    limits = np.array(
        [
            residual_noise(
                Statistics.of(
                    draw(np.random.default_rng([11, world]), rows=30, n_actions=3, d=3, noise=noise)
                ),
                1e-9,
            )
            for world in range(worlds)
        ]
    )
    covered = int((limits >= noise).sum())
    low, high = stats.binom.ppf([1e-4, 1 - 1e-4], worlds, 0.95)
    assert low <= covered <= high
    # Half of the plain deviations understate; that is why the limit is used.
    freedom = 30 - 3 * 3
    plain = limits * np.sqrt(stats.chi2.ppf(0.05, freedom) / freedom)
    assert np.mean(plain >= noise) < 0.65


def test_noise_scales_with_the_rewards():
    log = draw(np.random.default_rng(6), rows=50, n_actions=3, d=3)
    scaled = Log.from_arrays(log.contexts, log.actions, 8 * log.rewards)
    np.testing.assert_allclose(
        residual_noise(Statistics.of(scaled), 1.0), 8 * residual_noise(Statistics.of(log), 1.0), rtol=1e-12
    )


def test_noiseless_rewards_keep_a_noise_above_zero():
    """An exact fit must not make σ = 0 out of rounding: the confidence sets would have no width."""
    log = draw(np.random.default_rng(7), rows=60, n_actions=3, d=3, noise=0.0)
    noise = residual_noise(Statistics.of(log), 1e-9)
    root_mean_square = np.sqrt(np.mean(log.rewards**2))
    assert 0.999e-6 * root_mean_square <= noise <= 1e-5 * root_mean_square


@pytest.mark.parametrize(("rows", "d"), [(9, 3), (4, 3), (1, 1)])
def test_noise_needs_a_degree_of_freedom(rows, d):
    log = draw(np.random.default_rng(8), rows=rows, n_actions=3, d=d)
    with pytest.raises(SettingError, match="pass noise="):
        residual_noise(Statistics.of(log), 1e-9)


def test_noise_needs_rows():
    with pytest.raises(SettingError, match="0 rows"):
        residual_noise(Statistics.zero(3, 2), 1.0)
