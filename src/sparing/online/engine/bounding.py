"""How an action's width is bounded by one matrix that all actions share."""

import math

import numpy as np

from sparing.native.compiling import compiled
from sparing.native.vectors import dot
from sparing.online.engine.algebra import cholesky, invert, times
from sparing.online.engine.learning import set_radius
from sparing.online.engine.memory import Table

STEPS, HEADROOM, TRIES = 8, 1.04, 6
"""Power steps to estimate c, the factor put on the estimate, and how often it may be raised."""

MARGIN = 1e-9
"""Share of the diagonal of c·M held back: more than the rounding of a factorisation and of REFACTOR updates."""

UP = 1.0 + 2.0**-22
"""Rounding to single precision and then times this is rounding up."""


@compiled
def show(t: Table, slot: int) -> None:
    """Write the single-precision rows that bounds are read from; a small problem has none."""
    if len(t.near) == 0:
        return
    d = t.theta.shape[1]
    near, theta = t.near[slot], t.theta[slot]
    norm = 0.0
    for i in range(d):
        near[i] = np.float32(theta[i])
        norm += theta[i] * theta[i]
    near[d] = np.float32(math.sqrt(norm) * UP)
    if t.frozen[slot]:
        near[d + 1], near[d + 2] = np.float32(0), np.float32(t.slack * UP)
        return
    own = t.radius[slot] if math.isnan(t.common) else 1.0
    near[d + 1] = np.float32(own * t.root[slot] * UP)
    near[d + 2] = np.float32(t.misfit * UP)
    if len(t.quick):
        quick, inverse = t.quick[slot], t.inverse[slot]
        for i in range(len(quick)):
            quick[i] = np.float32(inverse[i])
        # Entries off the diagonal stand for two: ‖V⁻¹‖² ≤ 2·Σ of the squares of what is stored.
        size = 2 * dot(inverse, inverse)
        t.size[slot] = math.sqrt(size) * UP


@compiled
def bounded(t: Table, slot: int, factor: float) -> bool:
    """Whether V⁻¹ ⪯ factor·M, by a Cholesky factorisation of the difference."""
    d, k = len(t.square), 0
    inverse = t.inverse[slot]
    for i in range(d):
        for j in range(i, d):
            t.square[i, j] = factor * t.metric[k] - inverse[k]
            k += 1
        t.square[i, i] -= MARGIN * factor * t.metric[k - (d - i)]
    return cholesky(t.square)


@compiled
def certify(t: Table, slot: int) -> None:
    """Find sqrt(c) with V⁻¹ ⪯ c·M: power steps on M⁻¹V⁻¹ to guess it, a factorisation to prove it."""
    if len(t.near) == 0:
        return
    d = t.theta.shape[1]
    t.fresh[slot] = 0
    inverse = t.inverse[slot]
    v, w, u = t.vectors[0], t.vectors[1], t.vectors[2]
    for i in range(d):
        v[i] = 1.0 + 0.1 * (i % 3)
    guess = 0.0
    for _ in range(STEPS):
        times(inverse, v, w)
        times(t.metric, v, u)
        guess = max(guess, dot(v, w) / dot(v, u))
        times(t.span, w, v)
        norm = math.sqrt(dot(v, v))
        if not norm > 0.0:
            break
        for i in range(d):
            v[i] /= norm
    factor = HEADROOM * guess
    for _ in range(TRIES):
        if bounded(t, slot, factor):
            t.root[slot] = math.sqrt(factor) * (1.0 + MARGIN)
            return
        factor *= 1.15
    # The trace of M⁻¹V⁻¹ bounds its largest eigenvalue, whatever the rounding above.
    trace, k = 0.0, 0
    for i in range(d):
        trace += t.span[k] * inverse[k]
        for j in range(1, d - i):
            trace += 2 * t.span[k + j] * inverse[k + j]
        k += d - i
    t.root[slot] = math.sqrt(max(trace, 0.0)) * (1.0 + 1e-6)


@compiled
def choose_metric(t: Table) -> None:
    """M⁻¹ = the mean of V over the touched actions that are learnt; then bound each of them by it."""
    if len(t.near) == 0:
        return
    d = t.theta.shape[1]
    for i in range(len(t.span)):
        t.span[i] = t.gram[0, i]
    for slot in range(1, t.used):
        if not t.frozen[slot] and t.hidden[slot] != 3:
            for i in range(len(t.span)):
                t.span[i] += t.gram[slot, i]
    mean, k = 0.0, 0
    for i in range(d):
        mean += t.span[k] / d
        k += d - i
    k = 0
    for i in range(d):  # keeps the condition number of M below what a certificate's rounding allows
        t.span[k] += 1e-6 * mean
        k += d - i
    for i in range(len(t.span)):
        t.span[i] /= mean
    if math.isnan(invert(t.span, t.metric, t.square, 1.0)):
        k = 0
        for i in range(d):
            for j in range(d - i):
                t.span[k + j] = t.metric[k + j] = 1.0 if j == 0 else 0.0
            k += d - i
    for slot in range(t.used):
        if not t.frozen[slot]:
            certify(t, slot)
        show(t, slot)
    t.last = t.total


@compiled
def renew_bounds(t: Table, slot: int) -> None:
    """Find the bounds on a slot that was given another set."""
    set_radius(t, slot)
    certify(t, slot)
    show(t, slot)


@compiled
def keep_bounds(t: Table, slot: int) -> None:
    """Bring the bounds on a slot up to date after a change, and the shared metric where it has aged."""
    if len(t.near) == 0:
        return
    seen = t.logged[slot] + t.live[slot]
    if t.fresh[slot] >= max(t.theta.shape[1] // 4 + 1, 0.15 * seen):
        certify(t, slot)
    show(t, slot)
    if t.total - t.last >= max(8 * t.used, t.last):
        choose_metric(t)


@compiled
def radii_all(t: Table) -> None:
    """Bring every ρ up to date after the settings of the radii changed."""
    for slot in range(t.used):
        set_radius(t, slot)
        show(t, slot)
