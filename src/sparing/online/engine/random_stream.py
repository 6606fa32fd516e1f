"""Counter-based random numbers: functions of a key and an index, so that equal rounds draw the same numbers."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparing import hashing
from sparing.native.compile import compiled

CHECKED, WHERE, WHO, ANSWER, CONTEXT, NORMALS = 0, 1, 2, 3, 4, 16
"""Indices in a round's stream: whether it is spot-checked, whether with another action, with which; which answer a rule draws; which
place its context takes in the sample; the first normal number.
"""

OTHER_ACTION_SHARE = 0.05
"""Share of the spot checks that play another action than planned."""

NO_CHECK, CHECK_SAME, CHECK_OTHER = range(3)
"""Kinds of rounds: no spot check, one of the planned action, one of another action."""


mix64: Any = compiled(hashing.mix64)


@compiled
def splitmix64(word: np.uint64) -> np.uint64:
    """One step of splitmix64 from a word."""
    return mix64(np.uint64(word + hashing.GAMMA))


@compiled
def stream_key(seed: int, number: int) -> int:
    """The key of a round: 63 bits from the learner's key and the round's number."""
    return int(splitmix64(splitmix64(np.uint64(seed)) ^ np.uint64(number)) >> np.uint64(1))


@compiled
def uniform(key: int, place: int) -> float:
    """The number at an index of a key's stream, in [0, 1)."""
    return np.float64(splitmix64(splitmix64(np.uint64(key)) + np.uint64(place)) >> np.uint64(11)) * 2.0**-53


@compiled
def normals(key: int, out: np.ndarray) -> None:
    """Fill an array with a key's standard normal numbers (Box–Muller)."""
    for i in range(0, len(out), 2):
        size = math.sqrt(-2.0 * math.log(1.0 - uniform(key, NORMALS + i)))
        angle = 2.0 * math.pi * uniform(key, NORMALS + i + 1)
        out[i] = size * math.cos(angle)
        if i + 1 < len(out):
            out[i + 1] = size * math.sin(angle)


@compiled
def check_key(seed: int, number: int, share: float) -> np.int64:
    """The key of a round that is spot-checked, as `share` of them are; −1 for all others."""
    key = stream_key(seed, number)
    return np.int64(key) if uniform(key, CHECKED) < share else np.int64(-1)


@compiled
def spot_check_kind(key: int, share: float, others: bool) -> int:
    """Whether and how a round is spot-checked, as `share` of them are."""
    if not uniform(key, CHECKED) < share:
        return NO_CHECK
    return CHECK_OTHER if others and uniform(key, WHERE) < OTHER_ACTION_SHARE else CHECK_SAME


def tie_order_and_key(seed: int | Sequence[int], n_actions: int) -> tuple[np.ndarray, int]:
    """The order of ties (K,) and the key of a learner's random stream, both from one seed."""
    ties, play = np.random.SeedSequence(seed).spawn(2)
    priority = np.random.default_rng(ties).permutation(n_actions)
    return priority, int(play.generate_state(1, np.uint64)[0] >> np.uint64(1))
