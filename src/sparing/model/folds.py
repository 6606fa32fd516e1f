"""Folds for cross-fitting: all rows of one context go into one fold."""

import numpy as np

from sparing.errors import SettingError
from sparing.log import Log


def context_folds(log: Log, folds: int, seed: int = 0) -> np.ndarray:
    """A fold number for each row, (n,), balanced over distinct contexts."""
    contexts = log.n_contexts
    if not 2 <= folds <= contexts:
        raise SettingError(
            f"folds={folds}; must be between 2 and the number of distinct contexts, {contexts}"
        )
    order = np.random.default_rng([seed, 11]).permutation(contexts)
    return (order % folds)[log.groups]
