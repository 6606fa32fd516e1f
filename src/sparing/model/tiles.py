"""Compiled per-action sums of columnar rows.

A rank-one update per row would load the whole of G_a for each row. Here the rows of an action are buffered, and XᵀX of a
full buffer is added at once, several rows at a time, so that each entry is loaded and stored once for all of them.
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

TILE = 256  # rows transposed at a time
TOGETHER = 8  # buffered rows whose products are added at a time: `flush` names each
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

    waiting (K, depth, d) are rows and owed (K, depth) their rewards; the first filled (K,) of them are valid. largest (1,) is
    the largest ‖x‖² so far.
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
    """Sums rows batch by batch; the result depends, to the bit, only on the rows and their order."""

    def __init__(self, n_actions: int, n_features: int) -> None:
        sums = Statistics.zero(n_actions, n_features)
        depth = waiting_rows(n_actions, n_features)
        self.state = State(
            sums.counts,
            sums.gram,
            sums.response,
            sums.squares,
            np.zeros(1),
            np.zeros((n_actions, depth, n_features)),
            np.zeros((n_actions, depth)),
            np.zeros(n_actions, dtype=np.int64),
        )

    def add(
        self, contexts: np.ndarray | Sequence[np.ndarray], actions: np.ndarray, rewards: np.ndarray
    ) -> None:
        """Add rows of finite numbers: d columns of n numbers or one array (n, d), action indices (n,) and rewards (n,)."""
        if isinstance(contexts, np.ndarray):
            parts, step = [_plain(contexts)], contexts.shape[1]
            starts = [parts[0].ctypes.data + 8 * j for j in range(step)]
        else:
            parts, step = [_plain(column) for column in contexts], 1
            starts = [part.ctypes.data for part in parts]
        columns = np.array(starts, dtype=np.uintp)
        add(columns, step, _plain(actions, np.int32), _plain(rewards), self.state)

    def sums(self) -> Statistics:
        """Return the statistics of all rows; they take over the arrays, so no rows can be added after."""
        finish(self.state)
        counts, gram, response, squares, largest = self.state[:5]
        return Statistics(counts, gram, response, squares, math.sqrt(largest[0]))


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
    rows[count : -(-count // TOGETHER) * TOGETHER] = 0.0
    for start in range(0, count, TOGETHER):
        x = rows[start : start + TOGETHER]
        for i in range(d):
            # Contiguous slices: LLVM vectorises a loop from 0, not one from i.
            x0, x1, x2, x3 = x[0, i:], x[1, i:], x[2, i:], x[3, i:]
            x4, x5, x6, x7 = x[4, i:], x[5, i:], x[6, i:], x[7, i:]
            a0, a1, a2, a3, a4, a5, a6, a7 = x0[0], x1[0], x2[0], x3[0], x4[0], x5[0], x6[0], x7[0]
            out = gram[i, i:]
            for j in range(d - i):
                first = (a0 * x0[j] + a1 * x1[j]) + (a2 * x2[j] + a3 * x3[j])
                out[j] += first + ((a4 * x4[j] + a5 * x5[j]) + (a6 * x6[j] + a7 * x7[j]))
    square = 0.0
    for row in range(count):
        reward = rewards[row]
        square += reward * reward
        for j in range(d):
            response[j] += rows[row, j] * reward
    state.squares[action] += square
    state.counts[action] += count
    state.filled[action] = 0


@compiled
def fill(columns: np.ndarray, step: int, start: int, tile: np.ndarray, norms: np.ndarray) -> None:
    """Transpose len(norms) rows from `start` on, `step` numbers apart in each column, and compute their ‖x‖²."""
    for row in range(len(norms)):
        norms[row] = 0.0
    whole = len(columns) // 4 * 4  # four columns at a time fill half a cache line of a row at once
    for j in range(0, whole, 4):
        first, second, third, fourth = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
        for row in range(len(norms)):
            place = (start + row) * step
            a, b, c, e = load(first, place), load(second, place), load(third, place), load(fourth, place)
            tile[row, j] = a
            tile[row, j + 1] = b
            tile[row, j + 2] = c
            tile[row, j + 3] = e
            norms[row] += (a * a + b * b) + (c * c + e * e)
    for j in range(whole, len(columns)):
        column = columns[j]
        for row in range(len(norms)):
            value = load(column, (start + row) * step)
            tile[row, j] = value
            norms[row] += value * value


@compiled
def finish(state: State) -> None:
    """Add the buffered rows, and mirror each G_a."""
    for action in range(len(state.counts)):
        flush(state, action)
        gram = state.gram[action]
        for i in range(len(gram)):
            for j in range(i):
                gram[i, j] = gram[j, i]


@compiled
def add(columns: np.ndarray, step: int, actions: np.ndarray, rewards: np.ndarray, state: State) -> None:
    """Add rows whose features begin at the addresses `columns` (d,), `step` numbers apart."""
    d, depth = len(columns), state.waiting.shape[1]
    tile, norms = np.empty((TILE, d)), np.empty(TILE)
    top = state.largest[0]
    for start in range(0, len(actions), TILE):
        size = min(TILE, len(actions) - start)
        fill(columns, step, start, tile, norms[:size])
        for row in range(size):
            top = max(top, norms[row])
            action = actions[start + row]
            place = state.filled[action]
            for j in range(d):
                state.waiting[action, place, j] = tile[row, j]
            state.owed[action, place] = rewards[start + row]
            state.filled[action] = place + 1
            if place + 1 == depth:
                flush(state, action)
    state.largest[0] = top
