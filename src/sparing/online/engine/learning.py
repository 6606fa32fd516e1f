"""How a row enters a confidence set, and how its width is bounded by one matrix that all actions share."""

import math

import numpy as np

from sparing.compiled import compiled
from sparing.online.engine.algebra import add_both, cholesky, dot, invert, times
from sparing.online.engine.memory import (
    ACTION,
    BIAS,
    COMMON,
    CONSTANT,
    COUNTERS,
    DETERMINANT,
    FRESH,
    FROZEN,
    GRAM,
    GROWTH,
    INVERSE,
    KIND,
    LAST,
    LIVE,
    LOG_DELTA,
    LOG_DET,
    LOGGED,
    METRIC,
    MISFIT,
    NEAR,
    NOISE,
    NUMBERS,
    QUICK,
    RADIUS,
    RESPONSE,
    RIDGE,
    ROOT,
    SCALE,
    SIZE,
    SLACK,
    SLOT,
    SPAN,
    SQUARE,
    THETA,
    TOTAL,
    TOTAL_GROWTH,
    TRACE,
    USED,
    VECTORS,
    columns,
    counts,
    matrix,
    rough_matrix,
    rows,
    vector,
)

REFACTOR = 256
"""Live rows of an action after which its inverse is computed afresh, so that rounding cannot pile up,"""

CHECK = 32
"""or sooner: at every so many rows ‖V·(V⁻¹x) − x‖ is looked at,"""

DRIFT = 1e-10
"""and an inverse that is off by more than this, relative to ‖V‖·‖V⁻¹x‖, is computed afresh."""

STEPS, HEADROOM, TRIES = 8, 1.04, 6
"""Power steps to estimate c, the factor put on the estimate, and how often it may be raised."""

MARGIN = 1e-9
"""Share of the diagonal of c·M held back: more than the rounding of a factorisation and of REFACTOR updates."""

UP = 1.0 + 2.0**-22
"""Rounding to single precision and then times this is rounding up."""


@compiled
def own_radius(t: np.ndarray, slot: int) -> float:
    """ρ of an action that has its own: radius_scale·(σ·sqrt(volume) + √λ·S_θ)."""
    n = vector(t, NUMBERS)
    if counts(t, COUNTERS)[KIND] == DETERMINANT:
        volume = vector(t, LOG_DET)[slot] + n[LOG_DELTA]
    else:
        d = columns(t, THETA)
        rows = counts(t, LOGGED)[slot] + counts(t, LIVE)[slot]
        volume = d * math.log1p(rows * n[GROWTH]) + n[LOG_DELTA]
    return n[SCALE] * (n[NOISE] * math.sqrt(volume) + n[BIAS])


@compiled
def set_radius(t: np.ndarray, slot: int) -> None:
    """Bring ρ up to date after a row entered this slot."""
    kind = counts(t, COUNTERS)[KIND]
    if kind == DETERMINANT or kind == TRACE:  # noqa: SIM109
        vector(t, RADIUS)[slot] = own_radius(t, slot)
    elif kind != CONSTANT:
        n, d = vector(t, NUMBERS), columns(t, THETA)
        inside = math.log1p(counts(t, COUNTERS)[TOTAL] * n[TOTAL_GROWTH]) + n[LOG_DELTA] / 2
        n[COMMON] = n[SCALE] * (n[NOISE] * math.sqrt(d * inside) + n[BIAS])


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
        if not counts(t, FROZEN)[slot]:
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
def factor(t: np.ndarray, slot: int) -> bool:
    """V⁻¹, θ̂ and log det V from V and b alone; False, and nothing changed, where V is singular."""
    ridge = vector(t, NUMBERS)[RIDGE]
    log_det = invert(matrix(t, GRAM)[slot], matrix(t, INVERSE)[slot], matrix(t, SQUARE), ridge)
    if math.isnan(log_det):
        return False
    times(matrix(t, INVERSE)[slot], matrix(t, RESPONSE)[slot], matrix(t, THETA)[slot])
    vector(t, LOG_DET)[slot] = log_det
    return True


@compiled
def factor_all(t: np.ndarray) -> int:
    """Compute all that follows from the state; the slot whose V is singular, or −1."""
    for slot in range(counts(t, COUNTERS)[USED]):
        if not counts(t, FROZEN)[slot] and not factor(t, slot):
            return slot
        set_radius(t, slot)
    choose_metric(t)
    return -1


@compiled
def radii_all(t: np.ndarray) -> None:
    """Bring every ρ up to date after the settings of the radii changed."""
    for slot in range(counts(t, COUNTERS)[USED]):
        set_radius(t, slot)
        show(t, slot)


@compiled
def drifted(t: np.ndarray, slot: int, x: np.ndarray, y: np.ndarray) -> bool:
    """Whether V·y, y = V⁻¹x, is further from x than rounding explains; overwrites y's neighbour scratch."""
    d, product = len(x), matrix(t, VECTORS)[2]
    times(matrix(t, GRAM)[slot], y, product)
    gap, size, k = 0.0, 0.0, 0
    for i in range(d):
        gap = max(gap, abs(product[i] - x[i]))
        size += matrix(t, GRAM)[slot, k]
        k += d - i
    return not gap <= DRIFT * size * math.sqrt(dot(y, y))


@compiled
def touch(t: np.ndarray, action: int) -> int:
    """Give an action a slot of its own, as slot 0 has it. There must be room."""
    slot = counts(t, COUNTERS)[USED]
    counts(t, COUNTERS)[USED] = slot + 1
    counts(t, SLOT)[action] = slot
    counts(t, ACTION)[slot] = action
    for i in range(columns(t, THETA)):
        matrix(t, THETA)[slot, i] = matrix(t, THETA)[0, i]
        matrix(t, RESPONSE)[slot, i] = matrix(t, RESPONSE)[0, i]
    for i in range(columns(t, GRAM)):
        matrix(t, GRAM)[slot, i] = matrix(t, GRAM)[0, i]
        matrix(t, INVERSE)[slot, i] = matrix(t, INVERSE)[0, i]
    vector(t, LOG_DET)[slot] = vector(t, LOG_DET)[0]
    vector(t, RADIUS)[slot] = vector(t, RADIUS)[0]
    vector(t, ROOT)[slot] = vector(t, ROOT)[0]
    counts(t, LOGGED)[slot] = counts(t, LIVE)[slot] = counts(t, FRESH)[slot] = counts(t, FROZEN)[slot] = 0
    return slot


@compiled
def absorb(t: np.ndarray, action: int, x: np.ndarray, reward: float) -> bool:
    """Add one row to one action: V += xxᵀ, b += x·r, V⁻¹ by Sherman–Morrison, θ̂ += V⁻¹x·(r − x·θ̂), ρ.

    An untouched action needs a free slot; True if none is left for the next.
    """
    slot = counts(t, SLOT)[action]
    if slot == 0:
        slot = touch(t, action)
    d, y = len(x), matrix(t, VECTORS)[0]
    inverse, response, theta = matrix(t, INVERSE)[slot], matrix(t, RESPONSE)[slot], matrix(t, THETA)[slot]
    times(inverse, x, y)
    square = max(dot(x, y), 0.0)
    surprise = (reward - dot(theta, x)) / (1.0 + square)
    live = counts(t, LIVE)[slot] + 1
    renew = live % REFACTOR == 0 or (live % CHECK == 0 and drifted(t, slot, x, y))
    add_both(matrix(t, GRAM)[slot], x, inverse, y, -1.0 / (1.0 + square))
    for i in range(d):
        response[i] += reward * x[i]
    counts(t, LIVE)[slot] = live
    counts(t, FRESH)[slot] += 1
    counts(t, COUNTERS)[TOTAL] += 1
    if renew and factor(t, slot):
        certify(t, slot)
    else:
        # A matrix that has grown singular keeps its running inverse, which stays usable.
        for i in range(d):
            theta[i] += surprise * y[i]
        vector(t, LOG_DET)[slot] += math.log1p(square)
        seen = counts(t, LOGGED)[slot] + live
        if counts(t, FRESH)[slot] >= max(d // 4 + 1, 0.15 * seen):
            certify(t, slot)
    set_radius(t, slot)
    show(t, slot)
    total = counts(t, COUNTERS)[TOTAL]
    if total - counts(t, COUNTERS)[LAST] >= max(8 * counts(t, COUNTERS)[USED], counts(t, COUNTERS)[LAST]):
        choose_metric(t)
    return counts(t, COUNTERS)[USED] == rows(t, THETA)
