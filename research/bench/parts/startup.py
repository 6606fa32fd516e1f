"""How long it takes to begin: processes of their own, their CPU time counted by the system."""

import os
import resource
import subprocess
import sys

from research.bench.field import Field
from research.bench.measuring import COST, Measurement, Outcome, ratio
from research.bench.setting import BenchmarkSetting
from research.children import ONE_THREAD

BARE, NUMPY, NUMBA = "python", "import numpy", "import numba"
IMPORT, HELP, DECISION = "ours, import", "ours, --help", "ours, first decision"

COMMANDS = {
    BARE: ["-c", "pass"],
    NUMPY: ["-c", "import numpy"],
    NUMBA: ["-c", "import numba"],
    IMPORT: ["-c", "import sparing"],
    HELP: ["-m", "sparing", "--help"],
    DECISION: ["-c", "import sparing; sparing.linucb(n_actions=20, n_features=10).decide([0.5] * 10)"],
}
REGIMES = {DECISION: "kernels compiled before and kept"}
COMPARED = ((IMPORT, BARE), (IMPORT, NUMPY), (HELP, NUMPY), (DECISION, NUMBA))


def measure(setting: BenchmarkSetting, arena: Field) -> Outcome:
    """Every command in every round; the first round, which compiles and warms the disk, is not counted."""
    arena.say(f"startup: {len(COMMANDS)} commands, {setting.repeats + 1} rounds")
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for number in range(setting.repeats + 1):
        for name, words in COMMANDS.items():
            seconds = _cpu_seconds(words)
            if number:
                taken[name].append(seconds)
    measured = {
        name: Measurement("startup", "", name, REGIMES.get(name, ""), "process", 1, tuple(rounds))
        for name, rounds in taken.items()
    }
    ratios = tuple(ratio(measured[ours], measured[other], of=COST) for ours, other in COMPARED)
    return Outcome(tuple(measured.values()), ratios)


def _cpu_seconds(words: list[str]) -> float:
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-P", *words], env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
