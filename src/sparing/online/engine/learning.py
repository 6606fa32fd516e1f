"""How a row enters a confidence set, exactly."""

import math

import numpy as np

from sparing.model import ellipsoids
from sparing.native.compiling import compiled
from sparing.native.vectors import dot
from sparing.online.engine.algebra import add_both, invert, times
from sparing.online.engine.memory import DETERMINANT, PAPER, TRACE, Table

determinant, trace = compiled(ellipsoids.determinant), compiled(ellipsoids.trace)
paper = compiled(ellipsoids.paper)

REFACTOR, SHRINK = 256, 64.0
"""An inverse is computed afresh after so many live rows, or once an entry of its diagonal has fallen by such a
factor: a rank-one update subtracts, and what is left carries the rounding of what was there before."""

CONDITION = 1e11
"""The largest Σ_j V_jj·(V⁻¹)_jj, a condition number that does not depend on the features' units, up to which a set
is kept: rounding is then below `EXACT`. A row that would go beyond is refused."""

EXACT = 1e-4
"""What every half-width is exact to, as a share of itself, and every mean, as a share of sqrt(xᵀV⁻¹x)·sqrt(Σr²)."""

SURPRISING = 3.09
"""Normal quantile (99.9 %) beyond which the noise of live rewards is not chance."""

LOOSE = 1e-3
"""No state that a learner can be in is farther from its own V and b than this, in the same units."""


@compiled
def set_radius(t: Table, slot: int) -> None:
    """Bring ρ up to date after a row entered this slot."""
    d = t.theta.shape[1]
    if t.kind == DETERMINANT:
        t.radius[slot] = t.scale * determinant(t.log_det[slot], t.noise, t.bias, t.log_delta[slot])
    elif t.kind == TRACE:
        rows = t.logged[slot] + t.live[slot]
        t.radius[slot] = t.scale * trace(rows, t.growth, d, t.noise, t.bias, t.log_delta[slot])
    elif t.kind == PAPER:
        t.common = t.scale * paper(t.total, t.total_growth, d, t.noise, t.bias, t.log_delta[slot])


@compiled
def factor(t: Table, slot: int, limit: float) -> bool:
    """V⁻¹, θ̂ and log det V from V and b alone; False, and nothing changed, where V's condition is above the limit."""
    inverse, ridge = t.trial[1], t.ridge
    log_det = invert(t.gram[slot], inverse, t.square, ridge)
    if math.isnan(log_det) or not condition(t.gram[slot], inverse, t.theta.shape[1]) <= limit:
        return False
    renew(t, slot, inverse, log_det)
    return True


@compiled
def renew(t: Table, slot: int, inverse: np.ndarray, log_det: float) -> None:
    """Take a V⁻¹ that was computed afresh, and what follows from it."""
    own = t.inverse[slot]
    for i in range(len(own)):
        own[i] = inverse[i]
    times(own, t.response[slot], t.theta[slot])
    t.log_det[slot], t.shrunk[slot] = log_det, 1.0
    t.fresh[slot] = t.logged[slot] + t.live[slot] + 1  # the bound must be found again
    note_change(t, slot)


@compiled
def note_change(t: Table, slot: int) -> None:
    """Let those who keep something of a slot know that it is another."""
    t.changes += 1
    t.changed[slot] = t.changes


@compiled
def condition(gram: np.ndarray, inverse: np.ndarray, d: int) -> float:
    """Σ_j V_jj·(V⁻¹)_jj of packed matrices; d at least."""
    total, k = 0.0, 0
    for i in range(d):
        total += gram[k] * inverse[k]
        k += d - i
    return total


@compiled
def factor_all(t: Table) -> int:
    """Compute all that follows from the state, bounds apart; the slot whose V is too ill-conditioned, or −1."""
    for slot in range(t.used):
        if not t.frozen[slot] and not factor(t, slot, CONDITION):
            return slot
        set_radius(t, slot)
    return -1


@compiled
def fits(t: Table, slot: int, x: np.ndarray) -> bool:
    """Whether V + xxᵀ stays within CONDITION."""
    bound = bound_after(t, slot, x)
    if bound <= CONDITION or len(x) == 1:
        return bound < math.inf
    return not math.isnan(tried(t, slot, x))


@compiled
def bound_after(t: Table, slot: int, x: np.ndarray) -> float:
    """A number that the condition of V + xxᵀ does not exceed: V⁻¹ only falls."""
    d, total, k = len(x), 0.0, 0
    gram, inverse = t.gram[slot], t.inverse[slot]
    for i in range(d):
        total += (gram[k] + x[i] * x[i]) * inverse[k]
        k += d - i
    return total


@compiled
def tried(t: Table, slot: int, x: np.ndarray) -> float:
    """Write V + xxᵀ and its inverse to `trial`; its log det, NaN beyond CONDITION."""
    d, k = len(x), 0
    trial, inverse, gram = t.trial[0], t.trial[1], t.gram[slot]
    for i in range(d):
        for j in range(d - i):
            trial[k + j] = gram[k + j] + x[i] * x[i + j]
        k += d - i
    log_det = invert(trial, inverse, t.square, t.ridge)
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
def add_row(t: Table, slot: int, x: np.ndarray, reward: float) -> None:
    """V += xxᵀ, b += x·r, V⁻¹ by Sherman–Morrison, θ̂ += V⁻¹x·(r − x·θ̂), ρ; the row must fit."""
    d, y = len(x), t.vectors[0]
    gram, inverse = t.gram[slot], t.inverse[slot]
    response, theta = t.response[slot], t.theta[slot]
    times(inverse, x, y)
    square = max(dot(x, y), 0.0)
    shrunk = t.shrunk[slot] * shrinking(inverse, y, square)
    live = t.live[slot] + 1
    log_det = math.nan
    if live % REFACTOR == 0 or not shrunk <= SHRINK:
        log_det = tried(t, slot, x)
    for i in range(d):
        response[i] += reward * x[i]
    t.live[slot] = live
    t.fresh[slot] += 1
    if math.isnan(log_det):
        surprise = (reward - dot(theta, x)) / (1.0 + square)
        add_both(gram, x, inverse, y, -1.0 / (1.0 + square))
        for i in range(d):
            theta[i] += surprise * y[i]
        t.log_det[slot] += math.log1p(square)
        t.shrunk[slot] = shrunk
    else:
        trial = t.trial
        for i in range(len(gram)):
            gram[i] = trial[0, i]
        renew(t, slot, trial[1], log_det)
    note_change(t, slot)
    set_radius(t, slot)


@compiled
def predict(t: Table, slot: int, x: np.ndarray) -> tuple[float, float]:
    """x·θ̂ and sqrt(xᵀV⁻¹x) of one set."""
    inverse, d = t.inverse[slot], len(x)
    square, k = 0.0, 0
    for i in range(d):
        square += inverse[k] * x[i] * x[i]
        for j in range(1, d - i):
            square += 2 * inverse[k + j] * x[i] * x[i + j]
        k += d - i
    return dot(t.theta[slot], x), math.sqrt(max(square, 0.0))


@compiled
def observe(t: Table, reward: float, mean: float, width: float) -> None:
    """Take in one call, as it was predicted before its reward was learnt, and raise σ where calls are too noisy.

    The mean of (r − m)²/(σ² + s²) is 1 where the model is right; σ grows by its root once it exceeds 1 significantly
    (χ², Wilson–Hilferty).
    """
    variance = t.sigma * t.sigma * (1 + width * width) + t.misfit * t.misfit
    t.calls += 1
    t.surprises += (reward - mean) * (reward - mean) / variance
    surprise, spread = t.surprises / t.calls, 2 / (9 * t.calls)
    root = 1 - spread + SURPRISING * math.sqrt(spread)
    t.common = t.sigma * (math.sqrt(surprise) if surprise > root * root * root else 1.0)


@compiled
def contradiction(t: Table) -> bool:
    """Whether some slot's V⁻¹, θ̂ or log det is farther from what V and b say than rounding explains."""
    d, ridge = t.theta.shape[1], t.ridge
    fresh, theta = t.trial[1], t.vectors[0]
    for slot in range(t.used):
        if t.frozen[slot]:
            continue
        inverse, response = t.inverse[slot], t.response[slot]
        log_det = invert(t.gram[slot], fresh, t.square, ridge)
        if math.isnan(log_det) or not abs(log_det - t.log_det[slot]) <= LOOSE * (d + abs(log_det)):
            return True
        times(fresh, response, theta)
        reach, k = LOOSE * math.sqrt(max(dot(theta, response), 0.0)), 0
        roots = t.vectors[1]
        for i in range(d):
            roots[i] = math.sqrt(fresh[k])
            k += d - i
        k = 0
        for i in range(d):
            if not abs(theta[i] - t.theta[slot, i]) <= reach * roots[i]:
                return True
            for j in range(d - i):
                if not abs(fresh[k + j] - inverse[k + j]) <= LOOSE * roots[i] * roots[i + j]:
                    return True
            k += d - i
    return False
