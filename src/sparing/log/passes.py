"""One pass over a log: its partition into blocks of bounded size, and mergeable statistics that are folded over them.

A pass reads a log block by block. Blocks are added up to chunks, and a tree merges chunks (see `sparing.engines`). The
partition depends on the number and the width of rows alone: where they are stored, in memory or in files, does not change
it, so that sums have the same bits everywhere.
"""

import contextlib
import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from sparing.engines import Engine, Progress, TreeReduce
from sparing.errors import LogError

if TYPE_CHECKING:
    import pyarrow as pa

    from sparing.log.tables import TableSource

S = TypeVar("S")
B = TypeVar("B")
D = TypeVar("D")

# Numbers of a log in memory that are processed at a time.
CELLS = 2**22

# Rows of a table that are read or written at a time, fewer if a row is wide.
BATCH_ROWS = 131_072

# Numbers of a table that are read or written at a time.
BATCH_CELLS = 2**24

# Rows of a block, at least, however wide they are.
MIN_BLOCK_ROWS = 256

# Rows of a chunk, at least; with many actions, CHUNK_ROWS_PER_ACTION for each.
CHUNK_ROWS = 2**17
CHUNK_ROWS_PER_ACTION = 16
MAX_CHUNKS = 4096

# Bytes of the sums of all chunks that wait to be merged; the sums of one chunk may take more.
MAX_ACCUMULATOR_BYTES = 2**30

# Tasks per worker, at most: enough that no worker waits long for the last task.
TASKS_PER_WORKER = 16

# How errors name a row.
ROW = re.compile(r"\bat row (\d+)\b")


@dataclass(frozen=True)
class Blocks:
    """The rows from `start` to before `stop` in pieces of `step` rows, as slices."""

    start: int
    stop: int
    step: int

    @classmethod
    def of(cls, rows: int, width: int) -> "Blocks":
        """All rows of `width` numbers in memory: at most `CELLS` numbers a piece, and at least one row."""
        return cls(0, rows, max(1, CELLS // max(1, width)))

    @classmethod
    def of_table(cls, rows: int, width: int) -> "Blocks":
        """All rows of a table with `width` numbers each, in the pieces that are read and written."""
        return cls(0, rows, max(1, min(BATCH_ROWS, BATCH_CELLS // max(1, width))))

    def __iter__(self) -> Iterator[slice]:
        for start in range(self.start, self.stop, self.step):
            yield slice(start, min(start + self.step, self.stop))


@dataclass(frozen=True)
class Partition:
    """Rows split into chunks, and chunks into blocks; both have a power of two rows, so that blocks fill chunks."""

    rows: int
    block: int
    chunk: int

    @classmethod
    def of(cls, rows: int, actions: int, features: int) -> "Partition":
        """The partition of a log: a block's widest table fits in memory a few times, and chunks outweigh their sums."""
        block = block_rows(max(actions, features))
        state = 8 * actions * features * features
        chunk = _chunk_rows(block)
        while chunk < rows and not (
            chunk >= CHUNK_ROWS_PER_ACTION * actions
            and rows <= MAX_CHUNKS * chunk
            and (2 + (rows // chunk).bit_length()) * state <= MAX_ACCUMULATOR_BYTES
        ):
            chunk *= 2
        return cls(rows, block, chunk)

    @classmethod
    def of_table(cls, rows: int, width: int) -> "Partition":
        """The partition of a table with `width` raw cells a row."""
        block = block_rows(width)
        return cls(rows, block, _chunk_rows(block))

    def tasks(self, least: int) -> list[slice]:
        """Runs of chunks of at least `least` rows: whole subtrees of the tree of chunks, to be read independently."""
        run = self.chunk
        while run < least:
            run *= 2
        return list(Blocks(0, self.rows, run))


def block_rows(width: int) -> int:
    """Rows of a block if a row has `width` numbers: the largest power of two within both limits."""
    most = max(min(MIN_BLOCK_ROWS, BATCH_ROWS), min(BATCH_ROWS, BATCH_CELLS // max(1, width)))
    return 1 << (most.bit_length() - 1)


def _chunk_rows(block: int) -> int:
    while block < CHUNK_ROWS:
        block *= 2
    return block


def rechunk(
    batches: "Iterator[pa.RecordBatch]", row: int, start: int, stop: int | None, step: int
) -> "Iterator[tuple[int, pa.RecordBatch]]":
    """Split and join batches, of which the first begins with `row`, into batches of `step` rows from `start` on."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    many, first = 0, start
    for batch in batches:
        low = max(0, start - row)
        high = batch.num_rows if stop is None else min(batch.num_rows, stop - row)
        row += batch.num_rows
        while low < high:
            piece = batch.slice(low, min(step - many, high - low))
            held.append(piece)
            many, low = many + piece.num_rows, low + piece.num_rows
            if many == step:
                yield first, held[0] if len(held) == 1 else pa.concat_batches(held)
                held, many, first = [], 0, first + step
        if stop is not None and row >= stop:
            break
    if many:
        yield first, held[0] if len(held) == 1 else pa.concat_batches(held)


@dataclass(frozen=True)
class ColumnarBlock:
    """Rows as columns, as a file stores them: contexts as d arrays (n,), actions (n,), rewards (n,)."""

    contexts: list[np.ndarray]
    actions: np.ndarray
    rewards: np.ndarray

    @property
    def n_rows(self) -> int:
        return len(self.actions)

    def at(self, places: np.ndarray) -> np.ndarray:
        """The contexts (m, d) of some of the rows."""
        return np.column_stack([column[places] for column in self.contexts])


class Statistic(ABC, Generic[B, S]):
    """A mergeable statistic of rows.

    It starts from `zero`, takes the blocks of a chunk in order with `update` (which may change the state), and
    `finish` closes the chunk. `merge` joins the states of two chunks, or of runs of chunks, and changes neither: on a
    cluster they may be in use elsewhere. Statistics and their states are picklable, because they are sent to workers.

    `by_columns`: blocks may be `ColumnarBlock`s instead of logs, which saves the transposition.
    """

    by_columns: bool = False

    @abstractmethod
    def zero(self) -> S: ...

    @abstractmethod
    def update(self, state: S, block: B, first_row: int) -> S: ...

    def finish(self, state: S) -> S:
        return state

    @abstractmethod
    def merge(self, one: S, other: S) -> S: ...


class SumOf(Statistic[B, Any]):
    """The sum of `of(block, first_row)` over blocks; None if there are no rows."""

    def __init__(self, of: Callable[[B, int], Any], *, by_columns: bool = False) -> None:
        self.of, self.by_columns = of, by_columns

    def zero(self) -> Any:
        return None

    def update(self, state: Any, block: B, first_row: int) -> Any:
        return self.merge(state, self.of(block, first_row))

    def merge(self, one: Any, other: Any) -> Any:
        return other if one is None else one if other is None else one + other


class Combined(Statistic[B, tuple[Any, ...]]):
    """Several statistics in one pass; its states are tuples."""

    def __init__(self, *statistics: Statistic[B, Any]) -> None:
        self.statistics = statistics
        self.by_columns = all(each.by_columns for each in statistics)

    def zero(self) -> tuple[Any, ...]:
        return tuple(each.zero() for each in self.statistics)

    def update(self, state: tuple[Any, ...], block: B, first_row: int) -> tuple[Any, ...]:
        pairs = zip(self.statistics, state, strict=True)
        return tuple(each.update(part, block, first_row) for each, part in pairs)

    def finish(self, state: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(each.finish(part) for each, part in zip(self.statistics, state, strict=True))

    def merge(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(each.merge(*parts) for each, *parts in zip(self.statistics, one, other, strict=True))


class ChunkReducer(Generic[B, S]):
    """Takes blocks in order, and merges chunks as soon as they are full."""

    def __init__(self, statistic: Statistic[B, S], chunk: int) -> None:
        self._statistic, self._chunk = statistic, chunk
        self._tree: TreeReduce[S] = TreeReduce(statistic.merge)
        self._state: S | None = None

    def add(self, block: B, first_row: int) -> None:
        if self._state is not None and first_row % self._chunk == 0:
            self._close()
        state = self._statistic.zero() if self._state is None else self._state
        self._state = self._statistic.update(state, block, first_row)

    def total(self) -> S:
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
    """The rows from `start` to before `stop` (None: the end), and a table that has them; it begins with row `first`."""

    source: "TableSource"
    first: int
    start: int
    stop: int | None


@dataclass(frozen=True)
class ScanWorker(Generic[B, S]):
    """Runs a task: reads these columns in blocks, converts each block with `make`, and updates the statistic."""

    statistic: Statistic[B, S]
    columns: tuple[str, ...]
    make: Callable[[Any, int], B]
    block: int
    chunk: int

    def __call__(self, task: ScanTask, progress: Progress | None = None) -> S:
        chunks = ChunkReducer(self.statistic, self.chunk)
        stop = None if task.stop is None else task.stop - task.first
        rows = task.source.blocks(self.columns, step=self.block, start=task.start - task.first, stop=stop)
        for row, batch in rows:
            chunks.add(self.make(batch, task.first + row), task.first + row)
            if progress is not None and stop is not None:
                progress(row + batch.num_rows, stop)
        return chunks.total()


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
def line_numbers_in_errors(source: "TableSource") -> Iterator[None]:
    """Add the line of a text file, or the row of a sheet, to errors about a row."""
    try:
        yield
    except LogError as error:
        found = ROW.search(str(error))
        line = "" if found is None else next(itertools.islice(source.line_names(), int(found[1]), None), "")
        if found is None or not line:
            raise
        if line.startswith("row "):  # a sheet numbers its rows, so that only its numbers are of use
            raise type(error)(ROW.sub(lambda _: f"at {line}", str(error), count=1)) from None
        raise type(error)(f"{error}. Row {found[1]} is {line}") from None


def scan_rows(
    source: "TableSource",
    columns: Sequence[str],
    statistic: Statistic[B, S],
    make: Callable[[Any, int], B],
    *,
    partition: Partition | None = None,
    engine: Engine,
    progress: Progress | None = None,
) -> S:
    """Fold a statistic over a table, by default in the partition of its cells; one worker reads a table of unknown length."""
    partition = partition or Partition.of_table(source.rows or 0, len(columns))
    work = ScanWorker(statistic, tuple(columns), make, partition.block, partition.chunk)
    with line_numbers_in_errors(source):
        if engine.alone and partition.rows:  # as one task no part of a file is read twice
            return work(ScanTask(source, 0, 0, partition.rows), progress)
        tasks = scan_tasks(source, partition, engine.workers)
        return engine.fold(work, tasks, statistic.merge, progress=progress)


def scan_tasks(source: "TableSource", partition: Partition, workers: int) -> list[ScanTask]:
    """Tasks of whole chunks, long enough that few parts of a file are read twice."""
    if not source.sizes or not partition.rows:
        return [ScanTask(source, 0, 0, partition.rows or None)]
    largest = max(source.sizes)
    least = max(partition.rows // (TASKS_PER_WORKER * workers), largest if largest > partition.chunk else 0)
    runs = partition.tasks(least)
    return [ScanTask(*source.part(run.start, run.stop), run.start, run.stop) for run in runs]
