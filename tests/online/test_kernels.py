"""The compiled kernels against their plain twins: equal to the last bit."""

import numpy as np
import pytest

from reference import kernels as plain
from sparing.online import kernels


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
