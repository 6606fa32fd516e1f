"""How likely a posterior draw is to favour an action, and the propensities that follow from it."""

import numpy as np
import pytest

import sparing
from reference.cases import make_log, parameters
from sparing.online.decision import Challenger, SampledChances

DRAWS = 200_000


def chance_of_best(mean, spread, action, *, eligible=None, priority=None):
    """P(action is the best of one draw from independent N(mean, spread²)), as a decision reports it."""
    mean, spread = np.array(mean, dtype=float), np.array(spread, dtype=float)
    rivals = np.ones(len(mean), dtype=bool) if eligible is None else np.array(eligible)
    rivals[action] = False
    order = np.arange(len(mean)) if priority is None else np.array(priority)
    own = Challenger(mean[action], spread[action], int(order[action]))
    return SampledChances(own, mean[rivals], spread[rivals], order[rivals]).play


CASES = {
    "two alike": ([0, 0], [1, 1]),
    "five": ([0.0, 0.3, -0.2, 0.5, 0.1], [1.0, 0.5, 2.0, 0.3, 0.7]),
    "a certain rival": ([0.0, 0.4, 0.2], [1.0, 0.0, 0.6]),
    "two certain rivals": ([0.0, 0.4, 0.2, -0.1], [1.0, 0.0, 0.0, 0.5]),
    "only one uncertain": ([0.0, 0.4, 0.1], [1.0, 0.0, 0.0]),
    "all certain": ([0.1, 0.4, 0.4], [0.0, 0.0, 0.0]),
    "very different scales": ([0.0, 0.05, -1.0, 0.01], [1e-4, 1.0, 30.0, 1e-2]),
    "narrow beside wide": ([0.0, 0.0], [10.0, 1e-3]),
    "far apart": ([0.0, 50.0], [1.0, 1.0]),
}


@pytest.mark.parametrize("name", CASES)
def test_chance_of_best_against_monte_carlo(name):
    mean, spread = CASES[name]
    rng = np.random.default_rng(7)
    k = len(mean)
    draws = np.array(mean) + np.array(spread) * rng.standard_normal((DRAWS, k))
    shares = np.bincount(draws.argmax(axis=1), minlength=k) / DRAWS
    chances = np.array([chance_of_best(mean, spread, a) for a in range(k)])
    error = np.sqrt(np.maximum(chances * (1 - chances), 1 / DRAWS) / DRAWS)
    assert (np.abs(chances - shares) <= 4 * error).all()


@pytest.mark.parametrize("name", CASES)
def test_chances_sum_to_one(name):
    mean, spread = CASES[name]
    total = sum(chance_of_best(mean, spread, a) for a in range(len(mean)))
    ratio = max(spread) / min([s for s in spread if s > 0], default=1.0)
    assert total == pytest.approx(1, abs=1e-4 if ratio <= 100 else 4e-3)


def test_two_normals_in_closed_form():
    """P(a beats b) = Φ((m_a − m_b)/sqrt(s_a² + s_b²))."""
    from scipy.stats import norm

    for m, s, r in [(0.0, 1.0, 1.0), (0.7, 0.3, 1.1), (-1.5, 2.0, 0.1), (0.2, 0.05, 0.4)]:
        exact = norm.cdf(m / np.hypot(s, r))
        assert chance_of_best([m, 0.0], [s, r], 0) == pytest.approx(exact, abs=1e-6)


def test_only_eligible_rivals_count():
    means, ones = [0.0, 5.0, 0.0], [1.0, 1.0, 1.0]
    assert chance_of_best(means, ones, 0, eligible=[True, False, True]) == pytest.approx(0.5, abs=1e-9)
    assert chance_of_best(means[:2], ones[:2], 0, eligible=[True, False]) == 1.0


def test_equal_and_certain_actions_go_to_the_priority():
    ones, nothing = [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]
    assert [chance_of_best(ones, nothing, a, priority=[2, 0, 1]) for a in range(3)] == [0.0, 1.0, 0.0]


def calls_of(learner, x, rounds):
    """Decide the same context again and again, learning nothing; the share of each action's calls and
    the propensity reported with them, (K,) each."""
    shares, reported = np.zeros(learner.n_actions), np.full(learner.n_actions, np.nan)
    for _ in range(rounds):
        decision = learner.decide(x)
        if decision.needs_reward:
            learner.forget(decision)
            shares[decision.action] += 1 / rounds
            reported[decision.action] = decision.call_probability
    return shares, reported


def reasons_of(learner, x, rounds):
    """Why the same context is answered as it is, again and again, learning nothing."""
    found = set()
    for _ in range(rounds):
        decision = learner.decide(x)
        found.add(decision.reason)
        if decision.needs_reward:
            learner.forget(decision)
    return found


SKIPPING = {"confidence": 0.3, "tolerance": 0.5}
EXPLORING = {"confidence": 0.999, "tolerance": 0.0}


@pytest.mark.parametrize("explore", ["optimistic", "sampled", "wider"])
@pytest.mark.parametrize("sure", [SKIPPING, EXPLORING], ids=["skipping", "exploring"])
def test_propensities_are_the_frequencies_of_calls(explore, sure):
    """E[1{called on a}/propensity] = 1, whether the rounds in between are skipped or explored."""
    log = make_log(4, parameters(4), rows=60, never=[2])
    learner = sparing.confident(
        log, noise=1.0, explore=explore, spot_check=0.3, prior_scale=2.0, seed=2, **sure
    )
    x = np.array([0.9, 0.2, 0.4])
    between = "confident" if sure is SKIPPING else "explore"
    samples = explore == "sampled" and sure is EXPLORING  # every call is a draw of its own
    assert reasons_of(learner, x, 50) == {between} | (set() if samples else {"spot-check"})
    assert_frequencies(learner, x, 30_000)


def test_propensities_of_thompson_sampling():
    log = make_log(4, parameters(4), rows=60, never=[2])
    learner = sparing.lints(log, noise=1.0, theta_bound=1.0, context_bound=1.0, scale=3.0, seed=2)
    assert_frequencies(learner, np.array([0.9, 0.2, 0.4]), 3000)


def assert_frequencies(learner, x, rounds):
    shares, reported = calls_of(learner, x, rounds)
    called = shares > 0
    assert called.sum() > 2
    error = np.sqrt(reported * (1 - reported) / rounds)
    assert (np.abs(shares - reported)[called] <= 4 * error[called] + 1e-12).all()


def test_a_spot_check_is_called_and_counted():
    log = make_log(5, parameters(5))
    learner = sparing.confident(log, noise=0.5, spot_check=0.2, tolerance=10.0, seed=1)
    decisions = []
    for _ in range(2000):
        decisions.append(learner.decide([0.3, 0.8, 0.1]))
        if decisions[-1].needs_reward:
            learner.forget(decisions[-1])
    checks = [decision for decision in decisions if decision.reason == "spot-check"]
    assert {decision.reason for decision in decisions} == {"confident", "spot-check"}
    assert all(decision.needs_reward for decision in checks)
    assert learner.calls == len(checks)
    assert abs(len(checks) / 2000 - 0.2) <= 4 * np.sqrt(0.2 * 0.8 / 2000)
