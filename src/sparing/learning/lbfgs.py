"""Limited-memory BFGS on vectors alone.

SciPy's L-BFGS-B solves small triangular systems in every step, which wakes all threads of a parallel
BLAS: on a machine that is busy, or runs several processes, that costs ten times the function itself.
"""

from collections import deque
from collections.abc import Callable

import numpy as np

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""Maps a point (m,) to a value and its gradient (m,)."""

MEMORY = 10
DECREASE, CURVATURE = 1e-4, 0.9
TRIALS = 30


def minimise(
    function: Function,
    start: np.ndarray,
    *,
    iterations: int = 200,
    flat: float = 1e-5,
    still: float = 1e-9,
) -> np.ndarray:
    """A local minimum from `start`.

    Stops where no partial derivative exceeds `flat`, a step gains less than the share `still` of the
    value, no step along the direction gains at all, or after so many iterations. The value never rises.
    """
    point = start
    value, gradient = function(point)
    pairs: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=MEMORY)
    for _ in range(iterations):
        if np.abs(gradient).max() <= flat:
            break
        direction = -_scaled(gradient, pairs)
        length = 1.0 if pairs else min(1.0, 1 / float(np.abs(gradient).sum()))
        found = _searched(function, point, value, gradient, direction, length)
        if found is None:
            break
        new, lower, slope = found
        step, change = new - point, slope - gradient
        curvature = float(step @ change)
        if curvature > np.finfo(float).eps * float(change @ change):
            pairs.append((step, change, 1 / curvature))
        gained = value - lower
        point, value, gradient = new, lower, slope
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
    function: Function,
    point: np.ndarray,
    value: float,
    gradient: np.ndarray,
    direction: np.ndarray,
    length: float,
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """The first trial that falls enough and flattens enough, by bisection, else the lowest one seen.

    Bisection needs no smoothness, so that the kinks of clipped weights do it no harm.
    """
    steepness = float(gradient @ direction)
    low, high = 0.0, np.inf
    best: tuple[np.ndarray, float, np.ndarray] | None = None
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
