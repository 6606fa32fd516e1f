"""Contexts of any shape as named numbers."""

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from sparing.errors import LogError
from sparing.log.limits import LARGEST
from sparing.log.parsing import brief
from sparing.log.parsing import number as number_in

CONSTANT = "constant"
"""The one feature, always 1, of a log without contexts: a linear model needs something to stand on."""


class Flattener:
    """Turns nested values into features of one level.

    A number keeps its dotted name (`user.age`); a text or a truth value becomes the feature
    `user.country=CH` with value 1; nothing (null) is left out. The parts of a list are numbered
    (`user.scores.0`), except that objects in a list share their parent's name. A context that is itself
    a list or one value has the names x_0, x_1, …. With `hidden`, keys that begin with an underscore
    are left out.
    """

    def __init__(self, *, ignore: Iterable[str] = (), hidden: bool = False) -> None:
        self.ignore = frozenset([ignore] if isinstance(ignore, str) else ignore)
        self.hidden = hidden
        self._kinds: dict[str, tuple[str, str]] = {}
        self._numbers: set[str] = set()
        self._length: tuple[int, str] | None = None

    def __call__(self, value: Any, where: str) -> dict[str, float]:
        """The features of one context."""
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
        if value is None or name in self.ignore:
            return
        if isinstance(value, dict | Mapping):
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
            own = {
                i: name
                for i, part in enumerate(value)
                if type(part) is not float and isinstance(part, Mapping)
            }
            numbered = f"{name}." if name else "x_"
            parts = ((own.get(i, f"{numbered}{i}"), part) for i, part in enumerate(value))
            self._put_all(features, parts, where)
        else:
            raise LogError(
                f"{where}: feature {brief(name)} is {brief(value)}; expected a number, a text or true/false"
            )

    def _put_all(self, features: dict[str, float], parts: Iterable[tuple[str, Any]], where: str) -> None:
        """Most values by far are floats seen before, spared the other checks."""
        numbers = self._numbers
        for name, part in parts:
            if type(part) is float and name in numbers and name not in features and abs(part) <= LARGEST:
                features[name] = part
            else:
                self._put(features, name, part, where)

    def _expect(self, kind: str, name: str, value: Any, where: str) -> None:
        known, first = self._kinds.setdefault(name, (kind, where))
        if known != kind:
            raise LogError(
                f"{where}: feature {brief(name)} is {brief(value)}, {kind}, but it is {known} at {first}. "
                f"Make it one or the other, or leave it out with ignore=[{brief(name)}]"
            )


def add_feature(features: dict[str, float], name: str, value: float) -> None:
    """Set a feature, or add to it where the context names it twice."""
    features[name] = features[name] + value if name in features else value


def finite(value: Any, where: str, what: str, name: str | None = None) -> float:
    """A number as a float; anything else, NaN, an infinity or one too large is refused with its place."""
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
    """A reward; a truth value counts as 1 or 0."""
    return float(value) if isinstance(value, bool | np.bool_) else finite(value, where, "the reward")


def parsed(text: str, where: str, what: str, name: str | None = None) -> float:
    """A number written in a text file."""
    try:
        number = number_in(text)
    except ValueError:
        number = math.nan
    if not abs(number) <= LARGEST:
        raise _not_finite(text, where, what, name)
    return number


def _not_finite(value: Any, where: str, what: str, name: str | None) -> LogError:
    full = what if name is None else f"{what} {brief(name)}"
    return LogError(
        f"{where}: {full} is {brief(value)}; expected a finite number, at most {LARGEST:g} in size. Mend it, or drop "
        "the event"
    )
