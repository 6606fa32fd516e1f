"""What a service's work costs in a store of a given size, in a process of its own.

    python -m research.bench.live.growing JSON

with `folder` (a store of `preparing`), `decisions` and `waiting` to fill in, `tail` (decisions with rewards made after the newest state
file) and `rounds`. It prints the CPU seconds of every round as JSON: {"decide": […], …}.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from research.bench.live.filling import fill
from research.bench.live.preparing import NAME
from sparing.service import dashboard, erasure, events
from sparing.service.messages import DecideRequest
from sparing.service.server import ServerSettings, Service
from sparing.service.transactions import ChangeSettings, Decide, Reward

GROUP = 128  # requests measured together, as many as a commit has
MONTH = 30 * 86400.0
REPEATED = 20  # sweeps and retention rounds measured together


async def measure(folder: Path, order: dict[str, Any]) -> dict[str, list[float]]:
    """Fill a store, then measure what a service does in it."""
    await fill(folder, order["decisions"], order["waiting"], seconds=MONTH, window=100 * MONTH)
    found: dict[str, list[float]] = {}
    rng = np.random.default_rng(order["seed"])
    for number in range(order["rounds"]):
        service = Service(ServerSettings(folder, durability="process"))
        await _timed(found, "start", service.open)
        try:
            await _round(service, found, rng, order["tail"] if number == 0 else 0)
        finally:
            await service.writer.stop()
            await service.store.close()
    return found


async def _round(
    service: Service, found: dict[str, list[float]], rng: np.random.Generator, tail: int
) -> None:
    writer = service.writer
    experiment = service.registry.get(NAME)

    async def page() -> Any:
        return await dashboard.overview(writer, experiment, now=service.clock())

    await _timed(found, "page", page)
    writer.start()
    d = experiment.model.learner.n_features

    async def decide(many: int = GROUP) -> list[Any]:
        asked = [DecideRequest(x) for x in rng.random((many, d)).tolist()]
        return await writer.submit_all([Decide(NAME, one, events.new_id()) for one in asked])

    async def pay(named: list[str]) -> None:
        await writer.submit_all([Reward(NAME, one, 0.5) for one in named])

    for _ in range(0, tail, GROUP):
        await pay([one.decision_id for one in await decide() if one.needs_reward])
    await decide()  # the first group reads what is on disk
    answers = await _timed(found, "decide", decide, GROUP)
    writer._recent.clear()  # their rewards come late
    asked = [one.decision_id for one in answers if one.needs_reward]
    await _timed(found, "reward", lambda: pay(asked), max(1, len(asked)))
    options = msgspec.structs.replace(experiment.model.options, retention=10 * MONTH)
    await writer.submit(ChangeSettings(NAME, events.OPTIONS, msgspec.to_builtins(options), "bench"))

    async def sweep() -> None:
        for _ in range(REPEATED):
            experiment.model.has_expired(service.clock())
            experiment.model.expired_pending(service.clock(), 1000)

    async def retain() -> None:
        for _ in range(REPEATED):
            assert await erasure.expire_contexts(writer, experiment, service.clock()) is None

    await _timed(found, "sweep", sweep, REPEATED)
    await _timed(found, "retention, nothing due", retain, REPEATED)
    options = msgspec.structs.replace(options, retention=None)
    await writer.submit(ChangeSettings(NAME, events.OPTIONS, msgspec.to_builtins(options), "bench"))


async def _timed(
    found: dict[str, list[float]], name: str, work: Callable[[], Awaitable[Any]], many: int = 1
) -> Any:
    """Note the CPU seconds of a unit of work, and those by the clock."""
    began, cpu = time.perf_counter(), time.process_time()
    result = await work()
    found.setdefault(name, []).append((time.process_time() - cpu) / many)
    found.setdefault(f"{name}, by the clock", []).append((time.perf_counter() - began) / many)
    return result


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(measure(Path(asked["folder"]), asked))))
