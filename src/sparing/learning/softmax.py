"""Softmax-linear policies fitted by gradients: π(a|x) ∝ exp(x·θ_a) over the allowed actions."""

from collections.abc import Callable

import numpy as np

from sparing.learning.lbfgs import minimise
from sparing.policies.policy import softmax

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""Maps π (n, K) over the rows of a log to a value to maximise and its slope ∂value/∂π (n, K)."""


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
    contexts: np.ndarray,
    mask: np.ndarray | None,
    objective: Objective,
    *,
    l2: float,
    n_actions: int,
) -> np.ndarray:
    """θ (K, d) at which J is largest, by L-BFGS from 0: uniform on the allowed actions."""
    shape = (n_actions, contexts.shape[1])

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_gradient(flat.reshape(shape), contexts, mask, objective, l2=l2)
        return -value, -gradient.ravel()

    return minimise(loss, np.zeros(shape).ravel()).reshape(shape)
