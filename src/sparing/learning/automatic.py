"""The method itself chosen: every candidate learnt without a fold of contexts and judged on it; those that may be the best vote."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparing.errors import LogError, MissingExtraError, SettingError
from sparing.evaluation.intervals import Terms, closed_form
from sparing.learning import unseen
from sparing.learning.choosing import CONFIDENCE, reward_model, support_aware_terms
from sparing.learning.material import Progress, Request, gather
from sparing.learning.nonlinear import boosted_policy, boosted_rewards, reward_weights, stacked_policy
from sparing.log import Log
from sparing.model.boosting import Boosted
from sparing.model.crossfitting import Folds, errors_up_to_scale
from sparing.policies.policy import Policy, best_actions, one_hot
from sparing.policies.support import KnownSupport
from sparing.policies.policy import VotingPolicy

TREES: dict[str, Callable[..., Policy]] = {"boosted": boosted_policy, "stacked": stacked_policy}
"""Those that share one boosted reward model."""

KEPT = ("greedy", *TREES)
"""Methods that play the best action by a reward model, wherever that is: they are tried kept to the support."""

ON_SUPPORT = " on the support"
"""What is added to the name of a method that is kept to it."""

CANDIDATES = ("greedy", "pessimistic", "caipwl", "opr-dlm", "ipw-logistic", "boosted", "stacked")
"""The methods that are tried; equal limits go to the earlier one."""

LEAST_VOTE = 0.05
"""Candidates with less of a vote have none: they lie three standard errors behind the best."""


@dataclass(frozen=True, eq=False)
class Trial:
    """What is known of all candidates: what each does in every row, by a policy that has not seen its context.

    tables (n, K) by name; fitted (n, K) is r̂ by a model that has not seen the row's context, and `model` is the
    boosted one where that was learnt. `believed` says whether r̂ speaks for actions outside the support, too.
    """

    log: Log
    tables: dict[str, np.ndarray]
    fitted: np.ndarray
    model: Boosted | None
    believed: bool = True
    notes: tuple[str, ...] = ()


def auto(request: Request, *, candidates: Sequence[str] = CANDIDATES) -> Policy:
    """The candidate with the best lower limit on held-out contexts, and those that may be as good, learnt from all rows: they vote.

    Every candidate is learnt without a fold of contexts, its own settings chosen within the rest, and judged on
    that fold as on contexts that the log has not seen. Its rewards there are doubly robust, w·(r − r̂) + Σ_a π·r̂ over
    the supported actions; what all others count is said by `unseen.counted`. Where contexts differ in what they support, those that
    follow a reward model are tried kept to the actions that a context is likely to support; and free, if the model is believed.
    Without propensities the reward model that explains held-out rewards best is taken, greedy or boosted.
    """
    from sparing.learning.methods import METHODS  # which has this method too

    known = [name for name in METHODS if name != "auto"]
    if isinstance(candidates, str) or not candidates or not set(candidates) <= set(known):
        raise SettingError(f"candidates={candidates!r}; must be some of {', '.join(known)}")
    gather(request, "auto", "logged")  # refuses what no candidate could learn from
    if request.log.n_contexts < 2:
        votes, trial = {candidates[0]: 1.0}, None
        notes: tuple[str, ...] = (f"one context only, none to hold out: {candidates[0]} taken unseen",)
    elif request.log.propensities is None:
        best, trial, notes = _by_error(request, candidates)
        votes = {best: 1.0}
    else:
        trial = tried(request, candidates)
        judged = {name: _terms(trial, table) for name, table in trial.tables.items()}
        votes = _votes(judged)
        notes = (*_said(trial, judged, votes), *trial.notes)
    members = [_learnt(request, trial, name) for name in votes]
    if len(members) == 1:
        return replace(members[0], notes=(*notes, *members[0].notes))
    own = [f"{name}: {note}" for name, member in zip(votes, members, strict=True) for note in member.notes]
    return VotingPolicy(
        request.log.action_names,
        tuple(members),
        np.array(list(votes.values())),
        request.priority,
        "auto",
        (*notes, *own),
    )


def _learnt(request: Request, trial: "Trial | None", name: str) -> Any:
    """The policy of a candidate, from all rows."""
    from sparing.learning.methods import METHODS

    method = name.removesuffix(ON_SUPPORT)
    policy: Any
    if method in TREES and trial is not None and trial.model is not None:
        policy = TREES[method](request, gather(request, method, "logged"), trial.model)
    else:
        policy = METHODS[method](replace(request, progress=Progress()))
    return policy if method == name else replace(policy, support=_likely(request.log))


def _votes(judged: dict[str, Terms]) -> dict[str, float]:
    """e^(−t) for each candidate, t being how many standard errors it lies behind the one with the best limit, which comes first.

    Where the log cannot tell candidates apart, their vote errs less than the one that happens to lead; where it can, or where all
    others together cannot outvote it, that one is alone.
    """
    limits = {name: _limit(terms) for name, terms in judged.items()}
    order = sorted(judged, key=lambda name: -limits[name])
    best, votes = judged[order[0]].linearised(), {}
    for name in order:
        behind = best - judged[name].linearised()
        error = behind.std(ddof=1) / np.sqrt(len(behind))
        lag = max(float(behind.mean()), 0.0)
        vote = float(np.exp(-lag / error)) if error > 0 else float(lag == 0)
        if vote >= LEAST_VOTE:
            votes[name] = vote
    return votes if sum(votes.values()) > 2 else {order[0]: 1.0}


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


def _said(trial: Trial, judged: dict[str, Terms], votes: dict[str, float]) -> tuple[str, ...]:
    """What was tried, the best first; who votes; and whether the best is shown to be better than what was done."""
    limits = {name: _limit(terms) for name, terms in judged.items()}
    order = sorted(judged, key=lambda name: -limits[name])
    heard = ", ".join(f"{name} {limits[name]:.4g}" for name in order)
    log, logged = trial.log, float(trial.log.rewards.mean())
    tried_ones = "1 method" if len(judged) == 1 else f"{len(judged)} methods"
    notes = [f"{order[0]} of {tried_ones}, by the lower limit on held-out contexts: {heard}"]
    if len(votes) > 1:
        shares = ", ".join(f"{name} {vote:.2g}" for name, vote in votes.items())
        notes.append(f"the log cannot tell it from some of the others, so they vote: {shares}")
    if log.support.known and not log.support.mask()[:, log.counts > 0].all():
        how = "the reward model says" if trial.believed else "the least of what it does there"
        notes.append(f"what the logger never does in a context counted as {how}")
    if not limits[order[0]] > logged:
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
                tables[name] = _best_by(
                    request, name, linear, boosted, gather(request, name, "logged").allowed
                )
            else:
                tables[name] = _held_out_table(request, name)
        except (LogError, MissingExtraError) as error:
            notes.append(f"{name} was not tried: {error}")
        request.progress.step()
    if not tables:
        raise LogError("none of the candidates can be learnt from this log: " + "; ".join(notes))
    fitted = _better(log, linear, boosted)
    believed = unseen.believed(log, fitted)
    if request.support is None and _varies(log):
        allowed = _held_out_support(request)
        for name in [name for name in KEPT if name in tables]:
            tables[name + ON_SUPPORT] = _best_by(request, name, linear, boosted, allowed)
            if not believed:
                del tables[name]
    return Trial(log, tables, fitted, model, believed, tuple(notes))


def _held_out_table(request: Request, name: str) -> np.ndarray:
    """What a method's policies do that have not seen a row's context, (n, K)."""
    from sparing.learning.methods import METHODS

    log = gather(request, "auto", "logged").log
    fold_of = Folds.of(log, request.folds, request.seed).assign_folds(log)
    table = np.empty((log.n_rows, log.n_actions))
    for fold in np.unique(fold_of):
        held, part = fold_of == fold, replace(request, log=log.take(fold_of != fold), progress=Progress())
        table[held] = METHODS[name](part).probabilities(log.contexts[held])
    return table


def _best_by(
    request: Request, name: str, linear: np.ndarray, boosted: np.ndarray | None, allowed: np.ndarray | None
) -> np.ndarray:
    """The same for the best of the `allowed` actions (n, K) by linear rewards (n, K), boosted ones, or those stacked on the others."""
    log, rewards = request.log, linear
    if boosted is not None and name in TREES:
        parts = reward_weights(log, linear, boosted) if name == "stacked" else (0.0, 1.0)
        rewards = parts[0] * linear + parts[1] * boosted
    return one_hot(best_actions(rewards, request.priority, allowed), log.n_actions)


def _varies(log: Log) -> bool:
    """Whether contexts differ in what they support."""
    mask = log.support.mask() if log.support.known else None
    return mask is not None and bool((mask != mask[0]).any())


def _likely(log: Log) -> KnownSupport:
    """The logged actions that a context is likely to support."""
    return KnownSupport.fixed(log.counts > 0, log.n_features).with_learned_lines(log)


def _held_out_support(request: Request) -> np.ndarray:
    """What each context is likely to support, as other contexts teach it, (n, K)."""
    log = request.log
    fold_of = Folds.of(log, request.folds, request.seed).assign_folds(log)
    allowed = np.empty((log.n_rows, log.n_actions), dtype=bool)
    for fold in np.unique(fold_of):
        held = fold_of == fold
        allowed[held] = _likely(log.take(~held))(log.contexts[held])
    return allowed


def _better(log: Log, linear: np.ndarray, boosted: np.ndarray | None) -> np.ndarray:
    """The r̂ (n, K) with the smaller squared error, both by models that have not seen the row's context."""
    if boosted is None:
        return linear
    own = np.arange(log.n_rows), log.actions
    errors = [float(((log.rewards - fitted[own]) ** 2).mean()) for fitted in (linear, boosted)]
    return linear if errors[0] <= errors[1] else boosted


def _terms(trial: Trial, table: np.ndarray) -> Terms:
    """Σ_{a supported} π(a|x_i)·Γ_i(a) + Σ_{a not} π(a|x_i)·c_i(a) of each row: Γ completes the rewards by r̂, c is `unseen.counted`.

    No weight counts more than √n, so that no single row decides. Where the support is unknown they are IPS's.
    """
    log = trial.log
    if not log.support.known:
        return support_aware_terms(table, log, float(log.rewards.mean()))
    assert log.propensities is not None
    tamed = replace(log, propensities=np.maximum(log.propensities, log.n_rows**-0.5))
    outside = unseen.counted(tamed, table, trial.fitted, believed=trial.believed)
    return Terms(unseen.judged_rows(tamed, table, trial.fitted, outside))


def _limit(terms: Terms) -> float:
    """The lower end of their mean's interval."""
    return closed_form(terms, "normal", CONFIDENCE)[0]
