"""The radius ρ of a confidence ellipsoid {θ : ‖θ̂ − θ‖_V ≤ ρ} (the paper's √β_t), in three forms.

Each is a function of numbers alone, plain enough for the online engine to compile as it stands; arrays over
actions do as well. noise is σ, bias √λ·S_θ, log_delta 2·log(K'/δ) with K' the number of actions whose set is
learnt, and d the number of features.
"""

from typing import TypeVar

import numpy as np

Number = TypeVar("Number", float, np.ndarray)

RADII = ("determinant", "trace", "paper")
"""Their names."""


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
