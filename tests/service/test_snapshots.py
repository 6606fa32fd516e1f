"""Snapshots: a start from one and the events since is a replay from the base, bit for bit, whoever wrote it."""

import asyncio

import pytest

from service.building import NAME, Clock, asking, decide, live, ran, replayed, reward, same, trial
from sparing.errors import FileError
from sparing.service import erasure, snapshots, state_files
from sparing.service.messages import Options
from sparing.service.registry import ExperimentRegistry
from sparing.service.snapshots import MismatchError, snapshot_by_child, snapshot_here


def only(writer):
    return writer.registry.get(NAME)


async def in_process(store, number, seq, patience):
    """What the child does, without a process of its own."""
    model = await snapshots.replayed(store.folder, number, seq)
    return snapshots.write(store.folder, model)


async def files(writer):
    stored = {one.path for one in await writer.store.snapshots(1)}
    there = {
        str(path.relative_to(writer.store.folder)) for path in (writer.store.folder / "snapshots").iterdir()
    }
    return stored, there


@pytest.mark.parametrize("learner", ["economical", "confident", "certified"])
def test_a_start_from_a_snapshot_is_a_replay_from_the_base(tmp_path, learner):
    async def run():
        options = Options(learn_unasked=True, reward_window=1000.0)
        async with trial(tmp_path / "store", learner, options, clock=Clock()) as writer:
            await live(writer, 1, 60, late=7, missing=0.3)
            found = await snapshot_here(writer, only(writer))
            assert only(writer).model.open
            assert (found.seq, found.digest) == (only(writer).model.seq, only(writer).model.digest)
            for answer in await live(writer, 2, 40, late=3, missing=0.2):
                if not answer.needs_reward:
                    await reward(writer, answer, 0.25)
            quick = await replayed(writer)
            same(quick, only(writer).model)
            _, since = await ExperimentRegistry(writer.store).start(1, await writer.store.last_seq())
            assert since == found.seq
            (tmp_path / "store" / found.path).rename(tmp_path / "aside")
            slow = await replayed(writer)
            same(slow, quick)
            paths = [tmp_path / name for name in ("live", "quick", "slow")]
            for path, model in zip(paths, (only(writer).model, quick, slow), strict=True):
                state_files.save(model, path)
            assert len({path.read_bytes() for path in paths}) == 1

    ran(run())


def test_sums_on_the_way_and_deferred_decisions_are_kept(tmp_path):
    async def run():
        options = Options(explore=1.0, aggregate="sum", reward_window=1000.0)
        async with trial(tmp_path / "store", options=options, clock=Clock()) as writer:
            answer = await decide(writer, [0.1, 0.2, 0.3])
            await reward(writer, answer, 0.5)
            await reward(writer, answer, 0.25)
            await writer.submit(asking([0.3, 0.2, 0.1])._replace(active=False))
            found = await snapshot_here(writer, only(writer))
            _, since = await ExperimentRegistry(writer.store).start(1, await writer.store.last_seq())
            assert since == found.seq
            assert [one.parts for one in only(writer).model.open.values()] == [0.75, 0.0]
            same(await replayed(writer), only(writer).model)

    ran(run())


def test_a_child_writes_the_same_file_while_the_service_goes_on(tmp_path):
    async def run():
        async with trial(tmp_path / "store", "economical") as writer:
            await live(writer, 1, 40, late=5, missing=0.2)
            state_files.save(only(writer).model, tmp_path / "here")
            seq = only(writer).model.seq
            child = asyncio.create_task(snapshot_by_child(writer, only(writer)))
            await asyncio.sleep(0)
            await live(writer, 2, 40)
            found = await child
            assert only(writer).model.seq > found.seq == seq
            assert (tmp_path / "store" / found.path).read_bytes() == (tmp_path / "here").read_bytes()
            assert [one.seq for one in await writer.store.snapshots(1)] == [seq]
            same(await replayed(writer), only(writer).model)

    ran(run())


def test_a_child_goes_on_from_the_last_snapshot(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "_child", in_process)

    async def run():
        async with trial(tmp_path / "store") as writer:
            await live(writer, 1, 20, late=5)
            await snapshot_here(writer, only(writer))
            await live(writer, 2, 20)
            first = tmp_path / "store" / (await writer.registry.bases(1))[0].read()["path"]
            first.rename(tmp_path / "aside")
            assert await snapshot_by_child(writer, only(writer)) is not None
            (tmp_path / "aside").rename(first)

    ran(run())


def test_another_state_than_the_childs_is_an_alarm(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "_child", in_process)

    async def run():
        async with trial(tmp_path / "store") as writer:
            await live(writer, 1, 10)
            only(writer).model.digest = bytes(8)
            with pytest.raises(MismatchError, match="a replay of the store gives the digest"):
                await snapshot_by_child(writer, only(writer))
            assert await files(writer) == (set(), set())

    ran(run())


def test_a_child_that_fails_says_why(tmp_path):
    async def run():
        async with trial(tmp_path / "store") as writer:
            (tmp_path / "store" / (await writer.registry.bases(1))[0].read()["path"]).unlink()
            with pytest.raises(
                FileError, match=r"was not written: sparing: .* is missing; the store needs it"
            ):
                await snapshot_by_child(writer, only(writer))
            with pytest.raises(FileError, match=r"took more than 0\.01 s"):
                await snapshot_by_child(writer, only(writer), patience=0.01)

    ran(run())


def test_the_newest_two_stay_and_nothing_happened_means_no_new_one(tmp_path):
    async def run():
        async with trial(tmp_path / "store") as writer:
            seqs = []
            for seed in range(4):
                await decide(writer, [0.1, 0.2, seed / 4])
                seqs.append((await snapshot_here(writer, only(writer))).seq)
            assert (await snapshot_here(writer, only(writer))).seq == seqs[-1]
            assert [one.seq for one in await writer.store.snapshots(1)] == seqs[:-3:-1]
            stored, there = await files(writer)
            assert stored == there
            (tmp_path / "store" / "bases" / "draft-1-9.state").write_bytes(b"left by a killed process")
            (tmp_path / "store" / "snapshots" / "1-9.state").write_bytes(b"the same")
            await snapshots.delete_old_snapshots(writer, only(writer))
            assert (await files(writer))[1] == stored
            assert len(list((tmp_path / "store" / "bases").iterdir())) == 1

    ran(run())


def test_a_damaged_snapshot_is_passed_over_and_written_again(tmp_path):
    async def run():
        async with trial(tmp_path / "store") as writer:
            await live(writer, 1, 10)
            found = await snapshot_here(writer, only(writer))
            (tmp_path / "store" / found.path).write_bytes(b"damaged")
            same(await replayed(writer), only(writer).model)
            assert (await snapshot_here(writer, only(writer))).sha256 == found.sha256
            assert state_files.file_hash(tmp_path / "store" / found.path) == found.sha256

    ran(run())


def test_an_erasure_meanwhile_makes_the_childs_snapshot_worthless(tmp_path, monkeypatch):
    """It was taken before, so it knows what was erased: it must not stay."""

    async def run():
        async with trial(tmp_path / "store") as writer:
            answers = await live(writer, 1, 10, missing=1.0)

            async def slow(*arguments):
                said = await in_process(*arguments)
                await erasure.erase(writer, NAME, decision_id=answers[0].decision_id, who="test")
                await asyncio.to_thread(snapshots.write, tmp_path / "store", before)
                return said

            before = await replayed(writer)
            monkeypatch.setattr(snapshots, "_child", slow)
            assert await snapshot_by_child(writer, only(writer)) is None
            stored, there = await files(writer)
            assert stored == there == {f"snapshots/1-{only(writer).floor}.state"}

    ran(run())
