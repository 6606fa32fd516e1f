"""Cells of raw columns: missing values, numbers, truth values, words, vectors, dates and times."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.errors import LogError
from sparing.log import labels
from sparing.log.limits import LARGEST

if TYPE_CHECKING:
    import pyarrow as pa

DAY, MONTH = "day", "month"
"""The first part of an ambiguous date such as 03/04/2026."""

CLOCK = r"(?:[ T](?P<hour>\d{1,2})(?P<rest>:\d\d(?::\d\d)?)(?: ?(?P<half>[AaPp])[Mm])?)?"
"""An optional time of day, with 24 or twice 12 hours."""

DAY_FIRST = re.compile(
    rf"(?P<day>\d{{1,2}})\.(?P<month>\d{{1,2}})\.(?P<year>\d{{4}}){CLOCK}", re.ASCII
)  # with points, the day is always first

YEAR_FIRST = re.compile(rf"(?P<year>\d{{4}})/(?P<month>\d{{1,2}})/(?P<day>\d{{1,2}}){CLOCK}", re.ASCII)

YEAR_LAST = re.compile(rf"(?P<one>\d{{1,2}})([/-])(?P<two>\d{{1,2}})\2(?P<year>\d{{4}}){CLOCK}", re.ASCII)
"""A date in which the day or the month may be first."""

WEEKDAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?"

MONTH_NAMED = (
    re.compile(
        rf"{WEEKDAY}(?P<day>\d{{1,2}})([ -])(?P<named>[A-Za-z]{{3,9}})\2(?P<year>\d{{4}}){CLOCK}", re.ASCII
    ),
    re.compile(
        rf"{WEEKDAY}(?P<named>[A-Za-z]{{3,9}}) (?P<day>\d{{1,2}}),? (?P<year>\d{{4}}){CLOCK}", re.ASCII
    ),
)

MONTH_NAMES = "january february march april may june july august september october november december"
MONTHS = {
    name[:length]: str(number)
    for number, name in enumerate(MONTH_NAMES.split(), 1)
    for length in (3, len(name))
}

ZONE = re.compile(r"(?<=\d) ?(?:UTC|GMT)$")

SHORT_YEAR = re.compile(rf"\d{{1,2}}/\d{{1,2}}/\d{{2}}{CLOCK}", re.ASCII)
"""A date with two digits for the year, so that the year may also be first."""


def parse_time(text: str, first: str | None = None) -> datetime:
    """Parse ISO 8601, 17.11.2026 08:30, 2026/11/17 8:30 PM or 17 Nov 2026, also followed by UTC; else raise ValueError.

    With `first`, also parse 17/11/2026 and 17-11-2026, with the day or the month first.
    """
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:  # the slow formats
        plain = ZONE.sub("", text.strip())
        if plain == text.strip():
            return _parse_date(plain, first)
    found = parse_time(plain, first)
    if ":" not in plain or found.tzinfo is not None:  # a date in UTC, or a time with a second zone
        raise ValueError(text)
    return found


def is_time(text: str) -> bool:
    """Whether a text is an unambiguous date or time, and not only digits."""
    try:
        parse_time(text)
    except ValueError:
        return False
    return "-" in text or ":" in text or "." in text or "/" in text or " " in text.strip()


COMPACT = re.compile(r"(?:19|20)\d{6}", re.ASCII)
CODE = re.compile(r"0\d+", re.ASCII)


def is_compact_date(text: str) -> bool:
    """Whether a text is a date such as 20260131, from 1900 to 2099."""
    return COMPACT.fullmatch(text) is not None and _fits(datetime.fromisoformat, text)


def _fits(parse: Callable[..., object], *arguments: Any) -> bool:
    """Whether a text can be parsed."""
    try:
        parse(*arguments)
    except (ValueError, OverflowError):
        return False
    return True


def is_code(text: str) -> bool:
    """Whether a text has digits only and begins with 0, such as a ZIP code: as a number it would lose that 0."""
    return CODE.fullmatch(text.strip()) is not None


def is_date(text: str, first: str) -> bool:
    """Whether a text is an ambiguous date that is valid in this order."""
    return is_ambiguous_date(text) and _fits(parse_time, text, first)


def is_ambiguous_date(text: str) -> bool:
    return YEAR_LAST.fullmatch(ZONE.sub("", text.strip())) is not None


def looks_like_date(text: str) -> bool:
    return is_ambiguous_date(text) or is_time(text)


def _parse_date(text: str, first: str | None) -> datetime:
    forms = (DAY_FIRST, YEAR_FIRST, *MONTH_NAMED)
    found = next(filter(None, (form.fullmatch(text) for form in forms)), None)
    if found is None and first is not None:
        found = YEAR_LAST.fullmatch(text)
    if found is None:
        raise ValueError(text)
    parts = found.groupdict()
    if "one" in parts:
        named = (DAY, MONTH) if first == DAY else (MONTH, DAY)
        parts |= dict(zip(named, (parts["one"], parts["two"]), strict=True))
    if "named" in parts:
        parts["month"] = MONTHS.get(parts["named"].lower(), parts["named"])
    return datetime.fromisoformat(f"{parts['year']}-{parts['month']:0>2}-{parts['day']:0>2}{_clock(**parts)}")


def _clock(*, hour: str | None, rest: str | None, half: str | None, **others: str | None) -> str:
    """The time of the day as ISO 8601 has it, after its T; nothing where there is none."""
    if hour is None:
        return ""
    if half is not None:
        if not 1 <= int(hour) <= 12:
            raise ValueError(f"{hour}{rest} {half}m")
        hour = str(int(hour) % 12 + (12 if half in "Pp" else 0))
    return f"T{hour:0>2}{rest}"


TRUTH_LANGUAGES = (
    ("true yes t y 1", "false no f n 0"),
    ("ja j wahr 1", "nein n falsch 0"),
    ("oui vrai 1", "non faux 0"),
    ("sí si verdadero 1", "no falso 0"),
    ("sì si vero 1", "no falso 0"),
    ("sim verdadeiro 1", "não nao falso 0"),
    ("tak prawda 1", "nie fałsz 0"),
    ("ja waar 1", "nee onwaar 0"),
    ("ja sand sandt sant 1", "nej nei falsk falskt usant 0"),
    ("kyllä tosi 1", "ei epätosi 0"),
)
"""Words for yes and for no, in small letters: English, German, French, Spanish, Italian, Portuguese, Polish, Dutch,
Danish with Norwegian and Swedish, Finnish. None of them is yes in one language and no in another."""

TRUTH_WORDS = {
    word: truth
    for language in TRUTH_LANGUAGES
    for words, truth in zip(language, (True, False), strict=True)
    for word in words.split()
    if not word.isdigit()
}
"""Words for truth values, in small letters."""


def are_truths(words: Iterable[str]) -> bool:
    """Whether words, or 0 and 1, are all truth values of one language."""
    folded = {word.strip().lower() for word in words}
    return any(folded <= set(" ".join(language).split()) for language in TRUTH_LANGUAGES)


POINT, COMMA = MARKS = (".", ",")
"""The decimal marks."""

SPACES = " \u00a0\u202f\u2009\u2007"
PERCENT = "%"
ALIKE = "€ EUR, $ USD, £ GBP, ¥ JPY, CHF Fr., zł PLN, kr SEK NOK DKK, Kč CZK, Ft HUF, lei RON"
CURRENCIES = {name: names.split()[0] for names in ALIKE.split(",") for name in names.split()}
"""Signs and codes of currencies, each with the sign that stands for both."""

UNITS = {PERCENT: PERCENT, **{name.lower(): sign for name, sign in CURRENCIES.items()}}


def _numeral(mark: str) -> re.Pattern[str]:
    """A number with this decimal mark, groups of thousands, and a unit before or after it."""
    unit = "|".join(re.escape(name) for name in sorted(UNITS, key=len, reverse=True))
    group = re.escape("".join({*MARKS} - {mark}) + "'’" + SPACES)
    return re.compile(
        rf"(?:(?P<first>{unit})[{SPACES}]?)?(?P<sign>[-+−]?)[{SPACES}]?(?:(?P<second>{unit})[{SPACES}]?)?"
        rf"(?P<whole>[1-9][0-9]{{0,2}}(?P<group>[{group}])[0-9]{{3}}(?:(?P=group)[0-9]{{3}})*|[0-9]*)"
        rf"(?:{re.escape(mark)}(?P<part>[0-9]+))?(?:e(?P<power>[-+]?[0-9]{{1,4}}))?(?:[{SPACES}]?(?P<third>{unit}))?",
        re.IGNORECASE | re.ASCII,
    )


NUMERALS = {mark: _numeral(mark) for mark in MARKS}


def read_number(text: str, mark: str) -> tuple[float, str]:
    """A number as text with this decimal mark, and its unit, empty if it has none; a ValueError for other texts.

    12 % is 0.12. Thousands may be grouped by the other mark, an apostrophe or a space.
    """
    text = text.strip()
    if mark == POINT or POINT not in text:
        try:
            return _finite(labels.number(text)), ""
        except ValueError:
            pass
    found = NUMERALS[mark].fullmatch(text)
    if found is None or not (found["whole"] or found["part"]):
        raise ValueError(text)
    units = [unit for unit in found.group("first", "second", "third") if unit]
    if len(units) > 1:
        raise ValueError(text)
    unit = UNITS[units[0].lower()] if units else ""
    whole = found["whole"].replace(found["group"] or " ", "")
    power = int(found["power"] or 0) - 2 * (unit == PERCENT)  # the nearest float, which division may miss
    sign = "-" if found["sign"] in ("-", "−") else ""
    return _finite(float(f"{sign}{whole or 0}.{found['part'] or 0}e{power}")), unit


def _finite(number: float) -> float:
    if not abs(number) <= LARGEST:
        raise ValueError(number)
    return number


@dataclass(frozen=True)
class Notation:
    """How a column writes its numbers as text: the decimal mark, and the unit of some or all of them."""

    decimal: str = POINT
    unit: str = ""

    def read(self, text: str) -> float:
        """Return the number that a text stands for, or raise ValueError.

        In a column of percent every number but 0 has the sign: without it, 12 may be 12 or 0.12.
        """
        found, unit = read_number(text, self.decimal)
        if unit != self.unit and (unit or (self.unit == PERCENT and found)):
            raise ValueError(text)
        return found

    @property
    def example(self) -> str:
        """A number in this notation."""
        number = "12.5" if self.decimal == POINT else "12,5"
        return f"{number} {self.unit}".strip()

    def described(self) -> str:
        parts = ["decimal comma"] if self.decimal == COMMA else []
        parts += ["in percent" if self.unit == PERCENT else f"in {self.unit}"] if self.unit else []
        return ", ".join(parts)


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


def as_number(value: Any, notation: Notation | None = None) -> float:
    """A finite number, or one written as text, in a notation or as computers write it; a ValueError otherwise."""
    if isinstance(value, str):
        return _finite(labels.number(value.strip())) if notation is None else notation.read(value)
    return _finite(float(value) if isinstance(value, Real | np.bool_) else math.nan)


def is_number(text: str) -> bool:
    """Whether a text is a number as computers write it."""
    try:
        as_number(text)
    except (ValueError, OverflowError):
        return False
    return True


def is_numeral(text: str) -> bool:
    """Whether a text is a number with either decimal mark."""
    return any(_fits(read_number, text, mark) for mark in MARKS)


def one_by_one(
    values: Sequence[Any],
    name: str,
    first_row: int,
    width: int,
    *,
    feature: bool,
    notation: Notation | None = None,
) -> np.ndarray:
    """The cells of a column of numbers as floats, (n,), NaN where one is missing; `width` of them stand in one row of the table.

    What is no `feature` may be a truth value, in words or not, as in tables that have types.
    """
    numbers = np.empty(len(values))
    known: dict[str, float] = {}
    for position, value in enumerate(values):
        try:
            if not isinstance(value, str):
                numbers[position] = math.nan if value is None else _number(value)
                continue
            if value not in known:
                known[value] = _text_number(value, notation, truths=not feature)
            numbers[position] = known[value]
        except (TypeError, ValueError, OverflowError):
            like, mend = "", "Write a number such as 12.5, or drop the row"
            if feature:
                mend = "If it is a feature, read the table with features='auto', or choose the columns with contexts=[...]"
            if isinstance(value, str) and is_numeral(value):
                like = f" as in the other rows, which are like {(notation or Notation()).example}"
            row = first_row + position // width
            raise LogError(
                f"{labels.truncate(name)} at row {row} is {labels.shorten(value)}, not a number{like}. {mend}"
            ) from None
    return numbers


def _number(value: Any) -> float:
    if isinstance(value, bytes):
        raise TypeError(value)
    return float(value)


def _text_number(text: str, notation: Notation | None, *, truths: bool) -> float:
    """A text as a float; with `truths`, words for truth values are 1 and 0."""
    if truths and text.strip().lower() in TRUTH_WORDS:
        return float(TRUTH_WORDS[text.strip().lower()])
    return labels.number(text) if notation is None else notation.read(text)


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


def as_bool(value: Any) -> float:
    """1 or 0 for a truth value, the numbers 1 and 0, or one of `TRUTHS`; a ValueError otherwise."""
    if isinstance(value, str):
        word = value.strip().lower()
        return float(TRUTH_WORDS[word]) if word in TRUTH_WORDS else as_bool(as_number(word))
    if isinstance(value, Real | np.bool_) and value in (0, 1):
        return float(value)
    raise ValueError(value)


def as_seconds(value: Any, first: str | None = None) -> float:
    """Seconds since 1970 in UTC of a date (also 20260131), a moment (without a zone: UTC), a text of one, or seconds themselves.

    `first` says whether the day or the month is first in a text that does not tell.
    """
    if isinstance(value, str):
        try:
            value = parse_time(value, first)
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
    if seconds.is_integer() and is_compact_date(f"{seconds:.0f}"):
        return as_seconds(f"{seconds:.0f}")
    if not YEARS[0] <= seconds < YEARS[1]:
        raise ValueError(value)
    return seconds


def factorize(column: "pa.Array") -> tuple[list[Any], np.ndarray]:
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


def in_order(distinct: list[Any], codes: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Different cells that occur, by their first rows, and which of them each row has, (n,): as `factorize` returns of plain cells.

    The dictionary of a file may have others too, in any order.
    """
    n_words, size = np.count_nonzero(np.bincount(codes + 1)), 1024
    found, first = np.unique(codes[:size], return_index=True)
    while len(found) < n_words:
        size *= 8
        found, first = np.unique(codes[:size], return_index=True)
    found = found[np.argsort(first)]
    found = found[found >= 0]
    places = np.full(len(distinct) + 1, -1)
    places[found] = np.arange(len(found))
    return [distinct[code] for code in found.tolist()], places[codes]


def to_seconds(column: "pa.Array") -> np.ndarray | None:
    """Seconds since 1970 in UTC of a column of dates or timestamps, (n,), NaN where missing; None for other columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        return None
    exact = column.cast(pa.timestamp("us", tz=getattr(column.type, "tz", None)), safe=False)
    seconds = exact.cast(pa.int64()).cast(pa.float64(), safe=False)
    return np.asarray(pc.multiply(seconds, MICROSECOND).fill_null(math.nan).to_numpy(zero_copy_only=False))


MISSING_WORDS = "na n/a nan null none inf +inf -inf infinity -infinity ? - ."
NO_NUMBERS = frozenset(MISSING_WORDS.split())
"""Lower-case words that mean a missing or infinite number."""

CATEGORY = "declare the column a category (sparing.features, or a file of --features)"


def text_problem(words: Sequence[str], kind: str, orders: Sequence[str]) -> str:
    """Say why distinct words do not fit the column's `kind`; empty if they do. `orders` are the kinds of time that they could be."""
    found = ""
    if kind == "category" and not any(map(is_code, words)):
        found = _missing_words(words, "numbers", is_numeral) or _contradiction(words)
    if not found and kind not in ("bool", "number", "time") and len(orders) != 1:
        found = _date_problem(words, orders)
    return found


def _missing_words(words: Sequence[str], what: str, is_one: Callable[[str], bool]) -> str:
    """Say that some values are words for missing ones, or numbers that are too large."""
    odd = [word for word in words if not is_one(word)]
    if not 0 < len(odd) < len(words) or not all(map(_means_missing, odd)):
        return ""
    large = "" if what == "dates" else f", at most {LARGEST:g} in size"
    return (
        f"holds {labels.shorten(odd[0])} among {what}; expected {what}{large}, and an empty cell for a missing value. Empty such cells, "
        f"or {CATEGORY}"
    )


def _means_missing(word: str) -> bool:
    try:
        return word.strip().lower() in NO_NUMBERS or not math.isnan(labels.number(word.strip()))
    except ValueError:
        return False


def _contradiction(words: Sequence[str]) -> str:
    """Say that words are numbers, but not all with the same decimal mark."""
    if not words or not all(map(is_numeral, words)):
        return ""
    fits = [(word, [mark for mark in MARKS if _fits(read_number, word, mark)]) for word in words]
    first = (next((word for word, marks in fits if marks == [mark]), None) for mark in MARKS)
    odd = " and ".join(labels.shorten(word) for word in first if word is not None)
    return f"holds {odd}: numbers with a decimal point and with a comma. Write them alike; if they are words, {CATEGORY}"


def _date_problem(words: Sequence[str], orders: Sequence[str]) -> str:
    """Say that the order of day and month is ambiguous or contradictory."""
    if all(map(SHORT_YEAR.fullmatch, words)):
        return f"holds {labels.shorten(words[0])}: dates with two digits for the year? Write them as 2026-11-17 08:30; if they are words, {CATEGORY}"
    if not all(looks_like_date(word) or word.strip().lower() in NO_NUMBERS for word in words):
        return ""
    missing = _missing_words(words, "dates", looks_like_date)
    if missing or not looks_like_date(words[0]):
        return missing
    found = f"holds {labels.shorten(words[0])}, and no row shows whether the day or the month is first. Pass dates='day-first' or dates='month-first'"
    if not orders:
        odd = [word for word in words if not is_time(word)]
        unfit = [next(word for word in odd if not is_date(word, first)) for first in (DAY, MONTH)]
        both = " and ".join(map(labels.shorten, dict.fromkeys(unfit)))
        found = f"holds {both}: the day is not first in all rows, nor is the month"
    return (
        f"{found}, write dates as 2026-11-17 08:30, or declare the column: time-day-first, time-month-first or category "
        "(sparing.features, or a file of --features)"
    )
