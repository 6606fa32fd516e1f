"""Sums by subject in both stores: those of the stored events after lateness, corrections, changes, erasure and an upgrade."""

import msgspec
import numpy as np
import pytest

from service.building import NAME, Clock, asking, contexts, ran, trial
from service.test_headline import history, summed
from sparing.service import events, maintenance, subject_sums, summing
from sparing.service.corrections import correct
from sparing.service.erasure import erase, expire_contexts
from sparing.service.messages import Options
from sparing.service.subject_sums import COLUMNS
from sparing.service.transactions import ChangeSettings, Reward

MEASURED = Options(holdout=0.3, check=0.3, reward_window=5000.0)


def only(writer):
    return writer.registry.get(NAME)


async def visits(writer, seed, rounds, *, subjects=9, alone=0.2):
    """Rounds of subjects that come back; some rewards come late, some never."""
    rng, answers = np.random.default_rng(seed), []
    for x in contexts(seed, rounds):
        subject = None if rng.random() < alone else bytes([int(rng.integers(subjects))]) * 16
        answers.append(await writer.submit(asking(x)._replace(subject=subject)))
    asked = [one for one in answers if one.needs_reward and rng.random() < 0.9]
    await writer.submit_all([Reward(NAME, one.decision_id, float(rng.normal(1, 2))) for one in asked])
    return asked


async def by_definition(writer):
    """The sums over all stored decisions after the last change of the shares, with their final rewards."""
    found = await writer.store.record(1, "d.seq > $2", only(writer).compared_since, limit=10_000)
    check, rows = only(writer).model.options.check, []
    for one in found:
        count = subject_sums.count(one.decision, only(writer).compared_since, check)
        if count is not None:
            come = one.closed is not None and one.closed.value is not None
            who = -1 if one.decision.subject is None else one.decision.subject[0]
            rows.append((count.kind, one.closed.value if come else np.nan, who))
    kinds, rewards, who = map(np.array, zip(*rows, strict=True))
    return summed(history(kinds, rewards, who), [len(kinds)])[0]


async def stored(writer):
    return (await writer.store.compared(1, only(writer).compared_since)).added.sum(axis=0)


async def subjects(writer):
    return {bytes(one)[0] for (one,) in await writer.store.driver.read("select subject from subject_sums")}


async def same(writer):
    assert await stored(writer) == pytest.approx(await by_definition(writer), rel=1e-9, abs=1e-8)


def test_they_are_those_of_the_events(stores):
    async def story():
        clock = Clock()
        async with trial(stores.folder, options=MEASURED, store=stores(), clock=clock) as writer:
            asked = await visits(writer, 1, 60)
            clock.seconds += 3600
            asked += await visits(writer, 2, 60)
            await same(writer)
            assert len(await subjects(writer)) == 9
            assert len((await writer.store.compared(1, 0)).hours) == 2
            for named, value in ((asked[0], 0.5), (asked[-1], -3.0)):
                await correct(writer, NAME, named.decision_id, value, who="t")
                await same(writer)
            before = await stored(writer)
            await writer.store.exclusive(
                ("update experiments set summed = 0", [()]),
                ("delete from comparison", [()]),
                ("delete from subject_sums", [()]),
            )
            await summing.sum_old_stores(writer)  # as after an upgrade
            assert await stored(writer) == pytest.approx(before, rel=1e-9, abs=1e-8)
            asked = await visits(writer, 3, 30)
            await same(writer)
            # A change of a share starts anew, a reward of an older decision does not count, other options change nothing.
            late = (await writer.submit_all([asking(x) for x in contexts(4, 30)]))[:]
            options = msgspec.structs.replace(only(writer).model.options, check=0.5)
            await change(writer, options)
            await writer.submit_all([Reward(NAME, one.decision_id, 9.0) for one in late if one.needs_reward])
            await visits(writer, 5, 40)
            await change(writer, msgspec.structs.replace(options, price=2.0))
            await visits(writer, 6, 40)
            await same(writer)
            assert 0 < (await stored(writer))[:, [0, 3]].sum() <= 80
            (verdict,) = await maintenance.verify(writer.store)
            assert not verdict.faults
            await writer.store.exclusive(("update comparison set s1 = s1 + 0.01", [()]))
            (verdict,) = await maintenance.verify(writer.store)
            assert any("policy and holdout" in fault for fault in verdict.faults)

    ran(story())


async def change(writer, options):
    await writer.submit(ChangeSettings(NAME, events.OPTIONS, msgspec.to_builtins(options), "t"))


@pytest.mark.parametrize("mistake", [1e9, 1e40], ids=str)
def test_a_mistake_of_any_size_leaves_nothing_after_its_correction(tmp_path, mistake):
    async def story():
        async with trial(tmp_path, options=MEASURED) as writer:
            asked = await visits(writer, 1, 60)
            answers = await writer.submit_all(
                [asking(x)._replace(subject=bytes(16)) for x in contexts(2, 40)]
            )
            wrong = next(one for one in answers if one.needs_reward)
            await writer.submit(Reward(NAME, wrong.decision_id, mistake))
            await visits(writer, 3, 20, subjects=1)  # of the same subject
            await correct(writer, NAME, wrong.decision_id, 1.0, who="t")
            await same(writer)
            assert np.isfinite(await stored(writer)).all()
            assert asked

    ran(story())


def test_erased_subjects_are_in_no_sums_of_their_own(stores):
    async def story():
        clock = Clock()
        options = msgspec.structs.replace(MEASURED, retention=7200.0)
        async with trial(stores.folder, options=options, store=stores(), clock=clock) as writer:
            await visits(writer, 1, 60)
            sums = await stored(writer)
            await erase(writer, NAME, subject=bytes([3]) * 16, who="t")
            one = (await writer.store.record(1, "d.subject is not null", limit=1))[0].decision
            await erase(writer, NAME, decision_id=events.id_text(one.decision_id), who="t")
            assert await subjects(writer) == set(range(9)) - {3, one.subject[0]}
            assert await stored(writer) == pytest.approx(sums)  # which name nobody
            clock.seconds += 3700
            await visits(writer, 2, 20, subjects=2)  # these come back, also an erased one
            clock.seconds += 3700
            await expire_contexts(writer, only(writer), writer.clock())
            assert await subjects(writer) == {0, 1}
            assert len(await stored(writer)) == 2
            (verdict,) = await maintenance.verify(writer.store)
            assert not verdict.faults

    ran(story())


def test_decisions_while_the_budget_is_used_up_are_left_out(tmp_path):
    async def story():
        options = msgspec.structs.replace(MEASURED, budget_calls=20)
        async with trial(tmp_path, options=options) as writer:
            await visits(writer, 1, 120)
            rows = await writer.store.record(1, "d.seq > 0", limit=1000)
            asked = np.cumsum([one.decision.needs_reward for one in rows])
            free = sum(before < 20 for before in [0, *asked[:-1].tolist()])
            assert (await stored(writer))[:, [0, 3]].sum() == free < 120
            await same(writer)

    ran(story())


def test_a_look_reads_no_subjects(tmp_path):
    """The work of a look does not grow with subjects or decisions: sums of one hour are two rows."""

    async def story():
        clock = Clock()
        async with trial(tmp_path, options=MEASURED, clock=clock) as writer:
            await visits(writer, 1, 100, subjects=100, alone=0.0)
            (count,) = (await writer.store.driver.read("select count(*) from comparison"))[0]
            assert count == 2
            assert len(COLUMNS) == 30

    ran(story())
