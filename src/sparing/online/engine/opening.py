"""Which slots an action has: settled with the rewards that came, and ahead with the calls that are open."""

import math
from typing import Any

import numpy as np

from sparing.native.compiling import compiled
from sparing.native.vectors import dot
from sparing.online.engine.algebra import times
from sparing.online.engine.learning import (
    SHRINK,
    add_row,
    factor,
    fits,
    note_change,
    observe,
    predict,
    set_radius,
)
from sparing.online.engine.luck import splitmix64
from sparing.online.engine.memory import AHEAD, SETTLED, Table

REFUSED, FULL = -1, -2
"""In the place of a slot: the row could not be learnt exactly, and there is no slot left for an untouched action."""

MODEST = 1e6
"""How many times larger than the rewards seen a prediction may be for b to keep its digits when it is taken out."""

BLANK: Any = np.int64(0)  # a plain 0 would be a type of its own, and compile everything again


@compiled
def copy_slot(t: Table, source: int, slot: int, action: int) -> None:
    """Let a slot begin as another one stands."""
    for i in range(t.theta.shape[1]):
        t.theta[slot, i] = t.theta[source, i]
        t.response[slot, i] = t.response[source, i]
    for i in range(t.gram.shape[1]):
        t.gram[slot, i] = t.gram[source, i]
        t.inverse[slot, i] = t.inverse[source, i]
    t.log_det[slot], t.shrunk[slot] = t.log_det[source], t.shrunk[source]
    t.radius[slot], t.root[slot] = t.radius[source], t.root[source]
    t.logged[slot], t.live[slot] = t.logged[source], t.live[source]
    t.squares[slot], t.log_delta[slot] = t.squares[source], t.log_delta[source]
    t.fresh[slot] = t.fresh[source]
    t.frozen[slot] = t.waiting[slot] = t.hidden[slot] = 0
    t.action[slot] = action
    note_change(t, slot)


@compiled
def take_slot(t: Table) -> int:
    """A slot that nobody uses. There must be room."""
    hidden = t.hidden
    if t.free > 0:
        t.free -= 1
        for slot in range(1, t.used):
            if hidden[slot] == 3:
                return slot
    t.used += 1
    return t.used - 1


@compiled
def first_untouched(t: Table, slots: np.ndarray, place: int) -> int:
    """The first place of the order, from `place` on, whose action is untouched in a view; K if there is none."""
    order = t.order
    while place < len(order) and slots[order[place]] != 0:
        place += 1
    return place


@compiled
def touch(t: Table, action: int) -> int:
    """Give an action a slot of its own in the settled view, as slot 0 has it. There must be room."""
    slot = take_slot(t)
    copy_slot(t, BLANK, slot, action)
    settled, ahead = t.settled, t.ahead
    settled[action] = slot
    t.touched[SETTLED] += 1
    t.next[SETTLED] = first_untouched(t, settled, t.next[SETTLED])
    if ahead[action] == 0:
        ahead[action] = slot
        t.touched[AHEAD] += 1
        t.next[AHEAD] = first_untouched(t, ahead, t.next[AHEAD])
    else:
        t.hidden[slot] = 2
    return slot


@compiled
def absorb(t: Table, action: int, x: np.ndarray, reward: float) -> int:
    """Add one row to an action's settled set, bounds apart; its slot, or REFUSED, or FULL where one is needed."""
    slot = t.settled[action]
    if t.frozen[slot]:
        return slot  # a point is never learnt further
    if not fits(t, slot, x):
        return REFUSED
    if slot == 0 and t.used == len(t.theta) and t.free == 0:
        return FULL
    if t.sigma > 0.0:
        mean, width = predict(t, slot, x)
        observe(t, reward, mean, width)
    if slot == 0:
        slot = touch(t, action)
    t.total += 1
    t.squares[slot] += reward * reward
    add_row(t, slot, x, reward)
    digest = np.uint64(t.digest)
    for word in t.theta[slot].view(np.uint64):
        digest = splitmix64(digest ^ word)
    t.digest = np.int64(digest)
    return slot


@compiled
def begin(t: Table, action: int, x: np.ndarray) -> float:
    """Count an open call in the view ahead, with what it predicts as its reward, which is returned.

    NaN, and nothing changed, where the row would be refused. There must be room for a twin.
    """
    source, slot = t.settled[action], t.ahead[action]
    if not t.frozen[source] and not (fits(t, slot, x) and (slot == source or fits(t, source, x))):
        return math.nan
    predicted = dot(t.theta[slot], x)
    reopen(t, action, x, predicted)
    return predicted


@compiled
def reopen(t: Table, action: int, x: np.ndarray, predicted: float) -> None:
    """Count an open call that predicted so much in the view ahead, in a twin that is made where there is none."""
    settled, ahead = t.settled, t.ahead
    source, slot = settled[action], ahead[action]
    if t.frozen[source]:
        return
    if slot == source:
        slot = take_slot(t)
        copy_slot(t, source, slot, action)
        t.hidden[slot] = 1
        t.twins += 1
        ahead[action] = slot
        if source == 0:
            t.touched[AHEAD] += 1
            t.next[AHEAD] = first_untouched(t, ahead, t.next[AHEAD])
        else:
            t.hidden[source] = 2
    t.waiting[slot] += 1
    add_row(t, slot, x, predicted)


@compiled
def close(t: Table, action: int) -> bool:
    """One open call less; whether others keep the action's twin alive. A point has none."""
    settled, ahead = t.settled, t.ahead
    source, slot = settled[action], ahead[action]
    if slot == source:
        return False
    t.waiting[slot] -= 1
    if t.waiting[slot] > 0:
        return True
    t.hidden[slot] = 3
    t.free += 1
    t.twins -= 1
    t.changes += 1
    ahead[action] = source
    if source == 0:
        t.touched[AHEAD] -= 1
        t.next[AHEAD] = min(t.next[AHEAD], t.priority[action])
    else:
        t.hidden[source] = 0
    return False


@compiled
def modest(t: Table, action: int, predicted: float, reward: float) -> bool:
    """Whether a prediction is not so far beyond all rewards that taking it out of b would leave its rounding only."""
    slot = t.settled[action]
    explained = dot(t.theta[slot], t.response[slot])
    return abs(predicted) <= MODEST * (abs(reward) + math.sqrt(max(explained, 0.0)))


@compiled
def settle(t: Table, action: int, x: np.ndarray, reward: float, predicted: float) -> bool:
    """Put the reward of an open call, which the settled set has learnt, in the place of its prediction.

    False, and nothing changed, where that would not be exact: then the twin must be made anew from the calls left.
    """
    slot, y = t.ahead[action], t.vectors[0]
    if t.waiting[slot] > 1 and not modest(t, action, predicted, reward):
        return False
    if close(t, action):
        times(t.inverse[slot], x, y)
        for i in range(len(x)):
            t.response[slot, i] += (reward - predicted) * x[i]
            t.theta[slot, i] += (reward - predicted) * y[i]
        note_change(t, slot)
    return True


@compiled
def take_back(t: Table, action: int, x: np.ndarray, predicted: float) -> bool:
    """Take an open call out of the view ahead again.

    False, and nothing changed, where V − xxᵀ would be left with the rounding of a much larger V, or b likewise: then
    the twin must be made anew from the calls that are left.
    """
    slot, k, d = t.ahead[action], 0, len(x)
    gram, response = t.gram[slot], t.response[slot]
    if t.waiting[slot] > 1:
        if not modest(t, action, predicted, 0.0):
            return False
        for i in range(d):
            if not x[i] * x[i] <= (1.0 - 1.0 / SHRINK) * gram[k]:
                return False
            k += d - i
    if close(t, action):
        k = 0
        for i in range(d):
            response[i] -= predicted * x[i]
            for j in range(d - i):
                gram[k + j] -= x[i] * x[i + j]
            k += d - i
        t.live[slot] -= 1
        factor(t, slot, math.inf)
        set_radius(t, slot)
    return True


@compiled
def drop(t: Table, action: int) -> None:
    """Give up an action's twin, however many calls it counts."""
    slot = t.ahead[action]
    if slot != t.settled[action]:
        t.waiting[slot] = 1
        close(t, action)
