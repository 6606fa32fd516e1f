"""Sketches are monoids: exact up to their size, close beyond, and the same however their parts were joined."""

from functools import reduce
from operator import add

import numpy as np
import pytest

from sparing.log import sketches
from sparing.log.sketches import DistinctSketch, QuantileSketch

SHARES = np.array([0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0])


@pytest.mark.parametrize("values", [[0.5], [0.0, 0.25, 0.25, 1.0], np.random.default_rng(0).random(999)])
def test_quantiles_of_few_values_are_numpys(values):
    found = QuantileSketch.of(np.array(values))
    assert found.exact
    assert np.array_equal(found.quantiles(SHARES), np.quantile(values, SHARES))
    assert found.counts.sum() == len(values)


def test_values_do_not_depend_on_how_they_are_joined_and_stay_close(monkeypatch):
    monkeypatch.setattr(sketches, "MAX_VALUES", 1000)
    values = np.random.default_rng(1).random(9000) ** 3
    parts = [QuantileSketch.of(part) for part in np.split(values, 9)]
    left, right = reduce(add, parts), reduce(lambda one, other: other + one, parts[::-1])
    pairs = (parts[0] + parts[1]) + reduce(add, parts[2:])
    for one in (right, pairs, QuantileSketch.of(values)):
        assert one.shift == left.shift > 0
        assert np.array_equal(one.keys, left.keys)
        assert np.array_equal(one.counts, left.counts)
    assert 500 < len(left.keys) <= 1000
    # Half of the bits that went, relative to the value: the step between neighbours.
    step = 2.0 ** (left.shift - 52)
    assert np.allclose(left.quantiles(SHARES), np.quantile(values, SHARES), rtol=step)


@pytest.mark.parametrize("contexts", [1, 300, 5000])
def test_distinct_hashes(monkeypatch, contexts):
    monkeypatch.setattr(sketches, "MAX_DISTINCT", 1024)
    rng = np.random.default_rng(contexts)
    known = rng.integers(0, 2**64, contexts, dtype=np.uint64)
    rows = np.concatenate([known, known[rng.integers(0, contexts, 8000)]])
    parts = [DistinctSketch.of(part) for part in np.array_split(rows, 7)]
    found = reduce(add, parts)
    assert np.array_equal(found.hashes, np.unique(rows)[:1024])
    assert np.array_equal((parts[0] + reduce(add, parts[1:])).hashes, found.hashes)
    assert found.exact == (contexts < 1024)
    # Beyond, the estimate's deviation is a share 1/sqrt(k − 2).
    assert abs(found.count - contexts) <= (0 if found.exact else 4 * contexts / np.sqrt(1022))
