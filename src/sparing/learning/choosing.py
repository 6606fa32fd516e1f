"""Hyper-parameters chosen on held-out contexts by what can be promised, not by what extrapolates well."""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np

from sparing.errors import SettingError
from sparing.evaluation.estimators import ips
from sparing.evaluation.ingredients import Ingredients
from sparing.evaluation.intervals import Terms, closed_form
from sparing.learning.material import Material, Request
from sparing.learning.objectives import completed_rewards
from sparing.log import Log
from sparing.model.assumptions import positive
from sparing.model.crossfitting import (
    Folds,
    errors_up_to_scale,
    fitted_rewards,
    reward_parameters,
)
from sparing.model.statistics import Statistics
from sparing.policies.policy import Policy

Setting = dict[str, float]
Learner = Callable[[Material, Setting], Policy]
"""Learns a policy from rows under a setting."""

CONFIDENCE = 0.95
"""Of the interval by whose lower end policies are compared."""

RIDGES = (1.0, 0.1, 10.0, 100.0)

SIGNED = ("k", "baseline")
"""Settings that may be below 0."""


def support_aware_limit(table: np.ndarray, log: Log, lowest: float) -> float:
    """Lower 95 % limit of mean(w_i r_i + u_i r_min), IPS's lower bound, for a policy with π (n, K) on the rows."""
    return closed_form(support_aware_terms(table, log, lowest), "normal", CONFIDENCE)[0]


def support_aware_terms(table: np.ndarray, log: Log, lowest: float) -> Terms:
    """w_i r_i + u_i r_min of each row.

    u_i is the policy's mass on unsupported actions. Where the support is unknown it is replaced by
    1 − w_i, which has the same mean: E[w_i | x_i] is the mass that π has on the support.
    """
    bound = ips(Ingredients(log, table, reward_range=(lowest, lowest))).low
    assert bound is not None
    return bound


def choose(
    request: Request, material: Material, settings: Sequence[Setting], learner: Learner
) -> tuple[Setting, tuple[str, ...]]:
    """The setting whose policies, each learnt without a fold of contexts, have the best limit on it.

    The terms of all folds are pooled into one limit. Equal limits go to the earlier setting.
    """
    if len(settings) == 1:
        return settings[0], ()
    fold_of = folds_or_none(material.log, request.folds, request.seed)
    if fold_of is None:
        return settings[0], (f"one context only, none to hold out: {said(settings[0])} taken unseen",)
    parts = [(material.take(fold_of != fold), fold_of == fold) for fold in np.unique(fold_of)]
    request.progress.total = len(settings) * len(parts) + 1
    scores, lowest = [], request.lowest
    table = np.empty((material.log.n_rows, material.log.n_actions))
    for setting in settings:
        for part, held in parts:
            table[held] = learner(part, setting).probabilities(material.log.contexts[held])
            request.progress.step()
        scores.append(support_aware_limit(table, material.log, lowest))
    best = int(np.argmax(scores))
    notes = [
        f"{said(settings[best])} of {len(settings)} settings, by the support-aware lower limit "
        f"{scores[best]:.4g} on held-out contexts (unsupported mass counted as {lowest:.4g})"
    ]
    logged = float(material.log.rewards.mean())
    if not scores[best] > logged:
        notes.append(f"that does not show it to be better than the logging policy, which earned {logged:.4g}")
    return settings[best], tuple(notes)


def choose_ridge(
    request: Request, log: Log, settings: Sequence[Setting], *, to_rank: bool = False
) -> tuple[Setting, tuple[str, ...]]:
    """The ridge whose reward model, learnt without a fold of contexts, has the least squared error on it.

    `to_rank` is for a policy that takes the argmax. No argmax of predictions p changes when all are multiplied
    by a factor or moved by a number, so they are judged by the least mean (r − α − β·p)² with β ≥ 0. Where
    noise drowns the rewards, the plain error asks for a ridge so large that it costs the order of the actions;
    this one does not. It has to be smaller by more than one standard error of the difference over the rows.
    """
    predicted = _held_out(request, log, settings)
    if predicted is None:
        return settings[0], ()
    best, how = int(np.argmin(((log.rewards - predicted) ** 2).sum(axis=1))), "squared error"
    if to_rank:
        errors = np.array([errors_up_to_scale(log.rewards, row) for row in predicted])
        first = int(np.argmin(errors.mean(axis=1)))
        gain = errors[best] - errors[first]
        if gain.mean() > gain.std(ddof=1) / np.sqrt(len(gain)):
            best, how = first, "squared error up to shift and scale"
    return settings[best], (chosen_by(settings, best, how),)


def chosen_by(settings: Sequence[Setting], best: int, how: str) -> str:
    """A note on which ridge was chosen, and by what."""
    return f"{said(settings[best])} of {len(settings)} settings, by {how} on held-out contexts"


def _held_out(request: Request, log: Log, settings: Sequence[Setting]) -> np.ndarray | None:
    """Each row's reward as each setting's model predicts it that has not seen its context, (settings, n).

    None where there is nothing to choose between, or no context to hold out.
    """
    fold_of = None if len(settings) == 1 else folds_or_none(log, request.folds, request.seed)
    if fold_of is None:
        return None
    parts = [log.take(fold_of == fold) for fold in np.unique(fold_of)]
    sums = [Statistics.of(part) for part in parts]
    predicted = np.empty((len(settings), log.n_rows))
    for held, part in enumerate(parts):
        others = sum(sums[:held] + sums[held + 1 :], Statistics.zero(log.n_actions, log.n_features))
        for choice, setting in enumerate(settings):
            theta = reward_parameters(others, setting["ridge"])[part.actions]
            predicted[choice, fold_of == held] = np.einsum("nd,nd->n", theta, part.contexts)
    return predicted


def reward_model(log: Log, ridge: Any, request: Request, *, crossfitted: bool = False) -> np.ndarray:
    """r̂(x_i, a), (n, K), of the ridge that is given or chosen; an action without rows gets the mean of the others.

    Learnt from all rows or, `crossfitted`, without the fold of the row's context if there is another.
    """
    best = choose_ridge(request, log, grid(ridge=(ridge, RIDGES)))[0]["ridge"]
    folds = min(request.folds, log.n_contexts) if crossfitted and log.n_contexts > 1 else None
    return fitted_rewards(log, ridge=best, folds=folds, seed=request.seed)


def crossfitted_scores(log: Log, ridge: Any, request: Request) -> np.ndarray:
    """Γ (n, K): rewards by a cross-fitted model, which the log corrects."""
    return completed_rewards(log, reward_model(log, ridge, request, crossfitted=True))


def folds_or_none(log: Log, folds: int, seed: int) -> np.ndarray | None:
    """Folds by context, fewer where contexts are few; None where there is only one context."""
    contexts = log.n_contexts
    return None if contexts < 2 else Folds.of(log, folds, seed).assign_folds(log)


def grid(**options: tuple[Any, Iterable[float]]) -> list[Setting]:
    """All combinations; each option is (given, default grid), given None, a number, or numbers to try."""
    axes = []
    for name, (given, default) in options.items():
        values = default if given is None else [given] if np.ndim(given) == 0 else given
        axes.append([(name, _number(name, value)) for value in values])
        if not axes[-1]:
            raise SettingError(f"{name}={given!r}; give a number, or one or more numbers to try")
    return [dict(point) for point in product(*axes)]


def said(setting: Setting) -> str:
    """A setting in words."""
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
