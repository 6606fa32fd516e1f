"""Statistics of a table that need not fit in memory: batch by batch, on all cores.

The table is cut into shards that depend on the file alone. Each shard is summed by one thread from its first
row to its last, and the shards' sums are added in order, so that any number of threads gives the same bits.
"""

import os
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparing.errors import LogError, SettingError
from sparing.log import arrays, formats, labels
from sparing.log.files import ending, readable
from sparing.log.limits import feature_error, first_too_large, number_error
from sparing.log.reading import feature_names_of, names_of
from sparing.log.roles import Columns, find_columns
from sparing.log.table import FORMATS, Source, batch_rows, open_source
from sparing.model.statistics import Statistics, Summary

SHARDS = 64
"""The most shards a file is cut into, hence the most threads at work."""

SHARD_ROWS = 2**17
"""The fewest rows worth a shard; where there are many actions, ROWS_AN_ACTION for each."""

ROWS_AN_ACTION = 16

ACCUMULATORS = 2**30
"""Bytes that the sums of all shards may take together; one shard takes what it must."""

READ_AHEAD = 2**20
"""Bytes of a column that are read from a file at a time, so that no row group is held as a whole."""


@dataclass(frozen=True)
class Shard:
    """Rows that are summed one after the other: some row groups of a file, or, where None, all rows."""

    first_row: int = 0
    groups: tuple[int, ...] | None = None


@dataclass(frozen=True)
class _Parquet:
    """A Parquet file that is read in pieces: Arrow would otherwise hold every byte it has read to the end."""

    path: Path
    metadata: Any

    @property
    def sizes(self) -> list[int]:
        """Rows of each row group."""
        return [self.metadata.row_group(i).num_rows for i in range(self.metadata.num_row_groups)]

    def batches(
        self, columns: Sequence[str], groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        with (
            readable(self.path),
            pq.ParquetFile(
                self.path,
                metadata=self.metadata,
                buffer_size=READ_AHEAD,
                pre_buffer=False,
                page_checksum_verification=True,
            ) as file,
        ):
            for batch in file.iter_batches(
                batch_size=batch_rows(len(columns)),
                row_groups=groups,
                columns=list(columns),
                use_threads=groups is None,
            ):
                batch.validate(full=True)
                yield batch


@dataclass(frozen=True)
class _Reading:
    """What every shard needs to know to read its rows."""

    source: Source
    columns: Columns
    index: dict[Hashable, int]
    n_actions: int
    n_features: int
    feature_names: list[str] | None
    file: _Parquet | None

    def batches(self, shard: Shard) -> Iterator[pa.RecordBatch]:
        columns = self.columns
        names = tuple(dict.fromkeys((*columns.contexts, columns.action, columns.reward)))
        if self.file is None:
            return self.source.batches(names)
        return self.file.batches(names, shard.groups)

    def contexts(self, batch: pa.RecordBatch, first_row: int) -> np.ndarray | list[np.ndarray]:
        """Columns (n,) as they lie in the batch, or the rows (n, d) of a list column."""
        names = self.columns.contexts
        if not _is_list(self.source, names):
            return [_numbers(batch, name, first_row) for name in names]
        rows = arrays.features(batch, names, first_row=first_row)
        if rows.shape[1] != self.n_features:
            raise LogError(
                f"{names[0]} at row {first_row} has length {rows.shape[1]}; the rows before it have "
                f"{self.n_features}"
            )
        return rows


def summarise(
    source: Any,
    *,
    contexts: str | Sequence[str] | None = None,
    action: str = "action",
    reward: str = "reward",
    propensity: str | None = "propensity",
    distribution: str | None = "p_",
    eligible: str | None = "eligible",
    context_id: str | None = "context_id",
    actions: Sequence[Hashable] | None = None,
    threads: int | None = None,
) -> Summary:
    """Sum a table's rows by action without ever holding them: N_a, Σ x xᵀ, Σ x r, Σ r².

    Takes the files and tables of `read_log` with its column names, and gives the sums and the action names
    of the log it would read. Only contexts, actions and rewards are read and checked; the other columns tell
    which labels there are. Parquet is read by `threads` threads, by default one a core; memory is bounded
    by actions, features and threads, not by rows.
    """
    if threads is not None and (not isinstance(threads, int | np.integer) or threads < 1):
        raise SettingError(f"threads={threads!r}; must be a whole number, 1 or more, or None for all cores")
    foreign = formats.detect(source)
    if foreign is not None:
        raise LogError(
            f"this is {foreign.title}, which is not read in batches. Convert it to Parquet with "
            "sparing.log.conversion.convert, or take Summary.of(read_log(...))"
        )
    table = open_source(source)
    columns = find_columns(
        table,
        contexts=contexts,
        action=action,
        reward=reward,
        propensity=propensity,
        distribution=distribution,
        eligible=eligible,
        context_id=context_id,
    )
    file = _parquet(source)
    if file is not None:
        table = replace(table, batches=file.batches)
    names = names_of(table, columns, actions)
    index: dict[Hashable, int] = {name: i for i, name in enumerate(names)}
    if table.text or table.notes:
        index.update(labels.by_text(names).items())
    reading = _Reading(
        table, columns, index, len(names), _width(table, columns), feature_names_of(table, columns), file
    )
    statistics = _sums(reading, threads)
    if not statistics.n_rows:
        raise _no_rows(table)
    return Summary(statistics, names)


def _parquet(source: Any) -> _Parquet | None:
    """The file, where the source is a path to Parquet."""
    if not isinstance(source, str | os.PathLike) or FORMATS.get(ending(Path(source))) != "parquet":
        return None
    import pyarrow.parquet as pq

    with readable(Path(source)):
        return _Parquet(Path(source), pq.read_metadata(source))


def _numbers(batch: pa.RecordBatch, name: str, first_row: int) -> np.ndarray:
    """A column as floats, (n,): where it lies, if it is one of floats without gaps."""
    column = batch.column(name)
    if column.type == pa.float64() and not column.null_count:
        return column.to_numpy()
    return arrays.numbers(column, name, first_row=first_row)


def _is_list(source: Source, contexts: Sequence[str]) -> bool:
    return len(contexts) == 1 and arrays.is_list(source.schema.field(contexts[0]).type)


def _width(source: Source, columns: Columns) -> int:
    """Length of a context, d."""
    if not _is_list(source, columns.contexts):
        return len(columns.contexts)
    for batch in source.batches(columns.contexts):
        if batch.num_rows:
            rows = arrays.features(batch.slice(0, 1), columns.contexts, first_row=0)
            if not rows.shape[1]:
                raise LogError(f"{columns.contexts[0]} at row 0 is an empty list; expected a feature or more")
            return int(rows.shape[1])
    raise _no_rows(source)


def _no_rows(source: Source) -> LogError:
    return LogError(f"{source.name} has no rows; a log without rows is Log.empty(...)")


def _sums(reading: _Reading, threads: int | None) -> Statistics:
    shards = _shards(reading)
    if len(shards) == 1:
        return _sum_shard(reading, shards[0])
    with ThreadPoolExecutor(max_workers=min(len(shards), threads or _cores())) as pool:
        return reduce(add, pool.map(partial(_sum_shard, reading), shards))


def _cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _shards(reading: _Reading) -> list[Shard]:
    """Runs of row groups with about equally many rows; how many follows from rows, actions and features."""
    from sparing.model.tiles import waiting_shape

    sizes = [] if reading.file is None else reading.file.sizes
    k, d = reading.n_actions, reading.n_features
    depth, width = waiting_shape(k, d)
    worthwhile = sum(sizes) // max(SHARD_ROWS, ROWS_AN_ACTION * k)
    affordable = ACCUMULATORS // (8 * k * (d * d + depth * width))
    count = max(1, min(SHARDS, worthwhile, affordable))
    if count == 1:
        return [Shard()]
    ends = np.cumsum(sizes, dtype=np.int64)
    home = (ends - sizes) * count // sum(sizes)  # by a group's first row
    runs = [np.flatnonzero(home == i) for i in range(count)]
    return [Shard(int(ends[run[0]] - sizes[run[0]]), tuple(run.tolist())) for run in runs if len(run)]


def _sum_shard(reading: _Reading, shard: Shard) -> Statistics:
    """The statistics of a shard's rows."""
    from sparing.model.tiles import Tiles

    tiles = Tiles(reading.n_actions, reading.n_features)
    row, columns = shard.first_row, reading.columns
    for batch in reading.batches(shard):
        if not batch.num_rows:
            continue
        rows = np.arange(row, row + batch.num_rows)
        actions = arrays.indices(batch.column(columns.action), columns.action, reading.index, rows=rows)
        rewards = _numbers(batch, columns.reward, row)
        contexts = reading.contexts(batch, row)
        _check_sizes(contexts, rewards, row, reading.feature_names)
        tiles.add(contexts, actions, rewards)
        row += batch.num_rows
    return tiles.sums()


def _check_sizes(
    contexts: np.ndarray | list[np.ndarray], rewards: np.ndarray, first_row: int, names: Sequence[str] | None
) -> None:
    """Refuse what a log refuses: numbers that are not finite, or too large to be summed."""
    columns = list(contexts.T) if isinstance(contexts, np.ndarray) else contexts
    for j, column in enumerate(columns):
        bad = first_too_large(column)
        if bad >= 0:
            raise feature_error(column[bad], first_row + bad, j, names)
    bad = first_too_large(rewards)
    if bad >= 0:
        raise number_error("reward", rewards[bad], first_row + bad)
