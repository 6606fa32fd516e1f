"""What rules need of all actions at once, compiled; engine/ has what only looks at some."""

import math

import numpy as np

from sparing.native.compiling import compiled


@compiled
def best(scores: np.ndarray, eligible: np.ndarray, priority: np.ndarray, skip: int) -> int:
    """Index of the largest score among eligible actions other than `skip`; −1 if there is none.

    Equal scores go to the smaller priority number.
    """
    winner = -1
    for a in range(len(scores)):
        if (
            eligible[a]
            and a != skip
            and (
                winner < 0
                or scores[a] > scores[winner]
                or (scores[a] == scores[winner] and priority[a] < priority[winner])
            )
        ):
            winner = a
    return winner


@compiled
def doubts(
    mean: np.ndarray,
    deviation: np.ndarray,
    eligible: np.ndarray,
    leader: int,
    tolerance: float,
    out: np.ndarray,
) -> float:
    """Write, for each rival b of the leader a, Φ(−(m_a − m_b + τ)/sqrt(s_a² + s_b²)); return the sum.

    The term bounds the posterior probability that b is better than a by more than τ.
    """
    total = 0.0
    for b in range(len(mean)):
        out[b] = 0.0
        if eligible[b] and b != leader:
            gap = mean[leader] - mean[b] + tolerance
            scale = math.sqrt(deviation[leader] ** 2 + deviation[b] ** 2)
            if scale > 0:
                out[b] = 0.5 * math.erfc(gap / (scale * math.sqrt(2.0)))
            else:
                out[b] = 1.0 if gap < 0 else 0.0
            total += out[b]
    return total
