"""One worker process: store, experiments, authentication, periodic tasks; and launching workers."""

import asyncio
import contextlib
import gc
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sparing.errors import FileError, SettingError, SparingError
from sparing.log.log import Log
from sparing.service import clock_file, dashboard, erasure, events, experiments, snapshots, summing
from sparing.service.errors import ServiceError, print_traceback, tell_operator, validation_detail
from sparing.service.http.auth import Guard
from sparing.service.messages import Options, OptionsPatch
from sparing.service.registry import ExperimentRegistry
from sparing.service.store import open_store
from sparing.service.store.driver import LostError, StoreError
from sparing.service.transactions import ExpirePending
from sparing.service.writer import Writer
from sparing.validation import one_of

POLL_SECONDS = 0.25  # for expired decisions and events of other workers
GC_THRESHOLD = 20_000  # new objects between collections: requests make few reference cycles
MAINTENANCE_SECONDS = 10.0  # for snapshots and retention
HEARTBEAT = 5  # seconds
LONGEST_ROUND = 900.0  # seconds of a periodic task that are an alarm
# Settings for workers that uvicorn starts; they contain the key, so they are not on a command line.
ENVIRONMENT = "SPARING_SERVICE"

BACKLOG = 2048
MAX_HEAD = 64 * 2**10  # bytes of a request's first line and headers, and of trailers


@dataclass(frozen=True)
class ServerSettings:
    folder: Path
    address: str | None = None
    host: str = "127.0.0.1"
    key: str | None = None
    names: tuple[str, ...] = ()
    durability: str = "power"


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with a limit on a request's head, and on what follows the last part of its body: httptools collects both without end."""

    _bare: int | None = None  # bytes since the request began, its head ended, or a part of its body came
    _in_head = _advanced = False

    def on_message_begin(self) -> None:
        self._bare, self._in_head = 0, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head, self._advanced = False, True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._advanced = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._bare = None
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        self._advanced = False
        super().data_received(data)
        if self._bare is None:
            return
        self._bare = 0 if self._advanced else self._bare + len(data)
        if self._bare > MAX_HEAD and not self.transport.is_closing():
            if self._in_head:
                self.transport.write(
                    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\r\n"
                )
            self.transport.close()


class Application(Starlette):
    """Starlette without middleware: endpoints handle their own errors, and the most frequent requests skip routing."""

    service: "Service"
    fast_path: Callable[[Scope], ASGIApp | None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        endpoint = self.fast_path(scope) if scope["type"] == "http" else None
        await (endpoint or self.router)(scope, receive, send)


class Service:
    """One worker. `alarms` are problems for an operator; `failing` has the periodic tasks whose last round failed."""

    def __init__(self, settings: ServerSettings, *, clock: Callable[[], int] | None = None) -> None:
        clock = events.SteadyClock() if clock is None else clock
        self.settings, self.clock = settings, clock
        self.store = open_store(settings.folder, settings.address, durability=settings.durability)
        self.registry = ExperimentRegistry(self.store)
        self.guard = Guard(self.store, settings.host, own=settings.key, names=settings.names)
        self.writer = Writer(self.store, self.registry, clock=clock)
        self.worker = f"{socket.gethostname()}-{os.getpid()}"
        self.started = events.now()
        self.alarms: dict[str, str] = {}
        self.failing: dict[str, str] = {}
        self._rounds: dict[str, float] = {}  # when the present round of a periodic task began
        self.ready = False
        self._tasks: list[asyncio.Task[None]] = []
        self._looks = 0

    def alarms_of(self, name: str | None) -> list[str]:
        """Return the problems of this process that concern an experiment, or all of them."""
        found = [*self.failing.values(), *self._slow()]
        found += [text for known, text in self.alarms.items() if name in (None, known)]
        if jump := getattr(self.clock, "jump", 0):
            found.append(
                f"The clock of this machine jumped by {jump / events.SECOND:+,.0f} seconds; the service goes on with the time before. "
                "Correct the clock. If the new time is right, restart the service"
            )
        if self.writer.ahead > events.SteadyClock.TOLERANCE:
            found.append(
                f"The last event is dated {self.writer.ahead / events.SECOND:,.0f} seconds after this machine's time: a clock was wrong, or is. Until "
                "then no window closes and no budget is renewed. Correct the clock, or restore a backup"
            )
        return found

    def _slow(self) -> list[str]:
        now = time.monotonic()
        return [
            f"the {name} has taken {now - began:,.0f} s so far"
            for name, began in self._rounds.items()
            if now - began > LONGEST_ROUND
        ]

    def why_unready(self) -> str | None:
        """Return why no requests should be sent here; None if the service is ready."""
        if not self.ready:
            return "starting"
        if self.writer.idle:
            return "the store could not be written in the last second"
        return "; ".join(self.failing.values()) or None

    @property
    def shared(self) -> bool:
        return self.settings.address is not None

    async def open(self) -> None:
        """Read the experiments; create a store that does not exist, unless it could not be served."""
        if not self.shared and not self.settings.folder.exists():
            self.guard.check_exposed()
        await self.store.open(create=True)
        await self._start_clock()
        await self.guard.refresh()
        self.guard.check_exposed()
        await self.writer.catch_up()
        await summing.sum_old_stores(self.writer)

    async def _start_clock(self) -> None:
        """Compare the machine's clock with the database's, or with that of a service that crashed here; one of them may be wrong."""
        if not isinstance(self.clock, events.SteadyClock):
            return
        ((last,),) = await self.store.driver.read("select last_ts from store")
        other = await self.store.driver.time()
        if other is None:
            noted = clock_file.read_offset(self.settings.folder)
            other = None if noted is None else noted + self.clock.steady()
        self.clock.start(other, int(last))

    def _note_clock(self) -> None:
        if isinstance(self.clock, events.SteadyClock) and not self.shared:
            clock_file.write_offset(self.settings.folder, self.clock.offset)

    async def start(self) -> None:
        await self.open()
        self._note_clock()
        for experiment in self.registry:
            await asyncio.to_thread(experiment.model.learner.warm_up)
            await snapshots.delete_old_snapshots(self.writer, experiment)
            await experiments.rebase(self.writer, experiment)
            await snapshots.shorten_tail(self.writer, self.registry.by_id(experiment.number))
        self.writer.start()
        self._tasks = [
            asyncio.create_task(self._repeat("expiry of pending calls", POLL_SECONDS, self._expire)),
            asyncio.create_task(self._repeat("reading of keys", 1.0, self._poll)),
            asyncio.create_task(self._repeat("snapshots and retention", MAINTENANCE_SECONDS, self._maintain)),
        ]
        gc.collect()
        gc.freeze()  # long-lived objects; scanning them again only takes time
        gc.set_threshold(GC_THRESHOLD)
        self.ready = True

    async def stop(self) -> None:
        """Finish queued requests, write the states, and close."""
        was_ready, self.ready = self.ready, False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if was_ready and not self.shared:
            clock_file.remove(self.settings.folder)
        await self.writer.stop()
        if was_ready and not self.shared:
            for experiment in self.registry:
                if experiment.doubtful:
                    continue
                # The events are stored: after a failure only the next start takes longer.
                with contextlib.suppress(SparingError):
                    await snapshots.snapshot_here(self.writer, experiment)
        await self.store.close()

    async def _repeat(self, name: str, seconds: float, task: Callable[[], Awaitable[None]]) -> None:
        """Run a task again and again. A failed round is an alarm until one succeeds; a lost store ends the process."""
        while True:
            await asyncio.sleep(seconds)
            self._rounds[name] = time.monotonic()
            try:
                await task()
                self.failing.pop(name, None)
            except LostError as error:
                self.writer.lost(error)
                return
            except Exception as error:
                if name not in self.failing and not isinstance(error, (ServiceError, StoreError)):
                    print_traceback()
                self.failing[name] = f"the {name} failed: {error}"
            finally:
                del self._rounds[name]

    async def _expire(self) -> None:
        if self.shared:
            await self.writer.catch_up()
        now = self.clock()
        for experiment in list(self.registry):
            if experiment.model.has_expired(now):
                await self.writer.submit(ExpirePending(experiment.name))

    async def _poll(self) -> None:
        """Reload keys; with several workers, also record what this one has applied."""
        await self.guard.refresh()
        self._looks += 1
        if self.shared and self._looks % HEARTBEAT == 1:
            rows = [
                (self.worker, one.number, one.model.seq, one.model.digest, self.clock())
                for one in self.registry
            ]
            await self.store.exclusive(
                (
                    "insert into workers values ($1, $2, $3, $4, $5) on conflict (worker, experiment) do update set "
                    "seq = excluded.seq, digest = excluded.digest, ts = excluded.ts",
                    rows,
                )
            )

    async def _maintain(self) -> None:
        """Write snapshots after many events; erase contexts past their retention."""
        self._note_clock()
        for experiment in list(self.registry):
            await erasure.expire_contexts(self.writer, experiment, self.clock())
            await dashboard.keep_counts(self.writer, experiment)
            try:
                if await snapshots.keep_up(self.writer, experiment):
                    self.alarms.pop(experiment.name, None)
            except (snapshots.MismatchError, FileError) as error:
                self.alarms[experiment.name] = str(error)
                tell_operator(str(error))

    def app(self) -> Starlette:
        from sparing.service.http.app import routes
        from sparing.service.http.decisions import fast_path

        @contextlib.asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            starting = asyncio.create_task(self._begin())
            if self.shared:  # other workers serve meanwhile
                await starting
            yield
            await asyncio.gather(starting, return_exceptions=True)
            await self.stop()

        app = Application(routes=routes(), lifespan=lifespan)
        app.service, app.fast_path = self, fast_path
        return app

    async def _begin(self) -> None:
        try:
            await self.start()
        except BaseException:
            print_traceback()
            os._exit(1)


def server_settings(
    folder: Path,
    *,
    address: str | None,
    host: str,
    key_file: Path | None,
    names: tuple[str, ...],
    durability: str,
    workers: int,
) -> ServerSettings:
    one_of("durability", durability, ("power", "process"))
    if address is not None and not address.startswith(("postgresql://", "postgres://")):
        raise SettingError("--store is not an address; must be such as postgresql://user@host/database")
    if workers > 1 and address is None:
        raise SettingError(
            f"workers={workers}; must be 1 with SQLite, which has one writer. Use one worker, or --store postgresql://…"
        )
    key = None
    if key_file is not None:
        try:
            key = key_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise FileError(f"cannot read {key_file}: {error.strerror}") from None
        if len(key) < 20:
            raise SettingError(
                f"the key in {key_file} has {len(key)} characters; must have 20 or more. Create one with `sparing keys add`"
            )
    return ServerSettings(folder, address, host, key, names, durability)


@contextlib.asynccontextmanager
async def _opened(known: ServerSettings) -> AsyncIterator[Service]:
    service = Service(known)
    await service.open()
    try:
        yield service
    finally:
        await service.store.close()


class StoreSummary(NamedTuple):
    """The experiments of a store by name, those without a reward_window, and whether a key is needed."""

    names: list[str]
    without_window: list[str]
    locked: bool


def list_experiments(known: ServerSettings) -> StoreSummary:
    """Return what a store contains; refuse settings that cannot be served."""

    async def look() -> StoreSummary:
        async with _opened(known) as service:
            windows = {one.name: one.model.options.reward_window for one in service.registry}
            endless = [name for name, window in windows.items() if window is None]
            return StoreSummary(list(windows), endless, service.guard.locked)

    return asyncio.run(look())


def make_experiment(
    known: ServerSettings,
    name: str,
    log: Log,
    learner: str,
    said: Mapping[str, Any],
    rules: Mapping[str, Any],
    columns: Mapping[str, Any],
    judged: Log | None = None,
) -> str:
    """Create an experiment from a log; its learner also starts from `judged` answers, which were not logged."""
    experiments.check_name(name)
    options = parse_rules(rules)
    both = log
    if judged is not None:
        from sparing.asking.answers import with_actions, with_answers

        log = with_actions(log, judged.action_names)
        both = with_answers(log, judged)
    made = experiments.make_learner(learner, both, said)

    async def write() -> None:
        async with _opened(known) as service:
            config = {"learner": learner, "settings": dict(said), "columns": dict(columns)}
            await experiments.create(service.writer, name, log, made, options, config, who="command line")

    asyncio.run(write())
    more = "" if judged is None else f" and {judged.n_rows:,} judged answers"
    return f"{learner}, {made.n_actions} actions, warm-started from {log.n_rows:,} rows{more}"


def parse_rules(rules: Mapping[str, Any]) -> Options:
    """Return the options of a new experiment from the command's rules."""
    unknown = [name for name in rules if name not in Options.__struct_fields__]
    if unknown:
        raise SettingError(
            f"--rule {unknown[0]} is unknown; must be one of {', '.join(Options.__struct_fields__)}"
        )
    try:
        given = msgspec.convert(dict(rules), OptionsPatch, strict=False)
    except msgspec.ValidationError as error:
        detail, field = validation_detail(error, Options)
        name = field or ""
        raise SettingError(f"--rule {name}={rules.get(name)}: {detail.replace(' or null', '')}") from None
    return experiments.new_options(given)


def run(
    known: ServerSettings, bound: socket.socket, workers: int, *, locked: bool, say: Callable[[str], None]
) -> None:
    shown = f"[{known.host}]" if ":" in known.host else known.host
    where = f"http://{shown}:{bound.getsockname()[1]}"
    say(
        f"sparing: serving {known.folder} at {where}/ (stop with Ctrl-C){'; requests need a key' if locked else ''}"
    )
    values = {**asdict(known), "folder": str(known.folder)}
    os.environ[ENVIRONMENT] = json.dumps(values)
    config = uvicorn.Config(
        "sparing.service.server:worker",
        factory=True,
        workers=workers,
        backlog=BACKLOG,
        log_level="warning",
        access_log=False,
        http=LimitedProtocol,
        server_header=False,
        timeout_graceful_shutdown=10,
    )
    server = uvicorn.Server(config)
    if workers == 1:
        server.run([bound])
    else:
        from uvicorn.supervisors import Multiprocess

        Multiprocess(config, sockets=[bound]).run()


def bound_to(host: str, port: int) -> socket.socket:
    """Return a bound socket. It is bound before anything is written, so a port in use changes nothing."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise SettingError(
            f"cannot bind {host} port {port}: {error.strerror or error}. Choose another with --port (0 takes a free one)"
        ) from None
    bound.set_inheritable(True)
    return bound


def worker() -> Starlette:
    """Return the application of a worker that uvicorn starts, with the settings of its environment."""
    values = json.loads(os.environ[ENVIRONMENT])
    return Service(
        ServerSettings(**{**values, "folder": Path(values["folder"]), "names": tuple(values["names"])})
    ).app()
