"""How good each action may be at most and is at least, by the log's ridge regression."""

import numpy as np

from sparing.model.assumptions import Assumptions
from sparing.model.radius import RADII
from sparing.model.statistics import Statistics


def value_limits(
    sums: Statistics,
    assumptions: Assumptions,
    contexts: np.ndarray,
    reward_range: tuple[float, float] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """L_a(x) and U_a(x) = x·θ̂_a ∓ ρ_a·sqrt(xᵀV_a⁻¹x), both (n, K), with V_a = λI + G_a and K' = K.

    At radius_scale ≥ 1 all of them hold at once with probability 1 − δ. Where the range of mean rewards
    is known they are cut to it.
    """
    k, d = sums.response.shape
    eigenvalues, vectors = np.linalg.eigh(sums.gram)
    # Rounding may leave an eigenvalue of a Gram matrix just below 0.
    eigenvalues = np.maximum(eigenvalues, 0) + assumptions.ridge
    inverse = np.einsum("kij,kj,klj->kil", vectors, 1 / eigenvalues, vectors)
    log_det = np.log(eigenvalues / assumptions.ridge).sum(axis=1)
    radius = assumptions.radius_scale * RADII[assumptions.radius](
        log_det, sums.counts, d, sums.n_rows, max(1, k), assumptions
    )
    mean = contexts @ np.einsum("kij,kj->ki", inverse, sums.response).T
    spread = np.empty_like(mean)
    for action in range(k):
        square = np.einsum("nd,nd->n", contexts @ inverse[action], contexts)
        spread[:, action] = radius[action] * np.sqrt(np.maximum(square, 0))
    low, high = mean - spread, mean + spread
    if reward_range is not None:
        low, high = np.clip(low, *reward_range), np.clip(high, *reward_range)
    return low, high
