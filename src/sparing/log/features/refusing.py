"""Columns of text that would be categories, though they are numbers or dates: refused with what to do.

What they are is asked for, and not guessed: a thousand and a decimal comma, or a day and a month, look alike.
"""

import math
import re
from collections.abc import Callable, Sequence

from sparing.errors import LogError
from sparing.log.features import cells, dates
from sparing.log.labels import THOUSANDS, WHOLE_NUMBER, brief, cut, has_comma, number
from sparing.log.limits import LARGEST

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


def refuse_texts(column: str, words: Sequence[str], kind: str, orders: Sequence[str]) -> None:
    """Refuse a column of these different words, taken for this `kind`; `orders` are the kinds of time that it could be."""
    name = cut(column)
    if kind == "category":
        _refuse_missing(name, words, "numbers", cells.is_number)
        _refuse_signs(name, words)
    if kind not in ("bool", "number", "time") and len(orders) != 1:
        _refuse_dates(name, words, orders)


def _refuse_missing(name: str, words: Sequence[str], what: str, is_one: Callable[[str], bool]) -> None:
    """Refuse values among which words stand for missing ones, or numbers that are too large."""
    odd = [word for word in words if not is_one(word)]
    if not 0 < len(odd) < len(words) or not all(map(_stands_for_none, odd)):
        return
    large = "" if what == "dates" else f", at most {LARGEST:g} in size"
    raise LogError(
        f"{name} holds {brief(odd[0])} beside {what}; expected {what}{large}, and nothing in the cell where one is missing. Leave such cells "
        f"empty, or {CATEGORY}"
    )


def _stands_for_none(word: str) -> bool:
    """Whether a word stands for a missing number, or is one without end or beyond what is taken."""
    try:
        return word.strip().lower() in NO_NUMBERS or not math.isnan(number(word.strip()))
    except ValueError:
        return False


def _refuse_signs(name: str, words: Sequence[str]) -> None:
    """Refuse numbers with a decimal comma, or with signs."""
    commas = [word for word in words if "," in word]
    if commas and all(map(THOUSANDS.fullmatch, commas)) and all(map(_reads, words)):
        raise LogError(
            f"{name} holds {brief(commas[0])}: numbers with signs of thousands? Then take them out. With a decimal comma, read the text file "
            f"with decimal=','; if they are words, {CATEGORY}"
        )
    first = next(filter(has_comma, words), None)
    if first is not None and all(has_comma(word) or WHOLE_NUMBER.fullmatch(word) for word in words):
        raise LogError(
            f"{name} holds {brief(first)}: numbers with a decimal comma? Then read the text file with decimal=','; if they are words, "
            f"{CATEGORY}"
        )
    if words and all(map(_reads, words)):
        signed = next(word for word in words if not cells.is_number(word))
        raise LogError(
            f"{name} holds {brief(signed)}: numbers with signs of money, percent or thousands? Then take the signs out; if they are words, "
            f"{CATEGORY}"
        )


def _reads(word: str) -> bool:
    """Whether a word is a number, with signs or without."""
    return SIGNED.fullmatch(word.strip()) is not None or cells.is_number(word)


def _refuse_dates(name: str, words: Sequence[str], orders: Sequence[str]) -> None:
    """Refuse dates of which none tells whether the day is first, or some contradict others."""
    if all(map(dates.SHORT_YEAR.fullmatch, words)):
        raise LogError(
            f"{name} holds {brief(words[0])}: dates with two digits for the year? Write them as 2026-11-17 08:30; if they are words, {CATEGORY}"
        )
    if not all(dates.looks_like_one(word) or word.strip().lower() in NO_NUMBERS for word in words):
        return
    _refuse_missing(name, words, "dates", dates.looks_like_one)
    if not dates.looks_like_one(words[0]):
        return
    found = f"holds {brief(words[0])}, and no row tells whether the day or the month is first"
    if not orders:
        unfit = [dates.first_unfit(words, first) for first in (dates.DAY, dates.MONTH)]
        both = " and ".join(map(brief, dict.fromkeys(unfit)))
        found = f"holds {both}: the day is not first in all rows, nor is the month"
    raise LogError(
        f"{name} {found}. Write dates as 2026-11-17 08:30, or say what the column is: time-day-first, time-month-first or category "
        "(sparing.features, or a file of --features)"
    )
