"""The hot loops, compiled. Each has a plain twin in tests/reference."""

import math

import numpy as np

from sparing.compiled import compiled


@compiled
def evaluate(
    x: np.ndarray,
    theta: np.ndarray,
    inverse: np.ndarray,
    radius: np.ndarray,
    frozen: np.ndarray,
    slack: float,
    misfit: float,
    mean: np.ndarray,
    spread: np.ndarray,
) -> None:
    """Write x·θ̂_a and the half-width of the set at x for every action.

    spread_a = sqrt((ρ_a·sqrt(xᵀV_a⁻¹x))² + misfit²), or `slack` for a frozen point.
    """
    n_actions, d = theta.shape
    for a in range(n_actions):
        value = 0.0
        for i in range(d):
            value += x[i] * theta[a, i]
        mean[a] = value
        if frozen[a]:
            spread[a] = slack
        else:
            square = 0.0
            for i in range(d):
                row = 0.0
                for j in range(d):
                    row += inverse[a, i, j] * x[j]
                square += x[i] * row
            half = radius[a] * math.sqrt(max(square, 0.0))
            spread[a] = math.sqrt(half * half + misfit * misfit) if misfit > 0 else half


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


@compiled
def absorb(
    x: np.ndarray,
    reward: float,
    gram: np.ndarray,
    response: np.ndarray,
    inverse: np.ndarray,
    theta: np.ndarray,
    scratch: np.ndarray,
) -> float:
    """Add one row to one action: V += xxᵀ, b += x·r, V⁻¹ by Sherman–Morrison, θ̂ = V⁻¹b.

    Returns the growth log(1 + xᵀV⁻¹x) of log det V.
    """
    d = len(x)
    square = 0.0
    for i in range(d):
        row = 0.0
        for j in range(d):
            row += inverse[i, j] * x[j]
        scratch[i] = row
        square += x[i] * row
    for i in range(d):
        response[i] += x[i] * reward
        for j in range(d):
            gram[i, j] += x[i] * x[j]
            inverse[i, j] -= scratch[i] * scratch[j] / (1.0 + square)
    for i in range(d):
        value = 0.0
        for j in range(d):
            value += inverse[i, j] * response[j]
        theta[i] = value
    return math.log1p(square)
