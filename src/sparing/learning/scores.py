"""Completed rewards: what each action would have earned in each row, by a model that the log corrects."""

from typing import Any

import numpy as np

from sparing.learning.choosing import choose_ridge, folds_or_none, ridge_grid
from sparing.learning.material import Request
from sparing.learning.objectives import completed_rewards
from sparing.log import Log
from sparing.model.crossfitting import fitted_rewards


def reward_model(log: Log, ridge: Any, request: Request) -> np.ndarray:
    """r̂(x_i, a) learnt from all rows, (n, K); an action without rows gets the mean of the others."""
    return fitted_rewards(log, ridge=choose_ridge(request, log, ridge_grid(ridge))[0]["ridge"])


def crossfitted_scores(log: Log, ridge: Any, request: Request) -> np.ndarray:
    """Γ (n, K) with r̂ learnt without the fold of the row's context; on all rows if there is one context."""
    fold_of = folds_or_none(log, request.folds, request.seed)
    if fold_of is None:
        return completed_rewards(log, reward_model(log, ridge, request))
    best = choose_ridge(request, log, ridge_grid(ridge))[0]["ridge"]
    folds = int(fold_of.max()) + 1
    return completed_rewards(log, fitted_rewards(log, ridge=best, folds=folds, seed=request.seed))
