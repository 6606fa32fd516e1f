"""The compiled kernels against their plain twins: equal to the last bit."""

import numpy as np
import pytest

from reference import kernels as plain
from sparing.online import kernels

SIZES = [(1, 1), (2, 1), (1, 3), (6, 3), (20, 5), (7, 11)]


@pytest.fixture(params=SIZES, ids=str)
def size(request):
    return request.param


def random_sets(rng, n_actions, d):
    """Parameters and inverses of sets that have seen some rows."""
    rows = rng.standard_normal((n_actions, 2 * d, d))
    inverse = np.linalg.inv(np.eye(d) + np.einsum("kni,knj->kij", rows, rows))
    return rng.standard_normal((n_actions, d)), np.ascontiguousarray(inverse)


@pytest.mark.parametrize("misfit", [0.0, 0.37])
@pytest.mark.parametrize("share_frozen", [0.0, 0.5, 1.0])
def test_evaluate(size, misfit, share_frozen):
    n_actions, d = size
    rng = np.random.default_rng(1)
    for _ in range(50):
        theta, inverse = random_sets(rng, n_actions, d)
        frozen = rng.random(n_actions) < share_frozen
        radius, x = rng.random(n_actions) * 3, rng.standard_normal(d)
        mean, spread = np.full(n_actions, np.nan), np.full(n_actions, np.nan)
        kernels.evaluate(x, theta, inverse, radius, frozen, 0.21, misfit, mean, spread)
        expected = plain.evaluate(x, theta, inverse, radius, frozen, 0.21, misfit)
        assert np.array_equal(mean, expected[0])
        assert np.array_equal(spread, expected[1])


def test_evaluate_takes_a_square_that_rounding_made_negative_as_zero():
    x, theta, inverse = np.array([1.0, 1.0]), np.zeros((1, 2)), np.array([[[1.0, -1.1], [-1.1, 1.0]]])
    mean, spread = np.empty(1), np.empty(1)
    kernels.evaluate(x, theta, inverse, np.ones(1), np.zeros(1, dtype=bool), 0.0, 0.0, mean, spread)
    assert spread[0] == 0.0


@pytest.mark.parametrize("levels", [1, 2, 4, 10**6])
def test_best_with_many_ties(levels):
    rng = np.random.default_rng(levels)
    for _ in range(300):
        k = int(rng.integers(1, 9))
        scores = rng.integers(0, levels, k).astype(float)
        eligible, priority = rng.random(k) < 0.6, rng.permutation(k)
        skip = int(rng.integers(-1, k))
        assert kernels.best(scores, eligible, priority, skip) == plain.best(scores, eligible, priority, skip)


def test_best_of_nobody_is_none():
    none, priority = np.zeros(3, dtype=bool), np.arange(3)
    assert kernels.best(np.ones(3), none, priority, -1) == -1
    assert kernels.best(np.ones(1), np.ones(1, dtype=bool), priority[:1], 0) == -1


def test_best_of_equals_has_the_smallest_priority_number():
    everyone = np.ones(4, dtype=bool)
    assert kernels.best(np.zeros(4), everyone, np.array([2, 3, 0, 1]), -1) == 2
    assert kernels.best(np.full(4, -np.inf), everyone, np.array([2, 3, 0, 1]), 2) == 3


@pytest.mark.parametrize("tolerance", [0.0, 0.3])
def test_doubts(tolerance):
    rng = np.random.default_rng(3)
    for _ in range(300):
        k = int(rng.integers(1, 9))
        mean = rng.integers(-2, 3, k) * rng.choice([1.0, 0.1, rng.random()])
        deviation = rng.random(k) * 10.0 ** rng.integers(-3, 2) * (rng.random(k) < 0.7)
        eligible, leader = rng.random(k) < 0.8, int(rng.integers(0, k))
        terms = np.full(k, np.nan)
        total = kernels.doubts(mean, deviation, eligible, leader, tolerance, terms)
        expected = plain.doubts(mean, deviation, eligible, leader, tolerance)
        assert np.array_equal(terms, expected[0])
        assert total == expected[1]


def test_doubts_without_deviation_compare_the_means():
    mean, nothing, everyone = np.array([1.0, 1.2, 1.4, 0.5]), np.zeros(4), np.ones(4, dtype=bool)
    terms = np.empty(4)
    assert kernels.doubts(mean, nothing, everyone, 0, 0.3, terms) == 1.0
    assert terms.tolist() == [0.0, 0.0, 1.0, 0.0]


def test_absorb(size):
    _, d = size
    rng = np.random.default_rng(4)
    gram, response = 0.7 * np.eye(d), np.zeros(d)
    inverse, theta, scratch = np.eye(d) / 0.7, np.zeros(d), np.empty(d)
    for _ in range(60):
        x, reward = rng.standard_normal(d), float(rng.standard_normal())
        expected = plain.absorb(x, reward, gram, response, inverse)
        growth = kernels.absorb(x, reward, gram, response, inverse, theta, scratch)
        for got, wanted in zip((gram, response, inverse, theta), expected[:4], strict=True):
            assert np.array_equal(got, wanted)
        assert growth == expected[4]
