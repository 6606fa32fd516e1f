"""Exact updates of confidence sets: rank-one updates, slots of actions, and pending calls."""

import math
from typing import Any

import numpy as np

from sparing.model import confidence
from sparing.native.compile import compiled, compiled_inner
from sparing.native.vectors import dot
from sparing.online.engine.packed import add_both, invert, times
from sparing.online.engine.random_stream import splitmix64, uniform
from sparing.online.engine.state import (
    DETERMINANT,
    NEVER,
    OBSERVED_VIEW,
    PAPER,
    PENDING_VIEW,
    TRACE,
    SetsStruct,
)

determinant, trace = compiled(confidence.determinant), compiled(confidence.trace)
paper = compiled(confidence.paper)

REFACTOR, SHRINK = 256, 64.0
"""An inverse is recomputed after this many live rows, or once an entry of its diagonal has fallen by this factor: a
rank-one update subtracts, and the difference carries the rounding of the larger number.
"""

CONDITION = 1e11
"""Largest Σ_j V_jj·(V⁻¹)_jj, a condition number that does not depend on the features' units, of any set. Rounding is then
below `EXACT`. A row that would exceed it is refused.
"""

EXACT = 1e-4
"""Relative error of every half-width; error of every mean as a share of sqrt(xᵀV⁻¹x)·sqrt(Σr²)."""

NOISE_QUANTILE = 3.09
"""Normal quantile (99.9 %) beyond which the noise of live rewards is not chance."""

LOOSE = 1e-3
"""No state that a learner can reach differs from its own V and b by more than this, in the same units."""


@compiled_inner
def set_radius(t: SetsStruct, slot: int) -> None:
    """Recompute ρ after a row entered this slot."""
    d = t.theta.shape[1]
    if t.kind == DETERMINANT:
        t.radius[slot] = t.scale * determinant(t.log_det[slot], t.noise, t.bias, t.log_delta[slot])
    elif t.kind == TRACE:
        rows = t.logged[slot] + t.live[slot]
        t.radius[slot] = t.scale * trace(rows, t.growth, d, t.noise, t.bias, t.log_delta[slot])
    elif t.kind == PAPER:
        t.common = t.scale * paper(t.total, t.total_growth, d, t.noise, t.bias, t.log_delta[slot])


@compiled
def factor(t: SetsStruct, slot: int, limit: float) -> bool:
    """V⁻¹, θ̂ and log det V from V and b alone; False, and no change, if V's condition exceeds the limit."""
    inverse, ridge = t.trial[1], t.ridge
    log_det = invert(t.gram[slot], inverse, t.square, ridge)
    if math.isnan(log_det) or not condition(t.gram[slot], inverse, t.theta.shape[1]) <= limit:
        return False
    renew(t, slot, inverse, log_det)
    return True


@compiled_inner
def renew(t: SetsStruct, slot: int, inverse: np.ndarray, log_det: float) -> None:
    """Store a recomputed V⁻¹ and what follows from it."""
    own = t.inverse[slot]
    for i in range(len(own)):
        own[i] = inverse[i]
    times(own, t.response[slot], t.theta[slot])
    t.log_det[slot], t.rounding_growth[slot] = log_det, 1.0
    t.fresh[slot] = t.logged[slot] + t.live[slot] + 1  # the bound must be found again
    note_change(t, slot)


@compiled_inner
def note_change(t: SetsStruct, slot: int) -> None:
    """Number the change of a slot, for caches."""
    t.changes += 1
    t.changed[slot] = t.changes


@compiled_inner
def condition(gram: np.ndarray, inverse: np.ndarray, d: int) -> float:
    """Σ_j V_jj·(V⁻¹)_jj of packed matrices; at least d."""
    total, k = 0.0, 0
    for i in range(d):
        total += gram[k] * inverse[k]
        k += d - i
    return total


@compiled
def factor_all(t: SetsStruct) -> int:
    """Compute everything that follows from the state except bounds; the ill-conditioned slot, or −1."""
    for slot in range(t.used):
        if not t.frozen[slot] and not factor(t, slot, CONDITION):
            return slot
        set_radius(t, slot)
    return -1


@compiled_inner
def fits(t: SetsStruct, slot: int, x: np.ndarray) -> bool:
    """Whether V + xxᵀ stays within CONDITION."""
    bound = bound_after(t, slot, x)
    if bound <= CONDITION or len(x) == 1:
        return bound < math.inf
    return not math.isnan(trial_update(t, slot, x))


@compiled_inner
def bound_after(t: SetsStruct, slot: int, x: np.ndarray) -> float:
    """An upper bound on the condition of V + xxᵀ: V⁻¹ only falls."""
    d, total, k = len(x), 0.0, 0
    gram, inverse = t.gram[slot], t.inverse[slot]
    for i in range(d):
        total += (gram[k] + x[i] * x[i]) * inverse[k]
        k += d - i
    return total


@compiled_inner
def trial_update(t: SetsStruct, slot: int, x: np.ndarray) -> float:
    """Write V + xxᵀ and its inverse to `trial`; return its log det, NaN beyond CONDITION."""
    d, k = len(x), 0
    trial, inverse, gram = t.trial[0], t.trial[1], t.gram[slot]
    for i in range(d):
        for j in range(d - i):
            trial[k + j] = gram[k + j] + x[i] * x[i + j]
        k += d - i
    log_det = invert(trial, inverse, t.square, t.ridge)
    return log_det if condition(trial, inverse, d) <= CONDITION else math.nan


@compiled_inner
def shrinking(inverse: np.ndarray, y: np.ndarray, square: float) -> float:
    """The largest factor by which V⁻¹ − yyᵀ/(1 + square) lowers an entry of the diagonal; infinite if to 0."""
    d, k, most = len(y), 0, 1.0
    for i in range(d):
        left = inverse[k] - y[i] * y[i] / (1.0 + square)
        if not inverse[k] <= most * left:
            most = inverse[k] / left if left > 0.0 else math.inf
        k += d - i
    return most


@compiled_inner
def add_row(t: SetsStruct, slot: int, x: np.ndarray, reward: float) -> None:
    """V += xxᵀ, b += x·r, V⁻¹ by Sherman–Morrison, θ̂ += V⁻¹x·(r − x·θ̂), ρ; the row must fit."""
    d, y = len(x), t.vectors[0]
    gram, inverse = t.gram[slot], t.inverse[slot]
    response, theta = t.response[slot], t.theta[slot]
    times(inverse, x, y)
    square = max(dot(x, y), 0.0)
    growth = t.rounding_growth[slot] * shrinking(inverse, y, square)
    live = t.live[slot] + 1
    log_det = math.nan
    if live % REFACTOR == 0 or not growth <= SHRINK:
        log_det = trial_update(t, slot, x)
    for i in range(d):
        response[i] += reward * x[i]
    t.live[slot] = live
    t.fresh[slot] += 1
    if math.isnan(log_det):
        residual = (reward - dot(theta, x)) / (1.0 + square)
        add_both(gram, x, inverse, y, -1.0 / (1.0 + square))
        for i in range(d):
            theta[i] += residual * y[i]
        t.log_det[slot] += math.log1p(square)
        t.rounding_growth[slot] = growth
    else:
        trial = t.trial
        for i in range(len(gram)):
            gram[i] = trial[0, i]
        renew(t, slot, trial[1], log_det)
    note_change(t, slot)
    set_radius(t, slot)


@compiled_inner
def predict(t: SetsStruct, slot: int, x: np.ndarray) -> tuple[float, float]:
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
def monitor_residual(t: SetsStruct, reward: float, mean: float, width: float) -> None:
    """Add one call, as predicted before its reward was learnt, and raise σ if the calls are too noisy.

    The mean of (r − m)²/(σ² + s²) is 1 if the model is right; σ grows by its root once it significantly exceeds 1
    (χ², Wilson–Hilferty).
    """
    variance = t.sigma * t.sigma * (1 + width * width) + t.misfit * t.misfit
    t.calls += 1
    t.residual_sum += (reward - mean) * (reward - mean) / variance
    calls = t.calls - t.faded_calls
    mean_square, spread = t.residual_sum / calls, 2 / (9 * calls)
    root = 1 - spread + NOISE_QUANTILE * math.sqrt(spread)
    t.common = t.sigma * (math.sqrt(mean_square) if mean_square > root * root * root else 1.0)


@compiled
def inconsistent_slot(t: SetsStruct) -> bool:
    """Whether V⁻¹, θ̂ or log det of some slot differs from V and b by more than rounding."""
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


REFUSED, NO_SLOT = -1, -2
"""In place of a slot: the row cannot be learnt exactly; the action must be given a slot of its own first."""

MAX_SAFE_PREDICTION = 1e6
"""Largest ratio of a prediction to the rewards seen for b to keep its digits when the prediction is removed."""

SHARED_SLOT: Any = np.int64(0)
"""The slot of all actions without rows; a plain 0 would be a type of its own, and compile everything again."""


@compiled_inner
def copy_slot(t: SetsStruct, source: int, slot: int, action: int) -> None:
    """Copy a slot."""
    for i in range(t.theta.shape[1]):
        t.theta[slot, i] = t.theta[source, i]
        t.response[slot, i] = t.response[source, i]
    for i in range(t.gram.shape[1]):
        t.gram[slot, i] = t.gram[source, i]
        t.inverse[slot, i] = t.inverse[source, i]
    t.log_det[slot], t.rounding_growth[slot] = t.log_det[source], t.rounding_growth[source]
    t.radius[slot], t.metric_factor[slot] = t.radius[source], t.metric_factor[source]
    t.logged[slot], t.live[slot] = t.logged[source], t.live[source]
    t.squares[slot], t.log_delta[slot] = t.squares[source], t.log_delta[source]
    t.fresh[slot] = t.fresh[source]
    t.frozen[slot] = t.waiting[slot] = t.view_mask[slot] = 0
    t.action[slot] = action
    if len(t.base_gram) > 0:
        copy_base(t, source, slot)
    if len(t.start_gram) > 0:
        copy_start(t, source, slot)
    note_change(t, slot)


@compiled_inner
def copy_base(t: SetsStruct, source: int, slot: int) -> None:
    """Copy what a slot fades to."""
    for i in range(t.base_gram.shape[1]):
        t.base_gram[slot, i] = t.base_gram[source, i]
    for i in range(t.base_response.shape[1]):
        t.base_response[slot, i] = t.base_response[source, i]
    t.fades[slot], t.kept[slot] = t.fades[source], t.kept[source]
    t.faded_rows[slot] = t.faded_rows[source]


@compiled_inner
def copy_start(t: SetsStruct, source: int, slot: int) -> None:
    """Copy a slot's start and its live rows."""
    for i in range(t.start_gram.shape[1]):
        t.start_gram[slot, i], t.live_gram[slot, i] = t.start_gram[source, i], t.live_gram[source, i]
    for i in range(t.start_mean.shape[1]):
        t.start_mean[slot, i], t.live_response[slot, i] = t.start_mean[source, i], t.live_response[source, i]
    t.live_squares[slot], t.live_rows[slot] = t.live_squares[source], t.live_rows[source]


@compiled_inner
def allocate_slot(t: SetsStruct) -> int:
    """A free slot; there must be room."""
    view_mask = t.view_mask
    if t.free > 0:
        t.free -= 1
        for slot in range(1, t.used):
            if view_mask[slot] == 3:
                return slot
    t.used += 1
    return t.used - 1


@compiled_inner
def first_shared_prior(t: SetsStruct, slots: np.ndarray, place: int) -> int:
    """First position of the order, from `place` on, whose action shares slot 0 in a view; K if there is none."""
    order = t.order
    while place < len(order) and slots[order[place]] != 0:
        place += 1
    return place


@compiled
def give_own_slot(t: SetsStruct, action: int) -> int:
    """Give an action its own slot in the observed view, a copy of slot 0. There must be room."""
    slot = allocate_slot(t)
    copy_slot(t, SHARED_SLOT, slot, action)
    if len(t.base_gram) > 0:
        join_fading(t, slot)
    observed, pending = t.observed_slot, t.pending_slot
    observed[action] = slot
    t.touched[OBSERVED_VIEW] += 1
    t.next[OBSERVED_VIEW] = first_shared_prior(t, observed, t.next[OBSERVED_VIEW])
    if pending[action] == 0:
        pending[action] = slot
        t.touched[PENDING_VIEW] += 1
        t.next[PENDING_VIEW] = first_shared_prior(t, pending, t.next[PENDING_VIEW])
    else:
        t.view_mask[slot] = 2
    return slot


FADES = 20
"""Fades in one half-life: each multiplies the weight of a slot's rows by 2^(−1/20)."""


@compiled_inner
def fades_by(t: SetsStruct, clock: int, offset: int) -> int:
    """How often a slot has faded by a time. Actions have offsets, so that no round pays for all."""
    return (FADES * (clock - t.fades_from) + offset) // t.half_life


@compiled_inner
def fade_after(t: SetsStruct, fades: int, offset: int) -> int:
    """The time of the next fade after so many."""
    return t.fades_from - (offset - (fades + 1) * t.half_life) // FADES


@compiled_inner
def fade_offset(t: SetsStruct, action: int) -> int:
    """An action's offset, in twentieths of the clock."""
    return int(uniform(action, 0) * t.half_life)


@compiled_inner
def join_fading(t: SetsStruct, slot: int) -> None:
    """Let a slot that has its action's first row fade from now on."""
    if t.half_life == 0 or t.fades_from == NEVER:
        return
    offset = fade_offset(t, t.action[slot])
    t.fades[slot] = fades_by(t, t.clock, offset)
    t.next_fade = min(t.next_fade, fade_after(t, t.fades[slot], offset))
    if not t.timed:
        t.next_tick = min(t.next_tick, t.next_fade)


@compiled_inner
def add_live_row(t: SetsStruct, slot: int, x: np.ndarray, reward: float) -> None:
    """Add a row to the live ones of a slot, which the review of the shift needs apart from those of the log."""
    d, k, gram = len(x), 0, t.live_gram[slot]
    residual = reward - dot(t.start_mean[slot], x)
    for i in range(d):
        t.live_response[slot, i] += residual * x[i]
        for j in range(d - i):
            gram[k + j] += x[i] * x[i + j]
        k += d - i
    t.live_squares[slot] += residual * residual
    t.live_rows[slot] += 1.0


@compiled
def add_observation(t: SetsStruct, action: int, x: np.ndarray, reward: float) -> int:
    """Add one row to an action's observed set, without bounds; its slot, or REFUSED, or NO_SLOT.

    `give_own_slot` is apart, since an action's first row comes once: the rest compiles in two thirds of the time.
    """
    slot = t.observed_slot[action]
    if t.frozen[slot]:
        return slot  # a point is never learnt further
    if not fits(t, slot, x):
        return REFUSED
    if slot == 0:
        return NO_SLOT
    if t.sigma > 0.0:
        mean, width = predict(t, slot, x)
        monitor_residual(t, reward, mean, width)
    t.total += 1
    t.squares[slot] += reward * reward
    add_row(t, slot, x, reward)
    if len(t.live_gram) > 0:
        add_live_row(t, slot, x, reward)
    digest = np.uint64(t.digest)
    for word in t.theta[slot].view(np.uint64):
        digest = splitmix64(digest ^ word)
    t.digest = np.int64(digest)
    return slot


@compiled
def open_call(t: SetsStruct, action: int, x: np.ndarray) -> float:
    """Add a call to the pending view with its prediction as the reward; return the prediction.

    NaN, and no change, if the row would be refused. There must be room for a pending copy.
    """
    source, slot = t.observed_slot[action], t.pending_slot[action]
    if not t.frozen[source] and not (fits(t, slot, x) and (slot == source or fits(t, source, x))):
        return math.nan
    predicted = dot(t.theta[slot], x)
    add_imputed(t, action, x, predicted)
    return predicted


@compiled
def add_imputed(t: SetsStruct, action: int, x: np.ndarray, predicted: float) -> None:
    """Add a call with a given prediction to the pending copy, which is made if there is none."""
    observed, pending = t.observed_slot, t.pending_slot
    source, slot = observed[action], pending[action]
    if t.frozen[source]:
        return
    if slot == source:
        slot = allocate_slot(t)
        copy_slot(t, source, slot, action)
        t.view_mask[slot] = 1
        t.pending_copies += 1
        pending[action] = slot
        if source == 0:
            t.touched[PENDING_VIEW] += 1
            t.next[PENDING_VIEW] = first_shared_prior(t, pending, t.next[PENDING_VIEW])
        else:
            t.view_mask[source] = 2
    t.waiting[slot] += 1
    add_row(t, slot, x, predicted)


@compiled_inner
def close(t: SetsStruct, action: int) -> bool:
    """Count one pending call less; whether others keep the action's pending copy. A point has no copy."""
    observed, pending = t.observed_slot, t.pending_slot
    source, slot = observed[action], pending[action]
    if slot == source:
        return False
    t.waiting[slot] -= 1
    if t.waiting[slot] > 0:
        return True
    t.view_mask[slot] = 3
    t.free += 1
    t.pending_copies -= 1
    t.changes += 1
    pending[action] = source
    if source == 0:
        t.touched[PENDING_VIEW] -= 1
        t.next[PENDING_VIEW] = min(t.next[PENDING_VIEW], t.priority[action])
    else:
        t.view_mask[source] = 0
    return False


@compiled_inner
def prediction_is_safe(t: SetsStruct, action: int, predicted: float, reward: float) -> bool:
    """Whether a prediction can be removed from b without leaving only its rounding."""
    slot = t.observed_slot[action]
    explained = dot(t.theta[slot], t.response[slot])
    return abs(predicted) <= MAX_SAFE_PREDICTION * (abs(reward) + math.sqrt(max(explained, 0.0)))


@compiled
def replace_imputed(t: SetsStruct, action: int, x: np.ndarray, reward: float, predicted: float) -> bool:
    """Replace the prediction of a pending call by its reward, which the observed set has learnt.

    False, and no change, if that would not be exact: the pending copy must then be rebuilt from the remaining calls.
    """
    slot, y = t.pending_slot[action], t.vectors[0]
    if t.waiting[slot] > 1 and not prediction_is_safe(t, action, predicted, reward):
        return False
    if close(t, action):
        times(t.inverse[slot], x, y)
        for i in range(len(x)):
            t.response[slot, i] += (reward - predicted) * x[i]
            t.theta[slot, i] += (reward - predicted) * y[i]
        note_change(t, slot)
    return True


@compiled
def remove_imputed(t: SetsStruct, action: int, x: np.ndarray, predicted: float) -> bool:
    """Remove a pending call from the pending view.

    False, and no change, if V − xxᵀ or b would be left with the rounding of much larger numbers: the pending copy must then
    be rebuilt from the remaining calls.
    """
    slot, k, d = t.pending_slot[action], 0, len(x)
    gram, response = t.gram[slot], t.response[slot]
    if t.waiting[slot] > 1:
        if not prediction_is_safe(t, action, predicted, 0.0):
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
        t.live[slot] -= 1
        factor(t, slot, math.inf)
        set_radius(t, slot)
    return True


@compiled
def drop(t: SetsStruct, action: int) -> None:
    """Remove an action's pending copy with all its calls."""
    slot = t.pending_slot[action]
    if slot != t.observed_slot[action]:
        t.waiting[slot] = 1
        close(t, action)
