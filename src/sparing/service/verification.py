"""Verify a store: replay its events in ranges between state files, recompute every decision, compare states, count totals again.

A range is replayed from a state file, and its last state must equal the next file bit for bit. So ranges are independent: they are
shared among processes, and a finished one need not be replayed again. Where contexts were erased, a replay ends at the first one
that it needs, and goes on at the next state file.
"""

import asyncio
import math
import multiprocessing
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from sparing import archive
from sparing.errors import FileError, SparingError
from sparing.service import corrections, events, state_files, summing
from sparing.service import store as stores
from sparing.service.events import ChangeEvent, DecisionEvent, Event, OutcomeEvent
from sparing.service.experiment import ExperimentState
from sparing.service.registry import Experiment, ExperimentRegistry
from sparing.service.store import Store
from sparing.service.store.store import StoredSnapshot

FIRST_COMPARED = DecisionEvent.__struct_fields__.index("arm")
COMPARED = [name for name in DecisionEvent.__struct_fields__[FIRST_COMPARED:] if name != "active"]
COUNTS = ("events", "decisions", "recomputed", "by_another_engine", "below_floor", "snapshots")
MAX_FAULTS = 20
COUNTED = 1_000_000  # events numbered without gaps, in one statement
FEW = 100_000  # events that one process replays sooner than others start
PLANS = 5  # attempts, if the service deletes state files meanwhile
POLL_SECONDS = 0.2
RESUMABLE = "sparing verification"

REWARDED = (
    "select o.kind, o.decision_seq, o.value, d.ts, d.reason, d.arm, d.needs_reward, d.cost from outcomes o "
    "join decisions d on d.seq = o.decision_seq where o.experiment = $1 and o.seq > $2 and o.seq <= $3 "
    "and o.kind in ('reward', 'default', 'unasked', 'learnt', 'expired')"
)
NUMBERED = (
    "select count(*), cast(coalesce(sum(seq), 0) as bigint) from (select seq from decisions where seq > $1 and seq <= $2 union all "
    "select seq from outcomes where seq > $1 and seq <= $2 union all select seq from changes where seq > $1 and seq <= $2) as every_event"
)

Progress = Callable[[int, int], None]
RecountKey = tuple[int, str, str, int]  # hour, reason, arm, asked


@dataclass
class VerificationResult:
    """Result of replaying an experiment; `faults` are sentences, `share` is the share of the decisions that were recomputed."""

    experiment: str
    events: int = 0
    decisions: int = 0
    recomputed: int = 0
    by_another_engine: int = 0
    below_floor: int = 0
    snapshots: int = 0
    seq: int = 0
    digest: str = ""
    faults: list[str] = field(default_factory=list)
    share: float = 1.0
    ranges: int = 0
    resumed: int = 0

    def blame(self, sentence: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(sentence)


class StateAt(Struct, frozen=True):
    """A state file: the state after event `seq`; a base is loaded by the event after it."""

    seq: int
    path: str
    sha256: str
    engine: str
    digest: str = ""
    base: bool = False


class EventRange(Struct, frozen=True):
    """The events of an experiment with after < seq ≤ upto, replayed from `start`; states in them are compared with `marks`.

    `needed`: without the state file the store is damaged. `corrected` has the right rewards, by decision.
    """

    experiment: int
    floor: int
    after: int
    upto: int
    start: StateAt
    marks: tuple[StateAt, ...]
    needed: bool
    corrected: dict[int, float]


class RangeResult(Struct):
    """What the replay of a range found; `gone`: its state file was deleted meanwhile, so it does not count."""

    after: int
    upto: int
    events: int = 0
    decisions: int = 0
    recomputed: int = 0
    by_another_engine: int = 0
    below_floor: int = 0
    snapshots: int = 0
    seq: int = 0
    digest: str = ""
    faults: list[str] = []
    totals: list[tuple[int, str, str, int, float, float, float, float, float]] = []
    gone: bool = False

    def blame(self, sentence: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(sentence)


class RangePlan(NamedTuple):
    """The ranges of each experiment, as the store was at event `last`, with its totals, and the events of damaged state files."""

    last: int
    experiments: list[tuple[int, str]]
    ranges: dict[int, list[EventRange]]
    totals: dict[int, dict[RecountKey, tuple[float, ...]]]
    damaged: dict[int, list[int]]


async def verify(
    store: Store,
    progress: Progress | None = None,
    *,
    processes: int = 1,
    resume: str | os.PathLike[str] | None = None,
) -> list[VerificationResult]:
    """Replay every experiment of an open store: recompute decisions, add up totals again. Nothing in the store is changed.

    It verifies the events that there are at its beginning, so a service may go on writing. With `resume`, a file, finished ranges are noted
    there, and those noted are not replayed again.
    """
    progress = progress or (lambda done, total: None)
    known = _Finished.read(store, resume)
    for _ in range(PLANS):
        plan = await _plan(store)
        todo = [one for some in plan.ranges.values() for one in some if known.covering(one) is None]
        total = sum(one.upto - one.after for one in todo)
        fresh: dict[tuple[int, int], RangeResult] = {}
        async for one, found in _replayed(store, todo, total, progress, processes):
            fresh[one.experiment, one.after] = found
            if not found.gone:
                known.add(one, found)
        if not any(found.gone for found in fresh.values()):
            break
    verdicts = [_merged(plan, number, name, known, fresh) for number, name in plan.experiments]
    await _gapless(store, plan.last, verdicts)
    async with store.driver.one_view():
        for number, name, config, _ in await store.experiments():
            different = await summing.check_sums(store, number, config)
            for verdict in verdicts:
                if different and verdict.experiment == name:
                    verdict.blame(different)
    return verdicts


async def _plan(store: Store) -> RangePlan:
    async with store.driver.one_view():
        plan = RangePlan(await store.last_seq(), [], {}, {}, {})
        for number, name, _, floor in await store.experiments():
            plan.experiments.append((number, name))
            plan.damaged[number] = []
            plan.ranges[number] = await _ranges(store, number, name, floor, plan)
            plan.totals[number] = {
                (one.hour, one.reason, one.arm, int(one.asked)): tuple(map(float, one[4:]))
                for one in await store.totals(number)
            }
    return plan


async def _ranges(store: Store, number: int, name: str, floor: int, plan: RangePlan) -> list[EventRange]:
    """Cut the events of an experiment at its bases and intact snapshots."""
    known, starts, last = [_at(one) for one in await store.snapshots(number)], dict[int, StateAt](), plan.last
    intact = {one.seq: _is_intact(store.folder / one.path, one.sha256) for one in known}
    for one in known:
        if intact[one.seq] is False:
            plan.damaged[number].append(one.seq)
        elif intact[one.seq] and (one.seq == floor or state_files.is_this_engine(one.engine)):
            starts[one.seq] = one
    if floor and intact.get(floor) is None:
        raise FileError(
            f"experiment {name}: the snapshot at event {floor} is missing. Restore it from a backup"
        )
    bases = await store.changes(number, events.BASE)
    for base in bases:
        body = base.read()
        starts[base.seq - 1] = StateAt(base.seq - 1, body["path"], body["sha256"], body["engine"], base=True)
    first, corrected = bases[0].seq, await store.corrections(number, last)
    begins = sorted(seq for seq in starts if first - 1 <= seq <= last)
    found = []
    for after, upto in zip(begins, [*begins[1:], last], strict=True):
        start = starts[after]
        marks = tuple(one for one in known if after < one.seq <= upto)
        needed = start.base and (after + 1 == first or after + 1 >= floor)
        found.append(EventRange(number, floor, after, upto, start, marks, needed, corrected))
    return found


def _is_intact(path: Path, sha256: str) -> bool | None:
    """Return whether a state file is the stored one; None if there is none."""
    try:
        return state_files.file_hash(path).hex() == sha256
    except FileNotFoundError:
        return None


def _at(one: StoredSnapshot) -> StateAt:
    return StateAt(one.seq, one.path, one.sha256.hex(), one.engine, one.digest.hex())


# Replaying, here or in other processes.


async def _replayed(
    store: Store, todo: Sequence[EventRange], total: int, progress: Progress, processes: int
) -> AsyncIterator[tuple[EventRange, RangeResult]]:
    """Yield ranges with what their replays found, as they finish."""
    if processes <= 1 or len(todo) <= 1 or total <= FEW:
        done = 0
        for one in todo:
            before = done

            def tell(some: int, before: int = before) -> None:
                progress(before + some, total)

            yield one, await replay(store, one, tell)
            done += one.upto - one.after
        return
    context = multiprocessing.get_context("spawn")
    counts = context.Array("q", len(todo), lock=False)
    with ProcessPoolExecutor(processes, context, _share, (counts,)) as pool:
        folder, address = str(store.folder), store.address
        waiting = {
            pool.submit(_replay_there, folder, address, one, place): one
            for place, one in sorted(enumerate(todo), key=lambda each: each[1].after - each[1].upto)
        }
        try:
            while waiting:
                for future in [each for each in waiting if each.done()]:
                    yield waiting.pop(future), future.result()
                progress(sum(counts), total)
                await asyncio.sleep(POLL_SECONDS)
        finally:
            pool.shutdown(cancel_futures=True)


_counts: Any = None  # of a process of the pool: events replayed of each range


def _share(counts: Any) -> None:
    global _counts
    _counts = counts


def _replay_there(folder: str, address: str | None, one: EventRange, place: int) -> RangeResult:
    def tell(done: int) -> None:
        _counts[place] = done

    async def run() -> RangeResult:
        async with stores.open_store(Path(folder), address).reading() as store:
            return await replay(store, one, tell)

    return asyncio.run(run())


async def replay(store: Store, one: EventRange, tell: Callable[[int], None]) -> RangeResult:
    """Replay a range in one view of the store."""
    found = RangeResult(one.after, one.upto)
    async with store.driver.one_view():
        await _Replay(store, one, found).run(tell)
    if not one.start.base:
        found.gone = not any(known.seq == one.after for known in await store.snapshots(one.experiment))
    return found


class _Replay:
    """The replay of one range; `experiment` is None where there is no state, and events are only counted."""

    def __init__(self, store: Store, one: EventRange, found: RangeResult) -> None:
        self.store, self.one, self.found = store, one, found
        self.registry, self.engine = ExperimentRegistry(store), one.start.engine
        self.marks = {mark.seq: mark for mark in one.marks}
        self.totals: dict[RecountKey, list[float]] = {}
        self.shadow = _ShadowCalls(found)
        self.experiment = self._start()

    def _start(self) -> Experiment | None:
        one, start = self.one, self.one.start
        if not one.needed and _is_intact(self.store.folder / start.path, start.sha256) is None:
            return None  # deleted by an erasure
        body = {"path": start.path, "sha256": start.sha256}
        model = self.registry.state_of(one.experiment, body)
        if not start.base and (model.seq, model.digest.hex()) != (start.seq, start.digest):
            self.found.blame(f"the state file of event {start.seq} is of another event or state")
        return Experiment(one.experiment, "", {}, one.floor, model)

    async def run(self, tell: Callable[[int], None]) -> None:
        one, found = self.one, self.found
        after = one.after
        async for some in self.store.events(one.experiment, one.after, one.upto):
            for event in some:
                await self._take(event)
            if some:
                await self._count_rewards(after, some[-1].seq)
                after = some[-1].seq
                tell(after - one.after)
        self.shadow.check(None)
        await self._count_rewards(after, one.upto)
        tell(one.upto - one.after)
        if self.experiment is not None:
            found.seq, found.digest = self.experiment.model.seq, self.experiment.model.digest.hex()
        for (hour, reason, arm, asked), (n, m, total, squares, expired) in self.totals.items():
            found.totals.append((hour, reason, arm, asked, n, m, total, squares, expired))

    async def _take(self, event: Event) -> None:
        found = self.found
        self.shadow.check(event)
        found.events += 1
        decided = isinstance(event, DecisionEvent)
        if isinstance(event, DecisionEvent):
            found.decisions += 1
            self._recount(event.ts, event.reason, event.arm, event.needs_reward)[0] += 1
        if self.experiment is not None and _is_missing(self.experiment.model, event):
            self.experiment = None
        experiment = self.experiment
        if experiment is None:
            found.below_floor += decided
            return
        if isinstance(event, ChangeEvent) and event.kind == events.BASE:
            self.engine = event.read()["engine"]
            await self._check_correction(event)
        elif isinstance(event, DecisionEvent):
            self._recompute(experiment.model, event)
        try:
            self.registry.apply(experiment, event)
        except (SparingError, LookupError, AssertionError, ValueError) as error:
            self.experiment = None
            found.blame(f"event {event.seq} does not fit the state before it: {error!r}")
            return
        mark = self.marks.get(event.seq)
        if mark is not None and all(map(state_files.is_this_engine, (mark.engine, self.engine))):
            self._compare(experiment.model, mark)

    def _recompute(self, model: ExperimentState, stored: DecisionEvent) -> None:
        found = self.found
        if not state_files.is_this_engine(self.engine):
            found.by_another_engine += 1
            return
        if stored.context is None:
            found.below_floor += 1
            return
        found.recomputed += 1
        if stored.served_id is not None:  # with the decision before it
            return
        x = model.context(stored.context)
        again, call = model.decide_all(msgspec.structs.replace(stored), x)
        self.shadow.expect(stored, call)
        if (again.low, again.high) != (stored.low, stored.high):
            with model.learner.intervals_of_0_2():
                before = model.decide(msgspec.structs.replace(stored), x)
            again = before if (before.low, before.high) == (stored.low, stored.high) else again
        _compare_decisions(stored, again, COMPARED, found)

    def _compare(self, model: ExperimentState, mark: StateAt) -> None:
        """Compare a replayed state with a stored one: its digest, and if its file is there and intact, every number."""
        found, path = self.found, self.store.folder / mark.path
        found.snapshots += 1
        if mark.digest != model.digest.hex():
            found.blame(f"the snapshot at event {mark.seq} differs from a replay")
        elif _is_intact(path, mark.sha256):
            other = state_files.load(path, model.experiment, model.salt)
            if not state_files.equal(model, other):
                found.blame(f"the state file of event {mark.seq} differs from a replay")

    async def _check_correction(self, base: ChangeEvent) -> None:
        """Rebuild the state of a correction, and compare it with the stored one."""
        body, registry, number, floor = base.read(), self.registry, self.one.experiment, self.one.floor
        if "corrected" not in body or base.seq <= floor or not state_files.is_this_engine(body["engine"]):
            return
        rebuilt = await corrections.RebuiltState.start(registry, number, floor, base.seq - 1)
        await rebuilt.go_on(registry.store, base.seq - 1)
        if rebuilt.model.digest != registry.base(number, base).digest:
            self.found.blame(f"the state at event {base.seq}, of a corrected reward, differs from a replay")

    def _recount(self, ts: int, reason: str, arm: str, asked: Any) -> list[float]:
        return self.totals.setdefault((ts // events.HOUR, reason, arm, int(asked)), [0.0] * 5)

    async def _count_rewards(self, after: int, upto: int) -> None:
        corrected = self.one.corrected
        for kind, decision, stored, ts, reason, arm, asked, cost in await self.store.driver.read(
            REWARDED, self.one.experiment, after, upto
        ):
            total = self._recount(ts, reason, arm, asked)
            if kind == events.EXPIRED:
                total[4] += 1
                continue
            value = (corrected.get(decision, stored) or 0.0) - (cost or 0.0)
            total[1] += 1
            total[2] += value
            total[3] += value * value


class _ShadowCalls:
    """The shadow call that must follow a recomputed decision, if any."""

    def __init__(self, found: RangeResult) -> None:
        self.found = found
        self.served: DecisionEvent | None = None
        self.expected: DecisionEvent | None = None

    def expect(self, served: DecisionEvent, expected: DecisionEvent | None) -> None:
        self.served, self.expected = served, expected

    def check(self, event: Event | None) -> None:
        """Compare the event after a recomputed decision with what a replay gives; None after the last event."""
        served, expected, self.served = self.served, self.expected, None
        stored = event if isinstance(event, DecisionEvent) and event.served_id is not None else None
        if served is None:
            return
        if stored is not None and expected is not None:
            _compare_decisions(stored, expected, ("decision_id", *COMPARED), self.found)
        elif stored is not expected:
            found, given = ("no", "one") if stored is None else ("a", "none")
            self.found.blame(f"decision {served.seq} has {found} shadow call, but a replay gives {given}")


def _compare_decisions(
    stored: DecisionEvent, again: DecisionEvent, names: Sequence[str], found: RangeResult
) -> None:
    for name in names:
        was, now = getattr(stored, name), getattr(again, name)
        if was != now:
            found.blame(f"decision {stored.seq}: {name} is {was!r}, but a replay gives {now!r}")


def _is_missing(model: ExperimentState, event: Event) -> bool:
    """Whether an event can no longer be applied, because a context that it needs was erased."""
    if isinstance(event, DecisionEvent) and event.context is None:
        return event.needs_reward or not event.active or model.rounds == model.learner.next_entry
    return isinstance(event, OutcomeEvent) and event.kind == events.IMPORTED and event.context is None


# Results.


def _merged(
    plan: RangePlan, number: int, name: str, known: "_Finished", fresh: dict[tuple[int, int], RangeResult]
) -> VerificationResult:
    """Add up the results of an experiment's ranges, and compare the totals."""
    verdict, totals = VerificationResult(name), dict[RecountKey, np.ndarray]()
    for one in plan.ranges[number]:
        latest = fresh.get((number, one.after))
        parts = [latest] if latest is not None else known.covering(one) or []
        verdict.ranges += 1
        verdict.resumed += latest is None
        for part in parts:
            for name in COUNTS:
                setattr(verdict, name, getattr(verdict, name) + getattr(part, name))
            verdict.seq, verdict.digest = part.seq or verdict.seq, part.digest or verdict.digest
            for fault in part.faults:
                verdict.blame(fault)
            for hour, reason, arm, asked, *numbers in part.totals:
                key = hour, reason, arm, asked
                totals[key] = totals.get(key, np.zeros(5)) + numbers
    for seq in plan.damaged[number]:
        verdict.blame(f"the state file of event {seq} was changed or damaged")
    verdict.share = verdict.recomputed / verdict.decisions if verdict.decisions else 1.0
    _compare_totals(plan.totals[number], totals, verdict)
    return verdict


def _compare_totals(
    stored: dict[RecountKey, tuple[float, ...]],
    recounted: dict[RecountKey, np.ndarray],
    verdict: VerificationResult,
) -> None:
    for key in sorted(stored.keys() | recounted.keys()):
        was, now = stored.get(key, (0.0,) * 5), recounted.get(key, np.zeros(5)).tolist()
        if not all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) for a, b in zip(was, now, strict=True)):
            verdict.blame(f"totals of {key[1]} in hour {key[0]}: stored {list(was)}, recounted {now}")


async def _gapless(store: Store, last: int, verdicts: Iterable[VerificationResult]) -> None:
    """Check that the events are numbered from 1 to `last`, each number once."""
    for after in range(0, last, COUNTED):
        upto = min(after + COUNTED, last)
        ((count, total),) = await store.driver.read(NUMBERED, after, upto)
        if (count, int(total)) != (upto - after, (upto - after) * (after + 1 + upto) // 2):
            for verdict in verdicts:
                verdict.blame(
                    f"got {count} events numbered {after + 1} to {upto}; expected {upto - after}, numbered without gaps"
                )
        await asyncio.sleep(0)


class _Finished:
    """The results of finished ranges by experiment, first event and state file, in a file if there is one."""

    def __init__(self, path: Path | None, mark: dict[str, Any]) -> None:
        self.path, self.mark = path, mark
        self.results: dict[str, list[RangeResult]] = {}
        self._written = time.monotonic()

    @classmethod
    def read(cls, store: Store, path: str | os.PathLike[str] | None) -> "_Finished":
        """Read results of the same store and engine; those of another engine are forgotten."""
        mark = {
            "kind": RESUMABLE,
            "version": 1,
            "store": store.store_id.hex(),
            "engine": state_files.engine(),
        }
        made = cls(None if path is None else Path(path), mark)
        if made.path is None or not made.path.exists():
            return made
        try:
            content = msgspec.json.decode(made.path.read_bytes(), type=dict[str, Any])
            results = msgspec.convert(content.get("results", {}), dict[str, list[RangeResult]])
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            raise FileError(f"cannot read {made.path}: {error}. Delete it, or name another file") from None
        if (content.get("kind"), content.get("store")) != (mark["kind"], mark["store"]):
            raise FileError(f"{made.path} is not of a verification of this store. Name another file")
        if content == {**mark, "results": content.get("results")}:
            made.results = results
        return made

    def add(self, one: EventRange, found: RangeResult) -> None:
        """Note a range without faults that ends at a state file."""
        self.results.setdefault(_key(one), []).append(found)
        if self.path is None or found.faults or not any(mark.seq == one.upto for mark in one.marks):
            return
        kept = {key: [each for each in some if not each.faults] for key, some in self.results.items()}
        content = msgspec.json.encode({**self.mark, "results": kept})
        with archive.replacing(self.path) as part:
            part.write_bytes(content)

    def covering(self, one: EventRange) -> list[RangeResult] | None:
        """Return finished ranges, one after the other, that together are this one; None if there are none."""
        found, after, key = list[RangeResult](), one.after, _key(one)
        if after == one.upto:  # nothing to replay, but a state to load
            return None
        while after < one.upto:
            fits = [each for each in self.results.get(key, []) if each.upto <= one.upto]
            if not fits:
                return None
            longest = max(fits, key=lambda each: each.upto)
            found.append(longest)
            after, key = longest.upto, _key(one, after=longest.upto, digest=longest.digest)
        return found


def _key(one: EventRange, *, after: int | None = None, digest: str | None = None) -> str:
    begin = one.after if after is None else after
    state = (one.start.sha256 if one.start.base else one.start.digest) if digest is None else digest
    return f"{one.experiment} {len(one.corrected)} {begin} {state}"
