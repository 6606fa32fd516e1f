"""How a row enters a confidence set, exactly."""

import math

import numpy as np

from sparing.native.compiling import compiled
from sparing.online.engine.algebra import add_both, dot, invert, times
from sparing.online.engine.memory import (
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
    LIVE,
    LOG_DELTA,
    LOG_DET,
    LOGGED,
    NOISE,
    NUMBERS,
    RADIUS,
    RESPONSE,
    RIDGE,
    SCALE,
    SHRUNK,
    SQUARE,
    THETA,
    TOTAL,
    TOTAL_GROWTH,
    TRACE,
    TRIAL,
    USED,
    VECTORS,
    columns,
    counts,
    matrix,
    vector,
)

REFACTOR, SHRINK = 256, 64.0
"""An inverse is computed afresh after so many live rows, or once an entry of its diagonal has fallen by such a
factor: a rank-one update subtracts, and what is left carries the rounding of what was there before."""

CONDITION = 1e11
"""The largest Σ_j V_jj·(V⁻¹)_jj, a condition number that does not depend on the features' units, up to which a set
is kept: rounding is then below `EXACT`. A row that would go beyond is refused."""

EXACT = 1e-4
"""What every half-width is exact to, as a share of itself, and every mean, as a share of sqrt(xᵀV⁻¹x)·sqrt(Σr²)."""

LOOSE = 1e-3
"""No state that a learner can be in is farther from its own V and b than this, in the same units."""


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
def factor(t: np.ndarray, slot: int, limit: float) -> bool:
    """V⁻¹, θ̂ and log det V from V and b alone; False, and nothing changed, where V's condition is above the limit."""
    inverse, ridge = matrix(t, TRIAL)[1], vector(t, NUMBERS)[RIDGE]
    log_det = invert(matrix(t, GRAM)[slot], inverse, matrix(t, SQUARE), ridge)
    if math.isnan(log_det) or not condition(matrix(t, GRAM)[slot], inverse, columns(t, THETA)) <= limit:
        return False
    renew(t, slot, inverse, log_det)
    return True


@compiled
def renew(t: np.ndarray, slot: int, inverse: np.ndarray, log_det: float) -> None:
    """Take a V⁻¹ that was computed afresh, and what follows from it."""
    own = matrix(t, INVERSE)[slot]
    for i in range(len(own)):
        own[i] = inverse[i]
    times(own, matrix(t, RESPONSE)[slot], matrix(t, THETA)[slot])
    vector(t, LOG_DET)[slot], vector(t, SHRUNK)[slot] = log_det, 1.0
    counts(t, FRESH)[slot] = (
        counts(t, LOGGED)[slot] + counts(t, LIVE)[slot] + 1
    )  # the bound must be found again


@compiled
def condition(gram: np.ndarray, inverse: np.ndarray, d: int) -> float:
    """Σ_j V_jj·(V⁻¹)_jj of packed matrices; d at least."""
    total, k = 0.0, 0
    for i in range(d):
        total += gram[k] * inverse[k]
        k += d - i
    return total


@compiled
def factor_all(t: np.ndarray) -> int:
    """Compute all that follows from the state, bounds apart; the slot whose V is too ill-conditioned, or −1."""
    for slot in range(counts(t, COUNTERS)[USED]):
        if not counts(t, FROZEN)[slot] and not factor(t, slot, CONDITION):
            return slot
        set_radius(t, slot)
    return -1


@compiled
def fits(t: np.ndarray, slot: int, x: np.ndarray) -> bool:
    """Whether V + xxᵀ stays within CONDITION."""
    bound = bound_after(t, slot, x)
    if bound <= CONDITION or len(x) == 1:
        return bound < math.inf
    return not math.isnan(tried(t, slot, x))


@compiled
def bound_after(t: np.ndarray, slot: int, x: np.ndarray) -> float:
    """A number that the condition of V + xxᵀ does not exceed: V⁻¹ only falls."""
    d, total, k = len(x), 0.0, 0
    gram, inverse = matrix(t, GRAM)[slot], matrix(t, INVERSE)[slot]
    for i in range(d):
        total += (gram[k] + x[i] * x[i]) * inverse[k]
        k += d - i
    return total


@compiled
def tried(t: np.ndarray, slot: int, x: np.ndarray) -> float:
    """Write V + xxᵀ and its inverse to `trial`; its log det, NaN beyond CONDITION."""
    d, k = len(x), 0
    trial, inverse, gram = matrix(t, TRIAL)[0], matrix(t, TRIAL)[1], matrix(t, GRAM)[slot]
    for i in range(d):
        for j in range(d - i):
            trial[k + j] = gram[k + j] + x[i] * x[i + j]
        k += d - i
    log_det = invert(trial, inverse, matrix(t, SQUARE), vector(t, NUMBERS)[RIDGE])
    return log_det if condition(trial, inverse, d) <= CONDITION else math.nan


@compiled
def shrinking(inverse: np.ndarray, y: np.ndarray, square: float) -> float:
    """The largest factor by which V⁻¹ − yyᵀ/(1 + square) lowers an entry of the diagonal; infinite if to nothing."""
    d, k, most = len(y), 0, 1.0
    for i in range(d):
        left = inverse[k] - y[i] * y[i] / (1.0 + square)
        if not inverse[k] <= most * left:
            most = inverse[k] / left if left > 0.0 else math.inf
        k += d - i
    return most


@compiled
def add_row(t: np.ndarray, slot: int, x: np.ndarray, reward: float) -> None:
    """V += xxᵀ, b += x·r, V⁻¹ by Sherman–Morrison, θ̂ += V⁻¹x·(r − x·θ̂), ρ; the row must fit."""
    d, y = len(x), matrix(t, VECTORS)[0]
    gram, inverse = matrix(t, GRAM)[slot], matrix(t, INVERSE)[slot]
    response, theta = matrix(t, RESPONSE)[slot], matrix(t, THETA)[slot]
    times(inverse, x, y)
    square = max(dot(x, y), 0.0)
    shrunk = vector(t, SHRUNK)[slot] * shrinking(inverse, y, square)
    live = counts(t, LIVE)[slot] + 1
    log_det = math.nan
    if live % REFACTOR == 0 or not shrunk <= SHRINK:
        log_det = tried(t, slot, x)
    for i in range(d):
        response[i] += reward * x[i]
    counts(t, LIVE)[slot] = live
    counts(t, FRESH)[slot] += 1
    if math.isnan(log_det):
        surprise = (reward - dot(theta, x)) / (1.0 + square)
        add_both(gram, x, inverse, y, -1.0 / (1.0 + square))
        for i in range(d):
            theta[i] += surprise * y[i]
        vector(t, LOG_DET)[slot] += math.log1p(square)
        vector(t, SHRUNK)[slot] = shrunk
    else:
        trial = matrix(t, TRIAL)
        for i in range(len(gram)):
            gram[i] = trial[0, i]
        renew(t, slot, trial[1], log_det)
    set_radius(t, slot)


@compiled
def contradiction(t: np.ndarray) -> bool:
    """Whether some slot's V⁻¹, θ̂ or log det is farther from what V and b say than rounding explains."""
    d, ridge = columns(t, THETA), vector(t, NUMBERS)[RIDGE]
    fresh, theta = matrix(t, TRIAL)[1], matrix(t, VECTORS)[0]
    for slot in range(counts(t, COUNTERS)[USED]):
        if counts(t, FROZEN)[slot]:
            continue
        inverse, response = matrix(t, INVERSE)[slot], matrix(t, RESPONSE)[slot]
        log_det = invert(matrix(t, GRAM)[slot], fresh, matrix(t, SQUARE), ridge)
        if math.isnan(log_det) or not abs(log_det - vector(t, LOG_DET)[slot]) <= LOOSE * (d + abs(log_det)):
            return True
        times(fresh, response, theta)
        reach, k = LOOSE * math.sqrt(max(dot(theta, response), 0.0)), 0
        roots = matrix(t, VECTORS)[1]
        for i in range(d):
            roots[i] = math.sqrt(fresh[k])
            k += d - i
        k = 0
        for i in range(d):
            if not abs(theta[i] - matrix(t, THETA)[slot, i]) <= reach * roots[i]:
                return True
            for j in range(d - i):
                if not abs(fresh[k + j] - inverse[k + j]) <= LOOSE * roots[i] * roots[i + j]:
                    return True
            k += d - i
    return False
