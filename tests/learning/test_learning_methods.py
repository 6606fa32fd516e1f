"""The offline learners as a whole: better than the log, limits, determinism, and bad input."""

import numpy as np
import pytest

from each import for_each
from sparing.errors import LogError, SettingError
from sparing.learning import METHODS, learn
from sparing.log import Log
from sparing.policies.pi_plus import pi_plus
from sparing.simulation import LinearWorld
from sparing.simulation.logging_policies import draw_log

FIXED = {
    "greedy": {"ridge": 1.0},
    "posterior": {},
    "pessimistic": {},
    "pi-plus": {"ridge": 1.0},
    "opr": {"k": 0.0, "l2": 1e-4},
    "opr-dlm": {"epsilon": 1.0},
    "extrapolation": {"l2": 1e-4},
    "poem": {"clip": np.inf, "penalty": 0.5, "l2": 1e-4},
    "norm-poem": {"clip": np.inf, "penalty": 0.5, "l2": 1e-4},
    "caipwl": {"l2": 1e-4},
    "ipw-logistic": {"l2": 1e-3},
    "boosted": {"rounds": 20},
    "stacked": {"rounds": 20, "ridge": 1.0},
    "auto": {"candidates": ("greedy", "ipw-logistic")},
}


def uniform(seed, rows=1500):
    world = LinearWorld(n_actions=5, n_features=3, noise=1.0, seed=seed)
    return world, draw_log(world, rows=rows, support="never-logged", unsupported=0.0, seed=seed)


def values(world, policy, seed):
    """The policy's and the uniform policy's true mean rewards, and the best there is."""
    contexts = world.contexts(3000, np.random.default_rng([seed, 77]))
    means = world.means(contexts)
    mine = (policy.probabilities(contexts) * means).sum(axis=1).mean()
    return mine, means.mean(), means.max(axis=1).mean()


def test_every_method_is_tested_here():
    assert set(METHODS) == set(FIXED)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_beats_the_policy_that_wrote_the_log(method):
    """With all actions supported, 300 rows an action: most of the way to the best policy."""
    world, log = uniform(0)
    mine, logged, best = values(world, learn(log, method), 0)
    assert mine > logged + 0.75 * (best - logged)
    for seed in (1, 2):
        world, log = uniform(seed)
        mine, logged, best = values(world, learn(log, method, seed=seed, **FIXED[method]), seed)
        assert mine > logged + 0.75 * (best - logged)


@pytest.mark.parametrize("method", METHODS)
def test_one_seed_gives_one_policy(method):
    _, log = uniform(3, rows=200)
    contexts = np.random.default_rng(0).random((50, 3))
    one, other = (learn(log, method, seed=4, **FIXED[method]).probabilities(contexts) for _ in range(2))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("method", METHODS)
def test_one_action_and_one_context_leave_nothing_to_choose(method):
    single = Log.from_arrays(
        np.random.default_rng(0).random((12, 2)),
        ["only"] * 12,
        np.arange(12.0),
        distribution=np.ones((12, 1)),
    )
    np.testing.assert_array_equal(learn(single, method).probabilities(np.ones((3, 2))), np.ones((3, 1)))
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, 200)
    bandit = Log.from_arrays(
        np.ones((200, 1)), actions, actions + 0.1 * rng.normal(size=200), distribution=np.full((200, 2), 0.5)
    )
    # At M = 1 the only policy that π⁺ may take is the logging policy.
    options = {"clip": "inf"} if method == "pi-plus" else {}
    assert learn(bandit, method, **options).probabilities(np.ones((1, 1)))[0, 1] > 0.9


def test_greedy_is_the_ridge_rule():
    _, log = uniform(5, rows=300)
    theta = []
    for action in range(5):
        x, r = log.contexts[log.actions == action], log.rewards[log.actions == action]
        theta.append(np.linalg.solve(x.T @ x + 2.5 * np.eye(3), x.T @ r))
    contexts = np.random.default_rng(1).random((200, 3))
    np.testing.assert_array_equal(
        learn(log, "greedy", ridge=2.5).indices(contexts), (contexts @ np.array(theta).T).argmax(axis=1)
    )


def test_pessimism_without_a_radius_is_greed():
    for seed in range(5):
        _, log = uniform(seed, rows=60)
        contexts = np.random.default_rng(seed).random((300, 3))
        greedy = learn(log, "greedy", ridge=1.0, seed=seed).indices(contexts)
        nearly = learn(log, "pessimistic", ridge=1.0, radius_scale=1e-9, seed=seed).indices(contexts)
        np.testing.assert_array_equal(nearly, greedy)


def test_pessimism_avoids_what_was_hardly_tried():
    """Two equal actions, one tried five times, the other five hundred: the second wins everywhere."""
    rng = np.random.default_rng(0)
    actions = np.repeat([0, 1], [5, 500])
    contexts = rng.random((505, 2))
    log = Log.from_arrays(contexts, actions, contexts @ [1.0, 1.0] + 0.1 * rng.normal(size=505))
    fresh = rng.random((200, 2)) + 0.1
    assert (learn(log, "pessimistic", theta_bound=1.5).indices(fresh) == 1).all()
    assert "noise" in learn(log, "pessimistic").notes[-1]


def test_pessimistic_limits_hold_the_true_means():
    """ρ·width covers with probability 1 − δ, all contexts and actions at once."""
    failures = 0
    for seed in range(100):
        world, log = uniform(seed, rows=80)
        policy = learn(
            log,
            "pessimistic",
            noise=1.0,
            theta_bound=float(np.linalg.norm(world.theta, axis=1).max()),
            delta=0.1,
        )
        contexts = world.contexts(100, np.random.default_rng(seed))
        failures += bool((policy.low(contexts) > world.means(contexts)).any())
    assert failures <= 10


def repeated(seed=0, distinct=30, rows=150):
    """A log whose contexts come again, each time under its own id, with actions that cannot be taken."""
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.ones(4), size=distinct)
    table[:, 1:][rng.random((distinct, 3)) < 0.3] = 0
    table[:, 0] += 0.05
    table /= table.sum(axis=1, keepdims=True)
    which = rng.integers(0, distinct, rows)
    actions = (table[which].cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1)
    return Log.from_arrays(
        rng.random((distinct, 2))[which],
        actions,
        rng.normal(size=rows),
        distribution=table[which],
        context_ids=np.arange(rows),
        action_names=range(4),
    )


def clipped_value(table, log, clip):
    weights = table[np.arange(log.n_rows), log.actions] / log.propensities
    return float((np.minimum(weights, clip) * log.rewards).mean())


@pytest.mark.parametrize("clip", [1.5, 4.0, np.inf])
def test_pi_plus_beats_every_policy_that_it_competes_with(clip):
    log = repeated()
    policy = learn(log, "pi-plus", clip=clip)
    mine, mu = policy.probabilities(log.contexts), log.support.distribution()
    np.testing.assert_allclose(mine.sum(axis=1), 1)
    assert (mine[mu == 0] == 0).all()
    assert (mine[mu > 0] <= clip * mu[mu > 0] + 1e-9).all()
    best = clipped_value(mine, log, clip)
    rng = np.random.default_rng(1)
    _, first, group = np.unique(log.contexts, axis=0, return_index=True, return_inverse=True)
    for _ in range(100):
        rival = np.zeros((len(first), 4))
        for g, row in enumerate(first):
            for share in rng.dirichlet(np.ones(2)):
                left = 1.0
                for action in rng.permutation(4):
                    taken = min(left, clip * mu[row, action] if mu[row, action] > 0 else 0.0)
                    rival[g, action] += share * taken
                    left -= taken
        assert clipped_value(rival[group.reshape(-1)], log, clip) <= best + 1e-9


def test_pi_plus_is_the_closed_form_on_the_log_and_greedy_elsewhere():
    log = repeated(2, distinct=150, rows=100)
    policy = learn(log, "pi-plus", clip="inf", ridge=1.0)
    rows = np.arange(log.n_rows)
    plus = pi_plus(
        Log.from_arrays(
            log.contexts,
            log.actions,
            log.rewards,
            distribution=log.support.distribution(),
            action_names=range(4),
        ),
        "inf",
    )
    mine = policy.probabilities(log.contexts)[rows, log.actions] / log.propensities
    np.testing.assert_allclose(mine, plus.weights)
    fresh = np.random.default_rng(0).random((50, 2))
    greedy = learn(log, "greedy", ridge=1.0).indices(fresh)
    np.testing.assert_array_equal(policy.probabilities(fresh).argmax(axis=1), greedy)
    assert any("greedy action" in note and "supported somewhere" in note for note in policy.notes)


def test_pi_plus_falls_back_on_actions_supported_somewhere_only():
    world = LinearWorld(n_actions=5, n_features=3, noise=1.0, seed=0)
    log = draw_log(world, rows=50, support="never-logged", unsupported=0.4, seed=0)
    policy = learn(log, "pi-plus", ridge=1.0)
    np.testing.assert_array_equal(policy.otherwise.support(np.ones((1, 3)))[0], log.support.mask()[0])


def test_pi_plus_without_a_known_support_spreads_over_what_was_logged_and_says_so():
    log = Log.from_arrays(
        [[0.0], [1.0], [2.0]],
        [0, 1, 1],
        [-1.0, 1.0, -1.0],
        propensities=[0.5, 0.5, 0.5],
        action_names=range(3),
    )
    policy = learn(log, "pi-plus", clip="inf", ridge=1.0)
    np.testing.assert_allclose(policy.probabilities(log.contexts), [[0, 1, 0], [0, 1, 0], [1, 0, 0]])
    assert any("support unknown" in note for note in policy.notes)


def test_poem_with_a_heavy_penalty_varies_less():
    _, log = uniform(6, rows=400)

    def deviation(penalty):
        table = learn(log, "poem", clip=np.inf, penalty=penalty, l2=1e-4).probabilities(log.contexts)
        return (table[np.arange(400), log.actions] / log.propensities * log.rewards).std()

    assert deviation(20.0) < deviation(2.0) < deviation(0.0)


def test_progress_counts_to_its_total():
    _, log = uniform(7, rows=150)
    for method, options in (("greedy", {"score": "support-aware"}), ("opr-dlm", {}), ("pessimistic", {})):
        reports = []
        learn(log, method, progress=lambda *counts, to=reports: to.append(counts), **options)
        done, totals = zip(*reports, strict=True)
        assert list(done) == list(range(1, len(done) + 1))
        assert set(totals) == {len(done)}


def test_without_propensities_the_reward_models_are_left():
    rng = np.random.default_rng(0)
    contexts, actions = rng.random((200, 2)), rng.integers(0, 3, 200)
    log = Log.from_arrays(contexts, actions, actions + 0.1 * rng.normal(size=200))
    for method in METHODS:
        if method in ("greedy", "posterior", "pessimistic", "boosted", "stacked", "auto"):
            assert (learn(log, method).indices(np.ones((2, 2))) == 2).all()
        else:
            with pytest.raises(LogError, match=r"propensities.*greedy or posterior or pessimistic"):
                learn(log, method)
    with pytest.raises(LogError, match="needs propensities"):
        learn(log, "greedy", score="support-aware")


@pytest.mark.parametrize("method", METHODS)
def test_an_empty_log_teaches_nothing(method):
    with pytest.raises(LogError, match="no rows"):
        learn(Log.empty(action_names=["a", "b"], n_features=2), method)


@for_each(
    ("method", "options", "words"),
    [
        ("greed", {}, "Did you mean 'greedy'"),
        (3, {}, "must be one of greedy"),
        ("greedy", {"l2": 1.0}, "no option 'l2'; it takes support, reward_range, folds, ridge, score"),
        ("greedy", {"ridge": 0.0}, "ridge=0.0"),
        ("greedy", {"folds": 1}, "2 or more"),
        ("greedy", {"score": "ips"}, "squared-error, support-aware"),
        ("greedy", {"seed": -1}, "seed=-1"),
        ("greedy", {"reward_range": (1, 0)}, "reward_range=.*the smaller first"),
        ("greedy", {"reward_range": (0, np.inf)}, "reward_range=.*the smaller first"),
        ("greedy", {"reward_range": "wide"}, "reward_range=.*the smaller first"),
        ("pessimistic", {"radius": "round"}, "radius='round'"),
        ("pessimistic", {"radius_scale": 0.0}, "radius_scale"),
        ("pi-plus", {"clip": 0.5}, "1 or more"),
        ("caipwl", {"ridge": -1.0}, "ridge=-1.0"),
        ("poem", {"penalty": -1.0}, "penalty=-1.0"),
        ("opr", {"l2": np.nan}, "l2=nan"),
    ],
)
def test_settings_that_do_not_fit(method, options, words):
    _, log = uniform(0, rows=50)
    with pytest.raises(SettingError, match=words):
        learn(log, method, **options)
