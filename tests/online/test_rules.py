"""Rules: what the built-in ones look like as data, what a rule of one's own sees, and which go together."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import sparing
from reference import kernels as plain
from reference.cases import make_log, parameters
from sparing.errors import SettingError
from sparing.online import rules
from sparing.online.engine import choice
from sparing.online.engine.random_stream import tie_order_and_key
from sparing.online.learner import Learner


def view(scores, eligible, priority):
    return rules.RoundView(np.zeros(1), None, scores, scores, scores, eligible, priority)


@pytest.mark.parametrize("levels", [1, 2, 4, 10**6])
def test_best_with_many_ties(levels):
    rng = np.random.default_rng(levels)
    for _ in range(300):
        k = int(rng.integers(1, 9))
        scores = rng.integers(0, levels, k).astype(float)
        eligible, priority = rng.random(k) < 0.6, rng.permutation(k)
        skip = int(rng.integers(-1, k))
        best = view(scores, eligible, priority).best(scores, other_than=skip)
        assert best == plain.best(scores, eligible, priority, skip)


def test_best_of_nobody_is_none_and_of_equals_has_the_smallest_priority_number():
    none, everyone, order = np.zeros(4, dtype=bool), np.ones(4, dtype=bool), np.array([2, 3, 0, 1])
    assert view(np.ones(4), none, order).leader == -1
    assert view(np.zeros(4), everyone, order).leader == 2
    lowest = np.full(4, -np.inf)
    assert view(lowest, everyone, order).best(lowest, other_than=2) == 3


def test_a_doubt_is_the_normal_tail_and_without_deviation_compares():
    for gap, scale in [(0.3, 1.0), (-2.0, 0.5), (5.0, 0.1)]:
        assert (
            choice.beaten_probability(gap, scale)
            == plain.doubts(np.array([gap, 0.0]), np.array([scale, 0.0]), np.ones(2, bool), 0, 0.0)[1]
        )
    assert [choice.beaten_probability(gap, 0.0) for gap in (-0.1, 0.0, 0.1)] == [1.0, 0.0, 0.0]


@dataclass
class Narrow:
    """The leader is known to within `length`."""

    length: float
    name: ClassVar[str] = "narrow"

    def answer(self, view):
        return view.leader if 2 * view.spread[view.leader] <= self.length else None

    def header(self):
        return {"length": self.length}

    def arrays(self):
        return {}


def own_learner(log, length, *more, **settings):
    sets = sparing.warm_started(log, noise=0.5, theta_bound=1.0, context_bound=1.0, radius_scale=0.2).sets
    priority, key = tie_order_and_key(0, log.n_actions)
    sets.prioritise(priority)
    return Learner("own", log.action_names, sets, [Narrow(length), *more], key=key, **settings)


def test_a_rule_of_ones_own_is_asked_before_the_built_in_ones():
    log = make_log(3, parameters(3), rows=200)
    always, never = (
        own_learner(log, np.inf, rules.CertifiedRule(np.inf)),
        own_learner(log, 0.0, rules.CertifiedRule(np.inf)),
    )
    for x in np.random.default_rng(0).random((20, log.n_features)):
        mean, spread = always.sets.evaluate(x)
        leader = plain.best(mean + spread, np.ones(len(mean), bool), always.priority)
        one, other = always.decide(x), never.decide(x)
        assert (one.reason, other.reason) == ("narrow", "certified")
        assert one.action == other.action == log.action_names[leader]
        assert (one.value, one.high) == (mean[leader], mean[leader] + spread[leader])


def test_a_rule_of_ones_own_sees_means_less_costs():
    log = make_log(3, parameters(3), rows=200)
    known = np.array([0.0, 0.9, 0.2, 0.5, 0.1, 0.3])
    learner = own_learner(log, np.inf, costs=known)
    for t, x in enumerate(np.random.default_rng(0).random((20, log.n_features))):
        costs = known if t % 2 else known[::-1]
        mean, spread = learner.sets.evaluate(x)
        leader = plain.best(mean - costs + spread, np.ones(len(mean), bool), learner.priority)
        decision = learner.decide(x, costs=None if t % 2 else costs)
        assert decision.action == log.action_names[leader]
        assert (decision.value, decision.cost) == (mean[leader] - costs[leader], costs[leader])


def test_a_rule_of_ones_own_sees_the_settled_sets_first_and_then_those_with_open_calls():
    log = make_log(3, parameters(3), rows=60)
    x = np.full(log.n_features, 0.7)
    learner = own_learner(log, 0.0)
    called = learner.decide(x)
    assert called.needs_reward
    action = learner.index(learner.decide(x).action)  # the first call is pending now
    spread = learner.sets.evaluate(x, pending=True)[1][action]
    other = own_learner(log, 2 * spread * (1 + 1e-12))
    reasons = [other.decide(x).reason for _ in range(40)]
    assert reasons[0] == "explore"
    assert "pending" in reasons
    assert set(reasons) <= {"explore", "pending", "narrow"}


def test_rules_that_compiled_code_does_not_have_together_are_refused():
    log = make_log(3, parameters(3), rows=60)
    with pytest.raises(SettingError, match="certified, confident"):
        own_learner(log, 0.0, rules.CertifiedRule(0.1), rules.ConfidentRule(0.1, 0.9))
    with pytest.raises(SettingError, match="explore='wider'"):
        own_learner(log, 0.0, explore="wider")


def test_a_built_in_rule_saves_its_own_fields():
    points = rules.SupportedRule(np.array([True, False]))
    assert (points.header(), list(points.arrays())) == ({}, ["frozen"])
    doubt = rules.ConfidentRule(0.1, 0.95)
    assert (doubt.header(), doubt.arrays()) == ({"tolerance": 0.1, "confidence": 0.95, "strict": False}, {})


def gap_of(learner, x):
    """How far the best rival's top lies above the leader's bottom, by the sets themselves."""
    mean, spread = learner.sets.evaluate(x)
    top, everyone = mean + spread, np.ones(len(mean), dtype=bool)
    leader = plain.best(top, everyone, learner.priority)
    return top[plain.best(top, everyone, learner.priority, leader)] - (mean[leader] - spread[leader])


def test_certified_skips_at_its_tolerance_and_not_below():
    log = make_log(3, parameters(3), rows=80)
    settings = {"noise": 0.5, "theta_bound": 1.0, "context_bound": 1.0, "radius_scale": 0.2}
    for x in np.random.default_rng(1).random((30, log.n_features)):
        gap = gap_of(sparing.warm_started(log, **settings), x)
        for tolerance, reason in ((gap, "certified"), (np.nextafter(gap, -np.inf), "explore")):
            assert sparing.certified(log, tolerance=tolerance, **settings).decide(x).reason == reason


def test_certified_that_never_skips_asks_about_the_only_action_too():
    log = make_log(3, parameters(3), rows=80)
    learner = sparing.certified(log, tolerance=-np.inf, noise=0.5, theta_bound=1.0, context_bound=1.0)
    x = np.full(log.n_features, 0.5)
    assert learner.decide(x, eligible=[log.action_names[0]]).reason == "explore"
    sure = sparing.certified(log, tolerance=0.0, noise=0.5, theta_bound=1.0, context_bound=1.0)
    assert sure.decide(x, eligible=[log.action_names[0]]).reason == "certified"


def test_confident_skips_at_its_limit_and_not_below():
    log = make_log(3, parameters(3), rows=80)
    learner = sparing.confident(log, noise=0.5, tolerance=0.02, spot_check=0.0)
    for x in np.random.default_rng(2).random((30, log.n_features)):
        mean, spread = learner.sets.evaluate(x)
        everyone = np.ones(len(mean), dtype=bool)
        doubt = plain.doubts(mean, spread, everyone, plain.best(mean, everyone, learner.priority), 0.02)[1]
        for limit, reason in ((doubt, "confident"), (np.nextafter(doubt, 0.0), "explore")):
            learner.sets.apply_rules(learner.plan._replace(limit=limit))
            assert learner.propose(x).reason == reason
