"""The contexts that stand for future ones: logged at first, renewed by live ones (reservoir sampling)."""

import numpy as np

from sparing.native.compile import compiled
from sparing.native.vectors import dot
from sparing.online.engine.random_stream import CONTEXT, stream_key, uniform
from sparing.online.engine.state import NEVER, SetsStruct

LOG_ROUNDS = 200
"""Live rounds that the log counts as: after n of them, a share n/(n + LOG_ROUNDS) of the sample is live."""

RENEWALS = 4
"""The sample in use is renewed once one in this many of its contexts has changed: O(log n) times in n rounds."""

LONGEST = 10.0
"""A live context longer than this many times the longest logged one does not enter: it would outweigh all others."""


@compiled
def slot_taken(t: SetsStruct, key: int, number: int) -> int:
    """The place of the sample that the context of a round takes; −1 if it does not enter."""
    place = int(uniform(stream_key(key, number), CONTEXT) * max(LOG_ROUNDS + number - t.sampled_from, 1))
    return place if place < len(t.next_sample) else -1


@compiled
def find_next_entry(t: SetsStruct, key: int, number: int) -> None:
    """Set `next_entry`: the first round from `number` on whose context enters."""
    t.next_entry = NEVER
    if t.sampled_from == NEVER or len(t.next_sample) == 0:
        return
    while slot_taken(t, key, number) < 0:
        number += 1
    t.next_entry = number


@compiled
def enter_context(t: SetsStruct, x: np.ndarray, key: int, number: int, identity: int) -> None:
    """Let the context of round `number`, which must be `next_entry`, stand for future ones."""
    longest = 0.0
    for j in range(len(t.logged_sample)):
        longest = max(longest, dot(t.logged_sample[j], t.logged_sample[j]))
    if dot(x, x) <= LONGEST * LONGEST * longest:
        slot = slot_taken(t, key, number)
        for i in range(len(x)):
            t.next_sample[slot, i] = x[i]
        t.sample_ids[slot] = identity
        t.entered += 1
        if RENEWALS * t.entered >= len(t.next_sample):
            renew_sample(t)
    find_next_entry(t, key, number + 1)


@compiled
def renew_sample(t: SetsStruct) -> None:
    """Use the contexts that entered; every lookahead cache starts anew."""
    for j in range(len(t.next_sample)):
        for i in range(t.next_sample.shape[1]):
            t.context_sample[j, i] = t.next_sample[j, i]
    t.entered = 0
    t.changes += 1
    t.resampled = t.changes
