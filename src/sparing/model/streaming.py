"""Statistics of a table that need not fit in memory: batch by batch, on all cores.

The table is cut into shards that depend on the file alone. Each shard is summed by one thread from its first
row to its last, and the shards' sums are added in order, so that any number of threads gives the same bits.
"""

import os
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from sparing import settings
from sparing.errors import LogError
from sparing.log import arrays, formats
from sparing.log.arrays import Found
from sparing.log.blocks import Source, open_source
from sparing.log.columns import ColumnNames, Columns, keywords_of
from sparing.log.features import Encoder
from sparing.log.formats.table import (
    Wanted,
    columns_of,
    feature_names_of,
    index_of,
    names_of,
    no_rows,
    written_encoder,
)
from sparing.log.labels import feature_names as unnamed_features
from sparing.log.log import check_features, check_numbers
from sparing.model.reservoir import Reservoir, merged
from sparing.model.statistics import Statistics, Summary

SHARDS = 64
"""The most shards a file is cut into, hence the most threads at work."""

SHARD_ROWS = 2**17
"""The fewest rows worth a shard; where there are many actions, ROWS_AN_ACTION for each."""

ROWS_AN_ACTION = 16

ACCUMULATORS = 2**30
"""Bytes that the sums of all shards may take together; one shard takes what it must."""


@dataclass(frozen=True)
class _Reading:
    """What every shard needs to know to read its rows."""

    columns: Found
    index: dict[Hashable, int]
    n_actions: int
    n_features: int
    feature_names: list[str] | None
    encoder: Encoder | None

    def contexts(self, batch: pa.RecordBatch, first_row: int) -> np.ndarray | list[np.ndarray]:
        """Columns (n,) as they lie in the batch, or rows (n, d), of a list column or encoded."""
        names = self.columns.contexts
        if self.encoder is not None:
            return self.encoder.encode_batch(batch, first_row=first_row)
        if self.feature_names is None:
            return arrays.features(batch, names, first_row=first_row, width=self.n_features)
        return [arrays.numbers(batch.column(name), name, first_row=first_row) for name in names]


@keywords_of(Columns)
def summarise(
    source: Any,
    *,
    actions: Sequence[Hashable] | None = None,
    threads: int | None = None,
    features: Wanted = None,
    **columns: Unpack[ColumnNames],
) -> Summary:
    """Sum a table's rows by action without ever holding them: N_a, Σ x xᵀ, Σ x r, Σ r².

    Takes the files and tables of `read_log` with its column names and features, and gives the sums and the
    action names of the log it would read. Only contexts, actions and rewards are read and checked; the other columns tell
    which labels there are. Parquet is read by `threads` threads, by default one a core; memory is bounded
    by actions, features and threads, not by rows.
    """
    if threads is not None:
        settings.whole("threads", threads, least=1, hint=", or None for all cores")
    roles = arrays.roles_of(columns)
    found = formats.detect(source)
    if found is not formats.TABLE:
        raise LogError(
            f"this is {found.title}, which is not read in batches. Convert it to Parquet with "
            "sparing.log.conversion.convert, or take Summary.of(read_log(...))"
        )
    table = open_source(source)
    where, fitted = columns_of(table, roles, features)
    names, named = names_of(table, where, actions), feature_names_of(table, where)
    if fitted is not None:
        named = list(fitted.names)
    width = _width(table, where.contexts) if named is None else len(named)
    reading = _Reading(where, index_of(table, names), len(names), width, named, fitted)
    statistics, reservoir = _sums(table, reading, threads)
    if not statistics.n_rows:
        raise no_rows(table)
    encoder = fitted or written_encoder(table, where) or Encoder.raw(unnamed_features(named, width))
    if isinstance(features, Encoder) and features.digest != encoder.digest:
        features.aligned(encoder, np.empty((0, width)))  # says what differs
        raise LogError(
            "the table has the columns of features=... in another order, and sums are not reordered. Read it with "
            "read_log, or write it again"
        )
    return Summary(replace(statistics, encoder=encoder.digest), names, encoder, reservoir=reservoir)


def _width(source: Source, contexts: tuple[str, ...]) -> int:
    """Length of a context in a list column, d."""
    for _, batch in source.blocks(contexts):
        rows = arrays.features(batch.slice(0, 1), contexts, first_row=0)
        if not rows.shape[1]:
            raise LogError(f"{contexts[0]} at row 0 is an empty list; expected a feature or more")
        return int(rows.shape[1])
    raise no_rows(source)


def _sums(source: Source, reading: _Reading, threads: int | None) -> tuple[Statistics, np.ndarray]:
    """The statistics of all rows, and the contexts that stand for them."""
    shards = source.split(_shard_count(sum(source.sizes), reading.n_actions, reading.n_features))
    with ThreadPoolExecutor(max_workers=min(len(shards), threads or _cores())) as pool:
        summed = map if len(shards) == 1 else pool.map
        parts = list(summed(partial(_sum_shard, reading), shards))
    sums = reduce(add, (part for part, _ in parts))
    return sums, merged((part for _, part in parts), reading.n_features)


def _cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _shard_count(rows: int, k: int, d: int) -> int:
    """Into how many shards so many rows are cut: it follows from rows, actions and features alone."""
    from sparing.model.tiles import waiting_shape

    depth, width = waiting_shape(k, d)
    worthwhile = rows // max(SHARD_ROWS, ROWS_AN_ACTION * k)
    affordable = ACCUMULATORS // (8 * k * (d * d + depth * width))
    return max(1, min(SHARDS, worthwhile, affordable))


def _sum_shard(reading: _Reading, shard: Source) -> tuple[Statistics, Reservoir]:
    """The statistics of a shard's rows, and a sample of its contexts."""
    from sparing.model.tiles import Tiles

    tiles, sample = Tiles(reading.n_actions, reading.n_features), Reservoir(reading.n_features)
    columns = reading.columns
    for row, batch in shard.blocks(arrays.distinct(*columns.contexts, columns.action, columns.reward)):
        rows = np.arange(row, row + batch.num_rows)
        actions = arrays.indices(batch.column(columns.action), columns.action, reading.index, rows=rows)
        rewards = arrays.numbers(batch.column(columns.reward), columns.reward, first_row=row)
        contexts = reading.contexts(batch, row)
        check_features(contexts, reading.feature_names, first_row=row)
        check_numbers(rewards, "reward", first_row=row)
        tiles.add(contexts, actions, rewards)
        sample.offer(row, batch.num_rows, partial(_some, contexts))
    return tiles.sums(), sample


def _some(contexts: np.ndarray | list[np.ndarray], places: np.ndarray) -> np.ndarray:
    """Some rows of a batch, (m, d)."""
    if isinstance(contexts, list):
        return np.column_stack([column[places] for column in contexts])
    return contexts[places]
