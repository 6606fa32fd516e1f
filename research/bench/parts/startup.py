"""How long it takes to begin: processes of their own, their CPU time counted by the system."""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from research.bench.field import Field
from research.bench.measuring import COST, Measurement, Outcome, ratio
from research.bench.older import Release, older_title
from research.bench.setting import BenchmarkSetting
from research.children import ONE_THREAD, as_installed

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

LOG = """
import numpy, sparing
rng = numpy.random.default_rng(0)
x, actions = rng.random((2000, 10)), rng.integers(0, 20, 2000)
log = sparing.Log.from_indices(x, actions, rng.normal(size=2000), tuple(range(20)))
"""
ROUND = "\ndecision = learner.decide(x[0])\nassert decision.needs_reward\nlearner.update(decision, 0.5)"
FIRST = {
    f"ours, first compile, {name}": ["-c", f"{LOG}learner = sparing.{name}(log, {settings}){ROUND}"]
    for name, settings in {
        "linucb": "alpha=1.0",
        "certified": "tolerance=-numpy.inf, radius_scale=0.2, noise=2.0, theta_bound=1.0",
        "confident": "tolerance=0.0, confidence=1 - 1e-9, noise=2.0, prior_scale=1.0",
        "economical": "call_cost=1e-6, horizon=10**6, noise=2.0, prior_scale=1.0",
    }.items()
}
"""From nothing to a called round and its update, where nothing was compiled before; only beside an older release."""
COMPARED = ((IMPORT, BARE), (IMPORT, NUMPY), (HELP, NUMPY), (DECISION, NUMBA))


def measure(setting: BenchmarkSetting, arena: Field) -> Outcome:
    """Every command in every round; the first round, which compiles and warms the disk, is not counted."""
    arena.say(f"startup: {len(COMMANDS)} commands, {setting.repeats + 1} rounds")
    runs: dict[str, tuple[list[str], Release | None]] = {
        name: (words, None) for name, words in COMMANDS.items()
    }
    if arena.older is not None:
        runs |= {older_title(name): (COMMANDS[name], arena.older) for name in (IMPORT, HELP, DECISION)}
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(setting.repeats + 1):
        for name, (words, release) in runs.items():
            seconds = _cpu_seconds(words, release)
            if number:
                taken[name].append(seconds)
    compiling = _first_compile(setting, arena.older) if arena.older is not None else ()
    measured = {
        name: Measurement("startup", "", name, REGIMES.get(name, ""), "process", 1, tuple(rounds))
        for name, rounds in taken.items()
    }
    ratios = tuple(ratio(measured[ours], measured[other], of=COST) for ours, other in COMPARED)
    return Outcome((*measured.values(), *compiling), ratios)


def _first_compile(setting: BenchmarkSetting, older: Release) -> tuple[Measurement, ...]:
    """Each learner of each release with an empty cache, in turn."""
    taken: dict[str, list[float]] = {}
    for _ in range(setting.repeats):
        for name, words in FIRST.items():
            for title, release in ((name, None), (older_title(name), older)):
                with tempfile.TemporaryDirectory() as folder:
                    taken.setdefault(title, []).append(_cpu_seconds(words, release, Path(folder)))
    regime = "nothing compiled before; 20 actions, 10 features, 2,000 rows"
    return tuple(
        Measurement("startup", "", title, regime, "process", 1, tuple(rounds))
        for title, rounds in taken.items()
    )


def _cpu_seconds(words: list[str], release: Release | None = None, kernels: Path | None = None) -> float:
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    environment = {**as_installed(release.environment() if release else own), **ONE_THREAD}
    if kernels is not None:
        environment["NUMBA_CACHE_DIR"] = str(kernels)
    python = sys.executable if release is None else str(release.interpreter)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    silent = subprocess.DEVNULL
    subprocess.run([python, "-P", *words], env=environment, check=True, stdout=silent, stderr=silent)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
