"""Corrections: the right reward of a decision in the place of a mistaken one.

A correction is two events: an outcome with the right reward, which closes the decision instead of the mistaken one, and a base with
the state rebuilt. The state is replayed from the newest log, or from the newest erasure, with the right rewards in the place of the
mistaken ones; decisions stay as they were made.
"""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from sparing.errors import FileError
from sparing.service import events, state_files, summing
from sparing.service import store as stores
from sparing.service.errors import ServiceError, conflict, not_found
from sparing.service.events import ChangeEvent, DecisionEvent, Event, OutcomeEvent
from sparing.service.experiment import ExperimentState
from sparing.service.experiments import Relearning, successor
from sparing.service.messages import RewardAnswer
from sparing.service.registry import Experiment, ExperimentRegistry, save_base
from sparing.service.store import Store, StoredDecision
from sparing.service.store.driver import LostError
from sparing.service.transactions import TransactionHandler
from sparing.service.writer import Writer

FIRST = "select min(seq) from outcomes where decision_seq = $1 and kind in ('reward', 'default', 'unasked', 'learnt')"
EARLIER = "select seq from decisions where seq < $1 and ts < $2 order by seq desc limit 1"
LATER = "select seq from decisions where seq > $1 and ts >= $2 order by seq limit 1"
OTHERS = (
    "select coalesce(sum(o.value - coalesce(d.cost, 0.0)), 0.0), "
    "coalesce(sum((o.value - coalesce(d.cost, 0.0)) * (o.value - coalesce(d.cost, 0.0))), 0.0) from decisions d "
    "join outcomes o on o.decision_seq = d.seq and o.closes = 1 where d.experiment = $1 and d.seq > $2 and d.seq < $3 "
    "and d.reason = $4 and d.arm = $5 and d.needs_reward = $6 and d.seq <> $7"
)
TOTALS = (
    "update totals set reward_sum = $1, reward_squares = $2 "
    "where experiment = $3 and hour = $4 and reason = $5 and arm = $6 and asked = $7"
)


async def find_decision(store: Store, experiment: Experiment, named: str) -> StoredDecision:
    """Return a committed decision by its decision_id or request_id."""
    identity, found = events.id_bytes(named), []
    if identity is not None:
        found = await store.record(experiment.number, "d.decision_id = $2", identity)
    found = found or await store.record(experiment.number, "d.request_id = $2", named)
    if not found:
        raise not_found(f"there is no decision {named!r} in {experiment.name}", "unknown_decision")
    return found[0]


class RebuiltState:
    """A state replayed with right rewards in the place of mistaken ones, up to the event `seq`.

    Rewards up to the event `first` are in the file that it starts from.
    """

    def __init__(self, model: ExperimentState, seq: int, first: int, values: dict[int, float]) -> None:
        self.model, self.seq, self.first, self.values = model, seq, first, values

    @classmethod
    async def start(
        cls,
        registry: ExperimentRegistry,
        number: int,
        floor: int,
        upto: int,
        more: Mapping[int, float] = MappingProxyType({}),
    ) -> "RebuiltState":
        """Return the state of the newest log or erasure, with the corrections up to an event, and `more`."""
        store = registry.store
        values = {**await store.corrections(number, upto), **more}
        bases = [base for base in await registry.bases(number) if base.seq <= upto]
        log = [base for base in bases if base is bases[0] or "rows" in base.read()][-1]
        if floor <= log.seq:
            model, first = registry.base(number, log), log.seq
            if "origin" in log.read():
                model, first = await _relearnt(registry, log, model, values), 0
            model.apply(log)
            return cls(model, log.seq, first, values)
        for mark in await store.snapshots(number):
            if mark.seq == floor:
                model = state_files.load(store.folder / mark.path, number, store.salt)
                return cls(model, floor, floor, values)
        raise FileError(f"the snapshot at event {floor} is missing. Restore it from a backup")

    async def go_on(self, store: Store, upto: int) -> None:
        """Apply the events up to one."""
        async for some in store.events(self.model.experiment, self.seq, upto):
            for event in some:
                self.apply(event)
        self.seq = upto

    def apply(self, event: Event) -> None:
        if (
            isinstance(event, DecisionEvent)
            and event.context is None
            and (event.needs_reward or not event.active)
        ):
            raise _changed()
        if (
            isinstance(event, OutcomeEvent)
            and event.kind in events.REWARDED
            and event.decision_seq in self.values
        ):
            event = msgspec.structs.replace(event, value=self.values[event.decision_seq])
        self.model.apply(event)


async def _relearnt(
    registry: ExperimentRegistry, log: ChangeEvent, old: ExperimentState, values: dict[int, float]
) -> ExperimentState:
    """Return the state after the import of a log, with right rewards learnt again on top of it; `old` has mistaken ones."""
    learner = registry.state_of(old.experiment, log.read()["origin"]).learner
    made = Relearning(learner, old.experiment, values)
    await made.go_on(registry.store, log.seq)
    made.check()
    model = successor(old, learner)
    for seq, waiting in old.open.items():
        pending = old.learner.pending_call(waiting.call)
        call = learner.open_call(pending.action, pending.x, deferred=not pending.imputed)
        model.add_pending(seq, waiting._replace(call=call))
    return model


async def correct(writer: Writer, name: str, named: str, value: float, *, who: str) -> RewardAnswer:
    """Replace the reward of a decision, and rebuild the learner with it; the present value again is a duplicate."""
    experiment = writer.registry.get(name)
    found = await find_decision(writer.store, experiment, named)
    experiment.model.check_reward(value)
    known = _duplicate(found, value)
    if known is not None:
        return known
    seq, number = found.decision.seq, experiment.number
    ((first,),) = await writer.store.driver.read(FIRST, seq)

    async def rebuild() -> RebuiltState:
        async with stores.open_store(writer.store.folder, writer.store.address).reading() as store:
            last = await store.last_seq()
            made = await RebuiltState.start(ExperimentRegistry(store), number, since[0], last, {seq: value})
            if first > made.first:
                await made.go_on(store, last)
            return made

    since = experiment.floor, len(await writer.registry.bases(number))
    made = await asyncio.to_thread(lambda: asyncio.run(rebuild()))
    if first <= made.first:
        raise conflict(
            "too_old",
            "the reward cannot be corrected: contexts were erased after it, or an older version imported a log, and replays start there",
        )
    written: dict[str, Any] = {}

    async def operation(transaction: TransactionHandler) -> RewardAnswer:
        current = writer.registry.by_id(number)
        (stored,) = await writer.store.find("seq", [seq])
        known = _duplicate(stored, value)
        if known is not None:
            return known
        if (current.floor, len(await writer.registry.bases(number))) != since:
            raise _changed()
        await made.go_on(writer.store, transaction.rows.last_seq)
        assert stored.closed is not None
        outcome = OutcomeEvent(0, number, 0, seq, events.CORRECTED, value, stored.closed.played)
        await _replace_total(writer.store, stored.decision, value)
        await summing.replace(transaction, current, stored.decision, stored.closed.value or 0.0, value)
        await writer.store.driver.many(
            "update outcomes set closes = 0 where decision_seq = $1 and closes = 1", [(seq,)]
        )
        transaction.record(current, outcome)
        made.apply(outcome)
        written.update(await asyncio.to_thread(save_base, writer.store.folder, made.model))
        transaction.change(current, events.BASE, {**written, "corrected": seq}, who)
        return RewardAnswer("corrected", outcome.seq)

    try:
        return await writer.exclusive(operation)
    except ServiceError as error:
        if written and not isinstance(error.__cause__, LostError):
            (writer.store.folder / written["path"]).unlink(missing_ok=True)
        raise


def _duplicate(found: StoredDecision, value: float) -> RewardAnswer | None:
    closed = found.closed
    if closed is None:
        raise conflict("open", "the decision has no reward yet. Send it with POST …/reward")
    if closed.kind not in events.REWARDED:
        raise conflict(
            "no_reward", f"the decision is closed without a reward ({closed.kind}); there is none to correct"
        )
    return RewardAnswer("duplicate", closed.seq) if closed.value == value else None


def _changed() -> ServiceError:
    return conflict(
        "changed",
        "the log, the contexts or a reward changed meanwhile. Nothing was changed; send the correction again",
    )


async def _replace_total(store: Store, decision: DecisionEvent, value: float) -> None:
    """Add up the hour's rewards again: a difference would keep the rounding error of a huge reward."""
    hour = decision.ts // events.HOUR
    before = await store.driver.rows(EARLIER, decision.seq, hour * events.HOUR)
    after = await store.driver.rows(LATER, decision.seq, (hour + 1) * events.HOUR)
    group = decision.reason, decision.arm, int(decision.needs_reward)
    between = before[0][0] if before else 0, after[0][0] if after else 2**62
    ((total, squares),) = await store.driver.rows(OTHERS, decision.experiment, *between, *group, decision.seq)
    value -= decision.cost or 0.0
    row = (total + value, squares + value * value, decision.experiment, hour, *group)
    await store.driver.many(TOTALS, [row])
