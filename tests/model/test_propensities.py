"""Fitted propensities: cross-fitted, calibrated, inside the support, and honest about their error."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

from sparing.log import Log
from sparing.model import crossfitting as module
from sparing.model.crossfitting import calibration, fit_propensities, share_limits
from sparing.simulation import LinearWorld, draw_log


def logged(rows=4000, *, k=5, d=3, sharp=1.5, seed=0):
    """A log of a softmax-linear logger, and its true propensities (n, K)."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(rows, d)) * [1, 10, 0.1] + [0, 5, 0]
    chances = special.softmax(
        sharp * ((contexts - [0, 5, 0]) / [1, 10, 0.1]) @ rng.normal(size=(k, d)).T, axis=1
    )
    actions = (chances.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1)
    return Log.from_arrays(contexts, actions, rng.normal(size=rows), action_names=range(k)), chances


def fitted_propensities(log, **options):
    return fit_propensities(log, **options).table(np.arange(log.n_rows))


def test_true_propensities_are_recovered():
    """A well-specified model with d·K parameters has a squared error of the order d·K/n."""
    log, truth = logged()
    fitted = fitted_propensities(log)
    np.testing.assert_allclose(fitted.sum(axis=1), 1, rtol=1e-12)
    kl = (truth * np.log(truth / fitted)).sum(axis=1).mean()
    assert kl < 2 * 3 * 5 / (0.8 * log.n_rows)


def test_logged_propensities_are_the_table_at_the_logged_actions():
    log, _ = logged(600)
    fit = fit_propensities(log, seed=3)
    table = fitted_propensities(log, seed=3)
    np.testing.assert_array_equal(fit.logged, table[np.arange(600), log.actions])
    np.testing.assert_allclose(fit.table(np.array([5, 3])), table[[5, 3]], rtol=1e-12)


def test_a_row_does_not_teach_its_own_propensity():
    """Changing the action of one context's rows leaves their own scores as they were."""
    log, _ = logged(300)
    contexts = np.repeat(log.contexts[:100], 3, axis=0)
    actions = np.repeat(log.actions[:100], 3)
    changed = actions.copy()
    changed[:3] = (actions[0] + 1) % 5
    before, after = (
        fit_propensities(Log.from_arrays(contexts, a, np.zeros(300), action_names=range(5)))
        for a in (actions, changed)
    )
    fold = before.fold_of[0]
    np.testing.assert_array_equal(before.theta[fold], after.theta[fold])
    others = np.arange(5) != fold
    assert (before.theta[others] != after.theta[others]).any()


def test_calibrated_predictions_have_a_small_calibration_error():
    """True propensities miss by sampling alone; sharpened ones by much more."""
    log, truth = logged(20_000)
    right, table = calibration(truth, log.actions)
    wrong, _ = calibration(special.softmax(3 * np.log(truth), axis=1), log.actions)
    noise = np.sqrt(table[:, 1] * (1 - table[:, 1]) / (log.n_rows * 5 / len(table))).mean()
    assert right < 2 * noise
    assert wrong > 5 * right
    covered = (table[:, 2] <= table[:, 0]) & (table[:, 0] <= table[:, 3])
    assert covered.sum() >= stats.binom.ppf(1e-4, len(table), 0.95)
    fit = fit_propensities(log)
    assert fit.calibration.error < 2 * noise
    assert (np.diff(fit.calibration.bins[:, 0]) > 0).all()


def test_the_temperature_mends_scores_that_are_too_sharp():
    """Models whose weights are tripled are temperature_scaled by about three, and the propensities stay."""
    log, _ = logged(4000)
    fit = fit_propensities(log)
    sharp = replace(fit, theta=3 * fit.theta, offset=3 * fit.offset, checked=np.arange(4000))
    assert sharp.temperature_scaled().temperature == pytest.approx(3 * fit.temperature, rel=1e-3)


def test_the_relative_error_is_of_the_size_of_the_true_error():
    log, truth = logged(2000)
    fit = fit_propensities(log)
    true = truth[np.arange(2000), log.actions]
    measured = np.median(np.abs(fit.logged - true) / true)
    # The median of |error| is 0.67 of a normal error's deviation.
    assert 0.4 < fit.relative_error * 0.67 / measured < 2.5


def test_more_rows_make_it_surer():
    errors = [fit_propensities(logged(rows)[0]).relative_error for rows in (500, 8000)]
    assert errors[0] > 2 * errors[1]


def test_unsupported_actions_get_nothing():
    world = LinearWorld(n_actions=6, n_features=3, seed=0)
    log = draw_log(world, rows=3000, support="region", unsupported=0.4, seed=1)
    fitted = fitted_propensities(log)
    mask = log.support.mask()
    assert (fitted[~mask] == 0).all()
    assert (fitted[mask] > 0).all()
    np.testing.assert_allclose(fitted.sum(axis=1), 1, rtol=1e-12)
    blind = Log.from_arrays(log.contexts, log.actions, log.rewards, action_names=log.action_names)
    true = log.support.distribution()
    errors = [np.abs(table - true).mean() for table in (fitted, fitted_propensities(blind))]
    assert errors[0] < errors[1]


def test_never_logged_actions_get_nothing_and_single_ones_something():
    log, _ = logged(400)
    actions = np.append(log.actions[:-1] % 3, 4)
    rare = Log.from_arrays(log.contexts, actions, log.rewards, action_names=range(6))
    fitted = fitted_propensities(rare)
    assert (fitted[:, [3, 5]] == 0).all()
    assert (fit_propensities(rare).logged > 0).all()


@pytest.mark.parametrize("kinds", [1, 2])
def test_one_or_two_actions(kinds):
    log, truth = logged(2000, k=2)
    actions = log.actions if kinds == 2 else np.zeros(2000, dtype=int)
    few = Log.from_arrays(log.contexts, actions, log.rewards, action_names=range(2))
    fitted = fitted_propensities(few)
    if kinds == 1:
        np.testing.assert_array_equal(fitted, np.tile([1.0, 0.0], (2000, 1)))
    else:
        assert np.abs(fitted - truth).mean() < 0.03


def test_large_logs_are_sampled(monkeypatch):
    monkeypatch.setattr(module, "TRAINING_ROWS", 500)
    log, truth = logged(3000)
    fit = fit_propensities(log)
    assert fit.rows_trained == 500
    assert np.abs(fit.table(np.arange(3000)) - truth).mean() < 0.06


def test_share_limits_are_clopper_and_pearsons():
    low, high = share_limits(np.array([0, 3, 10]), np.array([10, 10, 10]), 0.95)
    assert low[0] == 0
    assert high[0] == pytest.approx(1 - 0.05**0.1)
    assert high[2] == 1
    assert low[2] == pytest.approx(0.05**0.1)
    # At its own limits a share makes what was seen, or less (or more), exactly a 5 % event.
    assert stats.binom.cdf(3, 10, high[1]) == pytest.approx(0.05)
    assert stats.binom.sf(2, 10, low[1]) == pytest.approx(0.05)
    assert share_limits(np.array([0]), np.array([0]), 0.95)[1].tolist() == [1.0]
