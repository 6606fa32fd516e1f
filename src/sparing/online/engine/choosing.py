"""The built-in skip rules and explorers, composed as a learner says; the twin of rules.py and explore.py."""

import math
from typing import NamedTuple

import numpy as np

from sparing.compiled import compiled
from sparing.online.engine.doubting import doubt, sure
from sparing.online.engine.memory import FROZEN, SLOT, counts, rows
from sparing.online.engine.search import (
    ahead,
    best_mean,
    leading,
    look,
    mean_and_spread,
)

EXPLORE, SUPPORTED, LOG_BEATS, CERTIFIED, CONFIDENT, SPOT_CHECK = range(6)
LEADER, WIDER, WIDER_RIVAL, SAMPLED = range(4)


class Plan(NamedTuple):
    """What a learner is made of: up to two rules, in order (EXPLORE for none), and how it explores."""

    first: int
    second: int
    explore: int
    optimism: float
    tolerance: float
    limit: float
    spot_check: float


@compiled
def choose(
    t: np.ndarray, plan: Plan, x: np.ndarray, eligible: np.ndarray, threshold: float, logged: int
) -> tuple[int, int, float, float]:
    """Action, reason, and the mean and spread of its set at x. `eligible` is empty for everyone.

    threshold is what the log earned in this context (NaN where it is not in the log), logged its action.
    """
    two = plan.first == CERTIFIED or plan.explore == WIDER
    if plan.first == EXPLORE and plan.explore == SAMPLED:
        return 0, EXPLORE, 0.0, 0.0  # the caller samples
    if plan.first == CONFIDENT:
        norm = look(t, x, 1.0, eligible)
        best, _ = best_mean(t, x, norm, eligible)
        if sure(t, x, norm, eligible, best, plan.tolerance, plan.limit):
            mean, spread = mean_and_spread(t, counts(t, SLOT)[best], x)
            return best, CONFIDENT, mean, spread
        if plan.explore == SAMPLED:
            return best, EXPLORE, 0.0, 0.0
        if plan.explore == WIDER_RIVAL:
            action = wider_rival(t, x, eligible, best)
            mean, spread = mean_and_spread(t, counts(t, SLOT)[action], x)
            return action, EXPLORE, mean, spread
    leader, top, mean, spread, rival, rival_top, rival_spread = leading(t, x, plan.optimism, eligible, two)
    for turn in range(2):
        rule = plan.first if turn == 0 else plan.second
        if rule == LOG_BEATS and top <= threshold and (len(eligible) == 0 or eligible[logged]):
            mean, spread = mean_and_spread(t, counts(t, SLOT)[logged], x)
            return logged, LOG_BEATS, mean, spread
        if rule == SUPPORTED and counts(t, FROZEN)[counts(t, SLOT)[leader]]:
            return leader, SUPPORTED, mean, spread
        if (
            rule == CERTIFIED
            and plan.tolerance > -math.inf
            and (rival < 0 or rival_top - (mean - spread) <= plan.tolerance)
        ):
            return leader, CERTIFIED, mean, spread
    if plan.explore == WIDER and rival >= 0 and rival_spread > spread:
        mean, spread = mean_and_spread(t, counts(t, SLOT)[rival], x)
        return rival, EXPLORE, mean, spread
    return leader, EXPLORE, mean, spread


@compiled
def wider_rival(t: np.ndarray, x: np.ndarray, eligible: np.ndarray, best: int) -> int:
    """Of the best mean and its likeliest rival, the one known less."""
    mean, spread = mean_and_spread(t, counts(t, SLOT)[best], x)
    rival, highest, width = -1, -math.inf, 0.0
    for action in range(rows(t, SLOT)):
        if action == best or (len(eligible) and not eligible[action]):
            continue
        rival_mean, rival_spread = mean_and_spread(t, counts(t, SLOT)[action], x)
        chance = doubt(mean - rival_mean + 0.0, math.sqrt(spread**2 + rival_spread**2))
        if ahead(t, chance, action, highest, rival):
            rival, highest, width = action, chance, rival_spread
    return rival if rival >= 0 and width > spread else best
