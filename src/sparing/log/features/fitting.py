"""Fitting an encoder to a table, in one walk over its rows, or two where there is a kernel."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sparing.engines import Engine, local
from sparing.errors import LogError, SettingError
from sparing.log import arrays
from sparing.log.blocks import Partition
from sparing.log.features import cells
from sparing.log.features.columns import (
    KINDS,
    TIMES,
    BoolColumn,
    CategoryColumn,
    Column,
    HashedColumn,
    NumberColumn,
    RawColumn,
    VectorColumn,
)
from sparing.log.features.encoder import CONSTANT, Encoder
from sparing.log.features.kernel import SAMPLE, Nystroem, NystroemMap
from sparing.log.labels import THOUSANDS, WHOLE_NUMBER, has_comma, number, shorten, truncate
from sparing.log.limits import LARGEST
from sparing.log.passes import Statistic, scan_rows
from sparing.log.sampling import ContextSample, SampledContexts
from sparing.log.sketches import Moments
from sparing.log.tables import TableSource
from sparing.validation import integer

NO_NUMBERS = {
    "na",
    "n/a",
    "nan",
    "null",
    "none",
    "inf",
    "+inf",
    "-inf",
    "infinity",
    "-infinity",
    "?",
    "-",
    ".",
}
"""Words, in small letters, that stand among numbers for those that are missing or without end."""

SIGNED = re.compile(r"[-+]?[$€£¥]? ?[-+]?(?:\d{1,3}(?:[.,'’ ]\d{3})+|\d+)(?:[.,]\d+)? ?[%$€£¥]?", re.ASCII)
"""A number with signs of money or percent, or between its thousands."""

CATEGORY = "say that the column is a category (sparing.features, or a file of --features)"


def check_text_column(column: str, words: Sequence[str], kind: str, orders: Sequence[str]) -> None:
    """Refuse a column of these different words, taken for this `kind`; `orders` are the kinds of time that it could be."""
    name = truncate(column)
    if kind == "category":
        _check_missing_words(name, words, "numbers", cells.is_number)
        _check_signs(name, words)
    if kind not in ("bool", "number", "time") and len(orders) != 1:
        _check_dates(name, words, orders)


def _check_missing_words(name: str, words: Sequence[str], what: str, is_one: Callable[[str], bool]) -> None:
    """Refuse values among which words stand for missing ones, or numbers that are too large."""
    odd = [word for word in words if not is_one(word)]
    if not 0 < len(odd) < len(words) or not all(map(_means_missing, odd)):
        return
    large = "" if what == "dates" else f", at most {LARGEST:g} in size"
    raise LogError(
        f"{name} holds {shorten(odd[0])} beside {what}; expected {what}{large}, and nothing in the cell where one is missing. Leave such cells "
        f"empty, or {CATEGORY}"
    )


def _means_missing(word: str) -> bool:
    """Whether a word stands for a missing number, or is one without end or beyond what is taken."""
    try:
        return word.strip().lower() in NO_NUMBERS or not math.isnan(number(word.strip()))
    except ValueError:
        return False


def _check_signs(name: str, words: Sequence[str]) -> None:
    """Refuse numbers with a decimal comma, or with signs."""
    commas = [word for word in words if "," in word]
    if commas and all(map(THOUSANDS.fullmatch, commas)) and all(map(_reads, words)):
        raise LogError(
            f"{name} holds {shorten(commas[0])}: numbers with signs of thousands? Then take them out. With a decimal comma, read the text file "
            f"with decimal=','; if they are words, {CATEGORY}"
        )
    first = next(filter(has_comma, words), None)
    if first is not None and all(has_comma(word) or WHOLE_NUMBER.fullmatch(word) for word in words):
        raise LogError(
            f"{name} holds {shorten(first)}: numbers with a decimal comma? Then read the text file with decimal=','; if they are words, "
            f"{CATEGORY}"
        )
    if words and all(map(_reads, words)):
        signed = next(word for word in words if not cells.is_number(word))
        raise LogError(
            f"{name} holds {shorten(signed)}: numbers with signs of money, percent or thousands? Then take the signs out; if they are words, "
            f"{CATEGORY}"
        )


def _reads(word: str) -> bool:
    """Whether a word is a number, with signs or without."""
    return SIGNED.fullmatch(word.strip()) is not None or cells.is_number(word)


def _check_dates(name: str, words: Sequence[str], orders: Sequence[str]) -> None:
    """Refuse dates of which none tells whether the day is first, or some contradict others."""
    if all(map(cells.SHORT_YEAR.fullmatch, words)):
        raise LogError(
            f"{name} holds {shorten(words[0])}: dates with two digits for the year? Write them as 2026-11-17 08:30; if they are words, {CATEGORY}"
        )
    if not all(cells.looks_like_date(word) or word.strip().lower() in NO_NUMBERS for word in words):
        return
    _check_missing_words(name, words, "dates", cells.looks_like_date)
    if not cells.looks_like_date(words[0]):
        return
    found = f"holds {shorten(words[0])}, and no row tells whether the day or the month is first"
    if not orders:
        unfit = [cells.first_invalid_date(words, first) for first in (cells.DAY, cells.MONTH)]
        both = " and ".join(map(shorten, dict.fromkeys(unfit)))
        found = f"holds {both}: the day is not first in all rows, nor is the month"
    raise LogError(
        f"{name} {found}. Write dates as 2026-11-17 08:30, or say what the column is: time-day-first, time-month-first or category "
        "(sparing.features, or a file of --features)"
    )


if TYPE_CHECKING:
    import pyarrow as pa

UNNAMED = re.compile(r"__index_level_\d+__")
"""What pandas calls an index without a name in a file."""

NAMELESS = re.compile(r"(Unnamed: \d+)?")
"""How row numbers stand at the head of text files that other tools write, and what pandas calls such a column."""


def indexes(schema: "pa.Schema", columns: Sequence[str]) -> dict[str, str]:
    """Those of some columns that are an index, and why each is left out."""
    told = _of_pandas(schema)
    found = {}
    for name in columns:
        if UNNAMED.fullmatch(name):
            found[name] = "left out, the row numbers that pandas wrote"
        elif name in told:
            found[name] = "left out, the index of a frame (name it in contexts to take it)"
        elif NAMELESS.fullmatch(name):
            found[name] = "left out, a column without a name"
    return found


def _of_pandas(schema: "pa.Schema") -> set[str]:
    """The columns that pandas' notes on a table call its index; none where there are no such notes."""
    try:
        notes = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
        return {name for name in notes["index_columns"] if isinstance(name, str)}
    except (KeyError, TypeError, ValueError):
        return set()


if TYPE_CHECKING:
    pass

KIND_NAMES = ("auto", *KINDS)


@dataclass(frozen=True)
class ColumnSpec:
    """What a column is asked to become: a kind, with its settings, if any."""

    kind: str
    size: int | None = None
    keep: int | None = None


@dataclass(frozen=True)
class Features:
    """What raw columns are to become, before a log has taught it: `sparing.features(...)` makes one.

    `others` says what becomes of columns that are not named: nothing (None), or what their cells tell (`auto`).
    """

    wishes: tuple[tuple[str, ColumnSpec], ...] = ()
    others: str | None = None
    kernel: Nystroem | None = None
    constant: bool = True

    def columns(self, free: Sequence[str]) -> tuple[str, ...]:
        """The columns that it takes, of those that play no other role in a table."""
        named = [name for name, _ in self.wishes]
        return (*named, *(name for name in free if name not in named)) if self.others else tuple(named)

    def fit(self, source: TableSource, columns: Sequence[str], engine: Engine | None = None) -> Encoder:
        """The encoder of these columns, fitted to all rows."""
        engine = engine or local(1)
        surveys = ColumnProfiles(self, tuple(columns))
        cut = None if source.rows is None else Partition.of_table(source.rows, len(columns))
        found = scan_rows(source, columns, surveys, identity_batch, partition=cut, engine=engine)
        return self.fitted(source, found, engine)

    def fitted(self, source: TableSource, surveys: Sequence["ColumnProfile"], engine: Engine) -> Encoder:
        """The encoder of columns of which all rows are surveyed."""
        named = dict(self.wishes)
        free = [survey.column for survey in surveys if survey.column not in named]
        index = indexes(source.schema, free)
        fitted = [(survey.column, index.get(survey.column) or survey.fitted()) for survey in surveys]
        kept = tuple(found for _, found in fitted if isinstance(found, Column))
        left_out = tuple((name, found) for name, found in fitted if isinstance(found, str))
        if not kept and not self.constant:
            raise LogError(f"no column of {source.name} carries anything: {dict(left_out)}")
        encoder = Encoder(kept, self.constant, None, left_out)
        _check_names(encoder)
        return (
            encoder
            if self.kernel is None
            else with_kernel(encoder, _sample(source, encoder, engine), self.kernel)
        )


@dataclass(frozen=True)
class ColumnProfiles(Statistic[Any, "list[ColumnProfile]"]):
    """A statistic: what the cells of some columns are like, column by column."""

    plan: Features
    columns: tuple[str, ...]

    def zero(self) -> "list[ColumnProfile]":
        """No rows."""
        # PyArrow: a log in memory does without

        wishes = dict(self.plan.wishes)
        return [ColumnProfile(name, wishes.get(name, ColumnSpec("auto"))) for name in self.columns]

    def update(self, state: "list[ColumnProfile]", block: Any, first_row: int) -> "list[ColumnProfile]":
        """One more batch."""
        for survey in state:
            survey.add(block.column(survey.column), first_row=first_row)
        return state

    def merge(self, one: "list[ColumnProfile]", other: "list[ColumnProfile]") -> "list[ColumnProfile]":
        """Column by column."""
        return [a.merged(b) for a, b in zip(one, other, strict=True)]


def identity_batch(batch: Any, first_row: int) -> Any:
    """A batch of a table as the block of a walk."""
    return batch


def with_kernel(encoder: Encoder, contexts: np.ndarray, wish: Nystroem) -> Encoder:
    """The encoder with kernel features fitted to contexts (n, d) that it made."""
    linear = contexts[:, encoder.linear]
    return replace(encoder, kernel=NystroemMap.fit(linear, wish.landmarks))


def _sample(source: TableSource, encoder: Encoder, engine: Engine) -> np.ndarray:
    """Some rows as the encoder makes them, (n, d): a random part, whatever the batches."""
    columns = [column.column for column in encoder.columns]
    cut = None if source.rows is None else Partition.of_table(source.rows, encoder.size)
    sample = ContextSample(encoder.size, SAMPLE)
    found: SampledContexts = scan_rows(
        source, columns, sample, _Encoding(encoder), partition=cut, engine=engine
    )
    return found.contexts


@dataclass(frozen=True)
class _Encoding:
    """Makes contexts (n, d) of a batch."""

    encoder: Encoder

    def __call__(self, batch: Any, first_row: int) -> np.ndarray:
        return self.encoder.encode_batch(batch, first_row=first_row)


def _check_names(encoder: Encoder) -> None:
    """Refuse columns whose coordinates would have one name."""
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


def parse_specs(
    others: str | Mapping[str, Any] | None = None,
    /,
    *,
    kernel: Nystroem | int | None = None,
    constant: bool = True,
    **columns: Any,
) -> Features:
    """`sparing.features(...)`: see there."""
    named: dict[str, Any] = dict(columns)
    if isinstance(others, Mapping):
        named, others = {**others, **columns}, None
    if others not in (None, "auto"):
        raise SettingError(f"features({others!r}); the first argument is 'auto', or a mapping of columns")
    if not named and others is None:
        raise SettingError("features() names no column; name some, or say features('auto')")
    if isinstance(kernel, int):
        kernel = Nystroem(kernel)
    if not isinstance(kernel, Nystroem | None):
        raise SettingError(f"kernel={kernel!r}; must be nystroem(128) or so, or a number of landmarks")
    if not isinstance(constant, bool):
        raise SettingError(f"constant={constant!r}; must be true or false")
    return Features(
        tuple((name, _parse_spec(name, kind)) for name, kind in named.items()), others, kernel, constant
    )


def _parse_spec(name: str, kind: Any) -> ColumnSpec:
    if isinstance(kind, Mapping):
        kind = ColumnSpec(**{key: value for key, value in kind.items() if key in ("kind", "size", "keep")})
    wish = kind if isinstance(kind, ColumnSpec) else ColumnSpec(kind)
    if wish.kind not in KIND_NAMES:
        raise SettingError(
            f"{name}={wish.kind!r}; must be one of {', '.join(KIND_NAMES)}, or vector(size, keep=...)"
        )
    return wish


def vector(size: int, *, keep: int | None = None) -> ColumnSpec:
    """A column of lists of `size` numbers, of which `keep` principal components are kept (24)."""
    integer("size", size, least=1)
    if keep is not None:
        integer("keep", keep, least=1)
    return ColumnSpec("vector", size, keep)


def hashed(size: int = 64) -> ColumnSpec:
    """A column of very many values, each at one of `size` places by its checksum."""
    integer("size", size, least=1)
    return ColumnSpec("hashed", size)


MOST_COUNTED = 100_000
"""Distinct values that are counted; beyond, a column is hashed, however often each value occurs."""

MOST_PLACES = 64
"""Places that the values of one category may have."""

MIN_CATEGORY_ROWS = 10
"""Rows in which a value must occur to have a place of its own."""

ID_SHARE = 0.8
"""A column with more distinct values than this share of its rows tells rows apart, and nothing else."""

DATE = re.compile(r"\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4}\b.*")
"""Text that looks like a date, in whatever order."""

TRUTHS = {*cells.TRUTH_WORDS, "0", "1"}
"""Words that may all be truth values; a column of 0 and 1 alone is one of numbers."""

LARGEST_VECTOR = 4096
VECTOR_COMPONENTS = 24
"""Components of a vector that are kept unless another number is asked for."""


def scale_of(numbers: Moments) -> float:
    """The deviation of numbers; 1 where there is none."""
    deviation = numbers.deviation
    return deviation if deviation > 1e-12 * max(abs(numbers.mean), 1e-300) else 1.0


@dataclass
class ColumnProfile:
    """One column, as far as it has been seen; `wish` says what it must become, or that it may be told by its cells."""

    column: str
    wish: ColumnSpec
    rows: int = 0
    gaps: int = 0
    moments: dict[str, Moments] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    uncounted: bool = False
    tests: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(("number", "bool", *TIMES), True))
    vectors: Any = None
    odd: str | None = None

    def add(self, column: pa.Array, *, first_row: int) -> None:
        """Take in the next cells."""
        self.rows += len(column)
        kind = self.wish.kind if self.wish.kind != "auto" else _by_type(column.type)
        if kind is None:
            self.odd = str(column.type)
        elif kind == "vector":
            self._add_vectors(column, first_row)
        elif kind in ("number", "raw") or kind in TIMES:
            self._add_numbers(column, "number" if kind == "raw" else kind, first_row)
        else:
            if kind != "text":
                self.tests = {"bool": kind == "bool"}
            self._add_words(column, told=kind != "text")

    def _add_numbers(self, column: pa.Array, kind: str, first_row: int) -> None:
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

    def _add_words(self, column: pa.Array, *, told: bool) -> None:
        distinct, codes = cells.factorize(column)
        self.gaps += int((codes < 0).sum())
        counts = np.bincount(codes[codes >= 0], minlength=len(distinct))
        for value, count in zip(distinct, counts.tolist(), strict=True):
            if not count:
                continue
            word = self._word(value)
            if word not in self.counts:
                if not told:
                    self._test(word)
                if len(self.counts) >= MOST_COUNTED:
                    self.uncounted = True
                    continue
            self.counts[word] += count
        if not told:
            self._sum_words(distinct, counts)

    def _sum(self, kinds: Collection[str], values: np.ndarray) -> None:
        """Take in the values of a column that may be of any of these kinds."""
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
        """Whether this value too could be a truth value, a number, a time."""
        tests = self.tests
        tests["bool"] = tests["bool"] and word.strip().lower() in TRUTHS
        tests["number"] = tests["number"] and cells.is_number(word)
        if not any(map(tests.__getitem__, TIMES)) or cells.is_time(word):
            return
        for kind, time in TIMES.items():
            tests[kind] = tests[kind] and time.order is not None and cells.is_date(word, time.order)

    def _sum_words(self, distinct: list[Any], counts: np.ndarray) -> None:
        """As numbers and as times, as long as they may be either: which they are, the last cell may tell."""
        there = np.flatnonzero(counts)
        words = [distinct[code] for code in there.tolist()]
        if self.tests["number"]:
            self._sum(["number"], np.repeat([cells.as_number(word) for word in words], counts[there]))
        for kind, time in TIMES.items():
            if self.tests[kind]:
                seconds = [cells.as_seconds(word, time.order) for word in words]
                alike = (
                    TIMES if kind == "time" else [kind]
                )  # what tells its order itself is the same in every one
                self._sum(alike, np.repeat(seconds, counts[there]))
            if self.tests["time"]:
                break

    def _add_vectors(self, column: pa.Array, first_row: int) -> None:
        if not arrays.is_list(column.type):
            raise LogError(
                f"{truncate(self.column)} is a column of {column.type}; expected lists of numbers for a vector"
            )
        there = column.drop_null()
        self.gaps += len(column) - len(there)
        if not len(there):
            return
        size = len(there[0]) if self.vectors is None else len(self.vectors[1])
        size = self.wish.size or size
        if not 1 <= size <= LARGEST_VECTOR:
            raise LogError(
                f"{truncate(self.column)} holds lists of {size} numbers; expected 1 to {LARGEST_VECTOR}"
            )
        reader = VectorColumn(
            self.column,
            gap=True,
            size=size,
            mean=(0.0,) * size,
            axes=tuple(map(tuple, np.eye(size).tolist())),
        )
        out = np.zeros((len(column), size + 1))
        try:
            reader.fill(column, out, first_row=first_row)
        except LogError as error:
            raise LogError(f"{error}. Make them alike, or choose other columns with contexts=[...]") from None
        rows = out[out[:, -1] == 0, :-1]
        if self.vectors is None:
            self.vectors = [0, np.zeros(size), np.zeros((size, size))]
        self.vectors[0] += len(rows)
        self.vectors[1] += rows.sum(axis=0)
        self.vectors[2] += rows.T @ rows

    def merged(self, other: "ColumnProfile") -> "ColumnProfile":
        """Both parts of a column together; neither is changed."""
        if not self.rows or not other.rows:
            return self if self.rows else other
        if self.vectors and other.vectors and len(self.vectors[1]) != len(other.vectors[1]):
            sizes = len(self.vectors[1]), len(other.vectors[1])
            raise LogError(
                f"{truncate(self.column)} holds lists of {sizes[0]} and of {sizes[1]} numbers; all need one length"
            )
        counts = Counter(self.counts)
        for word, count in other.counts.items():
            if word in counts or len(counts) < MOST_COUNTED:
                counts[word] += count
        both = set(self.tests) & set(other.tests)
        return ColumnProfile(
            self.column,
            self.wish,
            self.rows + other.rows,
            self.gaps + other.gaps,
            {
                kind: self.moments.get(kind, Moments()) + other.moments.get(kind, Moments())
                for kind in {**self.moments, **other.moments}
            },
            counts,
            self.uncounted
            or other.uncounted
            or len(counts) < len(self.counts) + sum(word not in self.counts for word in other.counts),
            {kind: self.tests[kind] and other.tests[kind] for kind in self.tests if kind in both},
            [a + b for a, b in zip(self.vectors, other.vectors, strict=True)]
            if self.vectors and other.vectors
            else self.vectors or other.vectors,
            self.odd or other.odd,
        )

    def fitted(self) -> Column | str:
        """The column as it is to be encoded, or why it is left out."""
        if self.odd is not None:
            return f"left out, a column of {self.odd}"
        if self.gaps == self.rows:
            return "left out, empty"
        kind, gap = self.kind, self.gaps > 0
        if kind == "vector":
            return self._vector(gap)
        if kind == "raw":
            return RawColumn(self.column, gap=False)
        if not gap and self._constant(kind):
            return "left out, the same in every row"
        if self.wish.kind == "auto" and TIMES.keys() <= self.tests.keys():
            orders = [kind for kind in TIMES if self.tests[kind]]
            check_text_column(self.column, list(self.counts), kind, orders)
        if self.wish.kind == "auto" and kind == "category" and self._tells_rows_apart:
            dates = all(map(DATE.fullmatch, self.counts))
            hint = " (dates are read as 2026-11-17 08:30 or 17.11.2026 08:30)" if dates else ""
            return f"left out, a different value in nearly every row{hint}"
        numbers = self.moments.get(kind, Moments())
        if kind == "number":
            return NumberColumn(self.column, gap, numbers.mean, scale_of(numbers))
        if kind in TIMES:
            return TIMES[kind](self.column, gap, numbers.low, numbers.high, numbers.mean, scale_of(numbers))
        if kind == "bool":
            return BoolColumn(self.column, gap)
        return self._category(kind, gap)

    @property
    def kind(self) -> str:
        """What the column is: as asked for, or as its cells tell."""
        if self.wish.kind != "auto":
            return self.wish.kind
        if self.vectors is not None:
            return "vector"
        return next((kind for kind, passed in self.tests.items() if passed), "category")

    @property
    def _tells_rows_apart(self) -> bool:
        """Whether it is an id: values that hardly ever recur, in more rows than a category would need."""
        counted = sum(self.counts.values())
        return len(self.counts) > MOST_PLACES and len(self.counts) > ID_SHARE * counted

    def _constant(self, kind: str) -> bool:
        numbers = self.moments.get(kind, Moments())
        if numbers.count:
            return numbers.low == numbers.high
        return len(self.counts) == 1 and not self.uncounted

    def _category(self, kind: str, gap: bool) -> Column:
        """Values in order of their counts; all but the common ones are rare. With too many rare ones it is hashed."""
        least = min(MIN_CATEGORY_ROWS, max(1, (self.rows - self.gaps) // 20))
        common = [word for word, count in self.counts.most_common(MOST_PLACES) if count >= least]
        kept = sum(self.counts[word] for word in common)
        if kind == "hashed" or (
            self.wish.kind == "auto" and (self.uncounted or 2 * kept < self.rows - self.gaps)
        ):
            return HashedColumn(self.column, gap, size=self.wish.size or MOST_PLACES)
        rare = len(self.counts) - len(common) + self.uncounted
        return CategoryColumn(self.column, gap, tuple(sorted(common)), rare)

    def _vector(self, gap: bool) -> Column:
        """Principal components, the first ones, over the first's deviation; the sign makes the largest weight positive."""
        count, total, outer = self.vectors
        mean = total / count
        variances, axes = np.linalg.eigh(outer / count - np.outer(mean, mean))
        keep = min(
            self.wish.keep or VECTOR_COMPONENTS,
            int((variances > 1e-12 * max(variances[-1], 1e-300)).sum()) or 1,
        )
        chosen = axes[:, ::-1][:, :keep].T
        signs = np.sign(chosen[np.arange(keep), np.abs(chosen).argmax(axis=1)])
        scaled = chosen * signs[:, None] / math.sqrt(max(variances[-1], 1e-300))
        return VectorColumn(
            self.column, gap, len(mean), tuple(mean.tolist()), tuple(map(tuple, scaled.tolist()))
        )


def _by_type(kind: pa.DataType) -> str | None:
    """What a column's type alone says of it: `text` where its cells must tell, None where it can be nothing."""
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
