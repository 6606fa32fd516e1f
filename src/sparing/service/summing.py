"""Sums by subject made again from the stored events: in a store of an earlier version, and after a mistake too large to subtract."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from sparing.service import comparison, events, subject_sums
from sparing.service.events import ChangeEvent, DecisionEvent
from sparing.service.messages import Options
from sparing.service.registry import Experiment
from sparing.service.store import Store
from sparing.service.subject_sums import CHECKED, COLUMNS, HOLDOUT, PRODUCTS, SKIPPED, SUMS, Count
from sparing.service.transactions import TransactionHandler
from sparing.service.writer import Writer

PRECISE = (
    1e-8  # share of a sum of squares that must be left, so that subtracting the rest keeps half its digits
)
GROUPS = (
    "select d.reason, d.arm, d.needs_reward, count(*), count(o.value), coalesce(sum(o.value - coalesce(d.cost, 0.0)), 0.0), "
    "coalesce(sum((o.value - coalesce(d.cost, 0.0)) * (o.value - coalesce(d.cost, 0.0))), 0.0) from decisions d "
    "left join outcomes o on o.decision_seq = d.seq and o.closes = 1 and o.kind in "
    + f"({', '.join(map(repr, sorted(events.REWARDED)))}) "
    "where d.experiment = $1 and d.seq > $2 and d.arm in ('policy', 'holdout')"
)
SQUARES = "select sum(q1 + q2) from comparison where experiment = $1 and since = $2"


async def sum_again(
    store: Store, experiment: Experiment, corrected: Mapping[int, float] = MappingProxyType({})
) -> None:
    """Sum the committed events of an experiment again, in the transaction; `corrected` are right rewards, by decision."""
    number, since = experiment.number, experiment.compared_since
    check, upto = experiment.model.options.check, await store.last_seq()
    values = {**await store.corrections(number, upto), **corrected}
    for table in ("subject_sums", "comparison"):
        await store.driver.many(f"delete from {table} where experiment = $1", [(number,)])
    decisions: dict[int, DecisionEvent] = {}
    async for some in store.events(number, since, upto):
        hours: dict[int, list[Count]] = {}
        for event in some:
            if isinstance(event, ChangeEvent):
                continue
            if isinstance(event, DecisionEvent):
                found = subject_sums.count(event, since, check)
                if found is not None and found.kind != SKIPPED:  # of the others no reward counts
                    decisions[event.seq] = event
            elif event.kind in events.CLOSING - {events.CORRECTED} and event.decision_seq in decisions:
                decision = decisions.pop(event.decision_seq)
                if event.kind not in events.REWARDED:
                    continue
                value = values.get(event.decision_seq, event.value) or 0.0
                found = subject_sums.count(decision, since, check, value)
            else:
                continue
            if found is not None:
                hours.setdefault(event.ts // events.HOUR, []).append(found)
        for hour, counts in hours.items():
            await store.add_compared(counts, hour)
    await store.driver.many("update experiments set summed = 1 where experiment = $1", [(number,)])


async def check_sums(store: Store, number: int, config: Mapping[str, Any]) -> str | None:
    """Return how the sums of policy and holdout differ from those of the stored events, in one view of the store.

    Products of sums are not compared: an erasure removes the subjects that they need. Sums that are still to be made, in a store
    of an earlier version, are not compared at all.
    """
    ((summed,),) = await store.driver.read("select summed from experiments where experiment = $1", number)
    if not summed:
        return None
    change = comparison.changed(await store.changes(number, events.OPTIONS), config.get("options"))
    options = change.read() if change else config.get("options") or {}
    since, check = change.seq if change else 0, options.get("check", Options().check)
    counted = np.zeros((2, len(COLUMNS) - len(PRODUCTS)))
    spent = "d.call_probability = 0" + ("" if check else f" and d.reason = '{events.BUDGET}'")
    for reason, arm, asked, *numbers, squares in await store.driver.read(
        f"{GROUPS} and not ({spent}) group by d.reason, d.arm, d.needs_reward", number, since
    ):
        kind = subject_sums.kind(reason, arm, bool(asked))
        if kind < 0:
            continue
        mine, part = counted[int(kind == HOLDOUT)], int(kind in (SKIPPED, CHECKED))
        mine[3 * part] += numbers[0]
        mine[len(SUMS) + 2] += numbers[0] * (kind == CHECKED)
        if kind != SKIPPED:
            mine[3 * part + 1 : 3 * part + 3] += numbers[1:]
            mine[len(SUMS) + part] += squares
    stored = (await store.compared(number, since)).added[..., : counted.shape[1]].sum(axis=0)
    if np.allclose(stored, counted, rtol=1e-9, atol=1e-9):
        return None
    return f"sums of policy and holdout: stored {stored.tolist()}, recounted {counted.tolist()}"


async def sum_old_stores(writer: Writer) -> None:
    """Sum the events of experiments that an earlier version stored."""
    store = writer.store
    found = await store.driver.read("select experiment from experiments where summed = 0")
    for (number,) in found:

        async def operation(transaction: TransactionHandler, number: int = number) -> None:
            await sum_again(store, writer.registry.by_id(number))

        await writer.exclusive(operation)


async def replace(
    transaction: TransactionHandler, experiment: Experiment, decision: DecisionEvent, old: float, new: float
) -> None:
    """Count the right reward in the place of a mistaken one; sum all again if that would leave too few digits."""
    store = transaction.registry.store
    ((squares,),) = await store.driver.rows(SQUARES, experiment.number, experiment.compared_since)
    mistaken = old - (decision.cost or 0.0)
    if squares is None or squares - mistaken * mistaken > PRECISE * squares:
        transaction.compare(experiment, decision, new, old)
    else:
        await sum_again(store, experiment, {decision.seq: new})
