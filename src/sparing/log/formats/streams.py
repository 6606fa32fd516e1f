"""Logs in files of other tools that are read anew, from the first row on, whenever they are walked."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

from sparing.errors import LogError
from sparing.log.log import Log
from sparing.log.rows import Rows
from sparing.log.walking import Leaves, Statistic

State = TypeVar("State")


class Stream(Rows):
    """A log that can only be read from its first row on; whoever opens it has walked it once, for names and number of rows."""

    def fold(self, statistic: Statistic[Log, State]) -> State:
        """In this thread."""
        leaves = Leaves(statistic, self.cut.leaf)
        for first, block in self.blocks():
            leaves.add(block, first)
            if self.progress is not None:
                self.progress(first + block.n_rows, self.n_rows)
        return leaves.total()


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
