"""Compiled per-action sums of columnar rows.

A rank-one update per row would load the whole of G_a for each row. Here the rows of an action are buffered, and XᵀX of a
full buffer is added at once, in blocks that stay in registers for all rows of it.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sparing.model.statistics import Statistics
from sparing.native.compile import compiled
from sparing.native.vectors import HIGH, TOGETHER, WIDE, add_products

TILE = 256  # rows transposed at a time
DEPTH = 64  # buffered rows per action,
SMALL = 2**26  # unless all buffers would take more bytes than this


def _load(typing: Any, address: Any, index: Any) -> Any:
    """Load the index-th float64 after an address, such as a column of Arrow's."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = builder.inttoptr(arguments[0], ir.DoubleType().as_pointer())
        return builder.load(builder.gep(start, [arguments[1]]))

    return types.float64(types.uintp, types.intp), generate


load: Any = intrinsic(_load)


class State(NamedTuple):
    """Partial sums of Statistics, of G_a only the entries j ≥ i, and each action's buffered rows.

    gram (K, high, width) has whole blocks of `add_products`. waiting (K, depth, width) are rows, with zeros up to the width,
    and owed (K, depth) their rewards; the first filled (K,) of them are valid. largest (K,) are the largest ‖x‖² so far.
    """

    counts: np.ndarray
    gram: np.ndarray
    response: np.ndarray
    squares: np.ndarray
    largest: np.ndarray
    waiting: np.ndarray
    owed: np.ndarray
    filled: np.ndarray


class Tiles:
    """Sums rows batch by batch, those of each fold on their own; they depend, to the bit, only on its rows and their order."""

    def __init__(self, n_actions: int, n_features: int, *, folds: int = 1) -> None:
        depth, self.folds = waiting_rows(n_actions, n_features), folds
        high, width = (-(-n_features // size) * size for size in (HIGH, WIDE))
        places = folds * n_actions
        self.state = State(
            np.zeros(places, dtype=np.int64),
            np.zeros((places, high, width)),
            np.zeros((places, n_features)),
            np.zeros(places),
            np.zeros(places),
            np.zeros((places, depth, width)),
            np.zeros((places, depth)),
            np.zeros(places, dtype=np.int64),
        )

    def add(
        self,
        contexts: np.ndarray | Sequence[np.ndarray],
        actions: np.ndarray,
        rewards: np.ndarray,
        fold_of: np.ndarray | None = None,
    ) -> None:
        """Add rows of finite numbers: d columns of n numbers or one array (n, d), action indices (n,), rewards (n,) and folds (n,)."""
        if fold_of is not None:
            actions = actions + fold_of * (len(self.state.counts) // self.folds)
        labels, values = _plain(actions, np.int32), _plain(rewards)
        if isinstance(contexts, np.ndarray):
            add(_plain(contexts), labels, values, self.state)
            return
        parts = [_plain(column) for column in contexts]
        columns = np.array([part.ctypes.data for part in parts], dtype=np.uintp)
        add_columns(columns, labels, values, self.state)

    def sums(self) -> list[Statistics]:
        """Return the statistics of each fold's rows; they take over the arrays, so no rows can be added after."""
        finish(self.state)
        counts, padded, response, squares, largest = self.state[:5]
        places, d = response.shape
        gram = padded.reshape(-1)[: places * d * d].reshape(places, d, d)
        size = places // self.folds
        parts = [slice(fold * size, (fold + 1) * size) for fold in range(self.folds)]
        return [
            Statistics(
                counts[part],
                gram[part],
                response[part],
                squares[part],
                math.sqrt(largest[part].max(initial=0.0)),
            )
            for part in parts
        ]


def waiting_rows(n_actions: int, n_features: int) -> int:
    """Buffered rows of an action: all buffers take at most SMALL bytes, or about half of the memory of the matrices G_a."""
    if 8 * n_actions * DEPTH * n_features <= SMALL:
        return DEPTH
    return max(TOGETHER, min(DEPTH, n_features // 2 // TOGETHER * TOGETHER))


def _plain(values: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    # Contiguous and read-only, so that the kernel is compiled for one type of array.
    plain = np.require(values, dtype, ["C", "A"]).view()
    plain.setflags(write=False)
    return plain


@compiled
def flush(state: State, action: int) -> None:
    """Add an action's buffered rows X and rewards r: G += XᵀX (entries j ≥ i), b += Xᵀr, Σ r²."""
    count, d = state.filled[action], state.response.shape[1]
    rows, rewards = state.waiting[action], state.owed[action]
    gram, response = state.gram[action], state.response[action]
    groups, width = -(-count // TOGETHER), rows.shape[1]
    rows[count : groups * TOGETHER] = 0.0
    for i in range(0, d, HIGH):
        for j in range(i // WIDE * WIDE, d, WIDE):
            block = gram.ctypes.data + 8 * (i * width + j)
            add_products(rows.ctypes.data, width, groups, i, j, block, width)
    square = 0.0
    for row in range(count):
        square += rewards[row] * rewards[row]
    for start in range(0, count, TOGETHER):  # one row after the other, with b loaded and stored once
        x0, x1, x2, x3 = rows[start], rows[start + 1], rows[start + 2], rows[start + 3]
        x4, x5, x6, x7 = rows[start + 4], rows[start + 5], rows[start + 6], rows[start + 7]
        r = rewards[start : start + TOGETHER]
        r0, r1, r2, r3, r4, r5, r6, r7 = r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]
        for j in range(d):
            first = (((response[j] + x0[j] * r0) + x1[j] * r1) + x2[j] * r2) + x3[j] * r3
            response[j] = (((first + x4[j] * r4) + x5[j] * r5) + x6[j] * r6) + x7[j] * r7
    state.squares[action] += square
    state.counts[action] += count
    state.filled[action] = 0


@compiled
def finish(state: State) -> None:
    """Add the buffered rows, mirror each G_a, and move its entries together."""
    d, every, place = state.response.shape[1], state.gram.reshape(-1), 0
    for action in range(len(state.counts)):
        flush(state, action)
        gram = state.gram[action]
        for i in range(d):
            for j in range(d):
                every[place] = gram[i, j] if j >= i else every[place - (i - j) * (d - 1)]
                place += 1


@compiled
def add(contexts: np.ndarray, actions: np.ndarray, rewards: np.ndarray, state: State) -> None:
    """Add rows (n, d): buffer each with its action's, and find the largest ‖x‖²."""
    depth, d = state.waiting.shape[1], contexts.shape[1]
    whole = d // 4 * 4
    for row in range(len(actions)):
        x, action = contexts[row], actions[row]
        place = state.filled[action]
        waiting, norm = state.waiting[action, place], 0.0
        for j in range(0, whole, 4):
            a, b, c, e = x[j], x[j + 1], x[j + 2], x[j + 3]
            waiting[j], waiting[j + 1], waiting[j + 2], waiting[j + 3] = a, b, c, e
            norm += (a * a + b * b) + (c * c + e * e)
        for j in range(whole, d):
            waiting[j] = x[j]
            norm += x[j] * x[j]
        state.largest[action] = max(state.largest[action], norm)
        state.owed[action, place] = rewards[row]
        state.filled[action] = place + 1
        if place + 1 == depth:
            flush(state, action)


@compiled
def transpose(columns: np.ndarray, start: int, tile: np.ndarray) -> None:
    """Fill a tile (rows, d) with the rows from `start` on of columns at addresses (d,)."""
    whole = len(columns) // 4 * 4  # four columns at a time fill half a cache line of a row at once
    for j in range(0, whole, 4):
        first, second, third, fourth = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
        for row in range(len(tile)):
            tile[row, j] = load(first, start + row)
            tile[row, j + 1] = load(second, start + row)
            tile[row, j + 2] = load(third, start + row)
            tile[row, j + 3] = load(fourth, start + row)
    for j in range(whole, len(columns)):
        for row in range(len(tile)):
            tile[row, j] = load(columns[j], start + row)


@compiled
def add_columns(columns: np.ndarray, actions: np.ndarray, rewards: np.ndarray, state: State) -> None:
    """Add rows whose features begin at the addresses `columns` (d,)."""
    space = np.empty((TILE, len(columns)))
    for start in range(0, len(actions), TILE):
        stop = min(start + TILE, len(actions))
        tile = space[: stop - start]
        transpose(columns, start, tile)
        add(tile, actions[start:stop], rewards[start:stop], state)
