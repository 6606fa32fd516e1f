"""What the softmax learners maximise, each as value and slope by π.

Each takes π over the rows of a log, (n, K), and gives the value and ∂value/∂π (n, K). Weights are
w_i = π(a_i|x_i)/μ_i; a function of the weights alone has a slope at the logged actions only.
"""

from collections.abc import Callable

import numpy as np

from sparing.learning.softmax import Objective
from sparing.log import Log


def restricted(log: Log, baseline: float) -> Objective:
    """Policy restriction: mean[(r_i − k)·w_i], with k the baseline; its negative is minimised."""
    gain = (log.rewards - baseline) / log.n_rows
    return _of_weights(log, lambda weights: (float(gain @ weights), gain))


def poem(log: Log, *, clip: float, penalty: float) -> Objective:
    """mean y − λ·sqrt(Var(y)/n) with y_i = min(w_i, M)·r_i, λ the penalty and Var the sample variance."""
    n, rewards = log.n_rows, log.rewards

    def value(weights: np.ndarray) -> tuple[float, np.ndarray]:
        terms = np.minimum(weights, clip) * rewards
        mean = terms.mean()
        apart = terms - mean
        deviation = np.sqrt((apart @ apart) / max(n - 1, 1) / n)
        slope = np.full(n, 1 / n)
        if penalty and deviation > 0:
            slope -= penalty * apart / (n * max(n - 1, 1) * deviation)
        return float(mean - penalty * deviation), slope * rewards * (weights < clip)

    return _of_weights(log, value)


def norm_poem(log: Log, *, clip: float, penalty: float) -> Objective:
    """S − λ·sqrt(V), S = Σ c r/Σ c and V = Σ c²(r − S)²/(Σ c)² with c_i = min(w_i, M)."""
    rewards = log.rewards

    def value(weights: np.ndarray) -> tuple[float, np.ndarray]:
        clipped = np.minimum(weights, clip)
        total = clipped.sum()
        mean = clipped @ rewards / total
        apart = rewards - mean
        squares = (clipped * apart) @ (clipped * apart)
        deviation = np.sqrt(squares) / total
        by_mean = apart / total
        slope = by_mean.copy()
        if penalty and deviation > 0:
            by_squares = 2 * clipped * apart**2 - 2 * (clipped**2 @ apart) * by_mean
            slope -= penalty * (by_squares / total**2 - 2 * squares / total**3) / (2 * deviation)
        return float(mean - penalty * deviation), slope * (weights < clip)

    return _of_weights(log, value)


def extrapolated(log: Log, fitted: np.ndarray, unsupported: np.ndarray) -> Objective:
    """Reward extrapolation: mean[w_i r_i + Σ_{a unsupported} π(a|x_i)·r̂(x_i, a)]; fitted (n, K)."""
    assert log.propensities is not None
    slope = np.where(unsupported, fitted, 0.0)
    slope[np.arange(log.n_rows), log.actions] += log.rewards / log.propensities
    return scored(slope)


def scored(scores: np.ndarray) -> Objective:
    """mean Σ_a π(a|x_i)·score_i(a): what any completed reward (n, K) says of a policy."""
    slope = scores / max(len(scores), 1)
    return lambda table: (float(np.einsum("nk,nk->", table, slope)), slope)


def completed_rewards(log: Log, fitted: np.ndarray) -> np.ndarray:
    """Γ_i(a) = r̂(x_i, a) + 1{a = a_i}·(r_i − r̂(x_i, a_i))/μ_i, (n, K); r̂ = 0 gives the IPS completion.

    Its mean over the logged draw is the true mean reward wherever μ(a|x_i) > 0, whatever r̂ is.
    """
    assert log.propensities is not None
    scores = fitted.copy()
    rows = np.arange(log.n_rows)
    scores[rows, log.actions] += (log.rewards - fitted[rows, log.actions]) / log.propensities
    return scores


def _of_weights(log: Log, value: Callable[[np.ndarray], tuple[float, np.ndarray]]) -> Objective:
    assert log.propensities is not None
    propensities, rows, actions = log.propensities, np.arange(log.n_rows), log.actions

    def objective(table: np.ndarray) -> tuple[float, np.ndarray]:
        result, by_weight = value(table[rows, actions] / propensities)
        slope = np.zeros_like(table)
        slope[rows, actions] = by_weight / propensities
        return result, slope

    return objective
