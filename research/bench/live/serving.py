"""One server under load, which tells the parent process what it has cost so far: JSON lines in, JSON lines out.

    python -m research.bench.live.serving KIND FOLDER

says {"version": …} once it is ready, and answers every line with its port, its CPU seconds and its memory in bytes.
"""

import json
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import uvicorn

OURS, SINGLE, FLOOR, FRAMEWORK = "ours", "single", "floor", "framework"
Ready = Callable[[], bool]


def _ours(folder: Path) -> tuple[Any, Ready]:
    from sparing.service.server import ServerSettings, Service

    service = Service(ServerSettings(folder))
    return service.app(), lambda: service.ready


def _single(folder: Path) -> tuple[Any, Ready]:
    """Ours, but every request is a group of its own."""
    from sparing.service import writer

    writer.MAX_GROUP = 1
    return _ours(folder)


def _floor(folder: Path) -> tuple[Any, Ready]:
    from research.bench.live.floor import Floor

    return Floor(folder), lambda: True


def _framework(folder: Path) -> tuple[Any, Ready]:
    from research.bench.live.framework import make

    app, service = make(folder)
    return app, lambda: service.ready


KINDS: dict[str, Callable[[Path], tuple[Any, Ready]]] = {
    OURS: _ours,
    SINGLE: _single,
    FLOOR: _floor,
    FRAMEWORK: _framework,
}
LIBRARIES = {FRAMEWORK: "fastapi", FLOOR: "uvicorn"}


def _memory() -> int:
    """Bytes of this process in memory."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:  # not Linux: the most it ever had
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()


def _talk(answers: Any, server: uvicorn.Server, ready: Ready, port: int, version: str) -> None:
    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    while not (server.started and ready()):
        time.sleep(0.005)
    say({"version": version})
    for _ in sys.stdin:
        say({"port": port, "cpu_seconds": time.process_time(), "memory": _memory()})
    server.should_exit = True


def main(kind: str, folder: str) -> None:
    """Serve until the parent has nothing more to ask."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    app, ready = KINDS[kind](Path(folder))
    version = metadata.version(LIBRARIES[kind]) if kind in LIBRARIES else ""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
    )
    server = uvicorn.Server(config)
    said = (answers, server, ready, bound.getsockname()[1], version)
    threading.Thread(target=_talk, args=said, daemon=True).start()
    server.run([bound])


if __name__ == "__main__":
    main(*sys.argv[1:])
