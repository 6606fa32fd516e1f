"""What a log tells of each action by itself."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from sparing.auditing.facts import Sets
from sparing.auditing.support import SupportEstimate
from sparing.log import Log
from sparing.model.ellipsoids import Ellipsoids


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
    header: Log,
    counts: np.ndarray,
    supported: Sets | None,
    implied: np.ndarray | None,
    ellipsoids: Ellipsoids | None,
    estimate: SupportEstimate | None,
    *,
    rare: float,
    error: float,
) -> tuple[ActionAudit, ...]:
    """Describe every action, in the log's order, by its rows, counts (K,), and by what rows could have taken.

    `implied` (K,) is Σ 1/μ over an action's rows, where propensities were logged.
    """
    n, k = int(counts.sum()), len(counts)
    shares = None if supported is None else supported.shares
    exact = shares is not None and header.support.kind == "exact"
    missing = 1 - shares if exact and shares is not None else None
    by_chance = header.support.from_probabilities
    errors = None if ellipsoids is None else ellipsoids.errors
    columns = {
        "rows": counts,
        "share": counts / n if n else None,
        "supported": shares,
        "zero": missing if by_chance else None,
        "ineligible": None if by_chance else missing,
        "rare": rare_shares(counts, supported, rare) if n else None,
        "undecided": None if estimate is None else estimate.undecided,
        "implied": None if implied is None or exact else implied / n,
        "certified_error": errors,
        "certified": np.zeros(k, dtype=bool) if errors is None else errors <= error,
    }
    values = [[None] * k if column is None else column.tolist() for column in columns.values()]
    return tuple(
        ActionAudit(name, **dict(zip(columns, row, strict=True)))
        for name, *row in zip(header.action_names, *values, strict=True)
    )


def rare_shares(counts: np.ndarray, supported: Sets | None, rare: float) -> np.ndarray:
    """Share of rows in which each action is supported with a propensity below `rare`, (K,).

    With known distributions by the propensity itself. Otherwise an action is rare in all of its
    supported rows (all rows where the support is unknown) or in none, by N_a over their number.
    """
    if supported is not None and supported.rare is not None:
        return supported.rare / supported.rows
    shares = np.ones(len(counts)) if supported is None else supported.shares
    return np.where(counts < rare * shares * counts.sum(), shares, 0.0)
