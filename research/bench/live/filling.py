"""Fills a store with decisions at once, as if they had been made one by one: many that need no reward, then some that wait for one.

A state file after the last of them is written too, so that a service starts there. Digests are made up, so the store does not verify.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

from sparing.service import events, snapshots
from sparing.service.experiment import ExperimentState, PendingDecision
from sparing.service.registry import ExperimentRegistry
from sparing.service.store import open_store
from sparing.service.store.sqlite import Sqlite

PART = 500_000  # rows of one transaction
COLUMNS = (
    "seq, experiment, ts, decision_id, request_id, context, arm, action, needs_reward, reason, play_probability, call_probability, "
    "value, low, high, model_seq, active, expires"
)
SKIPPED = (
    f"insert into decisions({COLUMNS}) with recursive n(i) as (select 1 union all select i + 1 from n where i < ?) "
    "select ? + i, 1, ? + i * ?, randomblob(16), hex(randomblob(8)), ?, 'policy', 0, 0, 'confident', 1.0, 0.0, "
    "0.5, 0.25, 0.75, 0, 1, null from n"
)
WAITING = (
    f"insert into decisions({COLUMNS}) values (?, 1, ?, randomblob(16), hex(randomblob(8)), ?, 'policy', 0, 1, 'explore', 1.0, 1.0, "
    "0.5, 0.25, 0.75, 0, 1, ?)"
)


async def fill(
    folder: Path, decisions: int, waiting: int, *, seconds: float, window: float, seed: int = 0
) -> None:
    """Add so many skipped decisions to experiment 1 of a store in SQLite, over so many seconds, and calls that wait for their reward."""
    store = open_store(folder, durability="process")
    await store.open()
    assert isinstance(store.driver, Sqlite)
    try:
        registry = ExperimentRegistry(store)
        await registry.catch_up(await store.last_seq())
        model = registry.by_id(1).model
        first, begin = await store.last_seq(), events.now() - round(seconds * events.SECOND)
        step = max(1, round(seconds * events.SECOND / max(1, decisions + waiting)))
        rng, d = np.random.default_rng(seed), model.learner.n_features
        write = store.driver._writer.execute
        write("pragma synchronous = off; pragma cache_size = -1000000")
        packed = events.pack_context(rng.random(d))
        for made in range(0, decisions, PART):
            part = min(PART, decisions - made)
            write("begin")
            write(SKIPPED, (part, first + made, begin + made * step, step, packed))
            write("commit")
        last = first + decisions
        rows = _wait(model, last, waiting, begin + decisions * step, step, round(window * events.SECOND), rng)
        write("begin")
        store.driver._writer.executemany(WAITING, rows)
        last += waiting
        end = begin + (decisions + waiting) * step
        write("update store set last_seq = ?, last_ts = ?", (last, end))
        write(
            "insert into totals select experiment, ts / ?, reason, arm, needs_reward, count(*), 0, 0.0, 0.0, 0 from decisions "
            "where seq > ? group by ts / ?, reason, arm, needs_reward "
            "on conflict do update set decisions = decisions + excluded.decisions",
            (events.HOUR, first, events.HOUR),
        )
        write("commit")
        write("pragma wal_checkpoint(truncate)")
        model.seq, model.digest = last, os.urandom(8)
        model.rounds += decisions + waiting
        model.calls += waiting
        model.played[0] += decisions + waiting
        found = snapshots.write(folder, model)._replace(ts=end)
        await store.exclusive(
            ("insert into snapshots values ($1, $2, $3, $4, $5, $6, $7, $8)", [(1, *found)])
        )
    finally:
        await store.close()


def _wait(
    model: ExperimentState,
    after: int,
    count: int,
    begin: int,
    step: int,
    window: int,
    rng: np.random.Generator,
) -> list[tuple[Any, ...]]:
    """Open calls in the state; return their rows."""
    rows = []
    for number in range(count):
        seq, ts, x = after + number + 1, begin + (number + 1) * step, rng.random(model.learner.n_features)
        expires = ts + window
        model.add_pending(seq, PendingDecision(model.learner.open_call(0, x), expires))
        rows.append((seq, ts, events.pack_context(x), expires))
    return rows
