"""The encoder, which turns raw columns, matched by name, into contexts. It is fitted to a log and saved as JSON."""

import hashlib
import itertools
import json
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.errors import DecisionError, FileError, LogError
from sparing.log.features.cells import MARKS, Notation
from sparing.log.features.columns import (
    TIMES,
    BoolColumn,
    CategoryColumn,
    CellError,
    Column,
    HashedColumn,
    NumberColumn,
    RawColumn,
    TimeColumn,
    VectorColumn,
)
from sparing.log.features.kernel import NystroemMap
from sparing.log.features.texts import TextColumn
from sparing.log.labels import feature_names, first_repeated, shorten, suggest

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = 8  # columns that a message lists
TILE_NUMBERS = 2**15  # of the rows that are written at a time: a quarter megabyte stays in the cache


def listed(names: Sequence[Hashable], most: int) -> str:
    return ", ".join(map(shorten, names[:most])) + (", …" if len(names) > most else "")


KINDS: dict[str, type[Column]] = {
    **{kind.kind: kind for kind in (NumberColumn, RawColumn, CategoryColumn, HashedColumn, BoolColumn)},
    **TIMES,
    **{kind.kind: kind for kind in (VectorColumn, TextColumn)},
}
"""The kinds of columns by name."""

VERSION, TEXT_VERSION = 1, 2
"""Versions of saved encoders: without columns of text, which older releases read too, and with them."""

CONSTANT = "constant"
KERNEL = "kernel"

LIMITS = {"low", "high", "rare_values", "under_week"}
"""Fields of columns that encoders saved before 0.3 do not have: what the log shows nothing beyond."""

NOTATION = "notation"
"""The field of columns for how the log writes numbers as text, which old encoders do not have either."""

OPTIONAL = LIMITS | {"unseen_place", NOTATION}
"""Fields that only some columns have."""

MOST_BLOCKS = 8
"""Blocks of coordinates that a prior scales separately; with more columns, those of one kind share a block."""

GROUPS = {"number": "numbers", "raw": "numbers", "category": "categories", "hashed": "categories"}
GROUPS |= {"bool": "truth values", "vector": "vectors", "text": "texts", **dict.fromkeys(TIMES, "times")}


@dataclass(frozen=True, eq=False)
class Encoder:
    """Turns raw columns into a context (d,): the constant, the coordinates of each column, kernel features.

    Attributes
    ----------
    columns : tuple of Column
        The fitted columns.
    constant : bool
        Whether the first coordinate is always 1.
    kernel : NystroemMap or None
        The kernel features.
    left_out : tuple of (str, str)
        Columns of the log that are not used, each with the reason.
    roles : tuple of str
        Columns of the log with another role, such as action and reward; a row may contain them, and they are ignored.

    Examples
    --------
    >>> import sparing
    >>> table = {"age": [31, 52, 40], "action": ["a", "b", "a"], "reward": [0.0, 1.0, 1.0]}
    >>> sparing.read_log(table, features="auto").encoder.encode({"age": 41}).tolist()
    [1.0, 0.0]
    """

    columns: tuple[Column, ...]
    constant: bool = True
    kernel: NystroemMap | None = None
    left_out: tuple[tuple[str, str], ...] = ()
    roles: tuple[str, ...] = ()

    @classmethod
    def raw(cls, names: Sequence[str], roles: Sequence[str] = ()) -> "Encoder":
        """Return the encoder that takes numbers as they are, without a constant.

        Parameters
        ----------
        names : sequence of str
            Names of the features, (d,).
        roles : sequence of str
            Columns with another role.
        """
        columns = tuple(RawColumn(name, gap=False) for name in names)
        return cls(columns, constant=False, roles=tuple(roles))

    @property
    def is_raw(self) -> bool:
        """Whether contexts are the raw columns themselves."""
        return (
            not self.constant
            and self.kernel is None
            and all(type(column) is RawColumn for column in self.columns)
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each coordinate, (d,)."""
        own = itertools.chain.from_iterable(column.names for column in self.columns)
        kernel = () if self.kernel is None else (f"{KERNEL}_{i}" for i in range(self.kernel.size))
        return (*((CONSTANT,) if self.constant else ()), *own, *kernel)

    @property
    def size(self) -> int:
        """Length of a context, d."""
        return len(self.names)

    @cached_property
    def _unnamed(self) -> bool:
        return self.is_raw and self.names == feature_names(None, self.size)

    @cached_property
    def spans(self) -> list[tuple[Column, int, int]]:
        """Each column, with its first coordinate and the one after its last."""
        ends = itertools.accumulate(
            (len(column.names) for column in self.columns), initial=int(self.constant)
        )
        return [(column, *span) for column, span in zip(self.columns, itertools.pairwise(ends), strict=True)]

    @cached_property
    def linear(self) -> slice:
        """The coordinates of the columns, from which the kernel is computed."""
        first = int(self.constant)
        return slice(first, self.spans[-1][2] if self.spans else first)

    @cached_property
    def blocks(self) -> tuple[str, ...]:
        """The block of each coordinate, (d,): the constant, each column (or kind of columns), the kernel."""
        others = int(self.constant) + (self.kernel is not None)
        apart = len(self.columns) + others <= MOST_BLOCKS and not self.is_raw
        named = ((column.column if apart else GROUPS[column.kind]) for column in self.columns)
        own = [name for name, column in zip(named, self.columns, strict=True) for _ in column.names]
        kernel = [KERNEL] * (0 if self.kernel is None else self.kernel.size)
        return (*([CONSTANT] if self.constant else []), *own, *kernel)

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that identify the encoder: equal ones give the log's own rows equal contexts."""
        plain = self.without_limits().with_notations(dict.fromkeys(self.by_column))
        known = {name: part for name, part in plain.header().items() if name != "roles"}
        return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]

    def without_limits(self) -> "Encoder":
        """Return the encoder that extrapolates numbers beyond the log's range, and takes unseen categories for rare ones."""
        columns: Any = self.columns
        free = (
            replace(each, **dict.fromkeys(LIMITS & {one.name for one in fields(each)})) for each in columns
        )
        return Encoder(tuple(free), self.constant, self.kernel, self.left_out)

    @property
    def decimal_marks(self) -> set[str]:
        """The decimal marks of the columns whose notation is known."""
        known = (getattr(column, NOTATION, None) for column in self.columns)
        return {notation.decimal for notation in known if notation is not None}

    def with_notations(self, notations: Mapping[str, Notation | None]) -> "Encoder":
        """Return the encoder that reads the texts of some number columns in other notations.

        Parameters
        ----------
        notations : mapping
            The notation of each such column; None: as computers write numbers.
        """
        columns = tuple(
            replace(column, notation=notations[column.column])
            if isinstance(column, NumberColumn) and column.column in notations
            else column
            for column in self.columns
        )
        return replace(self, columns=columns)

    # Places for values that the log never had, which learners with a prior add.

    def with_unseen(self) -> "Encoder":
        """Return the encoder with a feature for the values that the log never had, in every category; it is 0 in the log."""
        return self._placed(True)

    def without_unseen(self) -> "Encoder":
        """Return the encoder of the log: values that it never had are 0 everywhere."""
        return self._placed(None) if len(self.logged) < self.size else self

    def _placed(self, unseen: bool | None) -> "Encoder":
        columns: Any = self.columns
        found = tuple(
            replace(one, unseen_place=unseen) if type(one) is CategoryColumn and not one.hides_unseen else one
            for one in columns
        )
        if found == self.columns:
            return self
        other = Encoder(found, self.constant, None, self.left_out, self.roles)
        if self.kernel is None:
            return other
        first = self.linear.start
        if unseen:  # no landmark, as no logged row, has such a value
            landmarks = np.zeros((len(self.kernel.landmarks), other.size - first))
            landmarks[:, other.logged[first:] - first] = self.kernel.landmarks
        else:
            linear = self.logged[(self.logged >= first) & (self.logged < self.linear.stop)]
            landmarks = np.ascontiguousarray(self.kernel.landmarks[:, linear - first])
        return replace(other, kernel=replace(self.kernel, landmarks=landmarks))

    @cached_property
    def logged(self) -> np.ndarray:
        """The coordinates that the log has, without those of unseen values."""
        unseen = [
            first + column.place_of_unseen
            for column, first, _ in self.spans
            if isinstance(column, CategoryColumn) and column.unseen_place
        ]
        return np.setdiff1d(np.arange(self.size), unseen)

    # One row: what a live decision needs.

    @cached_property
    def _puts(self) -> tuple[list[Any], list[Any], list[Any]]:
        """The setters of number columns, of categories, and of all others; the first two avoid a call for each value.

        A category has the place of each value, and of None if it has a coordinate for missing values.
        """
        numbers: list[Any] = []
        words: list[Any] = []
        others: list[Any] = []
        for column, place, stop in self.spans:
            name, put = column.column, column.put(place)
            if isinstance(column, NumberColumn):
                numbers.append((name, place, column.mean, 1 / column.scale, *column.usual, put, column))
            elif type(column) is CategoryColumn:
                texts = {value: place + i for i, value in enumerate(column.values) if isinstance(value, str)}
                gap = {None: stop - 1} if column.gap else {}
                words.append((name, texts | gap, put, column))
            else:
                others.append((name, put))
        return numbers, words, others

    @cached_property
    def _always_unusual(self) -> list[str]:
        """Columns whose values `unseen` has to look at, whatever they are."""
        return [column.column for column in (*self._texts, *self._short_times)]

    @cached_property
    def _texts(self) -> list[TextColumn]:
        return [column for column in self.columns if isinstance(column, TextColumn)]

    @cached_property
    def _initial_row(self) -> np.ndarray:
        row = np.zeros(self.size)
        row[: self.linear.start] = 1.0
        return row

    def named(self, row: Any) -> np.ndarray | None:
        """Return the context (d,) of a mapping, a pandas row or a frame of one row.

        Return None for anything else, such as a list of numbers, which has no names.

        Parameters
        ----------
        row : Any
            A row with names, or anything else.
        """
        if type(row) is dict or isinstance(row, Mapping):
            return self.encode(row)
        if hasattr(row, "to_dict") and hasattr(
            row, "index"
        ):  # a pandas row; one with numbers for names is a vector
            if not hasattr(row, "columns"):
                given = row.to_dict()
                return self.encode(given) if all(isinstance(name, str) for name in given) else None
        elif not hasattr(row, "__arrow_c_stream__"):
            return None
        contexts = self.encode_table(row)
        if len(contexts) != 1:
            raise DecisionError(f"a frame of {len(contexts)} rows; expected one. Use decide_many for more")
        return contexts[0]

    def encode(self, row: Mapping[str, Any], *, unusual: list[str] | None = None) -> np.ndarray:
        """Return the context of one row.

        Parameters
        ----------
        row : mapping
            The value of every raw column, None if it is missing.
        unusual : list of str, optional
            Columns whose value is not simply a known one are appended; `unseen` depends on them alone.

        Returns
        -------
        ndarray (d,)

        Raises
        ------
        DecisionError
            If a column is missing or unknown, or a value has the wrong type.
        """
        out = self._initial_row.copy()
        view: Any = out.data
        numbers, words, others = self._puts
        try:
            for name, place, mean, times, low, high, put, column in numbers:
                value = row[name]
                if (value.__class__ is float or value.__class__ is int) and low <= value <= high:
                    view[place] = (value - mean) * times
                else:
                    put(value, view)
                    column.check(value)
                    if unusual is not None:
                        unusual.append(name)
            for name, places, put, _ in words:
                try:
                    view[places[row[name]]] = 1.0
                except (KeyError, TypeError):  # another value than the log's; a list has no hash
                    put(row[name], view)
                    if unusual is not None:
                        unusual.append(name)
            for name, put in others:
                put(row[name], view)
        except KeyError:
            raise self._mismatch(row) from None
        except CellError as error:
            raise DecisionError(str(error)) from None
        if len(row) != len(self.columns) and not self._known.issuperset(row):
            raise self._mismatch(row)
        if self.kernel is not None:
            out[self.linear.stop :] = self.kernel(out[self.linear])
        return out

    def encode_with_unseen(self, row: Mapping[str, Any]) -> tuple[np.ndarray, tuple[str, ...]]:
        """Return the context of one row, (d,), and what `unseen` returns for it.

        Parameters
        ----------
        row : mapping
            The value of every raw column, None if it is missing.
        """
        unusual = self._always_unusual.copy()
        context = self.encode(row, unusual=unusual)
        return context, self.unseen(row) if unusual else ()

    def unseen(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the columns of which the log shows nothing at this row: an unknown category or weekday, a clipped number, or a text without a known word.

        Parameters
        ----------
        row : mapping
            The value of every raw column, as `encode` takes them.
        """
        numbers, words, _ = self._puts
        found: list[str] = []
        for name, *_, low, high, _, column in numbers:
            value = row[name]
            usual = (value.__class__ is float or value.__class__ is int) and low <= value <= high
            if not usual and column.unseen(value):
                found.append(name)
        for name, places, _, column in words:
            value = row[name]
            if not (value.__class__ is str and value in places) and column.unseen(value):
                found.append(name)
        found += [column.column for column in self._texts if column.unseen(row[column.column])]
        found += [column.column for column in self._short_times if column.unseen(row[column.column])]
        return tuple(found)

    def raw_row(self, row: Any) -> Mapping[str, Any] | None:
        """Return the raw columns of what `named` takes; None for numbers, which have no names.

        Parameters
        ----------
        row : Any
            A row with names, or anything else.
        """
        if isinstance(row, Mapping):
            return row
        if hasattr(row, "to_dict") and hasattr(row, "index") and not hasattr(row, "columns"):
            given: Mapping[str, Any] = row.to_dict()
            return given if all(isinstance(name, str) for name in given) else None
        if hasattr(row, "__arrow_c_stream__"):
            import pyarrow as pa

            found: Mapping[str, Any] = pa.table(row).to_pylist()[0]
            return found
        return None

    @cached_property
    def _short_times(self) -> list[TimeColumn]:
        """The times of a log of less than a week."""
        return [column for column in self.columns if isinstance(column, TimeColumn) and column.under_week]

    @cached_property
    def _known(self) -> frozenset[str]:
        """The columns that a row may have: those that are used, and those that are ignored."""
        return frozenset(self.by_column) | self._ignored

    @cached_property
    def _ignored(self) -> frozenset[str]:
        """Columns that the log left out or that have another role."""
        return frozenset((*dict(self.left_out), *self.roles)) - frozenset(self.by_column)

    def _mismatch(self, row: Mapping[str, Any]) -> DecisionError:
        return DecisionError(self._difference([column for column in row if column not in self._ignored]))

    def _difference(self, names: Sequence[Hashable], index: Sequence[Hashable] = ()) -> str:
        """Describe which columns are missing among some names, and which names are unknown.

        `index` are the names of a frame's index, which is not read.
        """
        known = list(self.by_column)
        missing = [name for name in known if name not in names]
        unknown = [name for name in names if name not in known]
        parts = [
            f"{what} {listed(some, SHOWN)}"
            for what, some in (("no column", missing), ("unknown column", unknown))
            if some
        ]
        pairs = [(name, suggest(name, unknown)) for name in missing[:SHOWN]]
        guess = ", ".join(f"{shorten(name)} by {shorten(near)}" for name, near in pairs if near is not None)
        asked = f"; did you mean {guess}? The" if guess else "; the"
        hidden = [name for name in missing if name in index]
        mend = "Give each by its name, None (null in JSON) where it is missing"
        if hidden:
            mend = (
                f"The frame's index, which is not read, has {listed(hidden, SHOWN)}: pass frame.reset_index()"
            )
        return f"{' and '.join(parts)}{asked} columns are {listed(known, 12) or 'none'}. {mend}"

    # Many rows.

    def columns_of(self, features: Collection[int]) -> tuple[str, ...]:
        """Return the columns from which these features are computed: all, if there is a kernel.

        Parameters
        ----------
        features : collection of int
            Indices of features, from 0 to d − 1.
        """
        return tuple(
            column.column
            for column, first, stop in self.spans
            if self.kernel is not None or any(first <= feature < stop for feature in features)
        )

    def encode_batch(
        self,
        batch: "pa.RecordBatch",
        first_row: int = 0,
        *,
        among: Collection[str] | None = None,
    ) -> np.ndarray:
        """Return the contexts (n, d) of a batch of raw columns; other columns are ignored.

        Features of columns that are not in `among` are 0.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            Rows of the raw columns.
        first_row : int
            Number of the batch's first row in its table, for error messages.
        among : collection of str, optional
            Columns to encode; all by default.
        """
        wanted = self.by_column if among is None else among
        there = batch.schema.names  # a new list each time
        if not set(there).issuperset(wanted):
            raise LogError(self._difference([name for name in there if name in self.by_column]))
        out = np.empty((batch.num_rows, self.size))
        setters, fillers = [], []
        for column, first, stop in self.spans:
            if column.column in wanted:
                cells = batch.column(column.column)
                setter = column.tile_setter(cells, first_row=first_row)
                if setter is None:
                    fillers.append((column, cells, slice(first, stop)))
                else:
                    setters.append((setter, slice(first, stop)))
        step = max(TILE_NUMBERS // self.size, 1)
        for start in range(0, batch.num_rows, step):
            rows = slice(start, start + step)
            tile = out[rows]
            tile.fill(0.0)
            tile[:, : self.linear.start] = 1.0
            for setter, places in setters:
                setter(rows, tile[:, places])
        for column, cells, places in fillers:
            column.fill(cells, out[:, places], first_row=first_row)
        if self.kernel is not None:
            out[:, self.linear.stop :] = self.kernel(out[:, self.linear])
        return out

    @cached_property
    def unlimited(self) -> list[tuple[Any, int]]:
        """The columns of numbers without a range of the log, and of vectors, each with its first coordinate."""
        kinds = (NumberColumn, VectorColumn)
        return [
            (column, first)
            for column, first, _ in self.spans
            if isinstance(column, kinds) and getattr(column, "low", None) is None
        ]

    def limited(self, row: Mapping[str, Any], x: np.ndarray, limits: np.ndarray) -> Mapping[str, Any]:
        """Return a row whose numbers in `unlimited` columns are within limits.

        Parameters
        ----------
        row : mapping
            The value of every raw column.
        x : array of shape (d,)
            Its context.
        limits : array of shape (d,)
            The largest size of each coordinate.
        """
        changed: dict[str, Any] = {}
        for column, first in self.unlimited:
            places = slice(first, first + len(column.parts))
            far = float((np.abs(x[places]) / limits[places]).max(initial=0.0))
            if far > 1 and isinstance(column, VectorColumn):
                mean = np.array(column.mean)
                changed[column.column] = (mean + (np.array(row[column.column]) - mean) / far).tolist()
            elif far > 1:
                changed[column.column] = float(x[first] / far) * column.scale + column.mean
        return {**row, **changed} if changed else row

    def completed(self, contexts: np.ndarray) -> np.ndarray:
        """Return contexts (n, d) or (d,) with kernel features, and 0 for unseen values, if they lack either.

        Parameters
        ----------
        contexts : array of shape (n, d) or (d,)
            Contexts, with or without kernel features, and with or without the features of unseen values.
        """
        if contexts.ndim == 0 or contexts.shape[-1] == self.size:
            return contexts
        linear = self.logged[self.logged < self.linear.stop]
        for places, stop in ((self.logged, self.size), (linear, self.linear.stop)):
            if contexts.shape[-1] == len(places) < stop:
                full = np.zeros((*contexts.shape[:-1], stop))
                full[..., places] = contexts
                contexts = full
        if self.kernel is None or contexts.shape[-1] != self.linear.stop:
            return contexts
        return np.concatenate((contexts, self.kernel(contexts[..., self.linear])), axis=-1)

    @cached_property
    def by_column(self) -> dict[str, Column]:
        return {column.column: column for column in self.columns}

    def named_rows(self, rows: Any) -> np.ndarray | None:
        """Return the contexts (n, d) of a frame, a mapping of columns or a list of mappings; None for anything else.

        Parameters
        ----------
        rows : Any
            Rows with names, or anything else.
        """
        if isinstance(rows, Mapping) and rows and all(np.ndim(value) == 0 for value in rows.values()):
            raise DecisionError("got one row; expected a list of rows. Pass [row]")
        if isinstance(rows, Mapping) or hasattr(rows, "__arrow_c_stream__"):
            return self.encode_table(rows)
        if isinstance(rows, list | tuple) and rows and isinstance(rows[0], Mapping):
            for place, row in enumerate(rows):
                if not isinstance(row, Mapping):
                    raise DecisionError(
                        f"row {place} is {shorten(row)}; expected a mapping of columns, as row 0 is"
                    )
            return np.array([self.encode(row) for row in rows])
        return None

    def encode_table(self, frame: Any) -> np.ndarray:
        """Return the contexts (n, d) of an Arrow, pandas or polars frame or a mapping of columns, without its index.

        Parameters
        ----------
        frame : table or mapping
            The raw columns, in any order; each has one value per row.
        """
        from sparing.log.tables import open_table

        source = open_table(frame.reset_index(drop=True) if hasattr(frame, "reset_index") else frame)
        names = [name for name in source.schema.names if name not in self._ignored]
        twice = first_repeated(names)
        if twice is not None:
            raise DecisionError(f"two columns {shorten(twice)}; rename one of them")
        if set(names) != set(self.by_column):
            index = list(frame.index.names) if hasattr(frame, "reset_index") else []
            raise DecisionError(self._difference(names, index))
        wanted = [column.column for column in self.columns]
        parts = [self.encode_batch(batch, first_row=row) for row, batch in source.blocks(wanted)]
        contexts = np.concatenate(parts) if parts else np.empty((0, self.size))
        for _, place, *_, column in self._puts[0]:
            column.look_at(np.abs(contexts[:, place]).max(initial=0.0))
        return contexts

    def aligned(self, other: "Encoder", contexts: np.ndarray, *, sparse: str | None = None) -> np.ndarray:
        """Return contexts (n, d) of another encoder with the features of this one; both must be raw, or the same but for unseen values.

        `sparse` files name only features that are not 0. A feature that such a file never names is 0, and one that
        this encoder does not have is left out. With "values" (country=NZ), both must have the same columns.

        Parameters
        ----------
        other : Encoder
            Encoder of the contexts.
        contexts : array of shape (n, d)
            Contexts with the features of `other`.
        sparse : {"values", "words"}, optional
            Kind of the sparse file that the contexts are from; by default it is not sparse.
        """
        if other.digest == self.digest:
            return contexts
        if other.digest == self.without_unseen().digest:
            return self.completed(contexts)
        if self.is_raw and other.is_raw:
            if self.size == other.size and (self._unnamed or other._unnamed):
                return contexts  # arrays without names have nothing but an order
            columns = [
                {name.partition("=")[0] if sparse == "values" else name for name in each.names}
                for each in (self, other)
            ]
            if columns[0] != columns[1] and sparse != "words":
                raise LogError(self._difference(other.names))
            place = {name: j for j, name in enumerate(other.names)}
            found = [place.get(name, -1) for name in self.names]
            return np.where(np.array(found) >= 0, contexts[:, found], 0.0)
        raise LogError(
            f"these contexts have other features ({other.digest}) than the training rows ({self.digest}). "
            "Read the log with features=policy.encoder or features=learner.encoder"
        )

    # Words.

    def words(self, coordinate: int, low: float, high: float) -> str | None:
        """Describe low < x_j ≤ high in terms of the raw columns; None for raw coordinates.

        Parameters
        ----------
        coordinate : int
            Index j of a feature.
        low, high : float
            Bounds of the encoded value x_j.
        """
        column, part = self._homes.get(coordinate, (None, 0))
        return None if column is None or type(column) is RawColumn else column.words(part, low, high)

    def term(self, coordinate: int) -> str:
        """Return a coordinate's name as a term of a sum.

        Parameters
        ----------
        coordinate : int
            Index of a feature.
        """
        column, part = self._homes.get(coordinate, (None, 0))
        scaled = type(column) is NumberColumn and part == 0
        return f"standardised {self.names[coordinate]}" if scaled else self.names[coordinate]

    @cached_property
    def _homes(self) -> dict[int, tuple[Column, int]]:
        """The column of each coordinate, and the coordinate's index in it."""
        return {first + i: (column, i) for column, first, stop in self.spans for i in range(stop - first)}

    def described(self) -> str:
        """Return the kind of each column, in one line."""
        took = [f"{column.column}: {column.described()}" for column in self.columns]
        took += [f"{name or repr(name)}: {why}" for name, why in self.left_out]
        if self.kernel is not None:
            took.append(f"{self.kernel.size} kernel features")
        if not self.columns and self.constant:
            took.append("a constant alone, so every round is alike (a context-free bandit)")
        return "; ".join(took)

    def __repr__(self) -> str:
        what = "raw" if self.is_raw else self.described()
        return f"Encoder({len(self.columns)} columns → {self.size} features, {shorten(what)[1:-1]})"

    # Never changed, so copies share it; what is computed on demand stays here.

    def __deepcopy__(self, memo: dict[int, Any]) -> "Encoder":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Encoder, (self.columns, self.constant, self.kernel, self.left_out, self.roles)

    # On disk.

    def header(self) -> dict[str, Any]:
        """Return the encoder as JSON."""
        roles = {"roles": list(self.roles)} if self.roles else {}
        if self.is_raw:
            return {"version": VERSION, "raw": list(self.names), **roles}
        return {
            "version": TEXT_VERSION if self._texts else VERSION,
            "constant": self.constant,
            "columns": [column.header() for column in self.columns],
            "kernel": None if self.kernel is None else self.kernel.header(),
            "left_out": [list(pair) for pair in self.left_out],
            **roles,
        }

    @classmethod
    def from_header(cls, saved: Any) -> "Encoder":
        """Return the encoder from JSON, or raise FileError if it is damaged or of a newer version.

        Parameters
        ----------
        saved : mapping
            Result of `header`.
        """
        try:
            if saved["version"] not in (VERSION, TEXT_VERSION):
                raise FileError(
                    f"the features are of version {saved['version']}; this version of sparing reads {VERSION} and {TEXT_VERSION}"
                )
            roles = tuple(map(str, saved.get("roles", ())))
            if "raw" in saved:
                return cls.raw(feature_names(saved["raw"], len(saved["raw"])), roles)
            columns = tuple(_column(dict(each)) for each in saved["columns"])
            _must_differ([column.column for column in columns])
            left_out = tuple((str(name), str(why)) for name, why in saved["left_out"])
            linear = cls(columns, bool(saved["constant"]))
            width = linear.linear.stop - linear.linear.start
            kernel = None if saved["kernel"] is None else NystroemMap.from_header(saved["kernel"], width)
        except (AttributeError, KeyError, TypeError, ValueError) as error:  # LogError is a ValueError
            raise FileError(
                f"damaged features: {type(error).__name__} {str(error)[:80]}; write them again"
            ) from None
        return cls(columns, linear.constant, kernel, left_out, roles)


def _must_differ(names: Sequence[str]) -> None:
    twice = first_repeated(names)
    if twice is not None:
        raise ValueError(f"two columns {twice!r}")


def _column(saved: dict[str, Any]) -> Column:
    """Return a column from JSON, after a check of its fields."""
    kind = KINDS[saved.pop("kind")]
    known = {field.name for field in fields(kind)}
    if (
        not known - OPTIONAL <= set(saved) <= known
        or not isinstance(saved["column"], str)
        or not isinstance(saved["gap"], bool)
    ):
        raise ValueError(f"a {kind.kind} with {sorted(saved)}")
    for name in saved.keys() - {"column", "gap", "values", "rare_values", "axes", "places", "idf", NOTATION}:
        numbers = np.asarray(saved[name], dtype=np.float64)
        if not np.isfinite(numbers).all() or (name == "scale" and not numbers > 0):
            raise ValueError(f"{name} is not a finite number")
    column = kind(**saved)
    notation = getattr(column, NOTATION, None)
    if notation is not None and (notation.decimal not in MARKS or not isinstance(notation.unit, str)):
        raise ValueError(f"a notation with the decimal mark {notation.decimal!r}")
    _ = column.names
    return column
