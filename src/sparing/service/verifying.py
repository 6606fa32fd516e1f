"""Replaying a store: every state anew from its base, every decision recomputed, every total added up again."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np

from sparing.errors import FileError
from sparing.service import events, states
from sparing.service.book import Book, Experiment
from sparing.service.events import Change, Decided, Event
from sparing.service.model import Asked, Model
from sparing.service.store import Rows, Store

COMPARED = (
    "arm",
    "action",
    "needs_reward",
    "reason",
    "play_probability",
    "call_probability",
    "value",
    "low",
    "high",
    "worth",
    "model_seq",
    "expires",
)
MOST_SHOWN = 20


@dataclass
class Verdict:
    """What a replay of an experiment found; `faults` are sentences, and there should be none."""

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

    def blame(self, sentence: str) -> None:
        """One fault more."""
        if len(self.faults) < MOST_SHOWN:
            self.faults.append(sentence)


async def verify(store: Store, progress: Callable[[int, int], None] | None = None) -> list[Verdict]:
    """Replay every experiment of a store that is open; nothing is changed."""
    last = await store.last_seq()
    verdicts = []
    for number, name, config, floor in await store.experiments():
        verdict, book = Verdict(name), Book(store)
        model, start, engine = await _start(book, number, name, floor)
        experiment = Experiment(number, name, config, floor, model)
        await _replay(book, experiment, Range(start, last, engine), verdict, progress)
        verdicts.append(verdict)
    await _gapless(store, last, verdicts)
    return verdicts


class Range(NamedTuple):
    """What is replayed: events after `start` up to `last`, at first by this engine."""

    start: int
    last: int
    engine: str


async def _replay(
    book: Book,
    experiment: Experiment,
    told: Range,
    verdict: Verdict,
    progress: Callable[[int, int], None] | None,
) -> None:
    store, number, (start, last, engine) = book.store, experiment.number, told
    marks = {one.seq: one for one in await store.snapshots(number)}
    rows = Rows(0, 0)
    known: dict[int, Decided] = {}
    async for some in store.events(number, 0, last):
        for event in some:
            _add(rows, known, event)
            verdict.events += 1
            if isinstance(event, Decided):
                verdict.decisions += 1
            if event.seq <= start:
                verdict.below_floor += isinstance(event, Decided)
                continue
            if isinstance(event, Change) and event.kind == events.BASE:
                engine = event.read()["engine"]
            elif isinstance(event, Decided):
                _recompute(experiment.model, event, engine, verdict)
            book.apply(experiment, event)
            mark = marks.get(event.seq)
            if mark is not None and states.is_this_engine(mark.engine) and states.is_this_engine(engine):
                verdict.snapshots += 1
                if mark.digest != experiment.model.digest:
                    verdict.blame(f"the snapshot at {event.seq} is not what a replay gives")
        if progress is not None and some:
            progress(some[-1].seq, last)
    verdict.seq, verdict.digest = experiment.model.seq, experiment.model.digest.hex()
    await _totals(store, number, rows, verdict)


async def _start(book: Book, number: int, name: str, floor: int) -> tuple[Model, int, str]:
    """The first base, or where contexts below were erased, the snapshot there; the event before what is replayed, and its engine."""
    store = book.store
    if floor:
        for mark in await store.snapshots(number):
            if mark.seq == floor:
                return states.load(store.folder / mark.path, number, store.salt), mark.seq, mark.engine
        raise FileError(f"experiment {name} lacks its snapshot at {floor}. Restore it from a backup")
    first = (await book.bases(number))[0]
    return book.base(number, first), first.seq - 1, first.read()["engine"]


def _recompute(model: Model, stored: Decided, engine: str, verdict: Verdict) -> None:
    """Decide again what was decided, and compare."""
    if not states.is_this_engine(engine):
        verdict.by_another_engine += 1
        return
    if stored.context is None:
        verdict.below_floor += 1
        return
    verdict.recomputed += 1
    allowed = None
    if stored.eligible is not None:
        bits = np.unpackbits(np.frombuffer(stored.eligible, dtype=np.uint8), count=len(model.labels))
        allowed = bits.astype(np.bool_)
    context_id = None if stored.context_id is None else msgspec.json.decode(stored.context_id)
    again = model.decide(
        Asked(
            stored.decision_id,
            stored.ts,
            model.context(stored.context),
            stored.context,
            allowed,
            context_id,
            stored.subject,
            active=stored.active,
        )
    )
    for name in COMPARED:
        was, now = getattr(stored, name), getattr(again, name)
        if was != now:
            verdict.blame(f"decision {stored.seq}: {name} was {was!r}, a replay gives {now!r}")


def _add(rows: Rows, known: dict[int, Decided], event: Event) -> None:
    """Count an event again."""
    if isinstance(event, Decided):
        known[event.seq] = event
        rows.count(event, decided=1)
    elif not isinstance(event, Change) and event.kind in events.CLOSING:
        decision = known.pop(event.decision_seq)
        if event.kind in events.REWARDED:
            rows.count(decision, rewarded=1, value=event.value or 0.0)


async def _totals(store: Store, number: int, rows: Rows, verdict: Verdict) -> None:
    """Compare the totals with those counted again."""
    stored: dict[Any, Any] = {
        (number, one.hour, one.reason, one.arm, int(one.asked)): one[4:] for one in await store.totals(number)
    }
    for key in stored.keys() | rows.totals.keys():
        was, now = stored.get(key, (0, 0, 0.0, 0.0)), rows.totals.get(key, [0, 0, 0.0, 0.0])
        if not all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) for a, b in zip(was, now, strict=True)):
            verdict.blame(f"the totals of {key[2]} in hour {key[1]} are {list(was)}, counted again {now}")


async def _gapless(store: Store, last: int, verdicts: list[Verdict]) -> None:
    """Every number from 1 to the last stands for one event."""
    ((count, least, most),) = await store.driver.read(
        "select count(*), min(seq), max(seq) from (select seq from decisions union all select seq from outcomes "
        "union all select seq from changes) as every_event where seq <= $1",
        last,
    )
    if (count, least or 1, most or 0) != (last, 1, last):
        for verdict in verdicts:
            verdict.blame(f"{count} events with numbers from {least} to {most}, where {last} are expected")
