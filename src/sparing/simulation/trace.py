"""What happened in a run."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class Trace:
    """A run, round by round: actions (T,) as indices, needs_reward (T,), reasons (T,), losses (T,).

    A loss is the expected reward of the best action less that of the chosen one.
    """

    algorithm: str
    actions: np.ndarray
    needs_reward: np.ndarray
    reasons: np.ndarray
    losses: np.ndarray

    def __len__(self) -> int:
        return len(self.actions)

    @cached_property
    def calls(self) -> np.ndarray:
        """Reward calls so far, (T,)."""
        return self.needs_reward.cumsum()

    @cached_property
    def regret(self) -> np.ndarray:
        """Regret so far, (T,)."""
        return self.losses.cumsum()

    @property
    def skipped_losses(self) -> np.ndarray:
        """What each skipped round cost."""
        return self.losses[~self.needs_reward]

    def reason_counts(self) -> dict[str, int]:
        """How often each reason was given."""
        return dict(Counter(self.reasons.tolist()).most_common())

    def __repr__(self) -> str:
        if not len(self):
            return f"Trace({self.algorithm}, 0 rounds)"
        return (
            f"Trace({self.algorithm}, {len(self)} rounds, {int(self.calls[-1])} calls, "
            f"regret {self.regret[-1]:.4g})"
        )
