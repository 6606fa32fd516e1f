"""Contexts of many rows at once, row by row: whatever a row has is written while it is in the cache, compiled.

The plain twin is `fill` of each column, which goes through all rows by itself.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparing.log.features.kinds import Category, Column, Number
from sparing.log.limits import LARGEST
from sparing.native.compile import compiled

if TYPE_CHECKING:
    import pyarrow as pa

Placed = tuple[Column, int]
"""A column, and where its coordinates begin."""


def filled(
    size: int, ones: int, columns: Sequence[Placed], batch: "pa.RecordBatch", *, first_row: int
) -> tuple[np.ndarray, list[Placed]]:
    """Contexts (n, size) that begin with so many ones and have the numbers and categories of a batch; and what is left to be filled.

    That are columns of other kinds, and those with cells that are missing, too large or without a place, in order.
    """
    out = np.empty((batch.num_rows, size))
    numbers: list[tuple[Number, int, np.ndarray]] = []
    words: list[tuple[int, np.ndarray]] = []
    left: list[Placed] = []
    for column, place in columns:
        cells = batch.column(column.column)
        if isinstance(column, Number) and not cells.null_count:
            numbers.append((column, place, column.numbers(cells, first_row=first_row)))
        elif isinstance(column, Category) and not cells.null_count:
            places = column.places(cells, first_row=first_row)
            if places.min(initial=0) >= 0:
                words.append((place, places))
                continue
            left.append((column, place))
        else:
            left.append((column, place))
    fits = fill_rows(
        out,
        ones,
        np.array([place for _, place, _ in numbers], dtype=np.int64),
        np.array([column.mean for column, _, _ in numbers], dtype=np.float64),
        np.array([1 / column.scale for column, _, _ in numbers], dtype=np.float64),
        np.array([values for _, _, values in numbers], dtype=np.float64).reshape(len(numbers), len(out)),
        np.array([place for place, _ in words], dtype=np.int64),
        np.array([places for _, places in words], dtype=np.int64).reshape(len(words), len(out)),
    )
    odd = [(column, place) for (column, place, _), fit in zip(numbers, fits, strict=True) if not fit]
    return out, sorted([*left, *odd], key=lambda placed: placed[1])


@compiled
def fill_rows(
    out: np.ndarray,
    ones: int,
    at: np.ndarray,
    means: np.ndarray,
    times: np.ndarray,
    numbers: np.ndarray,
    starts: np.ndarray,
    places: np.ndarray,
) -> np.ndarray:
    """Write ones, (number − mean)·times of numbers (c, n) at their coordinates, a 1 at each of the places (g, n) from its
    start on, and zeros everywhere else.

    Returns whether all numbers of each column are there, and not too large, (c,).
    """
    fits = np.ones(len(numbers), dtype=np.bool_)
    for row in range(len(out)):
        for place in range(out.shape[1]):
            out[row, place] = 1.0 if place < ones else 0.0
        for column in range(len(numbers)):
            value = numbers[column, row]
            out[row, at[column]] = (value - means[column]) * times[column]
            if not abs(value) <= LARGEST:
                fits[column] = False
        for column in range(len(places)):
            out[row, starts[column] + places[column, row]] = 1.0
    return fits
