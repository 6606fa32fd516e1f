"""The best action by a boosted reward model."""

from dataclasses import dataclass

import numpy as np

from sparing.errors import SettingError
from sparing.model.trees import Trees
from sparing.policies.policy import Certain, SupportModel, best_actions


@dataclass(frozen=True, eq=False)
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

    def actions(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """The best action by the trees, (n,)."""
        x = self.rows(contexts, self.trees.n_features)
        mask = None if self.support is None else self.support(x)
        return best_actions(self.trees.scores(x), self.priority, mask)
