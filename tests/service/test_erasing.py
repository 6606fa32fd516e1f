"""Erasure: the context is in no file of the store, states and answers stay what they were, and a start still works."""

import zipfile

import apsw
import numpy as np
import pytest

from service.building import (
    LOG,
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
from sparing.service import dashboard, erasure, events, experiments, maintenance, snapshots
from sparing.service.erasure import erase, expire_contexts
from sparing.service.errors import ServiceError
from sparing.service.messages import Options
from sparing.service.registry import ExperimentRegistry

SECRET = np.array([0.123456789, 0.987654321, 0.5551212])


def only(writer):
    return writer.registry.get(NAME)


def holding(folder, needle):
    """The files under a folder that hold these bytes, packed or not."""
    found = set()
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            if path.suffix == ".state":
                with zipfile.ZipFile(path) as packed:
                    content = b"".join(packed.read(name) for name in packed.namelist())
            if needle in content:
                found.add(path.relative_to(folder).parts[0])
    return found


async def ask(writer, **settings):
    """A decision in the secret context that waits for its reward."""
    answer = await decide(writer, SECRET, **settings)
    assert answer.needs_reward
    return answer


async def sound(writer):
    """A new start has the same state, and every decision that still can be is recomputed."""
    same(await replayed(writer), only(writer).model)
    (verdict,) = await maintenance.verify(writer.store)
    assert not verdict.faults
    return verdict


@pytest.mark.parametrize("learner", ["economical", "confident", "certified"])
def test_an_open_context_is_nowhere_after_an_erasure(tmp_path, learner):
    """It was in the database, its log, a snapshot, and a base that an import wrote."""

    async def run():
        settings = {"check": 0.0, "explore": 1.0}  # so that all are asked about
        async with trial(tmp_path / "store", learner, Options(**settings)) as writer:
            await live(writer, 1, 15, late=4)
            answer = await ask(writer)
            await experiments.import_log(writer, NAME, lambda actions: LOG, None, "test")
            await live(writer, 2, 5, missing=1.0)
            await snapshots.snapshot_here(writer, only(writer))
            needle = SECRET.tobytes()
            assert holding(tmp_path / "store", needle) >= {"bases", "snapshots", "store.sqlite-wal"}
            waiting = len(only(writer).model.open)
            done = await erase(writer, NAME, decision_id=answer.decision_id, who="test")
            assert (done.erased, done.replay_floor) == (1, only(writer).model.seq)
            assert len(only(writer).model.open) == waiting - 1
            assert holding(tmp_path / "store", needle) == set()
            assert (await sound(writer)).below_floor > 0
            with pytest.raises(ServiceError, match=r"closed \(void\)"):
                await reward(writer, answer, 1.0)
            await live(writer, 3, 10, late=2)
            await sound(writer)
            assert holding(tmp_path / "store", needle) == set()

    ran(run())
    assert holding(tmp_path / "store", SECRET.tobytes()) == set()


@pytest.mark.parametrize("by", ["subject", "before_ts"])
def test_a_context_that_stands_for_future_ones_is_nowhere_after_an_erasure(tmp_path, by):
    """In `economical` live contexts enter the state, those of closed decisions too; decisions are still recomputed."""

    async def run():
        clock, secret = Clock(), 5 * SECRET  # unlike the log's, so that it counts
        async with trial(tmp_path / "store", "economical", clock=clock) as writer:
            for _ in range(6):
                await live(writer, 1, 20)
                for _ in range(4):
                    answer = await writer.submit(asking(secret)._replace(subject=b"s" * 16))
                    if answer.needs_reward:
                        await reward(writer, answer, 0.5)
            await snapshots.snapshot_here(writer, only(writer))
            arrays = only(writer).model.learner.sets.arrays
            for name in ("context_sample", "next_sample"):
                assert (getattr(arrays, name) == secret).all(axis=1).any()
            await sound(writer)
            clock.seconds += 100
            value = {"subject": b"s" * 16, "before_ts": clock()}[by]
            done = await erase(writer, NAME, **{by: value}, who="test")
            assert done.erased == (24 if by == "subject" else 144)
            assert holding(tmp_path / "store", secret.tobytes()) == set()
            assert (arrays.sample_ids >= 0).any() == (by == "subject")
            await live(writer, 2, 80)
            await sound(writer)
            assert holding(tmp_path / "store", secret.tobytes()) == set()

    ran(run())


def test_withdrawing_is_the_librarys_cancel(tmp_path):
    async def run():
        async with trial(tmp_path / "store", options=Options(explore=1.0)) as writer:
            await live(writer, 1, 10)
            twin = only(writer).model.learner.copy()
            answer = await ask(writer)
            await erase(writer, NAME, decision_id=answer.decision_id, who="test")
            number = only(writer).model.numbers[answer.action]
            twin.cancel(number, SECRET, twin.begin(number, SECRET))
            assert only(writer).model.learner.digest() == twin.digest()
            np.testing.assert_array_equal(only(writer).model.learner.sets.theta, twin.sets.theta)

    ran(run())


@pytest.mark.parametrize("by", ["decision_id", "context_id", "subject", "before_ts"])
def test_what_is_erased_and_what_stays(tmp_path, by):
    async def run():
        clock, store = Clock(), tmp_path / "store"
        async with trial(store, options=Options(explore=1.0), clock=clock) as writer:
            mine = asking(SECRET, context_id="visitor-7", request_id="r1")._replace(
                subject=b"s" * 16, request_hash=b"h" * 16
            )
            answer = await writer.submit(mine)
            await reward(writer, answer, 0.5)
            clock.seconds += 100
            other = await decide(writer, contexts(3, 1)[0], context_id="visitor-8")
            before, digest = only(writer).model.learner.digest(), only(writer).model.digest
            value = {
                "decision_id": answer.decision_id,
                "context_id": "visitor-7",
                "subject": b"s" * 16,
                "before_ts": 1050 * events.SECOND,
            }[by]
            done = await erase(writer, NAME, **{by: value}, who="admin")
            assert done.erased == 1
            assert only(writer).model.learner.digest() == before
            assert only(writer).model.digest != digest
            (first, second) = [found.decision for found in await writer.store.record(1, "d.seq > 0")]
            assert (first.context, first.context_id, first.subject) == (None, None, None)
            assert (first.request_id, first.request_hash) == ("r1", None)
            assert (second.context_id, second.context is None) == ('"visitor-8"', False)
            with pytest.raises(ServiceError, match="was erased"):
                await writer.submit(mine)
            assert (await reward(writer, answer, 0.5)).status == "duplicate"
            assert (await reward(writer, other, 0.1)).status == "taken"
            for needle in (SECRET.tobytes(), b"visitor-7", b"s" * 16):
                assert holding(store, needle) == set()
            ((body, who),) = await writer.store.driver.read(
                "select body, who from changes where kind = $1", events.ERASE
            )
            assert (body, who) == (f'{{"by":"{by}","erased":1,"withdrawn":0}}'.encode(), "admin")
            await sound(writer)
            again = await erase(writer, NAME, **{by: value}, who="admin")
            assert (again.erased, again.replay_floor) == (0, done.replay_floor)

    ran(run())


def test_what_cannot_be_erased_is_refused(tmp_path):
    async def run():
        async with trial(tmp_path / "store") as writer:
            for wrong, words in [
                ({}, "exactly one of decision_id"),
                ({"decision_id": "x"}, "must be the id of a decision"),
                ({"subject": b"s", "before_ts": 1}, "subject and before_ts"),
            ]:
                with pytest.raises(ServiceError, match=words):
                    await erase(writer, NAME, **wrong, who="test")
            seq = only(writer).model.seq
            assert (await erase(writer, NAME, context_id="nobody", who="test")).erased == 0
            assert only(writer).model.seq == seq

    ran(run())


def test_many_are_erased_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(erasure, "CHUNK", 3)

    async def run():
        async with trial(tmp_path / "store", options=Options(explore=1.0)) as writer:
            await live(writer, 1, 10, missing=0.5)
            done = await erase(writer, NAME, before_ts=events.now() + 1, who="test")
            assert done.erased == 10
            assert not only(writer).model.open
            assert not await writer.store.record(1, "d.context is not null")
            await sound(writer)

    ran(run())


def test_a_failure_on_the_way_erases_nothing(tmp_path, monkeypatch):
    async def run():
        async with trial(tmp_path / "store", options=Options(explore=1.0)) as writer:
            answer = await ask(writer)
            before = await replayed(writer)

            async def broken(*_):
                raise RuntimeError("on purpose")

            with monkeypatch.context() as patched:
                patched.setattr(erasure.ErasureTarget, "erase_some", broken)
                with pytest.raises(ServiceError, match="nothing was changed"):
                    await erase(writer, NAME, decision_id=answer.decision_id, who="test")
            await writer.catch_up()
            assert (await reward(writer, answer, 1.0)).status == "taken"
            assert only(writer).floor == 0
            assert before.seq + 1 == only(writer).model.seq
            await sound(writer)

    ran(run())


def test_another_worker_that_is_behind_begins_at_the_floor(tmp_path):
    async def run():
        async with trial(tmp_path / "store", options=Options(explore=1.0)) as writer:
            await live(writer, 1, 5)
            behind = ExperimentRegistry(writer.store)
            await behind.catch_up(await writer.store.last_seq())
            answer = await ask(writer)
            await erase(writer, NAME, decision_id=answer.decision_id, who="test")
            await live(writer, 2, 5)
            await behind.catch_up(await writer.store.last_seq())
            same(behind.get(NAME).model, only(writer).model)

    ran(run())


def test_a_lost_state_at_the_floor_is_said(tmp_path):
    async def run():
        async with trial(tmp_path / "store", options=Options(explore=1.0)) as writer:
            answer = await ask(writer)
            await erase(writer, NAME, decision_id=answer.decision_id, who="test")
            for path in (tmp_path / "store" / "snapshots").iterdir():
                path.unlink()
            with pytest.raises(Exception, match=r"contexts before event \d+ were erased, and the state file"):
                await replayed(writer)

    ran(run())


def test_someone_who_reads_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(erasure, "TRIES", 2)

    async def run():
        async with trial(tmp_path / "store", options=Options(explore=1.0)) as writer:
            answer = await ask(writer)
            reader = apsw.Connection(str(tmp_path / "store" / "store.sqlite"))
            reader.execute("begin").execute("select count(*) from decisions").fetchall()
            with pytest.raises(ServiceError, match="another process reads the database"):
                await erase(writer, NAME, decision_id=answer.decision_id, who="test")
            reader.close()
            assert (await erase(writer, NAME, decision_id=answer.decision_id, who="test")).erased == 0
            assert holding(tmp_path / "store", SECRET.tobytes()) == set()

    ran(run())


def test_contexts_expire_and_the_etag_stays(tmp_path):
    async def run():
        clock = Clock()
        options = Options(explore=1.0, retention=60.0)
        async with trial(tmp_path / "store", options=options, clock=clock) as writer:
            assert await expire_contexts(writer, only(writer), clock()) is None
            await ask(writer)
            clock.seconds += 30
            await decide(writer, contexts(1, 1)[0])
            assert await expire_contexts(writer, only(writer), clock()) is None
            clock.seconds += 31
            etag = only(writer).model.config_seq
            assert (await expire_contexts(writer, only(writer), clock())).erased == 1
            assert only(writer).model.config_seq == etag
            assert await expire_contexts(writer, only(writer), clock()) is None
            assert len(only(writer).model.open) == 1
            assert holding(tmp_path / "store", SECRET.tobytes()) == set()

    ran(run())


def test_retention_is_not_shorter_than_the_window(tmp_path):
    async def run():
        with pytest.raises(Exception, match="retention=5 is shorter than reward_window"):
            async with trial(tmp_path / "store", options=Options(retention=5.0, reward_window=10.0)):
                pass

    ran(run())


def test_nothing_that_stays_gives_the_context_back(tmp_path):
    """The hash of the request and the estimate are functions of the context: whoever has the store could try all contexts."""

    async def whole():
        async with trial(tmp_path, "warm_started") as writer:
            request = asking(SECRET, request_id="visit-1")._replace(request_hash=b"h" * 16, subject=b"s" * 16)
            await writer.submit(request)
            await decide(writer, SECRET)
            await erase(writer, NAME, who="test", subject=b"s" * 16)
            rows = await writer.store.driver.read(
                "select context, context_id, subject, request_hash, value, low, high, worth from decisions order by seq"
            )
            assert rows[0] == (None, None, None, None, 0.0, 0.0, 0.0, None)
            assert rows[1][4] != 0.0
            kept = [dashboard.recorded(only(writer), one) for one in await writer.store.record(1, "true")]
            assert [one.value is None for one in kept] == [True, False]
            assert [one.play_probability is None for one in kept] == [True, False]
            with pytest.raises(ServiceError) as caught:
                await writer.submit(request)
            assert caught.value.code == "erased"
            await sound(writer)

    ran(whole())


@pytest.mark.parametrize("learner", ["economical", "lints"])
def test_erased_decisions_differ_in_no_number_that_depends_on_the_context(tmp_path, learner):
    """The probabilities of a sampler are functions of the context, too."""
    numbers = "play_probability, call_probability, value, low, high, worth, costs"

    async def whole():
        clock = Clock()
        async with trial(tmp_path, learner, Options(holdout=0.2, explore=0.2), clock=clock) as writer:
            for x in contexts(1, 30):
                await decide(writer, x)
            clock.seconds += 100

            async def rows():
                return await writer.store.driver.read(f"select distinct {numbers} from decisions")

            assert len(await rows()) > 3
            assert (await erase(writer, NAME, who="test", before_ts=clock())).erased == 30
            assert await rows() == [(0.0, 1.0, 0.0, 0.0, 0.0, None, None)]  # a call was possible everywhere
            assert (await erase(writer, NAME, who="test", before_ts=clock())).erased == 0
            await sound(writer)

    ran(whole())


def test_retention_erases_the_numbers_that_an_older_version_left(tmp_path):
    async def whole():
        clock = Clock()
        async with trial(tmp_path, "lints", Options(retention=50.0), clock=clock) as writer:
            await decide(writer, SECRET)
            await writer.store.exclusive(("update decisions set context = null", [()]))
            clock.seconds += 100
            await expire_contexts(writer, only(writer), clock())
            found = await writer.store.driver.read("select play_probability, value, low, high from decisions")
            assert found == [(0.0, 0.0, 0.0, 0.0)]

    ran(whole())


def test_the_sample_ratio_leaves_erased_subjects_out(tmp_path):
    """Eight visits of each of thirty subjects: once erased, every visit would count as a subject of its own."""

    async def whole():
        async with trial(tmp_path, options=Options(holdout=0.3)) as writer:
            for visit in range(240):
                who = bytes([visit % 30]) * 16
                await writer.submit(asking(contexts(visit, 1)[0])._replace(subject=who))
            before = await dashboard.CounterCache().count_arms(
                writer.store, 1, 0, await writer.store.last_seq()
            )
            assert sum(before) == 30
            await erase(writer, NAME, who="test", subject=bytes([0]) * 16)
            after = await dashboard.CounterCache().count_arms(
                writer.store, 1, 0, await writer.store.last_seq()
            )
            assert sum(after) == 29

    ran(whole())
