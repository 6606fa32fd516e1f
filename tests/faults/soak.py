"""`python tests/faults/soak.py [--minutes N] [--rate N]`: a service under steady load, a line a minute: memory, CPU and time per request."""

import argparse
import asyncio
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults.client import Client, Connection, UnknownError
from faults.services import Supervised

TICKS = os.sysconf("SC_CLK_TCK")


def memory(pid):
    """Resident memory, MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def seconds(pid):
    """CPU time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def asked(connection, path, body, taken):
    """The answer; once more over a new connection, if the service has closed an idle one."""
    began = time.monotonic()
    try:
        status, answer = await connection.ask("POST", path, body)
    except UnknownError:
        status, answer = await connection.ask("POST", path, body)
    assert status == 200, answer
    taken.append(time.monotonic() - began)
    return answer


async def visits(number, port, rate, over, taken):
    """One connection: a decision, and its reward if one is needed, at a rate."""
    client = Client(number, "shop", [port], [], over)
    connection = Connection(port, 60.0)
    while not over.is_set():
        answer = await asked(connection, "/v1/shop/decide", {"context": client.context()}, taken)
        if answer["needs_reward"] and client.luck.random() < 0.9:
            path = f"/v1/shop/decisions/{answer['decision_id']}/reward"
            await asked(connection, path, {"value": float(client.luck.random() < 0.3)}, taken)
        await asyncio.sleep(client.luck.expovariate(rate))
    connection.drop()


async def soak(arguments):
    folder = Path(tempfile.mkdtemp(prefix="sparing-soak-"))
    service, over, taken = Supervised(folder / "store", clock=False), asyncio.Event(), []
    try:
        await service.start()
        await service.experiment("shop", check=0.1, holdout=0.05, reward_window=120.0, retention=300.0)
        rate = arguments.rate / arguments.connections
        tasks = [
            asyncio.create_task(visits(number, service.port, rate, over, taken))
            for number in range(arguments.connections)
        ]
        cpu, pid = seconds(service.pid), service.pid
        print(
            "minute  requests  a second  median ms  99 % ms  CPU µs a request  memory MB  store MB",
            flush=True,
        )
        for minute in range(1, arguments.minutes + 1):
            await asyncio.sleep(60)
            some, now = taken[:], seconds(pid)
            taken.clear()
            store = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
            print(
                f"{minute:6} {len(some):9,} {len(some) / 60:9.0f} {1e3 * statistics.median(some):10.1f} "
                f"{1e3 * statistics.quantiles(some, n=100)[-1]:8.0f} {1e6 * (now - cpu) / len(some):17.0f} {memory(pid):10.0f} {store:9.0f}",
                flush=True,
            )
            cpu = now
        over.set()
        await asyncio.gather(*tasks)
        print(
            "alarms:",
            [
                look["text"]
                for look in (await service.ask("GET", "/v1/shop/summary"))["look"]
                if look["level"] == "alarm"
            ],
        )
        print("exits:", dict(service.exits))
    finally:
        over.set()
        await service.stop()
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=25)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rate", type=float, default=60.0, help="visits a second, all together")
    asyncio.run(soak(parser.parse_args()))


if __name__ == "__main__":
    main()
