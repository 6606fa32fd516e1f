"""Segments: their words say exactly what they hold, and a tree or a line finds what was planted."""

import numpy as np
import pytest

from sparing.auditing.segments import Binned, Bound, Leaf, Segment, between, count_leaves, half_space
from sparing.log.features import Encoder

NAMES = ("age", "x_1", "x_2")


def test_words():
    segment = Segment().restricted(2, 0.53, np.inf).restricted(0, -np.inf, 0.5).restricted(0, 0.1, np.inf)
    assert segment.words(Encoder.raw(NAMES)) == "0.1 < age ≤ 0.5 and x_2 > 0.53"
    assert Segment().words(Encoder.raw(NAMES)) == "everywhere"
    line = Segment((Bound(((0, 1.0), (2, -0.62)), low=-0.4),))
    assert line.words(Encoder.raw(NAMES)) == "age − 0.62·x_2 > −0.4"
    assert (
        Segment((Bound(((0, -0.5), (1, 1.0)), high=1e-7),)).words(Encoder.raw(NAMES))
        == "−0.5·age + x_1 ≤ 1e−07"
    )


def test_contains_is_above_low_and_up_to_high():
    segment = Segment((Bound(((1, 1.0),), 0.2, 0.5),))
    contexts = np.array([[0.0, 0.2], [0.0, 0.21], [9.0, 0.5], [0.0, 0.51]])
    assert segment.contains(contexts).tolist() == [False, True, True, False]
    assert Segment().contains(contexts).all()
    mixed = Segment((Bound(((0, 1.0), (1, -1.0)), low=0.0),))
    assert mixed.contains(np.array([[1.0, 0.5], [0.5, 0.5], [0.0, 1.0]])).tolist() == [True, False, False]


def test_narrowing_never_widens():
    segment = Segment().restricted(0, 0.3, 0.6).restricted(0, 0.1, 0.9)
    assert segment.bounds == (Bound(((0, 1.0),), 0.3, 0.6),)


@pytest.mark.parametrize("seed", range(5))
def test_leaves_part_the_contexts(seed):
    """Every context is in exactly one leaf, and a leaf counts those its segment contains."""
    rng = np.random.default_rng(seed)
    contexts = np.column_stack([rng.random(800), rng.integers(0, 3, 800), rng.normal(0, 1e6, 800)])
    hit = rng.random(800) < np.where(contexts[:, 0] < 0.4, 0.2, 0.8)
    leaves = Binned(contexts).leaves(hit, depth=4, smallest=30, max_share=0.0)
    inside = np.array([leaf.segment.contains(contexts) for leaf in leaves])
    assert (inside.sum(axis=0) == 1).all()
    for leaf, members in zip(leaves, inside, strict=True):
        assert leaf.size == members.sum() >= 30
        assert leaf.hits == hit[members].sum()
        assert len(leaf.segment.bounds) <= 4
    assert len(leaves) > 2


def by_definition(binned, rows, hit, segment, smallest, max_share, depth):
    """The tree by its definition: every threshold of every feature is tried, then every value near the best one."""
    x, n, hits = binned.contexts[rows], len(rows), int(hit[rows].sum())
    leaf = Leaf(segment, n, hits)

    def gain(left):
        sides = [hit[rows[left]], hit[rows[~left]]]
        if min(map(len, sides)) < smallest:
            return -np.inf
        return sum(int(side.sum()) ** 2 / max(len(side), 1) for side in sides)

    gains = {(j, c): gain(x[:, j] <= cut) for j, cuts in enumerate(binned.cuts) for c, cut in enumerate(cuts)}
    best = max(gains, key=gains.get, default=None) if depth and 0 < hits < n >= 2 * smallest else None
    if best is None or gains[best] <= hits**2 / n * (1 + 1e-12):
        return [leaf]
    j, c = best
    near = np.unique(x[(binned.codes[rows, j] == c) | (binned.codes[rows, j] == c + 1), j])
    fine = [gain(x[:, j] <= low) for low in near[:-1]]
    cut = float(binned.cuts[j][c])
    if np.isfinite(fine).any():
        place = int(np.argmax(fine))
        cut = between(float(near[place]), float(near[place + 1]))
    left, leaves = x[:, j] <= cut, []
    for part, low, high in ((rows[left], -np.inf, cut), (rows[~left], cut, np.inf)):
        inside = segment.restricted(j, low, high)
        leaves += by_definition(binned, part, hit, inside, smallest, max_share, depth - 1)
    return [leaf] if all(part.hits <= max_share * part.size for part in leaves) else leaves


def mixed_contexts(rng, *, rows=700):
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


@pytest.mark.parametrize("seed", range(3))
def test_trees_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    x, split = mixed_contexts(rng), 0
    binned = Binned(x)
    for smallest, share, depth in ((1, 0.0, 3), (14, 0.05, 3), (60, 0.3, 2), (400, 0.0, 3), (5, 0.02, 5)):
        for hit in hits(rng, x):
            expected = by_definition(binned, np.arange(700), hit, Segment(), smallest, share, depth)
            assert binned.leaves(hit, smallest=smallest, max_share=share, depth=depth) == expected
            split += len(expected) > 1
    assert split > 15


def test_leaves_are_counted_on_other_rows():
    rng = np.random.default_rng(0)
    x, actions = mixed_contexts(rng), rng.integers(0, 20, 700)
    binned = Binned(x)
    trees = [binned.leaves(actions == action, smallest=20, max_share=0.0) for action in range(21)]
    others, taken = mixed_contexts(rng, rows=2500), rng.integers(0, 20, 2500)
    own, sizes = count_leaves(trees, others, taken)
    owners = [action for action, tree in enumerate(trees) for _ in tree]
    inside = [leaf.segment.contains(others) for tree in trees for leaf in tree]
    np.testing.assert_array_equal(sizes, np.sum(inside, axis=1))
    np.testing.assert_array_equal(own, [np.sum(taken[w] == a) for a, w in zip(owners, inside, strict=True)])


def test_a_planted_box_is_found():
    rng = np.random.default_rng(1)
    contexts = rng.random((4000, 3)).round(4)
    blind = (contexts[:, 0] > 0.7) & (contexts[:, 2] <= 0.4)
    leaves = Binned(contexts).leaves(~blind, depth=3, smallest=80, max_share=0.05)
    gaps = [leaf for leaf in leaves if leaf.hits == 0]
    assert len(gaps) == 1
    assert (gaps[0].segment.contains(contexts) != blind).mean() < 0.002
    by_feature = {bound.terms[0][0]: bound for bound in gaps[0].segment.bounds}
    assert by_feature[0].low == pytest.approx(0.7, abs=0.002)
    assert by_feature[2].high == pytest.approx(0.4, abs=0.002)


def test_few_values_are_cut_between_them():
    flag = np.repeat([0.0, 1.0], 100)
    leaves = Binned(np.column_stack([flag, np.ones(200)])).leaves(
        flag > 0, depth=3, smallest=10, max_share=0.0
    )
    assert [leaf.segment.words(Encoder.raw(("flag", "one"))) for leaf in leaves] == [
        "flag ≤ 0.5",
        "flag > 0.5",
    ]


def test_gaps_that_touch_are_joined():
    """Both halves of a feature without any hit are one region, not two."""
    contexts = np.random.default_rng(2).random((1000, 2))
    hit = contexts[:, 0] > 0.5
    words = [
        leaf.segment.words(Encoder.raw(NAMES))
        for leaf in Binned(contexts).leaves(hit, depth=3, smallest=20, max_share=0.0)
    ]
    assert len(words) == 2
    assert len(Binned(contexts).leaves(np.zeros(1000, dtype=bool), depth=3, smallest=20, max_share=0.0)) == 1


@pytest.mark.parametrize("hit", [np.zeros(50, dtype=bool), np.ones(50, dtype=bool)])
def test_nothing_to_part(hit):
    contexts = np.ones((50, 2))
    assert [leaf.segment for leaf in Binned(contexts).leaves(hit, depth=3, smallest=5, max_share=0)] == [
        Segment()
    ]
    assert half_space(contexts, hit, max_share=0.05) is None


def test_constant_contexts_cannot_be_parted():
    hit = np.arange(50) % 2 == 0
    assert len(Binned(np.ones((50, 2))).leaves(hit, depth=3, smallest=5, max_share=0)) == 1
    assert half_space(np.ones((50, 2)), hit, max_share=0.05) is None
    assert (
        len(Binned(np.empty((0, 2))).leaves(np.empty(0, dtype=bool), depth=3, smallest=5, max_share=0)) == 1
    )


@pytest.mark.parametrize("weights", [[1.0, 0.5, 0.0], [-0.3, 1.0, 0.4], [0.0, -1.0, 0.0]])
def test_a_planted_half_space_is_found(weights):
    """5,000 contexts pin the direction down to a few hundredths."""
    contexts = np.random.default_rng(3).random((5000, 3))
    total = contexts @ np.array(weights)
    hit = total > np.quantile(total, 0.3)
    segment = half_space(contexts, hit, max_share=0.05)
    assert segment is not None
    assert (segment.contains(contexts) == ~hit).mean() > 0.99
    found = np.zeros(3)
    for feature, weight in segment.bounds[0].terms:
        found[feature] = weight
    found *= 1 if np.isfinite(segment.bounds[0].high) else -1
    np.testing.assert_allclose(found, np.array(weights) / np.abs(weights).max(), atol=0.05)


def test_a_half_space_holds_few_hits_where_it_cannot_hold_none():
    rng = np.random.default_rng(4)
    contexts = rng.random((4000, 2))
    hit = rng.random(4000) < 1 / (1 + np.exp(-20 * (contexts[:, 0] - 0.5)))
    segment = half_space(contexts, hit, max_share=0.05)
    assert segment is not None
    assert hit[segment.contains(contexts)].mean() <= 0.05
    noise = half_space(contexts, rng.random(4000) < 0.5, max_share=0.05)
    assert noise is None or noise.contains(contexts).mean() < 0.01
