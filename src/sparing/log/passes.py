"""Walking a log's rows, block by block, and joining what each block tells along the tree of `sparing.engines`."""

import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from sparing.engines import Engine, Progress, TreeReduce
from sparing.errors import LogError
from sparing.log.blocks import Blocks, Partition
from sparing.log.tables import TableSource

S = TypeVar("S")
B = TypeVar("B")
D = TypeVar("D")

TASKS_PER_WORKER = 16
"""Runs of leaves for each worker, at most: enough for none to wait long for the last."""

ROW = re.compile(r"\bat row (\d+)\b")
"""How errors name a row."""


@dataclass(frozen=True)
class ColumnarBlock:
    """Rows as they stand in a file, all that sums need of them: contexts as d columns (n,), actions (n,), rewards (n,)."""

    contexts: list[np.ndarray]
    actions: np.ndarray
    rewards: np.ndarray

    @property
    def n_rows(self) -> int:
        """How many, n."""
        return len(self.actions)

    def at(self, places: np.ndarray) -> np.ndarray:
        """The contexts (m, d) of some of the rows."""
        return np.column_stack([column[places] for column in self.contexts])


class Statistic(ABC, Generic[B, S]):
    """What is gathered from rows: it starts from `zero`, takes in the blocks of a leaf in order, and leaves are joined.

    `merge` is pure: on a cluster its arguments may be in use elsewhere. A statistic is sent to where the rows are, so that it
    and its states must be picklable. `by_columns`: in place of a log it takes `Standing` rows too, which need not be turned.
    """

    by_columns: bool = False

    @abstractmethod
    def zero(self) -> S:
        """What no rows tell."""

    @abstractmethod
    def update(self, state: S, block: B, first_row: int) -> S:
        """What is told by one more block, whose first row has this number; the state may be changed."""

    def finish(self, state: S) -> S:
        """What a leaf tells, once its last block is in."""
        return state

    @abstractmethod
    def merge(self, one: S, other: S) -> S:
        """What two leaves, or runs of them, tell together; neither is changed."""


class SumOf(Statistic[B, Any]):
    """The sum of what `of` makes of each block and the number of its first row; None where there are no rows."""

    def __init__(self, of: Callable[[B, int], Any]) -> None:
        self.of = of

    def zero(self) -> Any:
        """Nothing to add to."""
        return None

    def update(self, state: Any, block: B, first_row: int) -> Any:
        """With one more block."""
        return self.merge(state, self.of(block, first_row))

    def merge(self, one: Any, other: Any) -> Any:
        """Of both."""
        return other if one is None else one if other is None else one + other


class Combined(Statistic[B, tuple[Any, ...]]):
    """Several statistics in one walk; its states are tuples."""

    def __init__(self, *statistics: Statistic[B, Any]) -> None:
        self.statistics = statistics
        self.by_columns = all(each.by_columns for each in statistics)

    def zero(self) -> tuple[Any, ...]:
        """None of them has rows."""
        return tuple(each.zero() for each in self.statistics)

    def update(self, state: tuple[Any, ...], block: B, first_row: int) -> tuple[Any, ...]:
        """Each takes in the block."""
        return tuple(
            each.update(part, block, first_row) for each, part in zip(self.statistics, state, strict=True)
        )

    def finish(self, state: tuple[Any, ...]) -> tuple[Any, ...]:
        """Each by itself."""
        return tuple(each.finish(part) for each, part in zip(self.statistics, state, strict=True))

    def merge(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
        """Each with its own."""
        return tuple(each.merge(*parts) for each, *parts in zip(self.statistics, one, other, strict=True))


class ChunkReducer(Generic[B, S]):
    """Takes in blocks one after the other, and joins leaves as they fill."""

    def __init__(self, statistic: Statistic[B, S], leaf: int) -> None:
        self._statistic, self._leaf = statistic, leaf
        self._tree: TreeReduce[S] = TreeReduce(statistic.merge)
        self._state: S | None = None

    def add(self, block: B, first_row: int) -> None:
        """The next block."""
        if self._state is not None and first_row % self._leaf == 0:
            self._close()
        state = self._statistic.zero() if self._state is None else self._state
        self._state = self._statistic.update(state, block, first_row)

    def total(self) -> S:
        """What all blocks told."""
        if self._state is None:
            return self._statistic.finish(self._statistic.zero())
        self._close()
        return self._tree.total()

    def _close(self) -> None:
        assert self._state is not None
        self._tree.add(self._statistic.finish(self._state))
        self._state = None


@dataclass(frozen=True)
class ScanTask:
    """Leaves in a row, and the table, or the part of one, that has their rows; it begins with row `first` of the log."""

    source: TableSource
    first: int
    start: int
    stop: int | None


@dataclass(frozen=True)
class ScanWorker(Generic[B, S]):
    """Walks a run: reads these columns in blocks, makes of each what the statistic wants, and takes it in."""

    statistic: Statistic[B, S]
    columns: tuple[str, ...]
    make: Callable[[Any, int], B]
    block: int
    leaf: int

    def __call__(self, run: ScanTask, progress: Progress | None = None) -> S:
        """What a run tells; `progress` is told its rows, if their number is known."""
        leaves = ChunkReducer(self.statistic, self.leaf)
        stop = None if run.stop is None else run.stop - run.first
        rows = run.source.blocks(self.columns, step=self.block, start=run.start - run.first, stop=stop)
        for row, batch in rows:
            leaves.add(self.make(batch, run.first + row), run.first + row)
            if progress is not None and stop is not None:
                progress(row + batch.num_rows, stop)
        return leaves.total()


def add_fields(one: D, other: D) -> D:
    """Add two dataclasses field by field, entries of tuples and dicts one by one; None where either has None."""
    return type(one)(*(_add(getattr(one, each.name), getattr(other, each.name)) for each in fields(one)))  # type: ignore[arg-type]


def _add(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return None
    if isinstance(one, tuple):
        return tuple(map(_add, one, other))
    if isinstance(one, dict):
        return {name: _add(value, other[name]) for name, value in one.items()}
    return one + other


@contextlib.contextmanager
def line_numbers_in_errors(source: TableSource) -> Iterator[None]:
    """Add to what is wrong with a row of a text file on which line it stands."""
    try:
        yield
    except LogError as error:
        found = ROW.search(str(error))
        line = "" if found is None else next(islice(source.line_names(), int(found[1]), None), "")
        if found is None or not line:
            raise
        raise type(error)(f"{error}. Row {found[1]} is {line}") from None


def scan_rows(
    source: TableSource,
    columns: Sequence[str],
    statistic: Statistic[B, S],
    make: Callable[[Any, int], B],
    *,
    cut: Partition | None,
    engine: Engine,
    progress: Progress | None = None,
) -> S:
    """Fold a statistic over a table; without a cut, which takes the number of rows, over all there are, by one worker."""
    if cut is None:
        cut = Partition.of_table(0, len(columns))
    work = ScanWorker(statistic, tuple(columns), make, cut.block, cut.leaf)
    with line_numbers_in_errors(source):
        if engine.alone and cut.rows:  # as one run no part of a file is read twice
            return work(ScanTask(source, 0, 0, cut.rows), progress)
        return engine.fold(work, scan_tasks(source, cut, engine.workers), statistic.merge, progress=progress)


def scan_tasks(source: TableSource, cut: Partition, workers: int) -> list[ScanTask]:
    """Runs of leaves that can be walked apart; long enough that few parts of a file are read twice."""
    if not source.sizes or not cut.rows:
        return [ScanTask(source, 0, 0, cut.rows or None)]
    least = max(
        cut.rows // (TASKS_PER_WORKER * workers), max(source.sizes) if max(source.sizes) > cut.leaf else 0
    )
    return [_scan_task(source, leaves) for leaves in cut.runs(least)]


def _scan_task(source: TableSource, leaves: Blocks) -> ScanTask:
    part, first = source.part(leaves.start, leaves.stop)
    return ScanTask(part, first, leaves.start, leaves.stop)
