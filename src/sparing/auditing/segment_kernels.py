"""Growing many shallow trees on the same contexts, and counting the rows in their leaves, compiled.

The plain twin is `Binned.leaves`, which finds the same splits.
"""

from typing import NamedTuple

import numpy as np

from sparing.native.compile import compiled

PIECE, TILE = 1024, 256
"""Rows of columns, and rows of contexts, that are counted at a time."""


class Table(NamedTuple):
    """Contexts as trees are grown on them: columns (d, n), each row's code in each feature (n, d), the rows of each
    feature in the order of its values (d, n), where a code begins among them (d, width + 1), and thresholds (d, width − 1).
    """

    columns: np.ndarray
    codes: np.ndarray
    order: np.ndarray
    starts: np.ndarray
    cuts: np.ndarray


class Nodes(NamedTuple):
    """Trees by their nodes, of which i has the children 2i + 1 and 2i + 2: what is split (−1: nothing), the two values
    between which, hits and rows in it. Where the two values are one, it is the threshold itself.
    """

    features: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    hits: np.ndarray
    sizes: np.ndarray


def table_of(contexts: np.ndarray, codes: np.ndarray, cuts: list[np.ndarray], width: int) -> Table:
    """The table of contexts (n, d) whose codes (n, d) say how many of a feature's thresholds lie below."""
    thresholds = np.zeros((len(cuts), max(1, width - 1)))
    for row, some in zip(thresholds, cuts, strict=True):
        row[: len(some)] = some
    columns = np.ascontiguousarray(contexts.T)
    counts = np.array([np.bincount(column, minlength=width) for column in codes.T])
    starts = np.column_stack([np.zeros(len(cuts), dtype=np.int64), counts.cumsum(axis=1)])
    order = np.argsort(columns, axis=1, kind="stable").astype(np.int32)
    return Table(columns, np.ascontiguousarray(codes, dtype=np.uint8), order, starts, thresholds)


@compiled
def grow(table: Table, hit: np.ndarray, smallest: int, bar: float, depth: int) -> Nodes:
    """One tree on hits (n,), its leaves of `smallest` rows or more; joined again where all have shares of `bar` or less."""
    d, n = table.columns.shape
    width = table.starts.shape[1] - 1
    many = 2 ** (depth + 1) - 1
    tree = Nodes(
        np.full(many, -1, dtype=np.int64),
        np.zeros(many),
        np.zeros(many),
        np.zeros(many, dtype=np.int64),
        np.zeros(many, dtype=np.int64),
    )
    # Rows and hits of each code, node by node; the rows of a node stand side by side.
    counts = np.zeros((many, 2, d, width), dtype=np.int32)
    rows, node_of, first = np.arange(n), np.zeros(n, dtype=np.int16), np.zeros(many, dtype=np.int64)
    for feature in range(d):
        for code in range(width):
            counts[0, 0, feature, code] = table.starts[feature, code + 1] - table.starts[feature, code]
    for row in range(n):
        if hit[row]:
            tree.hits[0] += 1
            for feature in range(d):
                counts[0, 1, feature, table.codes[row, feature]] += 1
    tree.sizes[0] = n
    spare = np.empty(n, dtype=np.int64)
    for node in range(many // 2):
        size, hits = tree.sizes[node], tree.hits[node]
        if hits == 0 or hits == size or size < 2 * smallest:
            continue
        feature, code = best_split(counts[node], size, hits, smallest)
        if feature < 0:
            continue
        low, high = refined(table, hit, node_of, node, counts[node], size, hits, smallest, feature, code)
        tree.features[node], tree.lows[node], tree.highs[node] = feature, low, high
        _part(table.columns[feature], hit, low, node, tree, first, rows, node_of, spare)
        if 2 * node + 2 < many // 2:
            _count_children(table.codes, hit, node, tree, first, rows, counts)
    _join(tree, bar)
    return tree


@compiled
def gain(inside: int, struck: int, size: int, hits: int, smallest: int) -> float:
    """Σ hits²/rows of the two sides of a cut; −inf where a side has fewer than `smallest` rows."""
    outside, missed = size - inside, hits - struck
    if inside < smallest or outside < smallest:
        return -np.inf
    return struck * struck / max(inside, 1) + missed * missed / max(outside, 1)


@compiled
def best_split(counts: np.ndarray, size: int, hits: int, smallest: int) -> tuple[int, int]:
    """The feature and the code after which the two shares of hits differ most; −1 where none are further apart than by rounding."""
    best, where, after = -np.inf, -1, -1
    for feature in range(counts.shape[1]):
        inside, struck = 0, 0
        for code in range(counts.shape[2] - 1):
            inside += counts[0, feature, code]
            struck += counts[1, feature, code]
            found = gain(inside, struck, size, hits, smallest)
            if found > best:
                best, where, after = found, feature, code
    if best <= hits * hits / size * (1 + 1e-12):
        return -1, -1
    return where, after


@compiled
def refined(
    table: Table,
    hit: np.ndarray,
    node_of: np.ndarray,
    node: int,
    counts: np.ndarray,
    size: int,
    hits: int,
    smallest: int,
    feature: int,
    code: int,
) -> tuple[float, float]:
    """The neighbouring values with the best cut between them, on either side of a threshold up to its neighbours."""
    column, starts = table.columns[feature], table.starts[feature]
    inside, struck = 0, 0
    for before in range(code):
        inside += counts[0, feature, before]
        struck += counts[1, feature, before]
    low = high = table.cuts[feature, code]
    best, previous, begun = -np.inf, 0.0, False
    for place in range(starts[code], starts[code + 2]):
        row = table.order[feature, place]
        if node_of[row] != node:
            continue
        value = column[row]
        if begun and value != previous:
            found = gain(inside, struck, size, hits, smallest)
            if found > best:
                best, low, high = found, previous, value
        inside, previous, begun = inside + 1, value, True
        if hit[row]:
            struck += 1
    return low, high


@compiled
def _part(
    column: np.ndarray,
    hit: np.ndarray,
    low: float,
    node: int,
    tree: Nodes,
    first: np.ndarray,
    rows: np.ndarray,
    node_of: np.ndarray,
    spare: np.ndarray,
) -> None:
    """Send each row of a node to one of its children."""
    left, right = 2 * node + 1, 2 * node + 2
    start, kept, moved, struck = first[node], first[node], 0, 0
    for place in range(start, start + tree.sizes[node]):
        row = rows[place]
        if column[row] <= low:
            rows[kept] = row
            node_of[row] = left
            kept += 1
            struck += hit[row]
        else:
            spare[moved] = row
            node_of[row] = right
            moved += 1
    for place in range(moved):
        rows[kept + place] = spare[place]
    first[left], first[right] = start, kept
    tree.sizes[left], tree.sizes[right] = kept - start, moved
    tree.hits[left], tree.hits[right] = struck, tree.hits[node] - struck


@compiled
def _count_children(
    codes: np.ndarray,
    hit: np.ndarray,
    node: int,
    tree: Nodes,
    first: np.ndarray,
    rows: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Count the rows of the smaller child; those of the other are what is left."""
    left, right = 2 * node + 1, 2 * node + 2
    small, large = (left, right) if tree.sizes[left] <= tree.sizes[right] else (right, left)
    for place in range(first[small], first[small] + tree.sizes[small]):
        row = rows[place]
        for feature in range(codes.shape[1]):
            counts[small, 0, feature, codes[row, feature]] += 1
            counts[small, 1, feature, codes[row, feature]] += hit[row]
    for kind in range(2):
        for feature in range(codes.shape[1]):
            for code in range(counts.shape[3]):
                whole, part = counts[node, kind, feature, code], counts[small, kind, feature, code]
                counts[large, kind, feature, code] = whole - part


@compiled
def _join(tree: Nodes, bar: float) -> None:
    """Undo the splits below which every leaf has a share of hits of `bar` or less."""
    poor = np.zeros(len(tree.features), dtype=np.bool_)
    for node in range(len(tree.features) - 1, -1, -1):
        if tree.features[node] >= 0 and poor[2 * node + 1] and poor[2 * node + 2]:
            tree.features[node] = -1
        if tree.features[node] < 0:
            poor[node] = tree.hits[node] <= bar * tree.sizes[node]


@compiled
def count_boxes(
    columns: np.ndarray, start: int, stop: int, features: np.ndarray, lows: np.ndarray, highs: np.ndarray
) -> np.ndarray:
    """Rows from `start` to before `stop` of columns (d, n) with low < x_j ≤ high for all bounds (G, B) of each box, (G,).

    A feature of −1 bounds nothing.
    """
    counts, inside = np.zeros(len(features), dtype=np.int64), np.empty(PIECE, dtype=np.bool_)
    for first in range(start, stop, PIECE):  # all boxes on rows that stay in the cache
        size = min(PIECE, stop - first)
        for box in range(len(features)):
            for row in range(size):
                inside[row] = True
            for bound in range(features.shape[1]):
                if features[box, bound] < 0:
                    continue
                low, high = lows[box, bound], highs[box, bound]
                column = columns[features[box, bound], first : first + size]
                for row in range(size):
                    inside[row] &= (column[row] > low) & (column[row] <= high)
            many = 0
            for row in range(size):
                many += inside[row]
            counts[box] += many
    return counts


class Conditions(NamedTuple):
    """Segments as kernels look at them: the features of all; each bound's terms, from `terms` on, as places among those and
    weights, its low and high; and each segment's bounds, from `bounds` on.
    """

    features: np.ndarray
    places: np.ndarray
    weights: np.ndarray
    terms: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    bounds: np.ndarray


@compiled
def tally(conditions: Conditions, contexts: np.ndarray, actions: np.ndarray, n_actions: int) -> np.ndarray:
    """Rows of each action in each segment, (G, K); sums of terms are added as `Bound.total` adds them."""
    many = len(conditions.bounds) - 1
    tried = np.zeros((many, n_actions), dtype=np.int64)
    columns, total = np.empty((len(conditions.features), TILE)), np.empty(TILE)
    inside = np.empty(TILE, dtype=np.bool_)
    for start in range(
        0, len(contexts), TILE
    ):  # rows that stay in the cache, and no branch on what they hold
        size = min(TILE, len(contexts) - start)
        for place in range(len(columns)):
            feature = conditions.features[place]
            for row in range(size):
                columns[place, row] = contexts[start + row, feature]
        for segment in range(many):
            for row in range(size):
                inside[row] = True
            for bound in range(conditions.bounds[segment], conditions.bounds[segment + 1]):
                low, high = conditions.lows[bound], conditions.highs[bound]
                for term in range(conditions.terms[bound], conditions.terms[bound + 1]):
                    column, weight = columns[conditions.places[term]], conditions.weights[term]
                    if term == conditions.terms[bound]:
                        for row in range(size):
                            total[row] = column[row] * weight
                    else:
                        for row in range(size):
                            total[row] += column[row] * weight
                for row in range(size):
                    inside[row] &= (total[row] > low) & (total[row] <= high)
            for row in range(size):
                tried[segment, actions[start + row]] += inside[row]
    return tried
