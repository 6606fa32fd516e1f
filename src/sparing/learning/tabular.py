"""π⁺ as a policy: a table for the log's contexts, greedy elsewhere."""

from dataclasses import replace
from typing import Any

import numpy as np

from sparing.learning.choosing import choose_ridge, ridge_grid
from sparing.learning.material import Material, Request, gather
from sparing.log import Log
from sparing.model.crossfitting import reward_parameters
from sparing.model.statistics import Statistics
from sparing.policies.learnt import TablePolicy
from sparing.policies.pi_plus import UNLOGGED, PiPlus, pi_plus
from sparing.policies.policy import GreedyPolicy
from sparing.policies.supports import KnownSupport


def pi_plus_policy(
    request: Request, *, clip: float | str = "percentile-ratio", ridge: Any = None
) -> TablePolicy:
    """π⁺ for the contexts of the log; the greedy action among supported ones for any other.

    Contexts are told apart by their features, even where the log has ids. `clip` is M; it cannot be
    chosen on held-out contexts, because π⁺ knows nothing about a context it has not seen.
    """
    log, material = request.log, gather(request, "pi-plus", "logged")
    by_features = replace(log, context_ids=None)
    plus = pi_plus(by_features, clip)
    first = np.unique(plus.groups, return_index=True)[1]
    best = choose_ridge(request, log, ridge_grid(ridge))[0]["ridge"]
    theta = reward_parameters(Statistics.of(log), best)
    elsewhere, whose = material.model, "its supported actions"
    if request.support is None:
        elsewhere, whose = (
            KnownSupport.fixed(material.anywhere, log.n_features),
            "actions supported somewhere",
        )
    notes = [
        f"clip M = {plus.clip:.4g}",
        f"a context that is not in the log gets the greedy action (ridge = {best:.4g}) among {whose}",
    ]
    if material.supported is None:
        notes.append("support unknown: mass on a context's unlogged actions goes to those logged elsewhere")
    return TablePolicy(
        log.action_names,
        log.contexts[first],
        _table(plus, _shares(by_features, material)),
        GreedyPolicy(log.action_names, theta, request.priority, elsewhere),
        "pi-plus",
        tuple(notes),
    )


def _shares(log: Log, material: Material) -> np.ndarray:
    """How a row's mass on unlogged actions is to be shared, (n, K), up to a factor: by their caps M·μ."""
    distribution = log.support.distribution()
    if distribution is not None:
        return distribution
    if material.supported is not None:
        return material.supported.astype(np.float64)
    return np.tile((log.counts > 0).astype(np.float64), (log.n_rows, 1))


def _table(plus: PiPlus, shares: np.ndarray) -> np.ndarray:
    """π⁺ as a dense table (contexts, K), the mass of UNLOGGED spread over a context's unlogged actions."""
    sizes = np.diff(plus.offsets)
    table = np.zeros((len(sizes), shares.shape[1]))
    group = np.repeat(np.arange(len(sizes)), sizes)
    logged = plus.entry_actions != UNLOGGED
    table[group[logged], plus.entry_actions[logged]] = plus.entry_mass[logged]
    caps = np.zeros_like(table)
    np.add.at(caps, plus.groups, shares)
    caps[group[logged], plus.entry_actions[logged]] = 0
    caps[caps.sum(axis=1) <= 0] = 1
    rest = np.zeros(len(sizes))
    rest[group[~logged]] = plus.entry_mass[~logged]
    return table + caps * (rest / caps.sum(axis=1))[:, None]
