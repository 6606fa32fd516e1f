"""The dashboard's message, from the state of an experiment, hourly totals and a few rows. Nothing here changes a state."""

import asyncio
import itertools
import os
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

import sparing
from sparing.errors import DecisionError
from sparing.interval import interval
from sparing.online.rules import EconomicalRule
from sparing.service import comparison, events
from sparing.service.comparison import HourlyTotals, TimeBins
from sparing.service.events import DecisionEvent
from sparing.service.experiment import ExperimentState
from sparing.service.gap_map import LiveCalls, partly_logged
from sparing.service.health import disagreeing, health_checks, out_of_range
from sparing.service.messages import (
    About,
    Action,
    AskQueue,
    Health,
    Look,
    Overview,
    QueuedAsk,
    Recent,
    Record,
    SampleRatio,
    Shift,
    Snapshot,
    Spend,
    WorkerState,
)
from sparing.service.registry import Experiment
from sparing.service.store import Store, StoredDecision
from sparing.service.store.store import HourlyTotal
from sparing.service.writer import Writer

WINDOW = 10_000  # events counted between two yields to other tasks
# With more distinct subjects, counting restarts from the current event: memory stays bounded.
MAX_SUBJECTS = 100_000
RECOUNTED = 100_000  # events whose subjects are counted again after a start

SHOWN = 12  # recent decisions
CLOSED, LATELY = 200, 50_000  # recent outcomes, searched among so many events
PRESENT = 60 * events.SECOND  # without a heartbeat a worker counts as gone
DAY = 24
# A page of the queue has contexts of so many bytes, and those of the last read, which is of so many decisions.
QUEUE_BYTES, QUEUE_READ = 4 * 2**20, 16
STARTED = events.now()


@dataclass
class CounterCache:
    """Counts of one experiment up to an event, kept in memory: subjects served by each variant since `since`, and calls in the gap map.

    Hourly totals have no distinct subjects, and counting all events for every page takes too long.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    made: int | None = None  # the event that created the experiment
    first: tuple[int, int] | None = None  # number and time of the first decision
    calls: LiveCalls = field(default_factory=LiveCalls)
    since: int | None = None
    arms_to: int = 0
    alone: Counter[str] = field(default_factory=Counter)  # decisions without a subject, by variant
    subjects: defaultdict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))  # by variant

    async def begin(self, store: Store, experiment: int, totals: Sequence[HourlyTotal]) -> None:
        """Find where the experiment began; `totals` are its hourly ones, in order."""
        if self.made is None:
            ((made,),) = await store.driver.read(
                "select min(seq) from changes where experiment = $1 and kind = $2", experiment, events.BASE
            )
            self.made = self.calls.made = int(made or 0)
            await self.calls.restore(store, experiment)
        if self.first is None and totals:
            hour = await store.seq_before(totals[0].hour * events.HOUR, self.made)
            found = await store.driver.read(
                "select seq, ts from decisions where experiment = $1 and seq > $2 order by seq limit 1",
                *(experiment, hour),
            )
            self.first = (int(found[0][0]), int(found[0][1])) if found else None

    async def count_arms(self, store: Store, experiment: int, since: int, upto: int) -> tuple[int, int]:
        """Return how many were assigned to policy and holdout after the event `since`: subjects, or decisions without one.

        The first call goes back `RECOUNTED` events at most, so that a page after a start does not read all events.
        """
        since = max(since, self.made or 0)
        if since != self.since:
            self.since, self.arms_to = since, max(since, upto - RECOUNTED)
            self._forget()
        async for after, end in windows(self.arms_to, upto):
            if sum(map(len, self.subjects.values())) >= MAX_SUBJECTS:
                self._forget()
            for arm, subject, count in await store.driver.read(
                "select arm, subject, count(*) from decisions where experiment = $1 and seq > $2 and seq <= $3 "
                # An erased decision has lost its subject, and would count as one without.
                "and arm in ('policy', 'holdout') and context is not null group by arm, subject",
                *(experiment, after, end),
            ):
                if subject is None:
                    self.alone[arm] += int(count)
                else:
                    self.subjects[arm].add(bytes(subject))
            self.arms_to = end
        policy, holdout = (self.alone[arm] + len(self.subjects[arm]) for arm in ("policy", "holdout"))
        return policy, holdout

    def _forget(self) -> None:
        self.alone.clear()
        self.subjects.clear()


async def windows(after: int, upto: int) -> AsyncIterator[tuple[int, int]]:
    """Yield ranges (after, end] up to `upto`, yielding to other tasks in between."""
    while after < upto:
        end = min(after + WINDOW, upto)
        yield after, end
        after = end
        await asyncio.sleep(0)


_known: WeakKeyDictionary[Writer, dict[int, CounterCache]] = WeakKeyDictionary()


async def keep_counts(writer: Writer, experiment: Experiment) -> None:
    """Store the counts of the gap map, if a page has counted many more events since, so that a start need not count them again."""
    known = _known.get(writer, {}).get(experiment.number)
    if known is not None:
        async with known.lock:
            await known.calls.keep(writer.store, experiment.number)


def about(experiment: Experiment) -> About:
    model = experiment.model
    learner = model.learner
    return About(
        experiment.name,
        model.mode,
        learner.algorithm,
        learner.guarantee,
        [model.labels[number] for number in np.flatnonzero(model.active)],
        [model.labels[number] for number in np.flatnonzero(~model.active)],
        [column.column for column in learner.encoder.columns],
        model.options,
        model.config_seq,
        model.seq,
        model.digest.hex(),
        model.rounds,
        model.calls,
        len(model.open),
    )


def recorded(experiment: Experiment, found: StoredDecision) -> Record:
    one, closed = found
    stored = {
        name: value for name, value in msgspec.structs.asdict(one).items() if name in Record.__struct_fields__
    }
    stored |= {
        "decision_id": events.id_text(one.decision_id),
        "time": events.time_text(one.ts),
        "action": experiment.model.labels[one.action],
        "context_id": None if one.context_id is None else msgspec.json.decode(one.context_id),
        "reward": None if closed is None else closed.value,
        "outcome": None if closed is None else closed.kind,
        "served_id": None if one.served_id is None else events.id_text(one.served_id),
    }
    if one.context is None:  # erased, with what would give it back
        stored |= dict.fromkeys(("value", "low", "high", "play_probability", "call_probability"))
    return Record(**stored)


async def queue(store: Store, experiment: Experiment, after: int, limit: int) -> AskQueue:
    """Return the first `limit` rewards that are waited for after an event, in order; fewer if their contexts are large."""
    model = experiment.model
    pending = list(model.open)  # in order; a copy, since calls are closed between the reads below
    waiting = (
        seq
        for seq in itertools.islice(pending, bisect_right(pending, after), None)
        if (one := model.open.get(seq)) is not None and one.asked and not model.deferred(one)
    )
    asks, seen, size, last = list[QueuedAsk](), 0, 0, None
    while (
        seen < limit
        and size < QUEUE_BYTES
        and (seqs := list(itertools.islice(waiting, min(QUEUE_READ, limit - seen))))
    ):
        found = {one.decision.seq: one.decision for one in await store.records(seqs)}
        shown = [found[seq] for seq in seqs if seq in found and found[seq].context is not None]
        asks += [_queued(model, one) for one in shown]
        size += sum(len(one.context or b"") for one in shown)
        seen, last = seen + len(seqs), seqs[-1]
    return AskQueue(asks, last if seen == limit or size >= QUEUE_BYTES else None)


def _queued(model: ExperimentState, one: DecisionEvent) -> QueuedAsk:
    assert one.context is not None
    context = events.unpack_context(one.context)
    return QueuedAsk(
        events.id_text(one.decision_id),
        one.seq,
        events.time_text(one.ts),
        context if isinstance(context, dict) else context.tolist(),
        None if one.context_id is None else msgspec.json.decode(one.context_id),
        model.labels[one.action],
        one.worth,
        one.reason,
        one.arm,
        None if one.served_id is None else events.id_text(one.served_id),
        None if one.expires is None else events.time_text(one.expires),
    )


async def overview(
    writer: Writer,
    experiment: Experiment,
    *,
    now: int,
    started: int = STARTED,
    worker: str | None = None,
    alarms: Sequence[str] = (),
) -> Overview:
    """Return the dashboard's message at a time (µs); `worker` is the name of this process, `alarms` its problems."""
    store, number, about_log = writer.store, experiment.number, experiment.config.get("about", {})
    known = _known.setdefault(writer, {}).setdefault(number, CounterCache())
    async with known.lock:  # concurrent requests share one count
        upto = await store.last_seq()
        stored = await store.totals(number)
        await known.begin(store, number, stored)
        since, ratio = await _shares(store, experiment, known, upto)
        gaps = await known.calls.shown(about_log.get("gaps"), store, experiment.model, upto)
    totals = HourlyTotals.of(stored)
    closed = await _closed(store, number, upto)
    latest = min(upto, experiment.model.seq)
    recent = await store.record(
        number, "d.seq <= $2 and d.seq > $3", latest, known.made, limit=SHOWN, newest=True
    )
    health, ill = await _health(writer, experiment, now, started, worker, alarms)
    model = experiment.model
    steps, reasons = TimeBins.of(totals, now), totals.reasons()
    sums = await store.compared(number, experiment.compared_since)
    limited = comparison.budget_limited_hours(totals)
    compared, so_far = comparison.compare(
        sums, steps, model.options, now=now, ratio=ratio, limited=bool(len(limited))
    )
    decisions = sum(one.decisions for one in reasons if one.arm != events.ALSO)
    asked = sum(one.decisions for one in reasons if one.asked)
    free = max(decisions - asked, 0)  # a decision may have a check and a shadow call
    left_out = int((limited >= since).sum())
    outside = await out_of_range(store, model, upto)
    found = model.learner.shift
    page = Overview(
        name=experiment.name,
        time=events.time_text(now),
        mode=model.mode,
        asking=model.options.asking,
        learner=model.learner.algorithm,
        guarantee=model.learner.guarantee,
        log_rows=about_log.get("rows", 0),
        decisions=decisions,
        asked=asked,
        skipped=free,
        saved=free / decisions if decisions else None,
        rewarded=sum(one.rewarded for one in reasons),
        expired=sum(one.expired for one in stored),
        reasons=reasons,
        headline=compared,
        spend=_spend(model, totals, known, decisions, asked, now),
        step=steps.seconds,
        hours=steps.by_reason(totals),
        so_far=so_far,
        actions=_actions(model, about_log),
        level=model.learner.level,
        look=[],
        shift=None if found is None else Shift(*found),
        gaps=gaps,
        recent=[msgspec.convert(recorded(experiment, one), Recent, from_attributes=True) for one in recent],
        health=health,
    )
    looks = [Look("alarm", text) for text in ill]
    looks += health_checks(model, page, closed, left_out, outside)
    if any(each.level == "alarm" for each in looks):
        page = msgspec.structs.replace(page, health=msgspec.structs.replace(health, status="degraded"))
    return msgspec.structs.replace(page, look=looks)


async def _shares(
    store: Store, experiment: Experiment, known: CounterCache, upto: int
) -> tuple[int, SampleRatio | None]:
    """Return the hour of the last change of check or holdout, and the test of the holdout's share since."""
    changes = await store.changes(experiment.number, events.OPTIONS)
    change = comparison.changed(changes, experiment.config.get("options"))
    if change is None or known.first is None or known.first[0] > change.seq:
        since, after = 0, 0  # as they were at the first decision
    else:
        since, after = -(-change.ts // events.HOUR), change.seq
    asked = experiment.model.options.holdout
    if not asked:
        return since, None
    policy, holdout = await known.count_arms(store, experiment.number, after, upto)
    return since, comparison.sample_ratio(asked, policy, holdout)


async def _closed(store: Store, number: int, upto: int) -> list[str]:
    found = await store.driver.read(
        "select kind from outcomes where experiment = $1 and seq > $2 and closes = 1 order by seq desc limit $3",
        *(number, upto - LATELY, CLOSED),
    )
    return [kind for (kind,) in found if kind in (events.REWARD, events.DEFAULT, events.EXPIRED)]


async def _health(
    writer: Writer,
    experiment: Experiment,
    now: int,
    started: int,
    worker: str | None,
    alarms: Sequence[str],
) -> tuple[Health, list[str]]:
    store, model = writer.store, experiment.model
    workers = await store.workers(experiment.number, now - PRESENT)
    snapshots = await store.snapshots(experiment.number)
    ((backup,),) = await store.driver.read("select last_backup from store")
    ill = [*disagreeing(workers), *alarms]
    if writer.idle:
        ill.append(
            "The store could not be written in the last second. Requests are refused with 503 until it can. Check the disk or the database"
        )
    this = (worker or f"process {os.getpid()}", model.seq, model.digest)
    taken = np.array(writer.latencies) * 1000
    return Health(
        status="healthy",
        store=store.driver.kind,
        store_bytes=await store.driver.size(),
        model_seq=model.seq,
        digest=model.digest.hex(),
        workers=[WorkerState(name, seq, digest.hex()) for name, seq, digest in workers or [this]],
        snapshot=Snapshot(snapshots[0].seq, events.time_text(snapshots[0].ts)) if snapshots else None,
        last_backup=None if backup is None else events.time_text(backup),
        decide_ms=(float(np.median(taken)), float(np.quantile(taken, 0.99))) if len(taken) else None,
        started=events.time_text(started),
        version=sparing.__version__,
    ), ill


def _spend(
    model: ExperimentState, totals: HourlyTotals, known: CounterCache, decisions: int, asked: int, now: int
) -> Spend:
    options, period = model.options, round(model.options.budget_period * events.SECOND)
    price = options.price
    if price is None:
        price = next(
            (rule.call_cost for rule in model.learner.rules if isinstance(rule, EconomicalRule)), None
        )
    budget, used, ends = options.budget_calls, model.calls_in_period(now), (now // period + 1) * period
    runs_out = None
    if budget is not None:
        day = now // events.HOUR - DAY + 1
        begin = max(day * events.HOUR, known.first[1] if known.first else 0)
        rate = totals.calls_since(day) / max(now - begin, events.HOUR)
        left = max(budget - used, 0)
        runs_out = now + left / rate if rate else (now if not left else None)
    return Spend(
        calls=asked,
        price=price,
        unit=options.unit,
        spent=None if price is None else price * asked,
        not_spent=None if price is None else price * max(decisions - asked, 0),
        budget_calls=budget,
        period_calls=used,
        period_ends=None if budget is None else events.time_text(ends),
        runs_out=None if runs_out is None or runs_out >= ends else events.time_text(int(runs_out)),
        open=len(model.open),
        most_open=options.most_open,
    )


def _actions(model: ExperimentState, about_log: dict[str, Any]) -> list[Action]:
    """List all actions, those with most decisions first, then those with most logged rows.

    An action is `partly` learnt from the log if it has fewer than 2d rows (d: length of a context), or if the gap map has a
    segment in which it was never or rarely logged.
    """
    learner, sets = model.learner, model.learner.sets
    logged, live, played = sets.logged, sets.live, model.played
    mean, half = sets.evaluate(_center(model, about_log))
    costs = learner.action_costs
    mean = mean if costs is None else mean - costs
    partly = (logged < 2 * learner.n_features) | partly_logged(about_log, learner.n_actions)
    learnt = np.where(logged == 0, "never tried", np.where(partly, "partly", "yes"))
    share = played / max(1, played.sum())
    limits = interval(mean, half, learner.half_widths)
    columns = (logged, live, played, share, learnt, ~model.active, mean, *limits)
    order = np.lexsort((-logged, -played))
    numbers = order.tolist()
    labels, known = [model.labels[number] for number in numbers], map(learner.cost, numbers)
    rows = zip(labels, *(column[order].tolist() for column in columns), known, strict=True)
    return [Action(*row) for row in rows]


def _center(model: ExperimentState, about_log: dict[str, Any]) -> np.ndarray:
    """Return the log's mean context (d,); ones if there is none."""
    try:
        return model.learner.context(about_log.get("center") or [])
    except DecisionError:
        return np.ones(model.learner.n_features)
