"""An experiment begun again from another log, or with other settings: live rewards so far are learnt on top, and what is open stays open.

The slow part (reading, fitting, learning what has come so far) happens in a thread while the service goes on; what has come
since is learnt under the writer's lock. Actions keep their numbers: known labels first in their order, new ones behind.
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from sparing.errors import LogError, SparingError
from sparing.log.labels import brief
from sparing.log.log import Log
from sparing.online.learner import Learner
from sparing.service import book, events, states
from sparing.service import store as stores
from sparing.service.book import Experiment
from sparing.service.creating import check_options, make_learner
from sparing.service.events import Change
from sparing.service.gapmap import described
from sparing.service.ledger import Ledger
from sparing.service.messages import ImportAnswer
from sparing.service.model import Model
from sparing.service.problems import ServiceError, conflict, unfit
from sparing.service.store import Store
from sparing.service.store.driver import LostError
from sparing.service.writer import Writer

LogReader = Callable[[Sequence[Hashable] | None], Log]
"""Reads the log, with these actions in this order, or with those that occur."""

REWARDS = (
    "select o.seq, d.decision_id, o.value, coalesce(o.played, d.action), d.context from outcomes o join decisions d on d.seq = o.decision_seq "
    "where o.experiment = $1 and o.seq > $2 and o.seq <= $3 and o.kind in ('reward', 'default', 'learnt') order by o.seq limit $4"
)
CHUNK = 2000
SHOWN = 20
"""Decisions that a refusal names."""

SHORT, PASSES = 2000, 5
"""Events that may be left for the lock, and how often to go after those that came meanwhile."""


class Relearnt:
    """A learner from a new log, and the live rewards that it was taught up to an event."""

    def __init__(self, learner: Learner, experiment: int, log: Log) -> None:
        self.learner, self.experiment = learner, experiment
        self.rows, self.about = log.n_rows, described(log)
        self.seq = self.learnt = self.lost = 0
        self.refused: list[str] = []

    async def go_on(self, store: Store, upto: int) -> None:
        """Learn the rewards up to an event, in their order; take note of those that the learner refuses."""
        after = self.seq
        while rows := await store.driver.read(REWARDS, self.experiment, after, upto, CHUNK):
            for seq, decision_id, value, action, context in rows:
                self._learn(decision_id, value, action, context)
                after = seq
        self.seq = upto

    def _learn(self, decision_id: bytes, value: float, action: int, context: bytes | None) -> None:
        if context is None:
            self.lost += 1
            return
        try:
            x = self.learner.context(events.unpacked(context))
            self.learner.observe(self.learner.open_call(action, x), value)
            self.learnt += 1
        except SparingError as error:
            self.refuse(decision_id, error)

    def refuse(self, decision_id: bytes, error: SparingError) -> None:
        """Take note of a decision that the learner cannot take over."""
        self.refused.append(f"{events.id_text(decision_id)}: {error}")

    def check(self) -> None:
        """Refuse the import if the learner refused a decision."""
        if self.refused:
            more = len(self.refused) - SHOWN
            listed = "\n".join([*self.refused[:SHOWN], *([f"… and {more} more"] if more > 0 else [])])
            raise unfit(
                f"{len(self.refused)} live decisions do not fit the new log; nothing was changed. Give a log with the same columns, or "
                f"erase these contexts first:\n{listed}",
                "log",
                "unfit_decisions",
            )


async def import_log(
    writer: Writer,
    name: str,
    log_reader: LogReader,
    settings: Mapping[str, Any] | None,
    who: str,
    *,
    config: Mapping[str, Any] | None = None,
) -> ImportAnswer:
    """Begin an experiment again from a log, with these settings of its learner (those it has, if None).

    `config` is what else of the experiment's own is to change, such as `columns`. A live context or reward that the new
    learner refuses refuses the import, and nothing is changed.
    """
    experiment = writer.book.get(name)
    told = {**experiment.config, **(config or {})}
    if settings is not None:
        told["settings"] = dict(settings)
    known, since = experiment.model.learner.action_names, await _begun(writer, experiment.number)
    made = await asyncio.to_thread(
        _prepared, writer.store, experiment.number, known, experiment.model.options, log_reader, told
    )
    made.check()
    written: dict[str, str] = {}

    async def operation(ledger: Ledger) -> ImportAnswer:
        current = writer.book.get(name)
        same = current.number == experiment.number and current.model.learner.action_names == known
        if not same or await _begun(writer, current.number) != since:
            raise conflict(
                "changed",
                "the experiment's actions or its log changed while this log was read; import it again",
            )
        await made.go_on(writer.store, ledger.rows.last_seq)
        model = await _taken_over(writer.store, made, current.model)
        made.check()
        check_options(model.options, model.learner)
        written.update(await asyncio.to_thread(book.keep, writer.store.folder, model))
        new = model.learner.n_actions - len(known)
        body = {**written, "rows": made.rows, "new": new}
        base = Change(0, current.number, 0, events.BASE, msgspec.json.encode(body), who)
        ledger.append(current, base)
        current.config = {**told, "about": made.about}
        await writer.store.configure(current.number, msgspec.json.encode(current.config).decode())
        return ImportAnswer(made.rows, made.learnt, made.lost)

    try:
        return await writer.alone(operation)
    except ServiceError as error:
        if written and not isinstance(error.__cause__, LostError):
            (writer.store.folder / written["path"]).unlink(missing_ok=True)
        raise


async def _begun(writer: Writer, number: int) -> int:
    """The event that an experiment began from last."""
    return (await writer.book.bases(number))[-1].seq


def _prepared(
    store: Store,
    number: int,
    known: tuple[Hashable, ...],
    options: Any,
    log_reader: LogReader,
    config: Mapping[str, Any],
) -> Relearnt:
    """In a thread: the new learner, taught what has come so far."""
    log = read_keeping(log_reader, known)
    learner = make_learner(config["learner"], log, config.get("settings") or {})
    check_options(options, learner)
    made = Relearnt(learner, number, log)
    asyncio.run(_go_after(stores.at(store.folder, store.address), made))
    return made


def read_keeping(log_reader: LogReader, known: Sequence[Hashable]) -> Log:
    """The log with the known actions first in their order, and new ones behind."""
    try:
        log = log_reader(list(known))
    except LogError:  # it may have more of them, or be unfit for another reason, which the next try says
        occurring = log_reader(None).action_names
        log = log_reader([*known, *(label for label in occurring if label not in set(known))])
    if log.action_names[: len(known)] != tuple(known):
        raise LogError(
            f"the log's actions begin with {brief(log.action_names[:5])}; expected {brief(tuple(known[:5]))}, as the experiment "
            "has them. Read it with actions=[...]"
        )
    return log


async def _go_after(store: Store, made: Relearnt) -> None:
    await store.look()
    try:
        for _ in range(PASSES):
            last = await store.last_seq()
            short = last - made.seq < SHORT
            await made.go_on(store, last)
            if short or made.refused:
                return
    finally:
        await store.close()


async def _taken_over(store: Store, made: Relearnt, old: Model) -> Model:
    """The new learner with all else that the old state is: what is retired, open and counted. Its time is set where it is loaded."""
    learner = made.learner
    for gone in np.flatnonzero(~old.active).tolist():
        learner.retire(learner.action_names[gone])
    model = Model(old.experiment, learner, old.options, old.salt)
    for name in (*states.NUMBERS, "digest"):
        setattr(model, name, getattr(old, name))
    model.played[: len(old.played)] = old.played
    found = {one.decision.seq: one.decision for one in await store.find_seqs([*old.open])}
    for seq, waiting in old.open.items():
        decision = found[seq]
        assert decision.context is not None, "an erasure withdraws what is open first"
        try:
            x = model.context(decision.context)
            action = old.learner.pending_call(waiting.call).action
            call = learner.open_call(action, x, deferred=old.deferred(waiting))
            model.wait(seq, waiting._replace(call=call))
        except SparingError as error:
            made.refuse(decision.decision_id, error)
    return model


async def rebase(writer: Writer, experiment: Experiment, *, who: str = "engine") -> bool:
    """At a start: if the state on disk comes from another engine (compiled code, Numba, NumPy), begin anew from the state as it
    is, because a replay is equal only within one engine; whether that was needed.
    """

    async def operation(ledger: Ledger) -> bool:
        current = writer.book.numbered(experiment.number)
        base = (await writer.book.bases(current.number))[-1]
        newer = [one.engine for one in await writer.store.snapshots(current.number) if one.seq > base.seq]
        if {base.read()["engine"], *newer[:1]} == {states.engine()}:
            return False
        body = await asyncio.to_thread(book.keep, writer.store.folder, current.model)
        ledger.append(current, Change(0, current.number, 0, events.BASE, msgspec.json.encode(body), who))
        return True

    return await writer.alone(operation)
