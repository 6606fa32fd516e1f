"""State(s) is the fold of the events up to s: from the base, from a snapshot, by another worker; and decisions follow from it."""

import asyncio

import msgspec
import numpy as np
import pytest

from service.building import (
    LEARNERS,
    NAME,
    Clock,
    asking,
    contexts,
    decide,
    live,
    ran,
    replayed,
    reward,
    same,
    trial,
)
from service.workers import outcomes
from sparing.service import events, maintenance, state_files
from sparing.service.errors import ServiceError
from sparing.service.messages import Options
from sparing.service.registry import ExperimentRegistry
from sparing.service.transactions import Activate, ChangeSettings, ExpirePending

GROWING = {"certified", "warm_started", "moful"}
GROWS = {"economical", "confident", "certified", "warm_started", "moful", "linucb", "lints"}
OPTIONS = Options(reward_window=60.0, holdout=0.1, check=0.1, explore=0.05)


async def eventful(writer, clock, learner):
    """Everything that can happen to an experiment."""
    model = writer.registry.get(NAME).model
    await live(writer, 1, 60, late=7, missing=0.2)
    clock.seconds += 30
    deferred = [asking(x)._replace(active=False) for x in contexts(2, 6)]
    answers = [await writer.submit(one) for one in deferred]
    for answer in answers[:4]:
        await reward(writer, answer, 0.5)
    for answer in answers[:3]:
        await writer.submit(Activate(NAME, answer.decision_id))
    clock.seconds += 45  # the first ones expire, the deferred do not
    assert await writer.submit(ExpirePending(NAME)) > 0
    await writer.submit(ChangeSettings(NAME, events.MODE, {"mode": "shadow"}, "test"))
    await live(writer, 3, 15, late=2)
    await writer.submit(ChangeSettings(NAME, events.MODE, {"mode": "live"}, "test"))
    changed = msgspec.structs.replace(
        OPTIONS,
        learn_unasked=True,
        allow_mismatch=True,
        default_reward=0.1,
        aggregate="first",
        most_open=40,
    )
    await writer.submit(ChangeSettings(NAME, events.OPTIONS, msgspec.to_builtins(changed), "test"))
    for x in contexts(4, 40):
        answer = await decide(writer, x, eligible=list(model.labels[:4]))
        if np.sum(x) > 1.5:
            played = None if answer.action == model.labels[1] else model.labels[1]
            await reward(writer, answer, float(x[0]), played)
    if learner in GROWS:
        await writer.submit(ChangeSettings(NAME, events.ACTION, {"label": 99, "features": None}, "test"))
    await writer.submit(ChangeSettings(NAME, events.RETIRE, {"label": model.labels[0]}, "test"))
    await live(writer, 5, 40, late=3, missing=0.3)
    clock.seconds += 120
    await writer.submit(ExpirePending(NAME))
    await live(writer, 6, 30, late=5)
    for x in contexts(8, 2):
        await writer.submit(asking(x)._replace(active=False))


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_replay_and_a_snapshot_give_the_state_bit_for_bit(tmp_path, learner):
    async def story():
        clock = Clock()
        growing = {"growing": True} if learner in GROWING else {}
        async with trial(tmp_path, learner, OPTIONS, clock=clock, **growing) as writer:
            await eventful(writer, clock, learner)
            model = writer.registry.get(NAME).model
            assert model.open, "some calls are open"
            counts = await outcomes(writer.store, 1)
            assert {events.REWARD, events.EXPIRED, events.DEFAULT, events.PARTIAL, events.ACTIVATED} <= set(
                counts
            )
            same(await replayed(writer), model)
            state_files.save(model, tmp_path / "middle.state")
            twin = state_files.load(tmp_path / "middle.state", 1, writer.store.salt)
            same(twin, model)
            before = model.seq
            await live(writer, 7, 40, late=2, missing=0.1)
            async for some in writer.store.events(1, before, await writer.store.last_seq()):
                for event in some:
                    twin.apply(event)
            same(twin, model)
            (verdict,) = await maintenance.verify(writer.store)
            assert not verdict.faults
            assert verdict.recomputed == verdict.decisions > 200
            assert verdict.digest == model.digest.hex()

    ran(story())


def test_another_order_gives_another_state(tmp_path):
    async def story():
        async with trial(tmp_path) as writer:
            model = writer.registry.get(NAME).model
            state_files.save(model, tmp_path / "before.state")
            since = model.seq
            answers = [await decide(writer, x) for x in contexts(1, 30)]
            for place, answer in enumerate(one for one in answers if one.needs_reward):
                await reward(writer, answer, 0.1 * place)
            found = []
            async for some in writer.store.events(1, since, await writer.store.last_seq()):
                found += some
            twins = [state_files.load(tmp_path / "before.state", 1, writer.store.salt) for _ in range(2)]
            rewards = [place for place, event in enumerate(found) if isinstance(event, events.OutcomeEvent)]
            swapped = list(found)
            first, last = rewards[0], rewards[-1]
            swapped[first], swapped[last] = swapped[last], swapped[first]
            for event, other in zip(found, swapped, strict=True):
                twins[0].apply(event)
                twins[1].apply(other)
            same(twins[0], model)
            assert twins[1].digest != model.digest
            assert twins[1].learner.digest() != model.learner.digest()

    ran(story())


def test_verify_finds_a_decision_that_was_changed(tmp_path):
    async def story():
        async with trial(tmp_path) as writer:
            await live(writer, 1, 30)
            await writer.store.exclusive(
                ("update decisions set value = value + 1e-9 where seq = $1", [(10,)])
            )
            await writer.store.exclusive(("update totals set decisions = decisions + 1", [()]))
            (verdict,) = await maintenance.verify(writer.store)
            assert any("decision 10: value" in fault for fault in verdict.faults)
            assert any("totals" in fault for fault in verdict.faults)

    ran(story())


def test_verify_accepts_intervals_of_one_deviation_and_no_others(tmp_path):
    """Releases before 0.3 recorded them."""
    scaled = "update decisions set low = value - $1 * (high - low) / 2, high = value + $1 * (high - low) / 2 where seq = $2"

    async def story():
        async with trial(tmp_path) as writer:
            await live(writer, 1, 30)
            x, model = contexts(5, 1)[0], writer.registry.get(NAME).model
            with model.learner.intervals_of_0_2():
                answer = await decide(writer, x)
            wide = (answer.high - answer.low) / 2
            await live(writer, 2, 10)
            assert not (await maintenance.verify(writer.store))[0].faults
            assert (await decide(writer, x)).high - answer.value > 1.5 * wide
            await writer.store.exclusive((scaled, [(1.1, answer.model_seq + 1)]))
            (verdict,) = await maintenance.verify(writer.store)
            assert [fault.split(" is ")[0] for fault in verdict.faults] == [
                f"decision {answer.model_seq + 1}: {name}" for name in ("low", "high")
            ]

    ran(story())


def test_verify_finds_a_gap(tmp_path):
    async def story():
        async with trial(tmp_path) as writer:
            answers = await live(writer, 1, 10)
            unasked = next(one.model_seq + 1 for one in answers if not one.needs_reward)
            await writer.store.exclusive(("delete from decisions where seq = $1", [(unasked,)]))
            (verdict,) = await maintenance.verify(writer.store)
            assert any("without gaps" in fault for fault in verdict.faults)

    ran(story())


def test_rewards_that_come_late_do_not_multiply_calls(tmp_path):
    """A call that is open counts: at a delay of 1,000 rounds no more than half as many calls again are made."""

    async def calls(folder, late):
        async with trial(folder, "confident", Options(), spot_check=0.0, tolerance=0.2) as writer:
            answers = await live(writer, 11, 1500, late=late)
            return sum(answer.needs_reward for answer in answers)

    at_once, delayed = ran(calls(tmp_path / "a", 0)), ran(calls(tmp_path / "b", 1000))
    assert at_once > 10
    assert delayed <= 1.5 * at_once


def test_groups_that_fail_leave_no_trace_in_the_state(tmp_path):
    """A full disk refuses a whole group; the state is then what the store says, and goes on where there is room."""

    async def story():
        async with trial(tmp_path, "confident", Options()) as writer:
            await live(writer, 1, 20)
            driver = writer.store.driver
            pages = driver._writer.pragma("page_count")
            driver._writer.pragma("max_page_count", pages)
            problems = []
            for x in contexts(2, 400):
                try:
                    await decide(writer, x, request_id="r" * 200 + str(x[0]))
                except ServiceError as problem:
                    problems.append(problem)
                    break
            assert [problem.status for problem in problems] == [503]
            with pytest.raises(ServiceError, match="at the moment"):
                await decide(writer, contexts(3, 1)[0])
            driver._writer.pragma("max_page_count", 2**30)
            await asyncio.sleep(1.1)
            await live(writer, 4, 20)
            same(await replayed(writer), writer.registry.get(NAME).model)
            (verdict,) = await maintenance.verify(writer.store)
            assert not verdict.faults

    ran(story())


def test_a_mistake_in_the_writer_is_answered_and_forgotten(tmp_path, monkeypatch):
    async def story():
        async with trial(tmp_path) as writer:
            await live(writer, 1, 10)
            write = writer.store.write

            async def fails(rows):
                raise RuntimeError("a mistake")

            monkeypatch.setattr(writer.store, "write", fails)
            with pytest.raises(ServiceError) as caught:
                await decide(writer, contexts(2, 1)[0])
            assert caught.value.status == 503
            monkeypatch.setattr(writer.store, "write", write)
            await live(writer, 3, 10)
            same(await replayed(writer), writer.registry.get(NAME).model)

    ran(story())


def test_a_group_waits_for_no_one_else(tmp_path):
    """One request that is refused does not fail those it is grouped with."""

    async def story():
        async with trial(tmp_path) as writer:
            good, bad = asking(contexts(1, 1)[0]), asking([1.0])
            twice = asking(contexts(2, 1)[0], request_id="once")
            other = twice._replace(decision_id=events.new_id())
            found = await writer.submit_all([good, bad, twice, other, good._replace(experiment="nowhere")])
            assert [getattr(one, "status", 200) for one in found] == [200, 422, 200, 200, 404]
            assert found[2].decision_id == found[3].decision_id
            assert await writer.store.last_seq() == 3

    ran(story())


def test_a_base_that_was_changed_is_refused(tmp_path):
    async def story():
        async with trial(tmp_path) as writer:
            await live(writer, 1, 5)
            (base,) = (tmp_path / "bases").iterdir()
            base.write_bytes(base.read_bytes()[:-1] + b"x")
            with pytest.raises(Exception, match="changed or damaged"):
                await ExperimentRegistry(writer.store).catch_up(await writer.store.last_seq())

    ran(story())


def test_times_never_go_back(tmp_path):
    async def story():
        clock = Clock(2000.0)
        async with trial(tmp_path, clock=clock) as writer:
            await decide(writer, contexts(1, 1)[0])
            clock.seconds = 1000.0
            await decide(writer, contexts(1, 1)[0])
            found = await writer.store.record(1, "true" if writer.store.driver.kind != "SQLite" else "1")
            times = [one.decision.ts for one in found]
            assert times == sorted(times) == [2000 * events.SECOND] * 2

    ran(story())


def test_verify_sees_one_moment_while_others_write(stores):
    """A decision that comes between two reads of a verification is not a fault."""

    async def whole():
        async with trial(None, store=stores()) as writer:
            await live(writer, 1, 20)
            store = stores()
            async with store.reading():
                plain, come = store.totals, []

                async def late(number):
                    come.append(await decide(writer, contexts(9, 1)[0]))
                    return await plain(number)

                store.totals = late
                (verdict,) = await maintenance.verify(store)
            assert come
            assert verdict.faults == []
            assert verdict.decisions == 20

    ran(whole())
