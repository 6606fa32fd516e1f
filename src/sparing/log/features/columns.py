"""Fitted columns: how the cells of each kind of raw column become features."""

import math
import warnings
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from sparing.errors import LogError, SpellingWarning, UnitWarning
from sparing.log.features import cells
from sparing.log.labels import fold_case, near_duplicates, shorten, truncate
from sparing.log.limits import LARGEST
from sparing.log.sketches import Moments

if TYPE_CHECKING:
    import pyarrow as pa

MISSING = "is missing"

Setter = Callable[[Any, "memoryview[float]"], None]
"""Writes the coordinates of a value into a context, which is 0 before."""

TileSetter = Callable[[slice, np.ndarray], None]
"""Writes the coordinates of some rows into zeros (m, width): of many rows at a time, wide ones do not stay in the cache."""


class CellError(ValueError):
    """A value that does not fit its column."""


@dataclass(frozen=True)
class Column(ABC):
    """A fitted column. With `gap`, the log has missing values, and the last coordinate marks them."""

    kind: ClassVar[str]
    wants: ClassVar[str]
    column: str
    gap: bool

    @property
    @abstractmethod
    def parts(self) -> tuple[str, ...]:
        """The names of its coordinates, without the one for missing values."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of its coordinates."""
        return (*self.parts, f"{self.column} {MISSING}") if self.gap else self.parts

    @property
    def expected(self) -> str:
        """The allowed cells, in words."""
        return self.wants

    def unseen(self, value: Any) -> bool:
        """Whether the log shows nothing of a value: a category that it never had, or a number outside its range."""
        return False

    def note(self, value: Any) -> str:
        """What is particular about a live value, in a few words; empty for most."""
        if value is None or self.is_missing(value):
            return "missing"
        return self._beyond(value) if self.unseen(value) else ""

    def _beyond(self, value: Any) -> str:
        return "not in the log"

    def fill(self, column: "pa.Array", out: np.ndarray, *, first_row: int) -> None:
        """Write the coordinates of cells (n,) into zeros (n, width)."""
        write = self.tile_setter(column, first_row=first_row)
        assert write is not None  # other columns have a `fill` of their own
        write(slice(None), out)

    def tile_setter(self, column: "pa.Array", *, first_row: int) -> TileSetter | None:
        """Read cells (n,), and return what writes those of some rows; None if `fill` is to write all at once."""
        return None

    @abstractmethod
    def write(self, value: Any, place: int, out: "memoryview[float]") -> None:
        """Write the coordinates of a value that is not missing, from `place` on, or raise ValueError."""

    def put(self, place: int) -> Setter:
        """Return the setter of a value's coordinates, which begin at `place`."""
        is_missing, write, last = self.is_missing, self.write, place + len(self.names) - 1

        def put(value: Any, out: "memoryview[float]") -> None:
            if value is None or is_missing(value):
                self._put_missing(last, out)
                return
            try:
                write(value, place, out)
            except (TypeError, ValueError, OverflowError):
                raise self._unfit(value) from None

        return put

    is_missing = staticmethod(cells.is_missing)

    def words(self, part: int, low: float, high: float) -> str:
        """Describe low < coordinate ≤ high in terms of the raw column."""
        if part == len(self.parts):
            return f"{self.column} {MISSING if low >= 0 else 'is known'}"
        return self._words(part, low, high)

    @abstractmethod
    def _words(self, part: int, low: float, high: float) -> str:
        """Describe a coordinate that is not the one for missing values."""

    def header(self) -> dict[str, Any]:
        """Return the column as JSON, without what it does not have."""
        saved = {"kind": self.kind, **asdict(self)}
        return {name: value for name, value in saved.items() if value is not None}

    def described(self) -> str:
        """Return the kind of the column, in a few words."""
        return self.summary + (", some missing" if self.gap else "")

    @property
    def summary(self) -> str:
        return self.kind

    def _put_missing(self, last: int, out: "memoryview[float]") -> None:
        """Mark a value as missing; `last` is the place of its last coordinate."""
        if self.gap:
            out[last] = 1.0

    def _fill_gap(self, there: np.ndarray, out: np.ndarray) -> None:
        if self.gap:
            out[~there, -1] = 1.0

    def _unfit(self, value: Any) -> CellError:
        return CellError(
            f"{truncate(self.column)} is {shorten(value)}; expected {self.expected}, or None (null in JSON) if it is missing"
        )

    def unfit_row(self, value: Any, row: int) -> LogError:
        return LogError(f"{truncate(self.column)} at row {row} is {shorten(value)}; expected {self.expected}")

    def _mapped(self, column: "pa.Array", convert: Callable[[Any], float], *, first_row: int) -> np.ndarray:
        """Convert cells to numbers (n,), NaN for missing ones; distinct cells are converted once."""
        table, codes = self._converted(column, convert, first_row=first_row, gap=math.nan)
        return table[codes]

    def _converted(
        self, column: "pa.Array", convert: Callable[[Any], float], *, first_row: int, gap: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of distinct cells, with `gap` at the end, and the position of each cell's among them, (n,), −1 if it is missing."""
        distinct, codes = cells.factorize(column)
        table = np.full(len(distinct) + 1, gap)
        for code, value in enumerate(distinct):
            if cells.is_missing(value):
                continue
            try:
                table[code] = convert(value)
            except (ValueError, OverflowError):
                rows = np.flatnonzero(codes == code)
                if len(rows):
                    raise self.unfit_row(value, first_row + int(rows[0])) from None
        return table, codes

    def _bounded(self, part: int, low: float, high: float, show: Callable[[float], str]) -> str:
        name = self.names[part]
        if math.isinf(low):
            return f"{name} ≤ {show(high)}"
        return f"{name} > {show(low)}" if math.isinf(high) else f"{show(low)} < {name} ≤ {show(high)}"


@lru_cache(maxsize=4)
def row_numbers(count: int) -> np.ndarray:
    """0, 1, … of the rows of a tile; kept, because tiles of a log have one length, and the last one another."""
    numbers = np.arange(count)
    numbers.setflags(write=False)
    return numbers


MISSING_CODE = -2
"""The code of a missing category; −1 is that of a value without a coordinate."""


MARGIN = 0.1
"""Live numbers may exceed the log's range by this share of its length: a further row exceeds the range itself now and then."""


@dataclass(frozen=True)
class NumberColumn(Column):
    """(value − mean)/scale; 0 if it is missing. A number outside `low` to `high` counts as the nearer of them.

    Encoders saved before 0.3 have no such limits. `notation` is how the log wrote its numbers as text, unless as computers do.
    """

    kind = "number"
    wants = f"a finite number, at most {LARGEST:g} in size"
    # Warn of a live number this many deviations from the log's mean: at most 1 in 100² of the log's rows is there.
    warn_deviations: ClassVar[float] = 100.0
    mean: float = 0.0
    scale: float = 1.0
    low: float | None = None
    high: float | None = None
    notation: cells.Notation | None = None

    def __post_init__(self) -> None:
        given: Any = self.notation
        if isinstance(given, Mapping):  # from JSON
            object.__setattr__(self, "notation", cells.Notation(**given))

    @classmethod
    def within(cls, column: str, gap: bool, found: Moments, notation: cells.Notation | None) -> Self:
        """The column of a log with these numbers, limited to a little more than their range."""
        more = MARGIN * (found.high - found.low)
        low, high = max(-LARGEST, found.low - more), min(LARGEST, found.high + more)
        return cls(column, gap, found.mean, found.scale, low, high, notation)

    @property
    def expected(self) -> str:
        return (
            self.wants if self.notation is None else f"{self.wants}, or text such as {self.notation.example}"
        )

    @property
    def summary(self) -> str:
        return self.kind if self.notation is None else f"{self.kind}, {self.notation.described()}"

    def number(self, value: Any) -> float:
        """Return a value as a number, or raise ValueError."""
        return cells.as_number(value, self.notation)

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.column,)

    def numbers(self, column: "pa.Array", *, first_row: int) -> np.ndarray:
        """Cells as numbers, (n,), NaN where one is missing."""
        from sparing.log import arrays

        if arrays.is_text(column.type):
            values = self._mapped(column, self.number, first_row=first_row)
        else:
            values = arrays.numbers(column, self.column, first_row=first_row)
        if not all_valid(values):
            for row in np.flatnonzero(np.abs(values) > LARGEST).tolist():
                raise self.unfit_row(float(values[row]), first_row + row)
        return values

    def tile_setter(self, column: "pa.Array", *, first_row: int) -> TileSetter:
        values = self.numbers(column, first_row=first_row)
        low, high = (values.min(), values.max()) if len(values) else (0.0, 0.0)
        missing = np.isnan(values) if np.isnan(low) else None
        if not self._low <= low <= high <= self._high:  # or a number is missing
            values = self._clipped(values)
        mean, times = self.mean, 1 / self.scale

        def write(rows: slice, out: np.ndarray) -> None:
            part = values[rows]
            np.multiply(part - mean, times, out=out[:, 0])
            if missing is not None:
                gaps = missing[rows]
                out[gaps, 0] = 0.0
                self._fill_gap(~gaps, out)

        return write

    def write(self, value: Any, place: int, out: "memoryview[float]") -> None:
        number = self.number(value)
        number = self._low if number < self._low else min(number, self._high)
        out[place] = (number - self.mean) * (1 / self.scale)

    def _clipped(self, values: np.ndarray) -> np.ndarray:
        clipped = np.clip(values, self._low, self._high)
        far = np.abs(values[clipped != values] - self.mean)  # a missing number is NaN, and not far
        self.look_at(float(np.nanmax(far, initial=0.0)) / self.scale)
        return clipped

    @property
    def _low(self) -> float:
        return -math.inf if self.low is None else self.low

    @property
    def _high(self) -> float:
        return math.inf if self.high is None else self.high

    def unseen(self, value: Any) -> bool:
        return not self.is_missing(value) and not self._low <= self.number(value) <= self._high

    def _beyond(self, value: Any) -> str:
        end = self._low if self.number(value) < self._low else self._high
        return f"beyond the log, counted as {end:.4g}"

    @property
    def usual(self) -> tuple[float, float]:
        """The range in which a live number needs no check."""
        reach = self.warn_deviations * self.scale
        return max(-LARGEST, self.mean - reach, self._low), min(LARGEST, self.mean + reach, self._high)

    def check(self, value: Any) -> None:
        """Warn of a live value far from the log's."""
        if not self.is_missing(value):
            self.look_at((self.number(value) - self.mean) / self.scale)

    def look_at(self, coordinate: float) -> None:
        """Warn of a live number far from the log's. The text is the same for all values, so that Python shows it once."""
        if abs(coordinate) > self.warn_deviations:
            meant = "predicted rewards there are extrapolated"
            if self.low is not None:
                meant = f"it counts as {self.low:.4g} or {self.high:.4g}, the ends of the log's range and a margin"
            warnings.warn(
                f"{truncate(self.column)} is more than {self.warn_deviations:g} deviations from its mean in the log, which is {self.mean:.4g}, the deviation {self.scale:.4g}: "
                f"{meant}. Give it in the unit of the log, or within its range",
                UnitWarning,
                stacklevel=6,  # who calls `decide` with a row
            )

    def _words(self, part: int, low: float, high: float) -> str:
        return self._bounded(part, low, high, lambda end: f"{end * self.scale + self.mean:.4g}")


@dataclass(frozen=True)
class RawColumn(NumberColumn):
    """The number itself; a log and a decision without it are refused."""

    kind = "raw"
    warn_deviations = math.inf  # there is no mean to go by

    def tile_setter(self, column: "pa.Array", *, first_row: int) -> TileSetter:
        from sparing.log import arrays

        # The log refuses what is not finite.
        values = arrays.numbers(column, self.column, first_row=first_row, notation=self.notation)

        def write(rows: slice, out: np.ndarray) -> None:
            out[:, 0] = values[rows]

        return write

    def _put_missing(self, last: int, out: "memoryview[float]") -> None:
        raise CellError(
            f"{truncate(self.column)} is missing, and these features are raw numbers, which have no coordinate for that. "
            "Fill it in, or read the log with features='auto'"
        )


@dataclass(frozen=True)
class CategoryColumn(Column):
    """1 at the place of its value. Rare values share the place `other`, if the log had any; a value that the log
    never had is 0 everywhere, or 1 at a place of its own with `unseen_place`. It goes to `other` if the rare ones are not
    known: they were too many, or the encoder was saved before 0.3."""

    kind = "category"
    wants = "a text, a whole number or a truth value"
    values: tuple[str, ...] = ()
    rare: int = 0
    rare_values: tuple[str, ...] | None = None
    unseen_place: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if self.rare_values is not None:
            object.__setattr__(self, "rare_values", tuple(self.rare_values))

    @property
    def parts(self) -> tuple[str, ...]:
        other = (f"{self.column} is other",) if self.rare else ()
        unseen = (f"{self.column} is unseen",) if self.unseen_place else ()
        return tuple(f"{self.column}={value}" for value in self.values) + other + unseen

    def _place(self, value: Any) -> int:
        """The place of a value's 1; −1 if it has none."""
        unknown = len(self.values) if self.hides_unseen else self.place_of_unseen
        return self._places.get(cells.as_word(value), unknown)

    @property
    def hides_unseen(self) -> bool:
        """Whether unseen values count as rare ones."""
        return self.rare > 0 and self.rare_values is None

    @property
    def place_of_unseen(self) -> int:
        """The place of values that the log never had; −1 if there is none."""
        return len(self.values) + (self.rare > 0) if self.unseen_place else -1

    def unseen(self, value: Any) -> bool:
        return (
            not self.is_missing(value) and not self.hides_unseen and cells.as_word(value) not in self._places
        )

    @cached_property
    def _places(self) -> dict[Hashable, int]:
        rare: dict[Hashable, int] = dict.fromkeys(self.rare_values or (), len(self.values))
        return rare | {value: i for i, value in enumerate(self.values)}

    def tile_setter(self, column: "pa.Array", *, first_row: int) -> TileSetter:
        numbers, codes = self._converted(column, self._place, first_row=first_row, gap=MISSING_CODE)
        table = numbers.astype(np.int64)
        every = (table[:-1] >= 0).all() and codes.min(initial=0) >= 0

        def write(rows: slice, out: np.ndarray) -> None:
            places = table[codes[rows]]
            if every:
                out[row_numbers(len(places)), places] = 1.0
                return
            known = np.flatnonzero(places >= 0)
            out[known, places[known]] = 1.0
            self._fill_gap(places != MISSING_CODE, out)

        return write

    def write(self, value: Any, place: int, out: "memoryview[float]") -> None:
        found = self._place(value)
        if found >= 0:
            out[place + found] = 1.0
        self._compare_spelling(value)

    def _compare_spelling(self, value: Any) -> None:
        """Warn of a live value that differs from one of the log only in case or spaces."""
        word = cells.as_word(value)
        near = None if word in self._places else self._folded.get(fold_case(word))
        if near is not None:
            warnings.warn(
                f"{truncate(self.column)} is {shorten(word)}, which the log does not have; it has {shorten(near)}. They count as "
                "different values: write it as in the log",
                SpellingWarning,
                stacklevel=7,
            )

    @cached_property
    def _folded(self) -> dict[str, str]:
        return {fold_case(value): value for value in reversed(self.values)}

    def _words(self, part: int, low: float, high: float) -> str:
        other = "a value that the log lacks" if part == self.place_of_unseen else "one of the rare values"
        value = self.values[part] if part < len(self.values) else other
        other = f"not {value}"
        if len(self.values) == 2 and not self.rare and not self.gap:
            other = self.values[1 - part]
        return f"{self.column} is {value if low >= 0 else other}"

    @property
    def summary(self) -> str:
        rare = f", {self.rare} rare ones as other" if self.rare else ""
        return f"category of {len(self.values)} value{'' if len(self.values) == 1 else 's'}{rare}"

    def described(self) -> str:
        similar = list(map(shorten, near_duplicates(self.values)[:2]))
        alike = f", {' and '.join(similar)} differ only in case or spaces" if similar else ""
        digits = max(map(len, self.values), default=0) > 3 and all(map(str.isdigit, self.values))
        codes = ", digits kept as text" if digits else ""
        return super().described() + codes + alike


@dataclass(frozen=True)
class HashedColumn(CategoryColumn):
    """1 at one of `size` places, chosen by the value's checksum, for columns with very many values."""

    kind = "hashed"
    size: int = 64

    def unseen(self, value: Any) -> bool:
        return False  # its values are not kept

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(f"{self.column}#{i}" for i in range(self.size))

    def _place(self, value: Any) -> int:
        return zlib.crc32(cells.as_word(value).encode()) % self.size

    def _words(self, part: int, low: float, high: float) -> str:
        return f"{self.column} {'is' if low >= 0 else 'is not'} among the values hashed to {part}"

    @property
    def summary(self) -> str:
        return f"hashed to {self.size} places"


@dataclass(frozen=True)
class BoolColumn(Column):
    """1 if true, −1 if false, 0 where it is missing."""

    kind = "bool"
    wants = "true or false"

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.column,)

    def fill(self, column: "pa.Array", out: np.ndarray, *, first_row: int) -> None:
        values = self._mapped(column, cells.as_bool, first_row=first_row)
        there = ~np.isnan(values)
        out[:, 0] = np.where(there, 2 * values - 1, 0.0)
        self._fill_gap(there, out)

    def write(self, value: Any, place: int, out: "memoryview[float]") -> None:
        out[place] = 2 * cells.as_bool(value) - 1

    def put(self, place: int) -> Setter:
        usual = super().put(place)

        def put(value: Any, out: "memoryview[float]") -> None:
            if value is True:
                out[place] = 1.0
            elif value is False:
                out[place] = -1.0
            else:
                usual(value, out)

        return put

    def _words(self, part: int, low: float, high: float) -> str:
        other = "not true" if self.gap else "false"
        return f"{self.column} is {'true' if low >= 0 else other}"


def all_valid(values: np.ndarray) -> bool:
    """Whether an array has no number that is too large, or missing; without a copy."""
    return not values.size or bool(values.max() <= LARGEST and values.min() >= -LARGEST)


DAY = 86_400.0
MINUTE = 60.0
HOURS = np.array([(math.sin(turn), math.cos(turn)) for turn in np.linspace(0, 2 * math.pi, 1441)[:-1]])
"""Where each minute of a day stands on its circle, (1440, 2): a table, so that a row and a column agree in every bit."""

DAYS = np.array([(math.sin(turn), math.cos(turn)) for turn in np.linspace(0, 2 * math.pi, 8)[:-1]])
"""Where each day of a week stands on its circle, from Monday, (7, 2)."""

HOURS_LIST, DAYS_LIST = HOURS.tolist(), DAYS.tolist()


@dataclass(frozen=True)
class TimeColumn(Column):
    """Where the hour and the day stand on their circles, in UTC, and how far time has come, standardised.

    Beyond the log's own range the trend stays where the log began or ended: nothing is known of it there. With `under_week`,
    so does the weekday: a log of less than a week shows some weekdays never, and the others once.
    """

    kind = "time"
    wants = "a date or moment such as 2026-03-01T10:00 (ISO 8601) or 01.03.2026 10:00, or seconds (not milliseconds) since 1970"
    order: ClassVar[str | None] = None
    first: float = 0.0
    last: float = 0.0
    mean: float = 0.0
    scale: float = 1.0
    under_week: bool | None = None

    @classmethod
    def within(cls, column: str, gap: bool, found: Moments) -> Self:
        """The column of a log with these seconds since 1970."""
        low, high = found.low, found.high
        return cls(column, gap, low, high, found.mean, found.scale, high // DAY - low // DAY < 6 or None)

    def unseen(self, value: Any) -> bool:
        if not self.under_week or self.is_missing(value):
            return False
        first, last, day = (
            int(each // DAY) for each in (self.first, self.last, cells.as_seconds(value, self.order))
        )
        return (day - first) % 7 > last - first

    @property
    def parts(self) -> tuple[str, ...]:
        circles = ("hour sin", "hour cos", "day sin", "day cos", "trend")
        return tuple(f"{self.column} {circle}" for circle in circles)

    def fill(self, column: "pa.Array", out: np.ndarray, *, first_row: int) -> None:
        seconds = self.numbers(column, first_row=first_row)
        there = ~np.isnan(seconds)
        moment = np.where(there, seconds, self.mean)
        within = np.clip(moment, self.first, self.last)
        shown = within if self.under_week else moment
        minute, day = (moment % DAY // MINUTE).astype(np.int64), ((shown // DAY + 3) % 7).astype(np.int64)
        trend = (within - self.mean) / self.scale
        out[:, :5] = np.where(there[:, None], np.column_stack((HOURS[minute], DAYS[day], trend)), 0.0)
        self._fill_gap(there, out)

    def numbers(self, column: "pa.Array", *, first_row: int) -> np.ndarray:
        """Seconds since 1970 in UTC, (n,), NaN where the cell is missing."""
        moments = cells.to_seconds(column)
        if moments is not None:
            return moments
        return self._mapped(column, partial(cells.as_seconds, first=self.order), first_row=first_row)

    def write(self, value: Any, place: int, out: "memoryview[float]") -> None:
        moment = cells.as_seconds(value, self.order)
        out[place], out[place + 1] = HOURS_LIST[int(moment % DAY // MINUTE)]
        within = self.first if moment < self.first else moment
        within = self.last if self.last < within else within
        out[place + 2], out[place + 3] = DAYS_LIST[
            int(((within if self.under_week else moment) // DAY + 3) % 7)
        ]
        out[place + 4] = (within - self.mean) / self.scale

    def unfit_row(self, value: Any, row: int) -> LogError:
        error = super().unfit_row(value, row)
        if self.order is None and isinstance(value, str) and cells.is_ambiguous_date(value):
            return LogError(
                f"{error}. The kinds {' and '.join(tuple(TIMES)[1:])} define the order of such dates"
            )
        return error

    def _words(self, part: int, low: float, high: float) -> str:
        if part < 4:
            return self._bounded(part, low, high, lambda end: f"{end:.3g}")
        name, when = self.column, self._when
        if math.isinf(low):
            return f"{name} is no later than {when(high)}"
        after = f"{name} is later than {when(low)}"
        return after if math.isinf(high) else f"{after} and no later than {when(high)}"

    def _when(self, end: float) -> str:
        moment = np.datetime64(int(end * self.scale + self.mean), "s")
        return f"{str(moment).replace('T', ' ')[:16]} UTC"


@dataclass(frozen=True)
class DayFirstColumn(TimeColumn):
    """A time in whose texts 03/04/2026 is the third of April."""

    kind = "time-day-first"
    wants = "a date or moment with the day first such as 17/03/2026 10:00, one in ISO 8601, or seconds (not milliseconds) since 1970"
    order = cells.DAY

    @property
    def summary(self) -> str:
        return f"time, {self.order} first"


@dataclass(frozen=True)
class MonthFirstColumn(DayFirstColumn):
    """A time in whose texts 03/04/2026 is the fourth of March."""

    kind = "time-month-first"
    wants = "a date or moment with the month first such as 03/17/2026 10:00, one in ISO 8601, or seconds (not milliseconds) since 1970"
    order = cells.MONTH


TIMES: dict[str, type[TimeColumn]] = {
    kind.kind: kind for kind in (TimeColumn, DayFirstColumn, MonthFirstColumn)
}
"""The kinds that are moments by name; those after the first say the order of dates that do not tell it."""


@dataclass(frozen=True)
class VectorColumn(Column):
    """The first principal components of a list of `size` numbers, over the deviation of the first.

    mean (size,), axes (keep, size), scaled; lists, so that they are written as JSON.
    """

    kind = "vector"
    size: int = 1
    mean: tuple[float, ...] = ()
    axes: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", tuple(self.mean))
        object.__setattr__(self, "axes", tuple(map(tuple, self.axes)))

    @property
    def expected(self) -> str:
        return f"a list of {self.size} finite numbers"

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(f"{self.column}[{i}]" for i in range(len(self.axes)))

    @cached_property
    def projection(self) -> tuple[np.ndarray, np.ndarray]:
        """Axes (size, keep) and offset (keep,): a list becomes list·axes − offset."""
        axes = np.array(self.axes)
        return axes.T, axes @ np.array(self.mean)

    def fill(self, column: "pa.Array", out: np.ndarray, *, first_row: int) -> None:
        there = column.is_valid().to_numpy(zero_copy_only=False)
        if there.any():
            axes, offset = self.projection
            rows = self.vectors(column, first_row=first_row)
            out[:, : len(self.axes)] = np.where(there[:, None], rows @ axes - offset, 0.0)
        self._fill_gap(there, out)

    def vectors(self, column: "pa.Array", *, first_row: int) -> np.ndarray:
        """The lists as rows (n, size); a missing one is all 0."""
        import pyarrow.compute as pc

        from sparing.log import arrays

        if not arrays.is_list(column.type):
            raise LogError(
                f"{truncate(self.column)} is a column of {column.type}; expected {self.expected} a row"
            )
        rows = np.zeros((len(column), self.size))
        lengths = pc.list_value_length(column).fill_null(self.size).to_numpy(zero_copy_only=False)
        bad = lengths != self.size
        if not bad.any():
            flat = column.drop_null().flatten()
            numbers = arrays.numbers(flat, self.column, first_row=first_row, width=self.size)
            rows[column.is_valid().to_numpy(zero_copy_only=False)] = numbers.reshape(-1, self.size)
            bad = ~(np.abs(rows) <= LARGEST).all(axis=1)
        if bad.any():
            row = int(bad.argmax())
            raise self.unfit_row(column[row].as_py(), first_row + row)
        return rows

    @staticmethod
    def is_missing(value: Any) -> bool:
        """None, or the NaN that pandas puts in its place."""
        return value is None or (isinstance(value, float) and value != value)

    def write(self, value: Any, place: int, out: "memoryview[float]") -> None:
        given = np.asarray(value, dtype=np.float64)
        if given.shape != (self.size,) or not (np.abs(given) <= LARGEST).all():
            raise ValueError(value)
        axes, offset = self.projection
        out[place : place + len(self.axes)] = memoryview(given @ axes - offset)

    def _words(self, part: int, low: float, high: float) -> str:
        return self._bounded(part, low, high, lambda end: f"{end:.3g}")

    @property
    def summary(self) -> str:
        return f"vector of {self.size}, {len(self.axes)} components kept"
