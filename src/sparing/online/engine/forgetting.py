"""Forgetting: precision and response of every set tend to the prior's, half of the way in each half-life."""

import math

import numpy as np

from sparing.native.compile import compiled, compiled_inner
from sparing.online.engine.packed import invert, times
from sparing.online.engine.search import renew_bounds
from sparing.online.engine.state import NEVER, SetsStruct
from sparing.online.engine.updates import FADES, factor, fade_after, fade_offset, fades_by

PENDING_COPY, FREE = 1, 3
"""Values of `view_mask` of slots that do not fade: copies are made again from their calls."""


@compiled
def advance(t: SetsStruct, clock: int) -> bool:
    """Fade every slot, and the noise monitor, as often as is due at this time; whether any slot did."""
    t.clock, faded = clock, False
    if t.half_life == 0:
        t.next_fade = NEVER
        return False
    if t.fades_from == NEVER:
        t.fades_from = clock
    due = fades_by(t, clock, 0)
    if due > t.monitor_fades:
        rest = weight_after(due - t.monitor_fades)
        t.residual_sum *= rest
        t.faded_calls += (1.0 - rest) * (t.calls - t.faded_calls)
        t.monitor_fades = due
    t.next_fade = fade_after(t, due, 0)
    for slot in range(1, t.used):
        if t.frozen[slot] or t.view_mask[slot] == FREE or t.view_mask[slot] == PENDING_COPY:
            continue
        offset = fade_offset(t, t.action[slot])
        due = fades_by(t, clock, offset)
        if due > t.fades[slot]:
            fade(t, slot, weight_after(due - t.fades[slot]))
            t.fades[slot], faded = due, True
        t.next_fade = min(t.next_fade, fade_after(t, due, offset))
    return faded


@compiled
def weight_after(fades: int) -> float:
    """Weight that some fades leave of a row."""
    return 2.0 ** (-fades / FADES)


@compiled_inner
def fade(t: SetsStruct, slot: int, rest: float) -> None:
    """V ← γV + (1 − γ)Λ, b ← γb + (1 − γ)Λm: the weight of its rows falls by γ = `rest`."""
    base, response = t.trial[0], t.vectors[0]
    tended(t, slot, base, response)
    gram, share = t.gram[slot], 1.0 - rest
    for i in range(len(gram)):
        gram[i] = rest * gram[i] + share * base[i]
    for i in range(len(response)):
        t.response[slot, i] = rest * t.response[slot, i] + share * response[i]
    t.squares[slot] *= rest
    t.kept[slot] *= rest
    t.faded_rows[slot] += share * (t.logged[slot] + t.live[slot] - t.faded_rows[slot])
    if len(t.live_gram) > 0:
        for i in range(len(gram)):
            t.live_gram[slot, i] *= rest
        for i in range(len(response)):
            t.live_response[slot, i] *= rest
        t.live_squares[slot] *= rest
        t.live_rows[slot] *= rest
    factor(t, slot, math.inf)
    renew_bounds(t, slot)


@compiled_inner
def tended(t: SetsStruct, slot: int, gram: np.ndarray, response: np.ndarray) -> None:
    """Write the precision and the response that a slot tends to: those of its prior, widened by the shift."""
    for i in range(len(gram)):
        gram[i] = t.base_gram[slot, i]
    for i in range(len(response)):
        response[i] = t.base_response[slot, i]
    if t.shift > 0.0:
        mean = t.vectors[1]
        widen(t, gram, response, mean, t.shift)
        times(gram, mean, response)


@compiled_inner
def widen(t: SetsStruct, gram: np.ndarray, response: np.ndarray, mean: np.ndarray, shift: float) -> None:
    """Write the mean V⁻¹b, and replace V by (V⁻¹ + τ²S/σ²)⁻¹: the covariance σ²V⁻¹ grows by τ²S."""
    scale, k, d = (shift / t.sigma) * (shift / t.sigma), 0, len(mean)
    invert(gram, gram, t.square, 1.0)
    times(gram, response, mean)
    for i in range(d):
        gram[k] += scale * t.spread[i] * t.spread[i]
        k += d - i
    invert(gram, gram, t.square, 1.0)
