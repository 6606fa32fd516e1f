"""An empirical-Bayes prior over the actions' parameters, learnt from the actions the log knows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sparing.errors import SettingError
from sparing.model.assumptions import positive
from sparing.model.regression import least_squares
from sparing.model.statistics import Statistics

LEAST_ACTIONS = 3
"""Fewer well-logged actions say nothing about how actions differ."""


@dataclass(frozen=True, eq=False)
class Prior:
    """θ_a ~ N(mean, scale²·I) for every action, logged or not; `actions` says how many taught it."""

    mean: np.ndarray
    scale: float
    actions: int


def empirical_prior(
    sums: Statistics, ridge: float, *, scale: float | None = None, mean: ArrayLike | None = None
) -> Prior:
    """θ₀ and s₀ from the actions with N_a ≥ 2d.

    θ₀ is the mean of their least-squares estimates, s₀² the mean over coordinates of their variance
    between actions, left uncorrected for estimation noise (a wider prior errs towards exploring). A given
    `scale` or `mean` replaces its part; with too few such actions a mean that is not given is 0. It
    assumes that unlogged actions are exchangeable with logged ones.
    """
    d = sums.n_features
    known = np.flatnonzero(sums.counts >= 2 * d)
    center = None if mean is None else np.array(mean, dtype=np.float64)
    if center is not None and (center.shape != (d,) or not np.isfinite(center).all()):
        raise SettingError(f"prior_mean of shape {center.shape}; expected {d} finite numbers")
    if scale is not None:
        positive("prior_scale", scale)
        taught = len(known) >= LEAST_ACTIONS and center is None
        if taught:
            center = least_squares(sums, ridge)[known].mean(axis=0)
        return Prior(np.zeros(d) if center is None else center, float(scale), len(known) if taught else 0)
    if len(known) < LEAST_ACTIONS:
        raise SettingError(
            f"only {len(known)} actions have the 2·d = {2 * d} rows or more that a prior is learnt from; "
            f"{LEAST_ACTIONS} are needed. Pass prior_scale=..., the deviation of a parameter between actions"
        )
    theta = least_squares(sums, ridge)[known]
    variance = float(theta.var(axis=0, ddof=1).mean())
    if variance <= 0:
        raise SettingError(
            "the well-logged actions have equal parameters, so the prior's width is 0; pass prior_scale=..."
        )
    return Prior(theta.mean(axis=0) if center is None else center, variance**0.5, len(known))
