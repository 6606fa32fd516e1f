"""A policy's probabilities on a log's rows, checked, block by block; and how many rows weights leave."""

from collections.abc import Callable, Iterator

import numpy as np

from sparing.errors import SettingError
from sparing.log import Log
from sparing.log.blocks import Blocks
from sparing.policies.policy import Policy

SUM_TOLERANCE = 1e-6
"""How far a policy's probabilities may be from summing to 1."""


def policy_blocks(log: Log, policy: Policy | np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """π(a|x_i) of the log's rows, block by block, (rows, K), columns in the log's order of actions."""
    ask, places = _asked(log, policy)
    for rows in Blocks.of(log.n_rows, log.n_actions):
        size = rows.stop - rows.start
        chances = np.asarray(ask(rows), dtype=np.float64)
        if chances.shape != (size, len(places)):
            raise SettingError(
                f"the policy gave shape {chances.shape}; expected {(size, len(places))}, a column an action"
            )
        if places != list(range(log.n_actions)):
            given, chances = chances, np.zeros((size, log.n_actions))
            chances[:, places] = given
        sums = chances @ np.ones(log.n_actions)
        off = ~(np.abs(sums - 1) <= SUM_TOLERANCE)
        if off.any() or chances.min() < 0:
            off |= (chances < 0).any(axis=1)
            row = int(np.flatnonzero(off)[0])
            raise SettingError(
                f"the policy's probabilities at row {rows.start + row} sum to {sums[row]:.6g} (smallest "
                f"{chances[row].min():.4g}); they must be 0 or more and sum to 1"
            )
        yield rows, chances


def _asked(log: Log, policy: Policy | np.ndarray) -> tuple[Callable[[slice], np.ndarray], list[int]]:
    """How to ask for a slice of rows, and which of the log's actions the answer's columns are."""
    if isinstance(policy, np.ndarray):
        if policy.shape != (log.n_rows, log.n_actions):
            raise SettingError(f"policy of shape {policy.shape}; expected {(log.n_rows, log.n_actions)}")
        return (lambda rows: policy[rows]), list(range(log.n_actions))
    place = {name: i for i, name in enumerate(log.action_names)}
    unknown = [name for name in policy.action_names if name not in place]
    if unknown:
        raise SettingError(
            f"the policy knows action {unknown[0]!r}, the log does not; name every action when the log is "
            "read (actions=[...]), so that what it never tried is counted"
        )
    return (lambda rows: policy.probabilities(log.contexts[rows])), [
        place[name] for name in policy.action_names
    ]


def effective_sample_size(weights: np.ndarray) -> float:
    """(Σw)²/Σw²; 0 where all weights are 0."""
    largest = float(weights.max(initial=0))
    if largest == 0:
        return 0.0
    scaled = weights / largest
    return float(scaled.sum() ** 2 / (scaled @ scaled))
