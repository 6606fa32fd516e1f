"""Plain HTTP/1.1 over a socket of loopback, and clients that decide, send rewards, repeat themselves and lose their connections."""

import asyncio
import json
import random
import time
from contextlib import suppress

from faults.history import Operation

LABELS = ["red", "blue", "green", "gold"]
PATIENCE = 8.0
"""Seconds that a client waits for an answer."""

RETRIED = 503


class UnknownError(Exception):
    """No answer came: the request may have been carried out, or not."""


class Connection:
    """One connection; `drop` ends it as a cut cable does."""

    def __init__(self, port, patience=PATIENCE):
        self.port, self.patience, self._reader, self._writer = port, patience, None, None

    async def ask(self, method, path, body=None, *, cut=None):
        """The status and the document; `cut` loses the connection after half of the request, or after all of it."""
        try:
            async with asyncio.timeout(self.patience):
                return await self._asked(method, path, body, cut)
        except (OSError, EOFError, TimeoutError, ValueError, IndexError) as error:
            self.drop()
            raise UnknownError(repr(error)) from None

    async def _asked(self, method, path, body, cut):
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        message = head.encode() + content
        self._writer.write(message[: len(message) // 2] if cut == "half" else message)
        await self._writer.drain()
        if cut:
            await asyncio.sleep(random.choice([0.0, 0.001, 0.005]))
            raise ConnectionError(f"cut: {cut}")
        status = int((await self._reader.readline()).split()[1])
        headers = {}
        while (line := await self._reader.readline()).strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        answer = await self._reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("connection", "").lower() == "close":
            self.drop()
        return status, json.loads(answer) if answer and headers["content-type"].endswith("json") else answer

    def drop(self):
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None


class Client:
    """One client: decisions and their rewards, each repeated under its id until it is answered."""

    def __init__(self, number, experiment, ports, history, stop, *, pause=0.01, cuts=0.05, parts=0):
        self.luck, self.name = random.Random(number), f"{experiment}-{number}"
        self.experiment, self.history, self.stop = experiment, history, stop
        self.pause, self.cuts, self.parts = pause, cuts, parts
        self.connections = [Connection(port) for port in ports]

    async def run(self):
        number = 0
        while not self.stop.is_set():
            number += 1
            await self.visit(f"{self.name}-{number}")
            await asyncio.sleep(self.luck.uniform(0, 2 * self.pause))
        for each in self.connections:
            each.drop()

    async def visit(self, key):
        """Decide once, often twice at the same time, sometimes with other contents; then send the reward."""
        luck = self.luck
        request = {"context": self.context(), "request_id": key}
        if luck.random() < 0.3:
            request["eligible"] = luck.sample(LABELS, luck.randint(1, 4))
        if luck.random() < 0.3:
            request["subject"] = f"subject {luck.randint(0, 30)}"
        answer = await self.insist("decide", key, f"/v1/{self.experiment}/decide", request)
        if answer is None:
            return
        if luck.random() < 0.15:
            asked = (self.once("decide", key, f"/v1/{self.experiment}/decide", request) for _ in range(2))
            await asyncio.gather(*asked, return_exceptions=True)
        if luck.random() < 0.1:
            other = request | {"context": self.context() | {"age": 99}}
            await self.once("conflict", key, f"/v1/{self.experiment}/decide", other)
        if not answer["needs_reward"]:
            return
        named = key if luck.random() < 0.5 else answer["decision_id"]
        path = f"/v1/{self.experiment}/decisions/{named}/reward"
        if not self.parts:
            value = float(luck.random() < 0.3)
            if await self.insist("reward", key, path, {"value": value}) and luck.random() < 0.2:
                await self.once("reward", key, path, {"value": 1.0 - value})
            return
        for place in range(1, 1 + luck.randint(1, self.parts)):
            part = {"value": 4.0**-place, "reward_id": f"part {place}"}
            if await self.insist("reward", key, path, part) and luck.random() < 0.3:
                await self.once("reward", key, path, part)

    def context(self):
        luck = self.luck
        return {
            "age": luck.randint(18, 80),
            "country": luck.choice(["NZ", "CH", "AU", "DE"]),
            "device": luck.choice(["phone", "laptop"]),
        }

    async def insist(self, kind, key, path, body):
        """Send a request until it is answered; None if it is refused, or if all is over."""
        while True:
            status, answer = await self.once(kind, key, path, body, cut=self.cut())
            if status == 200:
                return answer
            if self.stop.is_set() or status not in (None, RETRIED):
                return None
            await asyncio.sleep(0.05)

    def cut(self):
        if self.luck.random() >= self.cuts:
            return None
        return self.luck.choice(["half", "all"])

    async def once(self, kind, key, path, body, *, cut=None):
        began, status, answer = time.monotonic(), None, None
        connection = self.luck.choice(self.connections) if cut or kind == "reward" else None
        if connection is None:  # one of its own, so that two requests can be under way at once
            connection = Connection(self.luck.choice(self.connections).port)
        with suppress(UnknownError):
            status, answer = await connection.ask("POST", path, body, cut=cut)
        if connection not in self.connections:
            connection.drop()
        self.history.append(
            Operation(self.experiment, kind, key, body, began, time.monotonic(), status, answer)
        )
        return status, answer
