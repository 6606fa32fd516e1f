"""Whether linear models lack a constant, which nearly all rewards need."""

from collections.abc import Iterator

import numpy as np

from sparing.log import Log
from sparing.model.statistics import Statistics, ridge_regression

CONSTANT = 1e-3
"""A constant is in the features' span if this share of it, or less, is left over."""

SURE = 6.0
"""Standard errors from 0 beyond which a mean residual is not chance."""

LEAST_ROWS = 20


def missing_level(log: Log, sums: Statistics, ridge: float) -> Iterator[str]:
    """Say so if no combination of features is constant and an action's residuals do not average 0."""
    total = log.contexts.sum(axis=0)
    explained = float(total @ np.linalg.pinv(sums.gram.sum(axis=0), hermitian=True) @ total)
    if log.n_rows < LEAST_ROWS or 1 - explained / log.n_rows <= CONSTANT:
        return
    theta = ridge_regression(sums, ridge)
    residuals = log.rewards - np.einsum("ij,ij->i", log.contexts, theta[log.actions])
    counts = np.maximum(log.counts, 1)
    means = np.bincount(log.actions, residuals, log.n_actions) / counts
    squares = np.bincount(log.actions, residuals**2, log.n_actions) / counts
    errors = np.sqrt(np.maximum(squares - means**2, 0) / counts)
    sure = (log.counts >= LEAST_ROWS) & (errors > 0)
    distance = np.divide(np.abs(means), errors, out=np.zeros_like(means), where=sure)
    worst = int(distance.argmax())
    if distance[worst] > SURE:
        yield (
            "No combination of the features is constant, and the rewards have a level that linear models then "
            f"cannot follow (residuals of action {log.action_names[worst]!r} average {means[worst]:.3g}, "
            f"{distance[worst]:.0f} standard errors from 0). Add a constant feature"
        )
