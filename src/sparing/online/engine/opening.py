"""Which slots an action has: settled with the rewards that came, and ahead with the calls that are open."""

import math
from typing import Any

import numpy as np

from sparing.native.compiling import compiled
from sparing.online.engine.algebra import dot, times
from sparing.online.engine.learning import SHRINK, add_row, factor, fits, set_radius
from sparing.online.engine.luck import mixed
from sparing.online.engine.memory import (
    ACTION,
    AHEAD,
    COUNTERS,
    DIGEST,
    FREE,
    FRESH,
    FROZEN,
    GRAM,
    HIDDEN,
    INVERSE,
    LIVE,
    LOG_DET,
    LOGGED,
    NEXT,
    NEXT_AHEAD,
    ORDER,
    PRIORITY,
    RADIUS,
    RESPONSE,
    ROOT,
    SETTLED,
    SHRUNK,
    THETA,
    TOTAL,
    TOUCHED,
    TOUCHED_AHEAD,
    TWINS,
    USED,
    VECTORS,
    WAITING,
    columns,
    counts,
    matrix,
    rows,
    vector,
)

REFUSED, FULL = -1, -2
"""In the place of a slot: the row could not be learnt exactly, and there is no slot left for an untouched action."""

MODEST = 1e6
"""How many times larger than the rewards seen a prediction may be for b to keep its digits when it is taken out."""

BLANK: Any = np.int64(0)  # a plain 0 would be a type of its own, and compile everything again


@compiled
def copy_slot(t: np.ndarray, source: int, slot: int, action: int) -> None:
    """Let a slot begin as another one stands."""
    for i in range(columns(t, THETA)):
        matrix(t, THETA)[slot, i] = matrix(t, THETA)[source, i]
        matrix(t, RESPONSE)[slot, i] = matrix(t, RESPONSE)[source, i]
    for i in range(columns(t, GRAM)):
        matrix(t, GRAM)[slot, i] = matrix(t, GRAM)[source, i]
        matrix(t, INVERSE)[slot, i] = matrix(t, INVERSE)[source, i]
    vector(t, LOG_DET)[slot], vector(t, SHRUNK)[slot] = vector(t, LOG_DET)[source], vector(t, SHRUNK)[source]
    vector(t, RADIUS)[slot], vector(t, ROOT)[slot] = vector(t, RADIUS)[source], vector(t, ROOT)[source]
    counts(t, LOGGED)[slot], counts(t, LIVE)[slot] = counts(t, LOGGED)[source], counts(t, LIVE)[source]
    counts(t, FRESH)[slot] = counts(t, FRESH)[source]
    counts(t, FROZEN)[slot] = counts(t, WAITING)[slot] = counts(t, HIDDEN)[slot] = 0
    counts(t, ACTION)[slot] = action


@compiled
def take_slot(t: np.ndarray) -> int:
    """A slot that nobody uses. There must be room."""
    counters, hidden = counts(t, COUNTERS), counts(t, HIDDEN)
    if counters[FREE] > 0:
        counters[FREE] -= 1
        for slot in range(1, counters[USED]):
            if hidden[slot] == 3:
                return slot
    counters[USED] += 1
    return counters[USED] - 1


@compiled
def first_untouched(t: np.ndarray, slots: np.ndarray, place: int) -> int:
    """The first place of the order, from `place` on, whose action is untouched in a view; K if there is none."""
    order = counts(t, ORDER)
    while place < len(order) and slots[order[place]] != 0:
        place += 1
    return place


@compiled
def touch(t: np.ndarray, action: int) -> int:
    """Give an action a slot of its own in the settled view, as slot 0 has it. There must be room."""
    slot, counters = take_slot(t), counts(t, COUNTERS)
    copy_slot(t, BLANK, slot, action)
    settled, ahead = counts(t, SETTLED), counts(t, AHEAD)
    settled[action] = slot
    counters[TOUCHED] += 1
    counters[NEXT] = first_untouched(t, settled, counters[NEXT])
    if ahead[action] == 0:
        ahead[action] = slot
        counters[TOUCHED_AHEAD] += 1
        counters[NEXT_AHEAD] = first_untouched(t, ahead, counters[NEXT_AHEAD])
    else:
        counts(t, HIDDEN)[slot] = 2
    return slot


@compiled
def absorb(t: np.ndarray, action: int, x: np.ndarray, reward: float) -> int:
    """Add one row to an action's settled set, bounds apart; its slot, or REFUSED, or FULL where one is needed."""
    slot = counts(t, SETTLED)[action]
    if counts(t, FROZEN)[slot]:
        return slot  # a point is never learnt further
    if not fits(t, slot, x):
        return REFUSED
    if slot == 0:
        if counts(t, COUNTERS)[USED] == rows(t, THETA) and counts(t, COUNTERS)[FREE] == 0:
            return FULL
        slot = touch(t, action)
    counts(t, COUNTERS)[TOTAL] += 1
    add_row(t, slot, x, reward)
    digest = np.uint64(counts(t, COUNTERS)[DIGEST])
    for word in matrix(t, THETA)[slot].view(np.uint64):
        digest = mixed(digest ^ word)
    counts(t, COUNTERS)[DIGEST] = np.int64(digest)
    return slot


@compiled
def begin(t: np.ndarray, action: int, x: np.ndarray) -> float:
    """Count an open call in the view ahead, with what it predicts as its reward, which is returned.

    NaN, and nothing changed, where the row would be refused. There must be room for a twin.
    """
    source, slot = counts(t, SETTLED)[action], counts(t, AHEAD)[action]
    if not counts(t, FROZEN)[source] and not (fits(t, slot, x) and (slot == source or fits(t, source, x))):
        return math.nan
    predicted = dot(matrix(t, THETA)[slot], x)
    reopen(t, action, x, predicted)
    return predicted


@compiled
def reopen(t: np.ndarray, action: int, x: np.ndarray, predicted: float) -> None:
    """Count an open call that predicted so much in the view ahead, in a twin that is made where there is none."""
    settled, ahead, counters = counts(t, SETTLED), counts(t, AHEAD), counts(t, COUNTERS)
    source, slot = settled[action], ahead[action]
    if counts(t, FROZEN)[source]:
        return
    if slot == source:
        slot = take_slot(t)
        copy_slot(t, source, slot, action)
        counts(t, HIDDEN)[slot] = 1
        counters[TWINS] += 1
        ahead[action] = slot
        if source == 0:
            counters[TOUCHED_AHEAD] += 1
            counters[NEXT_AHEAD] = first_untouched(t, ahead, counters[NEXT_AHEAD])
        else:
            counts(t, HIDDEN)[source] = 2
    counts(t, WAITING)[slot] += 1
    add_row(t, slot, x, predicted)


@compiled
def close(t: np.ndarray, action: int) -> bool:
    """One open call less; whether others keep the action's twin alive. A point has none."""
    settled, ahead, counters = counts(t, SETTLED), counts(t, AHEAD), counts(t, COUNTERS)
    source, slot = settled[action], ahead[action]
    if slot == source:
        return False
    counts(t, WAITING)[slot] -= 1
    if counts(t, WAITING)[slot] > 0:
        return True
    counts(t, HIDDEN)[slot] = 3
    counters[FREE] += 1
    counters[TWINS] -= 1
    ahead[action] = source
    if source == 0:
        counters[TOUCHED_AHEAD] -= 1
        counters[NEXT_AHEAD] = min(counters[NEXT_AHEAD], counts(t, PRIORITY)[action])
    else:
        counts(t, HIDDEN)[source] = 0
    return False


@compiled
def modest(t: np.ndarray, action: int, predicted: float, reward: float) -> bool:
    """Whether a prediction is not so far beyond all rewards that taking it out of b would leave its rounding only."""
    slot = counts(t, SETTLED)[action]
    explained = dot(matrix(t, THETA)[slot], matrix(t, RESPONSE)[slot])
    return abs(predicted) <= MODEST * (abs(reward) + math.sqrt(max(explained, 0.0)))


@compiled
def settle(t: np.ndarray, action: int, x: np.ndarray, reward: float, predicted: float) -> bool:
    """Put the reward of an open call, which the settled set has learnt, in the place of its prediction.

    False, and nothing changed, where that would not be exact: then the twin must be made anew from the calls left.
    """
    slot, y = counts(t, AHEAD)[action], matrix(t, VECTORS)[0]
    if counts(t, WAITING)[slot] > 1 and not modest(t, action, predicted, reward):
        return False
    if close(t, action):
        times(matrix(t, INVERSE)[slot], x, y)
        for i in range(len(x)):
            matrix(t, RESPONSE)[slot, i] += (reward - predicted) * x[i]
            matrix(t, THETA)[slot, i] += (reward - predicted) * y[i]
    return True


@compiled
def take_back(t: np.ndarray, action: int, x: np.ndarray, predicted: float) -> bool:
    """Take an open call out of the view ahead again.

    False, and nothing changed, where V − xxᵀ would be left with the rounding of a much larger V, or b likewise: then
    the twin must be made anew from the calls that are left.
    """
    slot, k, d = counts(t, AHEAD)[action], 0, len(x)
    gram, response = matrix(t, GRAM)[slot], matrix(t, RESPONSE)[slot]
    if counts(t, WAITING)[slot] > 1:
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
        counts(t, LIVE)[slot] -= 1
        factor(t, slot, math.inf)
        set_radius(t, slot)
    return True


@compiled
def drop(t: np.ndarray, action: int) -> None:
    """Give up an action's twin, however many calls it counts."""
    slot = counts(t, AHEAD)[action]
    if slot != counts(t, SETTLED)[action]:
        counts(t, WAITING)[slot] = 1
        close(t, action)
