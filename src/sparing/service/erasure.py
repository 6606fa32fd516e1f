"""Erasure of contexts from the store and from every state file; decisions and rewards stay.

Erased are a decision's context, context id and subject, and what would give a context back by trying all: the hash of the request,
the estimate with its limits, the value of the call, and the costs of the request. The request_id stays, so that a retry is refused and not decided anew.
The learner's sums stay too; of the contexts that stand for future ones, erased ones are withdrawn. A replay needs contexts, so it can
start only at the state that an erasure writes: the experiment's floor is raised to it.

Files outside the store's folder (exports, backups) are not reached, and PostgreSQL keeps old rows until it vacuums.
"""

import asyncio
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

NOT_ERASED = (
    "(context is not null or context_id is not null or subject is not null or request_hash is not null)"
)
CONDITIONS = {
    "decision_id": "decision_id = $2",
    "context_id": "context_id = $2",
    "subject": "subject = $2",
    "before_ts": "ts < $2",
}
CHUNK = 5000  # erased in one transaction: requests wait no longer
# A reader prevents emptying the write-ahead log: so many attempts, so many seconds apart.
TRIES, PAUSE = 20, 0.25

RETENTION = "retention"


async def erase(writer: Writer, name: str, *, who: str, **given: str | int | bytes | None) -> Erased:
    """Erase the contexts of one of `CONDITIONS`: a decision, a context id, a subject (as stored), or all before a time.

    Pending calls among them are withdrawn first: they are never learnt from, and their rewards are refused.
    """
    number = writer.registry.get(name).number
    wanted = _target(number, given)
    count = await _begin(writer, wanted, who)
    floor = writer.registry.by_id(number).floor

    async def more(transaction: TransactionHandler) -> int:
        return await wanted.erase_some(writer.store, floor)

    while count and await writer.exclusive(more):
        pass
    if count:
        await delete_old_snapshots(writer, writer.registry.by_id(number))
    await _settle(writer)
    return Erased(count, floor)


class ErasureTarget(NamedTuple):
    """Decisions of an experiment to erase: the criterion, its SQL condition and value. Its methods need the writer's lock."""

    number: int
    kind: str
    where: str
    value: Any

    async def among(self, store: Store, seqs: list[int]) -> list[int]:
        """Return which of the decisions `seqs` are to be erased, in order."""
        start = f"select seq from decisions where experiment = $1 and {self.where} and"
        found = await store.driver.matching(start, "seq", seqs, self.number, self.value)
        return sorted(seq for (seq,) in found)

    async def erase_some(self, store: Store, upto: int) -> int:
        """Erase up to `CHUNK` of them up to an event; return how many."""
        found = await store.driver.rows(
            f"select seq {self.chosen} order by seq limit $4", self.number, self.value, upto, CHUNK
        )
        if found:
            await store.driver.many(
                "update decisions set context = null, context_id = null, subject = null, request_hash = null, "
                "value = 0, low = 0, high = 0, worth = null, costs = null where seq = $1",
                found,
            )
        return len(found)

    @property
    def chosen(self) -> str:
        return f"from decisions where experiment = $1 and {self.where} and seq <= $3 and {NOT_ERASED}"


def _target(number: int, given: dict[str, Any]) -> ErasureTarget:
    found = {kind: value for kind, value in given.items() if value is not None}
    if len(found) != 1:
        raise unprocessable(
            f"got {' and '.join(found) or 'nothing to erase'}; give exactly one of {', '.join(CONDITIONS)}"
        )
    ((kind, value),) = found.items()
    stored = value
    if kind == "decision_id":
        stored = events.id_bytes(value)
        if stored is None:
            raise unprocessable(f"decision_id={value!r}; must be the id of a decision", kind)
    elif kind == "context_id":
        stored = msgspec.json.encode(value).decode()
    return ErasureTarget(number, kind, CONDITIONS[kind], stored)


async def _begin(writer: Writer, wanted: ErasureTarget, who: str) -> int:
    """Withdraw pending calls, write the state, raise the floor to it, and erase a first part; return how many there are to erase."""
    store, number = writer.store, wanted.number

    async def operation(transaction: TransactionHandler) -> int:
        experiment = writer.registry.by_id(number)
        model = experiment.model
        ((count,),) = await store.driver.rows(
            f"select count(*) {wanted.chosen}", number, wanted.value, transaction.rows.last_seq
        )
        if not count:
            return 0
        withdrawn = await wanted.among(store, [*model.open])
        for seq in withdrawn:
            transaction.record(experiment, OutcomeEvent(0, number, 0, seq, events.VOID))
        body = {"by": wanted.kind, "erased": count, "withdrawn": len(withdrawn)}
        sampled = await wanted.among(store, model.learner.sampled())
        body |= {"sampled": sampled} if sampled else {}
        transaction.change(experiment, events.ERASE, body, who)
        await snapshot_within(store, transaction, experiment)
        await store.driver.many(
            "update experiments set floor = $1 where experiment = $2", [(model.seq, number)]
        )
        experiment.floor = model.seq
        await wanted.erase_some(store, model.seq)
        return count

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
    found = await writer.store.driver.read(
        f"select seq from decisions where experiment = $1 and ts < $2 and {NOT_ERASED} order by seq limit 1",
        experiment.number,
        before,
    )
    if not found:
        return None
    return await erase(writer, experiment.name, before_ts=before, who=RETENTION)
