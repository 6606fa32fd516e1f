"""Known costs of playing each action, in units of the reward: their checks, and what they leave of a reward."""

import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from sparing.errors import InputError, SettingError, UnitWarning
from sparing.log.labels import label_text, normalize_label, shorten
from sparing.log.limits import LARGEST

CostsOption = Mapping[Any, float] | Sequence[float] | np.ndarray | None
"""Cost of each action by its label, or as one number per action in the order of the labels."""


def action_costs(
    given: Any,
    names: Sequence[Hashable],
    *,
    known: np.ndarray | None = None,
    needed: np.ndarray | None = None,
    error: type[InputError] = SettingError,
) -> np.ndarray:
    """Check the cost of each action, (K,).

    Parameters
    ----------
    given : mapping or sequence of K numbers
        Costs by label, or in the order of `names`.
    names : sequence of labels
        The K actions.
    known : array of shape (K,), optional
        Costs of the actions that `given` leaves out.
    needed : array of bool of shape (K,), optional
        Actions that must have a cost; by default all.
    error : type
        Class of the errors.
    """
    costs = np.full(len(names), math.nan) if known is None else known.astype(np.float64)
    if hasattr(given, "to_dict"):  # a pandas series
        given = given.to_dict()
    if isinstance(given, Mapping):
        index = {name: place for place, name in enumerate(names)}
        texts: dict[str, int] = {}
        for label, cost in given.items():
            place = index.get(label if type(label) is str else _label(label))
            if place is None and isinstance(label, str):  # as JSON and the prompt have it
                texts = texts or {label_text(name): i for i, name in enumerate(names)}
                place = texts.get(label)
            if place is None:
                listed = ", ".join(repr(name) for name in names[:5])
                raise error(
                    f"costs names the action {shorten(label)}, which is unknown; the {len(names)} actions begin with {listed}. Correct the "
                    "label, or add the action first: among actions=[...] where a log is read"
                )
            costs[place] = _cost(cost, label, error)
    else:
        costs = _listed(given, names, error)
    missing = np.isnan(costs) & (True if needed is None else needed)
    if missing.any():
        listed = ", ".join(repr(names[place]) for place in np.flatnonzero(missing)[:5])
        raise error(
            f"costs leaves out {int(missing.sum())} of {len(names)} actions: {listed}. Name each one, with 0 where it costs nothing"
        )
    return np.where(np.isnan(costs), 0.0, costs)


def _label(label: Any) -> Any:
    try:
        return normalize_label(label)
    except InputError:
        return None


def _cost(cost: Any, label: Any, error: type[InputError]) -> float:
    if type(cost) is float and abs(cost) <= LARGEST:
        return cost
    try:
        value = math.nan if isinstance(cost, str | bytes | bool | None) else float(cost)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not abs(value) <= LARGEST:
        raise error(
            f"the cost of action {shorten(label)} is {shorten(cost)}; must be a finite number in units of the reward"
        )
    return value


def _listed(given: Any, names: Sequence[Hashable], error: type[InputError]) -> np.ndarray:
    is_list = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str | bytes)
    if not is_list or len(given) != len(names):
        got = f"{len(given)} numbers" if is_list else shorten(given)
        raise error(
            f"costs is {got}; must be a mapping of each action to its cost, such as {{{names[0]!r}: 0.01, …}}, or "
            f"{len(names)} numbers in the order of the actions"
        )
    return np.array([_cost(cost, name, error) for cost, name in zip(given, names, strict=True)])


def check_cost_units(costs: np.ndarray, low: float, high: float) -> None:
    """Warn if some cost exceeds the span of the rewards, from low to high: the units may differ."""
    largest = float(np.abs(costs).max(initial=0.0))
    if low < high and largest > high - low:
        warnings.warn(
            f"a cost of {largest:.4g} is larger than the span of the log's rewards, {low:.4g} to {high:.4g}: no reward can repay it. "
            "Give costs in units of the reward: how much reward one is willing to give up for them",
            UnitWarning,
            stacklevel=3,
        )
