"""Whole runs in compiled code, and the entry points that Python calls in every round."""

from typing import Any

import numpy as np
from numba.core import types

from sparing.native.compile import Entry, compiled, compiled_inner
from sparing.online.engine import choice, context_sample, forgetting, random_stream, search, shift, updates
from sparing.online.engine.choice import (
    EXPLORE,
    NOT_WORTH,
    PENDING,
    SAMPLED,
    SPOT_CHECK,
    UNSURE,
    choose,
    random_other_action,
    sampled,
)
from sparing.online.engine.context_sample import enter_context
from sparing.online.engine.random_stream import CHECK_OTHER, NO_CHECK, normals, spot_check_kind, stream_key
from sparing.online.engine.search import BoundsFlag, refresh_bounds
from sparing.online.engine.state import SetsStruct
from sparing.online.engine.updates import add_observation, fits, give_own_slot


@compiled
def learnable(t: SetsStruct, action: int, x: np.ndarray) -> bool:
    """Whether a reward in this context can be learnt exactly."""
    slot, observed = t.slot[action], t.observed_slot[action]
    return fits(t, slot, x) and (slot == observed or fits(t, observed, x))


@compiled_inner
def is_call(reason: int) -> bool:
    return reason in (EXPLORE, UNSURE)


@compiled
def decide_rows(
    t: SetsStruct,
    pending: SetsStruct,
    contexts: np.ndarray,
    thresholds: np.ndarray,
    answers: np.ndarray,
    actions: np.ndarray,
    reasons: np.ndarray,
    means: np.ndarray,
    spreads: np.ndarray,
    worths: np.ndarray,
    bounds: BoundsFlag,
) -> None:
    """Choose for each context (n, d) from the two views of one thread's scratch, without learning."""
    active = t.active
    waiting = t.pending_copies > 0
    for i in range(len(contexts)):
        t.threshold, t.answer = thresholds[i], answers[i]
        action, reason, mean, spread = choose(t, contexts[i], active, bounds)
        worths[i] = t.worth
        if waiting and is_call(reason):
            action, reason, mean, spread = choose(pending, contexts[i], active, bounds)
            worths[i] = pending.worth
            mean, spread = choice.value(t, contexts[i], action)
            reason = reason if is_call(reason) else PENDING
        reason = EXPLORE if is_call(reason) else reason
        actions[i], reasons[i], means[i], spreads[i] = action, reason, mean, spread


@compiled
def run(
    t: SetsStruct,
    contexts: np.ndarray,
    means: np.ndarray,
    draws: np.ndarray,
    binary: bool,
    thresholds: np.ndarray,
    answers: np.ndarray,
    key: int,
    before: int,
    start: int,
    stop: int,
    budget: int,
    actions: np.ndarray,
    reasons: np.ndarray,
    bounds: BoundsFlag,
) -> tuple[int, int]:
    """Decide and learn from round `start` up to `stop`; return the rounds done and the rest of the budget.

    Round i draws random numbers from the learner's key and the number before + i. It returns early if the budget is
    exhausted, no slot is free for another action, a round's row would be refused, or a fade or a review is due.
    """
    active = t.active
    capacity, normal_draws, others = len(t.theta), np.empty(len(t.slot)), len(t.slot) > 1
    for now in range(start, stop):
        if budget == 0 or t.used - t.free == capacity:
            return now, budget
        x, round_key = contexts[now], stream_key(key, before + now)
        t.threshold, t.answer = thresholds[now], answers[now]
        action, reason, _, _ = choose(t, x, active, bounds)
        reason = EXPLORE if is_call(reason) else reason
        if reason == EXPLORE and t.explore == SAMPLED:
            normals(round_key, normal_draws)
            action = sampled(t, x, normal_draws, active, bounds)
        elif t.spot_check > 0.0 and t.calls_left > 0:
            check = spot_check_kind(round_key, t.spot_check, others)
            reason = reason if check == NO_CHECK else SPOT_CHECK
            if check == CHECK_OTHER:
                action, _ = random_other_action(t, x, active, action, round_key, bounds)
        if reason == NOT_WORTH and before + now < t.check_to:
            reason = SPOT_CHECK
        if reason == EXPLORE or reason == SPOT_CHECK:  # noqa: SIM109
            if not learnable(t, action, x):
                return now, budget
            budget -= 1
            t.calls_left -= 1
            reward = means[now, action] + draws[now]
            if binary:
                reward = 1.0 if draws[now] < means[now, action] else 0.0
            t.clock = min(before + now + 1, t.next_tick - 1)
            if t.observed_slot[action] == 0:
                give_own_slot(t, action)
            slot = add_observation(t, action, x, reward)
            if bounds is not None:
                refresh_bounds(t, slot)
        if before + now == t.next_entry:
            enter_context(t, x, key, before + now, 0)
        t.rounds_to_come -= t.discount_per_round
        t.rounds_left = min(t.rounds_to_come, t.rounds_kept)
        actions[now], reasons[now] = action, reason
        if before + now + 1 >= t.next_tick:
            return now + 1, budget
    return stop, budget


TABLE, WHOLE, DOUBLE = SetsStruct.type, types.int64, types.float64
VECTOR, LIST, MASK = (types.Array(kind, 1, "C") for kind in (types.float64, types.int64, types.boolean))


def _either(kernel: Any, *arguments: Any) -> dict[BoundsFlag, Entry]:
    # One entry without bounds, and one with them.
    return {None: Entry(kernel, *arguments, types.none), 1: Entry(kernel, *arguments, types.int64)}


(
    CHOOSE_LOG_BEATS,
    CHOOSE_CERTIFIED,
    CHOOSE_CONFIDENT,
    CHOOSE_CONFIDENT_WIDER,
    CHOOSE_ECONOMICAL,
    CHOOSE_IN_SHADOW,
    CHOOSE_BEST,
) = (
    _either(kernel, TABLE, VECTOR, MASK)
    for kernel in (
        choice.choose_log_beats,
        choice.choose_certified,
        choice.choose_confident,
        choice.choose_confident_wider,
        choice.choose_economical_with_worth,
        choice.choose_economical_in_shadow,
        choice.choose_best,
    )
)
RANDOM_OTHER_ACTION = _either(choice.random_other_action, TABLE, VECTOR, MASK, WHOLE, WHOLE)
SAMPLE = _either(choice.sampled, TABLE, VECTOR, VECTOR, MASK)
RIVALS = _either(choice.rivals, TABLE, VECTOR, WHOLE, DOUBLE, MASK, LIST, VECTOR, VECTOR)
VALUE = Entry(choice.value, TABLE, VECTOR, WHOLE)
LEARNABLE = Entry(learnable, TABLE, WHOLE, VECTOR)
ADD_OBSERVATION = Entry(updates.add_observation, TABLE, WHOLE, VECTOR, DOUBLE)
GIVE_OWN_SLOT = Entry(updates.give_own_slot, TABLE, WHOLE)
OPEN_CALL = Entry(updates.open_call, TABLE, WHOLE, VECTOR)
REPLACE_IMPUTED = Entry(updates.replace_imputed, TABLE, WHOLE, VECTOR, DOUBLE, DOUBLE)
REMOVE_IMPUTED = Entry(updates.remove_imputed, TABLE, WHOLE, VECTOR, DOUBLE)
STREAM_KEY = Entry(random_stream.stream_key, WHOLE, WHOLE)
CHECK_KEY = Entry(random_stream.check_key, WHOLE, WHOLE, DOUBLE)
SPOT_CHECK_KIND = Entry(random_stream.spot_check_kind, WHOLE, DOUBLE, types.boolean)
FIND_NEXT_ENTRY = Entry(context_sample.find_next_entry, TABLE, WHOLE, WHOLE)
ENTER_CONTEXT = Entry(context_sample.enter_context, TABLE, VECTOR, WHOLE, WHOLE, WHOLE)
RENEW_SAMPLE = Entry(context_sample.renew_sample, TABLE)
REFRESH_BOUNDS = Entry(search.refresh_bounds, TABLE, WHOLE)
ADVANCE = Entry(forgetting.advance, TABLE, WHOLE)
REVIEW = Entry(shift.review, TABLE)
APPLY_SHIFT = Entry(shift.apply_shift, TABLE, DOUBLE)


def entry_of(plan: choice.RulePlan) -> dict[BoundsFlag, Entry]:
    """The function that decides one round: one per rule, so that a learner compiles only its own."""
    if plan.first == choice.CERTIFIED:
        return CHOOSE_CERTIFIED
    if plan.first == choice.NOT_WORTH:
        return CHOOSE_ECONOMICAL
    if plan.first == choice.CONFIDENT:
        return CHOOSE_CONFIDENT_WIDER if plan.explore == choice.WIDER_RIVAL else CHOOSE_CONFIDENT
    return CHOOSE_LOG_BEATS
