"""Propensities learnt from the log itself: multinomial regression, cross-fitted, then calibrated."""

import numpy as np
from scipy.optimize import minimize_scalar

from sparing.extras import require
from sparing.log import Log
from sparing.offline.folds import context_folds

SMALLEST = 1e-12


def fitted_propensities(log: Log, *, folds: int = 5, seed: int = 0) -> np.ndarray:
    """μ̂(a|x_i) for every row and action, (n, K): each row by a model that has not seen its context.

    An action without rows in the training folds gets 0. The scores are calibrated by one temperature,
    chosen to maximise the likelihood of the logged actions.
    """
    linear_model = require("sklearn.linear_model", extra="paper", purpose="estimating propensities")
    chances = np.zeros((log.n_rows, log.n_actions))
    fold_of = context_folds(log, folds, seed)
    center, spread = log.contexts.mean(axis=0), log.contexts.std(axis=0)
    features = (log.contexts - center) / np.where(spread > 0, spread, 1)
    for fold in range(folds):
        held = fold_of == fold
        seen = np.unique(log.actions[~held])
        if len(seen) == 1:
            chances[held, seen[0]] = 1
            continue
        model = linear_model.LogisticRegression(max_iter=1000).fit(features[~held], log.actions[~held])
        chances[np.ix_(held, seen)] = model.predict_proba(features[held])
    return _calibrated(chances, log.actions)


def _calibrated(chances: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Raise the probabilities to the power 1/temperature that makes the logged actions likeliest."""
    logs = np.where(chances > 0, np.log(np.maximum(chances, SMALLEST)), -np.inf)

    def cooled(temperature: float) -> np.ndarray:
        scaled = logs / temperature
        weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def surprise(log_temperature: float) -> float:
        picked = cooled(float(np.exp(log_temperature)))[np.arange(len(actions)), actions]
        return float(-np.log(np.maximum(picked, SMALLEST)).mean())

    best = minimize_scalar(surprise, bounds=(-1.5, 1.5), method="bounded").x
    return cooled(float(np.exp(best)))
