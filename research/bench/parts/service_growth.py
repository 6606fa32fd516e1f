"""How the service's work grows with stored decisions and with open calls, and how long a start takes after kill -9."""

import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from research.bench.field import Field
from research.bench.live.serving import OURS
from research.bench.live.yard import Yard, open_yard
from research.bench.measuring import COST, Failure, Measurement, Outcome, ratio, shown
from research.bench.parts.service import ASKING, spec_of
from research.bench.setting import BenchmarkSetting
from research.children import ONE_THREAD, Child, ContenderError

STORED, OPEN, RESTART = "service, stored decisions", "service, open calls", "service, start after kill -9"
ACTIONS, FEATURES, ROWS = 20, 10, 50
WAITING = 1000  # open calls in a store of many decisions
TAIL = 9000  # decisions with rewards since the newest state file
SECOND = "second"
OPEN_TARGET = 1.5
"""The CPU of a reward with the most open calls, in that with the fewest."""

NAMES = {
    "decide": "a decision",
    "reward": "a reward that comes late",
    "sweep": "a sweep for expired calls",
    "retention, nothing due": "a retention round, nothing due",
    "page": "the first page after a start",
    "start": "reading the store at a start, no events since the state file",
}
"""What is measured, and how it is told."""

CLOCK = ", by the clock"


def measure(setting: BenchmarkSetting, arena: Field) -> Outcome:
    """Stores that are filled at once, each measured in a process of its own, one after the other."""
    outcome = Outcome()
    with open_yard() as yard:
        spec = spec_of(setting, ACTIONS, FEATURES, ROWS, "confident", ASKING)
        for part, sizes in ((STORED, setting.service_stored), (OPEN, setting.service_open)):
            for size in sizes:
                arena.say(f"{part}: {size:,}")
                many = (size, WAITING) if part == STORED else (0, size)
                try:
                    found = grown(yard, spec, *many, tail=0, rounds=setting.service_growth_rounds)
                except ContenderError as error:
                    outcome += Outcome(failures=(Failure(part, f"{size:,}", str(error)),))
                    continue
                outcome += Outcome(_measurements(part, size, found))
        outcome += _flat(outcome.measurements, setting.service_open)
        arena.say(
            f"{RESTART}: {setting.service_restart[0]:,} decisions, {setting.service_restart[1]:,} open calls"
        )
        outcome += _restarted(setting, yard, spec)
    return outcome


def grown(
    yard: Yard,
    spec: dict[str, Any],
    decisions: int,
    waiting: int,
    *,
    tail: int,
    rounds: int,
    keep: Path | None = None,
) -> dict[str, list[float]]:
    """Fill a store and measure in it; it is deleted, or kept in a folder."""
    place = keep or yard.folder / "grown"
    shutil.copytree(yard.store(spec), place)
    order = {"folder": str(place), "decisions": decisions, "waiting": waiting}
    order |= {"tail": tail, "rounds": rounds, "seed": spec["seed"]}
    words = [sys.executable, "-P", "-m", "research.bench.live.growing", json.dumps(order)]
    try:
        done = subprocess.run(words, env=_environment(), capture_output=True, text=True, check=False)
    finally:
        if keep is None:
            shutil.rmtree(place)
    if done.returncode:
        raise ContenderError(f"no measurement: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


def _environment() -> dict[str, str]:
    return {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}


def _measurements(part: str, size: int, found: dict[str, list[float]]) -> tuple[Measurement, ...]:
    more = f"{WAITING:,} open calls" if part == STORED else "no other decisions"
    regime = f"confident, {ACTIONS} × {FEATURES}; without HTTP; {more}"
    names = [(name, NAMES[name]) for name in NAMES if name in found]
    return tuple(
        Measurement(part, str(size), told, regime, SECOND, 1, tuple(found[name])) for name, told in names
    )


def _flat(measurements: Sequence[Measurement], sizes: Sequence[int]) -> Outcome:
    """A reward with the most open calls, over one with the fewest."""
    of = {
        size: shown(NAMES["reward"], [m for m in measurements if (m.part, m.size) == (OPEN, str(size))])
        for size in (min(sizes), max(sizes))
    }
    few, many = of[min(sizes)], of[max(sizes)]
    if few is None or many is None:
        return Outcome()
    return Outcome(ratios=(ratio(many, few, of=COST, target=OPEN_TARGET),))


def _restarted(setting: BenchmarkSetting, yard: Yard, spec: dict[str, Any]) -> Outcome:
    """Starts of a service that was killed: seconds by the clock until it is ready, and its CPU seconds."""
    decisions, waiting, tail = setting.service_restart
    place = yard.folder / "killed"
    clock, cpu = list[float](), list[float]()
    try:
        grown(yard, spec, decisions, waiting, tail=tail, rounds=1, keep=place)
        words = [sys.executable, "-P", "-m", "research.bench.live.serving", OURS, str(place)]
        for _ in range(setting.service_growth_rounds + 1):
            began = time.perf_counter()
            child = Child.start("ours", words, _environment())
            clock.append(time.perf_counter() - began)
            cpu.append(child.ask()["cpu_seconds"])
            child.process.kill()
            child.process.wait()
            child.close()
    except ContenderError as error:
        return Outcome(failures=(Failure(RESTART, "ours", str(error)),))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    regime = f"{decisions:,} decisions, {waiting:,} open calls, {2 * tail:,} events since the state file; machine code compiled before"
    return Outcome(
        tuple(
            Measurement(RESTART, f"{decisions}", name, regime, SECOND, 1, tuple(rounds[1:]))
            for name, rounds in (("until it is ready, by the clock", clock), ("CPU until it is ready", cpu))
        )
    )


def exponent(points: Sequence[tuple[int, float]]) -> float:
    """The slope b of time = a·size^b, by least squares of the logarithms; NaN with fewer than two sizes."""
    if len(points) < 2:
        return math.nan
    sizes, times = np.log(np.array(points, dtype=float)).T
    return float(np.polyfit(sizes, times, 1)[0])
