"""Makes a store with one experiment, in a process of its own, whose memory goes with it.

    python -m research.bench.live.preparing JSON

with `folder`, `actions`, `features`, `rows_an_action`, `seed`, `learner` and its `settings`.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import sparing
from research.bench.peers import worlds
from sparing.service import experiments
from sparing.service.messages import Options
from sparing.service.server import ServerSettings, Service

NAME = "trial"


def log_of(spec: dict[str, Any]) -> sparing.Log:
    """So many rows of every action, noise 2, contexts uniform on [0, 1]^d."""
    contexts, actions, rewards = worlds.Rounds(spec).logged(int(spec["rows_an_action"]), int(spec["seed"]))
    return sparing.Log.from_indices(contexts, actions, rewards, tuple(range(int(spec["actions"]))))


async def make(spec: dict[str, Any]) -> None:
    """The store and its experiment, every kernel compiled that a request can reach."""
    log = log_of(spec)
    learner = experiments.make_learner(spec["learner"], log, spec["settings"])
    service = Service(ServerSettings(Path(spec["folder"])))
    await service.open()
    config = {"learner": spec["learner"], "settings": spec["settings"], "columns": {}}
    await experiments.create(service.writer, NAME, log, learner, Options(), config, who="bench")
    await service.store.close()


if __name__ == "__main__":
    asyncio.run(make(json.loads(sys.argv[1])))
