"""Learners by regression: greedy on the estimates, or on their lower limits."""

from typing import Any

import numpy as np

from sparing.errors import LogError, SettingError
from sparing.learning.choosing import (
    Act,
    choose,
    choose_ridge,
    choose_ridge_to_rank,
    ridge_grid,
)
from sparing.learning.material import Request, gather
from sparing.model.assumptions import Assumptions
from sparing.model.crossfitting import reward_parameters
from sparing.model.radius import RADII
from sparing.model.statistics import Statistics, ridge_regression
from sparing.policies.learnt import PessimisticPolicy
from sparing.policies.policy import GreedyPolicy, best_actions, one_hot

SCORES = ("argmax", "squared-error", "support-aware")


def greedy(request: Request, *, ridge: Any = None, score: str = "argmax") -> GreedyPolicy:
    """argmax_a x·θ̂_a, θ̂ by ridge regression on the log (the DM policy).

    The ridge is chosen on held-out contexts, by how well the estimates explain the rewards once they are
    shifted and scaled, to which an argmax is blind; `score="squared-error"` takes them as they are, and
    `score="support-aware"` judges the policies instead, which is noisier and needs propensities.
    """
    log, material = request.log, gather(request, "greedy", "logged")
    settings = ridge_grid(ridge)
    if score not in SCORES:
        raise SettingError(f"score={score!r}; must be one of {', '.join(SCORES)}")
    if score == "support-aware" and log.propensities is None:
        raise LogError("score='support-aware' needs propensities, and the log has none; use 'argmax'")
    if score == "support-aware":
        chosen, notes = choose(
            request,
            material,
            settings,
            lambda part, setting: reward_parameters(Statistics.of(part.log), setting["ridge"]),
            greedily(request.priority),
        )
    else:
        by = choose_ridge_to_rank if score == "argmax" else choose_ridge
        chosen, notes = by(request, log, settings)
    theta = reward_parameters(Statistics.of(log), chosen["ridge"])
    return GreedyPolicy(
        log.action_names, theta, request.priority, material.model, "greedy", material.notes + notes
    )


def pessimistic(
    request: Request,
    *,
    ridge: float = 1.0,
    radius: str = "determinant",
    radius_scale: float = 1.0,
    noise: float | None = None,
    theta_bound: float | None = None,
    context_bound: float | None = None,
    delta: float = 0.05,
) -> PessimisticPolicy:
    """argmax_a x·θ̂_a − ρ_a·width_a(x): the lower confidence limit, ρ_a as in the online learners.

    The ridge is not chosen from the data: the radius is proved for one that was fixed beforehand.
    """
    log, material = request.log, gather(request, "pessimistic", "logged")
    sums = Statistics.of(log)
    assumptions = Assumptions.resolve(
        sums,
        noise=noise,
        theta_bound=theta_bound,
        context_bound=context_bound,
        ridge=ridge,
        delta=delta,
        radius=radius,
        radius_scale=radius_scale,
    )
    d = log.n_features
    gram = sums.gram + ridge * np.eye(d)
    volume = np.maximum(np.linalg.slogdet(gram)[1] - d * np.log(ridge), 0)
    radii = RADII[radius](volume, sums.counts, d, log.n_rows, log.n_actions, assumptions)
    return PessimisticPolicy(
        log.action_names,
        ridge_regression(sums, ridge),
        np.linalg.inv(gram),
        radius_scale * radii,
        request.priority,
        material.model,
        "pessimistic",
        (*material.notes, str(assumptions)),
    )


def greedily(priority: np.ndarray) -> Act:
    """Act by argmax_a x·θ_a over the allowed actions."""

    def act(theta: np.ndarray, contexts: np.ndarray, allowed: np.ndarray | None) -> np.ndarray:
        scores = np.einsum("nd,kd->nk", contexts, theta)
        return one_hot(best_actions(scores, priority, allowed), len(priority))

    return act
