"""Shift between log and live: its size by the evidence of live rewards, and sets that allow for it."""

import math

import numpy as np

from sparing.native.compile import compiled, compiled_inner
from sparing.native.vectors import dot
from sparing.online.engine.forgetting import FREE, PENDING_COPY, widen
from sparing.online.engine.packed import invert, times
from sparing.online.engine.search import renew_bounds
from sparing.online.engine.state import SetsStruct
from sparing.online.engine.updates import factor

SHIFTS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Values of τ that are compared with 0, equally likely beforehand."""

NOISE_ROWS = 20.0
"""Rows of the log that the noise of live rewards is known by: it may differ from the log's."""

MOST_WORK = 1e8
"""Actions × d³ in one review; with more, it looks at evenly spaced actions."""


@compiled_inner
def is_set(t: SetsStruct, slot: int) -> bool:
    """Whether a slot is the observed set of an action, or the shared prior, and is learnt."""
    return not t.frozen[slot] and t.view_mask[slot] != FREE and t.view_mask[slot] != PENDING_COPY


@compiled_inner
def informs(t: SetsStruct, slot: int) -> bool:
    """Whether a slot says something of a shift: the log knows its action, and it has live rows.

    Of an action that was hardly logged, live rewards that differ from the prior may be its own.
    """
    return is_set(t, slot) and t.live_rows[slot] > 0.0 and t.logged[slot] >= t.theta.shape[1]


@compiled_inner
def start(t: SetsStruct, slot: int, shift: float, gram: np.ndarray, response: np.ndarray) -> None:
    """Write the precision A of the log's part at a shift τ, and its response around `start_mean`: A·(m − start_mean).

    A = w·(V⁻¹ + τ²S/σ²)⁻¹ + (1 − w)·(Λ⁻¹ + τ²S/σ²)⁻¹, V the log's, w the weight that forgetting left of its rows.
    """
    d = t.start_mean.shape[1]
    for i in range(len(gram)):
        gram[i] = t.start_gram[slot, i]
    for i in range(d):
        response[i] = 0.0
    mean = t.vectors[1]
    if shift > 0.0:
        widen(t, gram, response, mean, shift)
    if len(t.kept) == 0 or t.kept[slot] == 1.0:
        return
    kept, base, away = t.kept[slot], np.empty(len(gram)), np.empty(d)
    for i in range(len(gram)):
        base[i] = t.base_gram[slot, i]
    for i in range(d):
        response[i] = t.base_response[slot, i]
    widen(t, base, response, mean, shift)
    for i in range(d):
        away[i] = mean[i] - t.start_mean[slot, i]
    times(base, away, response)
    for i in range(d):
        response[i] *= 1.0 - kept
    for i in range(len(gram)):
        gram[i] = kept * gram[i] + (1.0 - kept) * base[i]


@compiled_inner
def evidence(t: SetsStruct, slot: int, shift: float) -> tuple[float, float]:
    """Half the log determinant of A(A + L)⁻¹, and the sum of squares that A leaves of the live rewards, L their Σxxᵀ."""
    gram, response, d = t.trial[0], np.empty(t.start_mean.shape[1]), t.start_mean.shape[1]
    inverse, mean = t.trial[1], np.empty(d)
    start(t, slot, shift, gram, response)
    own = invert(gram, inverse, t.square, 1.0)
    times(inverse, response, mean)
    squares = t.live_squares[slot] + dot(response, mean)
    for i in range(len(gram)):
        gram[i] += t.live_gram[slot, i]
    for i in range(d):
        response[i] += t.live_response[slot, i]
    both = invert(gram, inverse, t.square, 1.0)
    times(inverse, response, mean)
    return 0.5 * (own - both), squares - dot(response, mean)


@compiled_inner
def log_evidence(t: SetsStruct, shift: float, step: int) -> float:
    """Log evidence of all live rewards at a shift τ, up to a constant, the noise integrated out; from every `step`-th action that has any."""
    volume, squares, rows, place = 0.0, 0.0, 0.0, 0
    for slot in range(1, t.used):
        if informs(t, slot):
            if place % step == 0:
                half, left = evidence(t, slot, shift)
                volume += half
                squares += left
                rows += t.live_rows[slot]
            place += 1
    known = NOISE_ROWS * t.sigma * t.sigma
    return volume - 0.5 * (NOISE_ROWS + rows) * math.log1p(max(squares, 0.0) / known)


@compiled
def review(t: SetsStruct) -> float:
    """The shift of the highest evidence in the live rewards so far, of `SHIFTS`; `shift_evidence` is set."""
    live = 0
    for slot in range(1, t.used):
        live += informs(t, slot)
    step = max(1, math.ceil(live * t.theta.shape[1] ** 3 / MOST_WORK))
    best, most, total, found = 0.0, -math.inf, 0.0, np.empty(len(SHIFTS))
    none = log_evidence(t, 0.0, step)
    for place in range(len(SHIFTS)):
        found[place] = log_evidence(t, SHIFTS[place], step) - none
        if found[place] > most:
            best, most = SHIFTS[place], found[place]
    for place in range(len(SHIFTS)):
        total += math.exp(found[place] - most)
    t.shift_evidence = most + math.log(total / len(SHIFTS)) if live else 0.0
    return best


@compiled
def rebuild(t: SetsStruct, slot: int) -> None:
    """V = A + L, b = V·start_mean + the responses around it, at the present shift; L is Σxxᵀ of live rows."""
    d, gram, response, around = (
        t.start_mean.shape[1],
        t.gram[slot],
        t.response[slot],
        np.empty(t.start_mean.shape[1]),
    )
    start(t, slot, t.shift, gram, around)
    for i in range(len(gram)):
        gram[i] += t.live_gram[slot, i]
    times(gram, t.start_mean[slot], response)
    for i in range(d):
        response[i] += around[i] + t.live_response[slot, i]
    factor(t, slot, math.inf)
    renew_bounds(t, slot)


@compiled
def apply_shift(t: SetsStruct, shift: float) -> None:
    """Let every set allow for a shift τ. The noise monitor begins anew: it took the shift for noise."""
    t.shift = shift
    for slot in range(t.used):
        if is_set(t, slot):
            rebuild(t, slot)
    t.calls, t.residual_sum, t.faded_calls, t.common = 0, 0.0, 0.0, t.sigma
