"""kill -9 under load, again and again: nothing that was acknowledged is lost, and every state is the replay of the store."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from service.building import NAME, WORLD, contexts
from service.nursery import SHADOW
from sparing.service import events, maintenance
from sparing.service.store import open_store

KILLS, CONTROL_KILLS = 20, 8
CLIENTS = 8
ROOT = Path(__file__).parents[2]


class Nursery:
    """Services to be killed."""

    def __init__(self, folder, address, kind):
        path = f"{ROOT / 'tests'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        command = [sys.executable, str(Path(__file__).with_name("nursery.py")), str(folder)]
        self._process = subprocess.Popen(
            [*command, *([address] if address else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._kind = kind
        assert self._process.stdout.readline() == "ready\n"

    def start(self):
        self._process.stdin.write(f"{self._kind}\n")
        self._process.stdin.flush()
        port, child = map(int, self._process.stdout.readline().split())
        return f"http://127.0.0.1:{port}", child

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(20)


async def client(http, number, acknowledged):
    """Decide and reward until the service is gone; note what it acknowledged."""
    experiment = (NAME, SHADOW)[number % 2]
    for place, x in enumerate(contexts(number, 10_000)):
        named, value = f"{number}-{place}", float(x @ WORLD.theta[0])
        try:
            answer = await http.post(
                f"/{experiment}/decide", json={"context": x.tolist(), "request_id": named}
            )
            found = answer.raise_for_status().json()
            acknowledged[found["decision_id"]] = [found["action"], None, named]
            wanted = [found["decision_id"]] if found["needs_reward"] or place % 5 == 0 else []
            if "also" in found:
                acknowledged[found["also"]["decision_id"]] = [found["also"]["action"], None, None]
                wanted.append(found["also"]["decision_id"])
            for one in wanted:
                path = f"/{experiment}/decisions/{one}/reward"
                (await http.post(path, json={"value": value})).raise_for_status()
                acknowledged[one][1] = value
        except httpx.TransportError:
            return


async def until_ready(http):
    for _ in range(3000):
        try:
            if (await http.get("/readyz")).status_code == 200:
                return
        except httpx.TransportError:
            pass
        await asyncio.sleep(0.02)
    raise AssertionError("the service never became ready")


async def loaded(nursery, turn, acknowledged, luck):
    """A service under load, killed at a moment of luck's choosing."""
    url, child = nursery.start()
    async with httpx.AsyncClient(base_url=url, timeout=30, verify=False) as http:
        await until_ready(http)
        http.base_url = f"{url}/v1"
        numbers = [turn * CLIENTS + each for each in range(CLIENTS)]
        clients = [asyncio.create_task(client(http, number, acknowledged)) for number in numbers]
        enough = len(acknowledged) + luck.randint(5, 40)
        while len(acknowledged) < enough and not all(each.done() for each in clients):
            await asyncio.sleep(luck.uniform(0.001, 0.01))
        os.kill(child, signal.SIGKILL)
        await asyncio.wait_for(asyncio.gather(*clients), 30)


async def missing(folder, address, acknowledged):
    """What was acknowledged and is not in the store; and the store's faults."""
    store = open_store(folder, address)
    await store.open()
    try:
        rows = await store.driver.read(
            "select d.decision_id, d.action, o.value, d.request_id, d.arm from decisions d left join outcomes o on o.decision_seq = d.seq"
        )
        found = {events.id_text(bytes(row[0])): row[1:] for row in rows}
        labels = list(WORLD.action_names)
        lost = [
            named
            for named, (action, value, request) in acknowledged.items()
            if named not in found
            or (labels[found[named][0]], found[named][2]) != (action, request)
            or (value is not None and found[named][1] != value)
        ]
        assert any(found[named][3] == events.ALSO for named in acknowledged if named in found)
        faults = [fault for verdict in await maintenance.verify(store) for fault in verdict.faults]
    finally:
        await store.close()
    return lost, faults


def killed(folder, address, kind, times):
    acknowledged, luck = {}, random.Random(5)
    nursery = Nursery(folder, address, kind)
    try:
        for turn in range(times):
            asyncio.run(loaded(nursery, turn, acknowledged, luck))
    finally:
        nursery.close()
    assert len(acknowledged) >= 5 * times
    return asyncio.run(missing(folder, address, acknowledged))


def test_nothing_acknowledged_is_lost(stores):
    lost, faults = killed(stores.folder, stores.address, "honest", KILLS)
    assert not lost
    assert not faults


def test_a_service_that_answers_before_it_commits_is_caught(tmp_path):
    lost, _ = killed(tmp_path / "store", None, "hasty", CONTROL_KILLS)
    assert lost


@pytest.mark.thorough
def test_it_is_caught_on_postgresql(on_postgres):
    lost, _ = killed(on_postgres.folder, on_postgres.address, "hasty", CONTROL_KILLS)
    assert lost
