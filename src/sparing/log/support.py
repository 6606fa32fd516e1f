"""Which (row, action) pairs could have been logged — known exactly, estimated, or unknown, never guessed."""

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from sparing.errors import LogError
from sparing.log import labels
from sparing.log.blocks import Blocks

Kind = Literal["exact", "estimated", "unknown"]

SUM_TOLERANCE = 1e-6
"""How far a distribution's sum may be from 1 (single-precision columns)."""

DENSE_LIMIT = 256 * 2**20
"""Bytes of distinct distributions that are kept; beyond, only their support is."""

DEDUPLICATION_TRIAL = 65_536
"""Rows after which a log with mostly distinct sets stops looking for equal ones."""


@dataclass(frozen=True, eq=False)
class Support:
    """Supported actions of each logged row, one bit a pair; equal sets are stored once.

    `table` (m, ceil(K/8)) holds the distinct sets as packed bits, `index` (n,) says which of them a
    row has (None: row i has set i), `probabilities` (m, K) the distributions behind them where known.
    `from_probabilities` says that an absent action had probability 0, even where the distributions were too
    many to keep; otherwise it was not eligible.
    """

    kind: Kind
    n_rows: int
    n_actions: int
    table: np.ndarray | None = None
    index: np.ndarray | None = None
    probabilities: np.ndarray | None = None
    from_probabilities: bool = False

    def __post_init__(self) -> None:
        for array in (self.table, self.index, self.probabilities):
            if array is not None:
                array.setflags(write=False)

    @classmethod
    def unknown(cls, n_rows: int, n_actions: int) -> "Support":
        """Nothing is known about what could have been logged."""
        return cls("unknown", n_rows, n_actions)

    @classmethod
    def everything(cls, n_rows: int, n_actions: int) -> "Support":
        """Every action could have been logged in every row."""
        return cls.constant(np.ones(n_actions, dtype=bool), n_rows)

    @classmethod
    def constant(cls, mask: np.ndarray, n_rows: int) -> "Support":
        """One set for every row; mask (K,)."""
        table = np.packbits(np.asarray(mask, dtype=bool)[None, :], axis=1)
        return cls("exact", n_rows, len(mask), table, np.zeros(n_rows, dtype=np.int32))

    @classmethod
    def from_mask(cls, mask: np.ndarray, *, kind: Kind = "exact") -> "Support":
        """Sets as a boolean matrix (n, K)."""
        builder = SupportBuilder(_width(mask), kind=kind)
        builder.add(mask)
        return builder.build()

    @classmethod
    def from_distribution(cls, distribution: np.ndarray, *, kind: Kind = "exact") -> "Support":
        """Full action distributions (n, K): an action is supported where its probability is positive."""
        builder = SupportBuilder(_width(distribution), kind=kind)
        builder.add_distribution(distribution)
        return builder.build()

    @property
    def known(self) -> bool:
        """Whether anything can be said about unsupported actions."""
        return self.table is not None

    def places(self, rows: slice | np.ndarray) -> slice | np.ndarray:
        """Where the sets of these rows stand in `table`, and their distributions in `probabilities`."""
        return rows if self.index is None else self.index[rows]

    def mask(self, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Boolean matrix (rows, K) of supported actions, unpacked for these rows only."""
        bits = self._known_table()[self.places(rows)]
        return np.unpackbits(bits, axis=1, count=self.n_actions).astype(bool)

    def distribution(self, rows: slice | np.ndarray = slice(None)) -> np.ndarray | None:
        """Full distributions (rows, K), or None where only the sets are known."""
        return None if self.probabilities is None else self.probabilities[self.places(rows)]

    def contains(self, rows: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Whether each (row, action) pair is supported."""
        table = self._known_table()
        return (table[self.places(rows), actions >> 3] >> (7 - (actions & 7))) & 1 > 0

    @cached_property
    def sizes(self) -> np.ndarray:
        """Number of supported actions of each row, (n,)."""
        table = self._known_table()
        counts = np.empty(len(table), dtype=np.int64)
        for rows in Blocks.of(len(table), self.n_actions):
            counts[rows] = np.bitwise_count(table[rows]).sum(axis=1, dtype=np.int64)
        sizes = counts if self.index is None else counts[self.index]
        sizes.setflags(write=False)
        return sizes

    @cached_property
    def shares(self) -> np.ndarray:
        """Share of rows in which each action is supported, (K,)."""
        table = self._known_table()
        weights = None if self.index is None else np.bincount(self.index, minlength=len(table)).astype(float)
        rows_with = np.zeros(self.n_actions)
        for rows in Blocks.of(len(table), self.n_actions):
            bits = np.unpackbits(table[rows], axis=1, count=self.n_actions)
            rows_with += bits.sum(axis=0, dtype=np.uint32) if weights is None else weights[rows] @ bits
        shares = rows_with / max(1, self.n_rows)
        shares.setflags(write=False)
        return shares

    @property
    def unsupported_share(self) -> float:
        """n^UA: the mean share of actions that a row could not have taken."""
        return float(1 - self.shares.mean())

    def take(self, rows: np.ndarray) -> "Support":
        """The support of a selection of rows (indices or a boolean mask)."""
        rows = np.arange(self.n_rows)[rows]
        if self.table is None:
            return Support.unknown(len(rows), self.n_actions)
        if self.index is not None:
            return replace(self, n_rows=len(rows), index=self.index[rows])
        probabilities = None if self.probabilities is None else self.probabilities[rows]
        return replace(self, n_rows=len(rows), table=self.table[rows], probabilities=probabilities)

    def part(self, rows: slice) -> "Support":
        """The support of a run of rows, without a copy."""
        many = len(range(*rows.indices(self.n_rows)))
        if self.table is None:
            return Support.unknown(many, self.n_actions)
        if self.index is not None:
            return replace(self, n_rows=many, index=self.index[rows])
        probabilities = None if self.probabilities is None else self.probabilities[rows]
        return replace(self, n_rows=many, table=self.table[rows], probabilities=probabilities)

    def compact(self) -> "Support":
        """The same, without sets that no row has where they are many."""
        if self.table is None or self.index is None or len(self.table) <= self.n_rows:
            return self
        used, index = np.unique(self.index, return_inverse=True)
        chances = None if self.probabilities is None else self.probabilities[used]
        return replace(self, table=self.table[used], index=index.astype(np.int32), probabilities=chances)

    def _known_table(self) -> np.ndarray:
        if self.table is None:
            raise LogError(
                "the log's support is unknown: it names neither eligible sets nor full distributions. "
                "Log them (columns `eligible` or `p_<action>`), or estimate them"
            )
        return self.table

    def __repr__(self) -> str:
        if self.table is None:
            return f"Support(unknown, {self.n_rows} rows, {self.n_actions} actions)"
        what = "distributions" if self.probabilities is not None else "sets"
        return (
            f"Support({self.kind}, {self.n_rows} rows, {self.n_actions} actions, "
            f"{len(self.table)} distinct {what})"
        )


@dataclass
class SupportBuilder:
    """Collects supports batch by batch, storing equal sets once while that pays."""

    n_actions: int
    kind: Kind = "exact"
    first_row: int = 0
    rows: int = 0
    _seen: dict[bytes, int] | None = field(default_factory=dict)
    _tables: list[np.ndarray] = field(default_factory=list)
    _indices: list[np.ndarray] = field(default_factory=list)
    _probabilities: list[np.ndarray] | None = field(default_factory=list)
    _kept: int = 0
    _from_probabilities: bool = True

    def add(self, mask: np.ndarray) -> None:
        """Add a boolean matrix (batch, K)."""
        self._probabilities, self._from_probabilities = None, False
        self._add(np.asarray(mask, dtype=bool), None)

    def add_distribution(self, distribution: np.ndarray) -> None:
        """Add full distributions (batch, K), checked row by row."""
        table = np.ascontiguousarray(distribution, dtype=np.float64)
        check_distribution(table, first_row=self.first_row + self.rows)
        self._add(table > 0, table if self._probabilities is not None else None)

    def add_sets(self, lengths: np.ndarray, actions: np.ndarray) -> None:
        """Add sets of action indices: `lengths` (batch,) of them, `actions` (Σ lengths,) end to end."""
        ends = np.cumsum(lengths)
        for rows in Blocks.of(len(lengths), self.n_actions):
            sizes = lengths[rows]
            members = actions[ends[rows.start] - sizes[0] : ends[rows.stop - 1]]
            mask = np.zeros((len(sizes), self.n_actions), dtype=bool)
            mask[np.repeat(np.arange(len(sizes)), sizes), members] = True
            self.add(mask)

    def _add(self, mask: np.ndarray, probabilities: np.ndarray | None) -> None:
        if mask.ndim != 2 or mask.shape[1] != self.n_actions:
            raise LogError(f"support of shape {mask.shape}; expected (rows, {self.n_actions})")
        empty = np.flatnonzero(~mask.any(axis=1))
        if len(empty):
            raise LogError(
                f"no supported action at row {self.first_row + self.rows + empty[0]}; every row needs at least one"
            )
        table = np.packbits(mask, axis=1)
        if self._seen is not None:
            index, new = self._look_up(table if probabilities is None else probabilities, self._seen)
            self._indices.append(index)
            table = table[new]
            probabilities = None if probabilities is None else probabilities[new]
        else:
            self._indices.append(np.arange(self._kept, self._kept + len(table), dtype=np.int32))
        self._tables.append(table)
        self._kept += len(table)
        self.rows += len(mask)
        if probabilities is not None and self._probabilities is not None:
            self._probabilities.append(probabilities)
            if self._kept * self.n_actions * 8 > DENSE_LIMIT:
                self._probabilities = None
        if self._seen is not None and self.rows >= DEDUPLICATION_TRIAL and self._kept > self.rows / 2:
            self._seen = None

    @staticmethod
    def _look_up(keys: np.ndarray, seen: dict[bytes, int]) -> tuple[np.ndarray, np.ndarray]:
        """Which of those seen each row is, (batch,), and the first rows of those that are new, in order."""
        before, rows = len(seen), np.ascontiguousarray(keys)
        listed = rows.view(f"V{rows.strides[0]}").ravel().tolist()
        index = np.array([seen.setdefault(key, len(seen)) for key in listed], dtype=np.int32)
        found, first = np.unique(index, return_index=True)
        return index, first[found >= before]

    def build(self) -> Support:
        """Close the collection and let go of its parts."""
        table = stacked(self._tables, _packed_width(self.n_actions), np.uint8)
        index = np.concatenate(self._indices) if self._indices else np.empty(0, dtype=np.int32)
        self._indices.clear()
        self._seen = None
        probabilities = stacked(self._probabilities, self.n_actions) if self._probabilities else None
        shared = None if self._kept == self.rows else index
        from_probabilities = self._from_probabilities and self.rows > 0
        return Support(self.kind, self.rows, self.n_actions, table, shared, probabilities, from_probabilities)


def stacked(parts: list[np.ndarray], width: int, dtype: Any = np.float64) -> np.ndarray:
    """One table of parts that may be narrower, 0 where they end; they are let go of one by one, last first."""
    table: np.ndarray = np.zeros((sum(map(len, parts)), width), dtype)
    stop = len(table)
    while parts:
        part = parts.pop()
        table[stop - len(part) : stop, : part.shape[1]] = part
        stop -= len(part)
    return table


def _packed_width(n_actions: int) -> int:
    """Bytes of a set, one bit an action."""
    return (n_actions + 7) // 8


def _width(table: np.ndarray) -> int:
    if np.ndim(table) != 2:
        raise LogError(f"support of shape {np.shape(table)}; expected (rows, actions)")
    return int(np.shape(table)[1])


def check_distribution(distribution: np.ndarray, *, first_row: int = 0) -> None:
    """Each row must be a probability distribution: finite, not negative, summing to 1."""
    bad = np.flatnonzero(~np.isfinite(distribution).all(axis=1) | (distribution < 0).any(axis=1))
    if len(bad):
        raise LogError(
            f"the distribution at row {first_row + bad[0]} has a negative or non-finite probability "
            f"({distribution[bad[0]].min()}); each must be in [0, 1]"
        )
    sums = distribution.sum(axis=1)
    off = np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE)
    if len(off):
        raise LogError(
            f"the distribution at row {first_row + off[0]} sums to {sums[off[0]]:.6g}; it must sum to 1. "
            "Name every action's column, or pass eligible sets instead"
        )


@dataclass(frozen=True)
class EligibleSets:
    """Eligible sets end to end: the distinct labels, the members' codes, and the sets' lengths (n,)."""

    distinct: list[Any]
    codes: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, eligible: Iterable[Sequence[Hashable]]) -> "EligibleSets":
        """Gather each row's labels."""
        if isinstance(eligible, np.ndarray) and eligible.dtype == bool:
            raise LogError(
                "eligible is a boolean matrix; expected the labels of each row. "
                "Pass support=Support.from_mask(matrix) instead"
            )
        sets: list[list[Any]] = []
        for row, given in enumerate(eligible):
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise LogError(
                    f"eligible at row {row} is {labels.shorten(given)}; expected a list of actions"
                )
            sets.append(list(given))
        members = list(itertools.chain.from_iterable(sets))
        return cls(*labels.encode(members), np.array(list(map(len, sets)), dtype=np.int64))

    def indices(self, index: Mapping[Hashable, int], *, first_row: int = 0) -> np.ndarray:
        """The members' indices (Σ lengths,), their labels looked up in `index`."""
        rows = first_row + np.repeat(np.arange(len(self.lengths)), self.lengths)
        return labels.positions(self.distinct, self.codes, index, what="eligible action", rows=rows)

    def support(self, index: Mapping[Hashable, int]) -> Support:
        """The sets as a support, their labels looked up in `index`."""
        builder = SupportBuilder(len(index))
        builder.add_sets(self.lengths, self.indices(index))
        return builder.build()
