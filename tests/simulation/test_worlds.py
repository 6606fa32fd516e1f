"""Worlds: what a stream pays, whose luck it is, and which contexts a replayed log brings back."""

import numpy as np
import pytest
from scipy import stats

from sparing import Log, eps_moful_ips, moful, most_logged, simulate, warm_started
from sparing.errors import SettingError
from sparing.simulation import LinearWorld, Stream, draw_log
from sparing.simulation.worlds import NOT_LOGGED

ROWS = 40_000
SURE = 4.5
"""Standard errors: a normal estimate strays farther once in 150,000 checks."""


def rng(seed=0):
    return np.random.default_rng(seed)


def without_ids(log, ids=None):
    return Log.from_indices(
        log.contexts.copy(), log.actions.copy(), log.rewards.copy(), log.action_names, context_ids=ids
    )


def test_linear_rewards_have_the_linear_mean_and_the_stated_deviation():
    world = LinearWorld(n_actions=3, n_features=2, noise=0.7, seed=4)
    stream = world.log_stream(ROWS, rng())
    np.testing.assert_allclose(stream.means, np.einsum("nd,kd->nk", stream.contexts, world.theta))
    actions = rng(1).integers(0, 3, ROWS)
    errors = stream.rewards(actions) - stream.means[np.arange(ROWS), actions]
    assert abs(errors.mean()) < SURE * 0.7 / np.sqrt(ROWS)
    low, high = stats.chi2.ppf([1e-5, 1 - 1e-5], ROWS) / ROWS
    assert low < np.mean(errors**2) / 0.7**2 < high
    assert abs(np.corrcoef(errors, stream.contexts[:, 0])[0, 1]) < SURE / np.sqrt(ROWS)


def test_contexts_are_uniform_on_the_cube_and_parameters_standard_normal():
    world = LinearWorld(n_actions=500, n_features=4, seed=2)
    assert stats.kstest(world.contexts(5000, rng()).ravel(), "uniform").pvalue > 1e-4
    assert stats.kstest(world.theta.ravel(), "norm").pvalue > 1e-4


def test_without_noise_a_reward_is_its_mean():
    stream = LinearWorld(n_actions=2, n_features=3, noise=0).log_stream(50, rng())
    np.testing.assert_array_equal(stream.rewards(np.ones(50, dtype=int)), stream.means[:, 1])


def test_binary_rewards_are_bernoulli_with_the_stated_mean():
    means = np.tile([0.75, 0.25], (ROWS, 1))
    stream = Stream(np.zeros((ROWS, 1)), means, rng(3).random(ROWS), binary=True)
    for action, mean in enumerate([0.75, 0.25]):
        rewards = stream.rewards(np.full(ROWS, action))
        assert set(rewards) == {0.0, 1.0}
        assert abs(rewards.mean() - mean) < SURE * np.sqrt(mean * (1 - mean) / ROWS)


@pytest.mark.parametrize("binary", [False, True])
def test_a_reward_asked_for_alone_is_the_reward_of_its_row(binary):
    means = rng(5).random((30, 4))
    stream = Stream(np.zeros((30, 1)), means, rng(6).random(30), binary=binary)
    actions = rng(7).integers(0, 4, 30)
    assert [stream.reward(t, a) for t, a in enumerate(actions)] == stream.rewards(actions).tolist()


def test_an_offset_raises_every_mean_by_as_much():
    plain = LinearWorld(n_actions=4, n_features=3, seed=8)
    raised = LinearWorld(n_actions=4, n_features=3, seed=8, offset=5)
    contexts = raised.contexts(200, rng())
    assert (contexts[:, -1] == 1).all()
    np.testing.assert_allclose(raised.means(contexts), plain.means(contexts) + 5)


def test_given_parameters_are_the_worlds_own_and_are_copied():
    theta = np.arange(6.0).reshape(2, 3)
    world = LinearWorld(theta=theta)
    theta[:] = 0
    assert world.action_names == (0, 1)
    assert world.n_features == 3
    np.testing.assert_array_equal(world.means(np.eye(3)), [[0, 3], [1, 4], [2, 5]])


def test_contexts_of_a_pool_come_again_and_count_as_not_logged():
    pool = np.arange(6.0).reshape(3, 2)
    world = LinearWorld(theta=np.eye(2), pool=pool, action_names=["left", "right"])
    assert world.action_names == ("left", "right")
    stream = world.live_stream(300, rng())
    np.testing.assert_array_equal(np.unique(stream.contexts, axis=0), pool)
    np.testing.assert_array_equal(stream.means, stream.contexts)
    assert (stream.context_ids == NOT_LOGGED).all()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"n_actions": 0}, "n_actions=0"),
        ({"n_features": 0}, "n_features=0"),
        ({"noise": -1.0}, r"noise=-1\.0"),
        ({"noise": np.inf}, "noise=inf"),
        ({"offset": np.nan}, "offset=nan"),
        ({"theta": np.ones(3)}, r"theta of shape \(3,\)"),
        ({"theta": np.ones((0, 3))}, r"theta of shape \(0, 3\)"),
        ({"theta": [[1.0, np.nan]]}, "finite"),
        ({"n_features": 3, "pool": np.ones((4, 2))}, r"pool of shape \(4, 2\).*3 features"),
        ({"n_features": 3, "pool": np.ones((0, 3))}, r"pool of shape \(0, 3\)"),
        ({"n_actions": 3, "action_names": "ab"}, "2 action names; theta has 3"),
    ],
)
def test_a_world_that_cannot_be_is_refused(settings, complaint):
    with pytest.raises(SettingError, match=complaint):
        LinearWorld(**settings)


def test_a_linear_world_must_be_told_how_long():
    world = LinearWorld(n_actions=2, n_features=2)
    with pytest.raises(SettingError, match="rounds=None"):
        world.live_stream(None, rng())
    with pytest.raises(SettingError, match="rows=None"):
        draw_log(world)
    with pytest.raises(SettingError, match="rows=-1"):
        draw_log(world, rows=-1)


def test_one_seed_gives_two_learners_the_same_rounds_and_the_same_luck():
    """Two learners that choose alike earn alike; their streams are the same to the last bit."""
    world = LinearWorld(n_actions=3, n_features=2, seed=1)
    log = draw_log(world, rows=100, seed=1)
    settings = {"noise": 2.0, "theta_bound": 3.0, "context_bound": 1.5}
    seen = []

    class Watched:
        compiled = False  # compiled code would call neither decide nor update

        def __init__(self, learner):
            self.learner = learner

        def __getattr__(self, name):
            return getattr(self.learner, name)

        def decide(self, x, context_id):
            self.x = x
            return self.learner.decide(x, context_id=context_id)

        def update(self, decision, reward):
            seen.append((*self.x, reward - self.x @ world.theta[decision.action]))
            self.learner.update(decision, reward)

    first = simulate(Watched(moful(log, **settings)), world, rounds=80, seed=9)
    second = simulate(Watched(warm_started(log, **settings)), world, rounds=80, seed=9)
    assert (first.actions != second.actions).any(), "different learners, or this test shows nothing"
    assert len(seen) == 160
    np.testing.assert_allclose(seen[:80], seen[80:], rtol=0, atol=1e-12)
    other = simulate(moful(log, **settings), world, rounds=80, seed=10)
    assert (other.losses != first.losses).any(), "another seed brings other rounds"


def test_replaying_a_log_brings_its_contexts_and_ids_once_each_in_random_order():
    world = LinearWorld(n_actions=3, n_features=2, seed=1)
    log = draw_log(world, rows=500, seed=3)
    stream = world.live_stream(500, rng(), log)
    np.testing.assert_array_equal(np.sort(stream.context_ids), np.arange(500))
    np.testing.assert_array_equal(stream.contexts, log.contexts[stream.context_ids])
    np.testing.assert_allclose(stream.means, log.contexts[stream.context_ids] @ world.theta.T)
    assert abs(stats.spearmanr(stream.context_ids, np.arange(500)).statistic) < SURE / np.sqrt(500)
    shorter = world.live_stream(50, rng(), log)
    assert len(set(shorter.context_ids.tolist())) == 50


def test_replayed_contexts_meet_new_luck():
    """The correlation of old and new errors in the same contexts is that of independent numbers."""
    world = LinearWorld(n_actions=1, n_features=2, seed=1)
    log = draw_log(world, rows=4000, seed=3)
    stream = world.live_stream(4000, rng(), log)
    old = (log.rewards - log.contexts @ world.theta[0])[stream.context_ids]
    assert abs(np.corrcoef(old, stream.draws)[0, 1]) < SURE / np.sqrt(4000)


def test_when_the_log_runs_out_fresh_contexts_follow_that_are_in_no_log():
    world = LinearWorld(n_actions=3, n_features=2, seed=1)
    log = draw_log(world, rows=30, seed=3)
    stream = world.live_stream(100, rng(), log)
    assert sorted(stream.context_ids[:30]) == list(range(30))
    assert (stream.context_ids[30:] == NOT_LOGGED).all()
    known = {x.tobytes() for x in log.contexts}
    assert all(x.tobytes() in known for x in stream.contexts[:30])
    assert not any(x.tobytes() in known for x in stream.contexts[30:])
    assert len({x.tobytes() for x in stream.contexts[30:]}) == 70
    np.testing.assert_allclose(stream.means, stream.contexts @ world.theta.T)


def test_a_log_without_ids_is_replayed_by_row_number():
    world = LinearWorld(n_actions=3, n_features=2, seed=1)
    log = without_ids(draw_log(world, rows=30, seed=3))
    stream = world.live_stream(30, rng(), log)
    np.testing.assert_array_equal(stream.contexts, log.contexts[stream.context_ids])


def test_a_log_whose_ids_are_words_is_replayed_too():
    world = LinearWorld(n_actions=3, n_features=2, seed=1)
    names = [f"visit {i}" for i in range(30)]
    log = without_ids(draw_log(world, rows=30, seed=3), ids=names)
    stream = world.live_stream(35, rng(), log)
    assert sorted(stream.context_ids[:30].tolist()) == sorted(names)
    assert set(stream.context_ids[30:].tolist()) == {str(NOT_LOGGED)}
    rows = [names.index(name) for name in stream.context_ids[:30]]
    np.testing.assert_array_equal(stream.contexts[:30], log.contexts[rows])


@pytest.mark.parametrize("words", [False, True])
def test_log_beats_knows_a_replayed_context_by_its_id_and_no_fresh_one(words):
    """Thresholds are raised beyond any optimism: the rule fires in every logged round and in no other."""
    world = LinearWorld(n_actions=3, n_features=2, noise=0.1, seed=1)
    drawn = draw_log(world, rows=60, seed=3)
    ids = [f"visit {i}" for i in range(60)] if words else np.arange(60)
    log = Log.from_indices(
        drawn.contexts.copy(),
        drawn.actions.copy(),
        np.full(60, 1e6),
        drawn.action_names,
        support=drawn.support,
        context_ids=ids,
    )
    given = {"noise": 0.1, "theta_bound": 3.0, "context_bound": 1.5}
    learner = eps_moful_ips(log, supported=most_logged(0), **given)
    trace = simulate(learner, world, rounds=100, stream="in-log", log=log)
    assert trace.reason_counts() == {"log-beats": 60, "explore": 40}
    fresh = simulate(eps_moful_ips(log, supported=most_logged(0), **given), world, rounds=100)
    assert fresh.reason_counts() == {"explore": 100}
