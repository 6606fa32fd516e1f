"""Equal contexts by hashing: what np.unique says of their bytes, also where hashes collide."""

import numpy as np
import pytest

from sparing.log import context_index as grouping
from sparing.log import grouping as kernels
from sparing.log.context_index import context_groups, context_keys


def by_sorting(contexts):
    return np.unique(context_keys(contexts), return_inverse=True)[1].reshape(-1)


@pytest.fixture
def compiled_only(monkeypatch):
    monkeypatch.setattr(grouping, "SMALL", 0)


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
@pytest.mark.usefixtures("compiled_only")
def test_groups_are_those_of_sorting_the_bytes(kind):
    contexts = draw(kind, np.random.default_rng(7))
    found = context_groups(contexts)
    np.testing.assert_array_equal(found, by_sorting(contexts))
    assert found.dtype == np.int64


@pytest.mark.usefixtures("compiled_only")
def test_negative_zero_is_zero_and_the_caller_keeps_it():
    rng = np.random.default_rng(3)
    contexts = rng.choice([0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324], size=(3000, 3))
    signs = np.signbit(contexts).copy()
    found = context_groups(contexts)
    np.testing.assert_array_equal(found, by_sorting(contexts))
    np.testing.assert_array_equal(found[:, None] == found, (contexts[:, None] == contexts).all(axis=2))
    np.testing.assert_array_equal(np.signbit(contexts), signs)


def test_both_paths_agree_about_the_line_between_them(monkeypatch):
    monkeypatch.setattr(grouping, "SMALL", 3000)
    rng = np.random.default_rng(5)
    table = rng.normal(size=(900, 2))
    for rows in (grouping.SMALL - 1, grouping.SMALL, grouping.SMALL + 1):
        contexts = table[rng.integers(900, size=rows)]
        np.testing.assert_array_equal(context_groups(contexts), by_sorting(contexts))


def in_order_of_appearance(words):
    _, first, group = np.unique(words, axis=0, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return np.sort(first), rank[group.reshape(-1)]


def test_rows_of_one_hash_are_still_told_apart():
    """With the multiplier 0 every hash is 0."""
    words = np.random.default_rng(1).integers(40, size=(700, 3)).astype(np.uint64)
    words = words[np.random.default_rng(2).integers(700, size=1500)]
    first, groups = kernels.distinct_rows(words, np.uint64(0))
    expected = in_order_of_appearance(words)
    np.testing.assert_array_equal(first, expected[0])
    np.testing.assert_array_equal(groups, expected[1])


def test_planted_collisions_of_the_hash_in_use():
    """After one word the state is known, so the second word can bring two rows to one hash."""
    rng = np.random.default_rng(4)
    contexts = rng.uniform(1, 2, size=(2000, 2))
    words = contexts.view(np.uint64)
    state = words[:, 0] * kernels.MULTIPLIER
    state ^= state >> np.uint64(32)
    twin = words.copy()
    twin[:, 0] = words[::-1, 0]
    twin[:, 1] ^= state ^ state[::-1]
    for row in range(50):
        hashed = kernels.hash_row(words, row, kernels.MULTIPLIER)
        assert hashed == kernels.hash_row(twin, row, kernels.MULTIPLIER)
    both = np.concatenate([words, twin, words])
    first, groups = kernels.distinct_rows(both, kernels.MULTIPLIER)
    expected = in_order_of_appearance(both)
    np.testing.assert_array_equal(first, expected[0])
    np.testing.assert_array_equal(groups, expected[1])
    assert len(first) == 4000


def test_no_rows():
    first, groups = kernels.distinct_rows(np.empty((0, 2), dtype=np.uint64), kernels.MULTIPLIER)
    assert (len(first), len(groups)) == (0, 0)
    assert context_groups(np.empty((0, 2))).shape == (0,)
