"""Linear regression for every action at once, from the sums alone."""

import numpy as np
from scipy import special

from sparing.errors import SettingError
from sparing.model.statistics import Statistics

CONDITION_LIMIT = 1e12
"""A Gram matrix with a larger condition number counts as singular."""

SMALLEST_NOISE = 1e-6
"""An estimated noise is at least this share of the rewards' root mean square."""


def ridge_regression(sums: Statistics, ridge: float) -> np.ndarray:
    """θ̂_a = (λI + G_a)⁻¹ Σ x r, shape (K, d)."""
    regular = sums.gram + ridge * np.eye(sums.n_features)
    return np.linalg.solve(regular, sums.response[:, :, None])[:, :, 0]


def least_squares(sums: Statistics, ridge: float) -> np.ndarray:
    """θ̂_a = G_a⁻¹ Σ x r (Prop. 2), ridge regression where G_a is singular, shape (K, d)."""
    theta = ridge_regression(sums, ridge)
    eigenvalues = np.linalg.eigvalsh(sums.gram)
    regular = eigenvalues[:, 0] * CONDITION_LIMIT > np.maximum(eigenvalues[:, -1], np.finfo(float).tiny)
    if regular.any():
        theta[regular] = np.linalg.solve(sums.gram[regular], sums.response[regular][:, :, None])[:, :, 0]
    return theta


def residual_noise(sums: Statistics, ridge: float) -> float:
    """Upper 95 % limit of σ from the residuals: σ̂² = Σ RSS_a / ν, times ν/χ²_{.05,ν}.

    RSS_a = Σr² − θ̂ᵀb − λ‖θ̂‖² with the ridge estimate, ν = n − Σ tr(G_a V_a⁻¹). The plain deviation
    understates; an understated σ breaks every confidence set.
    """
    theta = ridge_regression(sums, ridge)
    fitted = np.einsum("kd,kd->k", theta, sums.response) + ridge * np.einsum("kd,kd->k", theta, theta)
    eigenvalues = np.maximum(np.linalg.eigvalsh(sums.gram), 0)
    freedom = sums.n_rows - float((eigenvalues / (eigenvalues + ridge)).sum())
    if freedom < 1:
        raise SettingError(
            f"the noise cannot be estimated from {sums.n_rows} rows ({freedom:.2f} degrees of freedom left); "
            "pass noise=..., the deviation of a reward around its mean"
        )
    squares = float(sums.squares.sum())
    residual = max(squares - float(fitted.sum()), 0.0)
    upper = np.sqrt(residual / (2 * special.gammaincinv(freedom / 2, 0.05)))
    return max(float(upper), SMALLEST_NOISE * float(np.sqrt(squares / sums.n_rows)))
