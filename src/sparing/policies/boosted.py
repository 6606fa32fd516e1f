"""The best action by a boosted reward model, alone or beside a linear one."""

from dataclasses import dataclass, field

import numpy as np

from sparing.errors import SettingError
from sparing.model.boosting import Trees
from sparing.policies.policy import Certain, SupportModel, best_actions, linear_scores


@dataclass(frozen=True, eq=False, repr=False)
class BoostedPolicy(Certain):
    """argmax_a score_a(x) of sums of trees, ties to the action with the smallest priority number, (K,).

    With `support` the argmax runs over each context's supported actions only.
    """

    trees: Trees
    priority: np.ndarray
    support: SupportModel | None = None
    method: str = "boosted"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        k = len(self.action_names)
        if self.trees.base.shape != (k,) or np.shape(self.priority) != (k,):
            raise SettingError(
                f"trees of {len(self.trees.base)} actions and priority of shape {np.shape(self.priority)} for "
                f"{k} actions; expected one entry for each"
            )

    def indices(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """The best action by the trees, (n,)."""
        x = self.rows(contexts, self.trees.n_features)
        mask = None if self.support is None else self.support(x)
        return best_actions(self.scores(x), self.priority, mask)

    def scores(self, contexts: np.ndarray) -> np.ndarray:
        """What the argmax is taken of, (n, K)."""
        return self.trees.scores(contexts)


@dataclass(frozen=True, eq=False, repr=False)
class StackedPolicy(BoostedPolicy):
    """argmax_a w₀·x·θ_a + w₁·r̂_a(x): a linear reward model and sums of trees, added; theta (K, d), weights (2,)."""

    theta: np.ndarray = field(kw_only=True)
    weights: np.ndarray = field(kw_only=True)
    method: str = "stacked"

    def __post_init__(self) -> None:
        super().__post_init__()
        shapes = {"theta": (len(self.action_names), self.trees.n_features), "weights": (2,)}
        for name, shape in shapes.items():
            array = getattr(self, name)
            if np.shape(array) != shape or not np.isfinite(array).all():
                raise SettingError(
                    f"{name} of shape {np.shape(array)}; expected finite numbers of shape {shape}"
                )

    def scores(self, contexts: np.ndarray) -> np.ndarray:
        """Rewards by both models, each with its weight, (n, K)."""
        linear, trees = self.weights
        return linear * linear_scores(contexts, self.theta) + trees * self.trees.rewards(contexts)
