"""The most valuable reward of an action in a pool of contexts."""

import math

import numpy as np

from sparing.native.compile import compiled, compiled_inner
from sparing.online.engine.packed import outer
from sparing.online.engine.search import ABOVE
from sparing.online.engine.state import SetsStruct
from sparing.online.engine.value_of_information import (
    DISTANT,
    MAX_LOOKAHEAD_CALLS,
    ROUGHLY,
    UNHEARD,
    counted,
    find_gaps,
    find_moves,
    is_new,
    sync_cache,
    worth,
)

STEPS = 64.0
"""Nodes of `chords` per deviation."""


def chords() -> np.ndarray:
    """ψ(u, 1) at u = 0, 1/STEPS, … beyond DISTANT. ψ is convex in u, so lines between the nodes are upper bounds."""
    found = []
    for place in range(int(DISTANT * STEPS) + 2):
        u = place / STEPS
        found.append(math.exp(-0.5 * u * u) / math.sqrt(2 * math.pi) - 0.5 * u * math.erfc(u / math.sqrt(2)))
    return np.array(found)


@compiled_inner
def rough_gain(t: SetsStruct, square: float, nodes: np.ndarray, new: bool) -> float:
    """An upper bound on `gain`, a tenth of its cost: ψ(g, s) = s·ψ(g/s, 1) ≤ s·(line between the nodes).

    `gap` and `move` must be those of the action, square = xᵀΣx.
    """
    gap, move, m, left = t.gap, t.move, len(t.gap), t.rounds_left
    noise, most, n, last = t.common * t.common + t.misfit * t.misfit, 0.0, 1, len(nodes) - 1
    while n == 1 or (n <= MAX_LOOKAHEAD_CALLS and n <= left / 2):
        factor, total = math.sqrt(n / (noise + n * square)), 0.0
        for j in range(m):
            s = move[j] * factor
            place = min(STEPS * gap[j] / (s + 1e-300), last - 1e-9)
            node = int(place)
            total += s * (nodes[node] + (place - node) * (nodes[node + 1] - nodes[node]))
        most = max(most, (left - n + 1) * total / (m * counted(n, new)))
        n *= 2
    return ABOVE * ROUGHLY * most + UNHEARD * left * t.unit


@compiled
def best_call(
    t: SetsStruct, action: int, contexts: np.ndarray, left: np.ndarray, nodes: np.ndarray, above: np.ndarray
) -> tuple[int, float]:
    """The context in which a reward of the action is worth most, and its worth; −1 if none is worth more than 0.

    Nobody is served: the worth is `gain` minus the price. Only contexts (n, d) with `left` (n,) above 0 count; of equals the
    first. `nodes` are `chords()`; `above` (n,) is overwritten.
    """
    if t.known != t.changes or t.common > t.unit:
        sync_cache(t)
    slot, found, most = t.slot[action], -1, 0.0
    find_gaps(t, slot)
    for row in range(len(contexts)):
        above[row] = -math.inf
        if left[row] > 0:
            square, _ = find_moves(t, slot, contexts[row])
            above[row] = rough_gain(t, square, nodes, is_new(t, slot)) - t.price
    while True:
        row = int(np.argmax(above))
        if above[row] <= most:
            return found, most
        above[row] = -math.inf
        outer(contexts[row], t.products)
        value = worth(t, slot, contexts[row], 0.0, most)
        if value > most or (value == most and value > 0.0 and row < found):
            found, most = row, value
