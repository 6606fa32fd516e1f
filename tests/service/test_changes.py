"""Alarms of the service: on the page, in the metrics, the same after a replay, and of nothing while nothing changes."""

import numpy as np
import pytest

from service.building import LOG, NAME, WORLD, Clock, asking, contexts, ran, replayed, same, trial
from sparing.service import maintenance, snapshots
from sparing.service.dashboard import overview
from sparing.service.messages import Options
from sparing.service.transactions import Reward


async def rounds(writer, seed, count, *, shift=0.0):
    """Rounds with all rewards asked for, each larger than the world's by a shift."""
    rng = np.random.default_rng(seed)
    drawn = contexts(seed, count)
    answers = await writer.submit_all([asking(x) for x in drawn])
    await writer.submit_all(
        [
            Reward(
                NAME,
                one.decision_id,
                float(x @ WORLD.theta[LOG.action_names.index(one.action)] + rng.normal(0, 0.5) + shift),
            )
            for x, one in zip(drawn, answers, strict=True)
        ]
    )


def test_a_change_is_said_and_replayed(tmp_path):
    async def story():
        clock = Clock()
        async with trial(tmp_path, options=Options(explore=1.0), clock=clock) as writer:
            experiment = writer.registry.get(NAME)

            async def alarms():
                page = await overview(writer, experiment, now=clock())
                return [one.text for one in page.look if "world has changed" in one.text]

            for seed in range(1, 7):
                await rounds(writer, seed, 100)
                clock.seconds += 60
            assert await alarms() == []
            changed = clock.seconds
            for seed in range(7, 11):
                await rounds(writer, seed, 100, shift=1.5)
                clock.seconds += 60
            (first, *_) = await alarms()
            assert "all actions together are higher" in first
            (found, *_) = experiment.model.learner.alarms
            assert abs(found.since / 1e6 - changed) <= 120
            twin = await replayed(writer)
            same(twin, experiment.model)
            one, other = experiment.model.learner.watch.state(), twin.learner.watch.state()
            np.testing.assert_array_equal(one["rewards"], other["rewards"])
            np.testing.assert_array_equal(one["reward_marks"], other["reward_marks"])
            await snapshots.snapshot_here(writer, experiment)
            assert (await replayed(writer)).learner.alarms == experiment.model.learner.alarms
            (verdict,) = await maintenance.verify(writer.store)
            assert not verdict.faults

    ran(story())


@pytest.mark.parametrize("window", [None, 50.0], ids=["open", "expired"])
def test_rewards_that_did_not_come_are_not_compared(tmp_path, window):
    async def story():
        clock = Clock()
        options = Options(explore=1.0, reward_window=window, default_reward=None if window is None else 9.0)
        async with trial(tmp_path, options=options, clock=clock) as writer:
            await writer.submit_all([asking(x) for x in contexts(1, 50)])
            assert not writer.registry.get(NAME).model.learner.watch.rewards.any()
            await rounds(writer, 2, 30)
            assert writer.registry.get(NAME).model.learner.watch.begun
            assert writer.registry.get(NAME).model.learner.watch.rewards[-1, 0] == 30

    ran(story())
