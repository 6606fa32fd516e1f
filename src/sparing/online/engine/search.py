"""The best action, exactly, without looking closely at those that bounds rule out.

A set's top at x is mean + optimism·spread, spread = ρ·sqrt(xᵀV⁻¹x). Bounds come in three steps, each dearer and
closer: from single-precision means and sqrt(c)·‖x‖_M, the last factor being the same for all actions; from the
quadratic form in single precision; and the score itself, in double precision, as everywhere else. Each allows
for its own rounding, and an action is passed over only where its bound is below the best score found. A bound
that overflowed is NaN or infinite, and rules nothing out.
"""

import math
from typing import Any

import numpy as np

from sparing.native.compiling import compiled
from sparing.online.engine.algebra import dot, outer, rough_dot
from sparing.online.engine.memory import (
    ACTION,
    COMMON,
    COUNTERS,
    FREE,
    FROZEN,
    HIDDEN,
    HIGHEST,
    INVERSE,
    MARKS,
    METRIC,
    MIDDLE,
    MISFIT,
    NEAR,
    NEXT,
    NUMBERS,
    ORDER,
    PRIORITY,
    PRODUCTS,
    QUICK,
    RADIUS,
    ROUGH_PRODUCTS,
    ROUGH_X,
    SIZE,
    SLACK,
    SLOT,
    THETA,
    TWINS,
    UPPER,
    USED,
    VIEW,
    WIDTH,
    columns,
    counts,
    matrix,
    rough_matrix,
    rough_vector,
    rows,
    vector,
)

ROUNDING = 1.02 * 2.0**-24
"""Half a unit in the last place of single precision, with a margin for second-order terms."""

TINY = 1e-30
"""More than all underflow in a single-precision sum of unit vectors."""

SMALL = 1e-100
"""Contexts shorter than this are not bounded: their squares underflow."""

NOBODY: Any = np.int64(-1)
BLANK: Any = np.int64(0)
"""No action, and the slot of all untouched ones."""

ABOVE = 1.0 + 1e-9
"""Covers the rounding of a few operations in double precision."""

Bounds = int | None
"""1 where there are bounds, None where a problem is too small for them: then their code is not even compiled."""


@compiled
def mean_and_spread(t: np.ndarray, slot: int, x: np.ndarray) -> tuple[float, float]:
    """x·θ̂ and the half-width of the set at x; `products` must hold those of x."""
    mean = dot(matrix(t, THETA)[slot], x)
    if counts(t, FROZEN)[slot]:
        return mean, vector(t, NUMBERS)[SLACK]
    common = vector(t, NUMBERS)[COMMON]
    radius = vector(t, RADIUS)[slot] if math.isnan(common) else common
    half = radius * math.sqrt(max(dot(matrix(t, INVERSE)[slot], vector(t, PRODUCTS)), 0.0))
    misfit = vector(t, NUMBERS)[MISFIT]
    return mean, math.sqrt(half * half + misfit * misfit) if misfit > 0.0 else half


@compiled
def score_all(t: np.ndarray, x: np.ndarray) -> None:
    """Write `middle` and `width`, the mean and spread of every slot, as `mean_and_spread` has them."""
    theta, inverse, products = matrix(t, THETA), matrix(t, INVERSE), vector(t, PRODUCTS)
    frozen, radius, numbers = counts(t, FROZEN), vector(t, RADIUS), vector(t, NUMBERS)
    middle, width = vector(t, MIDDLE), vector(t, WIDTH)
    common, misfit, slack = numbers[COMMON], numbers[MISFIT], numbers[SLACK]
    own = math.isnan(common)
    for slot in range(counts(t, COUNTERS)[USED]):
        middle[slot] = dot(theta[slot], x)
        if frozen[slot]:
            width[slot] = slack
        else:
            half = (radius[slot] if own else common) * math.sqrt(max(dot(inverse[slot], products), 0.0))
            width[slot] = math.sqrt(half * half + misfit * misfit) if misfit > 0.0 else half


@compiled
def evaluate(t: np.ndarray, x: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> None:
    """Write mean and spread of every action, (K,)."""
    outer(x, vector(t, PRODUCTS))
    score_all(t, x)
    slot, middle, width = counts(t, SLOT), vector(t, MIDDLE), vector(t, WIDTH)
    for action in range(len(slot)):
        mean[action], spread[action] = middle[slot[action]], width[slot[action]]


@compiled
def look(t: np.ndarray, x: np.ndarray, optimism: float, eligible: np.ndarray, bounds: Bounds) -> float:
    """Write `middle` and `upper` for the eligible slots (`upper` is −inf for others); return ‖x‖.

    x·θ̂ lies within ROUNDING·(d + 4)·‖x‖·‖θ̂‖ (and TINY·‖x‖) of `middle`, a top nowhere above `upper`. Where
    there are no bounds, all slots are scored at once and `upper` is infinite.
    """
    upper, used = vector(t, UPPER), counts(t, COUNTERS)[USED]
    outer(x, vector(t, PRODUCTS))
    norm = math.sqrt(dot(x, x))
    if bounds is None or not norm > SMALL:
        score_all(t, x)
        for slot in range(used):
            upper[slot] = math.inf
        leave_out(t, eligible)
        return norm
    reach_all(t, x, norm, optimism)
    leave_out(t, eligible)
    return norm


@compiled
def reach_all(t: np.ndarray, x: np.ndarray, norm: float, optimism: float) -> None:
    """Write `middle` and `upper` for every slot from single-precision means and the shared width."""
    d, used = len(x), counts(t, COUNTERS)[USED]
    upper, middles = vector(t, UPPER), vector(t, MIDDLE)
    rough_x, nears = rough_vector(t, ROUGH_X), rough_matrix(t, NEAR)
    for i in range(d):
        rough_x[i] = np.float32(x[i] / norm)
    reach = optimism * shared_width(t)
    error = ROUNDING * (d + 4) * norm
    highest, most = 0, -math.inf
    for slot in range(1, used):
        near = nears[slot]
        middle = norm * rough_dot(near[:d], rough_x)
        middles[slot] = middle
        above = error * near[d] + reach * near[d + 1] + optimism * near[d + 2]
        top = middle + ABOVE * (above + TINY * norm) + 1e-9 * abs(middle)
        upper[slot] = top
        if not top <= most:
            highest, most = slot, top
    counts(t, MARKS)[HIGHEST] = highest


@compiled
def leave_out(t: np.ndarray, eligible: np.ndarray) -> None:
    """Put slots that may not be played, or are not in view, below all others, and find the highest of the rest."""
    if len(eligible) == 0 and counts(t, COUNTERS)[TWINS] + counts(t, COUNTERS)[FREE] == 0:
        return
    upper, action, hidden = vector(t, UPPER), counts(t, ACTION), counts(t, HIDDEN)
    unseen, highest, most = 1 + counts(t, MARKS)[VIEW], 0, -math.inf
    for slot in range(1, counts(t, COUNTERS)[USED]):
        if hidden[slot] & unseen or (len(eligible) and not eligible[action[slot]]):
            upper[slot] = -math.inf
        elif not upper[slot] <= most:
            highest, most = slot, upper[slot]
    counts(t, MARKS)[HIGHEST] = highest


@compiled
def shared_width(t: np.ndarray) -> float:
    """‖x‖_M, times the common ρ if there is one; `products` must hold those of x."""
    width = ABOVE * math.sqrt(max(dot(vector(t, METRIC), vector(t, PRODUCTS)), 0.0))
    common = vector(t, NUMBERS)[COMMON]
    return width if math.isnan(common) else width * common


@compiled
def highest_mean(t: np.ndarray, slot: int, norm: float) -> float:
    """A number that x·θ̂ does not exceed; infinite where `look` had no bounds."""
    d = columns(t, THETA)
    if vector(t, UPPER)[slot] == math.inf:
        return math.inf
    middle = vector(t, MIDDLE)[slot]
    error = ROUNDING * (d + 4) * norm * rough_matrix(t, NEAR)[slot, d]
    return middle + ABOVE * (error + TINY * norm) + 1e-9 * abs(middle)


@compiled
def untouched(t: np.ndarray, eligible: np.ndarray, after: int) -> int:
    """The place in the order of the first untouched eligible action behind place `after`; K if none."""
    order, slot = counts(t, ORDER), counts(t, SLOT)
    place = max(after + 1, counts(t, COUNTERS)[NEXT + counts(t, MARKS)[VIEW]])
    while place < len(order):
        if slot[order[place]] == 0 and (len(eligible) == 0 or eligible[order[place]]):
            return place
        place += 1
    return place


@compiled
def ahead(t: np.ndarray, score: float, action: int, other: float, rival: int) -> bool:
    """Whether a score comes before another's: the larger, of equals the one with priority; −1 is nobody."""
    return (
        rival < 0
        or score > other
        or (score == other and counts(t, PRIORITY)[action] < counts(t, PRIORITY)[rival])
    )


@compiled
def leading(
    t: np.ndarray, x: np.ndarray, optimism: float, eligible: np.ndarray, two: bool, bounds: Bounds
) -> tuple[int, float, float, float, int, float, float]:
    """The eligible action with the highest top and, if `two`, the next one, found exactly.

    Returns leader, its top, mean and spread; rival (−1 if none), its top and spread.
    """
    norm = look(t, x, optimism, eligible, bounds)
    used = counts(t, COUNTERS)[USED]
    upper, middle, width = vector(t, UPPER), vector(t, MIDDLE), vector(t, WIDTH)
    action, order, priority = counts(t, ACTION), counts(t, ORDER), counts(t, PRIORITY)
    first, first_top, first_mean, first_spread = -1, -math.inf, 0.0, 0.0
    second, second_top, second_spread = -1, -math.inf, 0.0
    place = untouched(t, eligible, NOBODY)
    if place < len(order):
        first = order[place]
        first_mean, first_spread = mean_and_spread(t, BLANK, x)
        first_top = first_mean + optimism * first_spread
        if two:
            place = untouched(t, eligible, place)
            if place < len(order):
                second, second_top, second_spread = order[place], first_top, first_spread
    scored = bounds is None or not norm > SMALL
    highest = 0 if scored else counts(t, MARKS)[HIGHEST]
    ready = False
    for turn in range(used):
        slot = highest if turn == 0 else turn
        if slot == 0 or (turn == highest and turn > 0):
            continue
        cut = second_top if two else first_top
        if upper[slot] < cut or upper[slot] == -math.inf:
            continue
        mean, spread = middle[slot], width[slot]
        if bounds is not None and not scored:
            if turn > 0 and rows(t, QUICK) > 0:
                ready = ready or prepare_quick(t, norm)
                if ruled_out(t, slot, norm, optimism, cut):
                    continue
            mean, spread = mean_and_spread(t, slot, x)
        top, mine = mean + optimism * spread, action[slot]
        if first < 0 or top > first_top or (top == first_top and priority[mine] < priority[first]):
            second, second_top, second_spread = first, first_top, first_spread
            first, first_top, first_mean, first_spread = mine, top, mean, spread
        elif two and ahead(t, top, mine, second_top, second):
            second, second_top, second_spread = mine, top, spread
    return first, first_top, first_mean, first_spread, second, second_top, second_spread


@compiled
def prepare_quick(t: np.ndarray, norm: float) -> bool:
    """Write the products of x/‖x‖ with itself in single precision."""
    products, rough = vector(t, PRODUCTS), rough_vector(t, ROUGH_PRODUCTS)
    for i in range(len(rough)):
        rough[i] = np.float32(products[i] / (norm * norm))
    return True


@compiled
def ruled_out(t: np.ndarray, slot: int, norm: float, optimism: float, cut: float) -> bool:
    """Whether the quadratic form in single precision shows that a set's top lies below `cut`.

    top ≤ high + optimism·(ρ·‖x‖·sqrt(q) + extra), q the form at x/‖x‖; compared without the root.
    """
    quick, rough, near = rough_matrix(t, QUICK), rough_vector(t, ROUGH_PRODUCTS), rough_matrix(t, NEAR)
    size, radius, middle = vector(t, SIZE), vector(t, RADIUS), vector(t, MIDDLE)
    d, common = columns(t, THETA), vector(t, NUMBERS)[COMMON]
    if counts(t, FROZEN)[slot]:
        return False
    square: float = rough_dot(quick[slot], rough)
    square += ROUNDING * (d * (d + 1) / 2 + 4) * size[slot] + TINY
    reach = ABOVE * optimism * norm * (radius[slot] if math.isnan(common) else common)
    centre, blur = middle[slot], ROUNDING * (d + 4) * norm * near[slot, d] + TINY * norm
    high = centre + ABOVE * (blur + optimism * near[slot, d + 2]) + 1e-9 * abs(centre)
    gap = cut - high - 1e-15 * (abs(cut) + abs(high))
    return gap > 0.0 and gap * gap > ABOVE * reach * reach * square


@compiled
def best_mean(t: np.ndarray, x: np.ndarray, norm: float, eligible: np.ndarray) -> tuple[int, float]:
    """The eligible action with the largest x·θ̂ and that mean, exactly; `look` must have seen x."""
    best, mean = -1, -math.inf
    place = untouched(t, eligible, NOBODY)
    if place < rows(t, ORDER):
        best, mean = counts(t, ORDER)[place], dot(matrix(t, THETA)[0], x)
    for slot in range(1, counts(t, COUNTERS)[USED]):
        if vector(t, UPPER)[slot] == -math.inf or highest_mean(t, slot, norm) < mean:
            continue
        value, action = dot(matrix(t, THETA)[slot], x), counts(t, ACTION)[slot]
        if ahead(t, value, action, mean, best):
            best, mean = action, value
    return best, mean
