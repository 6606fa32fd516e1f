"""What the cells of a raw column are like, taken in batch by batch: enough to say what the column is, and to fit it."""

import math
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sparing.errors import LogError
from sparing.log import arrays
from sparing.log.features import cells, dates
from sparing.log.features.compound import TIMES, Vector
from sparing.log.features.fitting import Wish
from sparing.log.features.kinds import Bool, Category, Column, Hashed, Number, Raw
from sparing.log.features.refusing import refuse_texts
from sparing.log.labels import brief, cut
from sparing.log.moments import Moments

MOST_COUNTED = 100_000
"""Distinct values that are counted; beyond, a column is hashed, however often each value occurs."""

MOST_PLACES = 64
"""Places that the values of one category may have."""

COMMON = 10
"""Rows in which a value must occur to have a place of its own."""

UNIQUE = 0.8
"""A column with more distinct values than this share of its rows tells rows apart, and nothing else."""

DATE = re.compile(r"\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4}\b.*")
"""Text that looks like a date, in whatever order."""

TRUTHS = {*cells.TRUTHS, "0", "1"}
"""Words that may all be truth values; a column of 0 and 1 alone is one of numbers."""

LARGEST_VECTOR = 4096
KEPT = 24
"""Components of a vector that are kept unless another number is asked for."""


def scale_of(numbers: Moments) -> float:
    """The deviation of numbers; 1 where there is none."""
    deviation = numbers.deviation
    return deviation if deviation > 1e-12 * max(abs(numbers.mean), 1e-300) else 1.0


@dataclass
class Survey:
    """One column, as far as it has been seen; `wish` says what it must become, or that it may be told by its cells."""

    column: str
    wish: Wish
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
            Number(self.column, gap=True).fill(column, out, first_row=first_row)
            there, values = out[:, -1] == 0, out[:, 0]
        else:
            values = TIMES[kind](self.column, gap=True).seconds(column, first_row=first_row)
            there = ~np.isnan(values)
        self.gaps += int((~there).sum())
        self._sum([kind], values[there])

    def _add_words(self, column: pa.Array, *, told: bool) -> None:
        distinct, codes = cells.coded(column)
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
            raise LogError(f"{cut(self.column)} holds {brief(value)}; expected {Category.wants}") from None

    def _test(self, word: str) -> None:
        """Whether this value too could be a truth value, a number, a time."""
        tests = self.tests
        tests["bool"] = tests["bool"] and word.strip().lower() in TRUTHS
        tests["number"] = tests["number"] and cells.is_number(word)
        if not any(map(tests.__getitem__, TIMES)) or dates.is_time(word):
            return
        for kind, time in TIMES.items():
            tests[kind] = tests[kind] and time.order is not None and dates.is_written(word, time.order)

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
                f"{cut(self.column)} is a column of {column.type}; expected lists of numbers for a vector"
            )
        there = column.drop_null()
        self.gaps += len(column) - len(there)
        if not len(there):
            return
        size = len(there[0]) if self.vectors is None else len(self.vectors[1])
        size = self.wish.size or size
        if not 1 <= size <= LARGEST_VECTOR:
            raise LogError(
                f"{cut(self.column)} holds lists of {size} numbers; expected 1 to {LARGEST_VECTOR}"
            )
        reader = Vector(
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

    def merged(self, other: "Survey") -> "Survey":
        """Both parts of a column together; neither is changed."""
        if not self.rows or not other.rows:
            return self if self.rows else other
        if self.vectors and other.vectors and len(self.vectors[1]) != len(other.vectors[1]):
            sizes = len(self.vectors[1]), len(other.vectors[1])
            raise LogError(
                f"{cut(self.column)} holds lists of {sizes[0]} and of {sizes[1]} numbers; all need one length"
            )
        counts = Counter(self.counts)
        for word, count in other.counts.items():
            if word in counts or len(counts) < MOST_COUNTED:
                counts[word] += count
        both = set(self.tests) & set(other.tests)
        return Survey(
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
            return Raw(self.column, gap=False)
        if not gap and self._constant(kind):
            return "left out, the same in every row"
        if self.wish.kind == "auto" and TIMES.keys() <= self.tests.keys():
            orders = [kind for kind in TIMES if self.tests[kind]]
            refuse_texts(self.column, list(self.counts), kind, orders)
        if self.wish.kind == "auto" and kind == "category" and self._tells_rows_apart:
            dates = all(map(DATE.fullmatch, self.counts))
            hint = " (dates are read as 2026-11-17 08:30 or 17.11.2026 08:30)" if dates else ""
            return f"left out, a different value in nearly every row{hint}"
        numbers = self.moments.get(kind, Moments())
        if kind == "number":
            return Number(self.column, gap, numbers.mean, scale_of(numbers))
        if kind in TIMES:
            return TIMES[kind](self.column, gap, numbers.low, numbers.high, numbers.mean, scale_of(numbers))
        if kind == "bool":
            return Bool(self.column, gap)
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
        return len(self.counts) > MOST_PLACES and len(self.counts) > UNIQUE * counted

    def _constant(self, kind: str) -> bool:
        numbers = self.moments.get(kind, Moments())
        if numbers.count:
            return numbers.low == numbers.high
        return len(self.counts) == 1 and not self.uncounted

    def _category(self, kind: str, gap: bool) -> Column:
        """Values in order of their counts; all but the common ones are rare. With too many rare ones it is hashed."""
        least = min(COMMON, max(1, (self.rows - self.gaps) // 20))
        common = [word for word, count in self.counts.most_common(MOST_PLACES) if count >= least]
        kept = sum(self.counts[word] for word in common)
        if kind == "hashed" or (
            self.wish.kind == "auto" and (self.uncounted or 2 * kept < self.rows - self.gaps)
        ):
            return Hashed(self.column, gap, size=self.wish.size or MOST_PLACES)
        rare = len(self.counts) - len(common) + self.uncounted
        return Category(self.column, gap, tuple(sorted(common)), rare)

    def _vector(self, gap: bool) -> Column:
        """Principal components, the first ones, over the first's deviation; the sign makes the largest weight positive."""
        count, total, outer = self.vectors
        mean = total / count
        variances, axes = np.linalg.eigh(outer / count - np.outer(mean, mean))
        keep = min(self.wish.keep or KEPT, int((variances > 1e-12 * max(variances[-1], 1e-300)).sum()) or 1)
        chosen = axes[:, ::-1][:, :keep].T
        signs = np.sign(chosen[np.arange(keep), np.abs(chosen).argmax(axis=1)])
        scaled = chosen * signs[:, None] / math.sqrt(max(variances[-1], 1e-300))
        return Vector(self.column, gap, len(mean), tuple(mean.tolist()), tuple(map(tuple, scaled.tolist())))


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
