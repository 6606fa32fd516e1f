"""Entries from Python: one step at a time, many contexts at once, or whole runs without coming back."""

import math

import numpy as np

from sparing.compiled import compiled
from sparing.online.engine.algebra import dot
from sparing.online.engine.choosing import EXPLORE, SAMPLED, SPOT_CHECK, Plan, choose
from sparing.online.engine.learning import absorb
from sparing.online.engine.memory import (
    COMMON,
    COUNTERS,
    EVERYONE,
    INVERSE,
    NUMBERS,
    PLAN,
    SLOT,
    THETA,
    USED,
    counts,
    flags,
    matrix,
    rows,
    vector,
)
from sparing.online.engine.sampling import sampled

LARGEST = 1e100
"""The largest feature or reward taken in: squares and sums of larger ones overflow."""

CALLS, SURPRISES, NOISE, MISFIT, LIMIT = range(5)
"""The noise monitor's numbers: calls seen, Σ (r − m)²/(σ² + s²), σ, misfit, and the quantile it tests with."""


@compiled
def plan_of(numbers: np.ndarray) -> Plan:
    """A plan from an array of its numbers."""
    first, second, explore = int(numbers[0]), int(numbers[1]), int(numbers[2])
    return Plan(first, second, explore, numbers[3], numbers[4], numbers[5], numbers[6])


@compiled
def unfit(x: np.ndarray) -> int:
    """The first feature that is not finite or too large; −1 if there is none."""
    for i in range(len(x)):
        if not abs(x[i]) <= LARGEST:
            return i
    return -1


@compiled
def decide(
    t: np.ndarray, x: np.ndarray, eligible: np.ndarray, threshold: float, logged: int
) -> tuple[int, int, float, float]:
    """Choose for one context by the plan in the table; an unfit feature i gives action −1 − i."""
    wrong = unfit(x)
    if wrong >= 0:
        return -1 - wrong, 0, 0.0, 0.0
    return choose(t, plan_of(vector(t, PLAN)), x, eligible, threshold, logged)


@compiled
def decide_freely(t: np.ndarray, x: np.ndarray) -> tuple[int, int, float, float]:
    """The same among all actions and without the log's answers: fewer arguments, less time."""
    return decide(t, x, flags(t, EVERYONE), math.nan, 0)


@compiled
def decide_rows(
    t: np.ndarray,
    contexts: np.ndarray,
    thresholds: np.ndarray,
    answers: np.ndarray,
    actions: np.ndarray,
    reasons: np.ndarray,
    means: np.ndarray,
    spreads: np.ndarray,
) -> None:
    """Choose for each context (n, d), learning nothing."""
    composed, everyone = plan_of(vector(t, PLAN)), flags(t, EVERYONE)
    for i in range(len(contexts)):
        actions[i], reasons[i], means[i], spreads[i] = choose(
            t, composed, contexts[i], everyone, thresholds[i], answers[i]
        )


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
    rng: np.random.Generator,
    start: int,
    stop: int,
    budget: int,
    actions: np.ndarray,
    reasons: np.ndarray,
) -> tuple[int, int]:
    """Decide and learn from round `start` up to `stop`; rounds done and calls left of the budget.

    It comes back early when the budget is spent or no slot is free for an untouched action.
    """
    plan, everyone = plan_of(vector(t, PLAN)), flags(t, EVERYONE)
    capacity, n_actions = rows(t, THETA), rows(t, SLOT)
    for now in range(start, stop):
        if budget == 0 or counts(t, COUNTERS)[USED] == capacity:
            return now, budget
        x = contexts[now]
        if plan.spot_check > 0 and rng.random() < plan.spot_check:
            action, reason = sampled(t, x, rng.standard_normal(n_actions), everyone), SPOT_CHECK
        else:
            action, reason, _, _ = choose(t, plan, x, everyone, thresholds[now], answers[now])
            if reason == EXPLORE and plan.explore == SAMPLED:
                action = sampled(t, x, rng.standard_normal(n_actions), everyone)
        actions[now], reasons[now] = action, reason
        if reason == EXPLORE or reason == SPOT_CHECK:  # noqa: SIM109
            budget -= 1
            reward = means[now, action] + draws[now]
            if binary:
                reward = 1.0 if draws[now] < means[now, action] else 0.0
            if len(monitor):
                mean, width = predict(t, action, x)
                vector(t, NUMBERS)[COMMON] = observe(monitor, reward, mean, width)
            absorb(t, action, x, reward)
    return stop, budget
