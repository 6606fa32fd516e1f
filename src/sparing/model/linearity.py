"""Whether rewards are linear: a lack-of-fit test, notes on what is wrong, and kernel features chosen by evidence.

The test asks whether what the linear model leaves of the rewards can be predicted from the contexts. Contexts are split into two halves. Something flexible learns, in one half, what the linear model leaves of the
rewards; in the other half its prediction g is freed of all that is linear, action by action: ĝ = g − x·c_a, c_a by
least squares, so that Σ ĝ_i·x_i = 0 over an action's rows. If rewards are linear, Σ ĝ_i·r_i is then a sum of
noise alone, and
    z = Σ ĝ_i·r_i / sqrt(Σ ĝ_i²·e_i²)
is standard normal for many rows, given the first half; e are the half's own residuals, widened by sqrt(N_a/(N_a − d)). The halves change places;
the mean of the two z has a variance of at most 1 however they depend on each other, so the test keeps its level.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

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
        guess = predict(one, linear_residuals(one, one.rewards), other)
        free, left = linear_residuals(other, guess), linear_residuals(other, other.rewards)
        error = float(np.sqrt((free**2 * _widened(other)) @ (left**2)))
        scores.append(float(free @ left) / error if error > 0 else 0.0)
        gained += float(2 * free @ left - free @ free)
        total += float(left @ left)
    return float(np.mean(scores)), gained / total if total > 0 else 0.0


def linear_residuals(log: Log, values: np.ndarray) -> np.ndarray:
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
    kernel = NystroemMap.fit(standard(log.contexts), LANDMARKS, seed)
    known, asked = kernel(standard(log.contexts)), kernel(standard(other.contexts))
    guess = np.zeros(other.n_rows)
    for action in np.flatnonzero(log.counts):
        phi, wanted = known[log.actions == action], other.actions == action
        gram = phi.T @ phi + RIDGE * np.eye(phi.shape[1])
        guess[wanted] = asked[wanted] @ np.linalg.solve(gram, phi.T @ residuals[log.actions == action])
    return guess


def _by_trees(log: Log, residuals: np.ndarray, other: Log, *, seed: int) -> np.ndarray:
    """Boosted trees, action by action."""
    fitted_to = replace(log, rewards=residuals)
    trees = grow(fitted_to, ROUNDS, binary=False, seed=seed, purpose="the boosted test of linearity")
    return trees.scores(other.contexts)[np.arange(other.n_rows), other.actions]


def _standardised(contexts: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Takes features to mean 0 and deviation 1, as these contexts (n, d) have them; constant ones to 0."""
    centre, spread = contexts.mean(axis=0), contexts.std(axis=0)
    scale = np.where(spread > 0, spread, np.inf)
    return lambda x: np.asarray((x - centre) / scale)


def sample(log: AnyLog, most: int = MOST_ROWS) -> Log:
    """At most so many of a log's rows, at random."""
    return as_rows(log).select(support=False).sample(most)


def fit_sentence(log: Log) -> str:
    """What the kernel's part of the test says of (a sample of) a log, in words for a promise or a note."""
    try:
        return f"the log shows {lack_of_fit(sample(log), boosted=False)}"
    except InputError:
        return "the log has too few rows to test whether rewards are linear"


CONSTANT = 1e-3
"""A constant is in the features' span if this share of it, or less, is left over."""

Z_THRESHOLD = 6.0
"""Standard errors from 0 beyond which a mean residual is not chance."""

LEAST_ROWS = 20


MAX_SCALE_RATIO = 1e3
"""Features whose sizes differ by more than this factor cannot share a ridge."""


def linear_notes(log: Log, sums: Statistics, ridge: float) -> Iterator[str]:
    """All that speaks against it, in sentences."""
    yield from missing_intercept_note(log, sums, ridge)
    yield from scale_note(log)
    try:
        found = lack_of_fit(sample(log), boosted=False)
    except InputError:  # too few rows to tell
        return
    if found.found:
        yield f"The log shows {found}"


def scale_note(log: Log) -> Iterator[str]:
    """Say so if raw features are of sizes that one ridge cannot suit."""
    sizes = np.sqrt(np.einsum("ij,ij->j", log.contexts, log.contexts) / max(1, log.n_rows))
    there = np.flatnonzero(sizes)
    if not log.encoder.is_raw or not len(there) or sizes[there].max() <= MAX_SCALE_RATIO * sizes[there].min():
        return
    small, large = there[sizes[there].argmin()], there[sizes[there].argmax()]
    yield (
        f"The features are of unlike sizes ({truncate(log.feature_names[small])} about {sizes[small]:.2g}, "
        f"{truncate(log.feature_names[large])} about {sizes[large]:.2g}), and are taken as they are: linear models then learn the "
        "small ones slowly. Read the log with features='auto', which standardises them"
    )


def missing_intercept_note(log: Log, sums: Statistics, ridge: float) -> Iterator[str]:
    """Say so if no combination of features is constant and an action's residuals do not average 0."""
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
            "No combination of the features is constant, and the rewards have a level that linear models then "
            f"cannot follow (residuals of action {log.action_names[worst]!r} average {means[worst]:.3g}, "
            f"{distance[worst]:.0f} standard errors from 0). Add a constant feature"
        )


CHOICES = (0, 64, 128)
"""Landmarks that are tried: none, few, many."""


def with_kernel(log: Log, kernel: int | str | Nystroem = "auto") -> Log:
    """The log with Nyström features beside its own: so many landmarks, or (`auto`) as many of `CHOICES` as have the most evidence.

    What comes back knows how to make them: learners and policies taught by it take the same raw columns, or
    the same contexts, as before.
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
    """The log with as many landmarks as its rewards speak for.

    All candidates have the same blocks before the kernel's: the evidence falls with the width of the nearly flat column of W, which is
    set by block, so that the same model in other blocks would differ by as much as a kernel gains.
    """
    own, best, most, last = _linear_blocks(log), log, -np.inf, None
    for landmarks in CHOICES:
        each = _extended(log, Nystroem(landmarks)) if landmarks else log
        sums = Statistics.of(each)
        blocks = blocks_of(sums, [*own, *[KERNEL] * (each.n_features - len(own))])
        last = evidence_of(sums, blocks=blocks, near=last)
        if last.value > most:
            best, most = each, last.value
    return best


def _linear_blocks(log: Log) -> list[str]:
    """The blocks of the log's own features, by name."""
    blocks = blocks_of(Statistics.of(log), None if log.encoder.is_raw else log.encoder.blocks)
    return [blocks.names[block] for block in blocks.of]
