"""A reader who does what a page says, in the page's order: saves its files, runs its commands, compares what they print."""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
ADDRESS = "http://127.0.0.1:8321"
BLOCK = re.compile(r'^```(python|sh|text)(?: title="([^"\n]*)")?\n(.*?)^```', re.DOTALL | re.MULTILINE)


class Service:
    """A service at an address where nobody else answers, from when it is ready until it is stopped."""

    def __init__(self, command: Sequence[str], address: str, **how: Any) -> None:
        assert not answers(address), f"somebody else serves at {address}"
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed when it is stopped)
        self._process = subprocess.Popen(command, stderr=self._said, **how)
        until = time.monotonic() + 120
        while not answers(address):
            if time.monotonic() > until or self._process.poll() is not None:
                self._process.kill()
                raise AssertionError(f"the service never became ready: {self.stop()}")
            time.sleep(0.1)

    def stop(self) -> str:
        """What it has said on its error stream."""
        self._process.terminate()
        self._process.wait(30)
        with self._said as file:
            file.seek(0)
            return file.read().decode()


def answers(address: str) -> bool:
    """Whether a service is ready there."""
    try:
        return httpx.get(f"{address}/readyz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


class Reader:
    """Follows pages in a folder, with the programs of a folder `bin`.

    `installs` says whether it also does what a page says on installing; `looks` is called before a service is stopped.
    """

    def __init__(
        self,
        folder: Path,
        programs: Path,
        *,
        installs: bool = False,
        looks: Callable[[], object] = lambda: None,
    ) -> None:
        self.folder = folder
        self.installs = installs
        self.looks = looks
        self.heard: list[str] = []
        self.env = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        }
        self._served: Service | None = None

    def follow(self, page: str, *, only_served: bool = False) -> list[str]:
        """Do what a page says, all of it or only what is said in terminals beside a service; gives what each command printed."""
        printed: list[str] = []
        try:
            for language, title, text in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
                if not only_served or title.startswith("in "):
                    self._do(language, title, text, printed)
        finally:
            self._stop()
        return printed

    def _do(self, language: str, title: str, text: str, printed: list[str]) -> None:
        if language == "python" and title.endswith(".py"):
            (self.folder / title).write_text(text, encoding="utf-8")
        elif language == "text" and printed:
            lines = [line for line in text.splitlines() if line.strip() and "…" not in line]
            missing = [line for line in lines if line not in printed[-1]]
            assert not missing, f"the page shows what was not printed: {missing}; printed: {printed[-1]}"
        elif language != "sh" or (title == "install" and not self.installs):
            return
        elif title == "in one terminal":
            self._serve(text)
        else:
            if title == "afterwards":
                self._stop()
            where = ROOT if title == "install" else self.folder
            done = subprocess.run(
                ["bash", "-ec", text], cwd=where, env=self.env, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
            printed.append(done.stdout + done.stderr)

    def _serve(self, command: str) -> None:
        self._served = Service(["bash", "-c", f"exec {command}"], ADDRESS, cwd=self.folder, env=self.env)

    def _stop(self) -> None:
        if self._served is not None:
            try:
                self.looks()
            finally:
                self.heard.append(self._served.stop())
                self._served = None
