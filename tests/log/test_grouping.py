"""Equal contexts by hashing: what np.unique says of their bytes, also where hashes collide."""

import numpy as np
import pytest

from sparing import hashing
from sparing.hashing import GAMMA, context_groups, context_hashes, context_keys


def by_sorting(contexts):
    return np.unique(context_keys(contexts), return_inverse=True)[1].reshape(-1)


def draw(kind, rng, rows=4000):
    if kind == "distinct":
        return rng.normal(size=(rows, 5))
    if kind == "repeats":
        return rng.normal(size=(300, 4))[rng.integers(300, size=rows)]
    if kind == "one":
        return np.ones((rows, 3))
    if kind == "single column":
        return rng.integers(-50, 50, size=(rows, 1)).astype(float)
    if kind == "many small columns":  # more digits than one number holds
        return rng.integers(-1, 2, size=(rows, 45)).astype(float)
    table = rng.normal(size=(rows, 6))  # digits, then a column of which only some bits fit
    table[:, :3] = rng.integers(-2, 3, size=(rows, 3))
    table[: rows // 2, 3] = np.nextafter(1.0, 2.0) * rng.choice([1.0, 1.0 + 2**-50], rows // 2)
    table[:, 4] = table[::-1, 4]
    return table


KINDS = ["distinct", "repeats", "one", "single column", "many small columns", "mixed"]


@pytest.mark.parametrize("kind", KINDS)
def test_groups_are_those_of_sorting_the_bytes(kind):
    contexts = draw(kind, np.random.default_rng(7))
    found = context_groups(contexts)
    np.testing.assert_array_equal(found, by_sorting(contexts))
    assert found.dtype == np.int64


def test_negative_zero_is_zero_and_the_caller_keeps_it():
    rng = np.random.default_rng(3)
    contexts = rng.choice([0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324], size=(3000, 3))
    signs = np.signbit(contexts).copy()
    found = context_groups(contexts)
    np.testing.assert_array_equal(found, by_sorting(contexts))
    np.testing.assert_array_equal(found[:, None] == found, (contexts[:, None] == contexts).all(axis=2))
    np.testing.assert_array_equal(np.signbit(contexts), signs)


def test_rows_of_one_hash_are_still_distinguished(monkeypatch):
    contexts = draw("repeats", np.random.default_rng(1), rows=500)
    monkeypatch.setattr(hashing, "context_hashes", lambda rows: np.zeros(len(rows), np.uint64))
    np.testing.assert_array_equal(context_groups(contexts), by_sorting(contexts))


def test_planted_collisions_of_the_hash_in_use():
    """After one word the state is known, so the second word can bring two rows to one hash."""
    rng = np.random.default_rng(4)
    contexts = rng.uniform(1, 2, size=(2000, 2))
    words = contexts.view(np.uint64)
    state = words[:, 0] * GAMMA
    state ^= state >> np.uint64(32)
    twin = words.copy()
    twin[:, 0] = words[::-1, 0]
    twin[:, 1] ^= state ^ state[::-1]
    twin = twin.view(np.float64)
    np.testing.assert_array_equal(context_hashes(twin), context_hashes(contexts))
    both = np.concatenate([contexts, twin, contexts])
    np.testing.assert_array_equal(context_groups(both), by_sorting(both))
    assert len(np.unique(context_groups(both))) == 4000


def test_no_rows_and_one():
    assert context_groups(np.empty((0, 2))).shape == (0,)
    assert context_groups(np.ones((1, 2))).tolist() == [0]
