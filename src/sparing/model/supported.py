"""The set 𝓛 of ε-supported actions: those whose parameters the log has taught well enough to trust."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparing.errors import SettingError
from sparing.log import Log
from sparing.model.assumptions import Assumptions, positive, vector
from sparing.model.ellipsoids import Ellipsoids
from sparing.model.statistics import Statistics, least_squares, ridge_regression

ELBOW_DROP = 2.0
"""An elbow is a fall of N_a to a half or less,"""

ELBOW_DEVIATIONS = 4.0
"""that is also this many deviations beyond chance."""


@dataclass(frozen=True, eq=False)
class SupportedSet:
    """Indices of the actions in 𝓛, (L,), their point estimates, (L, d), and how they were chosen."""

    actions: np.ndarray
    theta: np.ndarray
    how: str


Supported = Callable[[Log, Statistics, Assumptions], SupportedSet]
"""A way to choose 𝓛 from a log."""


def top(size: int) -> Supported:
    """The `size` actions with the most rows (Remark 3); refuses an action without rows."""

    def choose(log: Log, sums: Statistics, assumptions: Assumptions) -> SupportedSet:
        if not 0 <= size <= sums.n_actions:
            raise SettingError(f"top({size}); must be between 0 and the {sums.n_actions} actions there are")
        actions = np.argsort(-sums.counts, kind="stable")[:size]
        empty = actions[sums.counts[actions] == 0]
        if len(empty):
            logged = int((sums.counts > 0).sum())
            raise SettingError(
                f"top({size}) would trust action {log.action_names[empty[0]]!r}, which the log never tried; "
                f"only {logged} actions have rows. Use top({logged}) or fewer"
            )
        return _fitted(np.sort(actions), sums, assumptions, f"top({size})")

    return choose


def elbow() -> Supported:
    """The actions before the sorted counts fall fast; an error says so where they do not."""

    def choose(log: Log, sums: Statistics, assumptions: Assumptions) -> SupportedSet:
        size = find_elbow(sums.counts, sums.n_features)
        if size is None:
            raise SettingError(
                "elbow() found none: the actions' counts "
                f"({sums.counts.min()} to {sums.counts.max()}) fall nowhere to a half or less. "
                "Choose a number of actions with top(L), or certified_within(ε)"
            )
        return replace(top(size)(log, sums, assumptions), how=f"elbow() at {size}")

    return choose


def find_elbow(counts: np.ndarray, n_features: int) -> int | None:
    """Where the sorted counts fall most, as a ratio of N_a + d; None where no fall is large and sure."""
    ordered = np.sort(counts)[::-1].astype(float)
    high, low = ordered[:-1], ordered[1:]
    ratio = (high + n_features) / (low + n_features)
    sure = high - low > ELBOW_DEVIATIONS * np.sqrt(high + low)
    ratio[~(sure & (high >= ELBOW_DROP * low))] = 0
    return int(ratio.argmax()) + 1 if len(ratio) and ratio.max() > 0 else None


def better_half(counts: np.ndarray) -> int:
    """How many actions the better logged half of the logged ones are: at least one."""
    return max(1, int((counts > 0).sum()) // 2)


def certified_within(error: float) -> Supported:
    """Actions whose proved error ρ_a·sqrt(λ_max(V_a⁻¹)) is at most `error`: honest, not generous."""
    positive("certified_within", error)

    def choose(log: Log, sums: Statistics, assumptions: Assumptions) -> SupportedSet:
        actions = np.flatnonzero(Ellipsoids(sums, assumptions).errors <= error)
        theta = ridge_regression(sums, assumptions.ridge)[actions]
        return SupportedSet(actions, theta, f"certified_within({error:g})")

    return choose


def given(actions: Mapping[Any, Any] | Iterable[Any]) -> Supported:
    """The caller's actions: {action: theta}, or labels whose parameters are fitted to the log."""
    parameters = dict(actions) if isinstance(actions, Mapping) else dict.fromkeys(actions)

    def choose(log: Log, sums: Statistics, assumptions: Assumptions) -> SupportedSet:
        index = {name: i for i, name in enumerate(log.action_names)}
        unknown = [label for label in parameters if label not in index]
        if unknown:
            raise SettingError(f"given action {unknown[0]!r} is not one of the log's {log.n_actions} actions")
        numbers = np.array(sorted(index[label] for label in parameters), dtype=np.int64)
        fitted = _fitted(numbers, sums, assumptions, f"given({len(numbers)} actions)")
        for row, action in enumerate(numbers):
            name = log.action_names[action]
            theta = parameters[name]
            if theta is not None:
                fitted.theta[row] = vector(f"theta given for {name!r}", theta, sums.n_features)
            elif sums.counts[action] == 0:
                raise SettingError(f"given action {name!r} has no rows to fit; give its parameters")
        return fitted

    return choose


def _fitted(actions: np.ndarray, sums: Statistics, assumptions: Assumptions, how: str) -> SupportedSet:
    return SupportedSet(actions, least_squares(sums, assumptions.ridge)[actions], how)
