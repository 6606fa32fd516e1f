"""The value of information of a call (knowledge gradient), its bounds, and the lookahead cache that they use."""

import math

import numpy as np

from sparing.native.compile import compiled, compiled_inner
from sparing.native.vectors import dot
from sparing.online.engine.packed import times
from sparing.online.engine.search import ABOVE, count_shared_prior
from sparing.online.engine.state import SetsStruct

SMALLEST = 1e-300
"""Added to a deviation that may be 0."""

SIGMA_MARGIN, SIGMA_SLACK = 1.02, 0.95
"""Bounds are computed for a σ this much above a growing one, and hold while σ is at least the second share of that."""

ROUGHLY = 1.0 + 1e-6
"""Covers the rounding of the sums behind a bound."""


@compiled_inner
def sync_cache(t: SetsStruct) -> None:
    """Update the lookahead cache: means at every x_j, the best two of them, and all bounds."""
    fresh, n_shared = t.known < t.resampled, min(count_shared_prior(t, t.active), 2)
    anew = fresh or n_shared != t.shared_ranked or t.changed[0] > t.known
    rescaled = rescale(t)
    for j in range(len(t.best)):
        t.gap[j], t.move[j], t.former[j] = t.best[j], t.rival[j], t.who[j]
    for slot in range(t.used):
        if fresh or t.changed[slot] > t.known:
            for j in range(len(t.context_sample)):
                t.future_means[j, slot] = dot(t.theta[slot], t.context_sample[j])
                if slot > 0 and len(t.future_cost):  # with costs no action shares the prior
                    t.future_means[j, slot] -= t.future_cost[t.action[slot]]
        looked = fresh and t.quadratic_at[slot] >= 0
        if fresh or rescaled or t.changed[slot] > t.known:
            forget(t, slot)
        if fresh:  # in new contexts, quadratic bounds pay at once where they paid in the old ones
            t.widths_at[slot], t.looks[slot] = -1, PATIENCE if looked else 0
    t.shared_ranked = n_shared
    for slot in range(1, t.used):
        seen = in_view(t, slot)
        if not anew and (seen != t.ranked[slot] or (seen and t.changed[slot] > t.known)):
            place(t, slot, seen)
        t.ranked[slot] = seen
    if anew:
        for j in range(len(t.best)):
            rank(t, j)
    t.known = t.changes
    if not fresh:
        accumulate_drift(t)


@compiled_inner
def rescale(t: SetsStruct) -> bool:
    """Make bounds hold for the present σ; whether the previous ones do not. A growing σ gets a margin."""
    if t.unit * SIGMA_SLACK <= t.common <= t.unit:
        return False
    t.unit = t.common if t.common == t.sigma or t.sigma == 0.0 else SIGMA_MARGIN * t.common
    return True


@compiled_inner
def in_view(t: SetsStruct, slot: int) -> bool:
    """Whether a slot's action may be played in this view."""
    return not t.view_mask[slot] & (1 + t.which) and (len(t.active) == 0 or t.active[t.action[slot]])


@compiled_inner
def rank(t: SetsStruct, j: int) -> None:
    """Find the best two means at x_j among all actions."""
    means = t.future_means[j]
    best = means[0] if t.shared_ranked > 0 else -math.inf
    rival = means[0] if t.shared_ranked > 1 else -math.inf
    who = runner = 0
    for slot in range(1, t.used):
        if means[slot] > rival and in_view(t, slot):
            if means[slot] > best:
                best, rival, who, runner = means[slot], best, slot, who
            else:
                rival, runner = means[slot], slot
    t.best[j], t.rival[j], t.who[j], t.runner[j] = best, rival, who, runner


@compiled_inner
def place(t: SetsStruct, slot: int, seen: bool) -> None:
    """Insert a slot's new means into the best two of every x_j; rank again if it was one of them and falls behind."""
    best, rival, who, runner = t.best, t.rival, t.who, t.runner
    for j in range(len(best)):
        mine = t.future_means[j, slot] if seen else -math.inf
        if who[j] == slot and mine >= rival[j]:
            best[j] = mine
        elif runner[j] == slot and rival[j] <= mine <= best[j]:
            rival[j] = mine
        elif who[j] == slot or runner[j] == slot:
            rank(t, j)
        elif mine > best[j]:
            best[j], rival[j], who[j], runner[j] = mine, best[j], slot, who[j]
        elif mine > rival[j]:
            rival[j], runner[j] = mine, slot


@compiled_inner
def gap_change_bound(before: float, gap: float, s: float) -> float:
    """An upper bound on ψ(gap, s) − ψ(before, s): as the gap closes, ψ grows at rate at most Φ(−gap/s) ≤ exp(−u²/2)/2, u = gap/s.

    (1 + y/16)¹⁶ ≤ exp(y) avoids the exponential, so that the loop vectorises.
    """
    u = gap / (s + SMALLEST)
    root = 1.0 + u * u / 32.0
    root *= root
    root *= root
    root *= root
    return 0.5 * max(before - gap, 0.0) / (root * root)


@compiled_inner
def accumulate_drift(t: SetsStruct) -> None:
    """Raise every bound by the movement of the best two means: ψ(g', s) ≤ ψ(g, s) + (g − g')·Φ(−g'/s) for g' < g.

    `gap`, `move` and `former` must hold the previous `best`, `rival` and `who`.
    """
    m, many, drift, used = len(t.best), 0, t.drift, t.used
    for slot in range(used):
        drift[slot] = 0.0
    for j in range(m):
        best, rival, who, former = t.best[j], t.rival[j], t.who[j], t.former[j]
        if best == t.gap[j] and rival == t.move[j] and who == former:
            continue
        many += 1
        means, reach, unit, before = t.future_means[j], t.future_widths[j], t.unit, t.gap[j]
        mine, theirs = drift[who], drift[former]
        for slot in range(used):
            drift[slot] += gap_change_bound(
                abs(before - means[slot]), abs(best - means[slot]), unit * reach[slot]
            )
        for slot, so_far in ((who, mine), (former, theirs)):
            was = abs((t.move[j] if slot == former else before) - means[slot])
            gap = abs((rival if slot == who else best) - means[slot])
            drift[slot] = so_far + gap_change_bound(was, gap, unit * reach[slot])
    if many == 0:
        return
    for slot in range(used):
        more = ROUGHLY * drift[slot] / m
        if more < math.inf:
            t.voi_bound[slot] += more
            t.bound_base[slot] += more
            t.bound_floor[slot] += more
            t.drift_total[slot] += more
        else:
            forget(t, slot)  # somebody is alone, or was


@compiled_inner
def forget(t: SetsStruct, slot: int) -> None:
    """Drop the bounds on the value of an action."""
    t.voi_bound[slot], t.voi_bound_at[slot], t.quadratic_at[slot], t.looks[slot] = math.inf, -1, -1, 0


MAX_LOOKAHEAD_CALLS = 128
"""Largest number of equal calls that are considered together; a single noisy reward is worth next to nothing."""

FAR = 38.0
"""Deviations beyond which a normal tail is 0 in double precision."""

DISTANT, UNHEARD = 8.0, 1e-16
"""ψ(g, s)/s is below the second number beyond this many deviations."""

STEEPEST = 0.6120
"""u that maximises u·(φ(u) − u·Φ(−u)): there a line through 0 touches ψ as a function of s²."""

BLURRED = 1.0 + 1e-4
"""Half-widths are exact to this factor at least (updates.EXACT)."""

PATIENCE = 16
"""Evaluations of an action after which a quadratic bound pays for its computation."""

LASTING = 4
"""Evaluations of an action after which bounds from before the last change are recomputed."""

WELL_KNOWN = 2
"""Rewards per feature from which an action is no longer new."""

SLIGHT = 1e-4
"""Share of a form below which a context is not evaluated closely."""


@compiled
def knowledge_gradient(gap: float, s: float) -> float:
    """E[(s·Z − gap)⁺] = s·φ(u) − gap·Φ(−u), u = gap/s: the value of learning a mean of deviation s."""
    if not s * FAR > gap:
        return 0.0
    u = gap / s
    tail = 0.5 * math.erfc(u / math.sqrt(2.0))
    return max(s * math.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi) - gap * tail, 0.0)


@compiled
def knowledge_gradient_bound(gap: float, s: float) -> float:
    """An upper bound on ψ without a tail: φ(u) − u·Φ(−u) ≤ φ(u)/(1 + u²)."""
    if gap > DISTANT * s:
        return UNHEARD * s
    u = gap / s
    return ABOVE * s * math.exp(-0.5 * u * u) / (math.sqrt(2.0 * math.pi) * (1.0 + u * u))


@compiled_inner
def stale(t: SetsStruct, slot: int, enough: float) -> bool:
    """Whether the bounds of an action should be recomputed: they may exclude it, or have not helped for a while."""
    if t.voi_bound_at[slot] < 0 or t.voi_bound_at[slot] == t.known:
        return t.voi_bound_at[slot] < 0
    return t.looks[slot] % LASTING == 0 or t.rounds_left * (t.voi_bound[slot] - t.drift_total[slot]) <= enough


@compiled_inner
def find_gaps(t: SetsStruct, slot: int) -> None:
    """Write `gap`: distance of an action's mean at each x_j from that of the best other action."""
    best, rival, who, gap, means = t.best, t.rival, t.who, t.gap, t.future_means
    for j in range(len(gap)):
        gap[j] = abs((rival[j] if who[j] == slot else best[j]) - means[j, slot])


@compiled_inner
def context_widths(t: SetsStruct, slot: int) -> float:
    """Write `future_widths`, sqrt(x_jᵀV⁻¹x_j), if the slot has changed; return their root mean square."""
    rows, reach, z, total = t.context_sample, t.future_widths, t.vectors[0], 0.0
    for j in range(len(reach)):
        if t.widths_at[slot] < t.changed[slot]:
            times(t.inverse[slot], rows[j], z)
            reach[j, slot] = BLURRED * math.sqrt(max(dot(z, rows[j]), 0.0))
        total += reach[j, slot] * reach[j, slot]
    t.widths_at[slot] = t.known
    return math.sqrt(total / len(reach))


@compiled_inner
def global_voi_bound(t: SetsStruct, slot: int) -> float:
    """Bound the value of calls on an action per future round: `voi_bound` in any context, and `bound_base` +
    mean_j bound_slope_j·(x_jᵀΣx)²/σ² at x.

    mean_j ψ(g_j, s_j) with s_j = σ·sqrt(x_jᵀV⁻¹x_j), the value of complete knowledge, is a bound; and ψ(g, s) ≤ start + slope·s²:
    a chord if s stays below g/u*, else a tangent at about the effect of one call. As s_j(n)² ≤ n·(x_jᵀΣx)²/σ², this bounds
    ψ(g_j, s_j(n))/n for every n.
    """
    reach, slope, m, base, total = t.future_widths, t.bound_slope[slot], len(t.gap), 0.0, 0.0
    usual = 0.5 * context_widths(t, slot)
    find_gaps(t, slot)
    for j in range(m):
        gap, widest, slope[j] = t.gap[j], t.unit * reach[j, slot], 0.0
        if not widest > 0.0:
            continue
        most = knowledge_gradient_bound(gap, widest)
        total += most
        touching = gap / STEEPEST
        if touching >= widest:
            slope[j] = most / (widest * widest)
        else:
            s = max(touching, min(usual, 1.0) * widest)
            u = gap / s
            slope[j] = math.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi) / (2.0 * s)
            base += max(knowledge_gradient(gap, s) - slope[j] * s * s, 0.0)
    bound = ABOVE * total / m
    t.voi_bound[slot], t.voi_bound_at[slot], t.drift_total[slot] = bound, t.known, 0.0
    t.bound_base[slot] = ROUGHLY * base / m + 1e-6 * bound
    return bound


@compiled_inner
def quadratic_voi_bound(t: SetsStruct, slot: int) -> None:
    """The same bound as a quadratic form in x: x_jᵀΣx = σ²·z_jᵀx with z_j = V⁻¹x_j. `voi_bound` must be known.

    For contexts of little weight (z_jᵀx)² ≤ (x_jᵀV⁻¹x_j)·xᵀV⁻¹x is enough.
    """
    rows, form, m, d = t.context_sample, t.bound_quadratic[slot], len(t.gap), t.theta.shape[1]
    inverse, z, slope, reach = t.inverse[slot], t.vectors[0], t.bound_slope[slot], t.future_widths
    unit, total, rest = ROUGHLY * t.unit * t.unit * thinned(t) / m, 0.0, 0.0
    for j in range(m):
        total += slope[j] * reach[j, slot] * reach[j, slot]
    for j in range(m):
        size = slope[j] * reach[j, slot] * reach[j, slot]
        rest += size if size <= SLIGHT * total else 0.0
    for i in range(len(form)):
        form[i] = unit * rest * inverse[i]
    for j in range(m):
        if slope[j] * reach[j, slot] * reach[j, slot] <= SLIGHT * total:
            continue
        times(inverse, rows[j], z)
        k = 0
        for i in range(d):
            scaled = unit * slope[j] * z[i]
            for more in range(d - i):
                form[k + more] += scaled * z[i + more]
            k += d - i
    t.bound_floor[slot], t.quadratic_at[slot], t.looks[slot] = t.bound_base[slot], t.known, 0


@compiled_inner
def thinned(t: SetsStruct) -> float:
    """Largest share of a reward's variance that is not misfit."""
    noise = t.unit * t.unit
    return noise / (noise + t.misfit * t.misfit)


@compiled_inner
def find_moves(t: SetsStruct, slot: int, x: np.ndarray) -> tuple[float, float]:
    """Write `move`, |x_jᵀΣx|; return xᵀΣx and Σ slope_j·move_j²."""
    rows, move, slope = t.context_sample, t.move, t.bound_slope[slot]
    y, noise, total = t.vectors[0], t.common * t.common, 0.0
    times(t.inverse[slot], x, y)
    for j in range(len(move)):
        move[j] = noise * abs(dot(rows[j], y))
        total += slope[j] * move[j] * move[j]
    return noise * max(dot(x, y), 0.0), total


@compiled_inner
def at_most(t: SetsStruct, square: float) -> float:
    """An upper bound on mean_j ψ(g_j, s_j(n))/n for every n up to MAX_LOOKAHEAD_CALLS.

    ψ(g, s)/s² grows up to s = g/u*, so its value at s_j(MAX_LOOKAHEAD_CALLS), or at g/u* if that is less, bounds it, and
    s_j(n)²/n ≤ s_j(1)². It is also at most ψ(0, s_j(n))/n ≤ ψ(0, s_j(1)). `gap` and `move` must be those of the action.
    """
    gap, move, m = t.gap, t.move, len(t.gap)
    noise = t.common * t.common + t.misfit * t.misfit
    factor, once, total = (
        math.sqrt(MAX_LOOKAHEAD_CALLS / (noise + MAX_LOOKAHEAD_CALLS * square)),
        math.sqrt(1.0 / (noise + square)),
        0.0,
    )
    for j in range(m):
        if not move[j] > 0.0:
            continue
        first, s = move[j] * once, min(move[j] * factor, gap[j] / STEEPEST)
        most = knowledge_gradient_bound(0.0, first)
        if s > 0.0:
            most = min(most, knowledge_gradient_bound(gap[j], s) * (first / s) * (first / s))
        total += most
    return ROUGHLY * total / m


@compiled_inner
def is_new(t: SetsStruct, slot: int) -> bool:
    """Whether calls on an action count as a sequential test: it was never logged, and has few rewards."""
    return t.stops_early and t.logged[slot] == 0 and t.live[slot] < WELL_KNOWN * t.theta.shape[1]


@compiled_inner
def counted(n: int, new: bool) -> float:
    """What n foreseen calls count as: a test that stops as soon as an action disappoints needs about a third of them."""
    return (n + 2.0) / 3.0 if new else 1.0 * n


@compiled_inner
def gain(t: SetsStruct, square: float, enough: float, new: bool) -> float:
    """max_n (H − n + 1)·mean_j ψ(g_j, s_j(n))/n, n = 1, 2, 4, … ≤ H/2: the expected gain of a call in future rounds.

    s_j(n) = |x_jᵀΣx|·sqrt(n/(σ² + n·xᵀΣx)); `gap` and `move` must be those of the action, square = xᵀΣx. For a `new` action n
    calls count as (n + 2)/3. Exact if above `enough`, else some number that is not. ψ grows with n, and no faster than s² if s ≤ g/u*: that bounds the means for
    fewer calls.
    """
    gap, move, m, left = t.gap, t.move, len(t.gap), t.rounds_left
    noise = t.common * t.common + t.misfit * t.misfit
    n = 1
    while 2 * n <= MAX_LOOKAHEAD_CALLS and 2 * n <= left / 2:
        n *= 2
    most, last, total, curved = -math.inf, n, math.inf, 0.0
    while n >= 1:
        slower = 1.0 - (n / last) * (noise + last * square) / (noise + n * square)
        each = m * counted(n, new)
        if (left - n + 1) * ABOVE * (total - curved * slower) / each > max(most, enough):
            factor, last, total, curved = math.sqrt(n / (noise + n * square)), n, 0.0, 0.0
            for j in range(m):
                s = move[j] * factor
                value = knowledge_gradient(gap[j], s)
                total += value
                curved += value if s * STEEPEST <= gap[j] else 0.0
            most = max(most, (left - n + 1) * (total / m) / counted(n, new))
        n //= 2
    return most


@compiled_inner
def worth(t: SetsStruct, slot: int, x: np.ndarray, loss: float, beaten: float) -> float:
    """Gain minus the price and the loss of playing the action now; −∞ if bounds show that it does not exceed `beaten`.

    `products` must hold those of x. `voi_bound` bounds ψ(g_j, s_j(n)) for every n, so it holds however calls are counted; the other
    bounds are of ψ/n, and (n + 2)/3 ≥ n/3.
    """
    enough, new = (t.price + loss + beaten) * (1.0 - 1e-12), is_new(t, slot)
    if t.rounds_left * t.voi_bound[slot] <= enough:
        return -math.inf
    left = t.rounds_left * (3.0 if new else 1.0)
    if t.quadratic_at[slot] >= 0:
        floor, shape = t.bound_floor[slot], max(dot(t.bound_quadratic[slot], t.products), 0.0)
        if left * ABOVE * (floor + shape) <= enough:
            return -math.inf
        square = max(dot(t.inverse[slot], t.products), 0.0) / BLURRED
        if left * ABOVE * (floor + shape / (1.0 + thinned(t) * square)) <= enough:
            return -math.inf
    if stale(t, slot, enough) and t.rounds_left * global_voi_bound(t, slot) <= enough:
        return -math.inf
    t.looks[slot] += 1
    if t.looks[slot] > PATIENCE and t.quadratic_at[slot] < t.voi_bound_at[slot]:
        quadratic_voi_bound(t, slot)
    square, total = find_moves(t, slot, x)
    share = ROUGHLY / ((t.common * t.common + t.misfit * t.misfit + square / BLURRED) * len(t.move))
    if left * ABOVE * (t.bound_base[slot] + total * share) <= enough:
        return -math.inf
    find_gaps(t, slot)
    if left * at_most(t, square) <= enough:
        return -math.inf
    return gain(t, square, enough, new) - t.price - loss
