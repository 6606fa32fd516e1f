"""Puts a server of this machine under load, over connections that stay open: JSON lines in, JSON lines out.

    {"port": …, "connections": …, "decisions": …, "rewards": true, "spec": {…}, "seed": …}
        -> {"seconds": …, "requests": …, "asked": …, "cpu_seconds": …, "median": …, "slow": …}

Every connection decides and, with `rewards`, sends the decision's reward, and again, until all are decided. Requests are put
together before the clock starts, and of an answer only what is needed is read: the server is to be the one that is busy.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import numpy as np
import uvloop

from research.bench.live.preparing import NAME
from research.bench.peers.worlds import NOISE, Rounds

LONGEST = 120.0
"""Seconds that a load may take."""

HEAD = "POST /v1/{}/{} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}"
END, LENGTH, IDENTITY, ACTION = b"\r\n\r\n", b"content-length: ", b'"decision_id":"', b'"action":'


class Load:
    """What is to be sent, and how it went."""

    def __init__(self, order: dict[str, Any], theta: np.ndarray) -> None:
        count, rng = int(order["decisions"]), np.random.default_rng([int(order["seed"]), 6])
        self.contexts = rng.random((count, theta.shape[1]))
        self.noise = (NOISE * rng.standard_normal(count)).tolist()
        self.theta, self.rewards = theta, bool(order["rewards"])
        texts = [json.dumps({"context": x}) for x in self.contexts.tolist()]
        self.requests = [HEAD.format(NAME, "decide", len(text), text).encode() for text in texts]
        self.numbers: Iterator[int] = iter(range(count))
        self.latencies: list[float] = []
        self.answered = self.asked = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def reward(self, number: int, answer: bytes) -> bytes:
        """The request that rewards a decision: x·θ_a + noise, of the action that was answered, if one was."""
        start = answer.index(IDENTITY) + len(IDENTITY)
        identity = answer[start : answer.index(b'"', start)].decode()
        value, place = self.noise[number], answer.find(ACTION)
        if place >= 0:
            action = int(answer[place + len(ACTION) : answer.index(b",", place)])
            value += float(self.contexts[number] @ self.theta[action])
        text = f'{{"value":{value!r}}}'
        return HEAD.format(NAME, f"decisions/{identity}/reward", len(text), text).encode()


class Connection(asyncio.Protocol):
    """One caller: a request, its answer, the next request."""

    def __init__(self, load: Load) -> None:
        self.load, self.number, self.rewarding, self.sent = load, -1, False, 0.0
        self.buffer = b""

    def connection_made(self, transport: Any) -> None:
        """Wait for the others."""
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """Nobody hangs up before all is done."""
        if not self.load.done.done():
            self.load.done.set_exception(ConnectionError(f"the server hung up: {error}"))

    def decide(self) -> None:
        """Ask for the next decision, if there is one."""
        self.rewarding = False
        self.number = next(self.load.numbers, -1)
        if self.number >= 0:
            self._send(self.load.requests[self.number])
            return

    def _send(self, request: bytes) -> None:
        self.sent = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Read an answer, and go on."""
        self.buffer += data
        end = self.buffer.find(END)
        if end < 0:
            return
        start = self.buffer.index(LENGTH) + len(LENGTH)
        length = int(self.buffer[start : self.buffer.index(b"\r\n", start)])
        if len(self.buffer) < end + len(END) + length:
            return
        answer, self.buffer = self.buffer, b""
        load = self.load
        if not answer.startswith(b"HTTP/1.1 200"):
            if not load.done.done():
                load.done.set_exception(ConnectionError(answer.decode()[-500:]))
            return
        load.answered += 1
        if not self.rewarding:
            load.latencies.append(time.perf_counter() - self.sent)
            load.asked += b'"needs_reward":true' in answer
        if load.rewards and not self.rewarding:
            self.rewarding = True
            self._send(load.reward(self.number, answer))
        else:
            self.decide()
        if load.answered == len(load.requests) * (1 + load.rewards) and not load.done.done():
            load.done.set_result(None)


async def run(order: dict[str, Any], theta: np.ndarray) -> dict[str, Any]:
    """Load a server, and say how it went."""
    load, loop = Load(order, theta), asyncio.get_running_loop()
    callers: list[Connection] = []
    for _ in range(int(order["connections"])):
        _, caller = await loop.create_connection(lambda: Connection(load), "127.0.0.1", int(order["port"]))
        callers.append(caller)
    cpu, began = time.process_time(), time.perf_counter()
    for caller in callers:
        caller.decide()
    await asyncio.wait_for(load.done, LONGEST)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    for caller in callers:
        caller.transport.close()
    median, slow = np.quantile(load.latencies, [0.5, 0.99])
    return {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "requests": load.answered,
        "asked": load.asked,
        "median": float(median),
        "slow": float(slow),
    }


def main() -> None:
    """Answer orders until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    say({"version": metadata.version("uvloop")})
    thetas: dict[str, np.ndarray] = {}
    for line in sys.stdin:
        order = json.loads(line)
        key = json.dumps(order["spec"])
        if key not in thetas:
            thetas[key] = Rounds(order["spec"]).theta
        try:
            say(uvloop.run(run(order, thetas[key])))
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
