"""The pool: contexts that rewards may be asked for, their raw columns, and the ids of (row, action) pairs."""

import hashlib
import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sparing.errors import LogError, SettingError
from sparing.hashing import groups_of
from sparing.log import Log
from sparing.log.columns import ColumnRoles
from sparing.log.features.encoder import Encoder
from sparing.log.labels import label_text
from sparing.log.rows import AnyLog, as_rows
from sparing.log.tables import TableSource, open_table

MOST_ROWS = 100_000
"""Rows of a pool that stand for the traffic, at most; of a larger one a random part."""

CANDIDATES = 1
"""Random distinct contexts per call among which a queue is chosen.

The best of all contexts are its outliers, where a linear model is least right (docs/ask.md).
"""

OWN_COLUMNS = ("id", "row", "action", "worth", "why", "reward")
"""Columns of a queue besides the raw ones."""

CHECK_BYTES = 3  # of the checksum in an id


@dataclass(frozen=True, eq=False)
class Pool:
    """Contexts (n, d) of the rows `numbers` (n,) of a log or a table, `total` rows in all.

    `logged` (n,) is the action that the log tried in each row, −1 in a table of contexts. `columns` are the raw columns that are
    shown; without a `source` they are the features.
    """

    contexts: np.ndarray
    numbers: np.ndarray
    logged: np.ndarray
    total: int
    encoder: Encoder
    columns: tuple[str, ...]
    source: TableSource | None
    log: AnyLog | None

    @classmethod
    def of_log(
        cls, log: AnyLog, table: Any, roles: ColumnRoles, seed: int, encoder: Encoder | None = None
    ) -> "Pool":
        """The log's own contexts; `table`, if it is given, is what the log was read from, and has the raw columns.

        `encoder` may be the log's with features for unseen values.
        """
        encoder = log.encoder if encoder is None else encoder
        rows = as_rows(log).select(ids=False, support=False)
        if not rows.n_rows:
            raise SettingError("the log has no rows, so there is no context to ask for; pass pool=...")
        source = None if table is None else _opened(table)
        numbers = _part(rows.n_rows, seed)
        found = list(_rows_of_log(log, numbers))
        columns = (
            tuple(encoder.names[place] for place in encoder.logged)
            if source is None
            else _shown(source, roles, log.action_names)
        )
        return cls(
            encoder.completed(np.concatenate([block.contexts for block in found])),
            numbers,
            np.concatenate([block.actions for block in found]).astype(np.int64),
            rows.n_rows,
            encoder,
            columns,
            source,
            log,
        )

    @classmethod
    def of_table(cls, table: Any, log: AnyLog, roles: ColumnRoles, seed: int, encoder: Encoder) -> "Pool":
        """The contexts of a table of raw columns, encoded as the log's."""
        source = _opened(table)
        total = source.rows
        if total is None:
            total = sum(batch.num_rows for _, batch in source.blocks(source.schema.names[:1]))
        if not total:
            raise LogError(f"the pool in {source.name} has no rows; expected a context per row")
        numbers = _part(total, seed)
        pool = cls(
            np.empty((0, encoder.size)), numbers, np.full(len(numbers), -1), total, encoder, (), source, None
        )
        return replace(
            pool, contexts=pool.contexts_at(numbers), columns=_shown(source, roles, log.action_names)
        )

    def contexts_at(self, numbers: np.ndarray) -> np.ndarray:
        """The contexts of these rows, (m, d), which must be in ascending order."""
        if self.log is not None:
            parts = [block.contexts for block in _rows_of_log(self.log, numbers)]
        else:
            assert self.source is not None
            wanted = list(self.encoder.by_column)
            there = set(self.source.schema.names)
            absent = [name for name in wanted if name not in there]
            if absent:
                raise LogError(
                    f"the pool in {self.source.name} has no column {absent[0]!r}; it needs the log's feature columns: {', '.join(wanted[:12])}"
                )
            parts = [
                self.encoder.encode_batch(batch, first_row=first)[inside]
                for first, batch, inside in _taken(self.source.blocks(wanted), numbers)
            ]
        return self.encoder.completed(np.concatenate(parts)) if parts else np.empty((0, self.encoder.size))

    def cells(self, numbers: Sequence[int]) -> dict[int, tuple[Any, ...]]:
        """The shown cells of these rows, by row."""
        wanted = np.unique(np.asarray(numbers, dtype=np.int64))
        if self.source is None:
            found = self.contexts_at(wanted)[:, self.encoder.logged]
            return dict(zip(wanted.tolist(), map(tuple, found.tolist()), strict=True))
        cells: list[tuple[Any, ...]] = []
        for _, batch, inside in _taken(self.source.blocks(list(self.columns)), wanted):
            lists = [batch.column(name).take(inside).to_pylist() for name in self.columns]
            cells += list(zip(*lists, strict=True)) if lists else [()] * len(inside)
        return dict(zip(wanted.tolist(), cells, strict=True))

    @cached_property
    def groups(self) -> np.ndarray:
        """Index of each row's distinct context, (n,)."""
        return groups_of(self.contexts)

    def candidates(self, count: int, seed: Sequence[int]) -> "Candidates":
        """`count` random distinct contexts, drawn by row: frequent contexts are likelier, and all rows of each are candidates."""
        order = np.random.default_rng([*seed, 36]).permutation(len(self.groups))
        drawn = self.groups[order]
        first = np.sort(np.unique(drawn, return_index=True)[1])[: max(count, 1)]
        chosen = np.sort(order[first])
        place = np.full(int(self.groups.max()) + 1, -1)
        place[self.groups[chosen]] = np.arange(len(chosen))
        return Candidates(np.ascontiguousarray(self.contexts[chosen]), place[self.groups], self)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Distinct contexts (m, d) of a pool, and the index among them of each of its rows (n,), −1 for rows that are none."""

    contexts: np.ndarray
    of_row: np.ndarray
    pool: Pool

    def left(self, action: int, taken: set[int]) -> np.ndarray:
        """How many rows of each context may still be asked for an action, (m,): not those logged with it, or asked before."""
        free = (self.of_row >= 0) & (self.pool.logged != action)
        if taken:
            free &= ~np.isin(self.pool.numbers, list(taken))
        return np.bincount(self.of_row[free], minlength=len(self.contexts))

    def row(self, candidate: int, action: int, taken: set[int]) -> int:
        """The number of the first row with this context that may be asked for the action."""
        inside = np.flatnonzero((self.of_row == candidate) & (self.pool.logged != action))
        return next(row for row in self.pool.numbers[inside].tolist() if row not in taken)


def identifier(row: int, action: Hashable, cells: Sequence[Any]) -> str:
    """The id of a row and an action: its number, and a checksum of what is shown."""
    text = json.dumps([label_text(action), [cell_text(cell) for cell in cells]])
    return f"r{row}-{hashlib.blake2b(text.encode(), digest_size=CHECK_BYTES).hexdigest()}"


def cell_text(cell: Any) -> str:
    """A cell as text; a missing one is empty."""
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else str(cell)


def _part(total: int, seed: int) -> np.ndarray:
    """All row numbers, or a random `MOST_ROWS` of them in order."""
    if total <= MOST_ROWS:
        return np.arange(total)
    return np.sort(np.random.default_rng([seed, 31]).choice(total, MOST_ROWS, replace=False))


def _opened(table: Any) -> TableSource:
    return table if isinstance(table, TableSource) else open_table(table)


def _shown(source: TableSource, roles: ColumnRoles, actions: Sequence[Hashable]) -> tuple[str, ...]:
    """The columns of a table that describe a row: all but those of the action, the reward and its probabilities."""
    hidden = {roles.action, roles.reward, roles.propensity, roles.eligible}
    for prefix in (roles.distribution, roles.costs):
        if isinstance(prefix, str):
            hidden |= {f"{prefix}{label_text(action)}" for action in actions}
    return tuple(name for name in source.schema.names if name not in hidden)


def _rows_of_log(log: AnyLog, numbers: np.ndarray) -> Iterator[Log]:
    """The rows of these ascending numbers, block by block."""
    if isinstance(log, Log):
        yield log.take(numbers)
        return
    for _, block, inside in _taken(as_rows(log).select(ids=False, support=False).blocks(), numbers):
        yield block.take(inside)


def _taken(blocks: Iterator[tuple[int, Any]], numbers: np.ndarray) -> Iterator[tuple[int, Any, np.ndarray]]:
    """The blocks with some of the ascending row numbers, and the places of those rows in them."""
    for first, batch in blocks:
        start, stop = np.searchsorted(numbers, [first, first + len(batch)])
        if start < stop:
            yield first, batch, numbers[start:stop] - first
