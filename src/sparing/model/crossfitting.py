"""Rewards and propensities learnt from the log itself: each row by a model that has not seen its context."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from sparing.errors import SettingError
from sparing.hashing import GAMMA, mix64, row_keys
from sparing.log import Log
from sparing.log.blocks import Blocks
from sparing.log.hashing import group_hashes
from sparing.log.passes import Statistic
from sparing.log.rows import AnyLog, Rows, as_rows
from sparing.log.sampling import smallest
from sparing.log.support import Support
from sparing.model.statistics import Statistics, Sums, ridge_regression
from sparing.validation import integer

CLOSE, CLOSE_ENOUGH = 0.01, 0.1
"""The fit ends where parameters are this share of their standard errors from the best, in the quadratic mean; the second
holds for a fit of more than `LARGE` (row, action) pairs."""

LARGE = 2**20

ITERATIONS = 200

PRODUCTS = 2**18
"""Multiplications at a time: the odds stay in the cache, and BLAS does not share them out among threads, which costs more
than it saves and rounds differently with their number."""

LEAST = 1e-3
"""Added to a feature's variance, so that equal features do no harm."""


def fit_log_odds(contexts: np.ndarray, actions: np.ndarray, n_actions: int) -> tuple[np.ndarray, np.ndarray]:
    """θ (K, d) and offsets (K,) that minimise −Σ_i log softmax(θx_i + offset)_{a_i} + ½ Σ_a ‖spread·θ_a‖².

    contexts (n, d), actions (n,) in [0, K), each of which occurs. Features are taken at the spread
    that they have here. By L-BFGS from the actions' shares, in coordinates in which the curvature there is 1:
    features without correlation, an action's parameters in units of their standard errors.
    """
    n, d = contexts.shape
    center, spread = contexts.mean(axis=0), contexts.std(axis=0)
    spread = np.where(spread > 0, spread, 1)
    standard = (contexts - center) / spread
    root = np.linalg.cholesky(standard.T @ standard / n + LEAST * np.eye(d))
    whitener = np.linalg.inv(root).T
    design = np.column_stack([np.ones(n), standard @ whitener])
    counts = np.bincount(actions, minlength=n_actions)
    start = np.zeros((n_actions, d + 1))
    start[:, 0] = np.log(counts) - np.log(counts).mean()
    weights = _minimised(design, actions, counts, start, whitener.T @ whitener)
    theta = weights[:, 1:] @ whitener.T / spread
    return theta, weights[:, 0] - theta @ center


def _minimised(
    design: np.ndarray, actions: np.ndarray, counts: np.ndarray, start: np.ndarray, penalty: np.ndarray
) -> np.ndarray:
    """Weights (K, 1 + d) on the columns of the design (n, 1 + d), the first of which is 1 and not penalised."""
    from scipy.optimize import minimize  # slow to import

    unit = 1 / np.sqrt(counts * (1 - counts / len(actions)) + 1)[:, None]
    taken = np.zeros_like(start)
    for column, values in enumerate(design.T):
        taken[:, column] = np.bincount(actions, values, len(start))
    narrow, size = design.astype(np.float32), np.inf
    close = CLOSE_ENOUGH if len(design) * len(start) > LARGE else CLOSE

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal size
        weights = flat.reshape(start.shape) * unit
        value, gradient = _log_sums(narrow, weights)
        penalised = weights[:, 1:] @ penalty
        gradient -= taken
        gradient[:, 1:] += penalised
        value += float((weights[:, 1:] * penalised).sum()) / 2 - float((weights * taken).sum())
        gradient *= unit
        size = float(np.sqrt(np.square(gradient).mean()))
        return value, gradient.ravel()

    def ended(intermediate_result: Any) -> None:
        if size <= close:
            raise StopIteration

    options: Any = {"maxiter": ITERATIONS, "gtol": 0.0, "ftol": 0.0, "maxcor": 20}
    begin = (start / unit).ravel()
    found = minimize(loss, begin, jac=True, method="L-BFGS-B", callback=ended, options=options).x
    weights: np.ndarray = found.reshape(start.shape) * unit
    return weights


def _log_sums(design: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
    """Σ_i log Σ_a exp(weights_a·z_i) and its gradient (K, d); design (n, d) and the odds in single precision.

    Their errors are of the order of 10⁻⁷ of a row's and add up like noise: far below a parameter's standard error.
    """
    total, gradient, narrow = 0.0, np.zeros(weights.shape), weights.T.astype(np.float32)
    size = max(1, PRODUCTS // weights.size)
    for first in range(0, len(design), size):
        z = design[first : first + size]
        odds = z @ narrow
        top = odds.max(axis=1)
        odds -= top[:, None]
        np.exp(odds, out=odds)
        sums = odds.sum(axis=1)
        total += float(top.sum(dtype=np.float64) + np.log(sums).sum(dtype=np.float64))
        gradient += odds.T @ (z / sums[:, None])
    return total, gradient


FOLD_CONTEXTS = 4096
"""Distinct contexts whose hashes tell where folds are cut."""

TRAINING_CELLS = 4_000_000
"""(row, action) pairs that one model is trained on, at most, and never on more than `TRAINING_ROWS` rows."""

TRAINING_ROWS = 50_000

CHECKED_CELLS = 1_000_000
"""(row, action) pairs on which the fit is calibrated and judged, at most."""

TEMPERATURE_CELLS = 2**18
"""Of these, as many set the temperature; a single number needs no more."""

SMALLEST = 1e-12
"""A propensity that is divided by is at least this."""

BINS = 20
"""Equally filled bins of predicted propensities in which predictions meet what happened."""

CONFIDENCE = 0.95
"""Of the interval around each bin's observed share."""


@dataclass(frozen=True, eq=False)
class Folds:
    """Folds of contexts for cross-fitting, the same for a log in memory and for one that is scanned.

    A context is in the fold whose number is the count of cut points at or below its hash. The cut points are quantiles of
    the hashes of the `FOLD_CONTEXTS` distinct contexts with the smallest keys: up to as many contexts the folds are exactly
    balanced, beyond that each has its share of the contexts to within about 0.6 %. One more row changes at most one of them.

    Attributes
    ----------
    cuts : ndarray of shape (F − 1,)
        Cut points, ascending.
    seed : int
        Other seeds give other folds.
    """

    cuts: np.ndarray
    seed: int

    @classmethod
    def of(cls, log: AnyLog, folds: int, seed: int = 0) -> "Folds":
        """The folds of a log's contexts, in one pass; as many as there are contexts where these are fewer."""
        return cls.from_keys(as_rows(log).select(support=False).fold(ContextKeys(seed)), folds, seed)

    @classmethod
    def from_keys(cls, keys: np.ndarray, folds: int, seed: int) -> "Folds":
        """The folds by what `ContextKeys` gathers."""
        integer("folds", folds, least=2)
        if len(keys) < 2:
            raise SettingError(
                f"folds={folds}; must be between 2 and the number of distinct contexts, {len(keys)}"
            )
        count = min(folds, len(keys))
        places = np.arange(1, count) * len(keys) // count
        return cls(np.sort(_positions(keys))[places], seed)

    @property
    def count(self) -> int:
        """How many folds there are, F."""
        return len(self.cuts) + 1

    def assign_folds(self, block: Log) -> np.ndarray:
        """The fold of each row of a log, or of a block of it, (n,)."""
        return np.searchsorted(self.cuts, _positions(_context_keys(block, self.seed)), side="right")


class ContextKeys(Statistic[Log, np.ndarray]):
    """The smallest keys of distinct contexts, ascending; `FOLD_CONTEXTS` of them at most."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def zero(self) -> np.ndarray:
        return np.empty(0, dtype=np.uint64)

    def update(self, state: np.ndarray, block: Log, first_row: int) -> np.ndarray:
        keys = _context_keys(block, self.seed)
        return self.merge(state, keys[keys < state[-1]] if len(state) == FOLD_CONTEXTS else keys)

    def merge(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        keys = np.sort(np.concatenate([one, other]))  # np.unique is ten times slower where most differ
        return keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]][:FOLD_CONTEXTS]


def _context_keys(block: Log, seed: int) -> np.ndarray:
    salt = mix64(np.array([seed + 1], dtype=np.uint64))
    return mix64(group_hashes(block) ^ salt)


def _positions(keys: np.ndarray) -> np.ndarray:
    # A second hash: which contexts are sampled must say nothing about the fold they are in.
    return mix64(keys ^ GAMMA)


class FoldSums(Statistic[Log, tuple[Any, ...]]):
    """The per-action sums of each fold's rows; without folds, those of all rows as the only ones."""

    def __init__(self, rows: Rows, folds: Folds | None) -> None:
        self.sums, self.folds = Sums(rows), folds

    def zero(self) -> tuple[Any, ...]:
        return tuple(self.sums.zero() for _ in range(1 if self.folds is None else self.folds.count))

    def update(self, state: tuple[Any, ...], block: Log, first_row: int) -> tuple[Any, ...]:
        if self.folds is None:
            return (self.sums.update(state[0], block, first_row),)
        fold_of = self.folds.assign_folds(block)
        nothing = Support.unknown(block.n_rows, block.n_actions)
        plain = replace(block, support=nothing, propensities=None, context_ids=None)
        return tuple(
            self.sums.update(part, plain.take(fold_of == fold), first_row) for fold, part in enumerate(state)
        )

    def finish(self, state: tuple[Any, ...]) -> tuple[Statistics, ...]:
        return tuple(self.sums.finish(part) for part in state)

    def merge(self, one: tuple[Statistics, ...], other: tuple[Statistics, ...]) -> tuple[Statistics, ...]:
        return tuple(self.sums.merge(*parts) for parts in zip(one, other, strict=True))


def leave_one_fold_out(sums: Sequence[Statistics]) -> list[Statistics]:
    """For each fold, the sums of all rows outside it."""
    zero = Statistics.zero(sums[0].n_actions, sums[0].n_features)
    return [sum((*sums[:fold], *sums[fold + 1 :]), zero) for fold in range(len(sums))]


def fitted_rewards(log: Log, *, ridge: float = 1.0, folds: int | None = None, seed: int = 0) -> np.ndarray:
    """r̂(x_i, a) for every row and action, (n, K).

    With `folds`, each row is predicted by a model that has not seen its context; an action without
    rows is predicted by the mean of the parameters of those with rows.
    """
    if folds is None:
        return log.contexts @ reward_parameters(Statistics.of(log), ridge).T
    predicted = np.empty((log.n_rows, log.n_actions))
    found = Folds.of(log, folds, seed)
    fold_of = found.assign_folds(log)
    sums_of_folds: tuple[Statistics, ...] = as_rows(log).fold(FoldSums(as_rows(log), found))
    for fold, sums in enumerate(leave_one_fold_out(sums_of_folds)):
        predicted[fold_of == fold] = log.contexts[fold_of == fold] @ reward_parameters(sums, ridge).T
    return predicted


def reward_parameters(sums: Statistics, ridge: float) -> np.ndarray:
    """Ridge estimates (K, d); an action without rows gets the mean of the others, so it never leads."""
    theta = ridge_regression(sums, ridge)
    seen = sums.counts > 0
    if seen.any():
        theta[~seen] = theta[seen].mean(axis=0)
    return theta


def errors_up_to_scale(rewards: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """(r − α − β·p)² of each row, (n,), with the α and the β ≥ 0 that make their mean least."""
    r, p = rewards - rewards.mean(), predicted - predicted.mean()
    square = float(p @ p)
    scale = max(float(p @ r) / square, 0.0) if square > 0 else 0.0
    errors: np.ndarray = (r - scale * p) ** 2
    return errors


def stacking_weights(rewards: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """w ≥ 0 (m,) at which the mean (r − α − Σ_j w_j·p_j)² is least, for predictions (n, m); all alike where none helps."""
    from scipy.optimize import nnls  # slow to import

    weights: np.ndarray = nnls(predicted - predicted.mean(axis=0), rewards - rewards.mean())[0]
    return weights if weights.any() else np.full(predicted.shape[1], 1 / predicted.shape[1])


@dataclass(frozen=True, eq=False)
class PropensityFit:
    """One linear model of the log-odds for each fold: theta (F, K, d), offset (F, K), −inf where unseen.

    `checked` are the rows, in the order of their keys, on which the temperature is set, and on which it is judged how far the
    propensities can be trusted. tried (K,): whether an action has any row.
    """

    log: Log
    fold_of: np.ndarray
    theta: np.ndarray
    offset: np.ndarray
    rows_trained: int
    checked: np.ndarray
    tried: np.ndarray
    temperature: float = 1.0

    def of_rows(self, log: Log, fold_of: np.ndarray) -> "PropensityFit":
        """The same models for other rows of the log they were fitted to, whose folds are these, (n,)."""
        return replace(self, log=log, fold_of=fold_of, checked=np.empty(0, dtype=np.int64))

    def table(self, rows: np.ndarray) -> np.ndarray:
        """μ̂(a|x) of these rows, (rows, K), each by the model of its own fold."""
        return special.softmax(self._held_out_scores(rows) / self.temperature, axis=1)

    @cached_property
    def logged(self) -> np.ndarray:
        """μ̂(a_i|x_i) of the logged actions, (n,), block by block."""
        log, logged = self.log, np.empty(self.log.n_rows)
        for block in Blocks.of(log.n_rows, log.n_actions):
            rows = np.arange(block.start, block.stop)
            logged[block] = self.table(rows)[np.arange(len(rows)), log.actions[block]]
        return np.maximum(logged, SMALLEST)

    @cached_property
    def calibration(self) -> "Calibration":
        """How well the propensities of the checked rows meet what happened."""
        return calibration(self.table(self.checked), self.log.actions[self.checked])

    @cached_property
    def relative_error(self) -> float:
        """Median, over rows, of a propensity's standard error divided by it.

        The error is the jackknife's, (F−1)/F·Σ_f (p_f − p̄)² over the models without fold f.
        """
        mean, spread = self._jackknife
        return float(np.median(spread / mean))

    def jackknife_error(self, terms: np.ndarray) -> tuple[float, float]:
        """What the fit's error does to mean(terms/μ̂), terms (n,): its standard error, and how far it lifts the mean.

        Both by the jackknife: the mean with the model of each fold in turn; and, since 1/μ̂ is convex,
        mean(terms/μ̂·(deviation/μ̂)²) of its lift.
        """
        at, folds = terms[self.checked], len(self.theta)
        means = (at / np.maximum(self._by_fold, 1e-6)).mean(axis=1)
        mean, spread = self._jackknife
        lift = float((at / np.maximum(mean, 1e-6) * np.minimum(spread / mean, 1) ** 2).mean())
        return float(np.sqrt((folds - 1) * np.var(means))), lift

    @cached_property
    def _by_fold(self) -> np.ndarray:
        """μ̂(a_i|x_i) of the checked rows by each fold's model, (F, rows)."""
        rows = self.checked
        at = (np.arange(len(rows)), self.log.actions[rows])
        each = (self._scores(rows, fold) / self.temperature for fold in range(len(self.theta)))
        return np.array([special.softmax(scores, axis=1)[at] for scores in each])

    @property
    def _jackknife(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean over the folds' models and the jackknife's standard error, sqrt((F−1)/F·Σ_f (p_f − p̄)²), (rows,)."""
        spread = np.sqrt((len(self.theta) - 1) * np.var(self._by_fold, axis=0))
        return self._by_fold.mean(axis=0), spread

    def temperature_scaled(self) -> "PropensityFit":
        """The same at the temperature at which the logged actions of the checked rows are most likely."""
        from scipy.optimize import minimize_scalar  # slow to import

        rows = self.checked[: max(1000, TEMPERATURE_CELLS // self.log.n_actions)]
        scores = self._held_out_scores(rows)
        picked = scores[np.arange(len(scores)), self.log.actions[rows]]

        def negative_log_likelihood(log_temperature: float) -> float:
            cooling = float(np.exp(-log_temperature))
            return float((special.logsumexp(scores * cooling, axis=1) - picked * cooling).mean())

        best = minimize_scalar(negative_log_likelihood, bounds=(-2.0, 3.0), method="bounded").x
        return replace(self, temperature=float(np.exp(best)))

    def _held_out_scores(self, rows: np.ndarray) -> np.ndarray:
        scores = np.empty((len(rows), self.log.n_actions))
        for fold in range(len(self.theta)):
            held = self.fold_of[rows] == fold
            scores[held] = self._scores(rows[held], fold)
        return scores

    def _scores(self, rows: np.ndarray, fold: int) -> np.ndarray:
        """Log-odds by one fold's model; an action it has not seen counts as one more row would."""
        scores = self.log.contexts[rows] @ self.theta[fold].T + self.offset[fold]
        unseen = (self.offset[fold] == -np.inf) & self.tried
        if unseen.any() and len(rows):
            total = special.logsumexp(scores, axis=1) - np.log(self.rows_trained)
            scores[:, unseen] = total[:, None]
        if self.log.support.known:
            scores[~self.log.support.mask(rows)] = -np.inf
        return scores


def fit_propensities(
    log: Log,
    *,
    folds: int | Folds = 5,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    tried: np.ndarray | None = None,
    keys: np.ndarray | None = None,
) -> PropensityFit:
    """μ̂(a|x): each row by a model that has not seen its context.

    An action that was never logged gets 0, and so does one outside a row's support where that is known.
    The scores are calibrated by one temperature, chosen to maximise the likelihood of the logged actions.

    Parameters
    ----------
    log : Log
        The rows, or a sample of those of a longer log; for such a sample `folds`, `tried` and `keys` are those of the longer log.
    folds : int or Folds
        How many, or which folds of contexts.
    seed : int
        Of the folds, where only their number is given.
    progress : callable, optional
        Called as progress(done, folds) after each fold.
    tried : ndarray of shape (K,), optional
        Whether each action has a row.
    keys : ndarray of shape (n,), optional
        Of the rows: those with the smallest keys are trained on and checked where there are too many.
    """
    folds = folds if isinstance(folds, Folds) else Folds.of(log, folds, seed)
    keys = row_keys(np.arange(log.n_rows)) if keys is None else keys
    fold_of = folds.assign_folds(log)
    theta = np.zeros((folds.count, log.n_actions, log.n_features))
    offset = np.full((folds.count, log.n_actions), -np.inf)
    most = min(TRAINING_ROWS, max(1, TRAINING_CELLS // log.n_actions))
    rows_trained = log.n_rows
    for fold in range(folds.count):
        rows = np.flatnonzero(fold_of != fold)
        rows = rows[np.sort(smallest(keys[rows], most))]
        rows_trained = min(rows_trained, len(rows))
        seen, places = np.unique(log.actions[rows], return_inverse=True)
        offset[fold, seen] = 0
        if len(seen) > 1:
            theta[fold, seen], offset[fold, seen] = fit_log_odds(log.contexts[rows], places, len(seen))
        if progress is not None:
            progress(fold + 1, folds.count)
    checked = smallest(keys, max(1, CHECKED_CELLS // log.n_actions))
    tried = log.counts > 0 if tried is None else tried
    return PropensityFit(log, fold_of, theta, offset, rows_trained, checked, tried).temperature_scaled()


class Calibration(NamedTuple):
    """Mean |predicted − observed share| over the (row, action) pairs with a chance, in equally filled bins.

    bins (bins, 4) has each one's mean prediction, observed share, and the limits of that share's 95 % interval.
    """

    error: float
    bins: np.ndarray


def calibration(chances: np.ndarray, actions: np.ndarray) -> Calibration:
    """Predictions (n, K) for n rows beside what was logged, (n,)."""
    happened = np.zeros(chances.shape, dtype=bool)
    happened[np.arange(len(actions)), actions] = True
    order = np.argsort(chances, axis=None)
    order = order[chances.ravel()[order] > 0]
    bins = [part for part in np.array_split(order, BINS) if len(part)]
    predicted = np.array([chances.ravel()[part].mean() for part in bins])
    hits = np.array([happened.ravel()[part].sum() for part in bins])
    sizes = np.array([len(part) for part in bins])
    low, high = share_limits(hits, sizes, (1 + CONFIDENCE) / 2)
    observed = hits / sizes
    error = float((np.abs(predicted - observed) * sizes).sum() / sizes.sum())
    return Calibration(error, np.column_stack([predicted, observed, low, high]))


def share_limits(hits: np.ndarray, sizes: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Clopper–Pearson: one-sided lower and upper limits of a share of which hits of sizes were seen."""
    from scipy.stats import beta  # slow to import

    hits, sizes = np.asarray(hits, dtype=float), np.asarray(sizes, dtype=float)
    with np.errstate(invalid="ignore"):
        low = np.where(hits > 0, beta.ppf(1 - confidence, hits, sizes - hits + 1), 0.0)
        high = np.where(hits < sizes, beta.ppf(confidence, hits + 1, sizes - hits), 1.0)
    return low, high


def effective_sample_size(weights: np.ndarray) -> float:
    """(Σw)²/Σw²; 0 where all weights are 0."""
    largest = float(weights.max(initial=0))
    if largest == 0:
        return 0.0
    scaled = weights / largest
    return float(scaled.sum() ** 2 / (scaled @ scaled))
