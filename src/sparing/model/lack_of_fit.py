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

from sparing.errors import LogError, MissingExtraError
from sparing.log import Log
from sparing.model.boosting import grow
from sparing.model.crossfitting import context_folds
from sparing.settings import share

LEVEL = 0.01
"""Below this p-value the linear model is said to be wrong."""

LANDMARKS, WIDTH, RIDGE = 64, 0.7, 1.0
"""Of the kernel block: points, width in median distances, and ridge beside features with Σφ² ≤ 1."""

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
            f"rewards are not linear in the features (p = {self.p_value:.2g}): {self.explained:.1%} of what the "
            "linear model leaves can be predicted. Its errors are larger than it says; add features, or a kernel"
        )


def lack_of_fit(log: Log, *, level: float = LEVEL, boosted: bool | None = None, seed: int = 0) -> LackOfFit:
    """Test whether rewards are linear in the features, from a log alone.

    A kernel block and, where scikit-learn is installed (`boosted=None`), boosted trees try to predict what the
    linear model leaves; the p-value is twice the smaller of theirs.
    """
    share("level", level)
    if log.n_contexts < 2 or log.n_rows < 4 * log.n_features:
        raise LogError(
            f"a log of {log.n_rows} rows, {log.n_contexts} contexts; the test needs two halves of contexts and "
            f"at least four rows for each of {log.n_features} features"
        )
    fold_of = context_folds(log, 2, seed)
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
    features = nystroem(log.contexts, LANDMARKS, seed)
    known, asked = features(log.contexts), features(other.contexts)
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


def nystroem(contexts: np.ndarray, landmarks: int, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    """Features φ with φ(x)·φ(x') ≈ exp(−‖x − x'‖²/2w²), as a function of contexts (n, d) → (n, m).

    x is standardised; landmarks are drawn by k-means++ from the contexts, w is 0.7 of the median distance
    between them, and φ(x) = k(x, L)·k(L, L)^−½.
    """
    centre, spread = contexts.mean(axis=0), contexts.std(axis=0)
    scale = np.where(spread > 0, spread, np.inf)
    points = _spread_out((contexts - centre) / scale, landmarks, np.random.default_rng([seed, 31]))
    apart = _squared(points, points)
    width = WIDTH * np.sqrt(np.median(apart[np.triu_indices(len(points), 1)])) if len(points) > 1 else 1.0
    values, vectors = np.linalg.eigh(np.exp(-apart / (2 * width**2)))
    root = vectors / np.sqrt(np.maximum(values, 1e-10))
    return lambda x: np.exp(-_squared((x - centre) / scale, points) / (2 * width**2)) @ root


def _spread_out(points: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Up to so many distinct points, each drawn by its squared distance from those before it (k-means++)."""
    chosen = [int(rng.integers(len(points)))]
    nearest = _squared(points, points[chosen])[:, 0]
    while len(chosen) < most and nearest.max() > 1e-12:
        chosen.append(int(rng.choice(len(points), p=nearest / nearest.sum())))
        nearest = np.minimum(nearest, _squared(points, points[chosen[-1:]])[:, 0])
    return points[chosen]


def _squared(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Squared distances, (n, m)."""
    apart = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1) - 2 * one @ other.T
    return np.maximum(apart, 0.0)
