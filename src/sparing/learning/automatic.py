"""Methods beyond linear policies: boosted rewards, stacked models, weighted imitation; and `auto`, the choice of method."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sparing.errors import InputError, LogError, MissingExtraError, SettingError
from sparing.evaluation.intervals import Terms
from sparing.learning.objectives import completed_rewards, minimise
from sparing.learning.posterior import posterior_rewards
from sparing.learning.request import LearningRequest, TrainingData, prepare_training_data
from sparing.learning.ridge import (
    Hyperparameters,
    choose_ridge,
    fit_best,
    format_setting,
    grid,
    held_out_folds,
    lower_limit,
    support_aware_terms,
)
from sparing.log import Log
from sparing.model.boosting import ROUNDS, Boosted, boost
from sparing.model.crossfitting import errors_up_to_scale, stacking_weights
from sparing.model.linearity import lack_of_fit, sample
from sparing.policies.policy import (
    BoostedPolicy,
    GreedyPolicy,
    Policy,
    StackedPolicy,
    VotingPolicy,
    best_actions,
    one_hot,
    softmax,
)
from sparing.policies.support import KnownSupport
from sparing.validation import integer

STRENGTHS = (1e-4, 1e-3, 1e-5)  # L2 regularisation relative to weights of mean 1
BEYOND_CHANCE = 3.0  # standard errors by which an informative logger beats the mean of its supported actions
ON_SUPPORT = " on the support"  # suffix of a method's name when its policy is restricted to the support

CANDIDATES = ("greedy", "posterior", "pessimistic", "caipwl", "opr-dlm", "ipw-logistic", "boosted", "stacked")
"""The methods that are compared; equal limits go to the earlier one."""

LEAST_VOTE = 0.05
"""Candidates with a smaller vote have none: they are three standard errors behind the best."""


def boosted(request: LearningRequest, *, rounds: Any = None) -> BoostedPolicy:
    """argmax_a r̂(x, a), r̂ by gradient boosting for each action (scikit-learn's), among the logged actions.

    `rounds`, the trees of each action, are chosen on held-out contexts by the squared error up to shift and scale,
    which do not change an argmax.
    """
    data = prepare_training_data(request, "boosted", "logged")
    return boosted_policy(request, data, boosted_rewards(request, rounds))


def boosted_rewards(request: LearningRequest, rounds: Any = None) -> Boosted:
    numbers = [
        integer("rounds", each, least=1) for each in np.atleast_1d(ROUNDS if rounds is None else rounds)
    ]
    return boost(
        request.log, folds=request.folds, seed=request.seed, rounds=numbers, purpose="method 'boosted'"
    )


def boosted_policy(request: LearningRequest, data: TrainingData, model: Boosted) -> BoostedPolicy:
    notes = (*data.notes, _rounds_note(request, model))
    return BoostedPolicy(request.log.action_names, model.trees, request.priority, data.model, notes=notes)


def stacked(request: LearningRequest, *, rounds: Any = None, ridge: Any = None) -> StackedPolicy:
    """argmax_a w₀·x·θ̂_a + w₁·r̂(x, a): ridge regression and boosting added, among the logged actions.

    The weights, 0 or more, are those with which both together explain the rewards of held-out contexts best.
    """
    data = prepare_training_data(request, "stacked", "logged")
    return stacked_policy(request, data, boosted_rewards(request, rounds), ridge)


def stacked_policy(
    request: LearningRequest, data: TrainingData, model: Boosted, ridge: Any = None
) -> StackedPolicy:
    log = request.log
    choice = choose_ridge(request, ridge, crossfitted=True)
    weights = reward_weights(log, choice.rewards(log), model.held_out(log.contexts))
    parts = f"{weights[0]:.3g} of the linear rewards, {weights[1]:.3g} of the boosted ones"
    how = choice.notes or (format_setting({"ridge": choice.ridge}),)
    return StackedPolicy(
        log.action_names,
        model.trees,
        request.priority,
        data.model,
        theta=choice.theta,
        weights=weights,
        notes=(*data.notes, parts, *how, _rounds_note(request, model)),
    )


def reward_weights(log: Log, linear: np.ndarray, boosted: np.ndarray) -> np.ndarray:
    """The weights (2,) of two cross-fitted predictions (n, K) that explain the logged rewards best."""
    return stacking_weights(log.rewards, np.column_stack([_logged(log, linear), _logged(log, boosted)]))


def _rounds_note(request: LearningRequest, model: Boosted) -> str:
    how = "by squared error up to shift and scale on held-out contexts"
    how = "one context only, none to hold out" if request.log.n_contexts < 2 else how
    return f"{model.rounds} trees an action, {how}"


def ipw_logistic(request: LearningRequest, *, l2: Any = None, baseline: Any = None) -> GreedyPolicy:
    """argmax_a x·θ_a of a logistic regression on the logged actions with weights max(r − baseline, 0)/μ.

    θ maximises Σ_i w_i·log π_θ(a_i|x_i)/Σ_i w_i − l2/2·‖θ‖² over softmax policies on the logged actions: rewarded
    actions are imitated, and rare ones count for more. Weights must not be negative, so rewards count from the
    baseline on. With r_min (the lower end of `reward_range`, else the smallest reward) the order of the actions is
    kept under any noise. With the mean reward it is kept if all actions have the same noise, of which half is left out.
    """
    data = prepare_training_data(request, "ipw-logistic", "logged")
    levels = [request.lowest]
    if len(np.unique(request.log.rewards)) > 2:  # of two values only the larger counts, whatever the baseline
        levels.append(float(request.log.rewards.mean()))

    def fit(part: TrainingData, setting: Hyperparameters) -> GreedyPolicy:
        theta = _imitate(part, setting["baseline"], setting["l2"])
        return GreedyPolicy(part.log.action_names, theta, request.priority, part.model, "ipw-logistic")

    return fit_best(request, data, grid(l2=(l2, STRENGTHS), baseline=(baseline, levels)), fit)


def _imitate(part: TrainingData, baseline: float, l2: float) -> np.ndarray:
    """θ (K, d) at which the weighted likelihood of the logged actions, less the penalty, is largest."""
    log, mask = part.log, part.allowed
    assert log.propensities is not None
    weights = np.maximum(log.rewards - baseline, 0) / log.propensities
    weights /= weights.sum() or 1.0
    rows, shape = np.arange(log.n_rows), (log.n_actions, log.n_features)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        theta = flat.reshape(shape)
        chances = softmax(log.contexts @ theta.T, mask)
        likelihood = np.log(np.maximum(chances[rows, log.actions], 1e-300))
        slope = weights[:, None] * chances
        slope[rows, log.actions] -= weights
        gradient = slope.T @ log.contexts + l2 * theta
        return float(0.5 * l2 * (flat @ flat) - weights @ likelihood), gradient.ravel()

    return minimise(loss, np.zeros(log.n_actions * log.n_features)).reshape(shape)


TREES: dict[str, Callable[..., Policy]] = {"boosted": boosted_policy, "stacked": stacked_policy}
"""Methods that share one boosted reward model."""

BY_ERROR = ("greedy", "posterior", "boosted")
"""Methods between which `auto` chooses by held-out error where there are no propensities."""

BY_REWARD_MODEL = ("greedy", "posterior", *TREES)
"""Methods that play the best action by a reward model, supported or not: `auto` also tries them on the support."""


@dataclass(frozen=True, eq=False)
class CandidateSet:
    """The candidates of `auto`: probabilities (n, K) by name, from policies that have not seen the row's context.

    fitted (n, K) is r̂ by a cross-fitted model, `trusted` whether it is trusted for unsupported actions; `model` is the
    boosted reward model, if one was fitted.
    """

    log: Log
    tables: dict[str, np.ndarray]
    fitted: np.ndarray
    model: Boosted | None
    trusted: bool = True
    notes: tuple[str, ...] = ()

    def terms(self, table: np.ndarray) -> Terms:
        """Σ_{a supported} π(a|x_i)·Γ_i(a) + Σ_{a not} π(a|x_i)·c_i(a) of each row, c by `support_aware_rewards`.

        No weight exceeds √n, so that no single row decides. If the support is unknown the terms are those of IPS.
        """
        log = self.log
        if not log.support.known:
            return support_aware_terms(table, log, float(log.rewards.mean()))
        assert log.propensities is not None
        bounded = replace(log, propensities=np.maximum(log.propensities, log.n_rows**-0.5))
        outside = support_aware_rewards(bounded, table, self.fitted, trusted=self.trusted)
        return Terms(evaluated_rows(bounded, table, self.fitted, outside))


def auto(request: LearningRequest, *, candidates: Sequence[str] = CANDIDATES) -> Policy:
    """The candidate with the best lower limit on held-out contexts and those that may be as good, as a vote.

    Every candidate is fitted without a fold of contexts, its own settings chosen within the rest, and evaluated on
    that fold. Its value there is doubly robust, w·(r − r̂) + Σ_a π·r̂ over the supported actions;
    `support_aware_rewards` gives the value of all others. If contexts differ in their support, candidates that follow
    a reward model are tried on the actions that a context is likely to support, and without that restriction only if
    the model is trusted. Without propensities `auto` takes the reward model (greedy, posterior or boosted) with the least error.
    """
    from sparing.learning.learn import METHODS  # which contains this method

    known = [name for name in METHODS if name != "auto"]
    if isinstance(candidates, str) or not candidates or not set(candidates) <= set(known):
        raise SettingError(f"candidates={candidates!r}; must be some of {', '.join(known)}")
    prepare_training_data(request, "auto", "logged")  # raises if no candidate could be fitted
    if request.log.n_contexts < 2:
        votes, trial = {candidates[0]: 1.0}, None
        notes: tuple[str, ...] = (f"one context only, none to hold out: {candidates[0]} taken unseen",)
    elif request.log.propensities is None:
        best, trial, notes = _by_error(request, candidates)
        votes = {best: 1.0}
    else:
        trial = fit_candidates(request, candidates)
        terms = {name: trial.terms(table) for name, table in trial.tables.items()}
        votes = _votes(terms)
        notes = (*_candidate_notes(trial, terms, votes), *trial.notes)
    members = [_fit_member(request, trial, name) for name in votes]
    if len(members) == 1:
        return replace(members[0], notes=(*notes, *members[0].notes))
    own = [f"{name}: {note}" for name, member in zip(votes, members, strict=True) for note in member.notes]
    names, weights = request.log.action_names, np.array(list(votes.values()))
    return VotingPolicy(names, tuple(members), weights, request.priority, "auto", notes=(*notes, *own))


def _fit_member(request: LearningRequest, trial: CandidateSet | None, name: str) -> Any:
    from sparing.learning.learn import METHODS

    method = name.removesuffix(ON_SUPPORT)
    policy: Any
    if method in TREES and trial is not None and trial.model is not None:
        policy = TREES[method](request, prepare_training_data(request, method, "logged"), trial.model)
    else:
        policy = METHODS[method](request.of_rows(request.log))
    return policy if method == name else replace(policy, support=_likely_support(request.log))


def _votes(terms: dict[str, Terms]) -> dict[str, float]:
    """e^(−t) for each candidate that is t standard errors behind the one with the best limit, which comes first.

    If the log cannot separate candidates, their vote errs less than the one that happens to lead. If it can, or if
    all others together cannot outvote the best, the best is alone.
    """
    limits = {name: lower_limit(each) for name, each in terms.items()}
    order = sorted(terms, key=lambda name: -limits[name])
    best, votes = terms[order[0]].linearised(), {}
    for name in order:
        behind = best - terms[name].linearised()
        error = behind.std(ddof=1) / np.sqrt(len(behind))
        lag = max(float(behind.mean()), 0.0)
        vote = float(np.exp(-lag / error)) if error > 0 else float(lag == 0)
        if vote >= LEAST_VOTE:
            votes[name] = vote
    return votes if sum(votes.values()) > 2 else {order[0]: 1.0}


def _by_error(
    request: LearningRequest, candidates: Sequence[str]
) -> tuple[str, CandidateSet, tuple[str, ...]]:
    """Greedy, posterior or boosted, whichever explains held-out rewards best once shifted and scaled."""
    usable = [name for name in candidates if name in BY_ERROR]
    if not usable:
        raise LogError(
            f"without propensities auto chooses between {', '.join(BY_ERROR[:-1])} and {BY_ERROR[-1]}; "
            f"candidates={candidates!r}"
        )
    log, model, notes = request.log, None, []
    if "boosted" in usable:
        try:
            model = boosted_rewards(request)
        except MissingExtraError as error:
            notes.append(f"boosted was not tried: {error}")
    choice, fitted = choose_ridge(request, crossfitted=True), {}
    if "greedy" in usable:
        fitted["greedy"] = choice.rewards(log)
    if "posterior" in usable:
        try:
            fitted["posterior"] = posterior_rewards(log, choice)
        except LogError as error:
            notes.append(f"posterior was not tried: {error}")
    if model is not None:
        fitted["boosted"] = model.held_out(log.contexts)
    errors = {
        name: float(errors_up_to_scale(log.rewards, _logged(log, table)).mean())
        for name, table in fitted.items()
    }
    if not errors:
        raise LogError("none of the candidates can be learnt from this log: " + "; ".join(notes))
    best = min(errors, key=lambda name: errors[name])
    listed = ", ".join(f"{name} {error:.4g}" for name, error in errors.items())
    notes.insert(
        0, f"{best}, by squared error up to shift and scale on held-out contexts ({listed}): no propensities"
    )
    return best, CandidateSet(log, {}, fitted[best], model), tuple(notes)


def _candidate_notes(
    trial: CandidateSet, terms: dict[str, Terms], votes: dict[str, float]
) -> tuple[str, ...]:
    """The limits, best first; the votes; and whether the best is shown to be better than the logging policy."""
    limits = {name: lower_limit(each) for name, each in terms.items()}
    order = sorted(terms, key=lambda name: -limits[name])
    listed = ", ".join(f"{name} {limits[name]:.4g}" for name in order)
    log, logged = trial.log, float(trial.log.rewards.mean())
    count = "1 method" if len(terms) == 1 else f"{len(terms)} methods"
    notes = [f"{order[0]} of {count}, by the lower limit on held-out contexts: {listed}"]
    if len(votes) > 1:
        shares = ", ".join(f"{name} {vote:.2g}" for name, vote in votes.items())
        notes.append(f"the log does not separate it from some of the others, so they vote: {shares}")
    if log.support.known and not log.support.mask()[:, log.counts > 0].all():
        how = "the reward model predicts" if trial.trusted else "the least of what it does there"
        notes.append(f"what the logger never does in a context counted as {how}")
    if not limits[order[0]] > logged:
        notes.append(f"that does not show it to be better than the logging policy, which earned {logged:.4g}")
    return tuple(notes)


def fit_candidates(request: LearningRequest, candidates: Sequence[str]) -> CandidateSet:
    """Fit every candidate without each fold of contexts; those that the log does not allow are left out with a note."""
    log = prepare_training_data(request, "auto", "logged").log
    choice = choose_ridge(request, crossfitted=True)
    rewards = {"greedy": choice.rewards(log)}
    model, tables, notes = None, {}, []
    request.progress.total = len(candidates) + 1
    for name in candidates:
        try:
            if name in TREES or name == "posterior":
                if name == "posterior":
                    rewards[name] = posterior_rewards(log, choice)
                elif model is None:
                    model = boosted_rewards(request)
                    rewards["boosted"] = model.held_out(log.contexts)
                    weights = reward_weights(log, rewards["greedy"], rewards["boosted"])
                    rewards["stacked"] = weights[0] * rewards["greedy"] + weights[1] * rewards["boosted"]
                allowed = prepare_training_data(request, name, "logged").allowed
                tables[name] = _best_by_rewards(request, rewards[name], allowed)
            else:
                tables[name] = _held_out(request, log, partial(_fitted_policy, request, name))
        except (LogError, MissingExtraError) as error:
            notes.append(f"{name} was not tried: {error}")
        request.progress.step()
    if not tables:
        raise LogError("none of the candidates can be learnt from this log: " + "; ".join(notes))
    models = [rewards[name] for name in ("greedy", "boosted") if name in rewards]
    fitted = min(models, key=lambda each: float(((log.rewards - _logged(log, each)) ** 2).mean()))
    trusted = extrapolation_trusted(log, fitted)
    mask = log.support.mask() if log.support.known else None
    if request.support is None and mask is not None and (mask != mask[0]).any():
        allowed = _held_out(request, request.log, _likely_support) > 0
        for name in [name for name in BY_REWARD_MODEL if name in tables]:
            tables[name + ON_SUPPORT] = _best_by_rewards(request, rewards[name], allowed)
            if not trusted:
                del tables[name]
    return CandidateSet(log, tables, fitted, model, trusted, tuple(notes))


def _held_out(
    request: LearningRequest, log: Log, fit: Callable[[Log], Callable[[np.ndarray], np.ndarray]]
) -> np.ndarray:
    """Numbers (n, K) by functions of contexts that are fitted without the row's context."""
    table = np.empty((log.n_rows, log.n_actions))
    for held in held_out_folds(request, log):
        table[held] = fit(log.take(~held))(log.contexts[held])
    return table


def _fitted_policy(request: LearningRequest, name: str, log: Log) -> Callable[[np.ndarray], np.ndarray]:
    from sparing.learning.learn import METHODS

    return METHODS[name](request.of_rows(log)).probabilities


def _best_by_rewards(request: LearningRequest, rewards: np.ndarray, allowed: np.ndarray | None) -> np.ndarray:
    """Probabilities of the best `allowed` action (n, K) by cross-fitted rewards (n, K)."""
    return one_hot(best_actions(rewards, request.priority, allowed), request.log.n_actions)


def _likely_support(log: Log) -> KnownSupport:
    return KnownSupport.fixed(log.counts > 0, log.n_features).with_learned_lines(log)


def _logged(log: Log, table: np.ndarray) -> np.ndarray:
    return table[np.arange(log.n_rows), log.actions]


def extrapolation_trusted(log: Log, fitted: np.ndarray) -> bool:
    """Whether r̂ (n, K) is trusted for unsupported actions: the logger is not informative, or rewards are linear.

    An informative logger leaves out bad actions, about which a model that does not fit has learned nothing.
    """
    return not log.support.known or not is_informative(log, fitted) or is_linear(log)


def is_informative(log: Log, fitted: np.ndarray) -> bool:
    """Whether the logged actions are better by r̂ (n, K) than the mean of the supported ones, beyond chance."""
    mask = log.support.mask()
    mean = np.where(mask, fitted, 0.0).sum(axis=1) / mask.sum(axis=1)
    better = _logged(log, fitted) - mean
    return bool(better.mean() > BEYOND_CHANCE * better.std(ddof=1) / np.sqrt(log.n_rows))


def is_linear(log: Log) -> bool:
    """Whether a sample of the log shows no lack of linear fit; linear rewards extrapolate beyond the support."""
    try:
        return not lack_of_fit(sample(log)).found
    except InputError:  # too few rows to test
        return False


def support_aware_rewards(log: Log, table: np.ndarray, fitted: np.ndarray, *, trusted: bool) -> np.ndarray:
    """The value of each unsupported action, (n, K), for a policy with these probabilities (n, K).

    If r̂ is trusted: r̂ less the amount by which the policy's own actions earn less than r̂, because the best of many
    predictions is too high. Otherwise the least r̂ of the context's supported actions.
    """
    assert log.propensities is not None
    lowest, highest = float(log.rewards.min()), float(log.rewards.max())
    if not trusted:
        least = np.where(log.support.mask(), fitted, np.inf).min(axis=1)
        return np.broadcast_to(least[:, None], fitted.shape).clip(lowest, highest)
    weights = _logged(log, table) / log.propensities
    deficit = float(weights @ (log.rewards - _logged(log, fitted))) / (float(weights.sum()) or 1.0)
    return (fitted + min(deficit, 0.0)).clip(lowest, highest)


def evaluated_rows(log: Log, table: np.ndarray, fitted: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """Each row's term of the doubly robust value, (n,), with `outside` (n, K) as the value of unsupported actions."""
    values = np.where(log.support.mask(), completed_rewards(log, fitted), outside)
    return np.asarray(np.einsum("nk,nk->n", table, values))
