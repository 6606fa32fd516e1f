"""Hyper-parameters chosen on held-out contexts: the ridge by squared error, others by the support-aware lower limit."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sparing.errors import SettingError
from sparing.evaluation.intervals import Terms, closed_form
from sparing.interval import LEVEL
from sparing.learning.objectives import completed_rewards
from sparing.learning.request import REL_TOLERANCE, LearningRequest, TrainingData
from sparing.log import Log
from sparing.log.passes import Combined, SumOf
from sparing.log.rows import InMemoryRows, RewardSummary, Rows, as_rows
from sparing.log.sketches import Moments
from sparing.model.confidence import positive
from sparing.model.crossfitting import (
    ContextKeys,
    Folds,
    FoldSums,
    leave_one_fold_out,
    out_of_fold,
    reward_parameters,
)
from sparing.model.statistics import Statistics, Sums
from sparing.policies.fingerprint import TrainingFingerprint
from sparing.policies.policy import GreedyPolicy, Policy, SoftmaxPolicy

Hyperparameters = dict[str, float]
P = TypeVar("P", GreedyPolicy, SoftmaxPolicy)
FitFunction = Callable[[TrainingData, Hyperparameters], Policy]

RIDGES = (1.0, 0.1, 10.0, 100.0)
MAX_CACHED_CELLS = 2**25  # predictions of a log in memory that are kept for another pass, at most
PIECE_ROWS = 2048  # rows that are predicted at a time: their parameters stay in the cache
SIGNED = ("k", "baseline")  # hyper-parameters that may be negative


@dataclass(frozen=True, eq=False)
class RidgeChoice:
    """A ridge, and the sums of each fold of the rows it was chosen for; without folds, those of all rows as the only ones.

    `fingerprint` is that of the rows, if the request wants it.
    """

    ridge: float
    fold_sums: Sequence[Statistics]
    folds: Folds | None
    notes: tuple[str, ...] = ()
    fingerprint: TrainingFingerprint | None = None

    @property
    def sums(self) -> Statistics:
        return sum(self.fold_sums[1:], self.fold_sums[0])

    @property
    def theta(self) -> np.ndarray:
        """θ̂ (K, d) of all rows."""
        return reward_parameters(self.sums, self.ridge)

    def rewards(self, log: Log) -> np.ndarray:
        """r̂(x_i, a) of the rows it was chosen for, each by a model without its context if there are folds; (n, K)."""
        if self.folds is None:
            return log.contexts @ self.theta.T
        return self.held_out(log, lambda sums: reward_parameters(sums, self.ridge))

    def held_out(self, log: Log, parameters: Callable[[Statistics], np.ndarray]) -> np.ndarray:
        """x_i·θ̂_a of its rows, (n, K), by the parameters (K, d) of the sums without each row's fold."""
        assert self.folds is not None
        theta = [parameters(sums) for sums in leave_one_fold_out(self.fold_sums)]
        fold_of, x = self.folds.assign_folds(log), log.contexts
        return out_of_fold(fold_of, log.n_actions, lambda fold, held: x[held] @ theta[fold].T)


def choose_ridge(
    request: LearningRequest,
    ridge: Any = None,
    *,
    to_rank: bool = False,
    crossfitted: bool = False,
) -> RidgeChoice:
    """The given ridge, or the one whose reward model has the least squared error on held-out contexts.

    It takes one pass for a given ridge, unless folds are needed (`crossfitted`); else one for the folds, one for their
    sums, one for the errors, and one more if two ridges compete.

    `to_rank`: only the order of the actions counts. No argmax of predictions p changes when all are scaled or shifted,
    so ridges compete by the least Σ(r − α − β·p)² with β ≥ 0: where noise dominates, the plain error prefers a ridge so
    large that it costs the order. That error must be smaller by one standard error of the difference over the rows.
    """
    settings = grid(ridge=(ridge, RIDGES))
    if len(settings) == 1 and not crossfitted:
        rows = request.rows.select(ids=False, support=False)
        sums, *found = rows.fold(Combined(Sums(rows), *request.gathered))
        return RidgeChoice(settings[0]["ridge"], (sums,), None, (), *found)
    rows = request.rows.select(support=False)
    keys, *found = rows.fold(Combined(ContextKeys(request.seed), *request.gathered))
    folds = Folds.from_keys(keys, request.folds, request.seed) if len(keys) > 1 else None
    fold_sums, rewards = rows.fold(Combined(FoldSums(rows, folds), SumOf(RewardSummary.of)))
    best, notes = 0, []
    if len(settings) > 1 and folds is None:
        notes.append(f"one context only, none to hold out: {format_setting(settings[0])} taken unseen")
    elif len(settings) > 1 and folds is not None:
        others = leave_one_fold_out(fold_sums)
        theta = [[reward_parameters(sums, each["ridge"]) for sums in others] for each in settings]
        small = isinstance(rows, InMemoryRows) and len(settings) * rows.n_rows <= MAX_CACHED_CELLS
        models = FoldModels(np.array(theta), folds, {} if small else None)
        best, how = _least_error(rows, models, rewards.total, to_rank=to_rank)
        setting = format_setting(settings[best])
        notes.append(f"{setting} of {len(settings)} settings, by {how} on held-out contexts")
    return RidgeChoice(settings[best]["ridge"], fold_sums, folds, tuple(notes), *found)


class FoldModels(NamedTuple):
    """Parameters by setting and held-out fold, (settings, folds, K, d), and the folds.

    `kept` holds the predictions of each block by its first row; None if there are too many, or rows are scanned.
    """

    theta: np.ndarray
    folds: Folds
    kept: dict[int, np.ndarray] | None = None

    def predicted(self, block: Log, first_row: int) -> np.ndarray:
        """Each row's reward by the models that have not seen its context, (settings, n)."""
        if self.kept is not None and first_row in self.kept:
            return self.kept[first_row]
        table = np.moveaxis(self.theta, 0, 2).reshape(-1, len(self.theta), block.n_features)
        model_of = self.folds.assign_folds(block) * block.n_actions + block.actions
        predicted = np.empty((len(self.theta), block.n_rows))
        for start in range(0, block.n_rows, PIECE_ROWS):
            piece = slice(start, start + PIECE_ROWS)
            theta, x = table.take(model_of[piece], axis=0), block.contexts[piece]
            np.einsum("nsd,nd->sn", theta, x, out=predicted[:, piece])
        if self.kept is not None:
            self.kept[first_row] = predicted
        return predicted

    def select(self, settings: list[int]) -> "FoldModels":
        kept = None if self.kept is None else {first: each[settings] for first, each in self.kept.items()}
        return FoldModels(self.theta[settings], self.folds, kept)


class CalibrationLine(NamedTuple):
    """r ≈ α + β·p by least squares with β ≥ 0, and Σ(r − α − β·p)²."""

    shift: float
    scale: float
    error: float

    @classmethod
    def of(cls, sums: np.ndarray, rows: int, centre: float) -> "CalibrationLine":
        """By the sums (6,) of `_error_sums`."""
        _, p, r, pp, pr, rr = map(float, sums)
        square, joint = pp - p * p / rows, pr - p * r / rows
        scale = max(joint / square, 0.0) if square > REL_TOLERANCE * pp else 0.0
        shift = r / rows + centre - scale * (p / rows + centre)
        return cls(shift, scale, rr - r * r / rows - 2 * scale * joint + scale * scale * square)

    def errors(self, rewards: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        return (rewards - self.shift - self.scale * predicted) ** 2


def _least_error(rows: Rows, models: FoldModels, total_reward: float, *, to_rank: bool) -> tuple[int, str]:
    """The index of the best setting, and the error by which it is best."""
    centre = total_reward / rows.n_rows
    sums = rows.fold(SumOf(partial(_error_sums, models, centre)))
    best, how = int(np.argmin(sums[:, 0])), "squared error"
    lines = [CalibrationLine.of(each, rows.n_rows, centre) for each in sums]
    first = int(np.argmin([line.error for line in lines]))
    if to_rank and first != best:
        pair = models.select([best, first])
        gain = rows.fold(SumOf(partial(_error_difference, pair, (lines[best], lines[first]))))
        if gain.mean > np.sqrt(gain.deviations / (gain.count - 1) / gain.count):
            best, how = first, "squared error up to shift and scale"
    return best, how


def _error_sums(models: FoldModels, centre: float, block: Log, first_row: int) -> np.ndarray:
    """For each setting Σ(r − p)², and of p and r less a `centre`: Σp, Σr, Σp², Σpr, Σr²; (settings, 6)."""
    r = block.rewards - centre
    return np.array(
        [
            [((r - p) ** 2).sum(), p.sum(), r.sum(), (p * p).sum(), (p * r).sum(), (r * r).sum()]
            for p in models.predicted(block, first_row) - centre
        ]
    )


def _error_difference(
    models: FoldModels, lines: tuple[CalibrationLine, CalibrationLine], block: Log, first_row: int
) -> Moments:
    """How much smaller the second model's errors are than the first's, row by row."""
    both = zip(lines, models.predicted(block, first_row), strict=True)
    one, other = (line.errors(block.rewards, p) for line, p in both)
    return Moments.of(one - other)


def crossfitted_scores(request: LearningRequest, log: Log, ridge: Any) -> np.ndarray:
    """Γ (n, K): rewards by a cross-fitted model, corrected by the logged ones."""
    part = request.of_rows(log)
    return completed_rewards(log, choose_ridge(part, ridge, crossfitted=True).rewards(log))


def lower_limit(terms: Terms) -> float:
    return closed_form(terms, "normal", LEVEL)[0]


def support_aware_terms(table: np.ndarray, log: Log, lowest: float) -> Terms:
    """w_i r_i + u_i r_min of each row, the lower bound of IPS, for a policy with probabilities (n, K) on the rows.

    u_i is its mass on unsupported actions. If the support is unknown it is replaced by 1 − w_i, which has the same
    mean: E[w_i | x_i] is the policy's mass on the support.
    """
    assert log.propensities is not None
    weights = table[np.arange(log.n_rows), log.actions] / log.propensities
    missing = 1 - weights
    if log.support.known:
        missing = np.where(log.support.mask(), 0.0, table).sum(axis=1)
    return Terms(weights * log.rewards + missing * lowest)


def choose(
    request: LearningRequest, data: TrainingData, settings: Sequence[Hyperparameters], fit: FitFunction
) -> tuple[Hyperparameters, tuple[str, ...]]:
    """The setting whose policies, each fitted without a fold of contexts, have the best limit on that fold.

    The terms of all folds are pooled into one limit. Equal limits go to the earlier setting.
    """
    if len(settings) == 1:
        return settings[0], ()
    log = data.log
    folds = held_out_folds(request, log)
    if not folds:
        note = f"one context only, none to hold out: {format_setting(settings[0])} taken unseen"
        return settings[0], (note,)
    parts = [(data.take(~held), held) for held in folds]
    request.progress.total = len(settings) * len(parts) + 1
    scores, lowest = [], request.lowest
    table = np.empty((log.n_rows, log.n_actions))
    for setting in settings:
        for part, held in parts:
            table[held] = fit(part, setting).probabilities(log.contexts[held])
            request.progress.step()
        scores.append(lower_limit(support_aware_terms(table, log, lowest)))
    best = int(np.argmax(scores))
    notes = [
        f"{format_setting(settings[best])} of {len(settings)} settings, by the support-aware lower limit "
        f"{scores[best]:.4g} on held-out contexts (unsupported actions counted as {lowest:.4g})"
    ]
    logged = float(log.rewards.mean())
    if not scores[best] > logged:
        notes.append(f"that does not show it to be better than the logging policy, which earned {logged:.4g}")
    return settings[best], tuple(notes)


def fit_best(
    request: LearningRequest,
    data: TrainingData,
    settings: list[Hyperparameters],
    fit: Callable[[TrainingData, Hyperparameters], P],
) -> P:
    """The policy fitted with the best setting; its notes name the setting."""
    chosen, notes = choose(request, data, settings, fit)
    return replace(fit(data, chosen), notes=data.notes + notes)


def held_out_folds(request: LearningRequest, log: Log) -> list[np.ndarray]:
    """For each fold of contexts, whether a row is in it, (n,); none if there is only one context."""
    keys = as_rows(log).select(support=False).fold(ContextKeys(request.seed))
    if len(keys) < 2:
        return []
    fold_of = Folds.from_keys(keys, request.folds, request.seed).assign_folds(log)
    return [fold_of == fold for fold in np.unique(fold_of)]


def grid(**options: tuple[Any, Iterable[float]]) -> list[Hyperparameters]:
    """All combinations; each option is (given, default grid), given None, a number, or numbers to try."""
    axes = []
    for name, (given, default) in options.items():
        values = default if given is None else [given] if np.ndim(given) == 0 else given
        axes.append([(name, _number(name, value)) for value in values])
        if not axes[-1]:
            raise SettingError(f"{name}={given!r}; give a number, or one or more numbers to try")
    return [dict(point) for point in product(*axes)]


def format_setting(setting: Hyperparameters) -> str:
    return ", ".join(f"{name} = {value:.4g}" for name, value in setting.items())


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if np.isnan(number) or (number < 0 and name not in SIGNED) or (np.isinf(number) and name != "clip"):
        raise SettingError(
            f"{name}={value!r}; must be a finite number{'' if name in SIGNED else ', 0 or more'}"
        )
    if name in ("ridge", "epsilon"):
        positive(name, number)
    return number
