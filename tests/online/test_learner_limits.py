"""Limits in which two algorithms must be one, step for step, with everything given and equal."""

import numpy as np
import pytest

import sparing
from reference.cases import make_log, make_rounds, parameters, run

ROUNDS = 250
SETTINGS = {"noise": 0.5, "theta_bound": 2.0, "context_bound": 1.8, "ridge": 0.7, "delta": 0.1, "seed": 5}


@pytest.fixture(params=["determinant", "trace", "paper"])
def settings(request):
    return {**SETTINGS, "radius": request.param, "radius_scale": 0.3}


@pytest.fixture(scope="module")
def theta():
    return parameters(2)


@pytest.fixture(scope="module")
def log(theta):
    return make_log(2, theta)


@pytest.fixture(scope="module")
def rounds(theta):
    return make_rounds(2, theta, ROUNDS)


def assert_same(first, second, rounds):
    """Equal decisions, values and ends included, in every round."""
    assert run(first, rounds) == run(second, rounds)


@pytest.mark.parametrize(
    "nobody", [sparing.supported_actions([]), sparing.supported_actions({}), sparing.most_logged(0)]
)
def test_no_supported_actions_make_eps_moful_moful(log, rounds, settings, nobody):
    assert_same(sparing.eps_moful(log, supported=nobody, **settings), sparing.moful(log, **settings), rounds)


def test_all_actions_supported_make_no_calls(theta, log, rounds, settings):
    for everyone in (sparing.most_logged(6), sparing.supported_actions(dict(enumerate(theta)))):
        learner = sparing.eps_moful(log, supported=everyone, **settings)
        decisions = run(learner, rounds)
        assert learner.calls == 0
        assert {decision.reason for decision in decisions} == {"supported"}
    best = (rounds.contexts @ theta.T).argmax(axis=1)
    assert [decision.action for decision in decisions] == best.tolist()


def test_an_empty_log_makes_warm_started_moful(rounds, settings):
    empty = sparing.Log.empty(action_names=range(6), n_features=3)
    cold = sparing.moful(n_actions=6, n_features=3, **settings)
    assert_same(sparing.warm_started(empty, **settings), cold, rounds)


def test_tolerance_minus_infinity_makes_certified_warm_started(log, rounds, settings):
    certified = sparing.certified(log, tolerance=-np.inf, **settings)
    assert_same(certified, sparing.warm_started(log, **settings), rounds)


def test_one_action_with_a_finite_tolerance_is_always_skipped_and_never_at_minus_infinity(settings):
    log = make_log(3, parameters(3, 1, 2), rows=10)
    rounds = make_rounds(3, parameters(3, 1, 2), 30)
    for tolerance in (0.0, 0.1, -5.0):
        learner = sparing.certified(log, tolerance=tolerance, **settings)
        assert {decision.reason for decision in run(learner, rounds)} == {"certified"}
        assert learner.calls == 0
    never = sparing.certified(log, tolerance=-np.inf, **settings)
    run(never, rounds)
    assert never.calls == 30


def test_a_huge_tolerance_makes_certified_greedy_by_its_tops(log, rounds, settings):
    learner = sparing.certified(log, tolerance=1e9, **settings)
    run(learner, rounds)
    assert learner.calls == 0


def test_log_beats_that_cannot_fire_makes_ips_eps_moful(theta, log, rounds, settings):
    """On fresh contexts the log has nothing to say."""
    supported = sparing.supported_actions({0: theta[0]})
    with_log = sparing.eps_moful_ips(log, supported=supported, **settings)
    assert_same(with_log, sparing.eps_moful(log, supported=supported, **settings), rounds)
