"""The evidence of a prior's scales, its gradient and the posterior, against the joint normal of parameters and rewards."""

import numpy as np
import pytest

from sparing.log import Log
from sparing.model import prior as evidence_module
from sparing.model.prior import ActionSums, Prior, PriorScales, blocks_of, common, fit
from sparing.model.statistics import Statistics

K, D, NEVER = 6, 4, 2
FLAT = np.array([20.0, 15.0, 15.0, 15.0])
SCALES = PriorScales(0.9, np.array([0.5, 0.3, 0.3, 0.3]), np.array([0.6, 0.4, 0.4, 0.4]))


def logged(q, *, rows=60, seed=0, tried=K - NEVER):
    """A log of the first `tried` actions with a constant feature, and z (K, q)."""
    rng = np.random.default_rng([seed, q])
    items = np.c_[np.ones(K), rng.standard_normal((K, q - 1))]
    theta = items @ rng.standard_normal((q, D)) + 0.5 * rng.standard_normal((K, D))
    contexts, actions = rng.standard_normal((rows, D)), rng.integers(0, tried, rows)
    contexts[:, 0] = 1
    rewards = (contexts * theta[actions]).sum(axis=1) + rng.standard_normal(rows)
    return Log.from_arrays(contexts, actions, rewards, action_names=range(K)), items


def joint(log, items, scales, flat):
    """Log evidence of all rewards, and mean and covariance of every θ_a given them, from one big normal."""
    k, q = items.shape
    before = np.concatenate([flat**2] + [scales.slope**2] * (q - 1) + [scales.spread**2] * k)
    made = np.hstack([np.kron(items, np.eye(D)), np.eye(k * D)])  # θ from (W, η)
    prior = (made * before) @ made.T
    rows = np.zeros((log.n_rows, k * D))
    for i, (x, a) in enumerate(zip(log.contexts, log.actions, strict=True)):
        rows[i, a * D : (a + 1) * D] = x
    total = rows @ prior @ rows.T + scales.noise**2 * np.eye(log.n_rows)
    evidence = -0.5 * (
        np.linalg.slogdet(2 * np.pi * total)[1] + log.rewards @ np.linalg.solve(total, log.rewards)
    )
    gain = np.linalg.solve(total, rows @ prior).T
    left = prior - gain @ rows @ prior
    parts = [left[a * D : (a + 1) * D, a * D : (a + 1) * D] for a in range(k)]
    return evidence, (gain @ log.rewards).reshape(k, D), np.array(parts)


@pytest.mark.parametrize("q", [1, 3])
def test_a_fit_is_the_same_action_by_action(q, monkeypatch):
    rows = ActionSums.of(Statistics.of(logged(q)[0]), logged(q)[1], FLAT, None)
    whole = fit(rows, SCALES)
    monkeypatch.setattr(evidence_module, "CACHED", 1)
    for one, other in zip(whole, fit(rows, SCALES), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    matrix = np.array([[2.0, 1.0], [1.0, 2.0]])
    inverse, volume = evidence_module._inverses(matrix[None].copy())
    np.testing.assert_allclose(inverse[0], np.array([[2.0, -1.0], [-1.0, 2.0]]) / 3)
    assert volume == pytest.approx(np.log(3))
    with pytest.raises(np.linalg.LinAlgError):
        evidence_module._inverses(-matrix[None])


@pytest.mark.parametrize("tried", [1, 4])
@pytest.mark.parametrize("q", [1, 3])
def test_evidence_and_posterior_are_those_of_the_joint_normal(q, tried):
    log, items = logged(q, tried=tried)
    sums = Statistics.of(log)
    found = fit(ActionSums.of(sums, items, FLAT, None), SCALES)
    evidence, mean, covariance = joint(log, items, SCALES, FLAT)
    assert found.evidence == pytest.approx(evidence, abs=1e-9)
    noise, spread, slope = SCALES
    size = spread[:, None, None] * spread
    prior = Prior(
        noise,
        spread,
        slope,
        FLAT,
        found.weights * spread,
        found.coefficient_covariance * size,
        items,
        blocks_of(sums),
    )
    matrix, pull = prior.start(sums.gram, sums.response, items)
    matrix = matrix + sums.gram
    np.testing.assert_allclose(noise**2 * np.linalg.inv(matrix), covariance, atol=1e-9 * covariance.max())
    theta = np.linalg.solve(matrix, (pull + sums.response)[:, :, None])[:, :, 0]
    np.testing.assert_allclose(theta, mean, atol=1e-9)
    if q == 1:  # an untried action is any untried action
        blank = prior.unlogged_action()
        np.testing.assert_allclose(noise**2 * np.linalg.inv(blank[0]), covariance[-1], rtol=1e-8)
        np.testing.assert_allclose(np.linalg.solve(*blank), mean[-1], atol=1e-9)


@pytest.mark.parametrize("q", [1, 3])
def test_the_gradient_is_that_of_the_evidence(q):
    log, items = logged(q)
    rows = ActionSums.of(Statistics.of(log), items, FLAT, None)
    found, step = fit(rows, SCALES), 1e-5

    def slope(change):
        return (fit(rows, change(step)).evidence - fit(rows, change(-step)).evidence) / (2 * step)

    assert slope(lambda e: SCALES._replace(noise=SCALES.noise * np.exp(e))) == pytest.approx(
        found.by_noise, abs=1e-6
    )
    for i in range(D):
        moved = lambda e, i=i: np.exp(e * (np.arange(D) == i))  # noqa: E731
        by_spread = slope(lambda e, moved=moved: SCALES._replace(spread=SCALES.spread * moved(e)))
        by_slope = slope(lambda e, moved=moved: SCALES._replace(slope=SCALES.slope * moved(e)))
        assert by_spread == pytest.approx(found.by_spread[i], abs=1e-6)
        assert by_slope == pytest.approx(found.by_slope[i], abs=1e-6)


def test_a_known_mean_is_a_flat_one_without_width():
    log, items = logged(1)
    sums, mean = Statistics.of(log), np.array([0.3, -0.2, 0.5, 1.0])
    shifted = Log.from_arrays(
        log.contexts, log.actions, log.rewards - log.contexts @ mean, action_names=range(K)
    )
    narrow = fit(ActionSums.of(Statistics.of(shifted), items, 1e-6 * FLAT, None), SCALES)
    known = fit(ActionSums.of(sums, items, None, mean), SCALES)
    assert known.evidence == pytest.approx(narrow.evidence, abs=1e-6)
    np.testing.assert_allclose(known.by_spread, narrow.by_spread, atol=1e-6)
    assert not known.coefficient_covariance.any()


def test_untried_actions_teach_nothing():
    log, items = logged(3)
    sums = Statistics.of(log)
    known = sums.counts > 0
    fewer = Statistics(sums.counts[known], sums.gram[known], sums.response[known], sums.squares[known], 1.0)
    all_of_them, logged_ones = (
        fit(ActionSums.of(part, z, FLAT, None), SCALES) for part, z in ((sums, items), (fewer, items[known]))
    )
    for one, other in zip(all_of_them, logged_ones, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("q", [1, 3])
def test_what_is_common_is_found_piece_by_piece(q, monkeypatch):
    log, items = logged(q)
    rows = ActionSums.of(Statistics.of(log), items, FLAT, None)
    found = fit(rows, SCALES)
    monkeypatch.setattr("sparing.model.prior.AT_ONCE", 3)
    weights, doubt = common(rows, SCALES)
    np.testing.assert_allclose(weights, found.weights, rtol=1e-10)
    np.testing.assert_allclose(doubt, found.coefficient_covariance, rtol=1e-10, atol=1e-14)
