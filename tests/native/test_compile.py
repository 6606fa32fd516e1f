"""Kernels that only kernels call: compiled without what Python needs, kept, and refused from Python."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
from sparing.native.compile import compiled, compiled_inner

@compiled_inner
def half(x):
    return x / 2

@compiled
def quarter(x):
    return half(half(x))

assert quarter(3.0) == 0.75
try:
    half(3.0)
except TypeError as error:
    assert "only compiled functions call half" in str(error)
else:
    raise SystemExit("a call from Python was not refused")
[found] = quarter.stats.cache_hits.values() or [0]
print(found)
"""


def test_inner_kernels_are_called_by_kernels_alone(tmp_path: Path) -> None:
    script = tmp_path / "kernels.py"
    script.write_text(SCRIPT, encoding="utf-8")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    runs = [
        subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True
        )
        for _ in range(2)
    ]
    # Compiled in the first process, loaded in the second: what Python must not call is out of reach in both.
    assert [run.stdout.strip() for run in runs] == ["0", "1"]
