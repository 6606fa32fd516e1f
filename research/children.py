"""Another library lives in a child process, in an environment of its own: JSON lines there and back."""

import contextlib
import json
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparing.errors import SparingError

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


def as_installed(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which Python keeps the byte code of modules, as it does where nobody forbids it."""
    return {name: text for name, text in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}


LONGEST = 300.0
"""Seconds that a child may take over one answer."""


class ContenderError(SparingError):
    """A contender failed; the others go on."""


@dataclass
class Child:
    """A process that answers each line with a line, and first of all says its library's version."""

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
                env={**as_installed(environment), **ONE_THREAD},
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
