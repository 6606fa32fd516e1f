"""The radius ρ_a of an action's confidence ellipsoid {θ : ‖θ̂_a − θ‖_{V_a} ≤ ρ_a} (the paper's √β_t).

Each function takes arrays over actions: `log_det` = log(det V_a/λ^d) (K,) and `counts` = N_a (K,);
`total` is the number of rows in all learnt sets, `learnt` the number K' of actions whose set is learnt.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np


class Bounds(Protocol):
    """What a radius needs to know."""

    @property
    def noise(self) -> float:
        """σ."""

    @property
    def ridge(self) -> float:
        """λ."""

    @property
    def delta(self) -> float:
        """δ."""

    @property
    def theta_bound(self) -> float:
        """S_θ."""

    @property
    def context_bound(self) -> float:
        """S_x."""


Radius = Callable[[np.ndarray, np.ndarray, int, int, int, Bounds], np.ndarray]


def determinant(
    log_det: np.ndarray, counts: np.ndarray, d: int, total: int, learnt: int, bounds: Bounds
) -> np.ndarray:
    """σ·sqrt(log(det V_a/λ^d) + 2·log(K'/δ)) + √λ·S_θ, the tightest of the three."""
    return bounds.noise * np.sqrt(log_det + 2 * np.log(learnt / bounds.delta)) + _bias(bounds)


def trace(
    log_det: np.ndarray, counts: np.ndarray, d: int, total: int, learnt: int, bounds: Bounds
) -> np.ndarray:
    """σ·sqrt(d·log(1 + N_a·S_x²/(λd)) + 2·log(K'/δ)) + √λ·S_θ: no determinant to keep."""
    volume = d * np.log1p(counts * bounds.context_bound**2 / (bounds.ridge * d))
    return bounds.noise * np.sqrt(volume + 2 * np.log(learnt / bounds.delta)) + _bias(bounds)


def paper(
    log_det: np.ndarray, counts: np.ndarray, d: int, total: int, learnt: int, bounds: Bounds
) -> np.ndarray:
    """σ·sqrt(d·log(K'·(1 + t·S_x²/λ)/δ)) + √λ·S_θ (Eq. 12), proved for d ≥ 2 only."""
    inside = learnt * (1 + total * bounds.context_bound**2 / bounds.ridge) / bounds.delta
    radius = bounds.noise * np.sqrt(d * np.log(inside)) + _bias(bounds)
    return np.full(len(log_det), radius)


def _bias(bounds: Bounds) -> float:
    return float(np.sqrt(bounds.ridge) * bounds.theta_bound)


RADII: dict[str, Radius] = {"determinant": determinant, "trace": trace, "paper": paper}
