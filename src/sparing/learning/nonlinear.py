"""Offline learners beside the linear reward models: boosted rewards, both added, and imitation of what paid."""

from dataclasses import replace
from typing import Any

import numpy as np

from sparing.learning.choosing import RIDGES, Setting, choose, choose_ridge, grid, reward_model, said
from sparing.learning.material import Material, Request, gather
from sparing.learning.objectives import minimise
from sparing.log import Log
from sparing.model.boosting import ROUNDS, Boosted, boost
from sparing.model.crossfitting import reward_parameters, stacking_weights
from sparing.model.statistics import Statistics
from sparing.policies.boosted import BoostedPolicy, StackedPolicy
from sparing.policies.policy import GreedyPolicy, softmax
from sparing.validation import integer

STRENGTHS = (1e-4, 1e-3, 1e-5)
"""L2 regularisation beside weights of mean 1."""


def boosted(request: Request, *, rounds: Any = None) -> BoostedPolicy:
    """argmax_a r̂(x, a), r̂ by gradient boosting for each action (scikit-learn's), among the actions that were logged.

    `rounds`, the trees of each action, are chosen on held-out contexts by how well the estimates explain the
    rewards once they are shifted and scaled, to which an argmax is blind.
    """
    material = gather(request, "boosted", "logged")
    return boosted_policy(request, material, boosted_rewards(request, rounds))


def boosted_rewards(request: Request, rounds: Any = None) -> Boosted:
    """The boosted reward model of the request's log."""
    numbers = [
        integer("rounds", each, least=1) for each in np.atleast_1d(ROUNDS if rounds is None else rounds)
    ]
    return boost(
        request.log, folds=request.folds, seed=request.seed, rounds=numbers, purpose="method 'boosted'"
    )


def boosted_policy(request: Request, material: Material, model: Boosted) -> BoostedPolicy:
    """The best action by the trees that were learnt from all rows."""
    notes = (*material.notes, _counted(request, model))
    return BoostedPolicy(request.log.action_names, model.trees, request.priority, material.model, notes=notes)


def stacked(request: Request, *, rounds: Any = None, ridge: Any = None) -> StackedPolicy:
    """argmax_a w₀·x·θ̂_a + w₁·r̂(x, a): ridge regression and boosting added, among the actions that were logged.

    The weights are those, 0 or more, with which both together explain the rewards of held-out contexts best.
    """
    material = gather(request, "stacked", "logged")
    return stacked_policy(request, material, boosted_rewards(request, rounds), ridge)


def stacked_policy(request: Request, material: Material, model: Boosted, ridge: Any = None) -> StackedPolicy:
    """The best action by both models as learnt from all rows."""
    log = request.log
    chosen, notes = choose_ridge(request, log, grid(ridge=(ridge, RIDGES)))
    linear = reward_model(log, chosen["ridge"], request, crossfitted=True)
    weights = reward_weights(log, linear, model.held_out(log.contexts))
    parts = f"{weights[0]:.3g} of the linear rewards, {weights[1]:.3g} of the boosted ones"
    return StackedPolicy(
        log.action_names,
        model.trees,
        request.priority,
        material.model,
        theta=reward_parameters(Statistics.of(log), chosen["ridge"]),
        weights=weights,
        notes=(*material.notes, parts, *(notes or (said(chosen),)), _counted(request, model)),
    )


def reward_weights(log: Log, linear: np.ndarray, boosted: np.ndarray) -> np.ndarray:
    """How much of each, (2,), explains the logged rewards best; both (n, K) by models that have not seen the row."""
    own = np.arange(log.n_rows), log.actions
    return stacking_weights(log.rewards, np.column_stack([linear[own], boosted[own]]))


def _counted(request: Request, model: Boosted) -> str:
    how = "by squared error up to shift and scale on held-out contexts"
    how = "one context only, none to hold out" if request.log.n_contexts < 2 else how
    return f"{model.rounds} trees an action, {how}"


def ipw_logistic(request: Request, *, l2: Any = None, baseline: Any = None) -> GreedyPolicy:
    """argmax_a x·θ_a of a logistic regression on the logged actions, each row weighed by max(r − baseline, 0)/μ.

    θ maximises Σ_i w_i·log π_θ(a_i|x_i)/Σ_i w_i − l2/2·‖θ‖² over softmax policies on the logged actions: what paid
    is imitated, and what was rarely tried counts for more. Weights must not be negative, so rewards count from
    the baseline on: r_min (the lower end of `reward_range`, else the smallest reward), which keeps the order of the
    actions whatever the noise; or the mean reward, where it does better: it keeps the order if the noise is the
    same for all actions, and leaves out half of it.
    """
    material = gather(request, "ipw-logistic", "logged")
    levels = [request.lowest]
    if (
        len(np.unique(request.log.rewards)) > 2
    ):  # of two values only the larger one counts, whatever the baseline
        levels.append(float(request.log.rewards.mean()))

    def learner(part: Material, setting: Setting) -> GreedyPolicy:
        theta = _imitate(part, setting["baseline"], setting["l2"])
        return GreedyPolicy(part.log.action_names, theta, request.priority, part.model, "ipw-logistic")

    settings = grid(l2=(l2, STRENGTHS), baseline=(baseline, levels))
    chosen, notes = choose(request, material, settings, learner)
    return replace(learner(material, chosen), notes=material.notes + notes)


def _imitate(part: Material, baseline: float, l2: float) -> np.ndarray:
    """θ (K, d) at which the weighted likelihood of the logged actions, less the penalty, is largest."""
    log, mask = part.log, part.allowed
    assert log.propensities is not None
    weights = np.maximum(log.rewards - baseline, 0) / log.propensities
    weights /= weights.sum() or 1.0
    rows, shape = np.arange(log.n_rows), (log.n_actions, log.n_features)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        theta = flat.reshape(shape)
        chances = softmax(log.contexts @ theta.T, mask)
        told = np.log(np.maximum(chances[rows, log.actions], 1e-300))
        slope = weights[:, None] * chances
        slope[rows, log.actions] -= weights
        gradient = slope.T @ log.contexts + l2 * theta
        return float(0.5 * l2 * (flat @ flat) - weights @ told), gradient.ravel()

    return minimise(loss, np.zeros(log.n_actions * log.n_features)).reshape(shape)
