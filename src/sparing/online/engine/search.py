"""Pruned search for the action with the highest upper confidence bound, and the bounds that prune it."""

import math
from typing import Any

import numpy as np

from sparing.native.compile import compiled, compiled_inner
from sparing.native.vectors import dot
from sparing.online.engine.packed import cholesky, invert, outer, rough_dot, times
from sparing.online.engine.state import SetsStruct
from sparing.online.engine.updates import SHARED_SLOT, set_radius

ROUNDING = 1.02 * 2.0**-24
"""Half a unit in the last place of single precision, with a margin for second-order terms."""

TINY = 1e-30
"""More than all underflow in a single-precision sum of unit vectors."""

SMALL = 1e-100
"""Contexts shorter than this are not bounded: their squares underflow."""

NOBODY: Any = np.int64(-1)
"""No action."""

ABOVE = 1.0 + 1e-9
"""Covers the rounding of a few operations in double precision."""

BoundsFlag = int | None
"""1 with bounds, None if the problem is too small for them: their code is then not compiled."""


@compiled_inner
def mean_and_spread(t: SetsStruct, slot: int, x: np.ndarray) -> tuple[float, float]:
    """x·θ̂ and the half-width of the set at x; `products` must hold those of x."""
    mean = dot(t.theta[slot], x)
    if t.frozen[slot]:
        return mean, t.point_allowance
    common = t.common
    radius = t.radius[slot] if math.isnan(common) else common
    half = radius * math.sqrt(max(dot(t.inverse[slot], t.products), 0.0))
    misfit = t.misfit
    return mean, math.sqrt(half * half + misfit * misfit) if misfit > 0.0 else half


@compiled_inner
def cost_of(t: SetsStruct, action: int) -> float:
    """Known cost of playing an action in this round; 0 if none is known."""
    return t.cost[action] if len(t.cost) else 0.0


@compiled_inner
def net_mean_and_spread(t: SetsStruct, action: int, x: np.ndarray) -> tuple[float, float]:
    """x·θ̂ − cost of an action, and the half-width of its set; `products` must hold those of x."""
    mean, spread = mean_and_spread(t, t.slot[action], x)
    return mean - cost_of(t, action), spread


@compiled_inner
def score_all(t: SetsStruct, x: np.ndarray) -> None:
    """Write `middle` and `width`, the mean and half-width of every slot, as `mean_and_spread` computes them."""
    theta, inverse, products = t.theta, t.inverse, t.products
    frozen, radius = t.frozen, t.radius
    middle, width = t.middle, t.width
    common, misfit, slack = t.common, t.misfit, t.point_allowance
    own = math.isnan(common)
    for slot in range(t.used):
        middle[slot] = dot(theta[slot], x)
        if frozen[slot]:
            width[slot] = slack
        else:
            half = (radius[slot] if own else common) * math.sqrt(max(dot(inverse[slot], products), 0.0))
            width[slot] = math.sqrt(half * half + misfit * misfit) if misfit > 0.0 else half


@compiled
def evaluate(t: SetsStruct, x: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> None:
    """Write mean and half-width of every action, (K,)."""
    outer(x, t.products)
    score_all(t, x)
    slot, middle, width = t.slot, t.middle, t.width
    for action in range(len(slot)):
        mean[action], spread[action] = middle[slot[action]], width[slot[action]]


@compiled
def scan_bounds(
    t: SetsStruct, x: np.ndarray, optimism: float, eligible: np.ndarray, bounds: BoundsFlag
) -> float:
    """Write `middle` and `upper` for the eligible slots (`upper` is −inf for others); return ‖x‖.

    x·θ̂ is within ROUNDING·(d + 4)·‖x‖·‖θ̂‖ (and TINY·‖x‖) of `middle`, before cost, and no UCB of reward − cost exceeds
    `upper`. Without bounds all slots are scored at once and `upper` is infinite.
    """
    upper, used = t.upper, t.used
    outer(x, t.products)
    norm = math.sqrt(dot(x, x))
    if bounds is None or not norm > SMALL:
        score_all(t, x)
        for slot in range(used):
            upper[slot] = math.inf
        mask_slots(t, eligible)
        return norm
    bound_all(t, x, norm, optimism)
    mask_slots(t, eligible)
    return norm


@compiled_inner
def scan_mean_bounds(t: SetsStruct, x: np.ndarray, eligible: np.ndarray, bounds: BoundsFlag) -> float:
    """`scan_bounds` without widths."""
    if bounds is not None:
        return scan_bounds(t, x, 1.0, eligible, bounds)
    outer(x, t.products)
    for slot in range(t.used):
        t.upper[slot] = math.inf
    mask_slots(t, eligible)
    return math.sqrt(dot(x, x))


@compiled_inner
def bound_all(t: SetsStruct, x: np.ndarray, norm: float, optimism: float) -> None:
    """Write `middle` and `upper` of every slot from single-precision means and the shared width."""
    d, used = len(x), t.used
    upper, middles = t.upper, t.middle
    rough_x, bounds32 = t.rough_x, t.bounds32
    for i in range(d):
        rough_x[i] = np.float32(x[i] / norm)
    t.shared_width = shared_width(t)
    reach = optimism * t.shared_width
    error = ROUNDING * (d + 4) * norm
    highest, most = 0, -math.inf
    action, cost, priced = t.action, t.cost, len(t.cost) > 0
    for slot in range(1, used):
        row32 = bounds32[slot]
        middle = norm * rough_dot(row32[:d], rough_x)
        middles[slot] = middle
        above = error * row32[d] + reach * row32[d + 1] + optimism * row32[d + 2]
        top = middle + ABOVE * (above + TINY * norm) + 1e-9 * abs(middle)
        if priced:
            top = without(top, cost[action[slot]])
        upper[slot] = top
        if not top <= most:
            highest, most = slot, top
    t.highest = highest


@compiled_inner
def without(high: float, cost: float) -> float:
    """An upper bound on m − cost, rounding included, from one on m."""
    return high - cost + 1e-9 * abs(cost)


@compiled_inner
def mask_slots(t: SetsStruct, eligible: np.ndarray) -> None:
    """Set `upper` to −inf for slots that are not eligible or not in this view, and find the highest of the others."""
    if len(eligible) == 0 and t.pending_copies + t.free == 0:
        return
    upper, action, view_mask = t.upper, t.action, t.view_mask
    unseen, highest, most = 1 + t.which, 0, -math.inf
    for slot in range(1, t.used):
        if view_mask[slot] & unseen or (len(eligible) and not eligible[action[slot]]):
            upper[slot] = -math.inf
        elif not upper[slot] <= most:
            highest, most = slot, upper[slot]
    t.highest = highest


@compiled_inner
def shared_width(t: SetsStruct) -> float:
    """‖x‖_M, times the common ρ if there is one; `products` must hold those of x."""
    width = ABOVE * math.sqrt(max(dot(t.metric, t.products), 0.0))
    common = t.common
    return width if math.isnan(common) else width * common


@compiled_inner
def highest_mean(t: SetsStruct, slot: int, norm: float) -> float:
    """An upper bound on x·θ̂ − cost; infinite if the scan had no bounds."""
    d = t.theta.shape[1]
    if t.upper[slot] == math.inf:
        return math.inf
    middle = t.middle[slot]
    error = ROUNDING * (d + 4) * norm * t.bounds32[slot, d]
    return without(middle + ABOVE * (error + TINY * norm) + 1e-9 * abs(middle), cost_of(t, t.action[slot]))


@compiled_inner
def shared_prior_actions(t: SetsStruct, eligible: np.ndarray, after: int) -> int:
    """Position in the order of the first eligible shared-prior action after `after`; K if none."""
    order, slot = t.order, t.slot
    place = max(after + 1, t.next[t.which])
    while place < len(order):
        if slot[order[place]] == 0 and (len(eligible) == 0 or eligible[order[place]]):
            return place
        place += 1
    return place


@compiled_inner
def count_shared_prior(t: SetsStruct, eligible: np.ndarray) -> int:
    """Number of eligible actions that share slot 0."""
    if len(eligible) == 0:
        return len(t.slot) - t.touched[t.which]
    many = 0
    for action in range(len(t.slot)):
        many += t.slot[action] == 0 and eligible[action]
    return many


@compiled_inner
def beats(t: SetsStruct, score: float, action: int, other: float, rival: int) -> bool:
    """Whether a score comes before another: the larger, or on equality the higher priority; rival −1 is nobody."""
    return rival < 0 or score > other or (score == other and t.priority[action] < t.priority[rival])


@compiled_inner
def top_two(
    t: SetsStruct, x: np.ndarray, optimism: float, eligible: np.ndarray, two: bool, bounds: BoundsFlag
) -> tuple[int, float, float, float, int, float, float]:
    """The eligible action with the highest UCB of reward − cost and, if `two`, the next one, exactly.

    Of the actions that share the prior, the first ones in order are the cheapest. Returns leader, its UCB, mean and half-width; rival (−1 if none), its UCB and half-width.
    """
    norm = scan_bounds(t, x, optimism, eligible, bounds)
    used = t.used
    upper, middle, width = t.upper, t.middle, t.width
    action, order, priority = t.action, t.order, t.priority
    first, first_top, first_mean, first_spread = -1, -math.inf, 0.0, 0.0
    second, second_top, second_spread = -1, -math.inf, 0.0
    place = shared_prior_actions(t, eligible, NOBODY)
    if place < len(order):
        first = order[place]
        shared, first_spread = mean_and_spread(t, SHARED_SLOT, x)
        first_mean = shared - cost_of(t, first)
        first_top = first_mean + optimism * first_spread
        if two:
            place = shared_prior_actions(t, eligible, place)
            if place < len(order):
                second, second_spread = order[place], first_spread
                second_top = shared - cost_of(t, second) + optimism * second_spread
    scored = bounds is None or not norm > SMALL
    highest = 0 if scored else t.highest
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
            if turn > 0 and len(t.inverse32) > 0:
                ready = ready or prepare_inverse32(t, norm)
                if pruned(t, slot, norm, optimism, cut):
                    continue
            mean, spread = mean_and_spread(t, slot, x)
        mine = action[slot]
        mean -= cost_of(t, mine)
        top = mean + optimism * spread
        if first < 0 or top > first_top or (top == first_top and priority[mine] < priority[first]):
            second, second_top, second_spread = first, first_top, first_spread
            first, first_top, first_mean, first_spread = mine, top, mean, spread
        elif two and beats(t, top, mine, second_top, second):
            second, second_top, second_spread = mine, top, spread
    return first, first_top, first_mean, first_spread, second, second_top, second_spread


@compiled_inner
def prepare_inverse32(t: SetsStruct, norm: float) -> bool:
    """Write the products of x/‖x‖ with itself in single precision."""
    products, rough = t.products, t.rough_products
    for i in range(len(rough)):
        rough[i] = np.float32(products[i] / (norm * norm))
    return True


@compiled
def pruned(t: SetsStruct, slot: int, norm: float, optimism: float, cut: float) -> bool:
    """Whether the quadratic form in single precision shows that a UCB is below `cut`.

    UCB ≤ high + optimism·(ρ·‖x‖·sqrt(q) + extra), q the form at x/‖x‖; compared without the root.
    """
    inverse32, rough, row32 = t.inverse32, t.rough_products, t.bounds32
    size, radius, middle = t.inverse_norm, t.radius, t.middle
    d, common = t.theta.shape[1], t.common
    if t.frozen[slot]:
        return False
    square: float = rough_dot(inverse32[slot], rough)
    square += ROUNDING * (d * (d + 1) / 2 + 4) * size[slot] + TINY
    reach = ABOVE * optimism * norm * (radius[slot] if math.isnan(common) else common)
    centre, blur = middle[slot], ROUNDING * (d + 4) * norm * row32[slot, d] + TINY * norm
    high = without(
        centre + ABOVE * (blur + optimism * row32[slot, d + 2]) + 1e-9 * abs(centre),
        cost_of(t, t.action[slot]),
    )
    gap = cut - high - 1e-15 * (abs(cut) + abs(high))
    return gap > 0.0 and gap * gap > ABOVE * reach * reach * square


@compiled_inner
def best_mean(t: SetsStruct, x: np.ndarray, norm: float, eligible: np.ndarray) -> tuple[int, float]:
    """The eligible action with the largest x·θ̂ − cost and that mean, exactly; x must have been scanned."""
    best, mean = -1, -math.inf
    place = shared_prior_actions(t, eligible, NOBODY)
    if place < len(t.order):
        best = t.order[place]
        mean = dot(t.theta[0], x) - cost_of(t, best)
    for slot in range(1, t.used):
        top = t.upper[slot]  # no less than the mean, and at hand
        if top == -math.inf or top < mean or highest_mean(t, slot, norm) < mean:
            continue
        action = t.action[slot]
        value = dot(t.theta[slot], x) - cost_of(t, action)
        if beats(t, value, action, mean, best):
            best, mean = action, value
    return best, mean


STEPS, HEADROOM, TRIES = 8, 1.04, 6
"""Power steps to estimate c, the factor on the estimate, and how often it may be raised."""

MARGIN = 1e-9
"""Share of the diagonal of c·M held back: more than the rounding of a factorisation and of REFACTOR updates."""

UP = 1.0 + 2.0**-22
"""A number rounded to single precision and multiplied by this is rounded up."""


@compiled
def write_bounds_row(t: SetsStruct, slot: int) -> None:
    """Write the single-precision rows that the bounds use; a small problem has none."""
    if len(t.bounds32) == 0:
        return
    d = t.theta.shape[1]
    row32, theta = t.bounds32[slot], t.theta[slot]
    norm = 0.0
    for i in range(d):
        row32[i] = np.float32(theta[i])
        norm += theta[i] * theta[i]
    row32[d] = np.float32(math.sqrt(norm) * UP)
    if t.frozen[slot]:
        row32[d + 1], row32[d + 2] = np.float32(0), np.float32(t.point_allowance * UP)
        return
    own = t.radius[slot] if math.isnan(t.common) else 1.0
    row32[d + 1] = np.float32(own * t.metric_factor[slot] * UP)
    row32[d + 2] = np.float32(t.misfit * UP)
    if len(t.inverse32):
        inverse32, inverse = t.inverse32[slot], t.inverse[slot]
        for i in range(len(inverse32)):
            inverse32[i] = np.float32(inverse[i])
        # Entries off the diagonal stand for two: ‖V⁻¹‖² ≤ 2·Σ of the squares of what is stored.
        size = 2 * dot(inverse, inverse)
        t.inverse_norm[slot] = math.sqrt(size) * UP


@compiled_inner
def bounded(t: SetsStruct, slot: int, factor: float) -> bool:
    """Whether V⁻¹ ⪯ factor·M, by a Cholesky factorisation of the difference."""
    d, k = len(t.square), 0
    inverse = t.inverse[slot]
    for i in range(d):
        for j in range(i, d):
            t.square[i, j] = factor * t.metric[k] - inverse[k]
            k += 1
        t.square[i, i] -= MARGIN * factor * t.metric[k - (d - i)]
    return cholesky(t.square)


@compiled_inner
def fit_metric_bound(t: SetsStruct, slot: int) -> None:
    """Find sqrt(c) with V⁻¹ ⪯ c·M: power steps on M⁻¹V⁻¹ estimate it, a factorisation proves it."""
    if len(t.bounds32) == 0:
        return
    d = t.theta.shape[1]
    t.fresh[slot] = 0
    inverse = t.inverse[slot]
    v, w, u = t.vectors[0], t.vectors[1], t.vectors[2]
    for i in range(d):
        v[i] = 1.0 + 0.1 * (i % 3)
    guess = 0.0
    for _ in range(STEPS):
        times(inverse, v, w)
        times(t.metric, v, u)
        guess = max(guess, dot(v, w) / dot(v, u))
        times(t.metric_inverse, w, v)
        norm = math.sqrt(dot(v, v))
        if not norm > 0.0:
            break
        for i in range(d):
            v[i] /= norm
    factor = HEADROOM * guess
    for _ in range(TRIES):
        if bounded(t, slot, factor):
            t.metric_factor[slot] = math.sqrt(factor) * (1.0 + MARGIN)
            return
        factor *= 1.15
    # The trace of M⁻¹V⁻¹ bounds its largest eigenvalue, whatever the rounding above.
    trace, k = 0.0, 0
    for i in range(d):
        trace += t.metric_inverse[k] * inverse[k]
        for j in range(1, d - i):
            trace += 2 * t.metric_inverse[k + j] * inverse[k + j]
        k += d - i
    t.metric_factor[slot] = math.sqrt(max(trace, 0.0)) * (1.0 + 1e-6)


@compiled
def choose_metric(t: SetsStruct) -> None:
    """M⁻¹ = the mean of V over the learnt slots; then bound each slot by it."""
    d = t.theta.shape[1]
    for i in range(len(t.metric_inverse)):
        t.metric_inverse[i] = t.gram[0, i]
    for slot in range(1, t.used):
        if not t.frozen[slot] and t.view_mask[slot] != 3:
            for i in range(len(t.metric_inverse)):
                t.metric_inverse[i] += t.gram[slot, i]
    mean, k = 0.0, 0
    for i in range(d):
        mean += t.metric_inverse[k] / d
        k += d - i
    k = 0
    for i in range(d):  # keeps the condition number of M below what a certificate's rounding allows
        t.metric_inverse[k] += 1e-6 * mean
        k += d - i
    for i in range(len(t.metric_inverse)):
        t.metric_inverse[i] /= mean
    if math.isnan(invert(t.metric_inverse, t.metric, t.square, 1.0)):
        k = 0
        for i in range(d):
            for j in range(d - i):
                t.metric_inverse[k + j] = t.metric[k + j] = 1.0 if j == 0 else 0.0
            k += d - i
    for slot in range(t.used):
        if not t.frozen[slot]:
            fit_metric_bound(t, slot)
        write_bounds_row(t, slot)
    t.last = t.total


@compiled
def renew_bounds(t: SetsStruct, slot: int) -> None:
    """Compute the bounds of a slot that was given another set."""
    set_radius(t, slot)
    fit_metric_bound(t, slot)
    write_bounds_row(t, slot)


@compiled
def refresh_bounds(t: SetsStruct, slot: int) -> None:
    """Update the bounds of a slot after a change, and the shared metric if it has aged."""
    seen = t.logged[slot] + t.live[slot]
    if t.fresh[slot] >= max(t.theta.shape[1] // 4 + 1, 0.15 * seen):
        fit_metric_bound(t, slot)
    write_bounds_row(t, slot)
    if t.total - t.last >= max(8 * t.used, t.last):
        choose_metric(t)


@compiled
def radii_all(t: SetsStruct) -> None:
    """Recompute every ρ after the settings of the radii changed."""
    for slot in range(t.used):
        set_radius(t, slot)
        write_bounds_row(t, slot)
