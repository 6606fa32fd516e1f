"""The minimiser, against closed forms and against SciPy's."""

import numpy as np
import pytest
from scipy import optimize

from sparing.learning.objectives import minimise


def counted(function):
    values = []

    def traced(point):
        value, gradient = function(point)
        values.append(value)
        return value, gradient

    return traced, values


@pytest.mark.parametrize("seed", range(5))
def test_a_quadratic_is_solved_as_by_linear_algebra(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(12, 12))
    matrix, target = root @ root.T + 0.1 * np.eye(12), rng.normal(size=12)
    found = minimise(
        lambda x: (0.5 * x @ matrix @ x - target @ x, matrix @ x - target),
        np.zeros(12),
        iterations=500,
        flat=1e-9,
        still=0.0,
    )
    np.testing.assert_allclose(found, np.linalg.solve(matrix, target), atol=1e-6)


def test_a_curved_valley_is_followed_to_its_end():
    def rosenbrock(x):
        return float(optimize.rosen(x)), optimize.rosen_der(x)

    function, values = counted(rosenbrock)
    found = minimise(function, np.full(6, -1.0), iterations=500, flat=1e-8, still=0.0)
    theirs = optimize.minimize(rosenbrock, np.full(6, -1.0), jac=True, method="L-BFGS-B", tol=1e-12)
    np.testing.assert_allclose(found, np.ones(6), atol=1e-6)
    assert values[-1] <= theirs.fun + 1e-9
    assert len(values) < 4 * theirs.nfev


def test_a_kink_is_approached():
    """max(x₀, −x₀) + x₁²: the gradient jumps at the minimum."""
    found = minimise(
        lambda x: (abs(x[0]) + x[1] ** 2, np.array([np.sign(x[0]), 2 * x[1]])), np.array([3.0, -2.0])
    )
    assert abs(found[0]) + found[1] ** 2 < 1e-2


def test_a_minimum_stays_where_it_is():
    function, values = counted(lambda x: (float(x @ x), 2 * x))
    np.testing.assert_array_equal(minimise(function, np.zeros(3)), np.zeros(3))
    assert len(values) == 1


def test_without_a_way_down_the_start_is_kept():
    start = np.array([1.0, 2.0])
    wrong_gradient = minimise(lambda x: (float(x @ x), -2 * x), start)
    np.testing.assert_array_equal(wrong_gradient, start)
