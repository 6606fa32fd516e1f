"""Contenders live in child processes, one a library, and are timed there."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparing.errors import SparingError

SERVER = Path(__file__).parent / "peers" / "serve.py"
ONE_THREAD = {
    name: "1"
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "ARROW_NUM_THREADS",
    )
}
"""CPU time is compared, so nobody may spread over cores."""


LONGEST = 300.0
"""Seconds that a child may take over one answer."""


class ContenderError(SparingError):
    """A contender failed; the others go on."""


@dataclass
class Child:
    """A process that serves contenders; see peers/serve.py for what is said."""

    name: str
    command: list[str]
    process: "subprocess.Popen[str]"
    complaints: Any
    version: str = ""

    @classmethod
    def start(cls, name: str, command: list[str], environment: Mapping[str, str]) -> "Child":
        """Start it, and wait until its library is imported."""
        complaints = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (closed with the child)
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                encoding="utf-8",
                env={**environment, **ONE_THREAD},
            )
        except OSError as error:
            complaints.close()
            raise ContenderError(f"{name} did not start: {error.strerror or error}") from None
        child = cls(name, command, process, complaints)
        try:
            child.version = str(child._answer()["version"])
        except BaseException:
            child.close()
            raise
        return child

    def ask(self, **command: Any) -> dict[str, Any]:
        """Send one command, and return the answer."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        except OSError:
            raise ContenderError(f"{self.name} is gone: {self._last_words()}") from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        alarm = threading.Timer(LONGEST, self.process.kill)
        alarm.start()
        try:
            line = self.process.stdout.readline()
        finally:
            alarm.cancel()
        if not line:
            code = self.process.wait()
            if code == -signal.SIGKILL:
                raise ContenderError(f"{self.name} was ended: out of memory, or silent for {LONGEST:g} s")
            raise ContenderError(f"{self.name} ended with code {code}: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ContenderError(f"{self.name}: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        self.complaints.seek(0)
        lines = [line.strip() for line in self.complaints.read().splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"

    def close(self) -> None:
        """Let it end; end it if it will not."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.complaints.close()


@dataclass
class Field:
    """Who can run: our own modules in this interpreter, and peers in theirs.

    `peers` maps a peer's name to its interpreter. Children are started when first asked for and live
    until the field is closed. `say` tells people how far it is.
    """

    peers: Mapping[str, Path]
    say: Callable[[str], None] = lambda text: None
    children: dict[str, Child] = field(default_factory=dict)

    def child(self, name: str) -> Child:
        """The child that serves `ours`, `plain` or a peer."""
        if name not in self.children:
            self.children[name] = self._start(name)
        return self.children[name]

    def _start(self, name: str) -> Child:
        environment = dict(os.environ)
        if name in self.peers:
            script = SERVER.with_name(f"{name}.py")
            return Child.start(name, [str(self.peers[name]), "-I", str(SERVER), str(script)], environment)
        module = f"research.bench.house.{name}"
        environment["PYTHONPATH"] = os.pathsep.join(place for place in sys.path if place)
        return Child.start(name, [sys.executable, "-P", str(SERVER), module], environment)

    def died(self, name: str) -> bool:
        """Whether a child has ended of itself, or never came up."""
        child = self.children.get(name)
        return child is None or child.process.poll() is not None

    def forget(self, name: str) -> None:
        """End a child, so that its memory is free or a broken one is started anew."""
        child = self.children.pop(name, None)
        if child is not None:
            child.close()

    def close(self) -> None:
        """End all children."""
        for name in list(self.children):
            self.forget(name)


@contextlib.contextmanager
def open_field(peers: Mapping[str, Path], say: Callable[[str], None] = lambda text: None) -> Iterator[Field]:
    """A field whose children end with the block."""
    ready = Field(peers, say)
    try:
        yield ready
    finally:
        ready.close()
