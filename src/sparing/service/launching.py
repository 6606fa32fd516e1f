"""From a command to a running service."""

import asyncio
import json
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette

from sparing.errors import FileError, SettingError
from sparing.log.log import Log
from sparing.service import creating
from sparing.service.messages import Options
from sparing.service.problems import misfit
from sparing.service.serving import Service, Settings
from sparing.settings import among

ENVIRONMENT = "SPARING_SERVICE"
"""How a worker that uvicorn starts is told its settings; the key is in it, so it is not on a command line."""

BACKLOG = 2048


def settings(
    folder: Path,
    *,
    address: str | None,
    host: str,
    key_file: Path | None,
    names: tuple[str, ...],
    durability: str,
    workers: int,
) -> Settings:
    """Settings of a service, checked."""
    among("durability", durability, ("power", "process"))
    if address is not None and not address.startswith(("postgresql://", "postgres://")):
        raise SettingError("--store must be an address such as postgresql://user@host/database")
    if workers > 1 and address is None:
        raise SettingError(
            f"workers={workers} with SQLite, which has one writer; use one worker, or --store postgresql://…"
        )
    key = None
    if key_file is not None:
        try:
            key = key_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise FileError(f"cannot read {key_file}: {error.strerror}") from None
        if len(key) < 20:
            raise SettingError(
                f"{key_file} holds a key of {len(key)} characters; use 20 or more, such as `sparing keys add` makes"
            )
    return Settings(folder, address, host, key, names, durability)


async def _opened(known: Settings) -> Service:
    service = Service(known)
    await service.open()
    return service


def list_experiments(known: Settings) -> tuple[list[str], bool]:
    """The names of a store's experiments, and whether a key is needed; refuses what could not be served."""

    async def look() -> tuple[list[str], bool]:
        service = await _opened(known)
        try:
            return [one.name for one in service.book], service.guard.locked
        finally:
            await service.store.close()

    return asyncio.run(look())


def make(
    known: Settings,
    name: str,
    log: Log,
    learner: str,
    said: Mapping[str, Any],
    rules: Mapping[str, Any],
    columns: Mapping[str, Any],
) -> str:
    """Make an experiment; a sentence about it."""
    creating.check_name(name)
    options = _options(rules)
    made = creating.make_learner(learner, log, said)

    async def write() -> None:
        service = await _opened(known)
        try:
            config = {"learner": learner, "settings": dict(said), "columns": dict(columns)}
            await creating.create(service.writer, name, log, made, options, config, who="command line")
        finally:
            await service.store.close()

    asyncio.run(write())
    return f"{learner}, {made.n_actions} actions, warm-started from {log.n_rows:,} rows"


def _options(rules: Mapping[str, Any]) -> Options:
    """Rules as a command line gives them: true is a word there."""
    unknown = [name for name in rules if name not in Options.__struct_fields__]
    if unknown:
        raise SettingError(
            f"--rule {unknown[0]}: there is no such rule; the rules are {', '.join(Options.__struct_fields__)}"
        )
    try:
        return msgspec.convert(dict(rules), Options, strict=False)
    except msgspec.ValidationError as error:
        detail, field = misfit(error, Options)
        name = field or ""
        raise SettingError(f"--rule {name}={rules.get(name)}: {detail.replace(' or null', '')}") from None


def run(
    known: Settings, bound: socket.socket, workers: int, *, locked: bool, say: Callable[[str], None]
) -> None:
    """Serve until stopped; `locked`: a key is needed."""
    shown = f"[{known.host}]" if ":" in known.host else known.host
    where = f"http://{shown}:{bound.getsockname()[1]}"
    say(
        f"sparing: serving {known.folder} at {where}/ (stop with Ctrl-C){'; a key is needed' if locked else ''}"
    )
    told = {**asdict(known), "folder": str(known.folder)}
    os.environ[ENVIRONMENT] = json.dumps(told)
    config = uvicorn.Config(
        "sparing.service.launching:worker",
        factory=True,
        workers=workers,
        backlog=BACKLOG,
        log_level="warning",
        access_log=False,
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
    """A socket bound to a port; taken before anything is made, so that a port in use changes nothing."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise SettingError(
            f"cannot bind {host} port {port}: {error.strerror or error}. Name another with --port (0 takes a free one)"
        ) from None
    bound.set_inheritable(True)
    return bound


def worker() -> Starlette:
    """The web application of one worker, by the settings in its environment."""
    told = json.loads(os.environ[ENVIRONMENT])
    return Service(Settings(**{**told, "folder": Path(told["folder"]), "names": tuple(told["names"])})).app()
