"""Multinomial logistic regression: log-odds of actions that are linear in the context."""

from typing import Any

import numpy as np

CLOSE, CLOSE_ENOUGH = 0.01, 0.1
"""The fit ends where parameters are this share of their standard errors from the best, in the quadratic mean; the second
holds for a fit of more than `LARGE` (row, action) pairs."""

LARGE = 2**20

ITERATIONS = 200

PRODUCTS = 2**18
"""Multiplications at a time: the odds stay in the cache, and BLAS does not share them out among threads, which costs more
than it saves and rounds differently with their number."""

LEAST = 1e-3
"""Added to a feature's variance, so that equal features do no harm."""


def fit_log_odds(contexts: np.ndarray, actions: np.ndarray, n_actions: int) -> tuple[np.ndarray, np.ndarray]:
    """θ (K, d) and offsets (K,) that minimise −Σ_i log softmax(θx_i + offset)_{a_i} + ½ Σ_a ‖spread·θ_a‖².

    contexts (n, d), actions (n,) in [0, K), each of which occurs. Features are taken at the spread
    that they have here. By L-BFGS from the actions' shares, in coordinates in which the curvature there is 1:
    features without correlation, an action's parameters in units of their standard errors.
    """
    n, d = contexts.shape
    center, spread = contexts.mean(axis=0), contexts.std(axis=0)
    spread = np.where(spread > 0, spread, 1)
    standard = (contexts - center) / spread
    root = np.linalg.cholesky(standard.T @ standard / n + LEAST * np.eye(d))
    whitener = np.linalg.inv(root).T
    design = np.column_stack([np.ones(n), standard @ whitener])
    counts = np.bincount(actions, minlength=n_actions)
    start = np.zeros((n_actions, d + 1))
    start[:, 0] = np.log(counts) - np.log(counts).mean()
    weights = _minimised(design, actions, counts, start, whitener.T @ whitener)
    theta = weights[:, 1:] @ whitener.T / spread
    return theta, weights[:, 0] - theta @ center


def _minimised(
    design: np.ndarray, actions: np.ndarray, counts: np.ndarray, start: np.ndarray, penalty: np.ndarray
) -> np.ndarray:
    """Weights (K, 1 + d) on the columns of the design (n, 1 + d), the first of which is 1 and not penalised."""
    from scipy.optimize import minimize  # slow to import

    unit = 1 / np.sqrt(counts * (1 - counts / len(actions)) + 1)[:, None]
    taken = np.zeros_like(start)
    for column, values in enumerate(design.T):
        taken[:, column] = np.bincount(actions, values, len(start))
    narrow, size = design.astype(np.float32), np.inf
    close = CLOSE_ENOUGH if len(design) * len(start) > LARGE else CLOSE

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal size
        weights = flat.reshape(start.shape) * unit
        value, gradient = _log_sums(narrow, weights)
        shrunk = weights[:, 1:] @ penalty
        gradient -= taken
        gradient[:, 1:] += shrunk
        value += float((weights[:, 1:] * shrunk).sum()) / 2 - float((weights * taken).sum())
        gradient *= unit
        size = float(np.sqrt(np.square(gradient).mean()))
        return value, gradient.ravel()

    def ended(intermediate_result: Any) -> None:
        if size <= close:
            raise StopIteration

    options: Any = {"maxiter": ITERATIONS, "gtol": 0.0, "ftol": 0.0, "maxcor": 20}
    begin = (start / unit).ravel()
    found = minimize(loss, begin, jac=True, method="L-BFGS-B", callback=ended, options=options).x
    weights: np.ndarray = found.reshape(start.shape) * unit
    return weights


def _log_sums(design: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
    """Σ_i log Σ_a exp(weights_a·z_i) and its gradient (K, d); design (n, d) and the odds in single precision.

    Their errors are of the order of 10⁻⁷ of a row's and add up like noise: far below a parameter's standard error.
    """
    total, gradient, narrow = 0.0, np.zeros(weights.shape), weights.T.astype(np.float32)
    size = max(1, PRODUCTS // weights.size)
    for first in range(0, len(design), size):
        z = design[first : first + size]
        odds = z @ narrow
        top = odds.max(axis=1)
        odds -= top[:, None]
        np.exp(odds, out=odds)
        sums = odds.sum(axis=1)
        total += float(top.sum(dtype=np.float64) + np.log(sums).sum(dtype=np.float64))
        gradient += odds.T @ (z / sums[:, None])
    return total, gradient
