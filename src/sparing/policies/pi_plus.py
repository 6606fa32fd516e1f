"""π⁺: the best policy on the support of the log, in closed form.

The kernels are compiled on first use, so that importing `clip_constant` does not import Numba. Their plain twin is in
tests/reference.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from sparing.errors import LogError, SettingError
from sparing.log import Log

UNLOGGED = -1
"""Stands for all supported actions of a context that were never logged in it."""

MASS_TOLERANCE = 1e-9
"""Less unlogged propensity than this is rounding."""

_ONES = np.array([byte.bit_count() for byte in range(256)], dtype=np.int64)
_FEW = 24
"""Up to this many entries are ordered by counting: it has no branches to mispredict."""


@dataclass(frozen=True, eq=False)
class PiPlus:
    """π⁺ over the log's distinct contexts.

    Attributes
    ----------
    clip : float
        M, the largest π/μ.
    groups : ndarray (n,)
        The index of each row's context.
    weights : ndarray (n,)
        π⁺(a_i|x_i)/μ(a_i|x_i).
    thresholds : ndarray (n,)
        r_i·min(weight, M).
    offsets : ndarray (m + 1,)
        Context g has the entries ``offsets[g]:offsets[g + 1]``.
    entry_actions, entry_mass : ndarray
        Action and probability of each entry. The action `UNLOGGED` carries the probability of all supported
        actions of the context that were never logged in it.
    """

    clip: float
    groups: np.ndarray
    weights: np.ndarray
    thresholds: np.ndarray
    offsets: np.ndarray
    entry_actions: np.ndarray
    entry_mass: np.ndarray

    def table(self, shares: np.ndarray) -> np.ndarray:
        """π⁺ as a dense table (contexts, K); UNLOGGED is spread over unlogged actions in proportion to shares (n, K)."""
        sizes = np.diff(self.offsets)
        table = np.zeros((len(sizes), shares.shape[1]))
        group = np.repeat(np.arange(len(sizes)), sizes)
        logged = self.entry_actions != UNLOGGED
        table[group[logged], self.entry_actions[logged]] = self.entry_mass[logged]
        caps = np.zeros_like(table)
        np.add.at(caps, self.groups, shares)
        caps[group[logged], self.entry_actions[logged]] = 0
        caps[caps.sum(axis=1) <= 0] = 1
        rest = np.zeros(len(sizes))
        rest[group[~logged]] = self.entry_mass[~logged]
        return table + caps * (rest / caps.sum(axis=1))[:, None]


def clip_constant(log: Log, clip: float | str) -> float:
    """M: `percentile-ratio` is P90/P10 of the logged propensities (as in the paper), else a number or `inf`."""
    if clip == "percentile-ratio":
        low, high = np.percentile(_propensities(log), [10, 90])
        return float(high / low)
    return clip_number(clip)


def clip_number(clip: float | str) -> float:
    """M as a number of 1 or more, or `inf`."""
    try:
        value = float(clip)
    except (TypeError, ValueError):
        value = np.nan
    if not value >= 1:
        raise SettingError(
            f"clip={clip!r}; must be 'percentile-ratio', 'inf' or a number of 1 or more: with a smaller one no "
            "policy has π/μ ≤ clip and sums to 1"
        )
    return value


def pi_plus(log: Log, clip: float | str = "percentile-ratio") -> PiPlus:
    """Maximise Σ r_i·π(a_i|x_i)/μ_i subject to 0 ≤ π/μ ≤ M, Σ_a π = 1, π = 0 outside the support.

    The problem separates by context: fill the actions in decreasing order of Σ r/μ, each up to M·μ(a|x) and at most
    the probability left. Supported unlogged actions count as one of value 0 and cap M·(1 − Σ logged μ). Where μ
    differs between repeats of a context, the cap is M·min μ; caps that sum to less than 1 are scaled up to 1.

    Parameters
    ----------
    log : Log
        A log with propensities.
    clip : float or str
        M: a number of 1 or more, ``"inf"``, or ``"percentile-ratio"`` (P90/P10 of the logged propensities).

    Returns
    -------
    PiPlus

    Raises
    ------
    LogError
        If the log has no propensities or no rows.
    SettingError
        If `clip` is none of these.
    """
    propensities = _propensities(log)
    bound = clip_constant(log, clip)
    starts, place_of_row, sorted_rows = compiled_on_use(_by_context)(
        log.groups, log.n_contexts, log.actions, log.rewards, propensities
    )
    sets, set_of_row = log.support.table, log.support.index
    sizes = np.empty(0, dtype=np.int64)
    if sets is not None:
        set_of_row = np.empty(0, dtype=np.int32) if set_of_row is None else set_of_row
        sizes = compiled_on_use(_support_sizes)(starts, place_of_row, sets, set_of_row)
    entry_at, offsets, actions, value, share = compiled_on_use(_list_entries)(
        starts, sorted_rows, log.n_actions, sizes, MASS_TOLERANCE
    )
    del sorted_rows  # half of the memory
    mass, of_entry = compiled_on_use(_allocate_mass)(offsets, actions, value, share, bound)
    own = of_entry[entry_at][place_of_row]
    weights = own / propensities
    thresholds = log.rewards * np.minimum(weights, bound)
    return PiPlus(bound, log.groups, weights, thresholds, offsets, actions, mass)


def _propensities(log: Log) -> np.ndarray:
    if log.propensities is None:
        raise LogError(
            "the log has no propensities, and π⁺ divides by them. Log them (column `propensity`), or use a "
            "learner that needs none, such as confident(log)"
        )
    if not log.n_rows:
        raise LogError("π⁺ of a log without rows is not defined")
    return log.propensities


@cache
def compiled_on_use(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The compiled function; only this imports Numba."""
    from sparing.native.compile import compiled

    return compiled(kernel)


def _by_context(
    groups: np.ndarray, n_groups: int, actions: np.ndarray, rewards: np.ndarray, propensities: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sort rows by context, keeping their order, so that later kernels read memory sequentially.

    Returns the start of each context (m + 1,), the place of each row (n,), and action, r/μ and μ at each
    place (n, 3); an action's index is exact as a float.
    """
    starts = np.zeros(n_groups + 1, dtype=np.int64)
    for row in range(len(groups)):
        starts[groups[row] + 1] += 1
    for group in range(n_groups):
        starts[group + 1] += starts[group]
    place_of_row, sorted_rows = np.empty(len(groups), dtype=np.int64), np.empty((len(groups), 3))
    free = starts[:-1].copy()
    for row in range(len(groups)):
        place = free[groups[row]]
        free[groups[row]] = place + 1
        place_of_row[row] = place
        sorted_rows[place, 0] = actions[row]
        sorted_rows[place, 1] = rewards[row] / propensities[row]
        sorted_rows[place, 2] = propensities[row]
    return starts, place_of_row, sorted_rows


def _support_sizes(
    starts: np.ndarray, place_of_row: np.ndarray, sets: np.ndarray, set_of_row: np.ndarray
) -> np.ndarray:
    """The number of actions that some row of a context supports, (m,).

    The sets are packed bits; row i has the set i if `set_of_row` is empty.
    """
    set_at = np.empty(len(place_of_row), dtype=np.int64)
    for row in range(len(place_of_row)):
        set_at[place_of_row[row]] = set_of_row[row] if len(set_of_row) else row
    sizes, union = np.zeros(len(starts) - 1, dtype=np.int64), np.empty(sets.shape[1], dtype=np.uint8)
    for group in range(len(sizes)):
        union[:] = 0
        for place in range(starts[group], starts[group + 1]):
            if place == starts[group] or set_at[place] != set_at[place - 1]:
                for byte in range(len(union)):
                    union[byte] |= sets[set_at[place], byte]
        for byte in range(len(union)):
            sizes[group] += _ONES[union[byte]]
    return sizes


def _list_entries(
    starts: np.ndarray, sorted_rows: np.ndarray, n_actions: int, sizes: np.ndarray, least_rest: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Each context's logged actions in increasing order, with their Σ r/μ and smallest μ, then UNLOGGED.

    `sizes` are the contexts' support sizes, empty if all actions may be supported. Returns the entry of each
    place (n,), the start of each context's entries (m + 1,), and the entries' actions, values and shares.
    """
    n, n_groups = len(sorted_rows), len(starts) - 1
    entry_at, offsets = np.empty(n, dtype=np.int64), np.zeros(n_groups + 1, dtype=np.int64)
    listed = np.empty(n + n_groups, dtype=np.int64)
    value, share = np.empty(n + n_groups), np.empty(n + n_groups)
    seen, ordered = np.empty(n_actions, dtype=np.int64), np.empty(n_actions, dtype=np.int64)
    total, least = np.zeros(n_actions), np.full(n_actions, np.inf)
    where = np.full(n_actions, -1, dtype=np.int64)
    end = 0
    for group in range(n_groups):
        count = 0
        for place in range(starts[group], starts[group + 1]):
            action = np.int64(sorted_rows[place, 0])
            seen[count] = action
            count += where[action] < end  # not in this context before
            where[action] = end
            total[action] += sorted_rows[place, 1]
            least[action] = min(least[action], sorted_rows[place, 2])
        if count > _FEW:
            ordered[:count] = np.sort(seen[:count])
        else:
            for entry in range(count):
                rank = 0
                for other in range(count):
                    rank += seen[other] < seen[entry]
                ordered[rank] = seen[entry]
        logged = 0.0
        for action in ordered[:count]:
            listed[end], value[end], share[end] = action, total[action], least[action]
            logged += least[action]
            where[action], total[action], least[action] = end, 0.0, np.inf
            end += 1
        for place in range(starts[group], starts[group + 1]):
            entry_at[place] = where[np.int64(sorted_rows[place, 0])]
        most = sizes[group] if len(sizes) else n_actions
        if 1.0 - logged >= least_rest and count < most:
            listed[end], value[end], share[end] = UNLOGGED, 0.0, 1.0 - logged
            end += 1
        offsets[group + 1] = end
    return entry_at, offsets, listed[:end].copy(), value[:end], share[:end]


def _allocate_mass(
    offsets: np.ndarray, listed: np.ndarray, value: np.ndarray, share: np.ndarray, bound: float
) -> tuple[np.ndarray, np.ndarray]:
    """Order each context's entries by value and fill them up to their caps, to a total mass of 1.

    Equal values keep their order, NaN comes last; `listed` is sorted in place. Returns the mass in the new order and
    in the old one. Caps that sum to less than 1 are scaled up to 1.
    """
    mass, mass_before = np.empty(len(listed)), np.empty(len(listed))
    order, actions = np.empty(len(listed), dtype=np.int64), listed.copy()
    for group in range(len(offsets) - 1):
        begin, end = offsets[group], offsets[group + 1]
        caps = values = 0.0
        for entry in range(begin, end):
            values += value[entry]
            share[entry] = min(bound * share[entry], 1.0)
            caps += share[entry]
        caps = min(caps, 1.0)
        if end - begin > _FEW or np.isnan(values):
            order[begin:end] = begin + np.argsort(-value[begin:end], kind="mergesort")
        else:
            for entry in range(begin, end):
                rank = begin
                for other in range(begin, entry):
                    rank += value[other] >= value[entry]
                for other in range(entry + 1, end):
                    rank += value[other] > value[entry]
                order[rank] = entry
        taken = 0.0
        for place in range(begin, end):
            entry = order[place]
            cap = share[entry] if caps == 1.0 else share[entry] / caps
            mass_before[entry] = mass[place] = min(max(1.0 - taken, 0.0), cap)
            listed[place] = actions[entry]
            taken += cap
    return mass, mass_before
