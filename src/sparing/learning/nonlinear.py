"""Offline learners beside the linear reward models: boosted rewards, and imitation of what paid."""

from dataclasses import replace
from typing import Any

import numpy as np

from sparing.learning.choosing import Setting, choose, grid
from sparing.learning.material import Material, Request, gather
from sparing.learning.objectives import minimise
from sparing.model.boosting import ROUNDS, Boosted, boost
from sparing.policies.boosted import BoostedPolicy
from sparing.policies.policy import GreedyPolicy, softmax
from sparing.settings import whole

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
    numbers = [whole("rounds", each, least=1) for each in np.atleast_1d(ROUNDS if rounds is None else rounds)]
    return boost(
        request.log, folds=request.folds, seed=request.seed, rounds=numbers, purpose="method 'boosted'"
    )


def boosted_policy(request: Request, material: Material, model: Boosted) -> BoostedPolicy:
    """The best action by the trees that were learnt from all rows."""
    how = "by squared error up to shift and scale on held-out contexts"
    how = "one context only, none to hold out" if request.log.n_contexts < 2 else how
    notes = (*material.notes, f"{model.rounds} trees an action, {how}")
    return BoostedPolicy(request.log.action_names, model.trees, request.priority, material.model, notes=notes)


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
