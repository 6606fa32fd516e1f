"""Skip rules and explorers: probability of being beaten, posterior sampling, and the choice of a round."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from sparing.log.limits import LARGEST
from sparing.native.compile import compiled, compiled_inner
from sparing.native.vectors import dot
from sparing.online.engine.packed import outer
from sparing.online.engine.random_stream import WHO, uniform
from sparing.online.engine.search import (
    ABOVE,
    NOBODY,
    SMALL,
    BoundsFlag,
    beats,
    best_mean,
    cost_of,
    count_shared_prior,
    highest_mean,
    mean_and_spread,
    net_mean_and_spread,
    scan_bounds,
    scan_mean_bounds,
    shared_prior_actions,
    top_two,
)
from sparing.online.engine.state import SetsStruct
from sparing.online.engine.updates import CONDITION, SHARED_SLOT, bound_after
from sparing.online.engine.value_of_information import sync_cache, worth

CLOSE = 1e-9
"""Sums closer than this (relatively) to the limit are recomputed in a fixed order."""

NEGLIGIBLE = 1e-3
"""Share of the limit that all rivals together may contribute through their bounds alone."""


@compiled
def beaten_probability(gap: float, scale: float) -> float:
    """Φ(−gap/scale): probability that a normal deviation exceeds the gap; 0 or 1 if scale is 0."""
    if scale > 0.0:
        return 0.5 * math.erfc(gap / (scale * math.sqrt(2.0)))
    return 1.0 if gap < 0.0 else 0.0


@compiled_inner
def difference_sd(covariance_factor: float, spread: float, other: float) -> float:
    """Standard deviation of a difference: covariance_factor·sqrt(s_a² + s_b²)."""
    return covariance_factor * math.sqrt(spread * spread + other * other)


@compiled_inner
def beaten_probability_below(
    t: SetsStruct, x: np.ndarray, norm: float, eligible: np.ndarray, leader: int, mean: float, spread: float
) -> bool:
    """Whether Σ_{b≠a} Φ(−(m_a − m_b + τ)/sqrt(s_a² + s_b²)) ≤ limit for the leader a, m_a and s_a; x must have been scanned.

    The shared bound on s_b covers rivals that hardly count. The others are computed until the sum is certainly above
    or below the limit. A sum that rounding could decide is recomputed over all actions in order.
    """
    d, covariance_factor, tolerance, limit = len(x), t.covariance_factor, t.tolerance, t.limit
    # Φ(−z) ≤ exp(−z²/2)/2, so a probability beyond `far` deviations is below `beyond`.
    rest, beyond = 0.0, NEGLIGIBLE * limit / len(t.slot)
    far = math.sqrt(-2.0 * math.log(2.0 * beyond))
    known, count = shared_prior_probability(t, x, eligible, leader, mean + tolerance, spread, far)
    if known > limit * (1.0 + CLOSE) + CLOSE * CLOSE:
        return False
    rest += count * beyond
    bounded, reach = norm > SMALL, t.shared_width
    for slot in range(1, t.used):
        if t.upper[slot] == -math.inf or t.action[slot] == leader:
            continue
        rival_mean, rival_spread = t.middle[slot], t.width[slot]
        if bounded:
            row32 = t.bounds32[slot]
            wide = ABOVE * (reach * row32[d + 1] + row32[d + 2])
            gap = mean + tolerance - highest_mean(t, slot, norm)
            if gap > far * difference_sd(covariance_factor, spread, wide) and gap > 0.0:
                rest += beyond
                continue
            rival_mean, rival_spread = mean_and_spread(t, slot, x)
        rival_mean -= cost_of(t, t.action[slot])
        gap, scale = mean - rival_mean + tolerance, difference_sd(covariance_factor, spread, rival_spread)
        if gap > far * scale and gap > 0.0:
            rest += beyond
            continue
        known += beaten_probability(gap, scale)
        if known > limit * (1.0 + CLOSE) + CLOSE * CLOSE:
            return False
    if known + rest <= limit * (1.0 - CLOSE):
        return True
    return plain_sum(t, x, eligible, leader) <= limit


@compiled_inner
def all_beaten_probabilities(
    t: SetsStruct, eligible: np.ndarray, leader: int, mean: float, spread: float
) -> float:
    """The sum over all rivals in order; every slot must have been scored."""
    total, slots, middle, width, covariance_factor = 0.0, t.slot, t.middle, t.width, t.covariance_factor
    for action in range(len(slots)):
        if action != leader and (len(eligible) == 0 or eligible[action]):
            rival_mean = middle[slots[action]] - cost_of(t, action)
            gap, rival = mean - rival_mean + t.tolerance, width[slots[action]]
            total += beaten_probability(gap, difference_sd(covariance_factor, spread, rival))
    return total


@compiled_inner
def shared_prior_probability(
    t: SetsStruct, x: np.ndarray, eligible: np.ndarray, leader: int, above: float, spread: float, far: float
) -> tuple[float, int]:
    """The part of the sum that comes from rivals that share the prior, and how many of them are beyond `far` deviations.

    With costs, the rivals come in the order of their costs, and those of equal cost are alike.
    """
    rivals = count_shared_prior(t, eligible) - (t.slot[leader] == 0)
    if rivals <= 0:
        return 0.0, 0
    mean, deviation = mean_and_spread(t, SHARED_SLOT, x)
    scale = difference_sd(t.covariance_factor, spread, deviation)
    if len(t.cost) == 0:
        return rivals * beaten_probability(above - mean, scale), 0
    total, last, chance = 0.0, math.nan, 0.0
    place = shared_prior_actions(t, eligible, NOBODY)
    while place < len(t.order):
        rival = t.order[place]
        if rival != leader:
            cost = t.cost[rival]
            if cost != last:
                gap = above - (mean - cost)
                if gap > far * scale and gap > 0.0:
                    break
                if total > t.limit * (1.0 + CLOSE) + CLOSE * CLOSE:
                    break
                chance, last = beaten_probability(gap, scale), cost
            total += chance
            rivals -= 1
        place = shared_prior_actions(t, eligible, place)
    return total, rivals


@compiled_inner
def plain_sum(t: SetsStruct, x: np.ndarray, eligible: np.ndarray, leader: int) -> float:
    """The sum over all rivals in order, computed from their sets."""
    total, covariance_factor, tolerance = 0.0, t.covariance_factor, t.tolerance
    mean, spread = net_mean_and_spread(t, leader, x)
    shared_mean, shared_spread = mean_and_spread(t, SHARED_SLOT, x)
    for action in range(len(t.slot)):
        if action == leader or (len(eligible) and not eligible[action]):
            continue
        slot = t.slot[action]
        rival_mean, rival_spread = (shared_mean, shared_spread) if slot == 0 else mean_and_spread(t, slot, x)
        rival_mean -= cost_of(t, action)
        total += beaten_probability(
            mean - rival_mean + tolerance, difference_sd(covariance_factor, spread, rival_spread)
        )
    return total


@compiled
def value(t: SetsStruct, x: np.ndarray, action: int) -> tuple[float, float]:
    """Mean of reward − cost and half-width of one action, whatever was scanned before."""
    outer(x, t.products)
    return net_mean_and_spread(t, action, x)


@compiled
def sampled(
    t: SetsStruct, x: np.ndarray, normals: np.ndarray, eligible: np.ndarray, bounds: BoundsFlag
) -> int:
    """The eligible action with the largest mean + half-width·z_a, for standard normal z (K,)."""
    norm = scan_bounds(t, x, 0.0, eligible, bounds)
    used, slots, action = t.used, t.slot, t.action
    upper, middle, width = t.upper, t.middle, t.width
    scored = bounds is None or not norm > SMALL
    best, highest = -1, -math.inf
    if t.touched[t.which] < len(slots):
        mean, spread = mean_and_spread(t, SHARED_SLOT, x)
        for a in range(len(slots)):
            if slots[a] == 0 and (len(eligible) == 0 or eligible[a]):
                score = mean - cost_of(t, a) + spread * normals[a]
                if beats(t, score, a, highest, best):
                    best, highest = a, score
    first = 0
    if bounds is not None and not scored:
        reach, d = t.shared_width, t.theta.shape[1]
        for slot in range(1, used):
            if upper[slot] != -math.inf:
                row32 = t.bounds32[slot]
                wide = ABOVE * (reach * row32[d + 1] + row32[d + 2])
                upper[slot] = highest_mean(t, slot, norm) + max(normals[action[slot]], 0.0) * wide * ABOVE
                if first == 0 or not upper[slot] <= upper[first]:
                    first = slot
    for turn in range(used):
        slot = first if turn == 0 else turn
        if slot == 0 or (turn == first and turn > 0) or upper[slot] == -math.inf or upper[slot] < highest:
            continue
        if scored:
            mean, spread = middle[slot], width[slot]
        else:
            mean, spread = mean_and_spread(t, slot, x)
        score = mean - cost_of(t, action[slot]) + spread * normals[action[slot]]
        if beats(t, score, action[slot], highest, best):
            best, highest = action[slot], score
    return best


@compiled
def rivals(
    t: SetsStruct,
    x: np.ndarray,
    action: int,
    reach: float,
    eligible: np.ndarray,
    who: np.ndarray,
    means: np.ndarray,
    spreads: np.ndarray,
    bounds: BoundsFlag,
) -> tuple[int, int, int]:
    """Write the rivals with own sets whose mean + reach·width is not below the action's mean − reach·width.

    Returns how many they are, how many further rivals share the prior, and which of the latter wins ties (−1 if there is
    none). With costs, rivals that share the prior differ and are written too.
    """
    scan_bounds(t, x, reach, eligible, bounds)
    slots, mine = t.slot, t.action
    mean, spread = net_mean_and_spread(t, action, x)
    low, found = mean - reach * spread, 0
    for slot in range(1, t.used):
        if mine[slot] == action or t.upper[slot] == -math.inf or t.upper[slot] < low:
            continue
        rival_mean, rival_spread = net_mean_and_spread(t, mine[slot], x)
        if rival_mean + reach * rival_spread >= low:
            who[found], means[found], spreads[found] = mine[slot], rival_mean, rival_spread
            found += 1
    n_shared = count_shared_prior(t, eligible) - (slots[action] == 0)
    order, place = t.order, shared_prior_actions(t, eligible, NOBODY)
    if len(t.cost) and n_shared > 0:
        shared_mean, shared_spread = mean_and_spread(t, SHARED_SLOT, x)
        while place < len(order):
            rival = order[place]
            if rival != action:
                who[found], means[found], spreads[found] = rival, shared_mean - t.cost[rival], shared_spread
                found += 1
            place = shared_prior_actions(t, eligible, place)
        return found, 0, -1
    if place < len(order) and order[place] == action:
        place = shared_prior_actions(t, eligible, place)
    return found, n_shared, order[place] if place < len(order) else -1


EXPLORE, SUPPORTED, LOG_BEATS, CERTIFIED, CONFIDENT, SPOT_CHECK, PENDING, UNSURE, NOT_WORTH, SPENT = range(10)
"""Reasons of an answer. UNSURE: a call that a bound could not show to be learnable exactly."""

LEADER, WIDER, WIDER_RIVAL, SAMPLED, OPTIMISTIC, HIGHEST_VOI = range(6)
"""What a call plays."""

ChoiceTuple = tuple[int, int, float, float]
"""Action, reason, mean and half-width at x."""

UNLIKELY = 1e-6
"""Smallest weight of an action if a spot check draws another action than planned."""


class RulePlan(NamedTuple):
    """A learner as data: up to two rules in order (EXPLORE for none) and an explorer.

    `covariance_factor` scales the standard deviation of a difference. A call costs `price`; each round shortens the horizon by
    `discount_per_round`. With `stops_early`, n calls on a new action count as (n + 2)/3.
    """

    first: int
    second: int
    explore: int
    optimism: float
    tolerance: float
    limit: float
    spot_check: float
    covariance_factor: float = 1.0
    price: float = 0.0
    discount_per_round: float = 0.0
    stops_early: bool = False


def exploration_coefficient(plan: RulePlan, eligible: np.ndarray) -> np.ndarray:
    """Multiplier of the half-width for each number of eligible actions (m,).

    OPTIMISTIC: at least z = Φ⁻¹(1 − limit/(n − 1)), so that the last of n − 1 equal probabilities still leads to a call.
    """
    if plan.explore != OPTIMISTIC or not plan.limit > 0:
        return np.full(len(eligible), plan.optimism)
    return np.maximum(plan.optimism, -ndtri(plan.limit / np.maximum(1, eligible - 1)))


@compiled_inner
def unfit(x: np.ndarray) -> int:
    """The first feature that is not finite or too large; −1 if there is none."""
    for i in range(len(x)):
        if not abs(x[i]) <= LARGEST:
            return i
    return -1


@compiled_inner
def as_call(t: SetsStruct, x: np.ndarray, choice: ChoiceTuple) -> ChoiceTuple:
    """A call, with reason UNSURE if a bound cannot show that it can be learnt exactly."""
    action, _, mean, spread = choice
    slot, observed = t.slot[action], t.observed_slot[action]
    if bound_after(t, slot, x) <= CONDITION and bound_after(t, observed, x) <= CONDITION:
        return action, EXPLORE, mean, spread
    return action, UNSURE, mean, spread


@compiled
def choose(t: SetsStruct, x: np.ndarray, eligible: np.ndarray, bounds: BoundsFlag) -> ChoiceTuple:
    """Choose by the rules of the plan; an empty `eligible` allows all actions."""
    first, explore = t.first, t.explore
    if first == NOT_WORTH:
        return choose_economical(t, x, eligible, bounds, False)
    if first == CONFIDENT:
        if explore == WIDER_RIVAL:
            return choose_confident_wider(t, x, eligible, bounds)
        return choose_confident(t, x, eligible, bounds)
    if first == CERTIFIED:
        return choose_certified(t, x, eligible, bounds)
    return choose_log_beats(t, x, eligible, bounds)


@compiled
def choose_log_beats(t: SetsStruct, x: np.ndarray, eligible: np.ndarray, bounds: BoundsFlag) -> ChoiceTuple:
    """The leader, unless the logged reward is not exceeded (`log-beats`) or the leader is supported (`supported`).

    `threshold` and `answer` must hold the logged reward and action of this context. With a tolerance, the threshold is a lower
    limit. A feature i that is unfit gives action −1 − i, as in the other functions.
    """
    wrong = unfit(x)
    if wrong >= 0:
        return -1 - wrong, 0, 0.0, 0.0
    if t.first == EXPLORE and t.explore == SAMPLED:
        return 0, EXPLORE, 0.0, 0.0  # the caller samples
    leader, top, mean, spread, _, _, _ = top_two(t, x, t.optimism, eligible, False, bounds)
    threshold, logged = t.threshold, t.answer
    if t.tolerance > -math.inf and leader == logged:
        top = rivals_top(t, x, eligible, logged)  # a lower limit is never above its own action's top
    for turn in range(2):
        rule = t.first if turn == 0 else t.second
        if rule == LOG_BEATS and top <= threshold and (len(eligible) == 0 or eligible[logged]):
            mean, spread = net_mean_and_spread(t, logged, x)
            return logged, LOG_BEATS, mean, spread
        if rule == SUPPORTED and t.frozen[t.slot[leader]]:
            return leader, SUPPORTED, mean, spread
    return as_call(t, x, (leader, EXPLORE, mean, spread))


@compiled_inner
def rivals_top(t: SetsStruct, x: np.ndarray, eligible: np.ndarray, action: int) -> float:
    """The highest UCB of the eligible actions except one; −∞ without any. `products` must hold those of x."""
    highest = -math.inf
    for rival in range(len(t.slot)):
        if rival != action and (len(eligible) == 0 or eligible[rival]):
            mean, spread = net_mean_and_spread(t, rival, x)
            highest = max(highest, mean + t.optimism * spread)
    return highest


@compiled
def choose_certified(t: SetsStruct, x: np.ndarray, eligible: np.ndarray, bounds: BoundsFlag) -> ChoiceTuple:
    """The leader; no call if no rival's UCB exceeds the leader's lower bound by more than the tolerance."""
    wrong = unfit(x)
    if wrong >= 0:
        return -1 - wrong, 0, 0.0, 0.0
    leader, _, mean, spread, rival, rival_top, rival_spread = top_two(
        t, x, t.optimism, eligible, True, bounds
    )
    if t.tolerance > -math.inf and (rival < 0 or rival_top - (mean - spread) <= t.tolerance):
        return leader, CERTIFIED, mean, spread
    if t.explore == WIDER and rival >= 0 and rival_spread > spread:
        leader = rival
        mean, spread = net_mean_and_spread(t, rival, x)
    return as_call(t, x, (leader, EXPLORE, mean, spread))


@compiled_inner
def optimism_for(t: SetsStruct, eligible: np.ndarray) -> float:
    """The exploration coefficient for the number of eligible actions."""
    if len(eligible) == 0:
        return t.optimism
    many = 0
    for action in range(len(eligible)):
        many += eligible[action]
    return t.coefficient[many - 1]


@compiled
def choose_confident(t: SetsStruct, x: np.ndarray, eligible: np.ndarray, bounds: BoundsFlag) -> ChoiceTuple:
    """The best mean; no call if the probability of being beaten is within the limit."""
    wrong = unfit(x)
    if wrong >= 0:
        return -1 - wrong, 0, 0.0, 0.0
    norm = scan_bounds(t, x, 1.0, eligible, bounds)
    best, _ = best_mean(t, x, norm, eligible)
    if bounds is None:
        mean, spread = t.middle[t.slot[best]] - cost_of(t, best), t.width[t.slot[best]]
        certain = all_beaten_probabilities(t, eligible, best, mean, spread) <= t.limit
    else:
        mean, spread = net_mean_and_spread(t, best, x)
        certain = beaten_probability_below(t, x, norm, eligible, best, mean, spread)
    if certain:
        return best, CONFIDENT, mean, spread
    if t.explore == SAMPLED:
        return best, EXPLORE, 0.0, 0.0  # the caller samples
    leader, _, mean, spread, _, _, _ = top_two(t, x, optimism_for(t, eligible), eligible, False, bounds)
    return as_call(t, x, (leader, EXPLORE, mean, spread))


@compiled
def choose_confident_wider(
    t: SetsStruct, x: np.ndarray, eligible: np.ndarray, bounds: BoundsFlag
) -> ChoiceTuple:
    """As `choose_confident`, but a call plays the less certain of the best mean and its likeliest rival."""
    action, reason, mean, spread = choose_confident(t, x, eligible, bounds)
    if action < 0 or reason == CONFIDENT:
        return action, reason, mean, spread
    best, _ = best_mean(t, x, scan_bounds(t, x, 1.0, eligible, bounds), eligible)
    action = wider_rival(t, x, eligible, best)
    mean, spread = net_mean_and_spread(t, action, x)
    return as_call(t, x, (action, EXPLORE, mean, spread))


@compiled_inner
def choose_economical(
    t: SetsStruct, x: np.ndarray, eligible: np.ndarray, bounds: BoundsFlag, shadow: bool
) -> ChoiceTuple:
    """The action whose call has the highest value above its cost, or the best mean if no call pays; sets `t.worth`.

    In the `shadow` nobody is served the action of a call, so playing it loses nothing.
    """
    wrong = unfit(x)
    if wrong >= 0:
        return -1 - wrong, 0, 0.0, 0.0
    if t.known != t.changes or t.common > t.unit:
        sync_cache(t)
    norm = scan_mean_bounds(t, x, eligible, bounds)
    best, top = best_mean(t, x, norm, eligible)
    found, most, reason = NOBODY, 0.0, NOT_WORTH if t.calls_left > 0 else SPENT
    if t.calls_left > 0 and t.rounds_left > 0.0:
        cut = (1.0 - 1e-12) * t.price / t.rounds_left
        first = shared_prior_actions(t, eligible, NOBODY)
        for slot in range(t.used):
            if t.voi_bound[slot] <= cut or (
                t.upper[slot] == -math.inf if slot > 0 else first == len(t.order)
            ):
                continue
            action = t.action[slot] if slot > 0 else t.order[first]
            loss = 0.0 if shadow else max(top - (dot(t.theta[slot], x) - cost_of(t, action)), 0.0)
            value = worth(t, slot, x, loss, most)
            if value > 0.0 and beats(t, value, action, most, found):
                found, most = action, value
    t.worth = most
    played = best if found < 0 else found
    mean, spread = net_mean_and_spread(t, played, x)
    return as_call(t, x, (played, EXPLORE, mean, spread)) if found >= 0 else (played, reason, mean, spread)


@compiled
def choose_economical_with_worth(
    t: SetsStruct, x: np.ndarray, eligible: np.ndarray, bounds: BoundsFlag
) -> tuple[int, int, float, float, float]:
    """As `choose_economical`, with the value of the call."""
    action, reason, mean, spread = choose_economical(t, x, eligible, bounds, False)
    return action, reason, mean, spread, t.worth


@compiled
def choose_economical_in_shadow(
    t: SetsStruct, x: np.ndarray, eligible: np.ndarray, bounds: BoundsFlag
) -> tuple[int, int, float, float, float]:
    """As `choose_economical_with_worth`, for calls whose action nobody is served."""
    action, reason, mean, spread = choose_economical(t, x, eligible, bounds, True)
    return action, reason, mean, spread, t.worth


@compiled
def choose_best(
    t: SetsStruct, x: np.ndarray, eligible: np.ndarray, bounds: BoundsFlag
) -> tuple[int, float, float]:
    """The best mean of reward − cost: action, mean and half-width."""
    best, _ = best_mean(t, x, scan_mean_bounds(t, x, eligible, bounds), eligible)
    mean, spread = net_mean_and_spread(t, best, x)
    return best, mean, spread


@compiled_inner
def wider_rival(t: SetsStruct, x: np.ndarray, eligible: np.ndarray, best: int) -> int:
    """The less certain of the best mean and its likeliest rival."""
    mean, spread = net_mean_and_spread(t, best, x)
    rival, highest, width = -1, -math.inf, 0.0
    for action in range(len(t.slot)):
        if action == best or (len(eligible) and not eligible[action]):
            continue
        rival_mean, rival_spread = net_mean_and_spread(t, action, x)
        chance = beaten_probability(
            mean - rival_mean + 0.0, difference_sd(t.covariance_factor, spread, rival_spread)
        )
        if beats(t, chance, action, highest, rival):
            rival, highest, width = action, chance, rival_spread
    return rival if rival >= 0 and width > spread else best


@compiled
def random_other_action(
    t: SetsStruct, x: np.ndarray, eligible: np.ndarray, planned: int, key: int, bounds: BoundsFlag
) -> tuple[int, float]:
    """Draw an action other than the planned one, and its probability among the others; −1 if there is none.

    Weights are the probabilities of beating the best mean, which itself gets the rest.
    """
    norm, tolerance = scan_bounds(t, x, 1.0, eligible, bounds), t.tolerance
    best, _ = best_mean(t, x, norm, eligible)
    mean, spread = net_mean_and_spread(t, best, x)
    left = 1.0 - plain_sum(t, x, eligible, best)
    total, last = 0.0, -1
    odds = np.zeros(len(t.slot))
    for action in range(len(odds)):
        if action == planned or (len(eligible) and not eligible[action]):
            continue
        odds[action] = left
        if action != best:
            rival_mean, rival_spread = net_mean_and_spread(t, action, x)
            odds[action] = beaten_probability(
                mean - rival_mean + tolerance, difference_sd(t.covariance_factor, spread, rival_spread)
            )
        odds[action] = max(odds[action], UNLIKELY)
        total += odds[action]
        last = action
    drawn = uniform(key, WHO) * total
    for action in range(len(odds)):
        if odds[action] > 0.0:
            drawn -= odds[action]
            if drawn < 0.0 or action == last:
                return action, odds[action] / total
    return -1, 0.0
