"""Each action by itself: how often it was logged, could have been, and how well it is known."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from sparing.log import Log
from sparing.log.blocks import Blocks


@dataclass(frozen=True)
class ActionAudit:
    """One action; shares are of the log's rows, and None where the log cannot tell.

    supported: could have been logged. zero: probability 0 in a known distribution, whether eligible or
    not. ineligible: outside the eligible set. rare: supported, but with a propensity (or, without
    distributions, a share of the supported rows) below the bar. undecided: of an estimated support.
    implied: mean of 1{a_i = a}/μ_i, which is the supported share by logged propensities alone, where the
    support is not exact.
    certified_error: bound on ‖θ̂_a − θ*_a‖ that holds for all actions at once with probability 1 − δ.
    """

    name: Hashable
    rows: int
    share: float | None
    supported: float | None
    zero: float | None
    ineligible: float | None
    rare: float | None
    undecided: float | None
    implied: float | None
    certified_error: float | None
    certified: bool


def audit_actions(
    log: Log,
    *,
    rare: float,
    errors: np.ndarray | None,
    error: float,
    undecided: np.ndarray | None,
    estimated: bool,
) -> tuple[ActionAudit, ...]:
    """Describe every action, in the log's order; `errors` (K,) are the certified ones, where there are any.

    `estimated` says that the log's propensities are.
    """
    n, k = log.n_rows, log.n_actions
    known = log.support.known and n > 0
    supported = log.support.shares if known else np.full(k, np.nan)
    exact = known and log.support.kind == "exact"
    distributions = log.support.from_probabilities
    uncommon = rare_shares(log, rare) if n else np.full(k, np.nan)
    implied = None
    if log.propensities is not None and n and not exact and not estimated:
        implied = np.bincount(log.actions, weights=1 / log.propensities, minlength=k) / n

    def value(condition: bool, number: float) -> float | None:
        return float(number) if condition else None

    return tuple(
        ActionAudit(
            name=name,
            rows=int(log.counts[a]),
            share=value(n > 0, log.counts[a] / max(1, n)),
            supported=value(known, supported[a]),
            zero=value(exact and distributions, 1 - supported[a]),
            ineligible=value(exact and not distributions, 1 - supported[a]),
            rare=value(n > 0, uncommon[a]),
            undecided=None if undecided is None else float(undecided[a]),
            implied=None if implied is None else float(implied[a]),
            certified_error=None if errors is None else float(errors[a]),
            certified=errors is not None and bool(errors[a] <= error),
        )
        for a, name in enumerate(log.action_names)
    )


def rare_shares(log: Log, rare: float) -> np.ndarray:
    """Share of rows in which each action is supported with a propensity below `rare`, (K,).

    With known distributions by the propensity itself. Otherwise an action is rare in all of its
    supported rows (all rows where the support is unknown) or in none, by N_a over their number.
    """
    support = log.support
    if support.probabilities is None:
        shares = support.shares if support.known else np.ones(log.n_actions)
        return np.where(log.counts < rare * shares * log.n_rows, shares, 0.0)
    table = support.probabilities
    weights = None if support.index is None else np.bincount(support.index, minlength=len(table))
    rows = np.zeros(log.n_actions)
    for part in Blocks.of(len(table), log.n_actions):
        below = (table[part] > 0) & (table[part] < rare)
        rows += below.sum(axis=0) if weights is None else weights[part].astype(float) @ below
    return rows / log.n_rows
