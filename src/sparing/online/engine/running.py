"""Entries from Python: one step at a time, many contexts at once, or whole runs without coming back."""

import math

import numpy as np

from sparing.native.compiling import compiled
from sparing.online.engine.algebra import dot
from sparing.online.engine.bounding import keep_bounds
from sparing.online.engine.choosing import (
    EXPLORE,
    PENDING,
    SAMPLED,
    SPOT_CHECK,
    UNSURE,
    choose,
    other_than,
    plan_of,
)
from sparing.online.engine.learning import fits
from sparing.online.engine.luck import AS_PLANNED, ELSEWHERE, checks, key_of, normals
from sparing.online.engine.memory import (
    COMMON,
    COUNTERS,
    EVERYONE,
    FREE,
    INVERSE,
    KNOWN,
    NUMBERS,
    PLAN,
    SETTLED,
    SLOT,
    THETA,
    TWINS,
    USED,
    counts,
    flags,
    matrix,
    rows,
    vector,
)
from sparing.online.engine.opening import absorb
from sparing.online.engine.sampling import sampled
from sparing.online.engine.search import Bounds

CALLS, SURPRISES, NOISE, MISFIT, LIMIT = range(5)
"""The noise monitor's numbers: calls seen, Σ (r − m)²/(σ² + s²), σ, misfit, and the quantile it tests with."""


@compiled
def learnable(t: np.ndarray, action: int, x: np.ndarray) -> bool:
    """Whether a reward in this context could be learnt exactly."""
    slot, settled = counts(t, SLOT)[action], counts(t, SETTLED)[action]
    return fits(t, slot, x) and (slot == settled or fits(t, settled, x))


@compiled
def is_call(reason: int) -> bool:
    """Whether a planned round asks for a reward."""
    return reason in (EXPLORE, UNSURE)


@compiled
def decide_rows(
    t: np.ndarray,
    ahead: np.ndarray,
    contexts: np.ndarray,
    thresholds: np.ndarray,
    answers: np.ndarray,
    actions: np.ndarray,
    reasons: np.ndarray,
    means: np.ndarray,
    spreads: np.ndarray,
    bounds: Bounds,
) -> None:
    """Choose for each context (n, d) from the two views of one desk, learning nothing."""
    everyone = flags(t, EVERYONE)
    waiting = counts(t, COUNTERS)[TWINS] > 0
    for i in range(len(contexts)):
        vector(t, KNOWN)[0], vector(t, KNOWN)[1] = thresholds[i], answers[i]
        action, reason, mean, spread = choose(t, contexts[i], everyone, bounds)
        if waiting and is_call(reason):
            action, reason, mean, spread = choose(ahead, contexts[i], everyone, bounds)
            reason = EXPLORE if is_call(reason) else PENDING
        actions[i], reasons[i], means[i], spreads[i] = action, reason, mean, spread


@compiled
def predict(t: np.ndarray, action: int, x: np.ndarray) -> tuple[float, float]:
    """x·θ̂ and sqrt(xᵀV⁻¹x) of one action."""
    slot = counts(t, SLOT)[action]
    inverse, d = matrix(t, INVERSE)[slot], len(x)
    square, k = 0.0, 0
    for i in range(d):
        square += inverse[k] * x[i] * x[i]
        for j in range(1, d - i):
            square += 2 * inverse[k + j] * x[i] * x[i + j]
        k += d - i
    return dot(matrix(t, THETA)[slot], x), math.sqrt(max(square, 0.0))


@compiled
def observe(monitor: np.ndarray, reward: float, mean: float, width: float) -> float:
    """Take in one call of the noise monitor; σ as it is believed from now on (see monitor.py)."""
    noise, misfit = monitor[NOISE], monitor[MISFIT]
    variance = noise * noise * (1 + width * width) + misfit * misfit
    monitor[CALLS] += 1
    monitor[SURPRISES] += (reward - mean) * (reward - mean) / variance
    surprise, spread = monitor[SURPRISES] / monitor[CALLS], 2 / (9 * monitor[CALLS])
    root = 1 - spread + monitor[LIMIT] * math.sqrt(spread)
    return noise * (math.sqrt(surprise) if surprise > root * root * root else 1.0)


@compiled
def run(
    t: np.ndarray,
    contexts: np.ndarray,
    means: np.ndarray,
    draws: np.ndarray,
    binary: bool,
    thresholds: np.ndarray,
    answers: np.ndarray,
    monitor: np.ndarray,
    key: int,
    before: int,
    start: int,
    stop: int,
    budget: int,
    actions: np.ndarray,
    reasons: np.ndarray,
    bounds: Bounds,
) -> tuple[int, int]:
    """Decide and learn from round `start` up to `stop`; rounds done and calls left of the budget.

    Round i draws its luck from the learner's key and the number before + i. It comes back early when the budget is
    spent, no slot is free for an untouched action, or a round's row would be refused.
    """
    plan, everyone = plan_of(vector(t, PLAN)), flags(t, EVERYONE)
    capacity, luck, others = rows(t, THETA), np.empty(rows(t, SLOT)), rows(t, SLOT) > 1
    for now in range(start, stop):
        if budget == 0 or counts(t, COUNTERS)[USED] - counts(t, COUNTERS)[FREE] == capacity:
            return now, budget
        x, round_key = contexts[now], key_of(key, before + now)
        vector(t, KNOWN)[0], vector(t, KNOWN)[1] = thresholds[now], answers[now]
        action, reason, _, _ = choose(t, x, everyone, bounds)
        reason = EXPLORE if is_call(reason) else reason
        if reason == EXPLORE and plan.explore == SAMPLED:
            normals(round_key, luck)
            action = sampled(t, x, luck, everyone, bounds)
        elif plan.spot_check > 0.0:
            check = checks(round_key, plan.spot_check, others)
            reason = reason if check == AS_PLANNED else SPOT_CHECK
            if check == ELSEWHERE:
                action, _ = other_than(t, x, everyone, action, round_key, bounds)
        if reason == EXPLORE or reason == SPOT_CHECK:  # noqa: SIM109
            if not learnable(t, action, x):
                return now, budget
            budget -= 1
            reward = means[now, action] + draws[now]
            if binary:
                reward = 1.0 if draws[now] < means[now, action] else 0.0
            if len(monitor):
                mean, width = predict(t, action, x)
                vector(t, NUMBERS)[COMMON] = observe(monitor, reward, mean, width)
            slot = absorb(t, action, x, reward)
            if bounds is not None:
                keep_bounds(t, slot)
        actions[now], reasons[now] = action, reason
    return stop, budget
