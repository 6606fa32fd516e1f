"""Plain compiled loops to be measured against: no bounds, no pruning, every action in double precision."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])


def _fast(function: Function) -> Function:
    """Compile, sums in any order: a vectorised loop is the baseline to beat."""
    fast: Any = numba.njit(cache=True, fastmath=True)(function)
    return fast


@_fast
def best_of_all(x: np.ndarray, theta: np.ndarray, inverse: np.ndarray, alpha: float) -> int:
    """argmax_a x·θ_a + α·sqrt(xᵀV_a⁻¹x), every action scored in full."""
    n_actions, d = theta.shape
    best, highest = 0, -np.inf
    for a in range(n_actions):
        value, square = 0.0, 0.0
        for i in range(d):
            value += x[i] * theta[a, i]
            row = 0.0
            for j in range(d):
                row += inverse[a, i, j] * x[j]
            square += x[i] * row
        top = value + alpha * math.sqrt(max(square, 0.0))
        if top > highest:
            best, highest = a, top
    return best


@_fast
def learn(x: np.ndarray, reward: float, inverse: np.ndarray, response: np.ndarray, theta: np.ndarray) -> None:
    """V⁻¹ by Sherman–Morrison, b += x·r, θ = V⁻¹b, for one action."""
    d = len(x)
    image = np.empty(d)
    square = 0.0
    for i in range(d):
        row = 0.0
        for j in range(d):
            row += inverse[i, j] * x[j]
        image[i] = row
        square += x[i] * row
    for i in range(d):
        response[i] += x[i] * reward
        for j in range(d):
            inverse[i, j] -= image[i] * image[j] / (1.0 + square)
    for i in range(d):
        value = 0.0
        for j in range(d):
            value += inverse[i, j] * response[j]
        theta[i] = value


@_fast
def read(table: np.ndarray, times: int) -> np.float32:
    """Read a table of numbers so many times, and do nothing with it but add."""
    total = np.float32(0)
    for _ in range(times):
        part = np.float32(0)
        for i in range(len(table)):
            part += table[i]
        total += part
        table[0] = total * np.float32(1e-30)  # written back, so that no round of reading is saved
    return total
