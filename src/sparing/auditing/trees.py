"""Many shallow trees on the same contexts, one for each of many actions, and the rows that lie in their leaves.

Compiled code grows and counts them where they are many; it finds what the plain code finds.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sparing.auditing.segments import DEPTH, Binned, Leaf, Segment, between
from sparing.engines import local

if TYPE_CHECKING:
    from sparing.auditing.segment_kernels import Nodes, Table

COMPILED_CELLS = 2**25
"""Numbers that all trees look at from which they are compiled: NumPy takes half a second, about what loading takes."""

TOGETHER = 16
"""Trees that a thread grows at a time."""

Hits = Callable[[int], np.ndarray]
"""Whether each row is what an action's tree looks for, (n,)."""


def leaves_of(
    binned: Binned, actions: Sequence[int], hits: Hits, *, smallest: int, bar: float
) -> list[list[Leaf]]:
    """The leaves of each action's tree."""
    if len(actions) * binned.codes.size < COMPILED_CELLS:
        return [binned.leaves(hits(action), smallest=smallest, bar=bar) for action in actions]
    return compiled_leaves(binned, actions, hits, smallest=smallest, bar=bar)


def compiled_leaves(
    binned: Binned, actions: Sequence[int], hits: Hits, *, smallest: int, bar: float, depth: int = DEPTH
) -> list[list[Leaf]]:
    """The same by compiled code, on this machine's threads."""
    from sparing.auditing.segment_kernels import table_of

    table = table_of(binned.contexts, binned.codes, binned.cuts, binned.width)
    work = partial(_grown, table, hits, smallest=smallest, bar=bar, depth=depth)
    parts = [actions[start : start + TOGETHER] for start in range(0, len(actions), TOGETHER)]
    return [_leaves(tree) for part in local().map(work, parts) for tree in part]


def _grown(
    table: "Table", hits: Hits, actions: Sequence[int], *, smallest: int, bar: float, depth: int
) -> "list[Nodes]":
    from sparing.auditing.segment_kernels import grow

    return [
        grow(table, np.ascontiguousarray(hits(action)), smallest, float(bar), depth) for action in actions
    ]


def _leaves(tree: "Nodes") -> list[Leaf]:
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


def counted(
    leaves: Sequence[Sequence[Leaf]], contexts: np.ndarray, actions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of rows with contexts (n, d) and actions (n,), those of its tree's action in each leaf, and all in it; both (G,).

    There is a tree for each of all actions.
    """
    columns = np.ascontiguousarray(contexts[np.argsort(actions, kind="stable")].T)
    ends = np.cumsum(np.bincount(actions, minlength=len(leaves))).tolist()
    runs = list(zip([0, *ends], ends, strict=False))  # where the rows of each action stand now
    many = sum(map(len, leaves))
    return (plainly_counted if many * contexts.size < COMPILED_CELLS else compiled_counted)(
        leaves, columns, runs
    )


def plainly_counted(
    leaves: Sequence[Sequence[Leaf]], columns: np.ndarray, runs: Sequence[tuple[int, int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Leaf by leaf; columns (d, n) have the rows of each action in one run."""
    hits, sizes = [], []
    for tree, (start, stop) in zip(leaves, runs, strict=True):
        for leaf in tree:
            inside = leaf.segment.contains(columns.T)
            hits.append(np.count_nonzero(inside[start:stop]))
            sizes.append(np.count_nonzero(inside))
    return np.array(hits), np.array(sizes)


def compiled_counted(
    leaves: Sequence[Sequence[Leaf]], columns: np.ndarray, runs: Sequence[tuple[int, int]]
) -> tuple[np.ndarray, np.ndarray]:
    """The same by compiled code, on this machine's threads."""
    from sparing.auditing.segment_kernels import count_boxes

    def work(trees: slice) -> tuple[list[np.ndarray], np.ndarray]:
        boxes = [_boxes(tree) for tree in leaves[trees]]
        hits = [count_boxes(columns, *run, *box) for run, box in zip(runs[trees], boxes, strict=True)]
        together = (np.concatenate(part) for part in zip(*boxes, strict=True))
        return hits, count_boxes(columns, 0, columns.shape[1], *together)

    parts = [slice(start, start + TOGETHER) for start in range(0, len(leaves), TOGETHER)]
    found = local().map(work, parts)
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
