"""What to play when a reward is asked for, and with which probability it was played."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from sparing.online import kernels
from sparing.online.engine import luck
from sparing.online.engine.choosing import UNLIKELY
from sparing.online.rules import View

Explorer = Callable[[View], int]

REACH = 8.0
"""Deviations to each side that the integral in `chance_against` covers."""

AT_ONCE = 512
"""Rivals multiplied in one go, which bounds the memory."""


def leader(view: View) -> int:
    """The action with the highest top: optimism."""
    return view.leader


def wider(view: View) -> int:
    """Of the leader and the rival with the next highest top, the one known less; it does not stall."""
    rival = view.best(view.top, other_than=view.leader)
    return rival if rival >= 0 and view.spread[rival] > view.spread[view.leader] else view.leader


def wider_rival(view: View) -> int:
    """Of the best mean and its likeliest rival, the one known less."""
    best = view.best(view.mean)
    doubts = np.empty(len(view.mean))
    kernels.doubts(view.mean, view.spread, view.eligible, best, 0.0, doubts)
    rival = view.best(doubts, other_than=best)
    return rival if rival >= 0 and view.spread[rival] > view.spread[best] else best


def sampled(view: View) -> int:
    """Thompson sampling: the best action of one draw from the posterior."""
    normals = np.empty(len(view.mean))
    luck.normals(view.luck, normals)
    return view.best(view.mean + view.spread * normals)


EXPLORERS: dict[str, Explorer] = {
    "leader": leader,
    "wider": wider,
    "optimistic": leader,
    "wider-rival": wider_rival,
    "sampled": sampled,
}


def other_than(view: View, planned: int, tolerance: float) -> tuple[int, float]:
    """Another action than planned, drawn in proportion to the doubts about the best mean; and its chance.

    The best mean has the share that no doubt takes.
    """
    best = view.best(view.mean)
    odds = np.empty(len(view.mean))
    total = kernels.doubts(view.mean, view.spread, view.eligible, best, tolerance, odds)
    odds[best] = 1 - total
    odds = np.where(view.eligible, np.maximum(odds, UNLIKELY), 0.0)
    odds[planned] = 0.0
    total = sum(odds.tolist())
    drawn = luck.uniform(view.luck, luck.WHO) * total
    others = np.flatnonzero(odds)
    for action in others.tolist():
        drawn -= odds[action]
        if drawn < 0:
            break
    return action, float(odds[action] / total)


def chance_of_best(view: View, action: int) -> float:
    """P(action is the best of one draw from independent N(mean, spread²))."""
    rivals = view.eligible.copy()
    rivals[action] = False
    if not rivals.any():
        return 1.0
    own = Rival(float(view.mean[action]), float(view.spread[action]), int(view.priority[action]))
    return chance_against(own, view.mean[rivals], view.spread[rivals], view.priority[rivals])


class Rival(NamedTuple):
    """One action in a draw: centre, deviation, and its place in ties."""

    mean: float
    spread: float
    priority: int


def chance_against(
    own: Rival,
    mean: np.ndarray,
    spread: np.ndarray,
    priority: np.ndarray,
    *,
    alike: tuple[int, Rival] | None = None,
) -> float:
    """P(own is the best of one draw from independent N(mean, spread²)), by quadrature.

    ∫ φ(z)·Π_{b≠a} Φ((m_a + s_a·z − m_b)/s_b) dz; a rival without deviation is a bound on z. Of two equal
    ones without deviation, the one with the smaller priority number is the best. `alike` are so many more
    rivals of one kind.
    """
    count = np.ones(len(mean), dtype=np.int64)
    if alike is not None and alike[0]:
        mean, spread = np.append(mean, alike[1].mean), np.append(spread, alike[1].spread)
        priority, count = np.append(priority, alike[1].priority), np.append(count, alike[0])
    certain = spread == 0
    floor = mean[certain].max() if certain.any() else -np.inf
    tied = priority[certain & (mean == own.mean)]
    threat = ~certain & (mean + REACH * spread > own.mean - REACH * own.spread)
    mean, spread, count = mean[threat], spread[threat], count[threat]
    if own.spread == 0:
        beaten = own.mean < floor or (tied < own.priority).any()
        return 0.0 if beaten else float((ndtr((own.mean - mean) / spread) ** count).prod())
    low = max(-REACH, (floor - own.mean) / own.spread)
    if low >= REACH:
        return 0.0
    steepest = own.spread / spread.min() if len(spread) else 1.0
    least = 65 if low == -REACH else 257  # few points do for a smooth bell, not for one that is cut off
    z = np.linspace(low, REACH, int(np.clip(32 * steepest, least, 4097)))
    inside = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    for start in range(0, len(mean), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        below = ndtr((own.mean + own.spread * z[:, None] - mean[part]) / spread[part])
        inside *= (below ** count[part]).prod(axis=1)
    return float(np.trapezoid(inside, z))
