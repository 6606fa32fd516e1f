"""Converting takes no more memory for a longer log."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sparing.log import Log, write_log

LIMIT = 8 * 2**20
"""Bytes by which the peak may differ where the log is four times as long."""

STATUS = Path("/proc/self/status")
"""Where Linux tells a process its own peak; what `getrusage` tells may be that of the process which started it."""

CHILD = r"""
import re, sys
from sparing.log import passes, convert
rows, source, *targets = sys.argv[1:]
passes.BATCH_ROWS = passes.LEAF_ROWS = int(rows)
for target in targets:
    convert(source, target)
print(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())[1])
"""


def drawn(rows):
    """A log of short numbers, wide enough for its arrays to be seen in the peak."""
    rng = np.random.default_rng(0)
    table = np.full((4, 4), 1 / 8)
    np.fill_diagonal(table, 5 / 8)
    return Log.from_arrays(
        rng.integers(0, 64, size=(rows, 48)) / 64,
        rng.integers(4, size=rows),
        rng.integers(2, size=rows).astype(float),
        distribution=table[rng.integers(4, size=rows)],
        action_names=range(4),
    )


def peak(block, source, *targets):
    """The most memory that a process of its own had while it converted, in blocks of so many rows, in bytes."""
    command = [sys.executable, "-c", CHILD, str(block), str(source), *map(str, targets)]
    return 1024 * int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def written(log, path, rows):
    """So many rows; lines of text are those of few rows, again and again."""
    if path.suffix != ".dsjson":
        write_log(log.part(slice(0, rows)), path)
        return path
    few = path.with_suffix(".few")
    write_log(log.part(slice(0, 500)), few, "dsjson")
    path.write_bytes(few.read_bytes() * (rows // 500))
    return path


@pytest.mark.skipif(not STATUS.exists(), reason="no such measure")
@pytest.mark.parametrize(
    ("ending", "rows", "block", "targets"),
    [
        (".parquet", 40_000, 4096, [".arrow", ".npz"]),
        pytest.param(".dsjson", 10_000, 1024, [".parquet"], marks=pytest.mark.thorough),
        (".npz", 40_000, 4096, [".arrow"]),
    ],
)
def test_the_peak_does_not_grow_with_the_rows(ending, rows, block, targets, tmp_path, monkeypatch):
    """The longer log's contexts alone have more bytes than the limit by which its peak may be higher."""
    monkeypatch.setattr("sparing.log.passes.BATCH_ROWS", block)
    log, peaks = drawn(4 * rows), []
    for many in (rows, 4 * rows):
        source = written(log, tmp_path / f"{many}{ending}", many)
        peaks.append(peak(block, source, *(tmp_path / f"{many}.out{each}" for each in targets)))
    assert peaks[1] - peaks[0] < LIMIT
