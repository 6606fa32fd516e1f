"""π⁺: the best policy that stays where the log can see, by its closed form."""

from dataclasses import dataclass

import numpy as np

from sparing.errors import LogError, SettingError
from sparing.log import Log

UNLOGGED = -1
"""Stands for all supported actions of a context that were never logged in it."""

REST = 1e-9
"""Less unlogged propensity than this is rounding."""


@dataclass(frozen=True, eq=False)
class PiPlus:
    """π⁺ over the log's distinct contexts.

    groups (n,): which distinct context a row is; weights (n,): π⁺(a_i|x_i)/μ(a_i|x_i); thresholds (n,):
    r_i·min(weight, M). Context g has the entries offsets[g]:offsets[g+1] of (entry_actions, entry_mass);
    the action UNLOGGED carries the mass of all its supported but unlogged actions.
    """

    clip: float
    groups: np.ndarray
    weights: np.ndarray
    thresholds: np.ndarray
    offsets: np.ndarray
    entry_actions: np.ndarray
    entry_mass: np.ndarray


def clip_constant(log: Log, clip: float | str) -> float:
    """M: `percentile-ratio` is P90/P10 of the logged propensities (the paper's), else a number or `inf`."""
    if clip == "percentile-ratio":
        low, high = np.percentile(_propensities(log), [10, 90])
        return float(high / low)
    try:
        value = float(clip)
    except (TypeError, ValueError):
        raise SettingError(
            f"clip={clip!r}; must be 'percentile-ratio', 'inf' or a number of 1 or more"
        ) from None
    if not value >= 1:
        raise SettingError(
            f"clip={value}; must be 1 or more: with a smaller one no policy has π/μ ≤ clip and sums to 1"
        )
    return value


def pi_plus(log: Log, clip: float | str = "percentile-ratio") -> PiPlus:
    """Maximise Σ r_i·π(a_i|x_i)/μ_i subject to 0 ≤ π/μ ≤ M, Σ_a π = 1, π = 0 outside the support.

    It separates by context: fill the actions in decreasing order of Σ r/μ, each up to M·μ(a|x) and at
    most the mass left. Supported unlogged actions count as one of value 0 and cap M·(1 − Σ logged μ).
    Where μ differs between repeats of a context, the cap is M·min μ; caps that leave less than 1 in all
    are scaled up to it.
    """
    propensities = _propensities(log)
    bound = clip_constant(log, clip)
    groups = log.groups
    n_groups = log.n_contexts
    pairs, pair_of_row = np.unique(groups * log.n_actions + log.actions, return_inverse=True)
    value = np.bincount(pair_of_row, weights=log.rewards / propensities, minlength=len(pairs))
    smallest = np.full(len(pairs), np.inf)
    np.minimum.at(smallest, pair_of_row, propensities)
    group, action = pairs // log.n_actions, pairs % log.n_actions

    rest = _unlogged_propensity(log, group, smallest, n_groups)
    extra = np.flatnonzero(rest)
    group = np.concatenate([group, extra])
    action = np.concatenate([action, np.full(len(extra), UNLOGGED)])
    value = np.concatenate([value, np.zeros(len(extra))])
    share = np.concatenate([smallest, rest[extra]])
    with np.errstate(over="ignore"):
        cap = np.minimum(bound * share, 1.0)
    total = np.bincount(group, weights=cap, minlength=n_groups)
    cap /= np.minimum(total, 1.0)[group]

    order = np.lexsort((-value, group))
    group, action, cap = group[order], action[order], cap[order]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n_groups))])
    mass = np.clip(1 - _taken_before(cap, offsets), 0, cap)

    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    weights = mass[place[pair_of_row]] / propensities
    thresholds = log.rewards * np.minimum(weights, bound)
    return PiPlus(bound, groups, weights, thresholds, offsets, action, mass)


def _propensities(log: Log) -> np.ndarray:
    if log.propensities is None:
        raise LogError(
            "the log has no propensities, and π⁺ divides by them. Log them (column `propensity`), or use a "
            "learner that needs none, such as confident(log)"
        )
    if not log.n_rows:
        raise LogError("π⁺ of a log without rows is not defined")
    return log.propensities


def _unlogged_propensity(log: Log, group: np.ndarray, smallest: np.ndarray, n_groups: int) -> np.ndarray:
    """1 − Σ logged μ for each context, 0 where every supported action was logged."""
    rest = 1 - np.bincount(group, weights=smallest, minlength=n_groups)
    rest[rest < REST] = 0
    most = _support_sizes(log, n_groups) if log.support.known else log.n_actions
    rest[np.bincount(group, minlength=n_groups) >= most] = 0
    return rest


def _support_sizes(log: Log, n_groups: int) -> np.ndarray:
    """How many actions a context could have taken in one of its rows or another, (groups,)."""
    table, sets = log.support.table, log.support.index
    assert table is not None
    if n_groups == log.n_rows:
        sizes = np.empty(n_groups, dtype=np.int64)
        sizes[log.groups] = log.support.sizes
        return sizes
    pairs = np.unique(log.groups * len(table) + (np.arange(log.n_rows) if sets is None else sets))
    starts = np.searchsorted(pairs, np.arange(n_groups) * len(table))
    either = np.bitwise_or.reduceat(table[pairs % len(table)], starts, axis=0)
    return np.bitwise_count(either).sum(axis=1, dtype=np.int64)


def _taken_before(cap: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Σ cap of the entries before each one in its context, summed within the context alone.

    Differences of one running sum over all contexts would lose digits as the log grows.
    """
    sizes = np.diff(offsets)
    taken = np.zeros(len(cap))
    longer = np.arange(len(sizes))
    for rank in range(1, int(sizes.max())):
        longer = longer[sizes[longer] > rank]
        entries = offsets[longer] + rank
        taken[entries] = taken[entries - 1] + cap[entries - 1]
    return taken
