"""What is kept of the contexts that stand for those to come, x_j of a reservoir: the best two means at each, and bounds on what calls are worth.

A reward moves the means of one action. Where it was, or becomes, one of the best two at some x_j, other actions are nearer to mattering there
or farther from it, and their bounds are raised by what that can be worth. So little has to be found anew after it.
"""

import math

from sparing.native.compiling import compiled
from sparing.native.vectors import dot
from sparing.online.engine.memory import Table

SMALLEST = 1e-300
"""Added to a deviation that may be 0."""

ROOM, CRAMPED = 1.02, 0.95
"""Bounds are found for a σ so much above the one that grows, and hold while it is no less than the second part of that."""

ROUGHLY = 1.0 + 1e-6
"""Covers the rounding of the sums behind a bound."""


@compiled
def catch_up(t: Table) -> None:
    """Bring what is foreseen up to what was learnt since: means at every x_j, the best two of them, and all bounds."""
    fresh, blanks = t.known < 0, min(untouched_actions(t), 2)
    anew = fresh or blanks != t.blanks or t.changed[0] > t.known
    rescaled = rescale(t)
    for j in range(len(t.best)):
        t.gap[j], t.move[j], t.former[j] = t.best[j], t.rival[j], t.who[j]
    for slot in range(t.used):
        if fresh or t.changed[slot] > t.known:
            for j in range(len(t.reservoir)):
                t.foreseen[j, slot] = dot(t.theta[slot], t.reservoir[j])
        if fresh or rescaled or t.changed[slot] > t.known:
            forget(t, slot)
    t.blanks = blanks
    for slot in range(1, t.used):
        seen = visible(t, slot)
        if not anew and (seen != t.ranked[slot] or (seen and t.changed[slot] > t.known)):
            place(t, slot, seen)
        t.ranked[slot] = seen
    if anew:
        for j in range(len(t.best)):
            rank(t, j)
    t.known = t.changes
    if not fresh:
        owe(t)


@compiled
def rescale(t: Table) -> bool:
    """Let bounds hold for σ as it is now; whether those before do not. What grows with every reward gets some room."""
    if t.unit * CRAMPED <= t.common <= t.unit:
        return False
    t.unit = t.common if t.common == t.sigma or t.sigma == 0.0 else ROOM * t.common
    return True


@compiled
def untouched_actions(t: Table) -> int:
    """How many actions share slot 0, retired ones apart."""
    if len(t.everyone) == 0:
        return len(t.slot) - t.touched[t.which]
    many = 0
    for action in range(len(t.slot)):
        many += t.slot[action] == 0 and t.everyone[action]
    return many


@compiled
def visible(t: Table, slot: int) -> bool:
    """Whether a slot's action may be played in this view."""
    return not t.hidden[slot] & (1 + t.which) and (len(t.everyone) == 0 or t.everyone[t.action[slot]])


@compiled
def rank(t: Table, j: int) -> None:
    """Find the best two means at x_j among all actions."""
    means = t.foreseen[j]
    best = means[0] if t.blanks > 0 else -math.inf
    rival = means[0] if t.blanks > 1 else -math.inf
    who = runner = 0
    for slot in range(1, t.used):
        if means[slot] > rival and visible(t, slot):
            if means[slot] > best:
                best, rival, who, runner = means[slot], best, slot, who
            else:
                rival, runner = means[slot], slot
    t.best[j], t.rival[j], t.who[j], t.runner[j] = best, rival, who, runner


@compiled
def place(t: Table, slot: int, seen: bool) -> None:
    """Put a slot's new means among the best two of every x_j; where it falls behind, the others are looked at again."""
    best, rival, who, runner = t.best, t.rival, t.who, t.runner
    for j in range(len(best)):
        mine = t.foreseen[j, slot] if seen else -math.inf
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


@compiled
def closing(before: float, gap: float, s: float) -> float:
    """No less than ψ(gap, s) − ψ(before, s): where the gap closes, ψ grows at most at the rate Φ(−gap/s) ≤ exp(−u²/2)/2, u = gap/s.

    As (1 + y/16)¹⁶ ≤ exp(y), no exponential is needed, and many can be found side by side.
    """
    u = gap / (s + SMALLEST)
    root = 1.0 + u * u / 32.0
    root *= root
    root *= root
    root *= root
    return 0.5 * max(before - gap, 0.0) / (root * root)


@compiled
def owe(t: Table) -> None:
    """Raise every bound by what the best two means have moved: ψ(g', s) ≤ ψ(g, s) + (g − g')·Φ(−g'/s) for g' < g.

    `gap`, `move` and `former` must hold `best`, `rival` and `who` as they were.
    """
    m, many, due, used = len(t.best), 0, t.due, t.used
    for slot in range(used):
        due[slot] = 0.0
    for j in range(m):
        best, rival, who, former = t.best[j], t.rival[j], t.who[j], t.former[j]
        if best == t.gap[j] and rival == t.move[j] and who == former:
            continue
        many += 1
        means, reach, unit, before = t.foreseen[j], t.reach[j], t.unit, t.gap[j]
        mine, theirs = due[who], due[former]
        for slot in range(used):
            due[slot] += closing(abs(before - means[slot]), abs(best - means[slot]), unit * reach[slot])
        for slot, so_far in ((who, mine), (former, theirs)):
            was = abs((t.move[j] if slot == former else before) - means[slot])
            gap = abs((rival if slot == who else best) - means[slot])
            due[slot] = so_far + closing(was, gap, unit * reach[slot])
    if many == 0:
        return
    for slot in range(used):
        more = ROUGHLY * due[slot] / m
        if more < math.inf:
            t.hope[slot] += more
            t.base[slot] += more
            t.floor[slot] += more
            t.owed[slot] += more
        else:
            forget(t, slot)  # somebody is alone, or was


@compiled
def forget(t: Table, slot: int) -> None:
    """What bounded the worth of an action does not any more."""
    t.hope[slot], t.hoped[slot], t.formed[slot], t.looks[slot] = math.inf, -1, -1, 0
