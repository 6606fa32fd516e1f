"""Several policies that vote on what to do."""

from dataclasses import dataclass

import numpy as np

from sparing.errors import SettingError
from sparing.policies.policy import Certain, Policy, best_actions


@dataclass(frozen=True, eq=False, repr=False)
class VotingPolicy(Certain):
    """argmax_a Σ_m w_m·π_m(a|x), ties to the action with the smallest priority number, (K,); weights (m,) are above 0.

    What a member was taught by, and the encoder of raw columns, are the vote's; members see encoded contexts.
    """

    members: tuple[Policy, ...]
    weights: np.ndarray
    priority: np.ndarray
    method: str = "votes"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        k, weights = len(self.action_names), np.asarray(self.weights, dtype=np.float64)
        if np.shape(self.priority) != (k,):
            raise SettingError(
                f"priority of shape {np.shape(self.priority)} for {k} actions; expected ({k},)"
            )
        fit = weights.shape == (len(self.members),) and bool(((weights > 0) & (weights < np.inf)).all())
        if not self.members or not fit:
            raise SettingError(
                f"weights {weights.tolist()} of {len(self.members)} policies; expected a finite number above 0 for each of one or more"
            )
        if any(member.action_names != self.action_names for member in self.members):
            raise SettingError(
                "the policies that vote have other actions than the vote; all must have the same"
            )

    def indices(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """The action with the most votes, (n,)."""
        x = self.rows(contexts)
        votes = sum(
            weight * member.probabilities(x)
            for weight, member in zip(self.weights, self.members, strict=True)
        )
        return best_actions(np.asarray(votes), self.priority)
