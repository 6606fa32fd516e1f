"""Checks of settings, one for each kind."""

import difflib
import math
from collections.abc import Iterable, Sequence
from typing import Any

from sparing.errors import SettingError


def integer(name: str, value: Any, *, least: int = 0, most: int | None = None, hint: str = "") -> int:
    _check_not_text(name, value)
    if (
        isinstance(value, bool)
        or not hasattr(value, "__index__")
        or value < least
        or (most is not None and value > most)
    ):
        limits = f"{least} or more" if most is None else f"from {least} to {most}"
        raise SettingError(f"{name}={value!r}; must be a whole number, {limits}{hint}")
    return int(value)


def number(name: str, value: Any, *, least: float = -math.inf, most: float = math.inf) -> float:
    _check_not_text(name, value)
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if math.isfinite(found) and least <= found <= most:
        return found
    bound = "" if least == -math.inf else f", {least:g} or more"
    bound = bound if most == math.inf else f", from {least:g} to {most:g}"
    raise SettingError(f"{name}={value}; must be a finite number{bound}")


def fraction(name: str, value: float, *, zero: bool = False, one: bool = False, hint: str = "") -> float:
    """Return a number from 0 to 1; `zero` and `one` allow the ends."""
    _check_not_text(name, value)
    if 0 < value < 1 or (zero and value == 0) or (one and value == 1):
        return float(value)
    raise SettingError(f"{name}={value}; must be in {'[' if zero else '('}0, 1{']' if one else ')'}{hint}")


def _check_not_text(name: str, value: Any) -> None:
    if isinstance(value, str):
        try:
            mend = f". Leave out the quotes: {name}={float(value):g}"
        except ValueError:
            mend = ""
        raise SettingError(f"{name}={value!r} is a text; must be a number{mend}")


def one_of(name: str, value: Any, known: Iterable[str], *, hint: str = "") -> str:
    listed = tuple(known)
    if value not in listed:
        raise SettingError(f"{name}={value!r}; must be one of {', '.join(listed)}{hint}")
    return str(value)


def check_known(name: str, known: Sequence[str], *, what: str = "setting") -> None:
    """Reject an unknown name of a setting, or of what else it is, and suggest the nearest known one."""
    if name not in known:
        alike = difflib.get_close_matches(name, known, 1)
        meant = f"did you mean {alike[0]}? K" if alike else "k"
        raise SettingError(f"unknown {what} {name!r}: {meant}nown are {', '.join(known)}")


def reward_range(value: Any, *, apart: bool = False) -> tuple[float, float] | None:
    """Return the least and the largest mean reward; None if there is no range. With `apart` they must differ."""
    if value is None:
        return None
    try:
        low, high = map(float, value)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low <= high) or (apart and low == high):
        raise SettingError(f"reward_range={value!r}; must be two finite numbers, the smaller first")
    return low, high


def check_reward_range(given: tuple[float, float], low: float, high: float) -> None:
    """Reject a range of mean rewards if all logged rewards, from low to high, lie outside of it."""
    if high < given[0] or low > given[1]:
        raise SettingError(
            f"reward_range=({given[0]:g}, {given[1]:g}), but all rewards of the log lie from {low:.4g} to {high:.4g}. Give the least and "
            "the largest mean reward, in the reward's own unit"
        )


def check_rewards_inside(known: tuple[float, float], low: float, high: float) -> None:
    """Reject a log with a reward outside the range of single rewards."""
    if low < known[0] or high > known[1]:
        raise SettingError(
            f"reward_range=({known[0]:g}, {known[1]:g}), but rewards of the log lie from {low:.4g} to {high:.4g}. Correct the log, "
            "give the least and the largest reward, or pass allow_outside=True"
        )
