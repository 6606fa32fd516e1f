"""Cross-fitted rewards and propensities: each row is predicted by a model fitted without its context."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from sparing.errors import SettingError
from sparing.hashing import GAMMA, mix64, row_keys
from sparing.interval import LEVEL
from sparing.log import Log
from sparing.log.log import group_hashes
from sparing.log.passes import Blocks, Statistic
from sparing.log.rows import AnyLog, Rows, as_rows
from sparing.log.sketches import smallest
from sparing.log.support import Support
from sparing.model.statistics import Statistics, Sums, ridge_regression
from sparing.validation import integer

# Root mean square distance of the parameters from the optimum, in standard errors, at which the fit stops; the loose one
# is for more than LARGE (row, action) pairs.
TOLERANCE, LOOSE_TOLERANCE = 0.01, 0.1
LARGE = 2**20
ITERATIONS = 200
# Multiplications per block: the odds stay in the cache, and BLAS uses one thread. More threads would cost more than they
# save, and the rounding would depend on their number.
PRODUCTS = 2**18
LEAST = 1e-3  # added to the variance of each feature, against collinear ones


def fit_log_odds(contexts: np.ndarray, actions: np.ndarray, n_actions: int) -> tuple[np.ndarray, np.ndarray]:
    """θ (K, d) and offsets (K,) that minimise −Σ_i log softmax(θx_i + offset)_{a_i} + ½ Σ_a ‖spread·θ_a‖².

    contexts (n, d), actions (n,) in [0, K); every action must occur. L-BFGS starts from the shares of the actions, with
    whitened features and each action's parameters in units of their standard errors, so that the curvature is about 1. The
    offsets, the first column of the weights (K, 1 + d), are not penalised.
    """
    from scipy.optimize import minimize  # slow to import

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
    unit = 1 / np.sqrt(counts * (1 - counts / n) + 1)[:, None]
    taken = np.zeros_like(start)
    for column, values in enumerate(design.T):
        taken[:, column] = np.bincount(actions, values, n_actions)
    penalty = whitener.T @ whitener
    narrow, size = design.astype(np.float32), np.inf
    close = LOOSE_TOLERANCE if n * n_actions > LARGE else TOLERANCE

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
    weights = found.reshape(start.shape) * unit
    theta = weights[:, 1:] @ whitener.T / spread
    return theta, weights[:, 0] - theta @ center


def _log_sums(design: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
    """Σ_i log Σ_a exp(weights_a·z_i) and its gradient (K, d); design (n, d) and odds are float32.

    The rounding errors, about 10⁻⁷ of a row's value, are far below a parameter's standard error.
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


FOLD_CONTEXTS = 4096  # distinct contexts whose hashes set the cut points of the folds
TRAINING_CELLS = 4_000_000  # most (row, action) pairs that one model is fitted to,
TRAINING_ROWS = 50_000  # and most rows
CHECKED_CELLS = 1_000_000  # most (row, action) pairs for calibration,
TEMPERATURE_CELLS = 2**18  # and for the temperature
SMALLEST = 1e-12  # least propensity
BINS = 20  # equally filled bins of predicted propensities


@dataclass(frozen=True, eq=False)
class Folds:
    """Folds of contexts for cross-fitting, the same for a log in memory and for one that is scanned.

    A context is in the fold whose number is the count of cut points at or below its hash. The cut points are quantiles of
    the hashes of the `FOLD_CONTEXTS` distinct contexts with the smallest keys: up to as many contexts the folds are exactly
    balanced, beyond that each has its share of the contexts to within about 0.6 %. One more row changes at most one of them.
    cuts (F − 1,) are the cut points, ascending.
    """

    cuts: np.ndarray
    seed: int

    @classmethod
    def of(cls, log: AnyLog, folds: int, seed: int = 0) -> "Folds":
        """Compute the folds of a log's contexts in one pass; at most as many as there are contexts."""
        return cls.from_keys(as_rows(log).select(support=False).fold(ContextKeys(seed)), folds, seed)

    @classmethod
    def from_keys(cls, keys: np.ndarray, folds: int, seed: int) -> "Folds":
        """Compute the folds from the result of `ContextKeys`."""
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
        """Number of folds, F."""
        return len(self.cuts) + 1

    def assign_folds(self, block: Log) -> np.ndarray:
        """The fold of each row of a log, or of a block of it, (n,)."""
        return np.searchsorted(self.cuts, _positions(_context_keys(block, self.seed)), side="right")


class ContextKeys(Statistic[Log, np.ndarray]):
    """The `size` smallest keys of distinct contexts, ascending; by default `FOLD_CONTEXTS`."""

    def __init__(self, seed: int, size: int | None = None) -> None:
        self.seed, self.size = seed, size or FOLD_CONTEXTS

    def zero(self) -> np.ndarray:
        return np.empty(0, dtype=np.uint64)

    def update(self, state: np.ndarray, block: Log, first_row: int) -> np.ndarray:
        keys = _context_keys(block, self.seed)
        return self.merge(state, keys[keys < state[-1]] if len(state) == self.size else keys)

    def merge(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        keys = np.sort(np.concatenate([one, other]))  # np.unique is ten times slower where most differ
        return keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]][: self.size]


def _context_keys(block: Log, seed: int) -> np.ndarray:
    salt = mix64(np.array([seed + 1], dtype=np.uint64))
    return mix64(group_hashes(block) ^ salt)


def _positions(keys: np.ndarray) -> np.ndarray:
    # A second hash: whether a context is sampled must be independent of its fold.
    return mix64(keys ^ GAMMA)


class FoldSums(Statistic[Log, Any]):
    """The statistics of each fold's rows; without folds, a single one of all rows."""

    def __init__(self, rows: Rows, folds: Folds | None) -> None:
        self.sums, self.folds = Sums(rows), folds
        self.count = 1 if folds is None else folds.count

    def zero(self) -> Any:
        if self.sums.compiled:
            return self.sums.tiles(self.count)
        return tuple(self.sums.zero() for _ in range(self.count))

    def update(self, state: Any, block: Log, first_row: int) -> Any:
        fold_of = None if self.folds is None else self.folds.assign_folds(block)
        if self.sums.compiled:
            state.add(block.contexts, block.actions, block.rewards, fold_of)
            return state
        if fold_of is None:
            return (self.sums.update(state[0], block, first_row),)
        nothing = Support.unknown(block.n_rows, block.n_actions)
        plain = replace(block, support=nothing, propensities=None, context_ids=None)
        return tuple(
            self.sums.update(part, plain.take(fold_of == fold), first_row) for fold, part in enumerate(state)
        )

    def finish(self, state: Any) -> tuple[Statistics, ...]:
        if self.sums.compiled:
            return tuple(state.sums())
        return tuple(self.sums.finish(part) for part in state)

    def merge(self, one: tuple[Statistics, ...], other: tuple[Statistics, ...]) -> tuple[Statistics, ...]:
        return tuple(self.sums.merge(*parts) for parts in zip(one, other, strict=True))


def leave_one_fold_out(sums: Sequence[Statistics]) -> list[Statistics]:
    """Return for each fold the statistics of all rows outside it."""
    zero = Statistics.zero(sums[0].n_actions, sums[0].n_features)
    return [sum((*sums[:fold], *sums[fold + 1 :]), zero) for fold in range(len(sums))]


def out_of_fold(
    fold_of: np.ndarray, n_actions: int, predict: Callable[[int, np.ndarray], np.ndarray]
) -> np.ndarray:
    """Predictions of rows, (n, K), each by the model of its fold: `predict` takes a fold and the places (m,) of its rows."""
    table = np.empty((len(fold_of), n_actions))
    for fold in range(int(fold_of.max(initial=-1)) + 1):
        held = np.flatnonzero(fold_of == fold)
        table[held] = predict(fold, held)
    return table


def reward_parameters(sums: Statistics, ridge: float) -> np.ndarray:
    """Ridge estimates (K, d); an action without rows has the mean of the others, so it is never the best."""
    theta = ridge_regression(sums, ridge)
    seen = sums.counts > 0
    if seen.any():
        theta[~seen] = theta[seen].mean(axis=0)
    return theta


def errors_up_to_scale(rewards: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """(r − α − β·p)² of each row, (n,), with the α and β ≥ 0 that minimise their mean."""
    r, p = rewards - rewards.mean(), predicted - predicted.mean()
    square = float(p @ p)
    scale = max(float(p @ r) / square, 0.0) if square > 0 else 0.0
    return (r - scale * p) ** 2


def stacking_weights(rewards: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """w ≥ 0 (m,) that minimise the mean (r − α − Σ_j w_j·p_j)² for predictions (n, m); equal weights if all are 0."""
    from scipy.optimize import nnls  # slow to import

    weights: np.ndarray = nnls(predicted - predicted.mean(axis=0), rewards - rewards.mean())[0]
    return weights if weights.any() else np.full(predicted.shape[1], 1 / predicted.shape[1])


@dataclass(frozen=True, eq=False)
class PropensityFit:
    """One linear model of the log-odds for each fold: theta (F, K, d), offset (F, K), −inf for an action without rows.

    `checked` are the rows, in the order of their keys, that set the temperature and measure the calibration. tried (K,):
    whether an action has any row.
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
        """Return the same models for other rows of the log, with their folds (n,)."""
        return replace(self, log=log, fold_of=fold_of, checked=np.empty(0, dtype=np.int64))

    def table(self, rows: np.ndarray) -> np.ndarray:
        """μ̂(a|x) of these rows, (rows, K), by the model of each row's fold."""
        return special.softmax(self._held_out_scores(rows) / self.temperature, axis=1)

    @cached_property
    def logged(self) -> np.ndarray:
        """μ̂(a_i|x_i) of the logged actions, (n,)."""
        log, logged = self.log, np.empty(self.log.n_rows)
        for block in Blocks.of(log.n_rows, log.n_actions):
            rows = np.arange(block.start, block.stop)
            logged[block] = self.table(rows)[np.arange(len(rows)), log.actions[block]]
        return np.maximum(logged, SMALLEST)

    @cached_property
    def calibration(self) -> "Calibration":
        return calibration(self.table(self.checked), self.log.actions[self.checked])

    @cached_property
    def relative_error(self) -> float:
        """Median, over rows, of a propensity's standard error divided by it.

        The error is the jackknife's, (F−1)/F·Σ_f (p_f − p̄)² over the models without fold f.
        """
        mean, spread = self._jackknife
        return float(np.median(spread / mean))

    def jackknife_error(self, terms: np.ndarray) -> tuple[float, float]:
        """Standard error and bias of mean(terms/μ̂) due to the fit, for terms (n,).

        Both by the jackknife over folds. Because 1/μ̂ is convex, the bias is mean(terms/μ̂·(deviation/μ̂)²).
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
        """Return the fit at the temperature that maximises the likelihood of the checked rows."""
        from scipy.optimize import minimize_scalar  # slow to import

        rows = self.checked[: max(1000, TEMPERATURE_CELLS // self.log.n_actions)]
        scores = self._held_out_scores(rows)
        picked = scores[np.arange(len(scores)), self.log.actions[rows]]

        odds = np.empty_like(scores)

        def negative_log_likelihood(log_temperature: float) -> float:
            # As scipy.special.logsumexp, which takes thrice the time: the largest apart from the sum of the others.
            cooling = float(np.exp(-log_temperature))
            np.multiply(scores, cooling, out=odds)
            top = odds.max(axis=1)
            largest = odds == top[:, None]
            np.subtract(odds, top[:, None], out=odds)
            np.exp(odds, out=odds)
            odds[largest] = 0.0
            times = largest.sum(axis=1)
            total = np.log1p(odds.sum(axis=1) / times) + np.log(times) + top
            return float((total - picked * cooling).mean())

        best = minimize_scalar(negative_log_likelihood, bounds=(-2.0, 3.0), method="bounded").x
        return replace(self, temperature=float(np.exp(best)))

    def _held_out_scores(self, rows: np.ndarray) -> np.ndarray:
        own = self.fold_of[rows]
        return out_of_fold(own, self.log.n_actions, lambda fold, held: self._scores(rows[held], fold))

    def _scores(self, rows: np.ndarray, fold: int) -> np.ndarray:
        """Log-odds by one fold's model; an action without rows in it counts as if it had one."""
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
    """Fit μ̂(a|x); each row is predicted by a model fitted without its context, unless there is only one.

    Never-logged actions and actions outside a row's known support have probability 0. One temperature, which maximises the
    likelihood of the logged actions, calibrates the scores.

    If the log is a sample, `folds`, `tried` (K,) (whether an action has rows) and `keys` (n,) (of the sampling) are those of the
    longer log. If there are too many rows to fit, those with the smallest keys are used.
    """
    keys = row_keys(np.arange(log.n_rows)) if keys is None else keys
    tried = log.counts > 0 if tried is None else tried
    checked = smallest(keys, max(1, CHECKED_CELLS // log.n_actions))
    if not isinstance(folds, Folds) and log.n_contexts == 1:
        return _shares_of_actions(log, min(folds, log.n_rows), seed, checked, tried)
    folds = folds if isinstance(folds, Folds) else Folds.of(log, folds, seed)
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
    return PropensityFit(log, fold_of, theta, offset, rows_trained, checked, tried).temperature_scaled()


def _shares_of_actions(
    log: Log, folds: int, seed: int, checked: np.ndarray, tried: np.ndarray
) -> PropensityFit:
    """The fit to a log of one context: the shares of the actions in the other folds of rows."""
    fold_of = np.random.default_rng([seed, 32]).permutation(log.n_rows) % folds
    held = np.stack([np.bincount(log.actions[fold_of == f], minlength=log.n_actions) for f in range(folds)])
    with np.errstate(divide="ignore"):
        offset = np.log((log.counts - held) / log.n_rows)
    theta = np.zeros((folds, log.n_actions, log.n_features))
    rows = int((log.n_rows - held.sum(axis=1)).min())
    return PropensityFit(log, fold_of, theta, offset, rows, checked, tried).temperature_scaled()


class Calibration(NamedTuple):
    """Mean |predicted − observed share| over (row, action) pairs of positive probability, in equally filled bins.

    bins (bins, 4): mean prediction, observed share, and the limits of its 95 % interval.
    """

    error: float
    bins: np.ndarray


def calibration(chances: np.ndarray, actions: np.ndarray) -> Calibration:
    """Compare predictions (n, K) with the logged actions (n,)."""
    happened = np.zeros(chances.shape, dtype=bool)
    happened[np.arange(len(actions)), actions] = True
    order = np.argsort(chances, axis=None)
    order = order[chances.ravel()[order] > 0]
    bins = [part for part in np.array_split(order, BINS) if len(part)]
    predicted = np.array([chances.ravel()[part].mean() for part in bins])
    hits = np.array([happened.ravel()[part].sum() for part in bins])
    sizes = np.array([len(part) for part in bins])
    low, high = share_limits(hits, sizes, (1 + LEVEL) / 2)
    observed = hits / sizes
    error = float((np.abs(predicted - observed) * sizes).sum() / sizes.sum())
    return Calibration(error, np.column_stack([predicted, observed, low, high]))


def share_limits(hits: np.ndarray, sizes: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Clopper–Pearson: one-sided lower and upper limits of the share hits/sizes."""
    from scipy.stats import beta  # slow to import

    hits, sizes = np.asarray(hits, dtype=float), np.asarray(sizes, dtype=float)
    with np.errstate(invalid="ignore"):
        low = np.where(hits > 0, beta.ppf(1 - confidence, hits, sizes - hits + 1), 0.0)
        high = np.where(hits < sizes, beta.ppf(confidence, hits + 1, sizes - hits), 1.0)
    return low, high
