"""How a policy would have played a log."""

import numpy as np

from sparing.log import Log
from sparing.log.rows import AnyLog, rows_of
from sparing.log.walking import Statistic
from sparing.policies.policy import Policy


def shares_of(policy: Policy, log: AnyLog) -> np.ndarray:
    """The share of the rows that the policy gives to each action, (K,)."""
    rows = rows_of(log)
    shares: np.ndarray = rows.fold(_Played(policy, rows.n_actions)) / rows.n_rows
    return shares


class _Played(Statistic[Log, np.ndarray]):
    """Σ π(a|x), (K,)."""

    def __init__(self, policy: Policy, n_actions: int) -> None:
        self.policy, self.n_actions = policy, n_actions

    def zero(self) -> np.ndarray:
        return np.zeros(self.n_actions)

    def update(self, state: np.ndarray, block: Log, first_row: int) -> np.ndarray:
        return np.asarray(state + self.policy.probabilities(block.contexts).sum(axis=0))

    def merge(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.asarray(one + other)
