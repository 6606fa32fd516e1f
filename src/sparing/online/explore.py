"""What to play when a reward is asked for, and with which probability it was played."""

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from sparing.online import kernels
from sparing.online.rules import View

Explorer = Callable[[View, np.random.Generator], int]

REACH = 8.0
"""Deviations to each side that the integral in `chance_of_best` covers."""


def leader(view: View, rng: np.random.Generator) -> int:
    """The action with the highest top: optimism."""
    return view.leader


def wider(view: View, rng: np.random.Generator) -> int:
    """Of the leader and the rival with the next highest top, the one known less; it does not stall."""
    rival = view.best(view.top, other_than=view.leader)
    return rival if rival >= 0 and view.spread[rival] > view.spread[view.leader] else view.leader


def wider_rival(view: View, rng: np.random.Generator) -> int:
    """Of the best mean and its likeliest rival, the one known less."""
    best = view.best(view.mean)
    doubts = np.empty(len(view.mean))
    kernels.doubts(view.mean, view.spread, view.eligible, best, 0.0, doubts)
    rival = view.best(doubts, other_than=best)
    return rival if rival >= 0 and view.spread[rival] > view.spread[best] else best


def sampled(view: View, rng: np.random.Generator) -> int:
    """Thompson sampling: the best action of one draw from the posterior."""
    return view.best(view.mean + view.spread * rng.standard_normal(len(view.mean)))


EXPLORERS: dict[str, Explorer] = {
    "leader": leader,
    "wider": wider,
    "optimistic": leader,
    "wider-rival": wider_rival,
    "sampled": sampled,
}


def chance_of_best(view: View, action: int) -> float:
    """P(action is the best of one draw from independent N(mean, spread²)), by quadrature.

    ∫ φ(z)·Π_{b≠a} Φ((m_a + s_a·z − m_b)/s_b) dz; an action without deviation is a bound on z. Of two
    equal ones without deviation, the one with the smaller priority number is the best.
    """
    rivals = view.eligible.copy()
    rivals[action] = False
    if not rivals.any():
        return 1.0
    mean, spread = view.mean[rivals], view.spread[rivals]
    own, width = view.mean[action], view.spread[action]
    certain = spread == 0
    floor = mean[certain].max() if certain.any() else -np.inf
    tied = view.priority[rivals][certain & (mean == own)]
    threat = ~certain & (mean + REACH * spread > own - REACH * width)
    mean, spread = mean[threat], spread[threat]
    if width == 0:
        beaten = own < floor or (tied < view.priority[action]).any()
        return 0.0 if beaten else float(ndtr((own - mean) / spread).prod())
    low = max(-REACH, (floor - own) / width)
    if low >= REACH:
        return 0.0
    steepest = width / spread.min() if len(spread) else 1.0
    z = np.linspace(low, REACH, int(np.clip(32 * steepest, 257, 4097)))
    inside = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    inside *= ndtr((own + width * z[:, None] - mean) / spread).prod(axis=1)
    return float(np.trapezoid(inside, z))
