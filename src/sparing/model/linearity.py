"""Linearity of the rewards: a lack-of-fit test, notes, and kernel features chosen by evidence.

The test predicts the residuals of the linear model. Contexts are split into two halves. A flexible model is fitted to
the residuals of one half. From its prediction g for the other half, the linear part is removed by least squares for each
action: ĝ = g − x·c_a, so that Σ ĝ_i·x_i = 0 over an action's rows. If rewards are linear, Σ ĝ_i·r_i is a sum of noise, and
    z = Σ ĝ_i·r_i / sqrt(Σ ĝ_i²·e_i²)
is asymptotically standard normal given the first half; e are the half's own residuals, times sqrt(N_a/(N_a − d)). The
halves are then exchanged. The mean of the two z has variance at most 1 for any dependence, so the test keeps its level.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from sparing.errors import InputError, LogError, MissingExtraError, SettingError
from sparing.log import Log
from sparing.log.features.encoder import KERNEL
from sparing.log.features.kernel import Nystroem, NystroemMap
from sparing.log.labels import truncate
from sparing.log.rows import AnyLog, as_rows
from sparing.model.boosting import grow
from sparing.model.crossfitting import Folds
from sparing.model.prior import blocks_of, evidence_of
from sparing.model.statistics import Statistics, ridge_regression
from sparing.validation import fraction

LEVEL = 0.01  # p-value below which the linear model is rejected
LANDMARKS, RIDGE = 64, 1.0  # of the kernel regression, whose features have Σφ² ≤ 1
MOST_ROWS = 2048  # rows tested for a guarantee or a note
ROUNDS = 20  # trees per action of the boosted model
CONSTANT = 1e-3  # a constant is in the span of the features if at most this share of it is unexplained
Z_THRESHOLD = 6.0  # standard errors from 0 at which a mean residual is reported
LEAST_ROWS = 20
MAX_SCALE_RATIO = 1e3  # largest ratio of feature sizes for one ridge
CHOICES = (0, 64, 128)  # candidate numbers of landmarks

# Fits residuals (n,) of a log and predicts those of another's rows, (m,).
Predictor = Callable[[Log, np.ndarray, Log], np.ndarray]


@dataclass(frozen=True)
class LackOfFit:
    """z-values of the `kernel` and `boosted` tests (the latter None without scikit-learn), and their joint p-value.

    explained is the held-out share of the squared residuals that the better of the two predicts, at least 0.
    """

    kernel: float
    boosted: float | None
    p_value: float
    explained: float
    level: float

    @property
    def found(self) -> bool:
        """Whether the test rejects the linear model."""
        return self.p_value < self.level

    def __str__(self) -> str:
        if not self.found:
            return f"no sign that rewards are not linear in the features (p = {self.p_value:.2g})"
        return (
            f"that rewards are NOT linear in the features (p = {self.p_value:.2g}): {self.explained:.1%} of the linear "
            "model's squared residuals can be predicted, so its errors are larger than estimated; try kernel='auto'"
        )


def lack_of_fit(log: Log, *, level: float = LEVEL, boosted: bool | None = None) -> LackOfFit:
    """Test whether a log's rewards are linear in the features.

    Kernel regression and, if scikit-learn is installed (`boosted=None`), boosted trees predict the residuals of the linear
    model; the p-value is twice the smaller of theirs.
    """
    fraction("level", level)
    if log.n_contexts < 2 or log.n_rows < 4 * log.n_features:
        raise LogError(
            f"a log of {log.n_rows} rows and {log.n_contexts} contexts; the test needs at least two contexts and "
            f"four rows for each of {log.n_features} features"
        )
    fold_of = Folds.of(log, 2).assign_folds(log)
    halves = log.take(fold_of == 0), log.take(fold_of == 1)
    kernel = _tested(halves, _by_kernel)
    trees = None
    if boosted is not False:
        try:
            trees = _tested(halves, _by_trees)
        except MissingExtraError:
            if boosted:
                raise
    both = [kernel] if trees is None else [kernel, trees]
    p_value = min(1.0, len(both) * float(ndtr(-max(z for z, _ in both))))
    explained = max(0.0, *(gain for _, gain in both))
    return LackOfFit(kernel[0], None if trees is None else trees[0], p_value, explained, level)


def _tested(halves: tuple[Log, Log], predict: Predictor) -> tuple[float, float]:
    """Mean z of the two directions, and the predicted share of the squared residuals."""
    scores, gained, total = [], 0.0, 0.0
    for one, other in (halves, halves[::-1]):
        guess = predict(one, linear_residuals(one, one.rewards), other)
        free, left = linear_residuals(other, guess), linear_residuals(other, other.rewards)
        counts = other.counts[other.actions]
        widened = counts / np.maximum(
            counts - other.n_features, 1
        )  # fitted residuals are smaller than the noise
        error = float(np.sqrt((free**2 * widened) @ (left**2)))
        scores.append(float(free @ left) / error if error > 0 else 0.0)
        gained += float(2 * free @ left - free @ free)
        total += float(left @ left)
    return float(np.mean(scores)), gained / total if total > 0 else 0.0


def linear_residuals(log: Log, values: np.ndarray) -> np.ndarray:
    """Residuals of values (n,) after least squares on the features for each action."""
    left = np.zeros(log.n_rows)
    for action in np.flatnonzero(log.counts):
        rows = np.flatnonzero(log.actions == action)
        x, y = log.contexts[rows], values[rows]
        if len(rows) > log.n_features:  # fewer are always fitted exactly
            left[rows] = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    return left


def _by_kernel(log: Log, residuals: np.ndarray, other: Log) -> np.ndarray:
    """Ridge regression on Nyström features, for each action."""
    centre, spread = log.contexts.mean(axis=0), log.contexts.std(axis=0)
    scale = np.where(spread > 0, spread, np.inf)  # constant features become 0
    standard = (log.contexts - centre) / scale
    kernel = NystroemMap.fit(standard, LANDMARKS, 0)
    known, asked = kernel(standard), kernel((other.contexts - centre) / scale)
    guess = np.zeros(other.n_rows)
    for action in np.flatnonzero(log.counts):
        phi, wanted = known[log.actions == action], other.actions == action
        gram = phi.T @ phi + RIDGE * np.eye(phi.shape[1])
        guess[wanted] = asked[wanted] @ np.linalg.solve(gram, phi.T @ residuals[log.actions == action])
    return guess


def _by_trees(log: Log, residuals: np.ndarray, other: Log) -> np.ndarray:
    fitted_to = replace(log, rewards=residuals)
    trees = grow(fitted_to, ROUNDS, binary=False, purpose="the boosted test of linearity")
    return trees.scores(other.contexts)[np.arange(other.n_rows), other.actions]


def sample(log: AnyLog, most: int = MOST_ROWS) -> Log:
    """Return at most this many random rows of a log."""
    return as_rows(log).select(support=False).sample(most)


def fit_sentence(log: Log) -> str:
    """Result of the kernel test on a sample of a log, as a clause for a guarantee or a note."""
    try:
        return f"the log shows {lack_of_fit(sample(log), boosted=False)}"
    except InputError:
        return "the log has too few rows to test whether rewards are linear"


def linear_notes(log: Log, sums: Statistics, ridge: float) -> Iterator[str]:
    """Yield a sentence for each sign that a linear model does not fit."""
    yield from missing_intercept_note(log, sums, ridge)
    yield from scale_note(log)
    try:
        found = lack_of_fit(sample(log), boosted=False)
    except InputError:  # too few rows
        return
    if found.found:
        yield f"The log shows {found}"


def scale_note(log: Log) -> Iterator[str]:
    """Yield a note if raw features have sizes too different for one ridge."""
    sizes = np.sqrt(np.einsum("ij,ij->j", log.contexts, log.contexts) / max(1, log.n_rows))
    there = np.flatnonzero(sizes)
    if not log.encoder.is_raw or not len(there) or sizes[there].max() <= MAX_SCALE_RATIO * sizes[there].min():
        return
    small, large = there[sizes[there].argmin()], there[sizes[there].argmax()]
    yield (
        f"The features have different sizes ({truncate(log.feature_names[small])} about {sizes[small]:.2g}, "
        f"{truncate(log.feature_names[large])} about {sizes[large]:.2g}) and are not scaled: linear models learn the "
        "small ones slowly. Read the log with features='auto', which standardises them"
    )


def missing_intercept_note(log: Log, sums: Statistics, ridge: float) -> Iterator[str]:
    """Yield a note if no combination of features is constant and an action's mean residual is not 0."""
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
    if distance[worst] > Z_THRESHOLD:
        yield (
            "No combination of the features is constant, so linear models cannot fit the mean level of the "
            f"rewards (residuals of action {log.action_names[worst]!r} average {means[worst]:.3g}, "
            f"{distance[worst]:.0f} standard errors from 0). Add a constant feature"
        )


def with_kernel(log: Log, kernel: int | str | Nystroem = "auto") -> Log:
    """Add Nyström kernel features to a log.

    Learners and policies trained on the result take the same raw columns or contexts as before.

    Parameters
    ----------
    log : Log
        A log without kernel features.
    kernel : int, "auto" or Nystroem
        Number of landmarks (0 adds none), or a map from `nystroem`. "auto" chooses 0, 64 or 128 landmarks by evidence.

    Returns
    -------
    Log
        The log with longer contexts, and an encoder that computes the new features.

    Raises
    ------
    SettingError
        If the log has kernel features already, or `kernel` is not allowed.

    Examples
    --------
    >>> log = sparing.with_kernel(log, 128)
    """
    if log.encoder.kernel is not None:
        raise SettingError("the log has kernel features already; leave kernel out")
    if kernel == "auto":
        return _of_most_evidence(log)
    if isinstance(kernel, Nystroem):
        return _extended(log, kernel)
    if isinstance(kernel, str | bool):
        raise SettingError(f"kernel={kernel!r}; must be 'auto', a number of landmarks such as 128, or 0")
    return _extended(log, Nystroem(kernel)) if kernel else log


def _extended(log: Log, choice: Nystroem) -> Log:
    from sparing.log.features.fitting import with_kernel as add_kernel_features  # PyArrow

    encoder = add_kernel_features(log.encoder, log.contexts, choice)
    return replace(log, contexts=encoder.completed(log.contexts), encoder=encoder)


def _of_most_evidence(log: Log) -> Log:
    """Return the log with the number of landmarks of the highest evidence.

    All candidates have the same blocks of linear features: the evidence depends on the width of the nearly flat column of W,
    which is set by block, so other blocks would change it by as much as a kernel does.
    """
    linear = blocks_of(Statistics.of(log), None if log.encoder.is_raw else log.encoder.blocks)
    own = [linear.names[block] for block in linear.of]
    best, most, last = log, -np.inf, None
    for landmarks in CHOICES:
        each = _extended(log, Nystroem(landmarks)) if landmarks else log
        sums = Statistics.of(each)
        blocks = blocks_of(sums, [*own, *[KERNEL] * (each.n_features - len(own))])
        last = evidence_of(sums, blocks=blocks, near=last)
        if last.value > most:
            best, most = each, last.value
    return best
