"""The method itself chosen: every candidate learnt without a fold of contexts and judged on it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparing.errors import LogError, MissingExtraError, SettingError
from sparing.evaluation.intervals import Terms, closed_form
from sparing.learning.choosing import CONFIDENCE, reward_model, support_aware_limit
from sparing.learning.material import Progress, Request, gather
from sparing.learning.nonlinear import boosted_policy, boosted_rewards, reward_weights, stacked_policy
from sparing.learning.objectives import completed_rewards
from sparing.log import Log
from sparing.model.boosting import Boosted
from sparing.model.crossfitting import context_folds, errors_up_to_scale
from sparing.policies.policy import Policy, best_actions, one_hot

TREES: dict[str, Callable[..., Policy]] = {"boosted": boosted_policy, "stacked": stacked_policy}
"""Those that share one boosted reward model."""

CANDIDATES = ("greedy", "pessimistic", "caipwl", "opr-dlm", "ipw-logistic", "boosted", "stacked")
"""The methods that are tried; equal limits go to the earlier one."""


@dataclass(frozen=True, eq=False)
class Trial:
    """What is known of all candidates: what each does in every row, by a policy that has not seen its context.

    tables (n, K) by name; fitted (n, K) is r̂ by a model that has not seen the row's context, and `model` is the
    boosted one where that was learnt.
    """

    log: Log
    tables: dict[str, np.ndarray]
    fitted: np.ndarray
    model: Boosted | None
    notes: tuple[str, ...] = ()


def auto(request: Request, *, candidates: Sequence[str] = CANDIDATES) -> Policy:
    """The candidate with the best lower limit on held-out contexts, learnt from all rows.

    Every candidate is learnt without a fold of contexts, its own settings chosen within the rest, and judged on
    that fold as on contexts that the log has not seen. Its rewards there are doubly robust, w·(r − r̂) + Σ_a π·r̂ over
    the supported actions, and the mean logged reward for its mass on all others: none is shown to be better than
    the log by what the log cannot see, and none is condemned for it.
    Without propensities the reward model that explains held-out rewards best is taken, greedy or boosted.
    """
    from sparing.learning.methods import METHODS  # which has this method too

    known = [name for name in METHODS if name != "auto"]
    if isinstance(candidates, str) or not candidates or not set(candidates) <= set(known):
        raise SettingError(f"candidates={candidates!r}; must be some of {', '.join(known)}")
    gather(request, "auto", "logged")  # refuses what no candidate could learn from
    if request.log.n_contexts < 2:
        best, trial = candidates[0], None
        notes: tuple[str, ...] = (f"one context only, none to hold out: {best} taken unseen",)
    elif request.log.propensities is None:
        best, trial, notes = _by_error(request, candidates)
    else:
        trial = tried(request, candidates)
        judged = {name: _limit(trial, table) for name, table in trial.tables.items()}
        best = max(judged, key=lambda name: judged[name])
        notes = (*_said(request, judged, best), *trial.notes)
    policy: Any
    if best in TREES and trial is not None and trial.model is not None:
        policy = TREES[best](request, gather(request, best, "logged"), trial.model)
    else:
        policy = METHODS[best](replace(request, progress=Progress()))
    return replace(policy, notes=(*notes, *policy.notes))


def _by_error(request: Request, candidates: Sequence[str]) -> tuple[str, "Trial | None", tuple[str, ...]]:
    """Greedy or boosted, whichever explains held-out rewards better once shifted and scaled."""
    usable = [name for name in candidates if name in ("greedy", "boosted")]
    if not usable:
        raise LogError(
            f"without propensities auto chooses between greedy and boosted; candidates={candidates!r}"
        )
    log, model, notes = request.log, None, []
    if "boosted" in usable:
        try:
            model = boosted_rewards(request)
        except MissingExtraError as error:
            notes.append(f"boosted was not tried: {error}")
    fitted = {"greedy": reward_model(log, None, request, crossfitted=True)} if "greedy" in usable else {}
    if model is not None:
        fitted["boosted"] = model.held_out(log.contexts)
    own = np.arange(log.n_rows), log.actions
    errors = {
        name: float(errors_up_to_scale(log.rewards, table[own]).mean()) for name, table in fitted.items()
    }
    if not errors:
        raise LogError("none of the candidates can be learnt from this log: " + "; ".join(notes))
    best = min(errors, key=lambda name: errors[name])
    heard = ", ".join(f"{name} {error:.4g}" for name, error in errors.items())
    notes.insert(
        0, f"{best}, by squared error up to shift and scale on held-out contexts ({heard}): no propensities"
    )
    return best, Trial(log, {}, fitted[best], model), tuple(notes)


def _said(request: Request, judged: dict[str, float], best: str) -> tuple[str, ...]:
    """What was tried, the best first; and whether the best is shown to be better than what was done."""
    order = sorted(judged, key=lambda name: -judged[name])
    heard = ", ".join(f"{name} {judged[name]:.4g}" for name in order)
    logged = float(request.log.rewards.mean())
    notes = [
        f"{best} of {len(judged)} methods, by the lower limit on held-out contexts: {heard} (what the log cannot see "
        f"counted as {logged:.4g}, its mean reward)"
    ]
    if not judged[best] > logged:
        notes.append(f"that does not show it to be better than the logging policy, which earned {logged:.4g}")
    return tuple(notes)


def tried(request: Request, candidates: Sequence[str]) -> Trial:
    """Learn every candidate without each fold of contexts. Those that the log does not allow are left out, with a note."""
    log = gather(request, "auto", "logged").log
    linear, boosted = reward_model(log, None, request, crossfitted=True), None
    model, tables, notes = None, {}, []
    request.progress.total = len(candidates) + 1
    for name in candidates:
        try:
            if name in TREES:
                model = model or boosted_rewards(request)
                boosted = model.held_out(log.contexts)
                tables[name] = _best_by(request, name, linear, boosted)
            else:
                tables[name] = _held_out_table(request, name)
        except (LogError, MissingExtraError) as error:
            notes.append(f"{name} was not tried: {error}")
        request.progress.step()
    if not tables:
        raise LogError("none of the candidates can be learnt from this log: " + "; ".join(notes))
    return Trial(log, tables, _better(log, linear, boosted), model, tuple(notes))


def _held_out_table(request: Request, name: str) -> np.ndarray:
    """What a method's policies do that have not seen a row's context, (n, K)."""
    from sparing.learning.methods import METHODS

    log = gather(request, "auto", "logged").log
    fold_of = context_folds(log, min(request.folds, log.n_contexts), request.seed)
    table = np.empty((log.n_rows, log.n_actions))
    for fold in np.unique(fold_of):
        held, part = fold_of == fold, replace(request, log=log.take(fold_of != fold), progress=Progress())
        table[held] = METHODS[name](part).probabilities(log.contexts[held])
    return table


def _best_by(request: Request, name: str, linear: np.ndarray, boosted: np.ndarray) -> np.ndarray:
    """The same for the best action by boosted rewards (n, K), alone or stacked on linear ones."""
    log, rewards = request.log, boosted
    if name == "stacked":
        parts = reward_weights(log, linear, boosted)
        rewards = parts[0] * linear + parts[1] * boosted
    allowed = gather(request, name, "logged").allowed
    return one_hot(best_actions(rewards, request.priority, allowed), log.n_actions)


def _better(log: Log, linear: np.ndarray, boosted: np.ndarray | None) -> np.ndarray:
    """The r̂ (n, K) with the smaller squared error, both by models that have not seen the row's context."""
    if boosted is None:
        return linear
    own = np.arange(log.n_rows), log.actions
    errors = [float(((log.rewards - fitted[own]) ** 2).mean()) for fitted in (linear, boosted)]
    return linear if errors[0] <= errors[1] else boosted


def _limit(trial: Trial, table: np.ndarray) -> float:
    """Lower limit of mean[Σ_{a supported} π(a|x_i)·Γ_i(a) + u_i·r̄], u_i the mass outside the support, r̄ the mean reward.

    Γ completes the rewards by r̂. Where the support is unknown it is IPS's limit.
    """
    log, earned = trial.log, float(trial.log.rewards.mean())
    if not log.support.known:
        return support_aware_limit(table, log, earned)
    return closed_form(Terms(judged_rows(log, table, trial.fitted, earned)), "normal", CONFIDENCE)[0]


def judged_rows(log: Log, table: np.ndarray, fitted: np.ndarray, outside: float) -> np.ndarray:
    """Each row's part of the doubly robust value that counts what the log cannot see as `outside`, (n,)."""
    inside = np.where(log.support.mask(), table, 0.0)
    return np.einsum("nk,nk->n", inside, completed_rewards(log, fitted)) + (1 - inside.sum(axis=1)) * outside
