"""Verification by ranges: the same verdict as in one piece, resumable, in several processes, and on both sides of an erasure."""

import shutil

import pytest
from typer.testing import CliRunner

from service.building import NAME, asking, contexts, live, ran, trial
from sparing.cli import app
from sparing.errors import FileError
from sparing.service import erasure, events, maintenance, snapshots, state_files, verification
from sparing.service.messages import Options
from sparing.service.transactions import ChangeSettings

COUNTS = ("events", "decisions", "recomputed", "below_floor", "by_another_engine", "seq", "digest", "faults")


def only(writer):
    return writer.registry.get(NAME)


async def grown(writer, parts=4, rounds=15):
    """A history with a state file after every part."""
    for seed in range(parts):
        await live(writer, seed + 1, rounds, late=4, missing=0.2)
        await snapshots.snapshot_here(writer, only(writer))


@pytest.fixture
def every_state(monkeypatch):
    """All state files stay."""
    monkeypatch.setattr(snapshots, "SPACING", 1)


def counts(verdict):
    return {name: getattr(verdict, name) for name in COUNTS}


@pytest.mark.parametrize("learner", ["economical", "confident", "certified"])
def test_ranges_have_the_verdict_of_the_whole(tmp_path, every_state, learner):
    async def run():
        async with trial(tmp_path / "store", learner, Options(check=0.2, reward_window=1000.0)) as writer:
            await grown(writer)
            await live(writer, 9, 5)
            (whole,) = await maintenance.verify(writer.store)
            assert (whole.ranges, whole.snapshots) == (5, 4)
            assert whole.recomputed == whole.decisions == 65
            assert whole.share == 1
            for known in await writer.store.snapshots(1):
                (tmp_path / "store" / known.path).unlink()
            (alone,) = await maintenance.verify(writer.store)
            assert alone.ranges == 1
            assert counts(alone) == counts(whole)
            assert not alone.faults

    ran(run())


def test_a_wrong_state_file_is_found_and_a_damaged_one(tmp_path, every_state):
    """Of a wrong state the digest is as stored, and its file is intact: only the numbers differ."""

    async def run():
        async with trial(tmp_path / "store") as writer:
            await grown(writer, 3)
            middle = (await writer.store.snapshots(1))[1]
            path = tmp_path / "store" / middle.path
            model = state_files.load(path, 1, writer.store.salt)
            model.played[0] += 1
            sha256 = state_files.save(model, path)
            await writer.store.exclusive(
                ("update snapshots set sha256 = $1 where seq = $2", [(sha256, middle.seq)])
            )
            (verdict,) = await maintenance.verify(writer.store)
            assert f"the state file of event {middle.seq} differs from a replay" in verdict.faults
            path.write_bytes(b"damaged")
            (verdict,) = await maintenance.verify(writer.store)
            assert verdict.faults == [f"the state file of event {middle.seq} was changed or damaged"]
            assert verdict.share == 1

    ran(run())


def test_finished_ranges_are_not_replayed_again(tmp_path, every_state, monkeypatch):
    replayed = []
    plain = verification.replay

    async def noted(store, one, tell):
        replayed.append((one.after, one.upto))
        return await plain(store, one, tell)

    monkeypatch.setattr(verification, "replay", noted)

    async def run():
        async with trial(tmp_path / "store", options=Options(check=0.3)) as writer:
            await grown(writer)
            (first,) = await maintenance.verify(writer.store, resume=tmp_path / "notes")
            assert len(replayed) == 4 + 1  # the last one is empty, and loads the last state
            replayed.clear()
            await live(writer, 8, 10)
            first_two = (await writer.store.snapshots(1))[-2:]
            shutil.copy(tmp_path / "notes", tmp_path / "before")
            for known in first_two[1:]:  # a range may be of two that were finished
                (tmp_path / "store" / known.path).unlink()
            (second,) = await maintenance.verify(writer.store, resume=tmp_path / "notes")
            assert [one[0] for one in replayed] == [(await writer.store.snapshots(1))[0].seq]
            assert second.resumed == second.ranges - 1 == 3
            assert second.recomputed == second.decisions == first.decisions + 10
            assert not second.faults
            await writer.store.exclusive(("update decisions set value = 9 where seq = 5", [()]))
            (again,) = await maintenance.verify(writer.store, resume=tmp_path / "before")
            assert not again.faults, "of events that were changed after they were verified nothing is said"
            assert (await maintenance.verify(writer.store))[0].faults
            (tmp_path / "notes").write_text('{"kind": "cakes"}')
            with pytest.raises(FileError, match="is not of a verification of this store"):
                await maintenance.verify(writer.store, resume=tmp_path / "notes")
            (tmp_path / "notes").write_text("{")
            with pytest.raises(FileError, match="Delete it"):
                await maintenance.verify(writer.store, resume=tmp_path / "notes")

    ran(run())


def test_processes_have_the_same_verdict(tmp_path, every_state, monkeypatch):
    monkeypatch.setattr(verification, "FEW", 0)
    seen = []

    async def run():
        async with trial(tmp_path / "store", options=Options(check=0.3)) as writer:
            await grown(writer)
            await writer.store.exclusive(("update decisions set value = value + 1 where seq = 5", [()]))
            (alone,) = await maintenance.verify(writer.store)
            (together,) = await maintenance.verify(
                writer.store, lambda done, total: seen.append((done, total)), processes=2
            )
            assert together == alone
            assert together.faults
            assert seen[-1][1] == await writer.store.last_seq()

    ran(run())


@pytest.mark.parametrize("learner", ["economical", "confident"])
def test_after_an_erasure_both_sides_are_recomputed(tmp_path, every_state, learner):
    async def run():
        options = Options(explore=0.5)
        async with trial(tmp_path / "store", learner, options) as writer:
            await grown(writer, 3)
            await writer.submit(asking(contexts(7, 1)[0])._replace(subject=b"s" * 16))
            await grown(writer, 2)
            await erasure.erase(writer, NAME, subject=b"s" * 16, who="test")
            floor = only(writer).floor
            before = [one.seq for one in await writer.store.snapshots(1) if one.seq < floor]
            assert len(before) == 3, "states before the erased decision stay, those after it are gone"
            await live(writer, 9, 10)
            (verdict,) = await maintenance.verify(writer.store)
            assert not verdict.faults
            assert verdict.decisions == 86
            assert verdict.recomputed >= 45 + 10
            assert verdict.below_floor + verdict.recomputed == 86
            assert verdict.share == verdict.recomputed / 86
            return verdict.share

    share = ran(run())
    words = CliRunner().invoke(app, ["verify", str(tmp_path / "store")]).stdout
    assert f"{share:.1%}" in words


def test_an_erased_context_that_no_replay_needs_leaves_a_hole_of_one(tmp_path):
    async def run():
        async with trial(tmp_path / "store", "confident", Options()) as writer:
            answers = await live(writer, 1, 40)
            skipped = next(one for one in answers if not one.needs_reward)
            await erasure.erase(writer, NAME, decision_id=skipped.decision_id, who="test")
            await live(writer, 2, 5)
            (verdict,) = await maintenance.verify(writer.store)
            assert (verdict.recomputed, verdict.below_floor, verdict.faults) == (44, 1, [])

    ran(run())


def test_a_state_that_the_service_deletes_meanwhile_is_no_fault(tmp_path, every_state, monkeypatch):
    plain, gone = verification.replay, []

    async def run():
        async with trial(tmp_path / "store", options=Options(explore=1.0)) as writer:
            await grown(writer, 3)

            async def deleted(store, one, tell):
                if not gone and not one.start.base:
                    gone.append(one)
                    await writer.store.exclusive(("delete from snapshots where seq = $1", [(one.after,)]))
                    (store.folder / one.start.path).unlink()
                return await plain(store, one, tell)

            monkeypatch.setattr(verification, "replay", deleted)
            (verdict,) = await maintenance.verify(writer.store)
            assert gone
            assert (verdict.recomputed, verdict.faults) == (45, [])

    ran(run())


def test_numbers_that_stand_twice_are_found(tmp_path):
    """One event missing and another twice: the count is right, the sum is not."""

    async def run():
        async with trial(tmp_path / "store") as writer:
            answers = await live(writer, 2, 30)
            skipped = next(one.model_seq + 1 for one in answers if not one.needs_reward)
            changed = await writer.submit(ChangeSettings(NAME, events.MODE, {"mode": "live"}, "test"))
            await writer.store.exclusive(
                ("update changes set seq = $1 where seq = $2", [(skipped, changed.seq)])
            )
            (verdict,) = await maintenance.verify(writer.store)
            assert any("without gaps" in fault for fault in verdict.faults)

    ran(run())
