"""The learner's door: what comes in is a context, an action, a mask or a reward, or is refused with a reason."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparing.errors import DecisionError
from sparing.log.features.encoder import Encoder
from sparing.log.labels import brief
from sparing.log.limits import LARGEST

NUMBERS = "biufO"
"""NumPy's kinds of arrays that a context may come as; text is not read as numbers."""

EVERYONE = np.empty(0, dtype=np.bool_)
"""Stands for a mask that leaves nobody out."""


def as_context(x: Sequence[float] | np.ndarray, d: int, encoder: Encoder | None = None) -> np.ndarray:
    """An own copy of a context (d,), as compiled code takes it; an encoder adds kernel features that are not there."""
    try:
        given = np.asarray(x)
        context = given.astype(np.float64) if given.dtype.kind in NUMBERS else None
    except (TypeError, ValueError, OverflowError):
        context = None
    if context is None:
        raise DecisionError(
            f"context {brief(x)} is not a list of numbers; expected {d} of them{_or_named(encoder)}"
        )
    if encoder is not None and encoder.kernel is not None:
        context = encoder.completed(context)
    if context.shape != (d,):
        raise DecisionError(
            f"context of shape {context.shape}; expected {d} numbers, ({d},){_or_named(encoder)}"
        )
    return np.ascontiguousarray(context)


def _or_named(encoder: Encoder | None) -> str:
    """The columns by which a context can be given instead, if it can."""
    columns = () if encoder is None or encoder.is_raw else encoder.by_column
    return f", or a mapping of the columns {', '.join(columns)}" if columns else ""


def check_sizes(x: np.ndarray) -> None:
    """Refuse a context with a feature that is not finite, or too large."""
    if np.abs(x).max(initial=0.0) <= LARGEST:
        return
    large = np.flatnonzero(~(np.abs(x) <= LARGEST))
    if len(large):
        raise unfit(x, int(large[0]))


def unfit(x: np.ndarray, feature: int) -> DecisionError:
    """Why a context with this feature is refused."""
    return DecisionError(
        f"context feature {feature} is {x[feature]}; every feature must be finite, and at most "
        f"{LARGEST:g} in size. Fill it in, or scale the features"
    )


def as_index(action: Any, n_actions: int) -> int:
    """An action by its index."""
    number = isinstance(action, int | np.integer) and not isinstance(action, bool)
    if not number or not 0 <= action < n_actions:
        raise DecisionError(f"action {action!r}; must be an index from 0 to {n_actions - 1}")
    return int(action)


def as_mask(mask: np.ndarray | None, n_actions: int) -> np.ndarray:
    """Which actions may be played, (K,); nothing given means everyone."""
    if mask is None:
        return EVERYONE
    given = np.asarray(mask)
    if given.dtype != np.bool_ or given.shape != (n_actions,) or not given.any():
        raise DecisionError(
            f"allowed of shape {given.shape} and type {given.dtype}; must be {n_actions} booleans, one of them "
            "true at least"
        )
    return np.array(given)


def as_reward(reward: Any, reward_range: tuple[float, float] | None) -> float:
    """A reward as a number within its range."""
    try:
        value = math.nan if isinstance(reward, str | bytes) else float(reward)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not abs(value) <= LARGEST:
        raise DecisionError(
            f"reward {reward!r}; must be a finite number, at most {LARGEST:g} in size. Nothing was learnt"
        )
    if reward_range is not None and not reward_range[0] <= value <= reward_range[1]:
        raise DecisionError(f"reward {value} is outside reward_range={reward_range}; nothing was learnt")
    return value
