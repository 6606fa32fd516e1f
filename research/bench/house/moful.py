"""mOFUL as one would write it in NumPy: a loop over steps, all actions at once in each."""

import numpy as np


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
