"""Compiled per-action sums of columnar rows.

A rank-one update per row would load the whole of G_a for each row. Here the rows of an action are buffered, and XᵀX of a
full buffer is added at once, in blocks that stay in registers.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils as untyped
from numba.extending import intrinsic

from sparing.model.statistics import Statistics
from sparing.native.compile import compiled

cgutils: Any = untyped  # its functions carry no types

TILE = 256  # rows transposed at a time
HIGH, WIDE, LANES = 4, 8, 4  # rows and columns of a block of XᵀX, and numbers per vector: eight accumulators
DEPTH = 64  # buffered rows per action,
SMALL = 2**26  # unless all buffers would take more bytes than this


def _load(typing: Any, address: Any, index: Any) -> Any:
    """Load the index-th float64 after an address, such as a column of Arrow's."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = builder.inttoptr(arguments[0], ir.DoubleType().as_pointer())
        return builder.load(builder.gep(start, [arguments[1]]))

    return types.float64(types.uintp, types.intp), generate


def _block(typing: Any, rows: Any, width: Any, count: Any, i: Any, j: Any, out: Any) -> Any:
    """Write the block (i:i+HIGH, j:j+WIDE) of XᵀX for `count` rows of `width` numbers at address `rows`."""
    vector = ir.VectorType(ir.DoubleType(), LANES)
    undefined = ir.Constant(vector, ir.Undefined)
    first = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)

    def at(builder: Any, base: Any, index: Any) -> Any:
        return builder.bitcast(builder.gep(base, [index]), vector.as_pointer())

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, width, count, i, j, out = arguments
        rows, out = (builder.inttoptr(address, ir.DoubleType().as_pointer()) for address in (rows, out))
        shape = ir.FunctionType(vector, [vector] * 3)
        add_product = cgutils.get_or_insert_function(builder.module, shape, f"llvm.fmuladd.v{LANES}f64")
        steps = range(0, WIDE, LANES)
        zero = ir.Constant(vector, [0.0] * LANES)
        sums = [[cgutils.alloca_once_value(builder, zero) for _ in steps] for _ in range(HIGH)]
        with cgutils.for_range(builder, count) as loop:
            row = builder.gep(rows, [builder.mul(loop.index, width)])
            right = [
                builder.load(at(builder, row, builder.add(j, ir.Constant(j.type, step))), align=8)
                for step in steps
            ]
            for a in range(HIGH):
                number = builder.load(builder.gep(row, [builder.add(i, ir.Constant(i.type, a))]))
                left = builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
                left = builder.shuffle_vector(left, undefined, first)
                for total, each in zip(sums[a], right, strict=True):
                    builder.store(builder.call(add_product, [left, each, builder.load(total)]), total)
        for a in range(HIGH):
            for total, step in zip(sums[a], steps, strict=True):
                place = at(builder, out, ir.Constant(i.type, a * WIDE + step))
                builder.store(builder.load(total), place, align=8)
        return context.get_dummy_value()

    word = types.intp
    return types.void(types.uintp, word, word, word, word, types.uintp), generate


load: Any = intrinsic(_load)
block: Any = intrinsic(_block)


class State(NamedTuple):
    """Partial sums of Statistics, of G_a only the entries j ≥ i, and each action's buffered rows.

    waiting (K, depth, width) are rows, padded to a multiple of WIDE, and owed (K, depth) their rewards; the first filled (K,)
    of them are valid. largest (1,) is the largest ‖x‖² so far.
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
        depth, width = waiting_shape(n_actions, n_features)
        self.state = State(
            sums.counts,
            sums.gram,
            sums.response,
            sums.squares,
            np.zeros(1),
            np.zeros((n_actions, depth, width)),
            np.zeros((n_actions, depth)),
            np.zeros(n_actions, dtype=np.int64),
        )

    def add(
        self, contexts: np.ndarray | Sequence[np.ndarray], actions: np.ndarray, rewards: np.ndarray
    ) -> int:
        """Add rows: d columns of n numbers or one array (n, d), action indices (n,) and rewards (n,).

        Returns the first row with a number that is not finite, or −1; after such a row the sums are invalid.
        """
        if isinstance(contexts, np.ndarray):
            parts, step = [_plain(contexts)], contexts.shape[1]
            starts = [parts[0].ctypes.data + 8 * j for j in range(step)]
        else:
            parts, step = [_plain(column) for column in contexts], 1
            starts = [part.ctypes.data for part in parts]
        columns = np.array(starts, dtype=np.uintp)
        return add(columns, step, _plain(actions, np.int32), _plain(rewards), self.state)

    def sums(self) -> Statistics:
        """Return the statistics of all rows; they take over the arrays, so no rows can be added after."""
        finish(self.state)
        counts, gram, response, squares, largest = self.state[:5]
        return Statistics(counts, gram, response, squares, math.sqrt(largest[0]))


def waiting_shape(n_actions: int, n_features: int) -> tuple[int, int]:
    """Number and width of an action's buffered rows.

    All buffers together take at most SMALL bytes, or about half of the memory of the matrices G_a.
    """
    width = -(-n_features // WIDE) * WIDE
    if 8 * n_actions * DEPTH * width <= SMALL:
        return DEPTH, width
    return max(WIDE, min(DEPTH, n_features // 2)), width


def _plain(values: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    # Contiguous and read-only, so that the kernel is compiled for one type of array.
    plain = np.require(values, dtype, ["C", "A"]).view()
    plain.setflags(write=False)
    return plain


@compiled
def flush(state: State, action: int, part: np.ndarray) -> None:
    """Add an action's buffered rows X and rewards r: G += XᵀX (entries j ≥ i), b += Xᵀr, Σ r²."""
    count, d = state.filled[action], state.response.shape[1]
    rows, rewards = state.waiting[action], state.owed[action]
    gram, response = state.gram[action], state.response[action]
    for i in range(0, d, HIGH):
        for j in range(i // WIDE * WIDE, d, WIDE):
            block(rows.ctypes.data, rows.shape[1], count, i, j, part.ctypes.data)
            for a in range(min(HIGH, d - i)):
                for b in range(min(WIDE, d - j)):
                    gram[i + a, j + b] += part[a, b]
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
    part = np.empty((HIGH, WIDE))
    for action in range(len(state.counts)):
        flush(state, action, part)
        gram = state.gram[action]
        for i in range(len(gram)):
            for j in range(i):
                gram[i, j] = gram[j, i]


@compiled
def add(columns: np.ndarray, step: int, actions: np.ndarray, rewards: np.ndarray, state: State) -> int:
    """Add rows whose features begin at the addresses `columns` (d,), `step` numbers apart.

    Returns the first row that is not finite, or −1.
    """
    d, depth = len(columns), state.waiting.shape[1]
    tile, norms, part = np.empty((TILE, d)), np.empty(TILE), np.empty((HIGH, WIDE))
    top = state.largest[0]
    for start in range(0, len(actions), TILE):
        size = min(TILE, len(actions) - start)
        fill(columns, step, start, tile, norms[:size])
        for row in range(size):
            reward = rewards[start + row]
            # ‖x‖² of finite numbers may overflow.
            if not (math.isfinite(reward) and (math.isfinite(norms[row]) or np.isfinite(tile[row]).all())):
                return start + row
            top = max(top, norms[row])
            action = actions[start + row]
            place = state.filled[action]
            for j in range(d):
                state.waiting[action, place, j] = tile[row, j]
            state.owed[action, place] = reward
            state.filled[action] = place + 1
            if place + 1 == depth:
                flush(state, action, part)
    state.largest[0] = top
    return -1
