"""Lines and JSON records of files, contexts of any shape as named numbers, and labels of actions."""

import math
import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from sparing.errors import LogError
from sparing.log import labels
from sparing.log.labels import RepeatedKeyError, load_json, shorten, whole_numbers
from sparing.log.limits import DEEPEST_LABEL, LARGEST
from sparing.log.text_files import existing, is_path, open_text, readable_errors

LONGEST_LINE = 2**26
"""Bytes of a line, at most: one event must fit in memory many times over."""

EXACT = 2.0**53
"""Floats represent whole numbers exactly up to here."""

COUNTED = 10_000
"""Up to this number, every number below the largest one is an action, even if most do not occur in the file."""

SPARSE = 10
"""Above it, only if at least one in so many occurs."""

LISTED = "A file that is one list is turned by: jq -c '.[]' OLD > NEW"

Named = tuple[tuple[Hashable, ...], Mapping[Hashable, int]]
Naming = Callable[[set[Hashable], Sequence[Hashable] | None], Named]
"""From the labels that occur and those that the caller gives: action names, and the index of each label."""


def text_lines(path: str | os.PathLike[str]) -> Iterator[tuple[str, str]]:
    """Yield each line of a UTF-8 file, gzipped or not, with its place: ("log.vw, line 3", "1:0:0.5 | a")."""
    target = existing(path)
    with readable_errors(target), open_text(target) as file:
        for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), 1):
            where = f"{target.name}, line {number}"
            if len(raw) > LONGEST_LINE:
                raise LogError(f"{where} has more than {LONGEST_LINE:,} bytes; expected an event a line")
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise LogError(
                    f"{where}: byte {error.start} is not UTF-8; the file is damaged, compressed or of another "
                    "encoding. Unpack it, or convert it to UTF-8"
                ) from None
            line = line.rstrip("\r\n")
            if "\r" in line:
                raise LogError(
                    f"{where}: a carriage return within the line {shorten(line)}; lines end in a line feed, or in both. "
                    "Convert the file's line ends"
                )
            yield where, line


class JsonRecords:
    """JSON values, one on each line of a file, or the items of a sequence; each iteration starts again.

    With `skipped`, lines that do not begin with a brace are skipped and counted in it, as Vowpal Wabbit does.
    """

    def __init__(self, source: Any, expected: str, *, skipped: Counter[str] | None = None) -> None:
        self.source, self.expected, self.skipped = source, expected, skipped
        self.name = Path(source).name if is_path(source) else f"the {type(source).__name__}"
        if is_path(source) or isinstance(source, Sequence):
            return
        if not isinstance(source, Iterable):
            raise LogError(f"cannot read {type(source).__name__}; expected a path, or a list of {expected}")
        self.source = list(source)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        if not is_path(self.source):
            for row, item in enumerate(self.source):
                yield f"row {row}", item
            return
        for where, line in text_lines(self.source):
            if self.skipped is not None and line.strip() and not line.lstrip().startswith("{"):
                self.skipped["lines that are not JSON objects"] += 1
            elif line.strip():
                yield where, self._parsed(line, where)

    def _parsed(self, line: str, where: str) -> Any:
        try:
            return load_json(line)
        except RepeatedKeyError as error:
            raise LogError(f"{where}: {error}. The line is {shorten(line)}") from None
        except ValueError as error:
            mend = LISTED if line.strip() == "[" else "A last line that was cut off can be deleted"
            raise LogError(
                f"{where} is not whole JSON ({error}): {shorten(line)}; expected {self.expected}. {mend}"
            ) from None


class Flattener:
    """Turns nested values into features of one level.

    A number keeps its dotted name (`user.age`). A text or a truth value becomes the feature `user.country=CH` with
    value 1, and null the feature `user.age is missing`, for it is not 0. The items of a list are numbered
    (`user.scores.0`), except that objects in a list share their parent's name. A context that is itself a list or one
    value has the names x_0, x_1, …. With `hidden`, keys that begin with an underscore are left out.
    """

    def __init__(self, *, ignore: Iterable[str] = (), hidden: bool = False) -> None:
        self.ignore = frozenset([ignore] if isinstance(ignore, str) else ignore)
        self.hidden = hidden
        self._kinds: dict[str, tuple[str, str]] = {}
        self._numbers: set[str] = set()
        self._length: tuple[int, str] | None = None

    def __call__(self, value: Any, where: str) -> dict[str, float]:
        features: dict[str, float] = {}
        if not isinstance(value, Mapping | Sequence | np.ndarray) or isinstance(value, str):
            value = [] if value is None else [value]
        if not isinstance(value, Mapping):
            self._check_length(len(value), where)
        try:
            self._put(features, "", value, where)
        except RecursionError:
            raise LogError(f"{where}: the context is nested too deeply") from None
        return features

    def _check_length(self, length: int, where: str) -> None:
        known, first = self._length = self._length or (length, where)
        if length != known:
            raise LogError(
                f"{where}: a context of {length} values, but of {known} at {first}. Give each the same values in "
                "the same order, or name them"
            )

    def _put(self, features: dict[str, float], name: str, value: Any, where: str) -> None:
        if name in self.ignore:
            return
        if value is None:
            add_feature(features, f"{name} is missing", 1.0)
        elif isinstance(value, dict | Mapping):
            shown = (item for item in value.items() if not (self.hidden and str(item[0]).startswith("_")))
            parts = ((f"{name}.{key}" if name else str(key), part) for key, part in shown)
            self._put_all(features, parts, where)
        elif isinstance(value, str | bool | np.bool_):
            self._expect("a category", name, value, where)
            text = value if isinstance(value, str) else str(bool(value)).lower()
            add_feature(features, f"{name}={text}", 1.0)
        elif isinstance(value, Real):
            self._expect("a number", name, value, where)
            self._numbers.add(name)
            add_feature(features, name, finite(value, where, "feature", name))
        elif isinstance(value, Sequence | np.ndarray):
            own = f"{name}." if name else "x_"
            parts = (
                (name if type(part) is not float and isinstance(part, Mapping) else f"{own}{i}", part)
                for i, part in enumerate(value)
            )
            self._put_all(features, parts, where)
        else:
            raise LogError(
                f"{where}: feature {shorten(name)} is {shorten(value)}; expected a number, a text or true/false"
            )

    def _put_all(self, features: dict[str, float], parts: Iterable[tuple[str, Any]], where: str) -> None:
        numbers = self._numbers
        for name, part in parts:  # most are floats under names that were seen before: skip the other checks
            if type(part) is float and name in numbers and name not in features and abs(part) <= LARGEST:
                features[name] = part
            else:
                self._put(features, name, part, where)

    def _expect(self, kind: str, name: str, value: Any, where: str) -> None:
        known, first = self._kinds.setdefault(name, (kind, where))
        if known != kind:
            raise LogError(
                f"{where}: feature {shorten(name)} is {shorten(value)}, {kind}, but it is {known} at {first}. "
                f"Make it one or the other, or leave it out with ignore=[{shorten(name)}]"
            )


def add_feature(features: dict[str, float], name: str, value: float) -> None:
    features[name] = features[name] + value if name in features else value


def finite(value: Any, where: str, what: str, name: str | None = None) -> float:
    if type(value) is float and abs(value) <= LARGEST:
        return value
    if not isinstance(value, bool | np.bool_) and isinstance(value, Real):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if abs(number) <= LARGEST:
            return number
    raise _not_finite(value, where, what, name)


def reward_of(value: Any, where: str) -> float:
    return float(value) if isinstance(value, bool | np.bool_) else finite(value, where, "the reward")


def parse_number(text: str, where: str, what: str, name: str | None = None) -> float:
    try:
        number = labels.number(text)
    except ValueError:
        number = math.nan
    if not abs(number) <= LARGEST:
        raise _not_finite(text, where, what, name)
    return number


def _not_finite(value: Any, where: str, what: str, name: str | None) -> LogError:
    full = what if name is None else f"{what} {shorten(name)}"
    return LogError(
        f"{where}: {full} is {shorten(value)}; expected a finite number, at most {LARGEST:g} in size. Correct it, or drop "
        "the event"
    )


def by_label(seen: set[Hashable], given: Sequence[Hashable] | None) -> Named:
    """Labels are names as they are; sorted unless the caller gives an order."""
    names = labels.in_order(seen) if given is None else labels.action_names(given)
    return names, {name: i for i, name in enumerate(names)}


def by_text(seen: set[Hashable], given: Sequence[Hashable] | None) -> Named:
    """Labels are texts; if all of them are whole numbers, they mean those numbers."""
    names = labels.in_order(whole_numbers(map(str, seen))) if given is None else labels.action_names(given)
    return names, {text: i for text, i in labels.labels_by_text(names).items()}


def by_number(seen: set[Hashable], given: Sequence[Hashable] | None) -> Named:
    """Labels are the numbers 1..K, or ids if they are sparse; the caller's names stand for 1..K."""
    if given is not None:
        names = labels.action_names(given)
        return names, {i + 1: i for i in range(len(names))}
    names = numbered({label for label in seen if isinstance(label, int)}, first=1)
    return names, {name: i for i, name in enumerate(names)}


def numbered(seen: set[int], *, first: int) -> tuple[Hashable, ...]:
    """Names for numbers that count from `first`: all up to the largest, or, if most are missing, those seen."""
    top = max(seen)  # one large number among few is an id: it must not make as many actions
    if top - first < max(COUNTED, SPARSE * len(seen)):
        return labels.action_names(range(first, top + 1))
    return labels.in_order(seen)


def numbered_note(names: Sequence[Hashable], *, first: int) -> str:
    last = first + len(names) - 1
    if names[-1] == last:
        return f"Actions are named {first} to {last}, the largest number in the file."
    return (
        f"Action numbers reach {names[-1]}, but only {len(names)} occur: those are the actions. Name all of them "
        f"in order with actions=[...] if there are more."
    )


def from_json(value: Any, where: str, depth: int = 0) -> Hashable:
    """Return a label from JSON: a list becomes a tuple, an object (features of an action) its text."""
    if type(value) is str and value.isascii():
        return value
    if type(value) is int and abs(value) < labels.LARGEST_NUMBER:
        return value
    if isinstance(value, list | tuple):
        if depth == DEEPEST_LABEL:
            raise LogError(f"{where}: an action is nested more than {DEEPEST_LABEL} deep; expected a label")
        return tuple(from_json(part, where, depth + 1) for part in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={value[key]}" for key in sorted(value, key=str))
    try:
        return labels.normalize_label(value)
    except LogError as error:
        raise LogError(f"{where}: {error}") from None


def set_from_json(values: Any, where: str) -> list[Hashable]:
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise LogError(f"{where}: the available actions are {shorten(values)}; expected a list of labels")
    return [from_json(value, where) for value in values]
