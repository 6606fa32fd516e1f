"""Policies: what to do in a context, without learning any further."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

import numpy as np


class Policy(Protocol):
    """A distribution over actions for each context."""

    @property
    def action_names(self) -> tuple[Hashable, ...]:
        """The labels behind the action indices."""

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """π(a|x) for contexts (n, d), shape (n, K)."""

    def actions(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """One action index for each context, (n,); `rng` is needed only where the policy is random."""


@dataclass(frozen=True, eq=False)
class GreedyPolicy:
    """argmax_a x·θ_a, ties to the action with the smallest priority number; theta (K, d)."""

    action_names: tuple[Hashable, ...]
    theta: np.ndarray
    priority: np.ndarray

    def actions(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """The best action by the estimates, (n,)."""
        order = np.argsort(self.priority)
        # Not a matrix product: BLAS rounds edge columns differently, so equal parameters would not tie.
        scores = np.einsum("nd,kd->nk", np.asarray(contexts, dtype=np.float64), self.theta[order])
        return order[scores.argmax(axis=1)]

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """All mass on the best action, (n, K)."""
        actions = self.actions(contexts)
        table = np.zeros((len(actions), len(self.action_names)))
        table[np.arange(len(actions)), actions] = 1
        return table


def sample(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw one action a row from distributions (n, K)."""
    cumulative = probabilities.cumsum(axis=1)
    draws = rng.random(len(probabilities)) * cumulative[:, -1]
    return (cumulative <= draws[:, None]).sum(axis=1)
