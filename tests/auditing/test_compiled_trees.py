"""Compiled trees are the plain ones: the same splits, segments and counts, on whatever contexts."""

import numpy as np
import pytest

import sparing
from sparing.auditing import segments
from sparing.auditing.facts import column_sums
from sparing.auditing.measuring import Measuring
from sparing.auditing.segments import Binned, Bound, Segment
from sparing.auditing.trees import grown_leaves
from sparing.log.rows import Memory

ROWS = 700


def contexts(rng, *, rows=ROWS):
    """Numbers of many sizes, few values with both zeros, flags, a constant, and a skewed one with ties."""
    return np.column_stack(
        [
            rng.normal(size=rows),
            rng.normal(0, 1e6, rows).round(),
            rng.choice([-0.0, 0.0, 1.0, 2.5], rows),
            rng.integers(0, 2, rows),
            np.full(rows, 3.0),
            rng.exponential(size=rows).round(1),
        ]
    )


def hits(rng, x):
    """Rare and common, in boxes and at random, none and all."""
    many = len(x)
    yield from (rng.random(many) < share for share in (0.01, 0.3, 0.98))
    yield (x[:, 0] > 0.3) & (x[:, 3] == 1)
    yield (x[:, 5] <= 1.2) ^ (rng.random(many) < 0.05)
    yield x[:, 2] <= 0
    yield np.zeros(many, dtype=bool)
    yield np.ones(many, dtype=bool)


@pytest.mark.parametrize("seed", range(6))
def test_the_same_trees(seed):
    rng = np.random.default_rng(seed)
    x = contexts(rng)
    binned, wanted = Binned(x), list(hits(rng, x))
    split = 0
    for smallest, bar, depth in ((1, 0.0, 3), (14, 0.05, 3), (60, 0.3, 2), (400, 0.0, 3), (5, 0.02, 5)):
        found = grown_leaves(
            binned, range(len(wanted)), wanted.__getitem__, smallest=smallest, bar=bar, depth=depth
        )
        plain = [binned.leaves(hit, smallest=smallest, bar=bar, depth=depth) for hit in wanted]
        assert found == plain
        split += sum(len(tree) > 1 for tree in plain)
    assert split > 15


def test_the_same_trees_where_nothing_can_be_split():
    for x in (np.ones((50, 2)), np.empty((0, 2)), np.arange(3.0)[:, None]):
        hit = np.arange(len(x)) % 2 == 0
        (found,) = grown_leaves(Binned(x), [0], lambda _, hit=hit: hit, smallest=2, bar=0.0)
        assert found == Binned(x).leaves(hit, smallest=2, bar=0.0)


@pytest.mark.parametrize("seed", range(3))
def test_the_same_counts_in_leaves(seed, monkeypatch):
    """Of other rows, all and those of the tree's own action; more than the kernel counts at a time."""
    rng = np.random.default_rng(seed)
    x, actions = contexts(rng), rng.integers(0, 20, ROWS)
    smallest = {"smallest": 20, "bar": 0.0}
    leaves = segments.leaves_of(Binned(x), range(21), lambda action: actions == action, **smallest)
    others, taken = contexts(rng, rows=2500), rng.integers(0, 20, 2500)
    plain = segments.counted(leaves, others, taken)
    monkeypatch.setattr(segments, "COMPILED_PAIRS", 0)
    np.testing.assert_array_equal(segments.counted(leaves, others, taken), plain)
    owner = [action for action, tree in enumerate(leaves) for _ in tree]
    inside = [leaf.segment.contains(others) for tree in leaves for leaf in tree]
    np.testing.assert_array_equal(plain[1], np.sum(inside, axis=1))
    np.testing.assert_array_equal(
        plain[0], [np.sum(taken[w] == a) for a, w in zip(owner, inside, strict=True)]
    )


def test_the_same_counts_in_segments():
    """Boxes, half-spaces, several of them, and everything; by action."""
    rng = np.random.default_rng(0)
    x, actions = contexts(rng, rows=3000), rng.integers(0, 7, 3000)
    log = sparing.Log.from_arrays(x, actions, np.zeros(3000), action_names=range(8))
    line = Bound(((0, 1.0), (5, -0.62), (2, 0.1)), low=-0.4, high=0.3)
    found = [
        Segment(),
        Segment((line,)),
        Segment((Bound(((2, 1.0),), low=-np.inf, high=0.0), line)),
        Segment().narrowed(0, -0.5, 0.8).narrowed(3, -np.inf, 0.5).narrowed(1, 0.0, np.inf),
        Segment().narrowed(4, 3.0, np.inf),
    ]
    plain, fast = (Memory(log).fold(Measuring(found, 8, many=many)) for many in (False, True))
    assert plain.supported is fast.supported is None
    np.testing.assert_array_equal(fast.tried, plain.tried)
    np.testing.assert_array_equal(fast.sizes, plain.sizes)
    members = np.array([segment.contains(x) for segment in found])
    np.testing.assert_array_equal(fast.sizes, members.sum(axis=1))
    assert fast.rows == fast.sizes[0] == 3000
    assert 0 == fast.sizes[4] < fast.sizes[2] < fast.sizes[1]


@pytest.mark.parametrize("rows", [0, 1, 255, 256, 1021])
def test_columns_are_counted(rows):
    bits = np.random.default_rng(rows).integers(0, 2, (rows, 7), dtype=np.uint8)
    bits[:, 0] = 1  # 255 of them fill a byte
    np.testing.assert_array_equal(column_sums(bits), bits.astype(int).sum(axis=0))
