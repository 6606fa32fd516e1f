"""A log of twenty million rows is audited, evaluated and learnt from in less memory than it would take."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS, ACTIONS, GROUP = 20_000_000, 200, 2**18
LIMIT = 1_500_000_000
WORTH = np.linspace(0.2, 0.8, ACTIONS)
"""The mean reward of each action, whatever the context."""


def write_log(path):
    """Four numbers k/64, cities and devices; every action has a chance of 1/256 or 1/128 a row; clicks."""
    cities, devices = pa.array([f"city {i}" for i in range(8)]), pa.array(["desktop", "phone", "tablet"])
    writer = None
    for start in range(0, ROWS, GROUP):
        rng, rows = np.random.default_rng([7, start]), min(GROUP, ROWS - start)
        drawn = rng.integers(0, 256, rows)
        action = drawn % ACTIONS
        columns = {f"n{j}": rng.integers(-64, 65, rows) / 64 for j in range(4)}
        columns |= {"city": cities.take(pa.array(rng.integers(0, 8, rows)))}
        columns |= {"device": devices.take(pa.array(rng.integers(0, 3, rows)))}
        columns |= {"action": action, "reward": (rng.random(rows) < WORTH[action]).astype(float)}
        columns |= {"propensity": np.where(action < 256 - ACTIONS, 2 / 256, 1 / 256)}
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited by Linux's RLIMIT_DATA")
def test_twenty_million_rows_in_a_gigabyte_and_a_half(tmp_path):
    path = tmp_path / "log.parquet"
    write_log(path)
    child = Path(__file__).with_name("scan_child.py")
    # Arrow's own pool would reserve a gigabyte at once, and use little of it.
    done = subprocess.run(
        [sys.executable, child, path, str(LIMIT)],
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert (found["rows"], found["counts"], found["actions"], found["features"]) == (ROWS, ROWS, ACTIONS, 16)
    assert found["peak"] < LIMIT
    held = 8 * ROWS * (found["features"] + 3)
    assert held > 1.5 * LIMIT  # what the log itself would take
    # The uniform policy earns the mean of all actions; the deviation of IPS is below sqrt(256/n).
    for low, value, high in found["values"].values():
        assert low < value < high
        assert abs(value - WORTH.mean()) < 5 * np.sqrt(256 / ROWS)
    assert 0.85 * ROWS < found["trained_on"] < 0.95 * ROWS
    assert int(found["decision"]) > 0.9 * ACTIONS
