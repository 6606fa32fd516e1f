"""The method `posterior`: the best posterior mean under the prior of maximum evidence, with item features if there are any."""

import numpy as np

from sparing.errors import LogError
from sparing.learning.request import LearningRequest
from sparing.learning.ridge import RidgeChoice
from sparing.log import Log
from sparing.log.rows import AnyLog
from sparing.model.posterior import ItemFeatures, fit_prior_scale, posterior_mean, resolve_items
from sparing.model.prior import Prior
from sparing.model.statistics import Statistics
from sparing.policies.policy import GreedyPolicy

RIDGE = 1.0  # of the estimates whose spread is the prior's where raw features have no constant, as in `economical`


def posterior(
    request: LearningRequest,
    *,
    items: ItemFeatures | None = None,
    prior_scale: float | None = None,
    noise: float | None = None,
) -> GreedyPolicy:
    """argmax_a x·θ̂_a, θ̂_a the posterior mean under the prior from which `economical` starts.

    Actions learn from each other: θ_a ~ N(Wz_a, S), where z_a are the action's item features, if there are any. W, S and the
    noise are fitted to the rows. `items` replace those of the log; `prior_scale` and `noise` are estimated if not given.
    """
    sums, fingerprint = request.summed("posterior")
    model, notes = request.allowed_actions(sums.counts)
    prior = fitted_prior(request.rows, sums, items=items, scale=prior_scale, noise=noise)
    used = f"{prior.items.shape[1] - 1} item features" if prior.items.shape[1] > 1 else "no item features"
    notes = (*notes, f"prior: {prior}; noise {prior.noise:.4g}; {used}")
    theta = posterior_mean(prior, sums)
    names, priority = request.rows.action_names, request.priority
    return GreedyPolicy(names, theta, priority, model, "posterior", notes=notes, trained_on=fingerprint)


def fitted_prior(
    log: AnyLog,
    sums: Statistics,
    *,
    items: ItemFeatures | None = None,
    scale: float | None = None,
    noise: float | None = None,
) -> Prior:
    """The prior fitted to the sums of a log, with its items unless others are given."""
    if noise is None and not sums.squares.any():
        raise LogError(
            "the log's rewards are all 0, so method 'posterior' cannot estimate their noise. Pass noise=..., or use greedy"
        )
    own = resolve_items(log, items)
    return fit_prior_scale(log, sums, RIDGE, noise=noise, items=own, scale=scale, mean=None)


def posterior_rewards(log: Log, choice: RidgeChoice) -> np.ndarray:
    """x_i·θ̂_a (n, K), θ̂ the posterior mean by the folds that do not contain the row's context."""
    return choice.held_out(log, lambda sums: posterior_mean(fitted_prior(log, sums), sums))
