"""Erasure of contexts from the store and from every state file; decisions and rewards stay.

Erased are a decision's context, context id and subject, and what would give a context back by trying all: the hash of the request,
the estimate with its limits, the probabilities, the value of the call, and the costs of the request. The request_id stays, so that a retry is
refused and not decided anew.
The learner's sums stay too; of the contexts that stand for future ones, erased ones are withdrawn. A replay needs contexts, so it can
start only at the state that an erasure writes: the experiment's floor is raised to it.

Files outside the store's folder (exports, backups) are not reached, and PostgreSQL keeps old rows until it vacuums.
"""

import asyncio
import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from sparing.service import events
from sparing.service.errors import unavailable, unprocessable
from sparing.service.events import OutcomeEvent
from sparing.service.messages import Erased
from sparing.service.registry import Experiment
from sparing.service.snapshots import delete_old_snapshots, snapshot_within
from sparing.service.store import Store
from sparing.service.transactions import TransactionHandler
from sparing.service.writer import Writer

# The numbers: of a decision that an earlier version erased.
NOT_ERASED = (
    "(context is not null or context_id is not null or subject is not null or request_hash is not null "
    "or value <> 0 or low <> 0 or high <> 0 or play_probability <> 0)"
)
# Of the probabilities it stays whether a call was possible, by which decisions are compared.
ERASED = (
    "context = null, context_id = null, subject = null, request_hash = null, value = 0, low = 0, high = 0, worth = null, costs = null, "
    "play_probability = 0, call_probability = case when call_probability > 0 then 1 else 0 end"
)
CONDITIONS = {
    # With a decision its shadow call, and the reverse: they have one context.
    "decision_id": "(decision_id = $2 or served_id = $2 or decision_id = (select served_id from decisions where decision_id = $2))",
    "context_id": "context_id = $2",
    "subject": "subject = $2",
    "before_ts": "seq > $2",  # up to the last event before it; all before $2 are erased
}
CHUNK = 5000  # erased in one transaction: requests wait no longer
WINDOW = 20_000  # events that one statement looks through
WITHDRAWN = 1000  # calls withdrawn in one transaction
# A reader prevents emptying the write-ahead log: so many attempts, so many seconds apart.
TRIES, PAUSE = 20, 0.25

RETENTION = "retention"
# Every erasure writes the state. So retention waits for a hundredth of its time, an hour at most, and then erases all that is due.
LATE, LATEST = 0.01, 3600.0


async def erase(writer: Writer, name: str, *, who: str, **given: str | int | bytes | None) -> Erased:
    """Erase the contexts of one of `CONDITIONS`: a decision, a context id, a subject (as stored), or all before a time.

    Pending calls among them are withdrawn first: they are never learnt from, and their rewards are refused.
    """
    number = writer.registry.get(name).number
    wanted = await _target(writer.store, number, given)
    withdrawn = await _withdraw(writer, wanted)
    count = await wanted.total(writer.store)
    if count:
        count = await _begin(writer, wanted, who, count, withdrawn)
    floor = writer.registry.by_id(number).floor
    after = 0

    async def more(transaction: TransactionHandler) -> int:
        return await wanted.erase_some(writer.store, after, floor)

    while count and (after := await writer.exclusive(more)):
        pass
    if wanted.upto is not None:
        await writer.store.note_erased_to(number, wanted.upto)
    if count:
        await delete_old_snapshots(writer, writer.registry.by_id(number))
    await _settle(writer)
    return Erased(count, floor)


class ErasureTarget(NamedTuple):
    """Decisions of an experiment to erase: the criterion, its SQL condition and value; up to an event, or of all."""

    number: int
    kind: str
    where: str
    value: Any
    upto: int | None = None

    async def among(self, store: Store, seqs: Iterable[int]) -> list[int]:
        """Return which of the decisions `seqs` are to be erased, in order; under the writer's lock."""
        upto = self.upto
        if upto is not None:
            if isinstance(seqs, dict):  # pending ones, in order
                seqs = itertools.takewhile(lambda seq: seq <= upto, seqs)
            return sorted(seq for seq in seqs if self.value < seq <= upto)
        found = await store.driver.rows(
            f"select seq from decisions where experiment = $1 and {self.where}", self.number, self.value
        )
        return sorted({seq for (seq,) in found}.intersection(seqs))

    async def total(self, store: Store) -> int:
        """Return how many there are to erase."""
        total = 0
        if self.upto is None:
            ((total,),) = await store.driver.read(f"select count(*) {self._chosen(2**62)}", *self._values())
        else:
            for after in range(self.value, self.upto, WINDOW):
                end = min(after + WINDOW, self.upto)
                ((some,),) = await store.driver.read(
                    f"select count(*) {self._chosen(end)}", self.number, after
                )
                total += some
                await asyncio.sleep(0)
        return int(total)

    async def first(self, store: Store) -> int | None:
        """Return the first of them, under the writer's lock."""
        found = await store.driver.rows(
            f"select seq {self._chosen(self.upto or 2**62)} order by seq limit 1", *self._values()
        )
        return int(found[0][0]) if found else None

    async def erase_some(self, store: Store, after: int, floor: int) -> int:
        """Erase up to `CHUNK` of them after an event and up to the floor; return the last one, or 0 if there are none."""
        begin = max(after, self.value) if self.upto is not None else self.value
        end = floor if self.upto is None else min(floor, self.upto)
        found = await store.driver.rows(
            f"select seq {self._chosen(end)} order by seq limit $3", self.number, begin, CHUNK
        )
        if found:
            await store.driver.many(
                f"update decisions set {ERASED} where seq = $1",
                found,
            )
        return int(found[-1][0]) if found else 0

    async def forget_subjects(self, store: Store, upto: int) -> None:
        """Delete the sums of the subjects of these decisions; they stay in the sums over all subjects, which name nobody.

        What a subject does later counts as another's. Past the retention, a subject is kept that has later decisions.
        """
        if self.upto is not None:
            await store.driver.many(
                "delete from subject_sums where experiment = $1 and last <= $2", [(self.number, self.upto)]
            )
            return
        await store.driver.many(
            "delete from subject_sums where experiment = $1 and subject in "
            f"(select subject from decisions where experiment = $1 and {self.where} and seq <= $3 and subject is not null)",
            [(self.number, self.value, upto)],
        )

    def _chosen(self, end: int) -> str:
        return f"from decisions where experiment = $1 and {self.where} and seq <= {end:d} and {NOT_ERASED}"

    def _values(self) -> tuple[int, Any]:
        return self.number, self.value


async def _target(store: Store, number: int, given: dict[str, Any]) -> ErasureTarget:
    found = {kind: value for kind, value in given.items() if value is not None}
    if len(found) != 1:
        raise unprocessable(
            f"got {' and '.join(found) or 'nothing to erase'}; give exactly one of {', '.join(CONDITIONS)}"
        )
    ((kind, value),) = found.items()
    stored, upto = value, None
    if kind == "decision_id":
        stored = events.id_bytes(value)
        if stored is None:
            raise unprocessable(f"decision_id={value!r}; must be the id of a decision", kind)
    elif kind == "context_id":
        stored = msgspec.json.encode(value).decode()
    elif kind == "before_ts":
        stored = await store.erased_to(number)
        upto = await store.seq_before(value, stored)
    return ErasureTarget(number, kind, CONDITIONS[kind], stored, upto)


async def _withdraw(writer: Writer, wanted: ErasureTarget) -> int:
    """Withdraw all but a last part of the pending calls among them, part after part; return how many."""
    total = 0

    async def some(transaction: TransactionHandler) -> int:
        experiment = writer.registry.by_id(wanted.number)
        due = await wanted.among(writer.store, experiment.model.open)
        if len(due) <= WITHDRAWN:
            return 0
        for seq in due[:WITHDRAWN]:
            transaction.record(experiment, OutcomeEvent(0, wanted.number, 0, seq, events.VOID))
        return WITHDRAWN

    while part := await writer.exclusive(some):
        total += part
    return total


async def _begin(writer: Writer, wanted: ErasureTarget, who: str, count: int, withdrawn: int) -> int:
    """Withdraw pending calls, write the state, raise the floor to it, and erase a first part; return how many there are to erase."""
    store, number = writer.store, wanted.number

    async def operation(transaction: TransactionHandler) -> int:
        experiment = writer.registry.by_id(number)
        model = experiment.model
        first, present = await wanted.first(store), count
        if first is None:
            return 0
        if wanted.upto is None:  # others may have come meanwhile
            present = await wanted.total(store)
        due = await wanted.among(store, model.open)
        for seq in due:
            transaction.record(experiment, OutcomeEvent(0, number, 0, seq, events.VOID))
        body = {"by": wanted.kind, "erased": present, "withdrawn": withdrawn + len(due)}
        sampled = await wanted.among(store, model.learner.sampled())
        body |= {"sampled": sampled} if sampled else {}
        transaction.change(experiment, events.ERASE, body, who)
        await snapshot_within(store, transaction, experiment)
        await store.raise_floor(number, model.seq, first)
        experiment.floor = model.seq
        await wanted.forget_subjects(store, model.seq)
        await wanted.erase_some(store, 0, model.seq)
        return present

    return await writer.exclusive(operation)


async def _settle(writer: Writer) -> None:
    """Empty the write-ahead log of SQLite, which still has the erased contexts."""
    settle = getattr(writer.store.driver, "settle", None)
    if settle is None:
        return
    for _ in range(TRIES):
        if await writer.between(settle):
            return
        await asyncio.sleep(PAUSE)
    raise unavailable(
        "busy",
        "the contexts are erased, but the write-ahead log still contains them: another process reads the database, "
        "such as an export or a backup. Repeat the request to empty the log",
    )


async def expire_contexts(writer: Writer, experiment: Experiment, now: int) -> Erased | None:
    """Erase contexts older than the option `retention`; None if there are none."""
    retention = experiment.model.options.retention
    if retention is None:
        return None
    before = now - round(retention * events.SECOND)
    if before <= 0:  # older versions accepted any number
        return None
    store, number = writer.store, experiment.number
    known = await store.erased_to(number)
    oldest = before - round(min(LATE * retention, LATEST) * events.SECOND)
    late = await store.seq_before(oldest, known)
    if not await store.driver.read(
        "select seq from decisions where seq > $1 and seq <= $2 limit 1", known, late
    ):
        return None
    end = await store.seq_before(before, known)
    for after in range(known, end, WINDOW):
        upto = min(after + WINDOW, end)
        if await store.driver.read(
            f"select seq from decisions where experiment = $1 and seq > $2 and seq <= $3 and {NOT_ERASED} limit 1",
            *(number, after, upto),
        ):
            await store.note_erased_to(number, after)
            return await erase(writer, experiment.name, before_ts=before, who=RETENTION)
        await asyncio.sleep(0)
    await store.note_erased_to(number, end)
    return None
