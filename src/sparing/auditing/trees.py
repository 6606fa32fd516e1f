"""Many shallow trees on the same contexts, on this machine's threads, and the rows that lie in segments: compiled.

What is found is what the plain code of `segments` finds.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from sparing.auditing.segment_kernels import Conditions, Nodes, Table, count_boxes, grow, table_of, tally
from sparing.auditing.segments import DEPTH, Binned, Hits, Leaf, Segment, between
from sparing.engines import local
from sparing.log import Log

TOGETHER = 16
"""Trees that a thread grows at a time."""


def grown_leaves(
    binned: Binned,
    actions: Sequence[int],
    hits: Hits,
    *,
    smallest: int,
    bar: float,
    depth: int = DEPTH,
    threads: int | None = None,
) -> list[list[Leaf]]:
    """The leaves of each action's tree."""
    table = table_of(binned.contexts, binned.codes, binned.cuts, binned.width)
    work = partial(_grown, table, hits, smallest=smallest, bar=bar, depth=depth)
    parts = [actions[start : start + TOGETHER] for start in range(0, len(actions), TOGETHER)]
    return [_leaves(tree) for part in local(threads).map(work, parts) for tree in part]


def _grown(
    table: Table, hits: Hits, actions: Sequence[int], *, smallest: int, bar: float, depth: int
) -> list[Nodes]:
    return [
        grow(table, np.ascontiguousarray(hits(action)), smallest, float(bar), depth) for action in actions
    ]


def _leaves(tree: Nodes) -> list[Leaf]:
    """The leaves of a tree, from left to right."""
    features, lows, highs, hits, sizes = (column.tolist() for column in tree)
    found: list[Leaf] = []

    def visit(node: int, segment: Segment) -> None:
        feature, low, high = features[node], lows[node], highs[node]
        if feature < 0:
            found.append(Leaf(segment, sizes[node], hits[node]))
            return
        cut = low if low == high else between(low, high)
        visit(2 * node + 1, segment.narrowed(feature, -np.inf, cut))
        visit(2 * node + 2, segment.narrowed(feature, cut, np.inf))

    visit(0, Segment())
    return found


def counted_leaves(
    leaves: Sequence[Sequence[Leaf]],
    columns: np.ndarray,
    runs: Sequence[tuple[int, int]],
    threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of its tree's action in each leaf, and all in it, both (G,); columns (d, n) have each action's rows in one run."""

    def work(trees: slice) -> tuple[list[np.ndarray], np.ndarray]:
        boxes = [_boxes(tree) for tree in leaves[trees]]
        hits = [count_boxes(columns, *run, *box) for run, box in zip(runs[trees], boxes, strict=True)]
        together = (np.concatenate(part) for part in zip(*boxes, strict=True))
        return hits, count_boxes(columns, 0, columns.shape[1], *together)

    parts = [slice(start, start + TOGETHER) for start in range(0, len(leaves), TOGETHER)]
    found = local(threads).map(work, parts)
    hits = np.concatenate([each for some, _ in found for each in some])
    return hits, np.concatenate([sizes for _, sizes in found])


def _boxes(leaves: Sequence[Leaf]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The features, lows and highs of the bounds of leaves, each (G, DEPTH); −1 for no feature."""
    shape = (len(leaves), DEPTH)
    features, lows, highs = np.full(shape, -1), np.zeros(shape), np.zeros(shape)
    for box, leaf in enumerate(leaves):
        for place, bound in enumerate(leaf.segment.bounds):
            features[box, place] = bound.terms[0][0]
            lows[box, place], highs[box, place] = bound.low, bound.high
    return features, lows, highs


def tallied(segments: Sequence[Segment], block: Log, n_actions: int) -> np.ndarray:
    """Rows of each action in each segment, (G, K), of a block."""
    bounds = [bound for segment in segments for bound in segment.bounds]
    terms = [term for bound in bounds for term in bound.terms]
    features, places = np.unique(
        np.array([feature for feature, _ in terms], dtype=np.int64), return_inverse=True
    )
    conditions = Conditions(
        features,
        places,
        np.array([weight for _, weight in terms], dtype=np.float64),
        np.cumsum([0, *(len(bound.terms) for bound in bounds)]),
        np.array([bound.low for bound in bounds], dtype=np.float64),
        np.array([bound.high for bound in bounds], dtype=np.float64),
        np.cumsum([0, *(len(segment.bounds) for segment in segments)]),
    )
    return tally(conditions, np.ascontiguousarray(block.contexts), block.actions.astype(np.int64), n_actions)
