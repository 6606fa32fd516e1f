"""Put each fault of `faults.py` into a copy of the source, run the tests of learners on it, and tell which survive.

The engine runs as plain Python (`interpreted.py`): nothing has to be compiled for a fault.

python tests/mutants                 all of them (about a minute each on one core), two at a time
python tests/mutants wider log-beats only those whose name has one of these words
"""

import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HOUSE = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from faults import FAULTS, KILLERS, Fault  # noqa: E402

AT_ONCE = 2
QUICK = "not million and not thousand and not large and not memory and not 40-6 and not certificates and not no_compile and not own_worlds and not budget_finds and not rollout"
"""Tests that end in reasonable time where the engine is interpreted."""


def changed(fault: Fault, source: Path) -> None:
    """Write the fault into a copy of the source; what it replaces must stand there exactly once."""
    path = source / "sparing" / "online" / fault.file
    text = path.read_text(encoding="utf-8")
    if text.count(fault.right) != 1:
        raise SystemExit(
            f"{fault.name}: {fault.right!r} stands {text.count(fault.right)} times in {fault.file}"
        )
    path.write_text(text.replace(fault.right, fault.wrong), encoding="utf-8")


def killer(fault: Fault | None, first: tuple[str, ...], place: Path) -> str:
    """The first test that fails on the fault, those named first; nothing if it survives. Without a fault, all must pass."""
    source = place / "src"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(HOUSE / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    if fault is not None:
        changed(fault, source)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(source), str(HOUSE), str(Path(__file__).parent)]),
        "NUMBA_CACHE_DIR": str(place / "kernels"),
        "SPARING_STEPS": "1500",
    }
    tests = [str(HOUSE / "tests" / name) for name in (*first, *KILLERS)]
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "interpreted", "-W", "ignore", "-k", QUICK]
    command = [sys.executable, "-m", "pytest", *options, *dict.fromkeys(tests)]
    done = subprocess.run(command, cwd=HOUSE, env=environment, capture_output=True, text=True, check=False)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0] if failed else ("crashed" if done.returncode not in (0, 1) else "")


def main(words: list[str]) -> int:
    """Try the faults chosen, and print a row for each as it comes."""
    chosen = [fault for fault in FAULTS if not words or any(word in fault.name for word in words)]

    places: queue.SimpleQueue[Path] = queue.SimpleQueue()

    def tried(fault: Fault) -> tuple[Fault, str, float]:
        began, place = time.monotonic(), places.get()
        try:
            return fault, killer(fault, fault.first, place), time.monotonic() - began
        finally:
            places.put(place)

    survived = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        for number in range(AT_ONCE):
            places.put(Path(folder) / str(number))
        every = tuple(name for fault in chosen for name in fault.first)
        if broken := killer(None, every, Path(folder) / "whole"):
            raise SystemExit(f"without any fault: {broken}")
        for fault, found, seconds in pool.map(tried, chosen):
            if not found and not fault.equivalent:
                survived.append(fault.name)
            told = found or (f"equivalent: {fault.equivalent}" if fault.equivalent else "SURVIVED")
            print(f"{fault.name:44s} {seconds:5.0f} s  {told}", flush=True)
    print(f"{len(chosen)} faults, {len(survived)} survived{': ' if survived else ''}{', '.join(survived)}")
    return bool(survived)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
