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

    def table(self, shares: np.ndarray) -> np.ndarray:
        """π⁺ as a dense table (contexts, K), the mass of UNLOGGED spread over a context's unlogged actions.

        shares (n, K) say by which proportions a row would spread it.
        """
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
    """M: `percentile-ratio` is P90/P10 of the logged propensities (the paper's), else a number or `inf`."""
    if clip == "percentile-ratio":
        low, high = np.percentile(_propensities(log), [10, 90])
        return float(high / low)
    return clip_number(clip)


def clip_number(clip: float | str) -> float:
    """M where it is given: a number of 1 or more, or `inf`."""
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

    It separates by context: fill the actions in decreasing order of Σ r/μ, each up to M·μ(a|x) and at
    most the mass left. Supported unlogged actions count as one of value 0 and cap M·(1 − Σ logged μ).
    Where μ differs between repeats of a context, the cap is M·min μ; caps that leave less than 1 in all
    are scaled up to it.
    """
    from sparing.policies import pi_plus_kernels as kernels

    propensities = _propensities(log)
    bound = clip_constant(log, clip)
    if log.n_contexts == log.n_rows:
        most = log.support.sizes if log.support.known else log.n_actions
        more = (1 - propensities >= REST) & (most > np.int64(1))
        own, offsets, actions, mass = kernels.single_rows(
            log.groups, log.actions, log.rewards, propensities, more, bound
        )
    else:
        starts, place_of_row, sorted_rows = kernels.by_context(
            log.groups, log.n_contexts, log.actions, log.rewards, propensities
        )
        entry_at, offsets, actions, value, share = kernels.list_entries(
            starts, sorted_rows, log.n_actions, _support_sizes(log, starts, place_of_row), REST
        )
        del sorted_rows  # half of the memory
        mass, of_entry = kernels.give_out(offsets, actions, value, share, bound)
        own = of_entry[entry_at][place_of_row]
    weights = own / propensities
    thresholds = log.rewards * np.minimum(weights, bound)
    return PiPlus(bound, log.groups, weights, thresholds, offsets, actions, mass)


def _support_sizes(log: Log, starts: np.ndarray, place_of_row: np.ndarray) -> np.ndarray:
    """How many actions a context could have taken in one of its rows or another, (m,); empty if not known."""
    from sparing.policies import pi_plus_kernels as kernels

    sets, set_of_row = log.support.table, log.support.index
    if sets is None:
        return np.empty(0, dtype=np.int64)
    set_of_row = np.empty(0, dtype=np.int32) if set_of_row is None else set_of_row
    return kernels.support_sizes(starts, place_of_row, sets, set_of_row)


def _propensities(log: Log) -> np.ndarray:
    if log.propensities is None:
        raise LogError(
            "the log has no propensities, and π⁺ divides by them. Log them (column `propensity`), or use a "
            "learner that needs none, such as confident(log)"
        )
    if not log.n_rows:
        raise LogError("π⁺ of a log without rows is not defined")
    return log.propensities
