"""Posterior samples over many actions, and the rivals that can be the best of one: exact, by bounds."""

import math

import numpy as np

from sparing.native.compiling import compiled
from sparing.online.engine.algebra import outer
from sparing.online.engine.memory import Table
from sparing.online.engine.search import (
    ABOVE,
    BLANK,
    NOBODY,
    SMALL,
    Bounds,
    ahead,
    highest_mean,
    look,
    mean_and_spread,
    shared_width,
    untouched,
)


@compiled
def value(t: Table, x: np.ndarray, action: int) -> tuple[float, float]:
    """Mean and spread of one action, whatever was looked at before."""
    outer(x, t.products)
    return mean_and_spread(t, t.slot[action], x)


@compiled
def sampled(t: Table, x: np.ndarray, normals: np.ndarray, eligible: np.ndarray, bounds: Bounds) -> int:
    """The eligible action with the largest mean + spread·z_a, given standard normal numbers z (K,)."""
    norm = look(t, x, 0.0, eligible, bounds)
    used, slots, action = t.used, t.slot, t.action
    upper, middle, width = t.upper, t.middle, t.width
    scored = bounds is None or not norm > SMALL
    best, highest = -1, -math.inf
    if t.touched[t.which] < len(slots):
        mean, spread = mean_and_spread(t, BLANK, x)
        for a in range(len(slots)):
            if slots[a] == 0 and (len(eligible) == 0 or eligible[a]):
                score = mean + spread * normals[a]
                if ahead(t, score, a, highest, best):
                    best, highest = a, score
    first = 0
    if bounds is not None and not scored:
        reach, d = shared_width(t), t.theta.shape[1]
        for slot in range(1, used):
            if upper[slot] != -math.inf:
                near = t.near[slot]
                wide = ABOVE * (reach * near[d + 1] + near[d + 2])
                upper[slot] = highest_mean(t, slot, norm) + max(normals[action[slot]], 0.0) * wide * ABOVE
                if first == 0 or not upper[slot] <= upper[first]:
                    first = slot
    for turn in range(used):
        slot = first if turn == 0 else turn
        if slot == 0 or (turn == first and turn > 0) or upper[slot] == -math.inf or upper[slot] < highest:
            continue
        if scored:
            mean, spread = middle[slot], width[slot]
        else:
            mean, spread = mean_and_spread(t, slot, x)
        score = mean + spread * normals[action[slot]]
        if ahead(t, score, action[slot], highest, best):
            best, highest = action[slot], score
    return best


@compiled
def rivals(
    t: Table,
    x: np.ndarray,
    action: int,
    reach: float,
    eligible: np.ndarray,
    who: np.ndarray,
    means: np.ndarray,
    spreads: np.ndarray,
    bounds: Bounds,
) -> tuple[int, int, int, int]:
    """Write the touched rivals whose mean + reach·spread is not below the action's mean − reach·spread.

    Returns how many they are, how many rivals there are in all, how many of these are untouched, and which of
    the untouched ties go to (−1 if there is none).
    """
    look(t, x, reach, eligible, bounds)
    slots, mine = t.slot, t.action
    mean, spread = mean_and_spread(t, slots[action], x)
    low, found, touched = mean - reach * spread, 0, 0
    for slot in range(1, t.used):
        if mine[slot] == action or t.upper[slot] == -math.inf:
            continue
        touched += 1
        if t.upper[slot] < low:
            continue
        rival_mean, rival_spread = mean_and_spread(t, slot, x)
        if rival_mean + reach * rival_spread >= low:
            who[found], means[found], spreads[found] = mine[slot], rival_mean, rival_spread
            found += 1
    blanks = len(slots) - t.touched[t.which]
    if len(eligible):
        blanks = 0
        for a in range(len(slots)):
            blanks += slots[a] == 0 and eligible[a]
    blanks -= slots[action] == 0
    order, place = t.order, untouched(t, eligible, NOBODY)
    if place < len(order) and order[place] == action:
        place = untouched(t, eligible, place)
    return found, touched + blanks, blanks, order[place] if place < len(order) else -1
