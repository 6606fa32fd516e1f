"""Says why the first call on a new machine takes seconds: kernels are compiled once, and kept."""

import multiprocessing
import os
import sys
import time
from typing import Any

from numba.core import event

LINE = "sparing: compiling for this machine, once"
EVERY = 0.2
"""Seconds between two looks at a terminal's line."""


class Announcer(event.Listener):
    """Watches our own kernels being compiled, and shows it as it goes on.

    A terminal sees one line that counts, and that goes away; a notebook or a command's log is told once. A library
    in somebody's pipeline says nothing (unless SPARING_ANNOUNCE is set, as commands do), and so do worker processes.
    """

    def __init__(self) -> None:
        self.depth, self.kernels, self.told = 0, 0, False
        self.began = self.shown = 0.0

    def on_start(self, event: Any) -> None:
        """A kernel, or one that it calls, is being compiled."""
        if not _ours(event):
            return
        if not self.depth:
            self.began = self.began or time.monotonic()
        self.depth += 1
        self._tell()

    def on_end(self, event: Any) -> None:
        """It is done; so is the line when nothing else is under way."""
        if not _ours(event):
            return
        self.depth -= 1
        self.kernels += 1
        self._tell()
        if not self.depth and self.shown and _terminal():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self.shown = 0.0

    def _tell(self) -> None:
        now = time.monotonic()
        if _terminal():
            if now - self.shown >= EVERY and now - self.began >= EVERY:
                self.shown = now
                sys.stderr.write(f"\r\x1b[K{LINE}: {self.kernels} kernels, {now - self.began:.0f} s")
                sys.stderr.flush()
        elif not self.told and _somebody_reads():
            self.told = True
            print(f"{LINE} (about 10 s of work; kept for the next time)", file=sys.stderr)


def _ours(what: Any) -> bool:
    return str(what.data["dispatcher"].py_func.__module__).startswith("sparing.")


def _terminal() -> bool:
    return multiprocessing.parent_process() is None and sys.stderr is not None and sys.stderr.isatty()


def _somebody_reads() -> bool:
    return multiprocessing.parent_process() is None and (
        "SPARING_ANNOUNCE" in os.environ or "ipykernel" in sys.modules
    )


def watch() -> None:
    """Begin to watch."""
    register: Any = event.register
    register("numba:compile", Announcer())
