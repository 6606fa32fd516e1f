"""What rows leave possible: each action's confidence ellipsoid, and what it says of rewards and parameters.

The radius ρ (the paper's √β_t) comes in three forms, functions of numbers plain enough for the online engine to compile
as they stand; arrays over actions do as well. noise is σ, bias √λ·S_θ, log_delta 2·log(K'/δ) with K' the number of
actions whose set is learnt, and d the number of features.
"""

from functools import cached_property
from typing import TypeVar

import numpy as np

from sparing.model.assumptions import Assumptions
from sparing.model.statistics import Statistics

Number = TypeVar("Number", float, np.ndarray)


class Ellipsoids:
    """For each action {θ : ‖θ − θ̂_a‖_{V_a} ≤ ρ_a}, V_a = λI + G_a, from a log's sums; K' = K.

    At radius_scale ≥ 1 they hold the true parameters of all actions at once with probability 1 − δ.
    """

    def __init__(self, sums: Statistics, assumptions: Assumptions) -> None:
        self.sums, self.assumptions = sums, assumptions

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues (K, d) and eigenvectors (K, d, d) of V_a."""
        eigenvalues, vectors = np.linalg.eigh(self.sums.gram)
        return self._regular(eigenvalues), vectors

    def _regular(self, eigenvalues: np.ndarray) -> np.ndarray:
        # Rounding may leave an eigenvalue of a Gram matrix just below 0.
        return np.maximum(eigenvalues, 0) + self.assumptions.ridge

    @cached_property
    def inverse(self) -> np.ndarray:
        """V_a⁻¹, (K, d, d)."""
        eigenvalues, vectors = self._eigen
        return np.einsum("kij,kj,klj->kil", vectors, 1 / eigenvalues, vectors)

    @cached_property
    def theta(self) -> np.ndarray:
        """θ̂_a = V_a⁻¹ Σ x r, (K, d)."""
        return np.einsum("kij,kj->ki", self.inverse, self.sums.response)

    @cached_property
    def radius(self) -> np.ndarray:
        """ρ_a times radius_scale, (K,)."""
        return self.assumptions.radius_scale * self._radii(self._eigen[0], self.assumptions.radius)

    @cached_property
    def errors(self) -> np.ndarray:
        """The certified bound on ‖θ̂_a − θ*_a‖ at radius determinant × 1, whatever the assumptions': (K,)."""
        eigenvalues = self._regular(np.linalg.eigvalsh(self.sums.gram))
        return self._radii(eigenvalues, "determinant") / np.sqrt(eigenvalues[:, 0])

    def _radii(self, eigenvalues: np.ndarray, name: str) -> np.ndarray:
        log_det = np.log(eigenvalues / self.assumptions.ridge).sum(axis=1)
        return radii(name, log_det, self.sums.counts, self.sums.n_features, self.assumptions)

    def limits(
        self, contexts: np.ndarray, reward_range: tuple[float, float] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """L_a(x) and U_a(x) = x·θ̂_a ∓ ρ_a·width_a(x), both (n, K); cut to the range of mean rewards if known."""
        mean, spread = contexts @ self.theta.T, self.radius * widths(self.inverse, contexts)
        low, high = mean - spread, mean + spread
        if reward_range is not None:
            low, high = np.clip(low, *reward_range), np.clip(high, *reward_range)
        return low, high

    def own_lows(self, contexts: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """L_a(x) of each row's own action: contexts (n, d) and actions (n,) give (n,)."""
        low, order = np.empty(len(actions)), np.argsort(actions, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(actions, minlength=len(self.theta)))])
        for action in np.flatnonzero(np.diff(starts)):
            rows = order[starts[action] : starts[action + 1]]
            width = widths(self.inverse[action : action + 1], contexts[rows])[:, 0]
            low[rows] = contexts[rows] @ self.theta[action] - self.radius[action] * width
        return low


def widths(inverse: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """width_a(x) = sqrt(xᵀV_a⁻¹x) for V⁻¹ (K, d, d) and contexts (n, d), (n, K)."""
    squares = np.empty((len(contexts), len(inverse)))
    for action, matrix in enumerate(inverse):
        squares[:, action] = np.einsum("nd,nd->n", contexts @ matrix, contexts)
    return np.sqrt(np.maximum(squares, 0))


def radii(name: str, log_det: np.ndarray, counts: np.ndarray, d: int, bounds: Assumptions) -> np.ndarray:
    """ρ_a (K,) of this name, from log(det V_a/λ^d) and N_a, both (K,)."""
    log_delta = 2 * np.log(max(1, len(counts)) / bounds.delta)
    shared = bounds.noise, float(np.sqrt(bounds.ridge) * bounds.theta_bound), log_delta
    growth = bounds.context_bound**2 / bounds.ridge
    if name == "determinant":
        return determinant(log_det, *shared)
    if name == "trace":
        return trace(counts, growth / d, d, *shared)
    return np.full(len(counts), paper(int(counts.sum()), growth, d, *shared))


def determinant(log_det: Number, noise: float, bias: float, log_delta: float) -> Number:
    """σ·sqrt(log(det V/λ^d) + 2·log(K'/δ)) + √λ·S_θ, the tightest of the three; log_det = log(det V/λ^d)."""
    return noise * np.sqrt(log_det + log_delta) + bias


def trace(rows: Number, growth: float, d: int, noise: float, bias: float, log_delta: float) -> Number:
    """σ·sqrt(d·log(1 + N·S_x²/(λd)) + 2·log(K'/δ)) + √λ·S_θ: no determinant to keep; growth = S_x²/(λd)."""
    return noise * np.sqrt(d * np.log1p(rows * growth) + log_delta) + bias


def paper(total: float, growth: float, d: int, noise: float, bias: float, log_delta: float) -> float:
    """σ·sqrt(d·log(K'·(1 + t·S_x²/λ)/δ)) + √λ·S_θ (Eq. 12), proved for d ≥ 2 only.

    total is t, the number of rows in all learnt sets; growth = S_x²/λ.
    """
    return noise * np.sqrt(d * (np.log1p(total * growth) + log_delta / 2)) + bias
