"""What a setting may be: one check and one wording for each kind, wherever it is set."""

import difflib
import math
from collections.abc import Iterable, Sequence
from typing import Any

from sparing.errors import SettingError


def whole(name: str, value: Any, *, least: int = 0, hint: str = "") -> int:
    """A whole number."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise SettingError(f"{name}={value!r}; must be a whole number, {least} or more{hint}")
    return int(value)


def number(name: str, value: Any, *, least: float = -math.inf, hint: str = "") -> float:
    """A finite number."""
    if not isinstance(value, str) and math.isfinite(value) and value >= least:
        return float(value)
    bound = "" if least == -math.inf else f", {least:g} or more"
    raise SettingError(f"{name}={value}; must be a finite number{bound}{hint}")


def share(name: str, value: float, *, zero: bool = False, one: bool = False, hint: str = "") -> float:
    """A number from 0 to 1, the ends left out unless they are allowed."""
    if 0 < value < 1 or (zero and value == 0) or (one and value == 1):
        return float(value)
    raise SettingError(f"{name}={value}; must be in {'[' if zero else '('}0, 1{']' if one else ')'}{hint}")


def among(name: str, value: Any, known: Iterable[str], *, hint: str = "") -> str:
    """One of some names."""
    listed = tuple(known)
    if value not in listed:
        raise SettingError(f"{name}={value!r}; must be one of {', '.join(listed)}{hint}")
    return str(value)


def known_name(name: str, known: Sequence[str]) -> None:
    """Refuse a setting that is none of those known, with the one that may have been meant."""
    if name not in known:
        alike = difflib.get_close_matches(name, known, 1)
        meant = f"did you mean {alike[0]}? K" if alike else "k"
        raise SettingError(f"unknown setting {name!r}: {meant}nown are {', '.join(known)}")


def reward_range(value: Any, *, apart: bool = False) -> tuple[float, float] | None:
    """The least and the largest reward there can be, if they are given; `apart`: they must differ."""
    if value is None:
        return None
    try:
        low, high = map(float, value)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low <= high) or (apart and low == high):
        raise SettingError(f"reward_range={value!r}; must be two finite numbers, the smaller first")
    return low, high


def meets_rewards(given: tuple[float, float], low: float, high: float) -> None:
    """Refuse a range of mean rewards that no reward seen, from low to high, comes near to."""
    if high < given[0] or low > given[1]:
        raise SettingError(
            f"reward_range=({given[0]:g}, {given[1]:g}), but all rewards of the log lie from {low:.4g} to {high:.4g}. Give the least and "
            "the largest mean reward, in the reward's own unit"
        )
