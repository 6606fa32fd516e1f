"""A process that has everything loaded and compiled, and forks services that can be killed and started again at once.

    python nursery.py FOLDER [ADDRESS]        a line `honest` or `hasty` starts a service; its port and process are answered

A `hasty` one answers before it commits: the control of the test, which must lose something.
"""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import uvicorn

from service.building import LEARNERS, LOG, NAME
from sparing.service import experiments
from sparing.service.messages import Options
from sparing.service.server import ServerSettings, Service

SHADOW = f"{NAME}-shadow"
MOVING = {**LEARNERS["confident"], "shift": "auto", "half_life": 60}
FORGETS = {"half_life": 40}
"""Settings of both experiments: what they know fades and is reviewed while they are killed."""
LATER = 0.1
"""Seconds by which a hasty service commits after its answer."""


def hasten(driver):
    """Let a driver say that it has committed, and do so later."""
    begin, commit, pending = driver.begin, driver.commit, []

    async def later():
        await asyncio.sleep(LATER)
        await commit()

    async def says_so():
        pending.append(asyncio.create_task(later()))

    async def waits():
        if pending:
            await pending.pop()
        await begin()

    driver.commit, driver.begin = says_so, waits


async def prepare(settings, learner):
    service = Service(settings)
    await service.open()
    if not list(service.registry):
        config = {"learner": "confident", "settings": MOVING, "columns": {}}
        await experiments.create(service.writer, NAME, LOG, learner, Options(check=0.1), config, who="test")
        # Every decision of this one has a shadow call.
        options, other = Options(asking="shadow", check=0.1), experiments.make_learner("linucb", LOG, FORGETS)
        config = {"learner": "linucb", "settings": FORGETS, "columns": {}}
        await experiments.create(service.writer, SHADOW, LOG, other, options, config, who="test")
    await service.store.close()


def serve(settings, kind, bound):
    service = Service(settings)
    start = service.start

    async def started():
        await start()
        hasten(service.store.driver)

    if kind == "hasty":
        service.start = started
    config = uvicorn.Config(service.app(), log_level="error", access_log=False)
    uvicorn.Server(config).run([bound])


def main(folder, address=None):
    settings = ServerSettings(Path(folder), address)
    learner = experiments.make_learner("confident", LOG, MOVING)
    asyncio.run(prepare(settings, learner))
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        bound = socket.socket()
        bound.bind(("127.0.0.1", 0))
        child = os.fork()
        if child == 0:
            serve(settings, line.strip(), bound)
            os._exit(0)
        print(bound.getsockname()[1], child, flush=True)
        bound.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
