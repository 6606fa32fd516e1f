"""What the softmax learners maximise: values by hand, gradients by finite differences, and optima."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from each import for_each
from sparing.learning import objectives
from sparing.learning.objectives import maximise, value_and_gradient
from sparing.log import Log
from sparing.policies.policy import softmax

K, D = 4, 3


def small_log(seed=0, rows=60):
    """A log with uneven propensities and supports, and both signs of reward."""
    rng = np.random.default_rng(seed)
    mu = rng.dirichlet(np.ones(K), size=rows)
    mu[rng.random((rows, K)) < 0.25] = 0
    mu[:, 0] += 0.1
    mu /= mu.sum(axis=1, keepdims=True)
    actions = np.array([rng.choice(K, p=row) for row in mu])
    return Log.from_arrays(
        rng.normal(size=(rows, D)), actions, rng.normal(size=rows), distribution=mu, action_names=range(K)
    )


def families(log):
    fitted = np.random.default_rng(7).normal(size=(log.n_rows, K))
    return {
        "opr, k < 0": objectives.restricted(log, -0.8),
        "opr, k > 0": objectives.restricted(log, 0.8),
        "poem": objectives.poem(log, clip=np.inf, penalty=1.5),
        "poem, clipped": objectives.poem(log, clip=1.3, penalty=1.5),
        "norm-poem": objectives.norm_poem(log, clip=np.inf, penalty=1.5),
        "norm-poem, clipped": objectives.norm_poem(log, clip=1.3, penalty=1.5),
        "extrapolation": objectives.extrapolated(log, fitted, ~log.support.mask()),
        "caipwl": objectives.scored(objectives.completed_rewards(log, fitted)),
    }


NAMES = list(families(small_log()))


def weights_of(table, log):
    return np.array([table[i, a] / log.propensities[i] for i, a in enumerate(log.actions)])


@for_each("masked", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_match_finite_differences(name, masked):
    log = small_log()
    objective = families(log)[name]
    mask = log.support.mask() if masked else None
    for seed in range(3):
        theta = np.random.default_rng(seed).normal(size=(K, D))
        _, gradient = value_and_gradient(theta, log.contexts, mask, objective, l2=0.05)
        for index in np.ndindex(K, D):
            ends = []
            for step in (1e-5, -1e-5):
                moved = theta.copy()
                moved[index] += step
                ends.append(value_and_gradient(moved, log.contexts, mask, objective, l2=0.05)[0])
            assert gradient[index] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-7)


def test_values_are_those_of_the_formulas():
    log = small_log(1)
    table = np.random.default_rng(2).dirichlet(np.ones(K), size=log.n_rows)
    w, r, n = weights_of(table, log), log.rewards, log.n_rows
    assert objectives.restricted(log, 0.3)(table)[0] == pytest.approx(-sum((0.3 - r) * w) / n)
    y = np.minimum(w, 2.0) * r
    expected = y.mean() - 0.7 * np.sqrt(np.var(y, ddof=1) / n)
    assert objectives.poem(log, clip=2.0, penalty=0.7)(table)[0] == pytest.approx(expected)
    c = np.minimum(w, 2.0)
    mean = sum(c * r) / sum(c)
    deviation = np.sqrt(sum(c**2 * (r - mean) ** 2)) / sum(c)
    assert objectives.norm_poem(log, clip=2.0, penalty=0.7)(table)[0] == pytest.approx(mean - 0.7 * deviation)
    fitted = np.random.default_rng(3).normal(size=(n, K))
    outside = ~log.support.mask()
    expected = np.mean([w[i] * r[i] + table[i, outside[i]] @ fitted[i, outside[i]] for i in range(n)])
    assert objectives.extrapolated(log, fitted, outside)(table)[0] == pytest.approx(expected)


def test_without_unsupported_actions_extrapolation_is_ips():
    log = small_log(3)
    everything = np.zeros((log.n_rows, K), dtype=bool)
    fitted = np.full((log.n_rows, K), 1e6)
    table = softmax(np.random.default_rng(0).normal(size=(log.n_rows, K)))
    extrapolated = objectives.extrapolated(log, fitted, everything)(table)
    ips = objectives.restricted(log, 0.0)(table)
    poem = objectives.poem(log, clip=np.inf, penalty=0.0)(table)
    assert extrapolated[0] == pytest.approx(ips[0])
    assert poem[0] == pytest.approx(ips[0])
    np.testing.assert_allclose(extrapolated[1], ips[1])
    np.testing.assert_allclose(poem[1], ips[1])


def test_the_self_normalised_objective_moves_with_the_rewards():
    """SNIPS of r + c is SNIPS of r, plus c; plain IPS has no such property."""
    log = small_log(4)
    raised = Log.from_arrays(
        log.contexts,
        log.actions,
        log.rewards + 5.0,
        propensities=log.propensities,
        action_names=log.action_names,
    )
    table = softmax(np.random.default_rng(1).normal(size=(log.n_rows, K)))
    one, other = (objectives.norm_poem(each, clip=np.inf, penalty=1.0)(table) for each in (log, raised))
    assert other[0] == pytest.approx(one[0] + 5)
    np.testing.assert_allclose(one[1], other[1], atol=1e-12)
    assert objectives.poem(raised, clip=np.inf, penalty=0.0)(table)[0] != pytest.approx(
        objectives.poem(log, clip=np.inf, penalty=0.0)(table)[0] + 5
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_optimum_is_above_the_start_and_flat(name):
    log = small_log(5, rows=200)
    mask = log.support.mask()
    objective = families(log)[name]
    start = np.zeros((K, D))
    theta = maximise(log.contexts, mask, objective, l2=0.05, n_actions=K)
    first = value_and_gradient(start, log.contexts, mask, objective, l2=0.05)
    last = value_and_gradient(theta, log.contexts, mask, objective, l2=0.05)
    assert last[0] > first[0] + 1e-3
    if "clipped" not in name:
        assert np.abs(last[1]).max() < 1e-3 * np.abs(first[1]).max() + 1e-4


def test_two_actions_in_one_context_are_solved_as_by_a_scan():
    """π is one number p = 1/(1 + e^−2t) with θ = (t, −t): the L2 optimum is antisymmetric."""
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, 50)
    log = Log.from_arrays(
        np.ones((50, 1)), actions, actions + rng.normal(size=50), propensities=np.full(50, 0.5)
    )
    gain = [np.mean((log.rewards - 0.2) * (actions == a)) / 0.5 for a in (0, 1)]

    def loss(t):
        p = 1 / (1 + np.exp(-2 * t))
        return -(gain[0] * p + gain[1] * (1 - p)) + 0.5 * 0.02 * 2 * t**2

    t = minimize_scalar(loss, bounds=(-10, 10), method="bounded", options={"xatol": 1e-10}).x
    theta = maximise(log.contexts, None, objectives.restricted(log, 0.2), l2=0.02, n_actions=2)
    np.testing.assert_allclose(theta[:, 0], [t, -t], atol=1e-3)


def test_a_mask_is_never_left_and_its_outside_never_learnt():
    rng = np.random.default_rng(0)
    mask = rng.random((100, 5)) < 0.6
    mask[:, 0], mask[:, 4] = True, False
    scores = rng.normal(scale=300, size=(100, 5))
    table = softmax(scores, mask)
    assert (table[~mask] == 0).all()
    np.testing.assert_allclose(table.sum(axis=1), 1)
    contexts = rng.normal(size=(100, 2))
    theta = maximise(contexts, mask, objectives.scored(rng.normal(size=(100, 5))), l2=0.01, n_actions=5)
    assert (theta[4] == 0).all()
    assert (theta[:4] != 0).all()


def test_completed_rewards_have_the_true_mean_whatever_the_model_says():
    """E[Γ_i(a)] = mean reward of a at x_i: over draws of logs, for a model that is plainly wrong."""
    rng = np.random.default_rng(11)
    n, k, draws = 50, 4, 3000
    contexts = rng.random((n, 2))
    means = contexts @ rng.normal(size=(2, k))
    mu = rng.dirichlet(np.ones(k) * 3, size=n)
    fitted = rng.normal(scale=3, size=(n, k))
    totals = np.empty((draws, k))
    for draw in range(draws):
        actions = (mu.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
        rewards = means[np.arange(n), actions] + rng.normal(size=n)
        log = Log.from_indices(
            contexts.copy(),
            actions.astype(np.int32),
            rewards,
            tuple(range(k)),
            propensities=mu[np.arange(n), actions],
        )
        totals[draw] = objectives.completed_rewards(log, fitted).mean(axis=0)
    errors = totals.std(axis=0, ddof=1) / np.sqrt(draws)
    assert (np.abs(totals.mean(axis=0) - means.mean(axis=0)) < 4 * errors).all()
    assert (np.abs(fitted.mean(axis=0) - means.mean(axis=0)) > 10 * errors).any()


def test_an_exact_model_leaves_completed_rewards_unchanged_but_for_the_noise():
    log = small_log(6)
    zero = objectives.completed_rewards(log, np.zeros((log.n_rows, K)))
    rows = np.arange(log.n_rows)
    np.testing.assert_allclose(zero[rows, log.actions], log.rewards / log.propensities)
    assert (np.delete(zero.ravel(), rows * K + log.actions) == 0).all()
    exact = np.random.default_rng(0).normal(size=(log.n_rows, K))
    exact[rows, log.actions] = log.rewards
    np.testing.assert_allclose(objectives.completed_rewards(log, exact), exact)
