"""How an action's width is bounded by one matrix that all actions share."""

import math

import numpy as np

from sparing.native.compiling import compiled
from sparing.online.engine.algebra import cholesky, dot, invert, times
from sparing.online.engine.learning import set_radius
from sparing.online.engine.memory import (
    COMMON,
    COUNTERS,
    FRESH,
    FROZEN,
    GRAM,
    HIDDEN,
    INVERSE,
    LAST,
    LIVE,
    LOGGED,
    METRIC,
    MISFIT,
    NEAR,
    NUMBERS,
    QUICK,
    RADIUS,
    ROOT,
    SIZE,
    SLACK,
    SPAN,
    SQUARE,
    THETA,
    TOTAL,
    USED,
    VECTORS,
    columns,
    counts,
    matrix,
    rough_matrix,
    rows,
    vector,
)

STEPS, HEADROOM, TRIES = 8, 1.04, 6
"""Power steps to estimate c, the factor put on the estimate, and how often it may be raised."""

MARGIN = 1e-9
"""Share of the diagonal of c·M held back: more than the rounding of a factorisation and of REFACTOR updates."""

UP = 1.0 + 2.0**-22
"""Rounding to single precision and then times this is rounding up."""


@compiled
def show(t: np.ndarray, slot: int) -> None:
    """Write the single-precision rows that bounds are read from; a small problem has none."""
    if rows(t, NEAR) == 0:
        return
    d = columns(t, THETA)
    near, theta = rough_matrix(t, NEAR)[slot], matrix(t, THETA)[slot]
    norm = 0.0
    for i in range(d):
        near[i] = np.float32(theta[i])
        norm += theta[i] * theta[i]
    near[d] = np.float32(math.sqrt(norm) * UP)
    if counts(t, FROZEN)[slot]:
        near[d + 1], near[d + 2] = np.float32(0), np.float32(vector(t, NUMBERS)[SLACK] * UP)
        return
    own = vector(t, RADIUS)[slot] if math.isnan(vector(t, NUMBERS)[COMMON]) else 1.0
    near[d + 1] = np.float32(own * vector(t, ROOT)[slot] * UP)
    near[d + 2] = np.float32(vector(t, NUMBERS)[MISFIT] * UP)
    if rows(t, QUICK):
        quick, inverse = rough_matrix(t, QUICK)[slot], matrix(t, INVERSE)[slot]
        for i in range(len(quick)):
            quick[i] = np.float32(inverse[i])
        # Entries off the diagonal stand for two: ‖V⁻¹‖² ≤ 2·Σ of the squares of what is stored.
        size = 2 * dot(inverse, inverse)
        vector(t, SIZE)[slot] = math.sqrt(size) * UP


@compiled
def bounded(t: np.ndarray, slot: int, factor: float) -> bool:
    """Whether V⁻¹ ⪯ factor·M, by a Cholesky factorisation of the difference."""
    d, k = rows(t, SQUARE), 0
    inverse = matrix(t, INVERSE)[slot]
    for i in range(d):
        for j in range(i, d):
            matrix(t, SQUARE)[i, j] = factor * vector(t, METRIC)[k] - inverse[k]
            k += 1
        matrix(t, SQUARE)[i, i] -= MARGIN * factor * vector(t, METRIC)[k - (d - i)]
    return cholesky(matrix(t, SQUARE))


@compiled
def certify(t: np.ndarray, slot: int) -> None:
    """Find sqrt(c) with V⁻¹ ⪯ c·M: power steps on M⁻¹V⁻¹ to guess it, a factorisation to prove it."""
    if rows(t, NEAR) == 0:
        return
    d = columns(t, THETA)
    counts(t, FRESH)[slot] = 0
    inverse = matrix(t, INVERSE)[slot]
    v, w, u = matrix(t, VECTORS)[0], matrix(t, VECTORS)[1], matrix(t, VECTORS)[2]
    for i in range(d):
        v[i] = 1.0 + 0.1 * (i % 3)
    guess = 0.0
    for _ in range(STEPS):
        times(inverse, v, w)
        times(vector(t, METRIC), v, u)
        guess = max(guess, dot(v, w) / dot(v, u))
        times(vector(t, SPAN), w, v)
        norm = math.sqrt(dot(v, v))
        if not norm > 0.0:
            break
        for i in range(d):
            v[i] /= norm
    factor = HEADROOM * guess
    for _ in range(TRIES):
        if bounded(t, slot, factor):
            vector(t, ROOT)[slot] = math.sqrt(factor) * (1.0 + MARGIN)
            return
        factor *= 1.15
    # The trace of M⁻¹V⁻¹ bounds its largest eigenvalue, whatever the rounding above.
    trace, k = 0.0, 0
    for i in range(d):
        trace += vector(t, SPAN)[k] * inverse[k]
        for j in range(1, d - i):
            trace += 2 * vector(t, SPAN)[k + j] * inverse[k + j]
        k += d - i
    vector(t, ROOT)[slot] = math.sqrt(max(trace, 0.0)) * (1.0 + 1e-6)


@compiled
def choose_metric(t: np.ndarray) -> None:
    """M⁻¹ = the mean of V over the touched actions that are learnt; then bound each of them by it."""
    if rows(t, NEAR) == 0:
        return
    d = columns(t, THETA)
    for i in range(rows(t, SPAN)):
        vector(t, SPAN)[i] = matrix(t, GRAM)[0, i]
    for slot in range(1, counts(t, COUNTERS)[USED]):
        if not counts(t, FROZEN)[slot] and counts(t, HIDDEN)[slot] != 3:
            for i in range(rows(t, SPAN)):
                vector(t, SPAN)[i] += matrix(t, GRAM)[slot, i]
    mean, k = 0.0, 0
    for i in range(d):
        mean += vector(t, SPAN)[k] / d
        k += d - i
    k = 0
    for i in range(d):  # keeps the condition number of M below what a certificate's rounding allows
        vector(t, SPAN)[k] += 1e-6 * mean
        k += d - i
    for i in range(rows(t, SPAN)):
        vector(t, SPAN)[i] /= mean
    if math.isnan(invert(vector(t, SPAN), vector(t, METRIC), matrix(t, SQUARE), 1.0)):
        k = 0
        for i in range(d):
            for j in range(d - i):
                vector(t, SPAN)[k + j] = vector(t, METRIC)[k + j] = 1.0 if j == 0 else 0.0
            k += d - i
    for slot in range(counts(t, COUNTERS)[USED]):
        if not counts(t, FROZEN)[slot]:
            certify(t, slot)
        show(t, slot)
    counts(t, COUNTERS)[LAST] = counts(t, COUNTERS)[TOTAL]


@compiled
def keep_bounds(t: np.ndarray, slot: int) -> None:
    """Bring the bounds on a slot up to date after a change, and the shared metric where it has aged."""
    if rows(t, NEAR) == 0:
        return
    counters, seen = counts(t, COUNTERS), counts(t, LOGGED)[slot] + counts(t, LIVE)[slot]
    if counts(t, FRESH)[slot] >= max(columns(t, THETA) // 4 + 1, 0.15 * seen):
        certify(t, slot)
    show(t, slot)
    if counters[TOTAL] - counters[LAST] >= max(8 * counters[USED], counters[LAST]):
        choose_metric(t)


@compiled
def radii_all(t: np.ndarray) -> None:
    """Bring every ρ up to date after the settings of the radii changed."""
    for slot in range(counts(t, COUNTERS)[USED]):
        set_radius(t, slot)
        show(t, slot)
