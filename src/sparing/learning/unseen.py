"""What a log cannot see: how far a reward model is believed where the logger never went, and what an action counts there."""

import numpy as np

from sparing.errors import InputError
from sparing.learning.objectives import completed_rewards
from sparing.log import Log
from sparing.model.linearity import lack_of_fit, sample

BEYOND_CHANCE = 3.0
"""Standard errors from which on a logger is taken to know what it does."""


def believed(log: Log, fitted: np.ndarray) -> bool:
    """Whether rewards r̂ (n, K) speak for actions outside the support, too: the logger did not know what it did, or lines fit.

    A logger that knew leaves out what is bad, and a model that does not fit has learnt nothing of it.
    """
    return not log.support.known or not informed(log, fitted) or straight(log)


def informed(log: Log, fitted: np.ndarray) -> bool:
    """Whether the logger's actions are better, by r̂ (n, K), than the mean of what it could have done: beyond chance."""
    mask = log.support.mask()
    mean = np.where(mask, fitted, 0.0).sum(axis=1) / mask.sum(axis=1)
    better = fitted[np.arange(log.n_rows), log.actions] - mean
    return bool(better.mean() > BEYOND_CHANCE * better.std(ddof=1) / np.sqrt(log.n_rows))


def straight(log: Log) -> bool:
    """Whether rewards are linear in the features, as far as a log can tell: then they are so beyond the support, too."""
    try:
        return not lack_of_fit(sample(log)).found
    except InputError:  # too few rows to tell
        return False


def counted(log: Log, table: np.ndarray, fitted: np.ndarray, *, believed: bool) -> np.ndarray:
    """What an action counts that a context does not support, (n, K), for a policy with this table (n, K).

    Where r̂ is believed, what it says, less what the policy's own actions earn less than it says of them: the best of many guesses
    is one that is too high. Elsewhere the least of what the logger does there, by r̂.
    """
    assert log.propensities is not None
    lowest, highest = float(log.rewards.min()), float(log.rewards.max())
    if not believed:
        least = np.where(log.support.mask(), fitted, np.inf).min(axis=1)
        return np.broadcast_to(least[:, None], fitted.shape).clip(lowest, highest)
    own = np.arange(log.n_rows), log.actions
    weights = table[own] / log.propensities
    short = float(weights @ (log.rewards - fitted[own])) / (float(weights.sum()) or 1.0)
    return (fitted + min(short, 0.0)).clip(lowest, highest)


def judged_rows(log: Log, table: np.ndarray, fitted: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """Each row's part of the doubly robust value that counts what the log cannot see as `outside` (n, K), (n,)."""
    seen = np.where(log.support.mask(), completed_rewards(log, fitted), outside)
    return np.asarray(np.einsum("nk,nk->n", table, seen))
