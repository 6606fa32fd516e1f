"""The first compile says so: a terminal sees it going on, anything else is told once, if it takes long."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import sparing

SOURCE = Path(sparing.__file__).parent
COMPILE = """
import numpy as np
from sparing.native import compile
from sparing.online.engine.random_stream import uniform
compile.EVERY, compile.PATIENCE = 0.0, PATIENCE
uniform(1, 2)
print("done")
"""


def run(tmp_path, stderr, patience=0.0):
    script = tmp_path / "script.py"
    script.write_text(COMPILE.replace("PATIENCE\n", f"{patience}\n"))
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONPATH": str(SOURCE.parent)}
    return subprocess.run(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=stderr, env=env, check=True
    )


def test_a_short_compilation_is_silent(tmp_path):
    done = run(tmp_path, subprocess.PIPE, patience=3600)
    assert (done.stdout, done.stderr) == (b"done\n", b"")


def test_a_long_one_is_told_once_and_only_if_there_is_something_to_compile(tmp_path):
    first = run(tmp_path, subprocess.PIPE)
    assert first.stderr.decode().count("compiling") == 1
    assert "warm-up" in first.stderr.decode()
    assert run(tmp_path, subprocess.PIPE).stderr == b""


def test_a_terminal_sees_it_going_on_and_keeps_nothing(tmp_path):
    ours, theirs = pty.openpty()
    try:
        run(tmp_path, theirs)
        seen = os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert "compiling what is used for the first time on this machine: " in seen
    assert seen.endswith("\r\x1b[K")


@pytest.mark.thorough
def test_warm_up_leaves_nothing_to_compile():
    """A second run has nothing to do, and a third; what they say is true of a new process."""
    command = [sys.executable, "-m", "sparing", "warm-up"]
    env = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    _, told, shown = (
        subprocess.run([*command, *words], capture_output=True, env=env, check=True, text=True).stdout
        for words in ([], ["--json"], [])
    )
    assert '"compiled": 0' in told
    assert "nothing left to compile" in shown
