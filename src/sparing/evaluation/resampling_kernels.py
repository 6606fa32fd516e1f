"""The Poisson bootstrap, compiled: each replicate takes each row a random number of times."""

import numpy as np

from sparing.native.compile import compiled

CHANCES = (24107, 24120, 12038, 4027, 1006, 200, 32, 5, 1)
"""How many of 2¹⁶ equal draws mean 0, 1, …, 8 times.

Poisson(1) rounded so that mean and variance are exactly 1; the third and fourth moments are off by 10⁻⁴.
"""

TILE = 256
"""Replicates that are drawn together: their sums and counts stay in the nearest cache."""

LANES = TILE // 4
"""Generators of a tile; each gives 64 bits, four draws, at a time."""

_1, _2, _3, _4, _5, _6, _7, _8 = (np.uint16(sum(CHANCES[:count])) for count in range(1, 9))
_ROWS = 1024
_A, _B, _C, _D, _E, _F, _G = (np.uint64(bits) for bits in (17, 47, 49, 15, 21, 28, 36))


@compiled
def draw_counts(
    states: np.ndarray, tile: int, bits: np.ndarray, draws: np.ndarray, small: np.ndarray, counts: np.ndarray
) -> None:
    """How often each replicate of a tile takes one row, (TILE,): a step of xoroshiro128++ in each lane.

    `draws` are the 16-bit parts of `bits`. Narrow numbers and no branches, so that this runs on vectors.
    """
    for lane in range(LANES):
        one, two = states[0, tile, lane], states[1, tile, lane]
        total = one + two
        bits[lane] = ((total << _A) | (total >> _B)) + one
        two ^= one
        states[0, tile, lane] = ((one << _C) | (one >> _D)) ^ two ^ (two << _E)
        states[1, tile, lane] = (two << _F) | (two >> _G)
    for replicate in range(TILE):
        draw = draws[replicate]
        small[replicate] = np.uint8(
            np.uint8(draw >= _1)
            + np.uint8(draw >= _2)
            + np.uint8(draw >= _3)
            + np.uint8(draw >= _4)
            + np.uint8(draw >= _5)
            + np.uint8(draw >= _6)
            + np.uint8(draw >= _7)
            + np.uint8(draw >= _8)
        )
    for replicate in range(TILE):
        counts[replicate] = small[replicate]


@compiled
def add_rows(columns: np.ndarray, row: int, rows: int, counts: np.ndarray, sums: np.ndarray) -> None:
    """sums (C, TILE) += columns[:, row:row + rows] @ counts[:rows], four rows at a time where there are."""
    for column in range(len(columns)):
        if rows == 4:
            a, b = columns[column, row], columns[column, row + 1]
            c, d = columns[column, row + 2], columns[column, row + 3]
            for replicate in range(TILE):
                sums[column, replicate] += (
                    counts[0, replicate] * a
                    + counts[1, replicate] * b
                    + counts[2, replicate] * c
                    + counts[3, replicate] * d
                )
        else:
            for extra in range(rows):
                value = columns[column, row + extra]
                for replicate in range(TILE):
                    sums[column, replicate] += counts[extra, replicate] * value


@compiled
def replicate_sums(columns: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Σ_i count_i·column_i and, last, Σ_i count_i for each replicate, (tiles, C + 1, TILE).

    columns (C, n); states (2, tiles, LANES) of the generators, which move on. All replicates in one pass
    over the rows, always in the same order.
    """
    n_columns, n = columns.shape
    tiles = states.shape[1]
    sums, taken = np.zeros((tiles, n_columns + 1, TILE)), np.ones((1, 4))
    bits, small = np.empty(LANES, np.uint64), np.empty(TILE, np.uint8)
    draws, counts = bits.view(np.uint16), np.empty((4, TILE))
    for start in range(0, n, _ROWS):
        stop = min(start + _ROWS, n)
        for tile in range(tiles):
            for row in range(start, stop, 4):
                rows = min(4, stop - row)
                for place in range(rows):
                    draw_counts(states, tile, bits, draws, small, counts[place])
                add_rows(columns, row, rows, counts, sums[tile])
                add_rows(taken, 0, rows, counts, sums[tile, n_columns:])
    return sums
