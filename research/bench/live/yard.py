"""A folder on a disk, the stores made in it, the servers that write to them, and the one who puts these under load."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from research.bench.live.serving import FLOOR, FRAMEWORK
from research.bench.measuring import Failure
from research.bench.older import Release
from research.children import ONE_THREAD, Child, ContenderError, as_installed
from sparing.simulation.datasets import cache_directory

WARMING = 4
"""The first load, which is not counted, is this part of the others."""


@dataclass(frozen=True)
class Contender:
    """A kind of server, what to call it, the state it begins from, and how much of a load it gets (a slow one less).

    `spec` has `actions`, `features`, `rows_an_action`, `seed`, `learner` and its `settings`. `older`: the older release's.
    """

    title: str
    kind: str
    regime: str
    spec: dict[str, Any]
    part: int = 1
    older: bool = False


class Seen(NamedTuple):
    """One load: the server's CPU seconds a decision, seconds a request, and a decision's latency; who was asked."""

    cpu: float
    request: float
    median: float
    slow: float
    asked: float


@dataclass
class Server:
    """A server that runs; `started` is how long that took, in seconds."""

    contender: Contender
    child: Child
    folder: Path
    started: float
    before: int
    decided: int = 0

    def state(self) -> dict[str, Any]:
        """Its port, its CPU seconds so far, its memory in bytes."""
        return self.child.ask()

    def close(self) -> float:
        """Let it end; bytes that its store grew by, a decision."""
        self.child.close()
        return (_bytes(self.folder) - self.before) / max(self.decided, 1)


@dataclass
class Yard:
    """`framework` is where FastAPI is, if it is anywhere."""

    folder: Path
    framework: Path | None = None
    older: Release | None = None
    stores: dict[str, Path] = field(default_factory=dict)
    loader: Child | None = None
    servers: list[Server] = field(default_factory=list)
    made: int = 0

    def store(self, spec: Mapping[str, Any], *, older: bool = False) -> Path:
        """A store with an experiment in this state; made once."""
        key = json.dumps([spec, older], sort_keys=True)
        if key not in self.stores:
            path = self.folder / f"store-{len(self.stores)}"
            words = ["-P", "-m", "research.bench.live.preparing", json.dumps({**spec, "folder": str(path)})]
            environment = {**as_installed(self._environment("", older=older)), **ONE_THREAD}
            done = subprocess.run(
                [self._python(older), *words], env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise ContenderError(f"no store: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
            self.stores[key] = path
        return self.stores[key]

    def start(self, contender: Contender) -> Server:
        """A server with a store of its own."""
        self.made += 1
        place = self.folder / f"server-{self.made}"
        if contender.kind == FLOOR:
            place.mkdir()
        else:
            shutil.copytree(self.store(contender.spec, older=contender.older), place)
        before, began = _bytes(place), time.perf_counter()
        words = ["-P", "-m", "research.bench.live.serving", contender.kind, str(place)]
        environment = self._environment(contender.kind, older=contender.older)
        child = Child.start(contender.title, [self._python(contender.older), *words], environment)
        server = Server(contender, child, place, time.perf_counter() - began, before)
        self.servers.append(server)
        return server

    def _python(self, older: bool) -> str:
        return str(self.older.interpreter) if older and self.older is not None else sys.executable

    def _environment(self, kind: str, *, older: bool = False) -> dict[str, str]:
        if older and self.older is not None:
            return self.older.environment()
        places = [str(self.framework)] if kind == FRAMEWORK and self.framework is not None else []
        places += [place for place in sys.path if place]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}

    def load(self, server: Server, *, connections: int, decisions: int, rewards: bool, seed: int) -> Seen:
        """Put a server under load; with `rewards`, every decision has its own."""
        if self.loader is None:
            words = ["-P", "-m", "research.bench.live.loading"]
            self.loader = Child.start("load", [sys.executable, *words], self._environment(""))
        spec = {name: server.contender.spec[name] for name in ("actions", "features", "seed")}
        count, before = max(connections, decisions // server.contender.part), server.state()
        order = {"connections": connections, "decisions": count, "rewards": rewards, "spec": spec}
        went = self.loader.ask(port=before["port"], seed=seed, **order)
        server.decided += count
        return Seen(
            (server.state()["cpu_seconds"] - before["cpu_seconds"]) / count,
            went["seconds"] / went["requests"],
            went["median"],
            went["slow"],
            went["asked"] / count,
        )

    def close(self) -> None:
        """End all that still runs."""
        for child in [*(server.child for server in self.servers), *([self.loader] if self.loader else [])]:
            child.close()


@contextlib.contextmanager
def open_yard(interpreter: Path | None = None, older: Release | None = None) -> Iterator[Yard]:
    """A yard on the disk of the user's cache; FastAPI is taken from the environment of this interpreter."""
    base = cache_directory() / "bench"
    base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="service-", dir=base, ignore_cleanup_errors=True) as folder:
        yard = Yard(Path(folder), None if interpreter is None else _packages(interpreter), older)
        try:
            yield yard
        finally:
            yard.close()


def race(
    yard: Yard, servers: Sequence[Server], *, rounds: int, connections: int, decisions: int, rewards: bool
) -> tuple[dict[str, list[Seen]], list[Failure]]:
    """Each once in every round; the first round is not counted. Who fails is left out."""
    seen: dict[str, list[Seen]] = {server.contender.title: [] for server in servers}
    failures: dict[str, str] = {}
    for number in range(rounds + 1):
        size = decisions if number else decisions // WARMING
        for server in servers:
            title = server.contender.title
            if title in failures:
                continue
            try:
                found = yard.load(
                    server, connections=connections, decisions=size, rewards=rewards, seed=number
                )
            except ContenderError as error:
                failures[title] = str(error)
                continue
            if number:
                seen[title].append(found)
    whole = {title: found for title, found in seen.items() if title not in failures}
    return whole, [Failure("service", title, reason) for title, reason in failures.items()]


def file_system(folder: Path) -> str:
    """The kind of file system that a folder is on, as far as it is known."""
    try:
        lines = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "an unknown file system"
    mounts = [(line.split()[1], line.split()[2]) for line in lines]
    inside = [(len(where), kind) for where, kind in mounts if folder.resolve().is_relative_to(where)]
    return max(inside)[1] if inside else "an unknown file system"


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("store.sqlite*"))


def _packages(interpreter: Path) -> Path:
    """Where an environment has its packages."""
    words = ["-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    done = subprocess.run([str(interpreter), *words], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())
