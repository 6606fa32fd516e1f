"""What a start, a page, a sweep and a retention round cost does not depend on how many decisions are stored."""

import itertools

import pytest

from research.bench.live.filling import fill
from service.building import NAME, Clock, asking, contexts, decide, live, ran, replayed, reward, same, trial
from sparing.errors import FileError
from sparing.service import dashboard, erasure, events, gap_map, health, maintenance, snapshots
from sparing.service.messages import Options
from sparing.service.registry import ExperimentRegistry
from sparing.service.transactions import ExpirePending
from sparing.service.writer import Writer

STEP = 50


def only(writer):
    return writer.registry.get(NAME)


class Work:
    """Counts instructions of SQLite's virtual machine: the same in every run."""

    def __init__(self, driver):
        self.count, self.connections = 0, (driver._reader, driver._writer)

    def __enter__(self):
        self.count = 0
        for one in self.connections:
            one.set_progress_handler(self._counted, STEP)
        return self

    def __exit__(self, *_):
        for one in self.connections:
            one.set_progress_handler(None)

    def _counted(self):
        self.count += STEP
        return False


async def filled(folder, decisions, options):
    """A store with some decisions of its own and many that were added, as a service opens it."""
    async with trial(folder, options=options) as writer:
        await live(writer, 1, 10)
    await fill(folder, decisions, 20, seconds=1000.0, window=1e6)


async def costs(folder, decisions):
    """Instructions of a start, the first page, a decision with its reward, a sweep, and a retention round with nothing or little to do."""
    options = Options(holdout=0.2, retention=500.0, explore=1.0)
    await filled(folder, decisions, options)
    found = {}
    async with trial(folder) as writer:
        work = Work(writer.store.driver)
        with work:
            await ExperimentRegistry(writer.store).catch_up(await writer.store.last_seq())
        found["start"] = work.count
        with work:
            await dashboard.overview(writer, only(writer), now=events.now())
        found["page"] = work.count
        with work:
            await reward(writer, await decide(writer, contexts(2, 1)[0]), 0.5)
        found["round"] = work.count
        now = events.now()
        assert (await erasure.expire_contexts(writer, only(writer), now)).erased > 0.4 * decisions
        with work:
            assert await erasure.expire_contexts(writer, only(writer), now) is None
        found["nothing due"] = work.count
        little = now + 10 * events.SECOND  # 1 % of the decisions
        with work:
            erased = (await erasure.expire_contexts(writer, only(writer), little)).erased
        found["little due"] = work.count / erased
    return found


def test_costs_do_not_depend_on_the_number_of_decisions(tmp_path, monkeypatch):
    """Ten times as many decisions: a bisection takes some steps more, and nothing else."""
    for module, name in (
        (dashboard, "RECOUNTED"),
        (dashboard, "LATELY"),
        (health, "LATELY"),
        (gap_map, "EVENTS"),
    ):
        monkeypatch.setattr(module, name, 1000)

    async def run():
        small, large = await costs(tmp_path / "small", 2000), await costs(tmp_path / "large", 20_000)
        for name, count in large.items():
            assert count < 1.5 * small[name] + 4000, (name, small, large)
        return small, large

    ran(run())


def test_a_start_skips_the_events_of_other_experiments(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "EVERY", 10)

    async def run():
        async with trial(tmp_path / "store") as writer:
            await live(writer, 1, 4)
            await snapshots.snapshot_here(writer, only(writer))
            seq = only(writer).model.seq
            writer.registry.seq = seq + 50  # as if another experiment had had so many events
            await writer.store.exclusive(("update store set last_seq = $1", [(seq + 50,)]))
            assert await snapshots.keep_up(writer, only(writer)) is False
            model, since = await ExperimentRegistry(writer.store).start(1, seq + 50)
            assert (model.seq, since) == (seq, seq + 50)
            assert (await ExperimentRegistry(writer.store).start(1, seq + 20))[1] == seq + 20

    ran(run())


def test_a_child_that_falls_behind_is_said_and_a_start_stays_short(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "EVERY", 10)
    monkeypatch.setattr(snapshots, "BEHIND", 30)

    async def slow(*_):
        raise FileError("the snapshot took more than 120 s")

    monkeypatch.setattr(snapshots, "_child", slow)

    async def run():
        async with trial(tmp_path / "store") as writer:
            assert await snapshots.keep_up(writer, only(writer)) is False
            await live(writer, 1, 15)
            with pytest.raises(FileError, match="more than 120 s"):
                await snapshots.keep_up(writer, only(writer))
            await live(writer, 2, 30)
            with pytest.raises(
                FileError, match=r"was \d+ events old: the process that writes it does not keep up"
            ):
                await snapshots.keep_up(writer, only(writer))
            _, since = await ExperimentRegistry(writer.store).start(1, await writer.store.last_seq())
            assert since == only(writer).model.seq
            same(await replayed(writer), only(writer).model)
            await live(writer, 3, 30)
            only(writer).doubtful = True  # another state than a replay has is not written
            with pytest.raises(FileError, match="more than 120 s"):
                await snapshots.keep_up(writer, only(writer))
            await snapshots.shorten_tail(writer, only(writer))
            assert (await writer.store.snapshots(1))[0].seq == only(writer).model.seq

    ran(run())


def test_older_states_stay_evenly_spaced(monkeypatch):
    """Every state that was ever the newest: about as many stay at a thousand as at a hundred, and they cut events into equal ranges."""
    monkeypatch.setattr(snapshots, "MILESTONES", 8)
    monkeypatch.setattr(snapshots, "SPACING", 10)
    monkeypatch.setattr(snapshots, "ROOM", 0)
    made = snapshots.StoredSnapshot(0, 0, "", b"", b"", "")
    known = []
    for seq in range(13, 10_000, 13):
        known = [made._replace(seq=seq), *known]
        stay = snapshots.milestones(known, [100] * len(known), 10**6)
        known = [one for one in known if one.seq in stay or one in known[:2]]
    gaps = [newer.seq - older.seq for newer, older in itertools.pairwise(known[1:])]
    assert 4 <= len(stay) <= 8
    assert max(gaps) < 3 * 10_000 / 8
    assert len(snapshots.milestones(known, [100] * len(known), 350)) <= 3, "no more than the database takes"
    assert snapshots.milestones(known, [0] * len(known), 350) == set()


def test_the_gap_maps_counts_survive_a_start(tmp_path, monkeypatch):
    monkeypatch.setattr(gap_map, "EVENTS", 10)
    kept = {
        "actions": [0],
        "rows": [{"where": "all", "bounds": [], "logged": [1], "never": [False]}],
        "left_out": 0,
    }

    async def counted(writer):
        page = await dashboard.overview(writer, only(writer), now=events.now())
        return page.gaps.rows[0].live[0]

    async def run():
        async with trial(tmp_path, options=Options(explore=1.0)) as writer:
            only(writer).config["about"] = {"gaps": kept}
            answers = await live(writer, 1, 30, missing=1.0)
            for _ in range(5):
                await counted(writer)
            await dashboard.keep_counts(writer, only(writer))
            expected = sum(one.action == only(writer).model.labels[0] for one in answers)
            again = Writer(writer.store, writer.registry)
            assert await counted(again) == await counted(writer) == expected

    ran(run())


def test_expired_calls_are_totals(tmp_path):
    async def run():
        clock = Clock()
        async with trial(tmp_path, options=Options(explore=1.0, reward_window=10.0), clock=clock) as writer:
            await live(writer, 1, 5, missing=1.0)
            clock.seconds += 3600
            assert await writer.submit(ExpirePending(NAME)) == 5
            assert sum(one.expired for one in await writer.store.totals(1)) == 5
            page = await dashboard.overview(writer, only(writer), now=clock())
            assert page.expired == 5

    ran(run())


def test_retention_withdraws_many_calls_part_by_part(tmp_path, monkeypatch):
    monkeypatch.setattr(erasure, "WITHDRAWN", 3)
    monkeypatch.setattr(erasure, "CHUNK", 4)

    async def run():
        clock = Clock()
        options = Options(explore=1.0, retention=100.0)
        async with trial(tmp_path, options=options, clock=clock) as writer:
            await live(writer, 1, 11, missing=1.0)
            clock.seconds += 100.5  # due, but not yet late
            assert await erasure.expire_contexts(writer, only(writer), clock()) is None
            clock.seconds += 1
            await writer.submit(asking(contexts(5, 1)[0]))
            assert (await erasure.expire_contexts(writer, only(writer), clock())).erased == 11
            assert len(only(writer).model.open) == 1
            ((body,),) = await writer.store.driver.read("select body from changes where kind = 'erase'")
            assert b'"withdrawn":11' in body
            same(await replayed(writer), only(writer).model)

    ran(run())


def test_retention_page_and_verification_on_both_databases(stores):
    async def run():
        clock = Clock()
        options = Options(explore=1.0, holdout=0.2, retention=100.0, reward_window=50.0)
        async with trial(None, options=options, clock=clock, store=stores()) as writer:
            for part in range(3):
                await live(writer, part, 10, missing=0.3)
                await snapshots.snapshot_here(writer, only(writer))
                clock.seconds += 60
                await writer.submit(ExpirePending(NAME))
            erased = await erasure.expire_contexts(writer, only(writer), clock())
            assert erased.erased == 20, "those of 180 and 120 seconds ago"
            assert await erasure.expire_contexts(writer, only(writer), clock()) is None
            page = await dashboard.overview(writer, only(writer), now=clock())
            expired = sum(one.expired for one in await writer.store.totals(1))
            assert page.expired == expired > 0
            await dashboard.keep_counts(writer, only(writer))
            await live(writer, 9, 5)
            (verdict,) = await maintenance.verify(writer.store)
            assert (verdict.recomputed, verdict.below_floor, verdict.faults) == (5, 30, [])
            same(await replayed(writer), only(writer).model)
            first = (await writer.store.record(1, "d.seq > $2", 0, limit=1))[0].decision
            assert (
                await writer.store.seq_before(0) == await writer.store.seq_before(first.ts) == first.seq - 1
            )
            assert await writer.store.seq_before(2**62) == await writer.store.last_seq()

    ran(run())


def test_closed_decisions_do_not_stay_in_the_heap(tmp_path):
    async def run():
        options = Options(explore=1.0, reward_window=1e6)
        async with trial(tmp_path, options=options) as writer:
            answers = await live(writer, 1, 300)
            model = only(writer).model
            assert not model.open
            assert len(model._expiring) < len(answers)

    ran(run())
