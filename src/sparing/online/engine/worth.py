"""What a call is worth: by how much it may better the rounds to come, weighed against its price (the knowledge gradient).

Contexts x_j of a reservoir stand for those to come. A call on action a in context x moves its mean at x_j by a normal
deviation s_j; of use is what it moves beyond the gap g_j to where another action is the better one:
ψ(g_j, s_j) = E[(s_j·Z − g_j)⁺]. Most calls are ruled out without weighing them: by a number that bounds an action's worth in
every context, and by a quadratic form that bounds it in this one. Both hold for any number of calls ahead.
"""

import math

import numpy as np

from sparing.native.compiling import compiled
from sparing.native.vectors import dot
from sparing.online.engine.algebra import times
from sparing.online.engine.foreseeing import ROUGHLY
from sparing.online.engine.memory import Table
from sparing.online.engine.search import ABOVE

AHEAD = 128
"""The most calls like this one that are looked ahead to; of one alone a noisy reward tells next to nothing."""

FAR = 38.0
"""Deviations beyond which a normal tail is 0 in double precision."""

DISTANT, UNHEARD = 8.0, 1e-16
"""ψ(g, s)/s is below the second beyond so many deviations."""

STEEPEST = 0.6120
"""u that maximises u·(φ(u) − u·Φ(−u)): there a line through 0 touches ψ as a function of s²."""

BLURRED = 1.0 + 1e-4
"""Half-widths are exact to this factor at least (learning.EXACT)."""

PATIENCE = 16
"""Looks at an action after which a form pays: finding it costs as much as so many."""

LASTING = 4
"""Looks at an action after which bounds that were found before the last change are found anew."""

SLIGHT = 1e-4
"""Share of a form below which a context is not looked at closely."""


@compiled
def psi(gap: float, s: float) -> float:
    """E[(s·Z − gap)⁺] = s·φ(u) − gap·Φ(−u), u = gap/s: what learning a value of deviation s is worth, `gap` from mattering."""
    if not s * FAR > gap:
        return 0.0
    u = gap / s
    tail = 0.5 * math.erfc(u / math.sqrt(2.0))
    return max(s * math.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi) - gap * tail, 0.0)


@compiled
def psi_at_most(gap: float, s: float) -> float:
    """No less than ψ, without a tail: φ(u) − u·Φ(−u) ≤ φ(u)/(1 + u²)."""
    if gap > DISTANT * s:
        return UNHEARD * s
    u = gap / s
    return ABOVE * s * math.exp(-0.5 * u * u) / (math.sqrt(2.0 * math.pi) * (1.0 + u * u))


@compiled
def aged(t: Table, slot: int, enough: float) -> bool:
    """Whether what bounds an action's worth is best found anew: it may rule the action out, or was of no use for a while."""
    if t.hoped[slot] < 0 or t.hoped[slot] == t.known:
        return t.hoped[slot] < 0
    return t.looks[slot] % LASTING == 0 or t.left * (t.hope[slot] - t.owed[slot]) <= enough


@compiled
def find_gaps(t: Table, slot: int) -> None:
    """Write `gap`: how far an action's mean at each x_j lies from that of the best other one."""
    best, rival, who, gap, means = t.best, t.rival, t.who, t.gap, t.foreseen
    for j in range(len(gap)):
        gap[j] = abs((rival[j] if who[j] == slot else best[j]) - means[j, slot])


@compiled
def find_reach(t: Table, slot: int) -> float:
    """Write `reach`, sqrt(x_jᵀV⁻¹x_j), where the slot has changed; its root mean square."""
    rows, reach, z, total = t.reservoir, t.reach, t.vectors[0], 0.0
    for j in range(len(reach)):
        if t.reached[slot] < t.changed[slot]:
            times(t.inverse[slot], rows[j], z)
            reach[j, slot] = BLURRED * math.sqrt(max(dot(z, rows[j]), 0.0))
        total += reach[j, slot] * reach[j, slot]
    t.reached[slot] = t.known
    return math.sqrt(total / len(reach))


@compiled
def find_hope(t: Table, slot: int) -> float:
    """Bound what calls on an action can be worth a round: `hope` in any context, and `base` + mean_j slope_j·(x_jᵀΣx)²/σ² in one.

    mean_j ψ(g_j, s_j) with s_j = σ·sqrt(x_jᵀV⁻¹x_j), all that there is to learn, bounds it; and ψ(g, s) ≤ start + slope·s²:
    a chord where s stays below g/u*, else a tangent at about what one call moves. As s_j(n)² ≤ n·(x_jᵀΣx)²/σ², that bounds
    ψ(g_j, s_j(n))/n for every n.
    """
    reach, slope, m, base, total = t.reach, t.slope[slot], len(t.gap), 0.0, 0.0
    usual = 0.5 * find_reach(t, slot)
    find_gaps(t, slot)
    for j in range(m):
        gap, widest, slope[j] = t.gap[j], t.unit * reach[j, slot], 0.0
        if not widest > 0.0:
            continue
        most = psi_at_most(gap, widest)
        total += most
        touching = gap / STEEPEST
        if touching >= widest:
            slope[j] = most / (widest * widest)
        else:
            s = max(touching, min(usual, 1.0) * widest)
            u = gap / s
            slope[j] = math.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi) / (2.0 * s)
            base += max(psi(gap, s) - slope[j] * s * s, 0.0)
    hope = ABOVE * total / m
    t.hope[slot], t.hoped[slot], t.owed[slot] = hope, t.known, 0.0
    t.base[slot] = ROUGHLY * base / m + 1e-6 * hope
    return hope


@compiled
def find_form(t: Table, slot: int) -> None:
    """The same bound as a quadratic form in x: x_jᵀΣx = σ²·z_jᵀx with z_j = V⁻¹x_j. `hope` must have been found.

    Where it counts for little, (z_jᵀx)² ≤ (x_jᵀV⁻¹x_j)·xᵀV⁻¹x is enough.
    """
    rows, form, m, d = t.reservoir, t.form[slot], len(t.gap), t.theta.shape[1]
    inverse, z, slope, reach = t.inverse[slot], t.vectors[0], t.slope[slot], t.reach
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
    t.floor[slot], t.formed[slot], t.looks[slot] = t.base[slot], t.known, 0


@compiled
def thinned(t: Table) -> float:
    """The share of a reward's variance that is not misfit, at most."""
    noise = t.unit * t.unit
    return noise / (noise + t.misfit * t.misfit)


@compiled
def find_moves(t: Table, slot: int, x: np.ndarray) -> tuple[float, float]:
    """Write `move`, |x_jᵀΣx|; xᵀΣx, and Σ slope_j·move_j²."""
    rows, move, slope = t.reservoir, t.move, t.slope[slot]
    y, noise, total = t.vectors[0], t.common * t.common, 0.0
    times(t.inverse[slot], x, y)
    for j in range(len(move)):
        move[j] = noise * abs(dot(rows[j], y))
        total += slope[j] * move[j] * move[j]
    return noise * max(dot(x, y), 0.0), total


@compiled
def at_most(t: Table, square: float) -> float:
    """No less than mean_j ψ(g_j, s_j(n))/n for every n up to AHEAD, from where so many calls would lead.

    ψ(g, s)/s² grows up to s = g/u*, so that its value at s_j(AHEAD), or at g/u* if that is less, bounds it, and s_j(n)²/n ≤ s_j(1)²; nor is it
    more than ψ(0, s_j(n))/n ≤ ψ(0, s_j(1)). `gap` and `move` must be those of the action.
    """
    gap, move, m = t.gap, t.move, len(t.gap)
    noise = t.common * t.common + t.misfit * t.misfit
    factor, once, total = math.sqrt(AHEAD / (noise + AHEAD * square)), math.sqrt(1.0 / (noise + square)), 0.0
    for j in range(m):
        if not move[j] > 0.0:
            continue
        first, s = move[j] * once, min(move[j] * factor, gap[j] / STEEPEST)
        most = psi_at_most(0.0, first)
        if s > 0.0:
            most = min(most, psi_at_most(gap[j], s) * (first / s) * (first / s))
        total += most
    return ROUGHLY * total / m


@compiled
def gain(t: Table, square: float, enough: float) -> float:
    """max_n (H − n + 1)·mean_j ψ(g_j, s_j(n))/n, n = 1, 2, 4, … ≤ H/2: what a call betters the rounds to come by.

    s_j(n) = |x_jᵀΣx|·sqrt(n/(σ² + n·xᵀΣx)); `gap` and `move` must be those of the action, square = xᵀΣx. Exact where it is
    above `enough`, else some number that is not. ψ grows with n, and no faster than s² where s ≤ g/u*: that bounds the means for
    fewer calls.
    """
    gap, move, m, left = t.gap, t.move, len(t.gap), t.left
    noise = t.common * t.common + t.misfit * t.misfit
    n = 1
    while 2 * n <= AHEAD and 2 * n <= left / 2:
        n *= 2
    most, last, total, curved = -math.inf, n, math.inf, 0.0
    while n >= 1:
        slower = 1.0 - (n / last) * (noise + last * square) / (noise + n * square)
        if (left - n + 1) * ABOVE * (total - curved * slower) / (m * n) > max(most, enough):
            factor, last, total, curved = math.sqrt(n / (noise + n * square)), n, 0.0, 0.0
            for j in range(m):
                s = move[j] * factor
                value = psi(gap[j], s)
                total += value
                curved += value if s * STEEPEST <= gap[j] else 0.0
            most = max(most, (left - n + 1) * (total / m) / n)
        n //= 2
    return most


@compiled
def worth(t: Table, slot: int, x: np.ndarray, loss: float, beaten: float) -> float:
    """Gain less price and what playing the action loses in this round; −∞ where bounds show that it is not above `beaten`.

    `products` must hold those of x.
    """
    enough = (t.price + loss + beaten) * (1.0 - 1e-12)
    if t.left * t.hope[slot] <= enough:
        return -math.inf
    if t.formed[slot] >= 0:
        floor, shape = t.floor[slot], max(dot(t.form[slot], t.products), 0.0)
        if t.left * ABOVE * (floor + shape) <= enough:
            return -math.inf
        square = max(dot(t.inverse[slot], t.products), 0.0) / BLURRED
        if t.left * ABOVE * (floor + shape / (1.0 + thinned(t) * square)) <= enough:
            return -math.inf
    if aged(t, slot, enough) and t.left * find_hope(t, slot) <= enough:
        return -math.inf
    t.looks[slot] += 1
    if t.looks[slot] > PATIENCE and t.formed[slot] < t.hoped[slot]:
        find_form(t, slot)
    square, total = find_moves(t, slot, x)
    share = ROUGHLY / ((t.common * t.common + t.misfit * t.misfit + square / BLURRED) * len(t.move))
    if t.left * ABOVE * (t.base[slot] + total * share) <= enough:
        return -math.inf
    find_gaps(t, slot)
    if t.left * at_most(t, square) <= enough:
        return -math.inf
    return gain(t, square, enough) - t.price - loss
