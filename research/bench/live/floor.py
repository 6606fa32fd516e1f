"""The floor under a service: a bare ASGI application that decodes a request, writes a row, and answers once it is on the disk.

It decides nothing, learns nothing and checks nothing; its store is SQLite as ours is, and its commits are shared as ours are.
"""

import asyncio
import contextlib
import os
import time
from array import array
from collections.abc import MutableMapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import msgspec

TABLES = """
create table decisions(seq integer primary key, id blob not null unique, ts integer not null, context blob not null) strict;
create table outcomes(seq integer primary key, id blob not null, ts integer not null, value real not null) strict;
"""
DECISION = "insert into decisions(id, ts, context) values (?, ?, ?)"
OUTCOME = "insert into outcomes(id, ts, value) values (?, ?, ?)"
HEADERS = [(b"content-type", b"application/json")]

Message = MutableMapping[str, Any]


class Asked(msgspec.Struct):
    """A context."""

    context: list[float]


class Rewarded(msgspec.Struct):
    """A reward."""

    value: float


class Floor:
    """The application."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "store.sqlite"
        self._asked, self._rewarded = msgspec.json.Decoder(Asked), msgspec.json.Decoder(Rewarded)
        self._rows: list[tuple[str, tuple[Any, ...], asyncio.Future[None]]] = []

    def _open(self) -> None:
        """As sparing.service.store.sqlite does."""
        self._store = apsw.Connection(str(self._path))
        self._store.pragma("journal_mode", "wal")
        self._store.pragma("synchronous", "full")
        self._store.execute(TABLES)
        self._thread = ThreadPoolExecutor(1, "commit")
        self._come = asyncio.Event()
        self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        """What has come while the disk was busy is written at once."""
        loop = asyncio.get_running_loop()
        while True:
            await self._come.wait()
            self._come.clear()
            group, self._rows = self._rows, []
            self._store.execute("begin immediate")
            for statement in (DECISION, OUTCOME):
                rows = [row for which, row, _ in group if which is statement]
                if rows:
                    self._store.executemany(statement, rows)
            await loop.run_in_executor(self._thread, self._store.execute, "commit")
            for _, _, future in group:
                if not future.done():
                    future.set_result(None)

    async def _written(self, statement: str, row: tuple[Any, ...]) -> None:
        future = asyncio.get_running_loop().create_future()
        self._rows.append((statement, row, future))
        self._come.set()
        await future

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        message = await receive()
        body = message["body"]
        while message.get("more_body"):
            message = await receive()
            body += message["body"]
        path, now = scope["path"], time.time_ns() // 1000
        if path.endswith("/decide"):
            identity = os.urandom(16)
            context = array("d", self._asked.decode(body).context).tobytes()
            await self._written(DECISION, (identity, now, context))
            answer = msgspec.json.encode({"decision_id": identity.hex()})
        else:
            identity = bytes.fromhex(path.split("/")[-2])
            await self._written(OUTCOME, (identity, now, self._rewarded.decode(body).value))
            answer = b'{"status":"taken"}'
        headers = [*HEADERS, (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _live(self, receive: Any, send: Any) -> None:
        await receive()
        self._open()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._writing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._writing
        self._thread.shutdown()
        self._store.close()
        await send({"type": "lifespan.shutdown.complete"})
