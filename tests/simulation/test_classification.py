"""Classification as a bandit: splits, scaling, what the noise does to rewards, and the held-out error."""

import numpy as np
import pytest

from sparing import Log, moful, simulate
from sparing.errors import SettingError
from sparing.policies.policy import GreedyPolicy
from sparing.simulation import LOGGING, ClassificationWorld, draw_log
from sparing.simulation.datasets import Dataset
from sparing.simulation.worlds import prepared

SURE = 4.5
"""Standard errors: a normal estimate strays farther once in 150,000 checks."""


def toy(rows=400, *, seed=0, columns=4):
    """Three classes; the last column never varies."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, rows).astype(np.int32)
    features = rng.normal(size=(rows, columns)) + 3 * np.eye(3, columns)[labels]
    features[:, -1] = 7.5
    return Dataset("toy", features, labels, ("red", "green", "blue"), "made here")


class Truth:
    """Answers the labels of a world's held-out rows, but for the first few, which it gets wrong."""

    def __init__(self, world, wrong=0):
        self.world, self.wrong = world, wrong

    def indices(self, contexts, rng=None):
        rows = self.world.held_out_rows
        np.testing.assert_array_equal(contexts, self.world.features[rows])
        return (self.world.labels[rows] + (np.arange(len(rows)) < self.wrong)) % 3


@pytest.mark.parametrize("rows", [400, 1797])
def test_the_split_is_60_25_15_and_parts_are_disjoint(rows):
    world = ClassificationWorld(toy(rows), seed=3)
    parts = (world.log_rows, world.live_rows, world.held_out_rows)
    for part, share in zip(parts, (0.60, 0.25, 0.15), strict=True):
        assert abs(len(part) - share * rows) <= 1
    assert sorted(np.concatenate(parts).tolist()) == list(range(rows))


def test_the_papers_split_is_70_30_and_leaves_nothing_to_score_on():
    world = ClassificationWorld(toy(), split="paper")
    assert (len(world.log_rows), len(world.live_rows), len(world.held_out_rows)) == (280, 120, 0)
    with pytest.raises(SettingError, match="split='default'"):
        world.error(Truth(world))


def test_the_split_is_random_and_follows_the_seed():
    first, again, other = (ClassificationWorld(toy(), seed=seed).log_rows for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert set(first.tolist()) != set(other.tolist())


def test_an_unknown_split_is_refused():
    with pytest.raises(SettingError, match=r"split='half'.*default, paper"):
        ClassificationWorld(toy(), split="half")


def test_contexts_are_scaled_joined_by_a_constant_and_of_unit_norm():
    world = ClassificationWorld(toy())
    np.testing.assert_allclose(np.linalg.norm(world.features, axis=1), 1)
    assert world.n_features == 5
    assert (world.features[:, -1] > 0).all()
    scaled = world.features / world.features[:, -1:]
    np.testing.assert_allclose(scaled[:, :3].min(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled[:, :3].max(axis=0), 1)
    raw = toy().features[:, 0]
    np.testing.assert_allclose(scaled[:, 0], (raw - raw.min()) / (raw.max() - raw.min()))


def test_constant_columns_survive_scaling():
    world = ClassificationWorld(toy())
    assert np.isfinite(world.features).all()
    assert (world.features[:, 3] == 0).all()
    np.testing.assert_allclose(prepared(np.full((3, 2), -4.0)), [[0, 0, 1]] * 3)


def test_without_noise_the_right_class_earns_1_and_any_other_0():
    world = ClassificationWorld(toy())
    stream = world.live_stream(None, np.random.default_rng(0))
    labels = world.labels[stream.context_ids]
    np.testing.assert_array_equal(stream.means, np.eye(3)[labels])
    np.testing.assert_array_equal(stream.rewards(labels), 1)
    np.testing.assert_array_equal(stream.rewards((labels + 1) % 3), 0)


def test_noisy_rewards_are_bernoulli_three_quarters_for_the_right_class_and_one_quarter_for_others():
    """Half of the time the truth, else a fair coin: ½·1 + ½·½ and ½·0 + ½·½."""
    world = ClassificationWorld(toy(), noisy=True)
    stream = world.live_stream(30_000, np.random.default_rng(0))
    labels = world.labels[stream.context_ids]
    for actions, mean in ((labels, 0.75), ((labels + 2) % 3, 0.25)):
        rewards = stream.rewards(actions)
        assert set(rewards) == {0.0, 1.0}
        assert abs(rewards.mean() - mean) < SURE * np.sqrt(0.75 * 0.25 / len(rewards))
        np.testing.assert_array_equal(stream.means[np.arange(len(rewards)), actions], mean)


def test_the_log_is_drawn_from_the_rows_to_log():
    world = ClassificationWorld(toy(), seed=3)
    log = draw_log(world, support="per-context", unsupported=0.3, seed=1)
    assert log.action_names == ("red", "green", "blue")
    np.testing.assert_array_equal(log.context_ids, world.log_rows)
    np.testing.assert_array_equal(log.contexts, world.features[log.context_ids])
    np.testing.assert_array_equal(log.rewards, log.actions == world.labels[log.context_ids])
    assert draw_log(world, rows=7).n_rows == 7
    for rows in (241, -1):
        with pytest.raises(SettingError, match=f"rows={rows}; toy has 0 to 240"):
            draw_log(world, rows=rows)


@pytest.mark.parametrize("support", LOGGING)
def test_every_logging_policy_works_here(support):
    log = draw_log(ClassificationWorld(toy(2000), noisy=True), support=support, unsupported=0.34, seed=1)
    assert log.support.sizes.min() >= 1
    assert 0.1 < log.support.unsupported_share <= 0.4


def test_live_rows_come_once_each_before_any_comes_again():
    world = ClassificationWorld(toy(), seed=3)
    stream = world.live_stream(250, np.random.default_rng(0))
    for begin in (0, 100):
        part = stream.context_ids[begin : begin + 100]
        assert sorted(part.tolist()) == sorted(world.live_rows.tolist())
    assert set(stream.context_ids[200:].tolist()) <= set(world.live_rows.tolist())
    assert (stream.context_ids[:100] != stream.context_ids[100:200]).any()
    assert len(world.live_stream(None, np.random.default_rng(0))) == 100
    assert len(world.live_stream(0, np.random.default_rng(0))) == 0


def test_replaying_a_log_plays_its_rows():
    world = ClassificationWorld(toy(), seed=3)
    log = draw_log(world, rows=50)
    stream = world.live_stream(None, np.random.default_rng(0), log)
    assert sorted(stream.context_ids.tolist()) == sorted(log.context_ids.tolist())
    np.testing.assert_array_equal(stream.contexts, world.features[stream.context_ids])


@pytest.mark.parametrize("ids", [None, [str(i) for i in range(50)], [-1, *range(49)], [*range(49), 400]])
def test_a_log_that_does_not_number_rows_of_this_world_cannot_be_replayed(ids):
    world = ClassificationWorld(toy(), seed=3)
    drawn = draw_log(world, rows=50)
    log = Log.from_indices(
        drawn.contexts.copy(), drawn.actions.copy(), drawn.rewards.copy(), drawn.action_names, context_ids=ids
    )
    with pytest.raises(SettingError, match="context ids do not number rows of toy"):
        world.live_stream(5, np.random.default_rng(0), log)


def test_an_empty_log_cannot_be_replayed():
    world = ClassificationWorld(toy(), seed=3)
    with pytest.raises(SettingError, match="no rows to play"):
        world.live_stream(5, np.random.default_rng(0), draw_log(world, rows=0))


@pytest.mark.parametrize("wrong", [0, 12, 60])
def test_error_is_the_share_of_held_out_rows_that_a_policy_gets_wrong(wrong):
    world = ClassificationWorld(toy(), seed=3)
    assert len(world.held_out_rows) == 60
    assert world.error(Truth(world, wrong)) == pytest.approx(wrong / 60)


def test_a_policy_that_always_says_one_class_errs_on_the_others():
    world = ClassificationWorld(toy(), seed=3)
    always = GreedyPolicy(world.action_names, np.zeros((3, 5)), np.array([2, 0, 1]))
    assert world.error(always) == pytest.approx((world.labels[world.held_out_rows] != 1).mean())


def test_a_learner_that_plays_learns_the_classes():
    """Three well separated classes: chance errs on two thirds, the learner on far less."""
    world = ClassificationWorld(toy(2000), seed=3)
    learner = moful(actions=world.action_names, n_features=5, reward_range=(0, 1), radius_scale=0.2)
    before = world.error(learner.policy())
    trace = simulate(learner, world, rounds=None, seed=1)
    assert len(trace) == 500
    assert set(trace.losses) <= {0.0, 1.0}
    assert before > 0.5
    assert world.error(learner.policy()) < 0.2
