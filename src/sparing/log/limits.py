"""How large a log's parts may be; checked before memory is taken for them."""

from collections.abc import Sequence

import numpy as np

from sparing.errors import LogError

MAX_ACTIONS = 1_000_000
"""Actions a log may have: everything that is kept for each of them must fit in memory."""

LARGEST = 1e50
"""The largest size of a feature or a reward: sums of products of four of them stay finite."""

DEEPEST_JSON = 100
"""Levels of lists and objects within one another that JSON may have."""

DEEPEST_LABEL = 16
"""Levels of tuples within one another that a label may have."""

LONGEST_NUMBER = 100
"""Digits of a whole number; longer runs of digits are text."""


def check_action_count(count: int, what: str) -> None:
    """Refuse more actions than a log may have; `what` says where the number comes from."""
    if count > MAX_ACTIONS:
        shown = f"{count:,}" if count < 10**LONGEST_NUMBER else "far more"
        raise LogError(
            f"{what} makes {shown} actions; a log may have {MAX_ACTIONS:,}. If the labels are ids of users or "
            "events, choose another column or field; if many are rare, put those under one label"
        )


def first_too_large(values: np.ndarray) -> int:
    """The place, counted row by row, of the first number that is not finite or too large, or −1."""
    if not values.size or (values.max() <= LARGEST and values.min() >= -LARGEST):  # no copy; false for NaN
        return -1
    return int(np.flatnonzero(~(np.abs(values) <= LARGEST))[0])


def feature_error(value: float, row: int, column: int, names: Sequence[str] | None) -> LogError:
    """The error for a feature that `first_too_large` found."""
    name = names[column] if names is not None and column < len(names) else f"x_{column}"
    called = "" if name == f"x_{column}" else f" ({name[:80]})"
    return LogError(
        f"context feature {column}{called} at row {row} is {value}; every feature must be {_rule(value)}"
    )


def number_error(what: str, value: float, row: int) -> LogError:
    """The error for another number that it found, such as a reward."""
    return LogError(f"{what} {value} at row {row}; it must be {_rule(value)}")


def _rule(value: float) -> str:
    if np.isfinite(value):
        return f"at most {LARGEST:g} in size. Scale it, or drop the row"
    return "finite. Fill it in, or drop the row"
