"""Numbers, JSON and text as files may hold them, and nothing that only Python would read."""

import json
import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from sparing.log.limits import DEEPEST_JSON, LONGEST_NUMBER

WHOLE_NUMBER = re.compile(rf"0|-?[1-9][0-9]{{0,{LONGEST_NUMBER - 1}}}")
DIGITS = re.compile(rf"[0-9]{{1,{LONGEST_NUMBER}}}")
BRIEF = 80
"""Characters of a bad value that an error message repeats."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def number(text: str) -> float:
    """A number in plain digits; Python's `1_0` and digits of other scripts are refused with a ValueError."""
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return float(text)


def whole_numbers(texts: Iterable[str]) -> list[Hashable]:
    """Texts that are all whole numbers, as numbers; otherwise as they are."""
    listed = list(texts)
    return [int(text) for text in listed] if all(map(WHOLE_NUMBER.fullmatch, listed)) else list(listed)


def is_unicode(text: str) -> bool:
    """Whether a text can be written: half of a surrogate pair is no character."""
    return text.isascii() or _SURROGATE.search(text) is None


def load_json(text: str | bytes, *, constants: bool = False) -> Any:
    """Parse JSON; a ValueError says what is wrong with it, too deep nesting and broken text included.

    `constants`: whether NaN and Infinity, which Python writes though JSON has no such numbers, may stand.
    """
    try:
        value = json.loads(text, parse_constant=None if constants else _refuse)
    except RecursionError:
        raise ValueError(f"nested more than {DEEPEST_JSON} deep") from None
    if isinstance(text, bytes):
        text = text.decode()
    if text.count("[") + text.count("{") > DEEPEST_JSON and _too_deep(value):
        raise ValueError(f"nested more than {DEEPEST_JSON} deep")
    if "\\u" in text and not is_unicode(json.dumps(value, ensure_ascii=False)):
        raise ValueError("half of a surrogate pair, such as \\ud800, is no character")
    return value


def cut(text: str) -> str:
    """The beginning of a name, where it is too long for a message."""
    return text if len(text) <= BRIEF else f"{text[:BRIEF]}…"


def brief(value: object) -> str:
    """A value as an error message repeats it: its beginning only, where it is long."""
    if isinstance(value, int) and abs(value) >= 10**LONGEST_NUMBER:
        return f"a number of more than {LONGEST_NUMBER} digits"
    text = repr(value[:BRIEF] if isinstance(value, str | bytes) else value)
    return cut(text)


def first_repeated(names: Sequence[Hashable]) -> Hashable:
    """The first name that stands in the sequence twice, or None."""
    seen: set[Hashable] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


def _too_deep(value: Any) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST_JSON + 1):
        parts = (part.values() if isinstance(part, dict) else part for part in level)
        level = [child for part in parts for child in part if isinstance(child, dict | list)]
        if not level:
            return False
    return True
