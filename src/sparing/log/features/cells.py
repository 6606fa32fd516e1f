"""Cells of raw columns, whatever they came as: missing or not, numbers, words, truth values, moments in time.

PyArrow is imported where columns are read: a live decision does without.
"""

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.errors import LogError
from sparing.log import labels
from sparing.log.features.dates import as_moment
from sparing.log.limits import LARGEST

if TYPE_CHECKING:
    import pyarrow as pa

TRUTHS = {
    "true": True,
    "false": False,
    "yes": True,
    "no": False,
    "t": True,
    "f": False,
    "y": True,
    "n": False,
}
"""Words for truth values, in small letters."""

MICROSECOND = 1e-6
EPOCH = datetime(1970, 1, 1)
"""Without a zone, as the moments that it is taken from."""

YEARS = -62_135_596_800.0, 253_402_300_800.0
"""Seconds since 1970 of the years 1 to 9999, which dates can have."""


def is_missing(value: Any) -> bool:
    """None, NaN, pandas' NA and NaT, and text with nothing in it."""
    if value.__class__ is str:
        return not value
    if value is None:
        return True
    try:
        return bool(value == "" or value != value)
    except TypeError:  # pandas' NA does not say whether it is itself
        return labels.missing(value)
    except ValueError:  # nor does an array, which is something
        return False


def as_number(value: Any) -> float:
    """A finite number, or one written as text; a ValueError otherwise."""
    if isinstance(value, str):
        found = labels.number(value.strip())
    else:
        found = float(value) if isinstance(value, Real | np.bool_) else math.nan
    if not abs(found) <= LARGEST:
        raise ValueError(value)
    return found


def is_number(text: str) -> bool:
    """Whether a text is a number as `as_number` has them."""
    try:
        as_number(text)
    except (ValueError, OverflowError):
        return False
    return True


def one_by_one(values: Sequence[Any], name: str, first_row: int, width: int, *, feature: bool) -> np.ndarray:
    """The cells of a column of numbers as floats, (n,), NaN where one is missing; `width` of them stand in one row of the table.

    What is no `feature` may be a truth value, in words or not, as in tables that have types.
    """
    numbers = np.empty(len(values))
    for position, value in enumerate(values):
        try:
            numbers[position] = math.nan if value is None else _number(value, truths=not feature)
        except (TypeError, ValueError, OverflowError):
            mend = "Write a number without signs of thousands, percent or money, or drop the row"
            if feature:
                mend = "If it is a feature, read the table with features='auto', or choose the columns with contexts=[...]"
            row, hint = first_row + position // width, labels.comma_hint(value)
            raise LogError(
                f"{labels.cut(name)} at row {row} is {labels.brief(value)}, not a number{hint}. {mend}"
            ) from None
    return numbers


def _number(value: Any, *, truths: bool) -> float:
    """A cell as a float; with `truths`, words for truth values are 1 and 0."""
    if isinstance(value, bytes):
        raise TypeError(value)
    if truths and isinstance(value, str) and value.lower() in TRUTHS:
        return float(TRUTHS[value.lower()])
    return labels.number(value) if isinstance(value, str) else float(value)


def as_word(value: Any) -> str:
    """A category as text: 5 and 5.0 are "5", true is "true"; a ValueError for what is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    raise ValueError(value)


def as_truth(value: Any) -> float:
    """1 or 0 for a truth value, the numbers 1 and 0, or one of `TRUTHS`; a ValueError otherwise."""
    if isinstance(value, str):
        word = value.strip().lower()
        return float(TRUTHS[word]) if word in TRUTHS else as_truth(as_number(word))
    if isinstance(value, Real | np.bool_) and value in (0, 1):
        return float(value)
    raise ValueError(value)


def as_seconds(value: Any, first: str | None = None) -> float:
    """Seconds since 1970 in UTC of a date, a moment (without a zone: UTC), a text of one, or seconds themselves.

    `first` says whether the day or the month is first in a text that does not tell.
    """
    if isinstance(value, str):
        try:
            value = as_moment(value, first)
        except ValueError:
            return _since_1970(value)
    if value.__class__ is datetime and value.tzinfo is None:
        return (value - EPOCH).total_seconds()  # what timestamp() does, without a copy that has a zone
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp()
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[us]").astype(np.int64)) * MICROSECOND
    return _since_1970(value)


def _since_1970(value: Any) -> float:
    """Seconds as a number, of a year that has four digits: milliseconds are beyond, and refused with a ValueError."""
    seconds = as_number(value)
    if not YEARS[0] <= seconds < YEARS[1]:
        raise ValueError(value)
    return seconds


def coded(column: "pa.Array") -> tuple[list[Any], np.ndarray]:
    """Different cells, and which of them each row has, (n,); −1 where it is missing. Not every one needs to occur."""
    import pyarrow as pa

    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    if len(set(map(repr, distinct))) < len(distinct):
        encoded = column.dictionary_decode().dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
    places = encoded.indices.cast(pa.int64())
    codes = (places.fill_null(-1) if places.null_count else places).to_numpy(zero_copy_only=False)
    gaps = np.array([is_missing(value) for value in distinct] + [True])
    return distinct, np.where(gaps[codes], -1, codes) if gaps[:-1].any() else codes


def moments(column: "pa.Array") -> np.ndarray | None:
    """Seconds since 1970 in UTC of a column of dates or timestamps, (n,), NaN where missing; None for other columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        return None
    exact = column.cast(pa.timestamp("us", tz=getattr(column.type, "tz", None)), safe=False)
    seconds = exact.cast(pa.int64()).cast(pa.float64(), safe=False)
    return np.asarray(pc.multiply(seconds, MICROSECOND).fill_null(math.nan).to_numpy(zero_copy_only=False))


def vectors(column: "pa.Array", size: int) -> tuple[np.ndarray, np.ndarray]:
    """Lists of numbers as rows (n, size), and which of them there are, (n,); a missing one is all 0.

    A list of another length, or with a number missing, is a ValueError that holds its row.
    """
    import pyarrow.compute as pc

    from sparing.log import arrays

    there = column.is_valid().to_numpy(zero_copy_only=False)
    lengths = pc.list_value_length(column).fill_null(size).to_numpy(zero_copy_only=False)
    flat = column.drop_null().flatten()
    values = arrays.numbers(flat, "vector", first_row=0)
    rows = np.zeros((len(column), size))
    odd = np.flatnonzero(lengths != size)
    if len(odd):
        raise ValueError(int(odd[0]))
    rows[there] = values.reshape(-1, size)
    odd = np.flatnonzero(~(np.abs(rows) <= LARGEST).all(axis=1))
    if len(odd):
        raise ValueError(int(odd[0]))
    return rows, there
