"""Objectives of the softmax learners, each as value and slope by π; L-BFGS; and direct loss minimisation.

An objective takes π over the rows of a log, (n, K), and gives the value and ∂value/∂π (n, K). Weights are
w_i = π(a_i|x_i)/μ_i; a function of the weights alone has a slope at the logged actions only.

L-BFGS is written on vectors: SciPy's L-BFGS-B solves small triangular systems in every step, which wakes all threads of
a parallel BLAS. On a busy machine that costs ten times the function itself.
"""

from collections import deque
from collections.abc import Callable

import numpy as np

from sparing.log import Log
from sparing.policies.policy import softmax

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""Maps π (n, K) over the rows of a log to a value to maximise and its slope ∂value/∂π (n, K)."""

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""Maps a point (m,) to a value and its gradient (m,)."""

LineSearchPoint = tuple[np.ndarray, float, np.ndarray]
"""A point, the value there and the gradient."""

MEMORY = 10
DECREASE, CURVATURE = 1e-4, 0.9
TRIALS = 30


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
    return scored(completed_rewards(log, np.where(unsupported, fitted, 0.0)))


def scored(scores: np.ndarray) -> Objective:
    """mean Σ_a π(a|x_i)·score_i(a), for completed rewards (n, K)."""
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


def _of_weights(log: Log, value: Function) -> Objective:
    """From a function of the weights (n,) and its slope."""
    assert log.propensities is not None
    propensities, rows, actions = log.propensities, np.arange(log.n_rows), log.actions

    def objective(table: np.ndarray) -> tuple[float, np.ndarray]:
        result, by_weight = value(table[rows, actions] / propensities)
        slope = np.zeros_like(table)
        slope[rows, actions] = by_weight / propensities
        return result, slope

    return objective


def value_and_gradient(
    theta: np.ndarray, contexts: np.ndarray, mask: np.ndarray | None, objective: Objective, *, l2: float
) -> tuple[float, np.ndarray]:
    """J(θ) = objective(π_θ) − l2/2·‖θ‖² and its gradient (K, d).

    With g = ∂objective/∂π the gradient by the scores is π·(g − Σ_b π_b g_b), row by row.
    """
    table = softmax(contexts @ theta.T, mask)
    value, slope = objective(table)
    inner = table * (slope - np.einsum("nk,nk->n", table, slope)[:, None])
    return value - 0.5 * l2 * float((theta**2).sum()), inner.T @ contexts - l2 * theta


def maximise(
    contexts: np.ndarray, mask: np.ndarray | None, objective: Objective, *, l2: float, n_actions: int
) -> np.ndarray:
    """θ (K, d) at which J is largest, by L-BFGS from 0: uniform on the allowed actions."""
    shape = (n_actions, contexts.shape[1])

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_gradient(flat.reshape(shape), contexts, mask, objective, l2=l2)
        return -value, -gradient.ravel()

    return minimise(loss, np.zeros(shape).ravel()).reshape(shape)


def minimise(
    function: Function, start: np.ndarray, *, iterations: int = 200, flat: float = 1e-5, still: float = 1e-9
) -> np.ndarray:
    """A local minimum from `start`.

    Stops where no partial derivative exceeds `flat`, a step gains less than the share `still` of the
    value, no step along the direction gains at all, or after so many iterations. The value never rises.
    """
    point, (value, gradient) = start, function(start)
    pairs: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=MEMORY)
    for _ in range(iterations):
        if np.abs(gradient).max() <= flat:
            break
        direction = -_scaled(gradient, pairs)
        length = 1.0 if pairs else min(1.0, 1 / float(np.abs(gradient).sum()))
        found = _searched(function, (point, value, gradient), direction, length)
        if found is None:
            break
        step, change = found[0] - point, found[2] - gradient
        curvature = float(step @ change)
        if curvature > np.finfo(float).eps * float(change @ change):
            pairs.append((step, change, 1 / curvature))
        gained = value - found[1]
        point, value, gradient = found
        if gained <= still * max(abs(value), 1e-3):
            break
    return point


def _scaled(gradient: np.ndarray, pairs: deque[tuple[np.ndarray, np.ndarray, float]]) -> np.ndarray:
    """H·gradient, H the inverse Hessian that the last steps suggest (the two-loop recursion)."""
    result = gradient.copy()
    shares = []
    for step, change, inverse in reversed(pairs):
        shares.append(inverse * float(step @ result))
        result -= shares[-1] * change
    if pairs:
        _, change, inverse = pairs[-1]
        result /= inverse * float(change @ change)
    for (step, change, inverse), share in zip(pairs, reversed(shares), strict=True):
        result += (share - inverse * float(change @ result)) * step
    return result


def _searched(
    function: Function, start: LineSearchPoint, direction: np.ndarray, length: float
) -> LineSearchPoint | None:
    """The first trial that falls enough and flattens enough, by bisection, else the lowest one seen.

    Bisection needs no smoothness, so that the kinks of clipped weights do it no harm.
    """
    point, value, gradient = start
    steepness = float(gradient @ direction)
    low, high = 0.0, np.inf
    best: LineSearchPoint | None = None
    for _ in range(TRIALS):
        trial = point + length * direction
        reached, slope = function(trial)
        if not reached <= value + DECREASE * length * steepness:
            high = length
        else:
            if best is None or reached < best[1]:
                best = (trial, reached, slope)
            if float(slope @ direction) >= CURVATURE * steepness:
                break
            low = length
        length = (low + high) / 2 if np.isfinite(high) else 2 * low
    return best


def descend(
    contexts: np.ndarray,
    mask: np.ndarray,
    costs: np.ndarray,
    order: np.ndarray,
    priority: np.ndarray,
    epsilon: float,
    epsilon_decay: float,
    eta: float,
    eta_decay: float,
) -> np.ndarray:
    """Direct loss minimisation over the rows in `order`; the mean of θ over all steps, (K, d). To be compiled.

    Step t: ŷ = argmax θ_a·x and y⁻ = argmax(θ_a·x − ε_t·cost_a) over the row's allowed actions (mask, (n, K)), ties to
    the smaller priority number; then θ_{y⁻} += (η_t/ε_t)·x and θ_ŷ −= (η_t/ε_t)·x, with ε_t = ε·t^−decay and
    η_t = η·t^−decay.
    """
    n_actions, d = costs.shape[1], contexts.shape[1]
    theta = np.zeros((n_actions, d))
    early = np.zeros((n_actions, d))
    for step in range(len(order)):
        row = order[step]
        width = epsilon * (step + 1.0) ** -epsilon_decay
        leader, better = -1, -1
        top, top_better = 0.0, 0.0
        for a in range(n_actions):
            if not mask[row, a]:
                continue
            score = 0.0
            for i in range(d):
                score += theta[a, i] * contexts[row, i]
            if leader < 0 or score > top or (score == top and priority[a] < priority[leader]):
                leader, top = a, score
            moved = score - width * costs[row, a]
            if better < 0 or moved > top_better or (moved == top_better and priority[a] < priority[better]):
                better, top_better = a, moved
        if better != leader:
            size = eta * (step + 1.0) ** -eta_decay / width
            for i in range(d):
                change = size * contexts[row, i]
                theta[better, i] += change
                theta[leader, i] -= change
                # The change is missing from the means of the `step` steps before it.
                early[better, i] += step * change
                early[leader, i] -= step * change
    return theta - early / max(len(order), 1)
