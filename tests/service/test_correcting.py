"""Corrections: the learner is what the right rewards give, everything stored agrees, and repeating one changes nothing."""

import contextlib

import httpx
import numpy as np
import pytest

import sparing
from service.building import (
    LEARNERS,
    LOG,
    NAME,
    Clock,
    contexts,
    decide,
    live,
    ran,
    replayed,
    reward,
    same,
    trial,
)
from service.serving import PLAIN, added_key, made, running
from service.test_importing import OTHER, given
from service.test_replay import GROWING, OPTIONS, eventful
from service.workers import working
from sparing.online.files import parts
from sparing.service import Client, ServiceProblem, erasure, events, experiments, maintenance
from sparing.service.corrections import correct
from sparing.service.errors import ServiceError
from sparing.service.export import export
from sparing.service.messages import Options
from sparing.service.server import ServerSettings
from sparing.service.transactions import ExpirePending

WRONG, RIGHT = 1e40, 0.25


def only(writer):
    return writer.registry.get(NAME)


async def asked(writer, seed=1):
    """A decision that waits for its reward."""
    for x in contexts(seed, 200):
        answer = await decide(writer, x)
        if answer.needs_reward:
            return answer
    raise AssertionError("no call is made")


async def by_hand(writer, right):
    """A new learner of the log that has met every call and reward in order, with the right rewards, by decision_id."""
    learner = experiments.make_learner("confident", LOG, LEARNERS["confident"])
    calls, names = {}, {}
    async for some in writer.store.events(1, 0, await writer.store.last_seq()):
        for event in some:
            if isinstance(event, events.DecisionEvent) and event.needs_reward:
                names[event.seq] = events.id_text(event.decision_id)
                calls[event.seq] = learner.open_call(event.action, events.unpack_context(event.context))
            elif isinstance(event, events.OutcomeEvent) and event.kind == events.REWARD:
                value = right.get(names[event.decision_seq], event.value)
                learner.observe(calls.pop(event.decision_seq), value)
    return learner


async def sound(writer):
    """A new start has the same state, and a replay finds no fault."""
    same(await replayed(writer), only(writer).model)
    (verdict,) = await maintenance.verify(writer.store)
    assert not verdict.faults
    assert verdict.recomputed > 0
    return verdict


async def totals(writer):
    found = await writer.store.totals(1)
    return sum(one.rewarded for one in found), sum(one.reward_sum for one in found)


def test_the_learner_is_that_of_the_right_reward(stores):
    async def story():
        async with trial(stores.folder, store=stores()) as writer, working(stores) as other:
            await live(writer, 1, 15, late=2)
            mistaken = await asked(writer)
            await reward(writer, mistaken, WRONG)
            await live(writer, 2, 15, late=2)
            right = {mistaken.decision_id: RIGHT}
            count, total = await totals(writer)
            assert total == WRONG  # all other rewards are lost in its digits
            done = await correct(writer, NAME, mistaken.decision_id, RIGHT, who="boss")
            assert done.status == "corrected"
            learner, twin = only(writer).model.learner, await by_hand(writer, right)
            assert learner.digest() == twin.digest()
            np.testing.assert_array_equal(learner.sets.theta, twin.sets.theta)
            seq = only(writer).model.seq
            again = await correct(writer, NAME, mistaken.decision_id, RIGHT, who="boss")
            assert (again.status, again.seq, only(writer).model.seq) == ("duplicate", done.seq, seq)
            assert (await reward(writer, mistaken, RIGHT)).status == "duplicate"
            with pytest.raises(ServiceError, match="already has the reward"):
                await reward(writer, mistaken, WRONG)
            stored = await writer.store.record(1, "d.seq > 0")
            values = [one.closed.value for one in stored if one.closed is not None]
            assert await totals(writer) == (count, pytest.approx(sum(values)))
            (change,) = [
                one for one in await writer.store.changes(1, events.BASE) if "corrected" in one.read()
            ]
            assert change.who == "boss"
            await live(writer, 3, 15, late=2)
            await other.catch_up()
            assert only(other).model.digest == only(writer).model.digest
            await sound(writer)

    ran(story())
    rows = sparing.read_log(
        export(stores.folder, NAME, "csv", stores.folder / "out.csv", address=stores.address).path
    ).rewards
    assert RIGHT in rows
    assert WRONG not in rows


@pytest.mark.parametrize("learner", ["economical", "confident", "certified"])
def test_taking_a_correction_back_restores_the_learner(tmp_path, learner):
    """Whatever happened in between, and whatever kind the outcome has."""

    async def story():
        clock = Clock()
        growing = {"growing": True} if learner in GROWING else {}
        async with trial(tmp_path, learner, OPTIONS, clock=clock, **growing) as writer:
            await eventful(writer, clock, learner)
            found = [one for one in await writer.store.record(1, "d.seq > 0") if one.closed is not None]
            kinds = {one.closed.kind: one for one in found if one.closed.kind in events.REWARDED}
            assert {events.REWARD, events.DEFAULT, events.IMPORTED} <= kinds.keys()
            before, (header, arrays) = only(writer).model, parts(only(writer).model.learner)
            kept = {name: array.copy() for name, array in arrays.items()}
            for decision, closed in kinds.values():
                named = events.id_text(decision.decision_id)
                await correct(writer, NAME, named, closed.value + 1.5, who="test")
                unlearnt = closed.kind == events.UNSOLICITED
                assert (only(writer).model.learner.digest() == before.learner.digest()) == unlearnt
                await correct(writer, NAME, named, closed.value, who="test")
                model = only(writer).model
                again, values = parts(model.learner)
                assert again == header
                for name, array in kept.items():
                    np.testing.assert_array_equal(values[name], array, err_msg=name)
                assert (model.rounds, model.calls, list(model.open)) == (
                    before.rounds,
                    before.calls,
                    list(before.open),
                )
            await live(writer, 9, 20, late=2)
            await sound(writer)

    ran(story())


@pytest.mark.parametrize("before", [True, False])
def test_an_import_learns_the_right_reward(stores, before):
    """Whether the correction comes before the import or after it."""

    async def story():
        async with trial(stores.folder, store=stores()) as writer:
            mistaken, waiting = await asked(writer), await asked(writer, 2)
            await reward(writer, mistaken, WRONG)
            if before:
                await correct(writer, NAME, mistaken.decision_id, RIGHT, who="test")
            await experiments.import_log(writer, NAME, given(OTHER), None, "test")
            if not before:
                await correct(writer, NAME, mistaken.decision_id, RIGHT, who="test")
            twin = experiments.make_learner("confident", OTHER, LEARNERS["confident"])
            found = await writer.store.record(1, "d.seq > 0")
            for one in found:
                if one.closed is not None:
                    x = events.unpack_context(one.decision.context)
                    twin.observe(twin.open_call(one.decision.action, x), RIGHT)
            model = only(writer).model
            np.testing.assert_array_equal(model.learner.sets.theta, twin.sets.theta)
            assert len(model.open) == sum(one.closed is None and one.decision.needs_reward for one in found)
            await reward(writer, waiting, WRONG)
            await correct(writer, NAME, waiting.decision_id, RIGHT, who="test")
            await correct(writer, NAME, mistaken.decision_id, 0.5, who="test")
            await sound(writer)

    ran(story())


def test_rewards_after_an_erasure_can_be_corrected(tmp_path):
    async def story():
        async with trial(tmp_path) as writer:
            early, erased, late = await asked(writer), await asked(writer, 2), await asked(writer, 3)
            await reward(writer, early, WRONG)
            await reward(writer, erased, 0.5)
            await erasure.erase(writer, NAME, decision_id=erased.decision_id, who="test")
            await reward(writer, late, WRONG)
            with pytest.raises(ServiceError) as refused:
                await correct(writer, NAME, early.decision_id, RIGHT, who="test")
            assert (refused.value.status, refused.value.code) == (409, "too_old")
            await live(writer, 4, 10)
            await correct(writer, NAME, late.decision_id, RIGHT, who="test")
            stored = {
                one.decision.decision_id: one.closed for one in await writer.store.record(1, "d.seq > 0")
            }
            assert stored[events.id_bytes(late.decision_id)].value == RIGHT
            await sound(writer)

    ran(story())


def test_what_cannot_be_corrected_is_refused_and_nothing_changes(tmp_path):
    async def story():
        clock = Clock()
        async with trial(
            tmp_path, options=Options(reward_window=60.0), clock=clock, reward_range=(-4, 4)
        ) as writer:
            waiting, expired, known = await asked(writer), await asked(writer, 2), await asked(writer, 3)
            await reward(writer, known, 1.0)
            before = only(writer).model.seq
            wrong = {
                (waiting.decision_id, 1.0): (409, "open"),
                ("nobody", 1.0): (404, "unknown_decision"),
                (known.decision_id, 5.0): (422, "reward"),
            }
            for (named, value), told in wrong.items():
                with pytest.raises(ServiceError) as refused:
                    await correct(writer, NAME, named, value, who="test")
                assert (refused.value.status, refused.value.code) == told
            assert only(writer).model.seq == before
            clock.seconds += 100
            await writer.submit(ExpirePending(NAME))
            with pytest.raises(ServiceError) as refused:
                await correct(writer, NAME, expired.decision_id, 1.0, who="test")
            assert (refused.value.status, refused.value.code) == (409, "no_reward")

    ran(story())


def test_a_replay_notices_a_changed_correction(tmp_path):
    async def story():
        async with trial(tmp_path) as writer:
            mistaken = await asked(writer)
            await reward(writer, mistaken, 1.0)
            await correct(writer, NAME, mistaken.decision_id, RIGHT, who="test")
            await writer.store.exclusive(
                ("update outcomes set value = $1 where kind = $2", [(0.75, events.CORRECTED)])
            )
            (verdict,) = await maintenance.verify(writer.store)
            assert any("of a corrected reward" in fault for fault in verdict.faults)

    ran(story())


def test_the_client_corrects_with_a_key_of_an_admin(tmp_path):
    settings = made(ServerSettings(tmp_path / "store", durability="process"))
    keys = {role: added_key(settings, role, role) for role in ("write", "admin")}
    with running(settings) as url, contextlib.ExitStack() as held:
        write, admin = (held.enter_context(Client(url, "shop", keys[role], timeout=10.0)) for role in keys)
        answer = next(one for one in (write.decide(PLAIN) for _ in range(50)) if one.needs_reward)
        write.reward(answer, 9.0)
        with pytest.raises(ServiceProblem, match="needs admin") as refused:
            write.correct(answer, RIGHT)
        assert refused.value.status == 403
        assert admin.correct(answer, RIGHT).status == "corrected"
        assert admin.correct(answer.decision_id, RIGHT).status == "duplicate"
        (record,) = [one for one in admin.decisions() if one.reward is not None]
        assert (record.reward, record.outcome) == (RIGHT, "corrected")
        paths = httpx.get(f"{url}/openapi.json").json()["paths"]
        assert "/v1/{experiment}/decisions/{decision}/reward/correct" in paths
