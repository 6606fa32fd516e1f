"""Plain loops to be measured against: compiled ones without bounds or pruning, and mOFUL as written in NumPy."""

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


def run_loop(
    contexts: np.ndarray,
    means: np.ndarray,
    draws: np.ndarray,
    *,
    noise: float,
    theta_bound: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.05,
) -> np.ndarray:
    """The actions (T,) of Algorithm 1 with determinant radii: argmax x·θ_a + ρ_a·‖x‖_{V_a⁻¹}.

    ρ_a = σ·sqrt(log(det V_a/λ^d) + 2·log(K/δ)) + sqrt(λ)·S_θ. contexts (T, d), means (T, K), draws (T,).
    """
    (length, d), k = contexts.shape, means.shape[1]
    inverse = np.tile(np.eye(d) / ridge, (k, 1, 1))
    response, theta, log_det = np.zeros((k, d)), np.zeros((k, d)), np.zeros(k)
    radius = np.full(k, noise * np.sqrt(2 * np.log(k / delta)) + np.sqrt(ridge) * theta_bound)
    actions = np.empty(length, dtype=np.int64)
    for t in range(length):
        x = contexts[t]
        images = inverse @ x
        a = int(np.argmax(theta @ x + radius * np.sqrt(images @ x)))
        image = images[a]
        square = image @ x
        inverse[a] -= np.outer(image, image) / (1 + square)
        response[a] += x * (means[t, a] + draws[t])
        theta[a] = inverse[a] @ response[a]
        log_det[a] += np.log1p(square)
        radius[a] = noise * np.sqrt(log_det[a] + 2 * np.log(k / delta)) + np.sqrt(ridge) * theta_bound
        actions[t] = a
    return actions
