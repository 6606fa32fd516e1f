"""Whether the doubts about the best mean stay within a limit, without summing all of them."""

import math

import numpy as np

from sparing.native.compiling import compiled
from sparing.online.engine.memory import Table
from sparing.online.engine.search import (
    ABOVE,
    BLANK,
    SMALL,
    highest_mean,
    mean_and_spread,
    shared_width,
)

CLOSE = 1e-9
"""Sums nearer than this (relatively) to the limit are added up in the plain order."""

NEGLIGIBLE = 1e-3
"""Share of the limit that all rivals together may be counted with by their bounds alone."""


@compiled
def doubt(gap: float, scale: float) -> float:
    """Φ(−gap/scale), the chance that a normal deviation makes up for the gap; certain if scale is 0."""
    if scale > 0.0:
        return 0.5 * math.erfc(gap / (scale * math.sqrt(2.0)))
    return 1.0 if gap < 0.0 else 0.0


@compiled
def apart(caution: float, spread: float, other: float) -> float:
    """The deviation of a difference: caution·sqrt(s_a² + s_b²)."""
    return caution * math.sqrt(spread * spread + other * other)


@compiled
def sure(
    t: Table,
    x: np.ndarray,
    norm: float,
    eligible: np.ndarray,
    leader: int,
    tolerance: float,
    limit: float,
) -> bool:
    """Whether Σ_{b≠a} Φ(−(m_a − m_b + τ)/sqrt(s_a² + s_b²)) ≤ limit for the leader a; `look` must have seen x.

    The shared bound on s_b settles rivals that hardly count; the others are computed until the sum is
    certainly above or below the limit. What rounding could decide is summed over all actions in order.
    """
    d, caution = len(x), t.caution
    mean, spread = mean_and_spread(t, t.slot[leader], x)
    # Φ(−z) ≤ exp(−z²/2)/2, so a doubt beyond `far` deviations is below `beyond`.
    rest, beyond = 0.0, NEGLIGIBLE * limit / len(t.slot)
    far = math.sqrt(-2.0 * math.log(2.0 * beyond))
    known = blank_doubts(t, x, eligible, leader, mean + tolerance, spread)
    bounded, reach = norm > SMALL, shared_width(t)
    for slot in range(1, t.used):
        if t.upper[slot] == -math.inf or t.action[slot] == leader:
            continue
        rival_mean, rival_spread = t.middle[slot], t.width[slot]
        if bounded:
            near = t.near[slot]
            wide = ABOVE * (reach * near[d + 1] + near[d + 2])
            gap = mean + tolerance - highest_mean(t, slot, norm)
            if gap > far * apart(caution, spread, wide) and gap > 0.0:
                rest += beyond
                continue
            rival_mean, rival_spread = mean_and_spread(t, slot, x)
        gap, scale = mean - rival_mean + tolerance, apart(caution, spread, rival_spread)
        if gap > far * scale and gap > 0.0:
            rest += beyond
            continue
        known += doubt(gap, scale)
        if known > limit * (1.0 + CLOSE) + CLOSE * CLOSE:
            return False
    if known + rest <= limit * (1.0 - CLOSE):
        return True
    return plain_sum(t, x, eligible, leader, tolerance, mean, spread) <= limit


@compiled
def all_doubts(t: Table, eligible: np.ndarray, leader: int, tolerance: float) -> float:
    """The sum of all doubts, action by action, where `look` has scored every slot."""
    total, slots, middle, width, caution = 0.0, t.slot, t.middle, t.width, t.caution
    mean, spread = middle[slots[leader]], width[slots[leader]]
    for action in range(len(slots)):
        if action != leader and (len(eligible) == 0 or eligible[action]):
            gap, rival = mean - middle[slots[action]] + tolerance, width[slots[action]]
            total += doubt(gap, apart(caution, spread, rival))
    return total


@compiled
def blank_doubts(
    t: Table, x: np.ndarray, eligible: np.ndarray, leader: int, above: float, spread: float
) -> float:
    """The doubts of all untouched rivals together."""
    if len(eligible) == 0:
        rivals = len(t.slot) - t.touched[t.which]
    else:
        rivals = 0
        for action in range(len(t.slot)):
            rivals += t.slot[action] == 0 and eligible[action]
    if t.slot[leader] == 0:
        rivals -= 1
    if rivals <= 0:
        return 0.0
    mean, deviation = mean_and_spread(t, BLANK, x)
    return rivals * doubt(above - mean, apart(t.caution, spread, deviation))


@compiled
def plain_sum(
    t: Table,
    x: np.ndarray,
    eligible: np.ndarray,
    leader: int,
    tolerance: float,
    mean: float,
    spread: float,
) -> float:
    """The sum of all doubts, action by action."""
    total, caution = 0.0, t.caution
    blank_mean, blank_spread = mean_and_spread(t, BLANK, x)
    for action in range(len(t.slot)):
        if action == leader or (len(eligible) and not eligible[action]):
            continue
        slot = t.slot[action]
        rival_mean, rival_spread = (blank_mean, blank_spread) if slot == 0 else mean_and_spread(t, slot, x)
        total += doubt(mean - rival_mean + tolerance, apart(caution, spread, rival_spread))
    return total
