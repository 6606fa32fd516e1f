"""`sparing convert` says what it did, and is interrupted without a trace."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from sparing.log import Log, write_log

ROWS = 2000


@pytest.fixture
def source(tmp_path):
    """A log as dsjson."""
    rng = np.random.default_rng(0)
    log = Log.from_arrays(
        rng.integers(0, 64, size=(ROWS, 3)) / 64,
        rng.integers(4, size=ROWS),
        rng.integers(2, size=ROWS).astype(float),
        distribution=np.full((ROWS, 4), 0.25),
        action_names=range(4),
    )
    write_log(log, tmp_path / "log.dsjson")
    return tmp_path / "log.dsjson"


def sparing(*words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "sparing", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_a_walked_log_is_told_of_as_one_in_memory(source):
    target = source.with_suffix(".parquet")
    told, silent = sparing("convert", source, target).communicate()
    assert told.startswith(f"Log({ROWS} rows, 4 actions, 3 features, propensities, support exact)\nassumed: ")
    assert f"\nWritten: {target}\n" in told
    assert silent == ""
    told, _ = sparing("convert", target, source.with_suffix(".csv"), "--json").communicate()
    found = json.loads(told)
    assert [found[name] for name in ("rows", "actions", "features", "support")] == [ROWS, 4, 3, "exact"]


def takes_interrupts():
    """Shells start background jobs with SIGINT ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
def test_an_interrupted_command_leaves_nothing(source):
    """Interrupted while it writes: when its temporary file is there. On a busy machine it may end first: then with more rows."""
    rows = source.read_bytes()
    for times in (60, 240, 960):
        source.write_bytes(rows * times)
        running = sparing("convert", source, source.with_suffix(".csv"), preexec_fn=takes_interrupts)
        while running.poll() is None and not list(source.parent.glob(".*.part")):
            time.sleep(0.001)
        running.send_signal(signal.SIGINT)
        told, said = running.communicate(timeout=60)
        if running.returncode:
            break
        source.with_suffix(".csv").unlink()
    assert (running.returncode, told) == (130, "")
    assert said == "sparing: interrupted; nothing half-written is left behind\n"
    assert list(source.parent.iterdir()) == [source]


def test_a_text_file_with_decimal_commas_is_converted(tmp_path):
    lines = (f"{i},5;{'ab'[i % 2]};0,{i % 10}\n" for i in range(30))
    (tmp_path / "log.csv").write_text("price;action;reward\n" + "".join(lines))
    words = ["--option", "decimal=,", "--option", "delimiter=;"]
    told, wrong = sparing("convert", tmp_path / "log.csv", tmp_path / "log.parquet", *words).communicate()
    assert told.startswith("Log(30 rows, 2 actions"), wrong
    assert "price: number" in told
