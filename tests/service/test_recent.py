"""Decisions kept at hand for their rewards: the same answers as from the store, and never anything that may have changed."""

import asyncio
import gc
import weakref

import pytest

from service.building import NAME, contexts, decide, ran, replayed, reward, same, trial
from sparing.service import events, writer
from sparing.service.errors import ServiceError
from sparing.service.messages import DecideRequest
from sparing.service.transactions import ChangeSettings, Decide, Reward

ALWAYS = {"learner": "linucb"}
"""It asks about everything."""


def looked_up(owner):
    """The ids that the store was asked for, from now on."""
    asked, find = [], owner.store.find

    async def noted(column, values):
        asked.extend(values)
        return await find(column, values)

    owner.store.find = noted
    return asked


def test_the_store_is_asked_only_for_what_is_not_at_hand(tmp_path):
    async def tell():
        async with trial(tmp_path, **ALWAYS) as owner:
            asked = looked_up(owner)
            one, two, three = [await decide(owner, x) for x in contexts(1, 3)]
            assert (await reward(owner, one, 1.0)).status == "taken"
            assert not asked
            assert (await reward(owner, one, 1.0)).status == "duplicate"
            with pytest.raises(ServiceError, match="first one counts"):
                await reward(owner, one, 2.0)
            assert asked == [events.id_bytes(one.decision_id)] * 2, "what is closed is in the store"
            await owner.submit(ChangeSettings(NAME, events.MODE, {"mode": "shadow"}, "test"))
            assert (await reward(owner, two, 1.0)).status == "taken"
            assert asked[2:] == [events.id_bytes(two.decision_id)], "a change may have touched anything"
            assert (await reward(owner, three, 0.5)).status == "taken"
            same(await replayed(owner), owner.registry.get(NAME).model)

    ran(tell())


def test_unsolicited_rewards_are_of_decisions_at_hand_too(tmp_path):
    async def tell():
        async with trial(tmp_path) as owner:
            answers = [await decide(owner, x) for x in contexts(1, 30)]
            skipped = next(one for one in answers if not one.needs_reward)
            asked = looked_up(owner)
            assert (await reward(owner, skipped, 1.0)).status == "unasked"
            assert not asked
            both = [Reward(NAME, skipped.decision_id, value) for value in (1.0, 2.0)]
            same_again, other = await owner.submit_all(both)
            assert (same_again.status, other.code) == ("duplicate", "already_rewarded")
            assert set(asked) == {events.id_bytes(skipped.decision_id)}
            same(await replayed(owner), owner.registry.get(NAME).model)

    ran(tell())


def test_only_so_many_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "MAX_RECENT", 2)

    async def tell():
        async with trial(tmp_path, **ALWAYS) as owner:
            asked = looked_up(owner)
            answers = [await decide(owner, x) for x in contexts(2, 5)]
            for answer in answers:
                assert (await reward(owner, answer, 1.0)).status == "taken"
            assert asked == [events.id_bytes(answer.decision_id) for answer in answers[:3]]
            same(await replayed(owner), owner.registry.get(NAME).model)

    ran(tell())


def test_what_another_worker_wrote_is_read_from_the_store(tmp_path):
    async def tell():
        async with trial(tmp_path, **ALWAYS) as owner:
            asked = looked_up(owner)
            one, two, three = [await decide(owner, x) for x in contexts(3, 3)]
            async with trial(tmp_path) as other:
                assert (await reward(other, one, 1.0)).status == "taken"
                assert (await reward(owner, one, 1.0)).status == "duplicate"
                assert (await reward(other, two, 1.0)).status == "taken"
            await owner.catch_up()
            assert (await reward(owner, three, 1.0)).status == "taken"
            assert asked == [events.id_bytes(answer.decision_id) for answer in (one, three)]
            same(await replayed(owner), owner.registry.get(NAME).model)

    ran(tell())


class Kept(dict):
    """A context whose end can be watched."""


@pytest.mark.parametrize("size", [1, 2**17])
def test_a_refused_request_does_not_stay_in_memory(tmp_path, size):
    """Not even until the next collection: its context may have 16 MB."""

    async def story():
        async with trial(tmp_path) as writer:
            context = Kept(nothing="x" * size)
            seen = weakref.ref(context)
            gc.collect()
            gc.disable()
            try:
                try:
                    await writer.submit(Decide(NAME, DecideRequest(context=context), bytes(16)))
                except ServiceError:
                    del context
                await asyncio.sleep(0.01)
                assert seen() is None
            finally:
                gc.enable()

    ran(story())
