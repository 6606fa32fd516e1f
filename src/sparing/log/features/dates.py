"""Dates and moments written as text: ISO 8601, and the forms that people and spreadsheets write."""

import re
from collections.abc import Iterable
from datetime import datetime

DAY, MONTH = "day", "month"
"""What stands first in a date with the year last, where its marks do not tell."""

CLOCK = r"(?:[ T](?P<hour>\d{1,2})(?P<rest>:\d\d(?::\d\d)?)(?: ?(?P<half>[AaPp])[Mm])?)?"
"""The time of the day, if there is one, on 24 hours or on twice 12."""

DAY_FIRST = re.compile(rf"(?P<day>\d{{1,2}})\.(?P<month>\d{{1,2}})\.(?P<year>\d{{4}}){CLOCK}", re.ASCII)
"""A date with points, which has its day first wherever it is written."""

YEAR_FIRST = re.compile(rf"(?P<year>\d{{4}})/(?P<month>\d{{1,2}})/(?P<day>\d{{1,2}}){CLOCK}", re.ASCII)
"""A date with slashes and its year first; then the month comes next."""

YEAR_LAST = re.compile(rf"(?P<one>\d{{1,2}})([/-])(?P<two>\d{{1,2}})\2(?P<year>\d{{4}}){CLOCK}", re.ASCII)
"""A date whose marks do not tell whether its day or its month is first."""

WEEKDAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?"

MONTH_NAMED = (
    re.compile(
        rf"{WEEKDAY}(?P<day>\d{{1,2}})([ -])(?P<named>[A-Za-z]{{3,9}})\2(?P<year>\d{{4}}){CLOCK}", re.ASCII
    ),
    re.compile(
        rf"{WEEKDAY}(?P<named>[A-Za-z]{{3,9}}) (?P<day>\d{{1,2}}),? (?P<year>\d{{4}}){CLOCK}", re.ASCII
    ),
)
"""A date with its month in words, before or after the day."""

MONTHS = {
    name[:length]: str(number)
    for number, name in enumerate(
        [
            "january",
            "february",
            "march",
            "april",
            "may",
            "june",
            "july",
            "august",
            "september",
            "october",
            "november",
            "december",
        ],
        1,
    )
    for length in (3, len(name))
}
"""The months by their English names and by the first three letters of these."""

ZONE = re.compile(r"(?<=\d) ?(?:UTC|GMT)$")
"""The words for UTC after a time of the day."""

SHORT_YEAR = re.compile(rf"\d{{1,2}}/\d{{1,2}}/\d{{2}}{CLOCK}", re.ASCII)
"""A date with two digits for the year, so that even the year could be first."""


def as_moment(text: str, first: str | None = None) -> datetime:
    """A text in ISO 8601, 17.11.2026 08:30, 2026/11/17 8:30 PM or 17 Nov 2026, also with UTC after it; a ValueError for others.

    With `first`, 17/11/2026 and 17-11-2026 too, which have the day or the month first.
    """
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:  # after this the slow ways
        plain = ZONE.sub("", text.strip())
        if plain != text.strip():
            return _in_utc(plain, first)
        return _written(plain, first)


def _in_utc(text: str, first: str | None) -> datetime:
    """A moment that was said to be in UTC, which a moment without a zone is; one with another zone is refused."""
    found = as_moment(text, first)
    if ":" not in text or found.tzinfo is not None:
        raise ValueError(text)
    return found


def is_time(text: str) -> bool:
    """Whether a text is a date or a moment by itself, and not just digits."""
    try:
        as_moment(text)
    except ValueError:
        return False
    return "-" in text or ":" in text or "." in text or "/" in text or " " in text.strip()


def is_written(text: str, first: str) -> bool:
    """Whether a text is a date that does not tell its order, and can be read in this one."""
    try:
        as_moment(text, first)
    except ValueError:
        return False
    return has_no_order(text)


def has_no_order(text: str) -> bool:
    """Whether a text looks like a date of which only others tell whether the day or the month is first."""
    return YEAR_LAST.fullmatch(ZONE.sub("", text.strip())) is not None


def looks_like_one(text: str) -> bool:
    """Whether a text is a date or moment, or would be one in some order."""
    return has_no_order(text) or is_time(text)


def first_unfit(texts: Iterable[str], first: str) -> str:
    """The first of some texts that cannot be read with this first; there must be one."""
    return next(text for text in texts if not is_time(text) and not is_written(text, first))


def _written(text: str, first: str | None) -> datetime:
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
