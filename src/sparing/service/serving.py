"""One worker: the store, the experiments, who may do what, and what must be done from time to time."""

import asyncio
import contextlib
import gc
import os
import socket
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from sparing.errors import FileError, SparingError
from sparing.service import erasing, events, importing, snapshotting
from sparing.service.book import Book
from sparing.service.http.guard import Guard
from sparing.service.ledger import Sweep
from sparing.service.problems import ServiceError, unavailable
from sparing.service.store import at
from sparing.service.store.driver import StoreError
from sparing.service.writer import Writer

TICK = 0.25
"""Seconds between two looks at what is due."""

YOUNG = 20_000
"""New objects after which the collector looks for those that nobody needs: a request makes few that hold one another."""

CARE = 10.0
"""Seconds between two looks at what may need a snapshot or an erasure."""

HEARTBEAT = 5
"""Seconds between two notes of what a worker has applied."""

SNAPSHOT_EVERY = 20_000
"""Events after which a new snapshot is made."""


@dataclass(frozen=True)
class Settings:
    """Where and how a worker serves."""

    folder: Path
    address: str | None = None
    host: str = "127.0.0.1"
    key: str | None = None
    names: tuple[str, ...] = ()
    durability: str = "power"


class Application(Starlette):
    """Routes without layers around them: every endpoint answers for its own mistakes. Most requests are found without a search."""

    def build_middleware_stack(self) -> ASGIApp:
        """None: two layers around each request would only pass it on."""
        from sparing.service.http.deciding import often

        async def routed(scope: Scope, receive: Receive, send: Send) -> None:
            endpoint = often(scope) if scope["type"] == "http" else None
            await (endpoint or self.router)(scope, receive, send)

        return routed


class Service:
    """A worker's parts. `alarms` are things that an operator must look at."""

    def __init__(self, settings: Settings, *, clock: Callable[[], int] = events.now) -> None:
        self.settings, self.clock = settings, clock
        self.store = at(settings.folder, settings.address, durability=settings.durability)
        self.book = Book(self.store)
        self.guard = Guard(self.store, settings.host, own=settings.key, names=settings.names)
        self.writer = Writer(self.store, self.book, clock=clock)
        self.worker = f"{socket.gethostname()}-{os.getpid()}"
        self.started = events.now()
        self.alarms: dict[str, str] = {}
        self.ready = False
        self._tasks: list[asyncio.Task[None]] = []
        self._looks = 0

    @property
    def shared(self) -> bool:
        """Whether other workers may write to the same store."""
        return self.settings.address is not None

    def must_be_ready(self) -> None:
        """Refuse requests while the states are read and the code is compiled."""
        if not self.ready:
            raise unavailable("starting", "the service is starting; try again")

    async def open(self) -> None:
        """Read the store's experiments; a store that is not there is made, unless it could not be served."""
        if not self.shared and not self.settings.folder.exists():
            self.guard.check_exposed()
        await self.store.open(create=True)
        await self.guard.refresh()
        self.guard.check_exposed()
        await self.writer.catch_up()

    async def start(self) -> None:
        """Read the store, compile, and serve."""
        await self.open()
        for experiment in self.book:
            await asyncio.to_thread(experiment.model.learner.warm_up)
            await snapshotting.tidy(self.writer, experiment)
            await importing.rebase(self.writer, experiment)
        self.writer.start()
        self._tasks = [
            asyncio.create_task(self._again(TICK, self._due)),
            asyncio.create_task(self._again(1.0, self._look_around)),
            asyncio.create_task(self._again(CARE, self._take_care)),
        ]
        gc.collect()
        gc.freeze()  # what is there now stays: to look it through again and again would only take time
        gc.set_threshold(YOUNG)
        self.ready = True

    async def stop(self) -> None:
        """Finish what has come, write the states down, and leave."""
        was_ready, self.ready = self.ready, False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.writer.stop()
        if was_ready and not self.shared:
            for experiment in self.book:
                with contextlib.suppress(SparingError):  # the events are there: a start then takes longer
                    await snapshotting.snapshot_here(self.writer, experiment)
                    await snapshotting.tidy(self.writer, experiment)
        await self.store.close()

    async def _again(self, seconds: float, task: Callable[[], Awaitable[None]]) -> None:
        """Do something again and again; what fails is tried again."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await task()
            except (ServiceError, StoreError):
                continue  # requests are answered with it
            except Exception:
                traceback.print_exc(file=sys.stderr)

    async def _due(self) -> None:
        """Take in what others wrote; close decisions whose window has passed."""
        if self.shared:
            await self.writer.catch_up()
        now = self.clock()
        for experiment in list(self.book):
            if experiment.model.overdue(now):
                await self.writer.submit(Sweep(experiment.name))

    async def _look_around(self) -> None:
        """Take note of new keys; where others serve too, say what this worker has applied."""
        await self.guard.refresh()
        self._looks += 1
        if self.shared and self._looks % HEARTBEAT == 1:
            rows = [
                (self.worker, one.number, one.model.seq, one.model.digest, self.clock()) for one in self.book
            ]
            await self.store.alone(
                (
                    "insert into workers values ($1, $2, $3, $4, $5) on conflict (worker, experiment) do update set "
                    "seq = excluded.seq, digest = excluded.digest, ts = excluded.ts",
                    rows,
                )
            )

    async def _take_care(self) -> None:
        """Make snapshots where much happened since the last; erase contexts that were kept for long enough."""
        for experiment in list(self.book):
            await erasing.expire_contexts(self.writer, experiment, self.clock())
            known = await self.store.snapshots(experiment.number)
            newest = known[0].seq if known else (await self.book.bases(experiment.number))[-1].seq
            if experiment.model.seq - newest < SNAPSHOT_EVERY:
                continue
            try:
                await snapshotting.snapshot_by_child(self.writer, experiment)
                self.alarms.pop(experiment.name, None)
            except (snapshotting.MismatchError, FileError) as error:
                self.alarms[experiment.name] = str(error)
                print(f"sparing: {error}", file=sys.stderr, flush=True)

    def app(self) -> Starlette:
        """The web application."""
        from sparing.service.http.routes import routes

        @contextlib.asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            app.state.service = self
            starting = asyncio.create_task(self._begin())
            if self.shared:  # others answer meanwhile: this one takes no connection before it can
                await starting
            yield
            await asyncio.gather(starting, return_exceptions=True)
            await self.stop()

        app = Application(routes=routes(), lifespan=lifespan)
        app.state.service = self
        return app

    async def _begin(self) -> None:
        try:
            await self.start()
        except BaseException:
            traceback.print_exc(file=sys.stderr)
            os._exit(1)
