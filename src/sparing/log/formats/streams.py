"""Files that are read anew, from the first row on, whenever their log is walked."""

from collections.abc import Iterable, Iterator

import numpy as np

from sparing.errors import LogError


def changed(name: str) -> LogError:
    """The error for a file in which a later walk finds other than the first."""
    return LogError(f"{name} has changed since it was opened. Leave it alone until it is read")


def cut_anew(
    parts: Iterable[tuple[np.ndarray, ...]], rows: int, step: int, name: str
) -> Iterator[tuple[int, tuple[np.ndarray, ...]]]:
    """Arrays of some rows each, as arrays of `step` rows each, the last ones of fewer; there must be so many in all."""
    held: tuple[np.ndarray, ...] = ()
    first = filled = 0
    for part in parts:
        low, many = 0, len(part[0])
        while low < many:
            size = min(step, rows - first)
            if not size:
                raise changed(name)
            held = held or tuple(np.empty((size, *each.shape[1:]), each.dtype) for each in part)
            taken = min(size - filled, many - low)
            for array, values in zip(held, part, strict=True):
                array[filled : filled + taken] = values[low : low + taken]
            low, filled = low + taken, filled + taken
            if filled == size:
                yield first, held
                held, first, filled = (), first + size, 0
    if first != rows:
        raise changed(name)
