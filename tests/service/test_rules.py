"""Rewards and windows, by a clock that is told the time: what joins its decision, and what comes too late."""

import pytest

from service.building import NAME, Clock, asking, contexts, decide, ran, replayed, reward, same, trial
from service.workers import outcomes
from sparing.service import events
from sparing.service.errors import ServiceError
from sparing.service.messages import Options
from sparing.service.transactions import Activate, ChangeSettings, ExpirePending

X = contexts(3, 1)[0]
ALWAYS = {"learner": "warm_started"}


def story(folder, options, tell, **settings):
    """Tell a story of an experiment; afterwards a replay must give the state it has."""

    async def whole():
        clock = Clock()
        async with trial(folder, options=options, clock=clock, **{**ALWAYS, **settings}) as writer:
            await tell(writer, clock, writer.registry.get(NAME).model)
            same(await replayed(writer), writer.registry.get(NAME).model)

    ran(whole())


async def refused(coroutine):
    with pytest.raises(ServiceError) as caught:
        await coroutine
    return caught.value.status, caught.value.code


def test_a_reward_inside_its_window_counts_and_one_outside_does_not(tmp_path):
    async def tell(writer, clock, model):
        early, late = await decide(writer, X), await decide(writer, X)
        assert early.reward_by.endswith("00:17:40.000000Z")  # a minute after 1,000 s
        clock.seconds += 60
        assert (await reward(writer, early, 1.0)).status == "taken"
        clock.seconds += 0.001
        assert await refused(reward(writer, late, 1.0)) == (409, "expired")
        assert await writer.submit(ExpirePending(NAME)) == 1
        assert await refused(reward(writer, late, 1.0)) == (409, "expired")
        assert model.learner.sets.live.sum() == 1
        assert not model.open
        assert not model.learner.pending_calls(), "what expired is taken out of the learner again"
        assert await outcomes(writer.store, 1) == {"reward": 1, "expired": 1}

    story(tmp_path, Options(reward_window=60.0), tell)


def test_the_first_reward_counts_and_the_same_again_is_a_duplicate(tmp_path):
    async def tell(writer, clock, model):
        one = await decide(writer, X, request_id="order-7")
        taken = await reward(writer, "order-7", 0.25)
        assert (taken.status, taken.seq) == ("taken", 3)
        again = await reward(writer, one, 0.25)
        assert (again.status, again.seq) == ("duplicate", 3)
        assert await refused(reward(writer, one, 0.5)) == (409, "already_rewarded")
        assert await refused(reward(writer, "unheard-of", 0.5)) == (404, "unknown_decision")
        assert model.learner.sets.live.sum() == 1

    story(tmp_path, Options(), tell)


def test_two_rewards_of_one_decision_in_one_group(tmp_path):
    async def tell(writer, clock, model):
        from sparing.service.transactions import Reward

        one = await decide(writer, X)
        works = [Reward(NAME, one.decision_id, value) for value in (0.5, 0.5, 0.75)]
        first, second, third = await writer.submit_all(works)
        assert (first.status, second.status) == ("taken", "duplicate")
        assert third.code == "already_rewarded"

    story(tmp_path, Options(), tell)


def test_several_rewards_add_up_until_the_window_closes(tmp_path):
    async def tell(writer, clock, model):
        one, none = await decide(writer, X), await decide(writer, X)
        for value in (1.0, 0.5, -0.25):
            clock.seconds += 10
            assert (await reward(writer, one, value)).status == "part"
        clock.seconds += 60
        assert await writer.submit(ExpirePending(NAME)) == 2
        found = await writer.store.record(1, "d.needs_reward = 1")
        assert [(each.closed.kind, each.closed.value) for each in found] == [
            ("reward", 1.25),
            ("default", 0.0),
        ]
        assert none.decision_id
        assert model.learner.sets.live.sum() == 2
        total = sum(each.reward_sum for each in await writer.store.totals(1))
        assert total == 1.25

    story(tmp_path, Options(reward_window=60.0, aggregate="sum", default_reward=0.0), tell)


def test_a_reward_before_its_activation_waits_for_it(tmp_path):
    async def tell(writer, clock, model):
        rewarded, silent, never = [
            await writer.submit(asking(x)._replace(active=False)) for x in contexts(4, 3)
        ]
        assert (await reward(writer, rewarded, 1.0)).status == "part"
        assert (await reward(writer, never, 1.0)).status == "part"
        assert model.learner.sets.live.sum() == 0
        assert not model.learner.pending_calls(), "what is deferred counts nowhere"
        await writer.submit(Activate(NAME, rewarded.decision_id))
        await writer.submit(Activate(NAME, rewarded.decision_id))
        assert model.learner.sets.live.sum() == 1
        await writer.submit(Activate(NAME, silent.decision_id))
        assert len(model.learner.pending_calls()) == 1
        clock.seconds += 61
        await writer.submit(ExpirePending(NAME))
        assert await outcomes(writer.store, 1) == {
            "part": 2,
            "activated": 2,
            "reward": 1,
            "expired": 1,
            "void": 1,
        }
        assert model.learner.sets.live.sum() == 1

    story(tmp_path, Options(reward_window=60.0), tell)


def test_a_reward_for_another_action_is_refused_unless_allowed(tmp_path):
    async def tell(writer, clock, model):
        one = await decide(writer, X)
        other = next(label for label in model.labels if label != one.action)
        assert await refused(reward(writer, one, 1.0, other)) == (409, "action_mismatch")
        assert await refused(reward(writer, one, 1.0, "nobody")) == (422, "unknown_action")
        allowing = {**model_options(model), "allow_mismatch": True}
        await writer.submit(ChangeSettings(NAME, events.OPTIONS, allowing, "test"))
        assert (await reward(writer, one, 1.0, other)).status == "taken"
        live = model.learner.sets.live
        assert live[model.numbers[other]] == 1
        assert live[model.numbers[one.action]] == 0
        assert not model.open

    story(tmp_path, Options(), tell)


def model_options(model):
    import msgspec

    return msgspec.to_builtins(model.options)


@pytest.mark.parametrize("learns", [False, True])
def test_a_reward_that_nobody_asked_for_is_kept_and_learnt_if_so_wanted(tmp_path, learns):
    async def tell(writer, clock, model):
        one = await decide(writer, X)
        assert not one.needs_reward
        assert (await reward(writer, one, 1.0)).status == "unasked"
        assert (await reward(writer, one, 1.0)).status == "duplicate"
        assert model.learner.sets.live.sum() == (1 if learns else 0)

    options = Options(learn_unasked=learns)
    story(tmp_path, options, tell, learner="confident", tolerance=50.0, spot_check=0.0)


def test_a_window_that_closed_while_the_service_was_down_is_closed_at_the_next_start(tmp_path):
    async def before():
        clock = Clock()
        async with trial(tmp_path, options=Options(reward_window=60.0), clock=clock, **ALWAYS) as writer:
            for x in contexts(4, 3):
                await decide(writer, x)

    async def after():
        clock = Clock(5000.0)
        async with trial(tmp_path, clock=clock) as writer:
            model = writer.registry.get(NAME).model
            assert len(model.open) == 3
            assert model.has_expired(clock())
            assert await writer.submit(ExpirePending(NAME)) == 3
            same(await replayed(writer), model)

    ran(before())
    ran(after())


def test_a_reward_joins_its_decision_across_a_snapshot_and_a_start(tmp_path):
    from sparing.service import snapshots

    async def before():
        async with trial(tmp_path, options=Options(reward_window=60.0), clock=Clock(), **ALWAYS) as writer:
            answers = [await decide(writer, x) for x in contexts(4, 3)]
            await snapshots.snapshot_here(writer, writer.registry.get(NAME))
            await reward(writer, answers[0], 1.0)
            return answers

    async def after(answers):
        async with trial(tmp_path, clock=Clock(1030.0)) as writer:
            model = writer.registry.get(NAME).model
            assert len(model.open) == 2
            assert (await reward(writer, answers[0], 1.0)).status == "duplicate"
            assert (await reward(writer, answers[1], 0.5)).status == "taken"
            assert model.learner.sets.live.sum() == 2
            same(await replayed(writer), model)

    ran(after(ran(before())))


def test_a_retry_gets_the_stored_answer_and_another_payload_is_refused(tmp_path):
    async def tell(writer, clock, model):
        import hashlib

        def with_hash(x, text):
            work = asking(x, request_id="r1")
            return work._replace(request_hash=hashlib.sha256(text).digest())

        first = await writer.submit(with_hash(X, b"same"))
        await reward(writer, first, 1.0)
        clock.seconds += 500
        assert await writer.submit(with_hash(X, b"same")) == first
        assert await refused(writer.submit(with_hash(X, b"other"))) == (409, "request_conflict")

    story(tmp_path, Options(reward_window=60.0), tell)


def test_a_paused_experiment_answers_not_now(tmp_path):
    async def tell(writer, clock, model):
        one = await decide(writer, X)
        await writer.submit(ChangeSettings(NAME, events.MODE, {"mode": "paused"}, "test"))
        assert await refused(decide(writer, X)) == (503, "paused")
        assert (await reward(writer, one, 1.0)).status == "taken", "rewards are still taken"

    story(tmp_path, Options(), tell)


def test_a_change_is_refused_where_something_else_changed_since(tmp_path):
    async def tell(writer, clock, model):
        seen = model.config_seq
        await writer.submit(ChangeSettings(NAME, events.MODE, {"mode": "shadow"}, "test", seen))
        assert await refused(
            writer.submit(ChangeSettings(NAME, events.MODE, {"mode": "live"}, "test", seen))
        ) == (
            412,
            "changed",
        )

    story(tmp_path, Options(), tell)


def test_a_reward_outside_its_range_changes_nothing(tmp_path):
    async def tell(writer, clock, model):
        one = await decide(writer, X)
        digest = model.digest
        assert await refused(reward(writer, one, 9.0)) == (422, "reward")
        assert model.digest == digest
        assert (await reward(writer, one, 0.5)).status == "taken"

    story(tmp_path, Options(), tell, reward_range=(-5.0, 5.0))
