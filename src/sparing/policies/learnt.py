"""Policies that the offline learners make: softmax-linear, pessimistic, and by table."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparing.errors import DecisionError, LogError, SettingError
from sparing.log import Log
from sparing.log.log import context_keys
from sparing.log.support import check_distribution
from sparing.policies.policy import (
    Policy,
    SupportModel,
    best_actions,
    checked_contexts,
    checked_parameters,
    needed,
    one_hot,
    sample,
    softmax,
)
from sparing.policies.supports import LARGEST, ContextIndex, checked_keys


@dataclass(frozen=True, eq=False)
class SoftmaxPolicy:
    """π(a|x) ∝ exp(x·θ_a/temperature) over the supported actions, 0 elsewhere; theta (K, d)."""

    action_names: tuple[Hashable, ...]
    theta: np.ndarray
    temperature: float = 1.0
    support: SupportModel | None = None
    method: str = "softmax"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checked_parameters(self.theta, self.action_names)
        if not (np.isfinite(self.temperature) and self.temperature > 0):
            raise SettingError(f"temperature={self.temperature}; must be a finite number above 0")
        if np.abs(self.theta).max(initial=0) > LARGEST * min(self.temperature, 1):
            raise SettingError(
                f"temperature={self.temperature} for such a theta; their ratio is beyond {LARGEST:g}"
            )

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """π(a|x), (n, K)."""
        x = checked_contexts(contexts, self.theta.shape[1])
        mask = None if self.support is None else self.support(x)
        return softmax(x @ self.theta.T / self.temperature, mask)

    def actions(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Draw an action for each context, (n,)."""
        return sample(self.probabilities(contexts), needed(rng))


@dataclass(frozen=True, eq=False)
class PessimisticPolicy:
    """argmax_a x·θ̂_a − ρ_a·sqrt(xᵀV_a⁻¹x): the best of the lower limits.

    theta (K, d), inverse (K, d, d) V_a⁻¹, radius (K,) ρ_a; ties to the smallest priority number.
    """

    action_names: tuple[Hashable, ...]
    theta: np.ndarray
    inverse: np.ndarray
    radius: np.ndarray
    priority: np.ndarray
    support: SupportModel | None = None
    method: str = "pessimistic"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checked_parameters(self.theta, self.action_names)
        k, d = self.theta.shape
        shapes = (self.inverse.shape, self.radius.shape, self.priority.shape)
        if shapes != ((k, d, d), (k,), (k,)):
            raise SettingError(
                f"inverse, radius and priority of shapes {shapes}; expected {((k, d, d), (k,), (k,))}"
            )
        if not (np.isfinite(self.inverse).all() and np.isfinite(self.radius).all()):
            raise SettingError("inverse or radius is not finite; expected V_a⁻¹ and ρ_a of a regression")

    def low(self, contexts: np.ndarray) -> np.ndarray:
        """L_a(x) = x·θ̂_a − ρ_a·width_a(x), (n, K)."""
        x = checked_contexts(contexts, self.theta.shape[1])
        low = np.einsum("nd,kd->nk", x, self.theta)
        for action, inverse in enumerate(self.inverse):
            squares = np.einsum("nd,nd->n", x @ inverse, x)
            low[:, action] -= self.radius[action] * np.sqrt(np.maximum(squares, 0))
        return low

    def actions(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """The action with the best lower limit, (n,)."""
        mask = None if self.support is None else self.support(contexts)
        return best_actions(self.low(contexts), self.priority, mask)

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """All mass on the action with the best lower limit, (n, K)."""
        return one_hot(self.actions(contexts), len(self.action_names))


@dataclass(frozen=True, eq=False)
class TablePolicy:
    """Distributions by exact context; contexts (m, d) are distinct, table (m, K) their distributions.

    Any other context is left to `otherwise`, and is an error where that is None.
    """

    action_names: tuple[Hashable, ...]
    contexts: np.ndarray
    table: np.ndarray
    otherwise: Policy | None = None
    method: str = "table"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.contexts.ndim != 2 or self.table.shape != (len(self.contexts), len(self.action_names)):
            raise SettingError(
                f"table of shape {self.table.shape} for contexts of shape {self.contexts.shape} and "
                f"{len(self.action_names)} actions; expected (m, K) for (m, d)"
            )
        checked_keys(self.contexts)
        check_distribution(self.table)

    @cached_property
    def index(self) -> ContextIndex:
        """Where each known context stands."""
        return ContextIndex(self.contexts)

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """π(a|x), (n, K): from the table where the context is in it."""
        x = checked_contexts(contexts, self.contexts.shape[1])
        place = self.index.find(x)
        known = place >= 0
        table = np.empty((len(x), len(self.action_names)))
        table[known] = self.table[place[known]]
        if not known.all():
            if self.otherwise is None:
                raise DecisionError(
                    f"the context at row {np.flatnonzero(~known)[0]} is not in the policy's table, and it has "
                    "no policy for other contexts. Build the table with otherwise=..."
                )
            table[~known] = self.otherwise.probabilities(x[~known])
        return table

    def actions(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Draw an action for each context, (n,)."""
        return sample(self.probabilities(contexts), needed(rng))


def policy_from_table(log: Log, table: Mapping[Any, Any], *, otherwise: Policy | None = None) -> TablePolicy:
    """A policy of your own: for each context id of the log, a distribution over actions.

    A distribution is K probabilities in the order of the log's actions, or a mapping from labels to
    probabilities. Ids that the table leaves out, and new contexts, are left to `otherwise`.
    """
    if log.context_ids is None:
        raise LogError("the log has no context ids to find the table's rows by; give it context_ids=...")
    ids = log.context_ids.tolist()
    wanted = {str(key) if log.context_ids.dtype.kind == "U" else key: row for key, row in table.items()}
    missing = wanted.keys() - set(ids)
    if missing or not wanted:
        named = (
            f"names contexts that the log has not, such as {next(iter(missing))!r}" if missing else "is empty"
        )
        raise SettingError(f"the table {named}; its keys must be context ids of the log")
    slots = {key: slot for slot, key in enumerate(wanted)}
    distributions = np.array([_distribution(row, log) for row in wanted.values()])
    slot = np.array([slots.get(key, -1) for key in ids])
    listed = np.flatnonzero(slot >= 0)
    rows = listed[np.unique(context_keys(log.contexts[listed]), return_index=True)[1]]
    policy = TablePolicy(log.action_names, log.contexts[rows], distributions[slot[rows]], otherwise)
    clash = (policy.probabilities(log.contexts[listed]) != distributions[slot[listed]]).any(axis=1)
    if clash.any():
        raise SettingError(
            f"context {ids[listed[clash.argmax()]]!r} has the features of another id but not its "
            "distribution; a policy sees the features only. Give both ids one distribution"
        )
    return policy


def _distribution(row: Any, log: Log) -> np.ndarray:
    if isinstance(row, Mapping):
        unknown = [label for label in row if label not in log.action_names]
        if unknown:
            raise SettingError(
                f"unknown action {unknown[0]!r} in the table; the log has {log.action_names!r}"
            )
        row = [row.get(name, 0.0) for name in log.action_names]
    values = np.asarray(row, dtype=np.float64)
    if values.shape != (log.n_actions,):
        raise SettingError(f"a distribution of shape {values.shape}; expected {log.n_actions} probabilities")
    return values
