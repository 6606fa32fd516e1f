"""The support of a log: which (row, action) pairs could have been logged; exact, estimated or unknown."""

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from sparing.errors import LogError
from sparing.log import labels
from sparing.log.passes import Blocks

Kind = Literal["exact", "estimated", "unknown"]

# Difference of a distribution's sum from 1 that is allowed: columns may be in single precision.
SUM_TOLERANCE = 1e-6

# Bytes of distinct distributions that are kept; of more, only the sets are kept.
DENSE_LIMIT = 256 * 2**20

# Rows after which equal sets are no longer searched for if most are distinct.
DEDUPLICATION_TRIAL = 65_536


@dataclass(frozen=True, eq=False)
class Support:
    """Supported actions of each logged row, one bit a pair; equal sets are stored once.

    Attributes
    ----------
    kind : {"exact", "estimated", "unknown"}
    n_rows, n_actions : int
        Numbers of rows n and of actions K.
    table : (m, ceil(K/8)) array of uint8 or None
        The distinct sets as packed bits; None if the support is unknown.
    index : (n,) array of int or None
        The set of each row; None means that row i has set i.
    probabilities : (m, K) array or None
        The distributions of the sets, if they are known and not too many.
    from_probabilities : bool
        An unsupported action had probability 0; otherwise it was not eligible.
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
        """Build an unknown support.

        Parameters
        ----------
        n_rows, n_actions : int
            Numbers of rows and of actions.
        """
        return cls("unknown", n_rows, n_actions)

    @classmethod
    def everything(cls, n_rows: int, n_actions: int) -> "Support":
        """Build a support of all actions in every row.

        Parameters
        ----------
        n_rows, n_actions : int
            Numbers of rows and of actions.
        """
        return cls.constant(np.ones(n_actions, dtype=bool), n_rows)

    @classmethod
    def constant(cls, mask: np.ndarray, n_rows: int) -> "Support":
        """Build a support with one set for all rows.

        Parameters
        ----------
        mask : (K,) array of bool
            Whether each action is supported.
        n_rows : int
        """
        table = np.packbits(np.asarray(mask, dtype=bool)[None, :], axis=1)
        return cls("exact", n_rows, len(mask), table, np.zeros(n_rows, dtype=np.int32))

    @classmethod
    def from_mask(cls, mask: np.ndarray, *, kind: Kind = "exact") -> "Support":
        """Build a support from a boolean matrix.

        Parameters
        ----------
        mask : (n, K) array of bool
            Whether each action is supported in each row; at least one per row.
        kind : {"exact", "estimated"}

        Examples
        --------
        >>> import numpy as np, sparing
        >>> sparing.Support.from_mask(np.array([[True, False], [True, True]])).sizes.tolist()
        [1, 2]
        """
        builder = SupportBuilder(_width(mask), kind=kind)
        builder.add(mask)
        return builder.build()

    @classmethod
    def from_distribution(cls, distribution: np.ndarray, *, kind: Kind = "exact") -> "Support":
        """Build a support from full distributions: actions with a positive probability are supported.

        Parameters
        ----------
        distribution : (n, K) array
            Probabilities of all actions; each row sums to 1.
        kind : {"exact", "estimated"}
        """
        builder = SupportBuilder(_width(distribution), kind=kind)
        builder.add_distribution(distribution)
        return builder.build()

    @property
    def known(self) -> bool:
        """Whether the sets are known or estimated."""
        return self.table is not None

    def places(self, rows: slice | np.ndarray) -> slice | np.ndarray:
        """Return the positions of the rows' sets in `table` and `probabilities`.

        Parameters
        ----------
        rows : slice or array of int
        """
        return rows if self.index is None else self.index[rows]

    def mask(self, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return the supported actions of rows as a boolean matrix, (m, K).

        Parameters
        ----------
        rows : slice or array of int
            By default all rows.
        """
        bits = self._known_table()[self.places(rows)]
        return np.unpackbits(bits, axis=1, count=self.n_actions).astype(bool)

    def distribution(self, rows: slice | np.ndarray = slice(None)) -> np.ndarray | None:
        """Return the full distributions of rows, (m, K); None if only the sets are known.

        Parameters
        ----------
        rows : slice or array of int
            By default all rows.
        """
        return None if self.probabilities is None else self.probabilities[self.places(rows)]

    def contains(self, rows: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Return whether (row, action) pairs are supported, (m,).

        Parameters
        ----------
        rows, actions : (m,) arrays of int
            Row numbers and action indices.
        """
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
        """Mean share of the actions that a row could not have taken (n^UA in the paper)."""
        return float(1 - self.shares.mean())

    def take(self, rows: np.ndarray) -> "Support":
        """Select rows.

        Parameters
        ----------
        rows : array
            Indices, or a boolean mask (n,).
        """
        rows = np.arange(self.n_rows)[rows]
        return self._with_rows(rows, len(rows))

    def part(self, rows: slice) -> "Support":
        """Select consecutive rows without a copy.

        Parameters
        ----------
        rows : slice
        """
        return self._with_rows(rows, len(range(*rows.indices(self.n_rows))))

    def _with_rows(self, rows: slice | np.ndarray, count: int) -> "Support":
        if self.table is None:
            return Support.unknown(count, self.n_actions)
        if self.index is not None:
            return replace(self, n_rows=count, index=self.index[rows])
        probabilities = None if self.probabilities is None else self.probabilities[rows]
        return replace(self, n_rows=count, table=self.table[rows], probabilities=probabilities)

    def compact(self) -> "Support":
        """Drop unused sets if there are more sets than rows."""
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
    """Collects supports batch by batch, and stores equal sets once while that saves memory."""

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
        """Add sets of action indices: their `lengths` (batch,), and their `actions` (Σ lengths,), concatenated."""
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
        """The index of each row's set, (batch,), and the first rows of new sets, in order."""
        before, rows = len(seen), np.ascontiguousarray(keys)
        listed = rows.view(f"V{rows.strides[0]}").ravel().tolist()
        index = np.array([seen.setdefault(key, len(seen)) for key in listed], dtype=np.int32)
        found, first = np.unique(index, return_index=True)
        return index, first[found >= before]

    def build(self) -> Support:
        """The support of all batches; the builder is empty afterwards."""
        table = stacked(self._tables, (self.n_actions + 7) // 8, np.uint8)
        index = np.concatenate(self._indices) if self._indices else np.empty(0, dtype=np.int32)
        self._indices.clear()
        self._seen = None
        probabilities = stacked(self._probabilities, self.n_actions) if self._probabilities else None
        shared = None if self._kept == self.rows else index
        from_probabilities = self._from_probabilities and self.rows > 0
        return Support(self.kind, self.rows, self.n_actions, table, shared, probabilities, from_probabilities)


def stacked(parts: list[np.ndarray], width: int, dtype: Any = np.float64) -> np.ndarray:
    """Stack tables, padded with 0 to `width` columns; `parts` is emptied, which bounds the memory."""
    table: np.ndarray = np.zeros((sum(map(len, parts)), width), dtype)
    stop = len(table)
    while parts:
        part = parts.pop()
        table[stop - len(part) : stop, : part.shape[1]] = part
        stop -= len(part)
    return table


def _width(table: np.ndarray) -> int:
    if np.ndim(table) != 2:
        raise LogError(f"support of shape {np.shape(table)}; expected (rows, actions)")
    return int(np.shape(table)[1])


def check_distribution(distribution: np.ndarray, *, first_row: int = 0) -> None:
    """Reject rows that are no probability distribution: finite, not negative, with sum 1."""
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
    """Concatenated eligible sets: distinct labels, the members' codes (Σ lengths,), and the sets' lengths (n,)."""

    distinct: list[Any]
    codes: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, eligible: Iterable[Sequence[Hashable]]) -> "EligibleSets":
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
        """The members' action indices, (Σ lengths,)."""
        rows = first_row + np.repeat(np.arange(len(self.lengths)), self.lengths)
        return labels.positions(self.distinct, self.codes, index, what="eligible action", rows=rows)

    def support(self, index: Mapping[Hashable, int]) -> Support:
        builder = SupportBuilder(len(index))
        builder.add_sets(self.lengths, self.indices(index))
        return builder.build()
