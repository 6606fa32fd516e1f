"""What every rule and explorer does, over all actions and in plain NumPy: the specification of the compiled ones."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from reference.kernels import best, doubts
from reference.luck import Luck, uniform
from reference.worth import costs_of, expected, priority
from sparing.online.core import SPOT_CHECK
from sparing.online.decision import Challenger, Chances, SampledChances

UNLIKELY, APART = 1e-6, 0.05


@dataclass
class Round:
    """The sets at x: mean, spread, top (K,); who may be played, who wins ties, which are points, what the log knows."""

    mean: np.ndarray
    spread: np.ndarray
    optimism: float
    eligible: np.ndarray
    priority: np.ndarray
    frozen: np.ndarray
    threshold: float = np.nan
    answer: int = 0
    factor: float = 1.0  # √2 in strict mode

    @property
    def top(self):
        return self.mean + self.optimism * self.spread

    def best(self, scores, other_than=-1):
        return best(scores, self.eligible, self.priority, other_than)

    def doubts(self, leader, tolerance):
        return doubts(self.mean, self.spread, self.eligible, leader, tolerance, self.factor)


def optimism(rules, explore, least, eligible):
    """`optimistic` beside `confident`: z = Φ⁻¹(1 − (1−c)/(n−1)) for n eligible actions, at least `least`; else that."""
    if explore != "optimistic" or not any(rule.name == "confident" for rule in rules):
        return least
    doubt = (1 - rules[0].confidence) / max(1, eligible.sum() - 1)
    return max(least, float(-ndtri(doubt)))


def answered(rule, seen):
    """The action a built-in rule answers with, or None."""
    leader = seen.best(seen.top)
    if rule.name == "supported":
        return leader if seen.frozen[leader] else None
    if rule.name == "log-beats":
        if getattr(rule, "beats", "sample") == "limit":
            rival = seen.best(seen.top, seen.answer)
            best = seen.top[rival] if rival >= 0 else -np.inf
        else:
            best = seen.top[leader]
        return seen.answer if best <= seen.threshold and seen.eligible[seen.answer] else None
    if rule.name == "certified":
        rival = seen.best(seen.top, leader)
        low = seen.mean[leader] - seen.spread[leader]
        sure = rival < 0 or seen.top[rival] - low <= rule.tolerance
        return leader if sure and rule.tolerance > -np.inf else None
    assert rule.name == "confident"
    leader = seen.best(seen.mean)
    return leader if seen.doubts(leader, rule.tolerance)[1] <= 1 - rule.confidence else None


def explored(explore, seen, normals):
    """The action a call plays."""
    if explore == "sampled":
        return seen.best(seen.mean + seen.spread * normals)
    first = seen.best(seen.top)
    if explore == "wider":
        rival = seen.best(seen.top, first)
    elif explore == "wider-rival":
        first = seen.best(seen.mean)
        rival = seen.best(seen.doubts(first, 0.0)[0], first)
    else:
        return first
    return rival if rival >= 0 and seen.spread[rival] > seen.spread[first] else first


def planned(rules, explore, seen, normals=None):
    """Action and reason, luck apart."""
    for rule in rules:
        action = answered(rule, seen)
        if action is not None:
            return action, rule.name
    return explored(explore, seen, normals), "explore"


def other_than(seen, action, tolerance, chance):
    """Another action than planned, drawn in proportion to the doubts about the best mean; and its chance."""
    leader = seen.best(seen.mean)
    odds, total = seen.doubts(leader, tolerance)
    odds[leader] = 1 - total
    odds = np.where(seen.eligible, np.maximum(odds, UNLIKELY), 0.0)
    odds[action] = 0.0
    total = sum(odds.tolist())
    left = chance * total
    for other in np.flatnonzero(odds).tolist():
        left -= odds[other]
        if left < 0:
            break
    return other, odds[other] / total


def priced(learner, x, eligible, ahead, costs=None):
    """What a learner that weighs calls does: action and reason; nothing for others."""
    if not learner.uses_voi:
        return None
    action, called, _ = expected(learner, x, eligible, ahead=ahead, costs=costs)
    budget = learner.rules[0].calls
    skipped = "spent" if budget is not None and learner.calls >= budget else "not-worth-it"
    return action, "explore" if called else skipped


def use_reference_choice(learner):
    """Let a learner choose as written here, round by round, instead of by compiled code."""

    def choose(x, allowed, context_id, key, spot_check, costs=None, shadow=False):
        assert not shadow, "there is no reference of shadow calls here"
        from sparing.online.decision import check_sizes

        check_sizes(x)
        eligible = allowed if len(allowed) else np.ones(learner.n_actions, dtype=bool)
        known = (np.nan, 0, 1.0)
        if learner._log_rule is not None:
            known = learner._log_rule.find(x, context_id, allowed, key)
        normals = np.array(Luck.of_key(key, learner.n_actions))
        sets = learner.sets
        paid = costs_of(learner, costs)
        order = priority(learner, costs)
        for ahead in (False, True) if learner._imputed else (False,):
            mean, spread = sets.evaluate(x, pending=ahead)
            mean = mean - paid
            bold = optimism(learner.rules, learner.explore, learner.optimism, eligible)
            strict = any(getattr(rule, "strict", False) for rule in learner.rules)
            factor = np.sqrt(2) if strict else 1.0
            seen = Round(mean, spread, bold, eligible, order, sets.frozen, known[0], known[1], factor)
            action, reason = priced(learner, x, eligible, ahead, costs) or planned(
                learner.rules, learner.explore, seen, normals
            )
            if reason != "explore":
                break
        drawn = known[2] if reason == "log-beats" else 1.0
        reason = "pending" if ahead and reason != "explore" else reason
        chances = Chances(drawn, 0.0) if reason != "explore" else Chances(1.0, 1.0)
        if reason == "explore" and learner.explore == "sampled":
            rivals = eligible & (np.arange(len(mean)) != action)
            own = Challenger(float(mean[action]), float(spread[action]), int(order[action]))
            chances = SampledChances(own, mean[rivals], spread[rivals], order[rivals])
        elif spot_check and reason != "spent":
            others = eligible.sum() > 1
            apart = APART if others else 0.0
            kept = 1 - spot_check * apart
            chances = Chances(kept, kept if reason == "explore" else spot_check * (1 - apart))
            if uniform(key, 0) < spot_check:
                reason = SPOT_CHECK
                if others and uniform(key, 1) < APART:
                    action, share = other_than(seen, action, learner.plan.tolerance, uniform(key, 2))
                    chances = Chances(*2 * (spot_check * APART * share,))
        mean, spread = sets.evaluate(x)  # rewards that have not arrived do not narrow an interval
        mean = mean - paid
        choice = action, reason, float(mean[action]), float(spread[action]), chances, None
        return learner._checked(x, choice)

    learner._choose, learner._plain = choose, False
