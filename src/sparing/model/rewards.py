"""Reward models r̂(x, a): ridge regression for each action, cross-fitted where asked."""

import numpy as np

from sparing.log import Log
from sparing.model.folds import context_folds
from sparing.model.regression import ridge_regression
from sparing.model.statistics import Statistics


def fitted_rewards(log: Log, *, ridge: float = 1.0, folds: int | None = None, seed: int = 0) -> np.ndarray:
    """r̂(x_i, a) for every row and action, (n, K).

    With `folds`, each row is predicted by a model that has not seen its context; an action without
    rows is predicted by the mean of the parameters of those with rows.
    """
    if folds is None:
        return log.contexts @ reward_parameters(Statistics.of(log), ridge).T
    predicted = np.empty((log.n_rows, log.n_actions))
    fold_of = context_folds(log, folds, seed)
    for fold in range(folds):
        held = fold_of == fold
        predicted[held] = log.contexts[held] @ reward_parameters(Statistics.of(log.take(~held)), ridge).T
    return predicted


def reward_parameters(sums: Statistics, ridge: float) -> np.ndarray:
    """Ridge estimates (K, d); an action without rows gets the mean of the others, so it never leads."""
    theta = ridge_regression(sums, ridge)
    seen = sums.counts > 0
    if seen.any():
        theta[~seen] = theta[seen].mean(axis=0)
    return theta
