"""Fitting an encoder to a table, in one pass over its rows, or two if there is a kernel."""

import math
import re
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.engines import Engine, local
from sparing.errors import LogError
from sparing.hashing import row_keys
from sparing.log.features import cells, texts
from sparing.log.features.columns import (
    TIMES,
    BoolColumn,
    CategoryColumn,
    Column,
    HashedColumn,
    NumberColumn,
    RawColumn,
    TimeColumn,
    VectorColumn,
)
from sparing.log.features.encoder import CONSTANT, SHOWN, Encoder
from sparing.log.features.kernel import SAMPLE, Nystroem, NystroemMap
from sparing.log.features.specs import ColumnSpec
from sparing.log.labels import shorten, truncate
from sparing.log.passes import Partition, Statistic, scan_rows
from sparing.log.sketches import ContextSample, Moments, TextSample
from sparing.log.tables import TableSource, indexes

if TYPE_CHECKING:
    import pyarrow as pa

DIGITS = re.compile(r"[0-9]{1,18}")


@dataclass
class NumberReading:
    """How the texts of a column can be read as numbers: with which decimal marks, and in which units.

    `plain`: all are numbers as computers write them. `differs` is a text that the two marks read differently. `units` has an
    example of each unit; that of no unit is a number other than 0. Numbers `found` of two kinds can be ambiguous or contradict each other.
    """

    marks: tuple[str, ...] = cells.MARKS
    plain: bool = True
    found: bool = False
    differs: str | None = None
    units: dict[str, str] = field(default_factory=dict)

    def add(self, word: str) -> bool:
        """Add a text, and return whether it is a number with one of the marks that are left."""
        if self.marks and "" in self.units and DIGITS.fullmatch(word):  # the same with either mark
            return True
        if self._settled and cells.is_number(word):
            return True
        read = {}
        for mark in self.marks:
            try:
                read[mark] = cells.read_number(word, mark)
            except ValueError:
                continue
        self.marks = tuple(read)
        if not read:
            return False
        self.found = True
        value, unit = read[self.marks[0]]
        if len({each for each, _ in read.values()}) > 1:
            self.differs = self.differs or word
        self.plain = self.plain and not unit and cells.is_number(word)
        if value or unit:
            self.units.setdefault(unit, word)
        return True

    @property
    def _settled(self) -> bool:
        """Whether one more number as computers write it changes nothing."""
        return self.plain and self.marks == (".",) and "" in self.units

    def add_column(self, column: "pa.Array") -> None:
        """Add the cells of a column whose other texts, such as words for yes and no, are left to the one who reads it.

        Of columns that show to be written by computers, further cells are left too.
        """
        from sparing.log import arrays

        if self._settled:
            return
        texts = arrays.trimmed(column).drop_null()
        if not arrays.is_text(texts.type) or not len(texts):
            return
        plain = arrays.plain_numbers(texts)
        if plain is None:
            for word in filter(cells.is_numeral, texts.unique().to_pylist()):
                self.add(word)
            return
        differs, either = plain
        self.found, self.differs = True, self.differs or differs
        self.units.setdefault("", texts[0].as_py())
        self.marks = tuple(mark for mark in self.marks if either or mark == ".")

    def merged(self, other: "NumberReading") -> "NumberReading":
        """Return the reading of both parts of a column; neither is changed."""
        return NumberReading(
            tuple(mark for mark in self.marks if mark in other.marks),
            self.plain and other.plain,
            self.found or other.found,
            self.differs or other.differs,
            {**other.units, **self.units},
        )

    @property
    def unit(self) -> str:
        return next(filter(None, self.units), "")

    def mark(self, known: str | None, *, plain: bool) -> str | None:
        """The decimal mark: the only one that fits, the `known` one, or a point if computers write so; None if it is ambiguous."""
        if len(self.marks) == 1:
            return self.marks[0]
        if known is not None:
            return known
        return "." if self.differs is None or (plain and self.plain) else None

    def problem(self, mark: str | None) -> str:
        """Say what hinders reading the numbers; empty if nothing does."""
        if mark is None:
            word = str(self.differs)
            values = " or ".join(f"{cells.read_number(word, mark)[0]:.12g}" for mark in cells.MARKS)
            return f"holds {shorten(word)}, which is {values}: pass decimal='.' or decimal=','"
        units = [unit for unit in self.units if unit or cells.PERCENT in self.units]
        if len(units) < 2:
            return ""
        both = " and ".join(shorten(self.units[unit]) for unit in units[:2])
        mend = "Write all with %, or none" if cells.PERCENT in units else "Convert them to one currency"
        return f"holds {both}, numbers in different units. {mend}"


@dataclass(frozen=True)
class NumberReadings(Statistic[Any, "list[NumberReading]"]):
    """The statistic of columns that are numbers, whatever their cells: one `NumberReading` for each."""

    columns: tuple[str, ...]

    def zero(self) -> list[NumberReading]:
        return [NumberReading() for _ in self.columns]

    def update(self, state: list[NumberReading], block: Any, first_row: int) -> list[NumberReading]:
        for name, reading in zip(self.columns, state, strict=True):
            reading.add_column(block.column(name))
        return state

    def merge(self, one: list[NumberReading], other: list[NumberReading]) -> list[NumberReading]:
        return [a.merged(b) for a, b in zip(one, other, strict=True)]


def settle(
    source: TableSource,
    profiles: Sequence["ColumnProfile"],
    readings: Mapping[str, NumberReading],
    known: Collection[str] = (),
) -> dict[str, cells.Notation]:
    """Decide together how all columns write numbers and dates, and return the notations that are not those of computers.

    A column that leaves it open follows the dialect, or the columns that do not; `known` are decimal marks found before. Columns
    that stay ambiguous are refused in one error.
    """
    skipped = indexes(source.schema, [each.column for each in profiles if each.spec.kind == "auto"])
    used = [each for each in profiles if each.column not in skipped]
    open_ones = [each for each in used if not each.constant]
    profiled = {each.column: each.numbers for each in used if each.kind in ("number", "raw")}
    numbers = {**profiled, **readings}
    numbers = {name: reading for name, reading in numbers.items() if reading.found and reading.marks}
    marks = {*known, *(reading.marks[0] for reading in numbers.values() if len(reading.marks) == 1)}
    decimal = source.dialect.decimal or (marks.pop() if len(marks) == 1 else None)
    notations, problems = {}, {}
    constant = {each.column for each in used if each.constant}
    for name, reading in numbers.items():
        if name in constant:  # it is left out
            continue
        mark = reading.mark(decimal, plain=source.plain_numbers)
        problems[name] = reading.problem(mark)
        if mark == "," or not reading.plain:
            notations[name] = cells.Notation(mark or ".", reading.unit)
    _settle_dates(used, source.dialect.dates)
    for profile in open_ones:
        profile.notation = notations.get(profile.column)
        problems[profile.column] = problems.get(profile.column) or profile.problem
    if any(problems.values()):
        raise _refused({name: why for name, why in problems.items() if why}, set(readings))
    return notations


def _refused(problems: Mapping[str, str], roles: set[str]) -> LogError:
    """Return the error of columns that cannot be read; `roles` are those that are no features."""
    said = [f"{truncate(name)} {why}" for name, why in list(problems.items())[:SHOWN]]
    if len(problems) > SHOWN:
        more = ", ".join(map(shorten, list(problems)[SHOWN:]))
        said.append(f"and so do {len(problems) - SHOWN} more: {more[:MOST_NAMED]}")
    count = f"{len(problems)} columns can be read in several ways, or in none: " if len(problems) > 1 else ""
    text = count + "; ".join(said)
    if cells.CATEGORY not in text and not set(problems) <= roles:
        text += f". If they are words, {cells.CATEGORY}"
    return LogError(text)


MOST_NAMED = 400  # characters of names that an error lists beyond those that it explains


def _settle_dates(profiles: Sequence["ColumnProfile"], dates: str | None) -> None:
    """Give columns of dates that leave the order open the one of the dialect, or of columns that show it."""
    orders = [(each, each.times) for each in profiles if each.times and "time" not in each.times]
    shown = {times[0] for _, times in orders if len(times) == 1}
    order = TIME_KINDS[dates] if dates else shown.pop() if len(shown) == 1 else None
    for profile, times in orders:
        if order is not None and len(times) > 1:
            profile.tests = {kind: kind == order for kind in profile.tests}


TIME_KINDS = {order: f"time-{order}" for order in ("day-first", "month-first")}


@dataclass(frozen=True)
class Features:
    """The specification of an encoder, before it is fitted to a log. `sparing.features(...)` creates one.

    Attributes
    ----------
    specs : tuple of (str, ColumnSpec)
        The named columns and what they become.
    others : "auto" or None
        Columns that are not named: `auto` detects their kinds from their cells, None leaves them out.
    kernel : Nystroem or None
        Kernel features to add.
    constant : bool
        Whether to add a feature that is always 1.
    """

    specs: tuple[tuple[str, ColumnSpec], ...] = ()
    others: str | None = None
    kernel: Nystroem | None = None
    constant: bool = True

    def columns(self, free: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that become features.

        Parameters
        ----------
        free : sequence of str
            Columns of the table without another role.
        """
        named = [name for name, _ in self.specs]
        return (*named, *(name for name in free if name not in named)) if self.others else tuple(named)

    @property
    def wishes(self) -> tuple[tuple[str, ColumnSpec], ...]:
        """The old name of `specs`."""
        warnings.warn("Features.wishes is now Features.specs", DeprecationWarning, stacklevel=2)
        return self.specs

    def fit(self, source: TableSource, columns: Sequence[str], engine: Engine | None = None) -> Encoder:
        """Return the encoder of these columns, fitted to all rows.

        Parameters
        ----------
        source : TableSource
            Table to read.
        columns : sequence of str
            Columns that become features.
        engine : Engine, optional
            Where the table is read; by default in one thread.
        """
        engine = engine or local(1)
        profiles = ColumnProfiles(self, tuple(columns), source.dialect.dates)
        found = scan_rows(source, columns, profiles, identity_batch, engine=engine)
        settle(source, found, {})
        return self.fitted(source, found, engine)

    def fitted(self, source: TableSource, profiles: Sequence["ColumnProfile"], engine: Engine) -> Encoder:
        """Return the encoder for the profiles of all rows.

        Parameters
        ----------
        source : TableSource
            Table of the profiles; it is read again for a kernel.
        profiles : sequence of ColumnProfile
            Statistics of each column that becomes a feature, after `settle`.
        engine : Engine
            Where the table is read.
        """
        named = dict(self.specs)
        free = [profile.column for profile in profiles if profile.column not in named]
        index = indexes(source.schema, free)
        fitted = [(profile.column, index.get(profile.column) or profile.fitted()) for profile in profiles]
        kept = tuple(found for _, found in fitted if isinstance(found, Column))
        left_out = tuple((name, found) for name, found in fitted if isinstance(found, str))
        if not kept and not self.constant:
            raise LogError(f"no column of {source.name} carries anything: {dict(left_out)}")
        encoder = Encoder(kept, self.constant, None, left_out)
        _check_names(encoder)
        if self.kernel is None:
            return encoder
        return with_kernel(encoder, _sample(source, encoder, engine), self.kernel)


@dataclass(frozen=True)
class ColumnProfiles(Statistic[Any, "list[ColumnProfile]"]):
    """The statistic that profiles columns: one `ColumnProfile` for each."""

    plan: Features
    columns: tuple[str, ...]
    dates: str | None = None  # the dialect's order of day and month
    coded: frozenset[str] = frozenset()  # columns of text that are read as a dictionary and codes

    def zero(self) -> "list[ColumnProfile]":
        specs = dict(self.plan.specs)
        if self.dates is not None:
            order = TIME_KINDS[self.dates]
            specs |= {name: replace(spec, kind=order) for name, spec in specs.items() if spec.kind == "time"}
        return [ColumnProfile(name, specs.get(name, ColumnSpec("auto"))) for name in self.columns]

    def update(self, state: "list[ColumnProfile]", block: Any, first_row: int) -> "list[ColumnProfile]":
        for profile in state:
            column = block.column(profile.column)
            coded = profile.column in self.coded and hasattr(column.type, "value_type")
            profile.add(column, first_row=first_row, coded=coded)
        return state

    def merge(self, one: "list[ColumnProfile]", other: "list[ColumnProfile]") -> "list[ColumnProfile]":
        return [a.merged(b) for a, b in zip(one, other, strict=True)]


def identity_batch(batch: Any, first_row: int) -> Any:
    return batch


def with_kernel(encoder: Encoder, contexts: np.ndarray, kernel: Nystroem) -> Encoder:
    """Return the encoder with kernel features fitted to its contexts (n, d)."""
    linear = contexts[:, encoder.linear]
    return replace(encoder, kernel=NystroemMap.fit(linear, kernel.landmarks))


def _sample(source: TableSource, encoder: Encoder, engine: Engine) -> np.ndarray:
    """Return a random sample of contexts (n, d), which does not depend on the batches."""
    columns = [column.column for column in encoder.columns]
    cut = Partition.of_table(source.rows or 0, encoder.size)
    sample = ContextSample(encoder.size, SAMPLE)
    found = scan_rows(source, columns, sample, encoder.encode_batch, partition=cut, engine=engine)
    return found.contexts


def _check_names(encoder: Encoder) -> None:
    """Refuse columns whose features have the same name."""
    if len(set(encoder.names)) == len(encoder.names):
        return
    seen: dict[str, str] = {CONSTANT: "the constant"}
    for column in encoder.columns:
        for name in column.names:
            if name in seen:
                raise LogError(
                    f"the columns {shorten(seen[name])} and {shorten(column.column)} would both make a feature "
                    f"{shorten(name)}. Rename one of them"
                )
            seen[name] = column.column


MOST_COUNTED = 100_000
"""Distinct values that are counted; a column with more is hashed."""

MOST_COUNTED_CHARACTERS = 2**26
"""Characters of the distinct values that are counted, together, so that long texts take bounded memory."""

MOST_PLACES = 64  # one-hot features of one category, at most
MIN_CATEGORY_ROWS = 10  # rows in which a value must occur to have its own feature

ID_SHARE = 0.8
"""A column with more distinct values than this share of its rows is an id."""

TEXT_WORDS = 4.0
"""Words of a cell, on average, from which on a column of mostly rare values is a text."""

DATE = re.compile(r"\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4}\b.*")
"""Text that looks like a date, in any order."""

POSTAL = re.compile(r"(?i)(?<![a-z])(?:zip|postal|postcode|plz)(?:[ _-]?code)?(?![a-z])")
"""Names of columns of postal codes, whose digits are no number."""

FIRST_DATE, LAST_DATE = 19000101, 20991231
"""Whole numbers from here to there may be dates such as 20260131."""

TRUTHS = {*cells.TRUTH_WORDS, "0", "1"}
"""Words that may all be truth values; a column of 0 and 1 alone is one of numbers."""

NUMBERS = {".": "number", ",": "number with a comma"}
"""The moments of a column's texts, read with each decimal mark."""

LARGEST_VECTOR = 4096
VECTOR_COMPONENTS = 24

MOST_RARE = 1000
"""Rare values of a category that an encoder keeps, so that an unseen value is none of them."""


@dataclass
class ColumnProfile:
    """What the cells of a column have in common; `spec` is its requested kind, or `auto` to detect it."""

    column: str
    spec: ColumnSpec
    rows: int = 0
    gaps: int = 0
    moments: dict[str, Moments] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    uncounted: bool = False
    tests: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(("number", "bool", *TIMES), True))
    vectors: Any = None
    odd: str | None = None
    texts: TextSample = field(default_factory=TextSample)
    characters: int = 0
    numbers: NumberReading = field(default_factory=NumberReading)
    notation: cells.Notation | None = None

    def add(self, column: "pa.Array", *, first_row: int, coded: bool = False) -> None:
        """Add cells; `coded` ones are text, of a type that has a dictionary."""
        self.rows += len(column)
        kind: str | None = self.spec.kind
        if kind == "auto":
            kind = self._by_cells(column, column.type.value_type if coded else column.type)
        if kind is None:
            self.odd = str(column.type)
        elif kind == "vector":
            self._add_vectors(column, first_row)
        elif self.spec.kind == "text":
            self._add_texts(column, first_row)
        elif kind in ("number", "raw") or kind in TIMES:
            self._add_numbers(column, "number" if kind == "raw" else kind, first_row)
        else:
            if kind != "text":
                self.tests = {"bool": kind == "bool"}
            self._add_words(column, first_row, is_category=kind != "text", coded=coded)

    def _by_cells(self, column: "pa.Array", type_of_cells: "pa.DataType") -> str | None:
        """The kind by the type of the cells; digits of ZIP codes and dates such as 20260131 are not numbers."""
        from sparing.log import arrays

        kind = arrays.kind_by_type(type_of_cells)
        if kind in ("number", "text") and POSTAL.search(self.column):
            return "category"
        if kind != "number":
            return kind
        values = column.drop_null().to_numpy(zero_copy_only=False).astype(np.float64)
        return "text" if len(values) and FIRST_DATE <= values.min() <= values.max() <= LAST_DATE else kind

    def _add_numbers(self, column: "pa.Array", kind: str, first_row: int) -> None:
        self.tests = {kind: True}
        if kind == "number" and self._add_numerals(column, first_row):
            return
        read: type[NumberColumn | TimeColumn] = NumberColumn if kind == "number" else TIMES[kind]
        values = read(self.column, gap=True).numbers(column, first_row=first_row)
        there = ~np.isnan(values)
        self.gaps += int((~there).sum())
        self._sum([kind], values[there])

    def _add_numerals(self, column: "pa.Array", first_row: int) -> bool:
        """Add the cells of a column of text that is declared to be numbers; return whether it is one."""
        from sparing.log import arrays

        if not arrays.is_text(column.type):
            return False
        distinct, codes = cells.factorize(column)
        there = codes >= 0
        self.gaps += int((~there).sum())
        used = list(dict.fromkeys(codes[there].tolist()))
        for code in used:
            if not self.numbers.add(distinct[code]):
                row = first_row + int(np.flatnonzero(codes == code)[0])
                raise NumberColumn(self.column, gap=True).unfit_row(distinct[code], row)
        for mark in self.numbers.marks:
            table = np.zeros(len(distinct))
            table[used] = [cells.read_number(distinct[code], mark)[0] for code in used]
            self._sum([NUMBERS[mark]], table[codes[there]])
        return True

    def _add_texts(self, column: "pa.Array", first_row: int) -> None:
        """Sample the cells of a column that is declared as text."""
        import pyarrow.compute as pc

        from sparing.log import arrays

        there = column.is_valid()
        if arrays.is_text(column.type):
            there = pc.and_(there, pc.fill_null(pc.greater(pc.utf8_length(column), 0), False))
        rows = np.flatnonzero(there.to_numpy(zero_copy_only=False))
        self.gaps += len(column) - len(rows)
        keys = row_keys(first_row + rows)
        near = self.texts.near(keys)
        words = self._sampled_words(column.take(rows[near]).to_pylist())
        self.texts += TextSample.of(keys[near], words)

    def _sampled_words(self, values: Sequence[Any]) -> list[str]:
        return [self._word(value)[: texts.MOST_CHARACTERS] for value in values]

    def _add_words(self, column: "pa.Array", first_row: int, *, is_category: bool, coded: bool) -> None:
        distinct, codes = cells.factorize(column)
        if coded:
            distinct, codes = cells.in_order(distinct, codes)
        self.gaps += int((codes < 0).sum())
        if not is_category:
            rows = np.flatnonzero(codes >= 0)
            keys = row_keys(first_row + rows)
            near = self.texts.near(keys)
            used, which = np.unique(codes[rows[near]], return_inverse=True)
            words = self._sampled_words([distinct[code] for code in used.tolist()])
            self.texts += TextSample.of(keys[near], words, which)
        counts = np.bincount(codes[codes >= 0], minlength=len(distinct))
        for value, count in zip(distinct, counts.tolist(), strict=True):
            if not count:
                continue
            word = self._word(value)
            if not is_category and word not in self.counts:
                self._test(word)
            self._count(word, count)
        if not is_category:
            self._sum_words(distinct, counts)

    def _count(self, word: str, count: int) -> None:
        if word not in self.counts:
            if len(self.counts) >= MOST_COUNTED or self.characters >= MOST_COUNTED_CHARACTERS:
                self.uncounted = True
                return
            self.characters += len(word)
        self.counts[word] += count

    def _sum(self, kinds: Collection[str], values: np.ndarray) -> None:
        """Add values to the moments of each kind that the column may have."""
        found = Moments.of(values)
        for kind in kinds:
            self.moments[kind] = self.moments.get(kind, Moments()) + found

    def _word(self, value: Any) -> str:
        try:
            return cells.as_word(value)
        except ValueError:
            raise LogError(
                f"{truncate(self.column)} holds {shorten(value)}; expected {CategoryColumn.wants}"
            ) from None

    def _test(self, word: str) -> None:
        """Rule out the kinds that a value does not fit."""
        tests = self.tests
        tests["bool"] = tests["bool"] and word.strip().lower() in TRUTHS
        tests["number"] = tests["number"] and not cells.is_code(word) and self.numbers.add(word)
        if not any(map(tests.__getitem__, TIMES)) or cells.is_time(word):
            return
        for kind, time in TIMES.items():
            tests[kind] = tests[kind] and time.order is not None and cells.is_date(word, time.order)

    def _sum_words(self, distinct: list[Any], counts: np.ndarray) -> None:
        """Sum the words as numbers and as times while the column may still be either."""
        there = np.flatnonzero(counts)
        words = [distinct[code] for code in there.tolist()]
        marks = self.numbers.marks if self.tests["number"] else ()
        alike = self.numbers.differs is None
        for mark in marks[:1] if alike else marks:
            read = cells.as_number if self.numbers.plain and mark == "." else partial(_numeral, mark=mark)
            values = [read(word) for word in words]
            kinds = [NUMBERS[each] for each in (marks if alike else [mark])]
            self._sum(kinds, np.repeat(values, counts[there]))
        for kind, time in TIMES.items():
            if self.tests[kind]:
                seconds = [cells.as_seconds(word, time.order) for word in words]
                # A time without ambiguity counts for every order of day and month.
                self._sum(TIMES if kind == "time" else [kind], np.repeat(seconds, counts[there]))
            if self.tests["time"]:
                break

    def _add_vectors(self, column: "pa.Array", first_row: int) -> None:
        from sparing.log import arrays  # loads PyArrow, which a log in memory does not need

        if not arrays.is_list(column.type):
            raise LogError(
                f"{truncate(self.column)} is a column of {column.type}; expected lists of numbers for a vector"
            )
        there = column.drop_null()
        self.gaps += len(column) - len(there)
        if not len(there):
            return
        size = len(there[0]) if self.vectors is None else len(self.vectors[1])
        size = self.spec.size or size
        if not 1 <= size <= LARGEST_VECTOR:
            raise LogError(
                f"{truncate(self.column)} holds lists of {size} numbers; expected 1 to {LARGEST_VECTOR}"
            )
        try:
            rows = VectorColumn(self.column, gap=True, size=size).vectors(column, first_row=first_row)
        except LogError as error:
            raise LogError(f"{error}. Make them alike, or choose other columns with contexts=[...]") from None
        rows = rows[column.is_valid().to_numpy(zero_copy_only=False)]
        if self.vectors is None:
            self.vectors = [0, np.zeros(size), np.zeros((size, size))]
        self.vectors[0] += len(rows)
        self.vectors[1] += rows.sum(axis=0)
        self.vectors[2] += rows.T @ rows

    def merged(self, other: "ColumnProfile") -> "ColumnProfile":
        """Return the profile of both parts of a column; neither is changed."""
        if not self.rows or not other.rows:
            return self if self.rows else other
        vectors = self.vectors or other.vectors
        if self.vectors and other.vectors:
            sizes = len(self.vectors[1]), len(other.vectors[1])
            if sizes[0] != sizes[1]:
                raise LogError(
                    f"{truncate(self.column)} holds lists of {sizes[0]} and of {sizes[1]} numbers; all lists must have the same length"
                )
            vectors = [a + b for a, b in zip(self.vectors, other.vectors, strict=True)]
        none, kinds = Moments(), self.moments | other.moments
        shared = [kind for kind in self.tests if kind in other.tests]
        both = replace(
            self,
            rows=self.rows + other.rows,
            gaps=self.gaps + other.gaps,
            moments={kind: self.moments.get(kind, none) + other.moments.get(kind, none) for kind in kinds},
            counts=Counter(self.counts),
            uncounted=self.uncounted or other.uncounted,
            tests={kind: self.tests[kind] and other.tests[kind] for kind in shared},
            vectors=vectors,
            odd=self.odd or other.odd,
            texts=self.texts + other.texts,
            numbers=self.numbers.merged(other.numbers),
        )
        for word, count in other.counts.items():
            both._count(word, count)
        return both

    @property
    def constant(self) -> bool:
        """Whether no cell differs from another, so that the column is left out."""
        return self.gaps == self.rows or (len(self.counts) == 1 and not self.uncounted and not self.gaps)

    @property
    def times(self) -> list[str] | None:
        """The kinds of time that the texts of a column without a declared kind can be; None if it has no such texts."""
        texts = self.spec.kind == "auto" and TIMES.keys() <= self.tests.keys() and self.counts
        return [kind for kind in TIMES if self.tests[kind]] if texts else None

    @property
    def problem(self) -> str:
        """Why the texts of a column without a declared kind cannot be read; empty if they can."""
        return "" if self.times is None else cells.text_problem(list(self.counts), self.kind, self.times)

    def fitted(self) -> Column | str:
        """Return the fitted column, or the reason for which it is left out."""
        if self.odd is not None:
            return f"left out, a column of {self.odd}"
        if self.gaps == self.rows:
            return "left out, empty"
        kind, gap = self.kind, self.gaps > 0
        if kind == "vector":
            return self._vector(gap)
        if kind == "raw":
            return RawColumn(self.column, gap=False, notation=self.notation)
        if kind == "text":
            return self._text(gap)
        comma = kind == "number" and self.notation is not None and self.notation.decimal == ","
        numbers, n_words = self.moments.get(NUMBERS[","] if comma else kind, Moments()), len(self.counts)
        if kind == "time" and not numbers.count:
            words = sorted(self.counts)
            seconds = [cells.as_seconds(word) for word in words]
            numbers = Moments.of(np.repeat(seconds, [self.counts[word] for word in words]))
        same = numbers.low == numbers.high if numbers.count else n_words == 1 and not self.uncounted
        if same and not gap:
            return "left out, the same in every row"
        if self._reads_like_text(kind):
            return self._text(gap)
        unique = n_words > MOST_PLACES and n_words > ID_SHARE * self.counts.total()
        if self.spec.kind == "auto" and kind == "category" and unique:
            dates = all(map(DATE.fullmatch, self.counts))
            hint = " (dates are read as 2026-11-17 08:30 or 17.11.2026 08:30)" if dates else ""
            return f"left out, a different value in nearly every row{hint}"
        if kind == "number":
            return NumberColumn.within(self.column, gap, numbers, self.notation)
        if kind in TIMES:
            return TIMES[kind].within(self.column, gap, numbers)
        if kind == "bool":
            return BoolColumn(self.column, gap)
        return self._category(kind, gap)

    @property
    def kind(self) -> str:
        """The requested kind, or the one that fits the cells."""
        if self.spec.kind != "auto":
            return self.spec.kind
        if self.vectors is not None:
            return "vector"
        fits = (
            kind
            for kind, passed in self.tests.items()
            if passed and (kind != "bool" or cells.are_truths(self.counts))
        )
        found = next(fits, "category")
        every = not self.uncounted and 0 < self.counts.total() == self.rows - self.gaps
        dates = found == "number" and every and all(map(cells.is_compact_date, self.counts))
        return "time" if dates else found

    def _reads_like_text(self, kind: str) -> bool:
        """Whether the kind is to be found, values differ in most rows, and have several words on average."""
        many = self.uncounted or len(self.counts) > MOST_PLACES
        differ = len(self.counts) > ID_SHARE * self.counts.total() or (many and self._mostly_rare())
        if self.spec.kind != "auto" or kind != "category" or not differ:
            return False
        sample = self.texts.texts
        return sum(map(texts.count_words, sample)) >= TEXT_WORDS * max(1, len(sample))

    def _text(self, gap: bool) -> Column | str:
        """Return the directions of the sampled texts."""
        if len(set(self.texts.texts)) == 1 and not gap:
            return "left out, the same in every row"
        keep, ngrams = self.spec.keep or texts.DIRECTIONS, self.spec.ngrams or texts.NGRAMS
        return texts.fit_text(self.column, self.texts.texts, gap=gap, keep=keep, ngrams=ngrams)

    def _common(self) -> list[str]:
        """The values that would have their own feature."""
        least = min(MIN_CATEGORY_ROWS, max(1, (self.rows - self.gaps) // 20))
        return [word for word, count in self.counts.most_common(MOST_PLACES) if count >= least]

    def _mostly_rare(self) -> bool:
        return self.uncounted or 2 * sum(map(self.counts.__getitem__, self._common())) < self.rows - self.gaps

    def _category(self, kind: str, gap: bool) -> Column:
        """Return the common values as a category; hash the column if its values are mostly rare."""
        common = self._common()
        if kind == "hashed" or (self.spec.kind == "auto" and self._mostly_rare()):
            return HashedColumn(self.column, gap, size=self.spec.size or MOST_PLACES)
        rare = len(self.counts) - len(common) + self.uncounted
        others = sorted(self.counts.keys() - set(common))
        known = tuple(others) if others and not self.uncounted and len(others) <= MOST_RARE else None
        return CategoryColumn(self.column, gap, tuple(sorted(common)), rare, known)

    def _vector(self, gap: bool) -> Column:
        """Return the first principal components, scaled by the first one's deviation; the largest weight is positive."""
        count, total, outer = self.vectors
        mean = total / count
        variances, axes = np.linalg.eigh(outer / count - np.outer(mean, mean))
        rank = int((variances > 1e-12 * max(variances[-1], 1e-300)).sum()) or 1
        keep = min(self.spec.keep or VECTOR_COMPONENTS, rank)
        chosen = axes[:, ::-1][:, :keep].T
        signs = np.sign(chosen[np.arange(keep), np.abs(chosen).argmax(axis=1)])
        scaled = chosen * signs[:, None] / math.sqrt(max(variances[-1], 1e-300))
        return VectorColumn(self.column, gap, len(mean), mean.tolist(), scaled.tolist())


def _numeral(value: Any, mark: str) -> float:
    """The number of a text, or of the cell of a column of numbers."""
    return cells.read_number(value, mark)[0] if isinstance(value, str) else cells.as_number(value)
