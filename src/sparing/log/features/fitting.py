"""Fitting an encoder to a table, in one pass over its rows, or two if there is a kernel."""

import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.engines import Engine, local
from sparing.errors import LogError, SettingError
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
    VectorColumn,
)
from sparing.log.features.encoder import CONSTANT, KINDS, Encoder
from sparing.log.features.kernel import SAMPLE, Nystroem, NystroemMap
from sparing.log.labels import THOUSANDS, WHOLE_NUMBER, has_comma, number, shorten, truncate
from sparing.log.limits import LARGEST
from sparing.log.passes import Partition, Statistic, scan_rows
from sparing.log.sketches import ContextSample, Moments, SampledContexts, TextSample
from sparing.log.tables import TableSource
from sparing.validation import integer

if TYPE_CHECKING:
    import pyarrow as pa

MISSING_WORDS = "na n/a nan null none inf +inf -inf infinity -infinity ? - ."
NO_NUMBERS = frozenset(MISSING_WORDS.split())
"""Lower-case words that mean a missing or infinite number."""

SIGNED = re.compile(r"[-+]?[$€£¥]? ?[-+]?(?:\d{1,3}(?:[.,'’ ]\d{3})+|\d+)(?:[.,]\d+)? ?[%$€£¥]?", re.ASCII)
"""A number with a currency or percent sign, or with thousands separators."""

CATEGORY = "declare the column a category (sparing.features, or a file of --features)"


def check_text_column(column: str, words: Sequence[str], kind: str, orders: Sequence[str]) -> None:
    """Refuse distinct words that do not fit the column's `kind`; `orders` are the kinds of time that they could be."""
    name = truncate(column)
    if kind == "category" and not any(map(cells.is_code, words)):
        _check_missing_words(name, words, "numbers", cells.is_number)
        _check_signs(name, words)
    if kind not in ("bool", "number", "time") and len(orders) != 1:
        _check_dates(name, words, orders)


def _check_missing_words(name: str, words: Sequence[str], what: str, is_one: Callable[[str], bool]) -> None:
    """Refuse values of which some are words for missing ones, or numbers that are too large."""
    odd = [word for word in words if not is_one(word)]
    if not 0 < len(odd) < len(words) or not all(map(_means_missing, odd)):
        return
    large = "" if what == "dates" else f", at most {LARGEST:g} in size"
    raise LogError(
        f"{name} holds {shorten(odd[0])} among {what}; expected {what}{large}, and an empty cell for a missing value. Empty such cells, "
        f"or {CATEGORY}"
    )


def _means_missing(word: str) -> bool:
    try:
        return word.strip().lower() in NO_NUMBERS or not math.isnan(number(word.strip()))
    except ValueError:
        return False


def _check_signs(name: str, words: Sequence[str]) -> None:
    commas = [word for word in words if "," in word]
    decimal = next(filter(has_comma, words), None)
    if commas and all(map(THOUSANDS.fullmatch, commas)) and all(map(_reads, words)):
        odd, what = (
            commas[0],
            "thousands separators? Then remove them. With a decimal comma, read the text file",
        )
        what += " with decimal=','"
    elif decimal is not None and all(has_comma(word) or WHOLE_NUMBER.fullmatch(word) for word in words):
        odd, what = decimal, "a decimal comma? Then read the text file with decimal=','"
    elif words and all(map(_reads, words)):
        odd = next(word for word in words if not cells.is_number(word))
        what = "currency or percent signs, or thousands separators? Then remove the signs"
    else:
        return
    raise LogError(f"{name} holds {shorten(odd)}: numbers with {what}; if they are words, {CATEGORY}")


def _reads(word: str) -> bool:
    return SIGNED.fullmatch(word.strip()) is not None or cells.is_number(word)


def _check_dates(name: str, words: Sequence[str], orders: Sequence[str]) -> None:
    """Refuse dates whose order of day and month is ambiguous or contradictory."""
    if all(map(cells.SHORT_YEAR.fullmatch, words)):
        raise LogError(
            f"{name} holds {shorten(words[0])}: dates with two digits for the year? Write them as 2026-11-17 08:30; if they are words, {CATEGORY}"
        )
    if not all(cells.looks_like_date(word) or word.strip().lower() in NO_NUMBERS for word in words):
        return
    _check_missing_words(name, words, "dates", cells.looks_like_date)
    if not cells.looks_like_date(words[0]):
        return
    found = f"holds {shorten(words[0])}, and no row shows whether the day or the month is first"
    if not orders:
        unfit = [cells.first_invalid_date(words, first) for first in (cells.DAY, cells.MONTH)]
        both = " and ".join(map(shorten, dict.fromkeys(unfit)))
        found = f"holds {both}: the day is not first in all rows, nor is the month"
    raise LogError(
        f"{name} {found}. Write dates as 2026-11-17 08:30, or declare the column: time-day-first, time-month-first or category "
        "(sparing.features, or a file of --features)"
    )


UNNAMED = re.compile(r"__index_level_\d+__")  # pandas' name of an index without a name
NAMELESS = re.compile(r"(Unnamed: \d+)?")  # header of a column of row numbers in text files


def indexes(schema: "pa.Schema", columns: Sequence[str]) -> dict[str, str]:
    """Return the columns that are an index, each with the reason for which it is left out."""
    index = _pandas_index(schema)
    found = {}
    for name in columns:
        if UNNAMED.fullmatch(name):
            found[name] = "left out, the row numbers that pandas wrote"
        elif name in index:
            found[name] = "left out, the index of a frame (name it in contexts to take it)"
        elif NAMELESS.fullmatch(name):
            found[name] = "left out, a column without a name"
    return found


def _pandas_index(schema: "pa.Schema") -> set[str]:
    """Return the columns that the pandas metadata of a table list as its index."""
    try:
        notes = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
        return {name for name in notes["index_columns"] if isinstance(name, str)}
    except (KeyError, TypeError, ValueError):
        return set()


KIND_NAMES = ("auto", *KINDS)


@dataclass(frozen=True)
class ColumnSpec:
    """The kind that a column becomes, with its settings."""

    kind: str
    size: int | None = None
    keep: int | None = None
    ngrams: int | None = None


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
        profiles = ColumnProfiles(self, tuple(columns))
        cut = None if source.rows is None else Partition.of_table(source.rows, len(columns))
        found = scan_rows(source, columns, profiles, identity_batch, partition=cut, engine=engine)
        return self.fitted(source, found, engine)

    def fitted(self, source: TableSource, profiles: Sequence["ColumnProfile"], engine: Engine) -> Encoder:
        """Return the encoder for the profiles of all rows.

        Parameters
        ----------
        source : TableSource
            Table of the profiles; it is read again for a kernel.
        profiles : sequence of ColumnProfile
            Statistics of each column that becomes a feature.
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

    def zero(self) -> "list[ColumnProfile]":
        specs = dict(self.plan.specs)
        return [ColumnProfile(name, specs.get(name, ColumnSpec("auto"))) for name in self.columns]

    def update(self, state: "list[ColumnProfile]", block: Any, first_row: int) -> "list[ColumnProfile]":
        for profile in state:
            profile.add(block.column(profile.column), first_row=first_row)
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
    cut = None if source.rows is None else Partition.of_table(source.rows, encoder.size)
    sample = ContextSample(encoder.size, SAMPLE)
    found: SampledContexts = scan_rows(
        source, columns, sample, encoder.encode_batch, partition=cut, engine=engine
    )
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


def parse_spec(name: str, kind: Any) -> ColumnSpec:
    if isinstance(kind, Mapping):
        kind = ColumnSpec(**{key: value for key, value in kind.items() if key in SETTINGS})
    spec = kind if isinstance(kind, ColumnSpec) else ColumnSpec(kind)
    if spec.kind not in KIND_NAMES:
        raise SettingError(
            f"{name}={spec.kind!r}; must be one of {', '.join(KIND_NAMES)}, vector(size, keep=...) or text(keep=...)"
        )
    if spec.kind == "text":
        return text(keep=spec.keep, ngrams=spec.ngrams)
    return spec


SETTINGS = tuple(each.name for each in fields(ColumnSpec))


def text(*, keep: int | None = None, ngrams: int | None = None) -> ColumnSpec:
    """Declare a column of texts such as prompts, for `sparing.features`.

    Words, neighbouring words and characters of words are hashed, weighted by their rarity in the log and projected to the
    leading directions of the log's texts.

    Parameters
    ----------
    keep : int, optional
        Number of directions that become features, besides the length; 32 by default, at most 256.
    ngrams : int, optional
        Neighbouring words that are taken together, at most: 1, 2 or 3; 2 by default.

    Returns
    -------
    ColumnSpec

    Examples
    --------
    >>> import sparing
    >>> sparing.features(prompt=sparing.text(keep=16)).columns([])
    ('prompt',)
    """
    if keep is not None:
        integer("keep", keep, least=1, most=texts.MOST_DIRECTIONS)
    if ngrams is not None:
        integer("ngrams", ngrams, least=1, most=texts.MOST_NGRAMS)
    return ColumnSpec("text", None, keep, ngrams)


def vector(size: int, *, keep: int | None = None) -> ColumnSpec:
    """Declare a column of lists of numbers, for `sparing.features`.

    Parameters
    ----------
    size : int
        Length of the lists.
    keep : int, optional
        Number of principal components that become features; 24 by default.

    Returns
    -------
    ColumnSpec

    Examples
    --------
    >>> import sparing
    >>> sparing.features(embedding=sparing.vector(384, keep=16)).columns([])
    ('embedding',)
    """
    integer("size", size, least=1)
    if keep is not None:
        integer("keep", keep, least=1)
    return ColumnSpec("vector", size, keep)


def hashed(size: int = 64) -> ColumnSpec:
    """Declare a column of very many categories, for `sparing.features`.

    Parameters
    ----------
    size : int
        Number of one-hot features; a checksum of a value chooses one of them.

    Returns
    -------
    ColumnSpec

    Examples
    --------
    >>> import sparing
    >>> sparing.features(city=sparing.hashed(32)).columns([])
    ('city',)
    """
    integer("size", size, least=1)
    return ColumnSpec("hashed", size)


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

LARGEST_VECTOR = 4096
VECTOR_COMPONENTS = 24


MOST_RARE = 1000
"""Rare values of a category that an encoder keeps, so that an unseen value is none of them."""


def scale_of(numbers: Moments) -> float:
    """Return the standard deviation, or 1 if it is 0."""
    deviation = numbers.deviation
    return deviation if deviation > 1e-12 * max(abs(numbers.mean), 1e-300) else 1.0


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

    def add(self, column: "pa.Array", *, first_row: int) -> None:
        self.rows += len(column)
        kind = self.spec.kind if self.spec.kind != "auto" else self._by_cells(column)
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
            self._add_words(column, first_row, is_category=kind != "text")

    def _by_cells(self, column: "pa.Array") -> str | None:
        """The kind by the type of the cells; digits of ZIP codes and dates such as 20260131 are not numbers."""
        kind = _by_type(column.type)
        if kind in ("number", "text") and POSTAL.search(self.column):
            return "category"
        if kind != "number":
            return kind
        values = column.drop_null().to_numpy(zero_copy_only=False).astype(np.float64)
        return "text" if len(values) and FIRST_DATE <= values.min() <= values.max() <= LAST_DATE else kind

    def _add_numbers(self, column: "pa.Array", kind: str, first_row: int) -> None:
        self.tests = {kind: True}
        if kind == "number":
            out = np.zeros((len(column), 2))
            NumberColumn(self.column, gap=True).fill(column, out, first_row=first_row)
            there, values = out[:, -1] == 0, out[:, 0]
        else:
            values = TIMES[kind](self.column, gap=True).seconds(column, first_row=first_row)
            there = ~np.isnan(values)
        self.gaps += int((~there).sum())
        self._sum([kind], values[there])

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
        self._sample(keys[near], column.take(rows[near]).to_pylist())

    def _sample(self, keys: np.ndarray, found: Sequence[Any]) -> None:
        """Add texts, with the keys of their rows, to the sample."""
        words = tuple(self._word(value)[: texts.MOST_CHARACTERS] for value in found)
        self.texts += TextSample(keys, words)

    def _add_words(self, column: "pa.Array", first_row: int, *, is_category: bool) -> None:
        distinct, codes = cells.factorize(column)
        self.gaps += int((codes < 0).sum())
        if not is_category:
            rows = np.flatnonzero(codes >= 0)
            keys = row_keys(first_row + rows)
            near = self.texts.near(keys)
            self._sample(keys[near], [distinct[code] for code in codes[rows[near]].tolist()])
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
        tests["number"] = tests["number"] and cells.is_number(word) and not cells.is_code(word)
        if not any(map(tests.__getitem__, TIMES)) or cells.is_time(word):
            return
        for kind, time in TIMES.items():
            tests[kind] = tests[kind] and time.order is not None and cells.is_date(word, time.order)

    def _sum_words(self, distinct: list[Any], counts: np.ndarray) -> None:
        """Sum the words as numbers and as times while the column may still be either."""
        there = np.flatnonzero(counts)
        words = [distinct[code] for code in there.tolist()]
        if self.tests["number"]:
            self._sum(["number"], np.repeat([cells.as_number(word) for word in words], counts[there]))
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
        both = ColumnProfile(
            self.column,
            self.spec,
            self.rows + other.rows,
            self.gaps + other.gaps,
            {
                kind: self.moments.get(kind, Moments()) + other.moments.get(kind, Moments())
                for kind in {**self.moments, **other.moments}
            },
            Counter(self.counts),
            self.uncounted or other.uncounted,
            {
                kind: passed and other.tests[kind]
                for kind, passed in self.tests.items()
                if kind in other.tests
            },
            vectors,
            self.odd or other.odd,
            self.texts + other.texts,
            self.characters,
        )
        for word, count in other.counts.items():
            both._count(word, count)
        return both

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
            return RawColumn(self.column, gap=False)
        if kind == "text":
            return self._text(gap)
        numbers, n_words = self.moments.get(kind, Moments()), len(self.counts)
        if kind == "time" and not numbers.count:
            words = sorted(self.counts)
            seconds = [cells.as_seconds(word) for word in words]
            numbers = Moments.of(np.repeat(seconds, [self.counts[word] for word in words]))
        same = numbers.low == numbers.high if numbers.count else n_words == 1 and not self.uncounted
        if same and not gap:
            return "left out, the same in every row"
        if self.spec.kind == "auto" and TIMES.keys() <= self.tests.keys():
            orders = [kind for kind in TIMES if self.tests[kind]]
            check_text_column(self.column, list(self.counts), kind, orders)
        if self._reads_like_text(kind):
            return self._text(gap)
        unique = n_words > MOST_PLACES and n_words > ID_SHARE * self.counts.total()
        if self.spec.kind == "auto" and kind == "category" and unique:
            dates = all(map(DATE.fullmatch, self.counts))
            hint = " (dates are read as 2026-11-17 08:30 or 17.11.2026 08:30)" if dates else ""
            return f"left out, a different value in nearly every row{hint}"
        if kind == "number":
            return NumberColumn.within(
                self.column,
                gap,
                mean=numbers.mean,
                scale=scale_of(numbers),
                low=numbers.low,
                high=numbers.high,
            )
        if kind in TIMES:
            return TIMES[kind](self.column, gap, numbers.low, numbers.high, numbers.mean, scale_of(numbers))
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
        found = next((kind for kind, passed in self.tests.items() if passed), "category")
        every = not self.uncounted and 0 < self.counts.total() == self.rows - self.gaps
        return (
            "time" if found == "number" and every and all(map(cells.is_compact_date, self.counts)) else found
        )

    def _reads_like_text(self, kind: str) -> bool:
        """Whether the kind is to be found, values are mostly rare, and have several words on average."""
        many = self.uncounted or len(self.counts) > MOST_PLACES
        if self.spec.kind != "auto" or kind != "category" or not many or not self._mostly_rare():
            return False
        words = sum(map(texts.count_words, self.texts.texts))
        return words >= TEXT_WORDS * max(1, len(self.texts.texts))

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
        keep = min(
            self.spec.keep or VECTOR_COMPONENTS,
            int((variances > 1e-12 * max(variances[-1], 1e-300)).sum()) or 1,
        )
        chosen = axes[:, ::-1][:, :keep].T
        signs = np.sign(chosen[np.arange(keep), np.abs(chosen).argmax(axis=1)])
        scaled = chosen * signs[:, None] / math.sqrt(max(variances[-1], 1e-300))
        return VectorColumn(
            self.column, gap, len(mean), tuple(mean.tolist()), tuple(map(tuple, scaled.tolist()))
        )


def _by_type(kind: "pa.DataType") -> str | None:
    """Return the kind of a column by its type: `text` if the cells decide, None if the type is not supported."""
    import pyarrow as pa

    from sparing.log import arrays

    types = pa.types
    if types.is_dictionary(kind):
        return "category"
    if arrays.is_text(kind):
        return "text"
    if types.is_boolean(kind):
        return "bool"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_timestamp(kind) or types.is_date(kind):
        return "time"
    if arrays.is_list(kind):
        return "vector" if _by_type(kind.value_type) in ("number", "bool") else None
    return "text" if types.is_null(kind) else None
