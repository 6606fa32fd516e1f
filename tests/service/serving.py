"""Running services for tests: stores with small experiments, keys, and a server in a thread on a free port of loopback."""

import asyncio
import contextlib
import functools
import json
import socket
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import uvicorn

import sparing
from sparing.service import events, server
from sparing.service.http.auth import new_key
from sparing.service.maintenance import verify
from sparing.service.server import LimitedProtocol, ServerSettings, Service
from sparing.service.store import open_store
from sparing.simulation import LinearWorld, draw_log

PATIENCE = 120.0
"""Seconds that a server may take to be ready: the first one on a machine compiles."""

PLAIN = [0.5, -0.25, 1.0]
"""A context of the experiments over numbers."""

RAW = {"age": 31, "device": "phone"}
"""A context of the experiments over raw columns."""


@functools.cache
def numbers_log():
    """Six actions, some never logged, over three numbers."""
    world = LinearWorld(n_actions=6, n_features=3, noise=0.5, seed=0)
    return draw_log(world, rows=300, support="never-logged", unsupported=0.2, seed=1)


@functools.cache
def columns_log():
    """Three banners over an age and a device, read from a file."""
    rng = np.random.default_rng(0)
    lines = ["age,device,banner,clicked"]
    for _ in range(200):
        age, device = rng.integers(18, 80), rng.choice(["phone", "desk", "tablet"])
        banner = rng.choice(["red", "green", "blue"], p=[0.6, 0.3, 0.1])
        lines.append(f"{age},{device},{banner},{int(rng.random() < 0.2 + 0.4 * (banner == 'green'))}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clicks.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return sparing.read_log(path, action="banner", reward="clicked")


def made(settings, name="shop", log=None, learner="confident", said=None, **rules):
    """Make an experiment in a store, of `numbers_log` if no other log is given; `rules` are its options. The settings again."""
    table = numbers_log() if log is None else log
    server.make_experiment(settings, name, table, learner, said or {}, rules, {})
    return settings


def added_key(settings, name, role="write", experiment=None, *, expires=None, revoked=None):
    """Add an API key to a store; times are microseconds. The key."""
    key, digest = new_key()
    row = (digest, name, role, experiment, events.now(), expires, revoked)

    async def add():
        store = open_store(settings.folder, settings.address)
        await store.open(create=True)
        try:
            await store.exclusive(("insert into api_keys values ($1, $2, $3, $4, $5, $6, $7)", [row]))
        finally:
            await store.close()

    asyncio.run(add())
    return key


def faults(known):
    """What a replay of a store finds."""

    async def replayed():
        store = open_store(known.folder)
        await store.open()
        try:
            return [fault for verdict in await verify(store) for fault in verdict.faults]
        finally:
            await store.close()

    return asyncio.run(replayed())


def refused(answer, status, code, field=None):
    """The sentence of a refusal that is as it should be."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["status"] == status
    assert told["code"] == code
    assert told.get("field") == field
    assert told["title"]
    assert told["detail"]
    return told["detail"]


def posted(http, raw, path):
    """The answer to a body, of bytes or as JSON."""
    return http.post(
        path,
        content=raw if isinstance(raw, bytes) else json.dumps(raw),
        headers={"Content-Type": "application/json"},
    )


@contextlib.contextmanager
def running(service, *, http=LimitedProtocol, **settings):
    """The base URL of a running service: a Service, Settings, or a store's folder with settings. It is ready, and stopped at the end."""
    if isinstance(service, Path):
        service = ServerSettings(service, **settings)
    if isinstance(service, ServerSettings):
        service = Service(service)
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        service.app(), http=http, log_level="warning", access_log=False, ws="none", lifespan="on"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
    thread.start()
    try:
        end = time.monotonic() + PATIENCE
        while not (server.started and service.ready):
            assert thread.is_alive(), "the server ended before it was ready"
            assert time.monotonic() < end, "the server did not get ready"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        bound.close()
    assert not thread.is_alive(), "the server did not stop"
