"""Confidence ellipsoids from a log's sums: every number against the formula from its rows."""

from dataclasses import replace

import numpy as np
import pytest

from sparing.log import Log
from sparing.model.confidence import RADII, Assumptions, ConfidenceEllipsoids, widths
from sparing.model.statistics import Statistics, ridge_regression

ASSUMED = Assumptions(noise=0.7, theta_bound=2.0, context_bound=3.0, ridge=0.4, delta=0.1)
D, COUNTS = 3, (60, 7, 1, 0)


def drawn(seed=0):
    rng = np.random.default_rng(seed)
    actions = np.repeat(np.arange(len(COUNTS)), COUNTS)
    contexts = rng.normal(size=(len(actions), D))
    return Log.from_arrays(contexts, actions, rng.normal(size=len(actions)), action_names=range(len(COUNTS)))


def by_hand(log, action, name):
    """V, θ̂ and ρ of one action, from its rows."""
    x, r = log.contexts[log.actions == action], log.rewards[log.actions == action]
    v = 0.4 * np.eye(D) + x.T @ x
    union = np.log(len(COUNTS) / 0.1)
    inside = {
        "determinant": np.log(np.linalg.det(v) / 0.4**D) + 2 * union,
        "trace": D * np.log(1 + len(x) * 9 / (0.4 * D)) + 2 * union,
        "paper": D * (union + np.log(1 + log.n_rows * 9 / 0.4)),
    }[name]
    return v, np.linalg.solve(v, x.T @ r), 0.7 * np.sqrt(inside) + np.sqrt(0.4) * 2


@pytest.mark.parametrize("name", RADII)
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_limits_are_the_estimate_and_the_radius_times_the_width(name, scale):
    log, contexts = drawn(), np.random.default_rng(5).normal(size=(11, D))
    sets = ConfidenceEllipsoids(Statistics.of(log), replace(ASSUMED, radius=name, radius_scale=scale))
    low, high = sets.limits(contexts)
    for action in range(len(COUNTS)):
        v, theta, radius = by_hand(log, action, name)
        width = np.sqrt(np.einsum("ni,ij,nj->n", contexts, np.linalg.inv(v), contexts))
        np.testing.assert_allclose(sets.theta[action], theta, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(sets.inverse[action] @ v, np.eye(D), atol=1e-10)
        np.testing.assert_allclose(sets.radius[action], scale * radius, rtol=1e-12)
        np.testing.assert_allclose(low[:, action], contexts @ theta - scale * radius * width, rtol=1e-9)
        np.testing.assert_allclose(high[:, action], contexts @ theta + scale * radius * width, rtol=1e-9)


def test_limits_are_cut_to_the_range_of_mean_rewards():
    sets = ConfidenceEllipsoids(Statistics.of(drawn()), ASSUMED)
    contexts = np.random.default_rng(6).normal(size=(20, D))
    free, cut = np.array(sets.limits(contexts)), np.array(sets.limits(contexts, (-0.5, 0.25)))
    np.testing.assert_array_equal(cut, np.clip(free, -0.5, 0.25))


def test_errors_bound_the_farthest_point_of_the_ellipsoid_at_scale_one_whatever_the_radius():
    log = drawn()
    expected = []
    for action in range(len(COUNTS)):
        v, _, radius = by_hand(log, action, "determinant")
        expected.append(radius * np.sqrt(np.linalg.eigvalsh(np.linalg.inv(v))[-1]))
    for name in RADII:
        assumed = replace(ASSUMED, radius=name, radius_scale=0.1)
        np.testing.assert_allclose(
            ConfidenceEllipsoids(Statistics.of(log), assumed).errors, expected, rtol=1e-10
        )


def test_the_estimate_is_that_of_ridge_regression():
    sums = Statistics.of(drawn(3))
    np.testing.assert_allclose(
        ConfidenceEllipsoids(sums, ASSUMED).theta, ridge_regression(sums, 0.4), rtol=1e-10
    )


def test_a_gram_matrix_that_rounding_left_indefinite_has_real_widths():
    x = np.full((1, 3), 1e8)
    log = Log.from_arrays(np.repeat(x, 40, axis=0), [0] * 40, np.ones(40), action_names=[0])
    sets = ConfidenceEllipsoids(Statistics.of(log), replace(ASSUMED, ridge=1e-9))
    assert np.isfinite(widths(sets.inverse, np.vstack([x, -x, [1.0, -1.0, 0.0]]))).all()
    assert np.isfinite(sets.errors).all()
