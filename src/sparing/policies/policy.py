"""Policies: what to do in a context, without learning any further."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sparing.errors import DecisionError, SettingError


class Policy(Protocol):
    """A distribution over actions for each context."""

    @property
    def action_names(self) -> tuple[Hashable, ...]:
        """The labels behind the action indices."""

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """π(a|x) for contexts (n, d), shape (n, K)."""

    def actions(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """One action index for each context, (n,); `rng` is needed only where the policy is random."""


class SupportModel(Protocol):
    """Says which actions a context supports."""

    def __call__(self, contexts: np.ndarray) -> np.ndarray:
        """Boolean (n, K) for contexts (n, d), with at least one action in each row."""


@dataclass(frozen=True, eq=False)
class GreedyPolicy:
    """argmax_a x·θ_a, ties to the action with the smallest priority number; theta (K, d).

    With `support` the argmax runs over each context's supported actions only.
    """

    action_names: tuple[Hashable, ...]
    theta: np.ndarray
    priority: np.ndarray
    support: SupportModel | None = None
    method: str = "greedy"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checked_parameters(self.theta, self.action_names)
        if np.shape(self.priority) != (len(self.action_names),):
            raise SettingError(
                f"priority of shape {np.shape(self.priority)} for {len(self.action_names)} actions; "
                "expected one number an action"
            )

    def actions(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """The best action by the estimates, (n,)."""
        x = checked_contexts(contexts, self.theta.shape[1])
        # Not a matrix product: BLAS rounds edge columns differently, so equal parameters would not tie.
        scores = np.einsum("nd,kd->nk", x, self.theta)
        return best_actions(scores, self.priority, None if self.support is None else self.support(x))

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """All mass on the best action, (n, K)."""
        return one_hot(self.actions(contexts), len(self.action_names))


@dataclass(frozen=True, eq=False)
class UniformPolicy:
    """Every action with probability 1/K, whatever the context."""

    action_names: tuple[Hashable, ...]
    method: str = "uniform"
    notes: tuple[str, ...] = ()

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """1/K everywhere, (n, K)."""
        k = len(self.action_names)
        return np.full((len(checked_contexts(contexts)), k), 1 / k)

    def actions(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Draw an action for each context, (n,)."""
        return sample(self.probabilities(contexts), needed(rng))


@dataclass(frozen=True, eq=False)
class ConstantPolicy:
    """Always one action, given by its label."""

    action_names: tuple[Hashable, ...]
    action: Hashable
    method: str = "constant"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.action not in self.action_names:
            raise SettingError(f"unknown action {self.action!r}; must be one of {self.action_names!r}")

    def actions(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """The one action, (n,)."""
        return np.full(len(checked_contexts(contexts)), self.action_names.index(self.action))

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """All mass on the one action, (n, K)."""
        return one_hot(self.actions(contexts), len(self.action_names))


def sample(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw one action a row from distributions (n, K)."""
    cumulative = probabilities.cumsum(axis=1)
    draws = rng.random(len(probabilities)) * cumulative[:, -1]
    return (cumulative <= draws[:, None]).sum(axis=1)


def best_actions(scores: np.ndarray, priority: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """argmax over the allowed actions of each row, ties to the smallest priority number; (n,)."""
    order = np.argsort(priority)
    allowed = scores if mask is None else np.where(mask, scores, -np.inf)
    return order[allowed[:, order].argmax(axis=1)]


def one_hot(actions: np.ndarray, n_actions: int) -> np.ndarray:
    """All mass of each row on its action, (n, K)."""
    table = np.zeros((len(actions), n_actions))
    table[np.arange(len(actions)), actions] = 1
    return table


def checked_contexts(contexts: Any, n_features: int | None = None) -> np.ndarray:
    """Contexts (n, d) as floats; d must be `n_features` where that is given, every feature finite."""
    try:
        x = np.asarray(contexts, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DecisionError(f"contexts are not all numbers: {error}") from None
    if x.ndim != 2 or (n_features is not None and x.shape[1] != n_features):
        wanted = "d" if n_features is None else n_features
        raise DecisionError(
            f"contexts of shape {x.shape}; expected (n, {wanted}). A single context x is x[None, :]"
        )
    if not np.isfinite(x).all():
        row, column = np.argwhere(~np.isfinite(x))[0]
        raise DecisionError(f"context feature {column} at row {row} is {x[row, column]}; it must be finite")
    return x


def checked_parameters(theta: np.ndarray, action_names: tuple[Hashable, ...]) -> None:
    """Refuse parameters that are not one finite vector an action."""
    if np.ndim(theta) != 2 or len(theta) != len(action_names) or not np.isfinite(theta).all():
        raise SettingError(
            f"theta of shape {np.shape(theta)} for {len(action_names)} actions; expected finite (K, d)"
        )


def needed(rng: np.random.Generator | None) -> np.random.Generator:
    """The generator that a random policy cannot do without."""
    if rng is None:
        raise SettingError("this policy is random; pass rng=np.random.default_rng(seed)")
    return rng


def softmax(scores: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """exp(score) over the allowed actions of each row, normalised; exactly 0 elsewhere, (n, K)."""
    allowed = scores if mask is None else np.where(mask, scores, -np.inf)
    table = np.exp(allowed - allowed.max(axis=1, keepdims=True))
    table /= table.sum(axis=1, keepdims=True)
    return table
