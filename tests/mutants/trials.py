"""Run tests on the source with a fault in it, in a process of its own that begins with all that takes long already imported."""

import gc
import json
import os
import signal
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import sparing.learning
import sparing.model.confidence  # noqa: F401  what `online` imports
from mutants.faults import HOUSE, Fault
from mutants.interpreted import interpret, replace

TEST_LIMIT = 60.0
"""Processor seconds of one test: more is taken for an endless loop, which notices the fault."""

WAIT_LIMIT = 900
"""Seconds by the clock of one test: more is taken for waiting for something that never comes, or for a loop in machine code."""

SLOW = (
    "million", "thousand", "large", "memory", "40-6", "certificates", "no_compile", "own_worlds", "budget_finds", "rollout",
)  # fmt: skip
"""Words in the names of tests that take minutes where the engine is interpreted: left out of whole files."""

FAILED, TOO_LONG, DIED, MISSING = "failed", "too long", "died", "no such test"

NOTHING_RAN = (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED)

os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # no test of `online` uses any
os.environ["SPARING_STEPS"] = "1500"
gc.freeze()


class Outcome(NamedTuple):
    """Of a run of tests: the first that failed and how, both empty if none did; how many passed; processor seconds."""

    test: str
    how: str
    passed: int
    seconds: float


class TooLong(BaseException):
    """A test took more than `TEST_LIMIT`."""


class Notes:
    """A plugin of pytest that limits the time of each test, and writes to a file which one runs or has failed."""

    def __init__(self, path: Path, without: Collection[str]) -> None:
        self.path, self.without = path, without
        self.how, self.passed = "", 0

    def write(self, test: str, how: str) -> None:
        self.how = how
        self.path.write_text(json.dumps([test.removeprefix("tests/"), how, self.passed]), encoding="utf-8")

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        whole = not any("::" in argument for argument in config.args)
        items[:] = [
            item
            for item in items
            if item.nodeid.removeprefix("tests/") not in self.without
            and not (whole and any(word in item.name for word in SLOW))
        ]

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.write(report.nodeid, FAILED)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        def stop(*_: Any) -> None:
            self.write(item.nodeid, TOO_LONG)
            raise TooLong

        self.write(item.nodeid, DIED)
        signal.signal(signal.SIGPROF, stop)
        signal.setitimer(signal.ITIMER_PROF, TEST_LIMIT, 1.0)
        signal.alarm(WAIT_LIMIT)  # ends the process
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            if self.how == DIED:
                self.passed += 1
                self.write("", "")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and self.how == DIED:
            self.write(report.nodeid, FAILED)


def run(fault: Fault | None, tests: Sequence[str], without: Collection[str] = ()) -> Outcome:
    """Run tests (files or ids, in `tests`) but some, up to the first that fails, with a fault or with none."""
    text = fault.text() if fault else ""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "notes"
        child = os.fork()
        if not child:
            try:
                os.chdir(HOUSE)
                silent = os.open(os.devnull, os.O_RDWR)
                for stream in range(3):
                    os.dup2(silent, stream)
                if fault:
                    replace(fault.path, text)
                notes = Notes(path, without)
                notes.write(tests[0], DIED)  # at an import
                interpret()
                options = ["-x", "-q", "-p", "no:cacheprovider", "-W", "ignore", f"--basetemp={folder}/tmp"]
                code = pytest.main([*options, *(f"tests/{test}" for test in tests)], plugins=[notes])
                if code in NOTHING_RAN and notes.how == DIED:
                    notes.write("", MISSING)
            finally:
                os._exit(0)
        _, _, used = os.wait4(child, 0)
        test, how, passed = json.loads(path.read_text(encoding="utf-8"))
    return Outcome(test, how, passed, used.ru_utime + used.ru_stime)
