"""Raw columns that become several numbers each: moments in time, and vectors. And the list of all kinds."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sparing.errors import LogError
from sparing.log.features import cells, dates
from sparing.log.features.kinds import Bool, Category, Column, Hashed, Number, Raw
from sparing.log.labels import cut
from sparing.log.limits import LARGEST

if TYPE_CHECKING:
    import pyarrow as pa

DAY = 86_400.0
MINUTE = 60.0
HOURS = np.array([(math.sin(turn), math.cos(turn)) for turn in np.linspace(0, 2 * math.pi, 1441)[:-1]])
"""Where each minute of a day stands on its circle, (1440, 2): a table, so that a row and a column agree in every bit."""

DAYS = np.array([(math.sin(turn), math.cos(turn)) for turn in np.linspace(0, 2 * math.pi, 8)[:-1]])
"""Where each day of a week stands on its circle, from Monday, (7, 2)."""

HOURS_LIST, DAYS_LIST = HOURS.tolist(), DAYS.tolist()


@dataclass(frozen=True)
class Time(Column):
    """Where the hour and the day stand on their circles, in UTC, and how far time has come, standardised.

    Beyond the log's own range the trend stays where the log began or ended: nothing is known of it there.
    """

    kind = "time"
    wants = "a date or moment such as 2026-03-01T10:00 (ISO 8601) or 01.03.2026 10:00, or seconds (not milliseconds) since 1970"
    order: ClassVar[str | None] = None
    first: float = 0.0
    last: float = 0.0
    mean: float = 0.0
    scale: float = 1.0

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of its coordinates."""
        circles = ("hour sin", "hour cos", "day sin", "day cos", "trend")
        return tuple(f"{self.column} {circle}" for circle in circles)

    def fill(self, column: "pa.Array", out: np.ndarray, *, first_row: int) -> None:
        """Write the coordinates of cells."""
        seconds = self.seconds(column, first_row=first_row)
        there = ~np.isnan(seconds)
        moment = np.where(there, seconds, self.mean)
        minute, day = (moment % DAY // MINUTE).astype(np.int64), ((moment // DAY + 3) % 7).astype(np.int64)
        trend = (np.clip(moment, self.first, self.last) - self.mean) / self.scale
        out[:, :5] = np.where(there[:, None], np.column_stack((HOURS[minute], DAYS[day], trend)), 0.0)
        self._fill_gap(there, out)

    def seconds(self, column: "pa.Array", *, first_row: int) -> np.ndarray:
        """Seconds since 1970 in UTC, (n,), NaN where the cell is missing."""
        moments = cells.moments(column)
        return self._mapped(column, self.second, first_row=first_row) if moments is None else moments

    def second(self, value: Any) -> float:
        """Seconds since 1970 in UTC of a cell; a ValueError where it is no moment."""
        return cells.as_seconds(value, self.order)

    def write(self, value: Any, place: int, out: "memoryview[float]") -> None:
        """Write the coordinates of a moment."""
        moment = cells.as_seconds(value, self.order)
        out[place], out[place + 1] = HOURS_LIST[int(moment % DAY // MINUTE)]
        out[place + 2], out[place + 3] = DAYS_LIST[int((moment // DAY + 3) % 7)]
        within = self.first if moment < self.first else moment
        out[place + 4] = ((self.last if self.last < within else within) - self.mean) / self.scale

    def _unfit_row(self, value: Any, row: int) -> LogError:
        told = super()._unfit_row(value, row)
        if self.order is None and isinstance(value, str) and dates.has_no_order(value):
            return LogError(f"{told}. Of such dates the kinds {' and '.join(tuple(TIMES)[1:])} say the order")
        return told

    def words(self, part: int, low: float, high: float) -> str:
        """A range of a coordinate in words."""
        if part == 5:
            return self._either(5, low, "", "")
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
class DayFirst(Time):
    """A time in whose texts 03/04/2026 is the third of April."""

    kind = "time-day-first"
    wants = "a date or moment with the day first such as 17/03/2026 10:00, one in ISO 8601, or seconds (not milliseconds) since 1970"
    order = dates.DAY

    def described(self) -> str:
        """What the column was taken for."""
        return f"time, {self.order} first" + (", some missing" if self.gap else "")


@dataclass(frozen=True)
class MonthFirst(DayFirst):
    """A time in whose texts 03/04/2026 is the fourth of March."""

    kind = "time-month-first"
    wants = "a date or moment with the month first such as 03/17/2026 10:00, one in ISO 8601, or seconds (not milliseconds) since 1970"
    order = dates.MONTH


TIMES: dict[str, type[Time]] = {kind.kind: kind for kind in (Time, DayFirst, MonthFirst)}
"""The kinds that are moments by name; those after the first say the order of dates that do not tell it."""


@dataclass(frozen=True)
class Vector(Column):
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
        """What a cell must be."""
        return f"a list of {self.size} finite numbers"

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of its coordinates."""
        return tuple(f"{self.column}[{i}]" for i in range(len(self.axes)))

    @cached_property
    def _axes(self) -> tuple[np.ndarray, np.ndarray]:
        axes = np.array(self.axes)
        return axes.T, axes @ np.array(self.mean)

    def fill(self, column: "pa.Array", out: np.ndarray, *, first_row: int) -> None:
        """Write the coordinates of cells."""
        from sparing.log import arrays

        if column.null_count == len(column):
            self._fill_gap(np.zeros(len(column), dtype=bool), out)
            return
        if not arrays.is_list(column.type):
            raise LogError(f"{cut(self.column)} is a column of {column.type}; expected {self.expected} a row")
        try:
            rows, there = cells.vectors(column, self.size)
        except ValueError as error:
            row = int(error.args[0]) if error.args and isinstance(error.args[0], int) else 0
            raise self._unfit_row(column[row].as_py(), first_row + row) from None
        axes, offset = self._axes
        out[:, : len(self.axes)] = np.where(there[:, None], rows @ axes - offset, 0.0)
        self._fill_gap(there, out)

    @staticmethod
    def is_missing(value: Any) -> bool:
        """None, or the NaN that pandas puts in its place."""
        return value is None or (isinstance(value, float) and value != value)

    def write(self, value: Any, place: int, out: "memoryview[float]") -> None:
        """Write the components of a list of numbers."""
        given = np.asarray(value, dtype=np.float64)
        if given.shape != (self.size,) or not (np.abs(given) <= LARGEST).all():
            raise ValueError(value)
        axes, offset = self._axes
        out[place : place + len(self.axes)] = memoryview(given @ axes - offset)

    def words(self, part: int, low: float, high: float) -> str:
        """A range of a coordinate in words."""
        if part == len(self.axes):
            return self._either(part, low, "", "")
        return self._bounded(part, low, high, lambda end: f"{end:.3g}")

    def described(self) -> str:
        """What the column was taken for."""
        return f"vector of {self.size}, {len(self.axes)} components kept" + (
            ", some missing" if self.gap else ""
        )


KINDS: dict[str, type[Column]] = {
    **{kind.kind: kind for kind in (Number, Raw, Category, Hashed, Bool)},
    **TIMES,
    Vector.kind: Vector,
}
"""The kinds of columns by name."""
