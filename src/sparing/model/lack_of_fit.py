"""Is the linear model wrong? Whether what it leaves of the rewards can be predicted from the contexts.

The contexts are split into two halves. Something flexible learns, in one half, what the linear model leaves of the
rewards; in the other half its prediction g is freed of all that is linear, action by action: ĝ = g − x·c_a, c_a by
least squares, so that Σ ĝ_i·x_i = 0 over an action's rows. If rewards are linear, Σ ĝ_i·r_i is then a sum of
noise alone, and
    z = Σ ĝ_i·r_i / sqrt(Σ ĝ_i²·e_i²)
is standard normal for many rows, given the first half; e are the half's own residuals, widened by sqrt(N_a/(N_a − d)). The halves change places;
the mean of the two z has a variance of at most 1 however they depend on each other, so the test keeps its level.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import ndtr

from sparing.errors import InputError, LogError, MissingExtraError
from sparing.log import Log
from sparing.log.features.kernel import Kernel
from sparing.log.rows import AnyLog, rows_of
from sparing.model.boosting import grow
from sparing.model.crossfitting import Folds
from sparing.validation import fraction

LEVEL = 0.01
"""Below this p-value the linear model is said to be wrong."""

LANDMARKS, RIDGE = 64, 1.0
"""Of the kernel block: points, and ridge beside features with Σφ² ≤ 1."""

MOST_ROWS = 2048
"""Rows that a promise or a note looks at."""

ROUNDS = 20
"""Trees an action of the boosted model of residuals."""

Predictor = Callable[[Log, np.ndarray, Log], np.ndarray]
"""Learns residuals (n,) of a log and predicts those of another's rows, (m,)."""


@dataclass(frozen=True)
class LackOfFit:
    """What was found: z-values by `kernel` and by `boosted` (None without scikit-learn), and the p-value of both.

    explained is the share of the linear model's squared residuals that the better of the two predicts where it
    has not learnt, 0 at least.
    """

    kernel: float
    boosted: float | None
    p_value: float
    explained: float
    level: float

    @property
    def found(self) -> bool:
        """Whether the linear model is shown to be wrong."""
        return self.p_value < self.level

    def __str__(self) -> str:
        if not self.found:
            return f"no sign that rewards are not linear in the features (p = {self.p_value:.2g})"
        return (
            f"that rewards are NOT linear in the features (p = {self.p_value:.2g}): {self.explained:.1%} of what the "
            "linear model leaves can be predicted, so its errors are larger than it says; try kernel='auto'"
        )


def lack_of_fit(log: Log, *, level: float = LEVEL, boosted: bool | None = None, seed: int = 0) -> LackOfFit:
    """Test whether rewards are linear in the features, from a log alone.

    A kernel block and, where scikit-learn is installed (`boosted=None`), boosted trees try to predict what the
    linear model leaves; the p-value is twice the smaller of theirs.
    """
    fraction("level", level)
    if log.n_contexts < 2 or log.n_rows < 4 * log.n_features:
        raise LogError(
            f"a log of {log.n_rows} rows, {log.n_contexts} contexts; the test needs two halves of contexts and "
            f"at least four rows for each of {log.n_features} features"
        )
    fold_of = Folds.of(log, 2, seed).assign_folds(log)
    halves = log.take(fold_of == 0), log.take(fold_of == 1)
    kernel = _tested(halves, partial(_by_kernel, seed=seed))
    trees = None
    if boosted is not False:
        try:
            trees = _tested(halves, partial(_by_trees, seed=seed))
        except MissingExtraError:
            if boosted:
                raise
    both = [kernel] if trees is None else [kernel, trees]
    p_value = min(1.0, len(both) * float(ndtr(-max(z for z, _ in both))))
    explained = max(0.0, *(gain for _, gain in both))
    return LackOfFit(kernel[0], None if trees is None else trees[0], p_value, explained, level)


def _tested(halves: tuple[Log, Log], predict: Predictor) -> tuple[float, float]:
    """The mean z of the two directions, and the share of the squared residuals that is predicted."""
    scores, gained, total = [], 0.0, 0.0
    for one, other in (halves, halves[::-1]):
        guess = predict(one, without_lines(one, one.rewards), other)
        free, left = without_lines(other, guess), without_lines(other, other.rewards)
        error = float(np.sqrt((free**2 * _widened(other)) @ (left**2)))
        scores.append(float(free @ left) / error if error > 0 else 0.0)
        gained += float(2 * free @ left - free @ free)
        total += float(left @ left)
    return float(np.mean(scores)), gained / total if total > 0 else 0.0


def without_lines(log: Log, values: np.ndarray) -> np.ndarray:
    """What least squares on the features, action by action, leaves of values (n,): orthogonal to every feature."""
    left = np.zeros(log.n_rows)
    for action in np.flatnonzero(log.counts):
        rows = np.flatnonzero(log.actions == action)
        x, y = log.contexts[rows], values[rows]
        if len(rows) > log.n_features:  # fewer are explained whatever they are
            left[rows] = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    return left


def _widened(log: Log) -> np.ndarray:
    """N_a/(N_a − d) for each row, (n,): residuals are smaller than the noise, because lines were fitted to them."""
    counts = log.counts[log.actions]
    return counts / np.maximum(counts - log.n_features, 1)


def _by_kernel(log: Log, residuals: np.ndarray, other: Log, *, seed: int) -> np.ndarray:
    """Ridge regression on Nyström features, action by action."""
    standard = _standardised(log.contexts)
    kernel = Kernel.fit(standard(log.contexts), LANDMARKS, seed)
    known, asked = kernel(standard(log.contexts)), kernel(standard(other.contexts))
    guess = np.zeros(other.n_rows)
    for action in np.flatnonzero(log.counts):
        phi, wanted = known[log.actions == action], other.actions == action
        gram = phi.T @ phi + RIDGE * np.eye(phi.shape[1])
        guess[wanted] = asked[wanted] @ np.linalg.solve(gram, phi.T @ residuals[log.actions == action])
    return guess


def _by_trees(log: Log, residuals: np.ndarray, other: Log, *, seed: int) -> np.ndarray:
    """Boosted trees, action by action."""
    taught = replace(log, rewards=residuals)
    trees = grow(taught, ROUNDS, binary=False, seed=seed, purpose="the boosted test of linearity")
    return trees.scores(other.contexts)[np.arange(other.n_rows), other.actions]


def _standardised(contexts: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Takes features to mean 0 and deviation 1, as these contexts (n, d) have them; constant ones to 0."""
    centre, spread = contexts.mean(axis=0), contexts.std(axis=0)
    scale = np.where(spread > 0, spread, np.inf)
    return lambda x: np.asarray((x - centre) / scale)


def sample(log: AnyLog, most: int = MOST_ROWS) -> Log:
    """At most so many of a log's rows, at random."""
    return rows_of(log).lean().sample(most)


def fit_sentence(log: Log) -> str:
    """What the kernel's part of the test says of (a sample of) a log, in words for a promise or a note."""
    try:
        return f"the log shows {lack_of_fit(sample(log), boosted=False)}"
    except InputError:
        return "the log has too few rows to test whether rewards are linear"
