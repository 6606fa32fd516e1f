"""A small experiment that stands in for the paper's, so that running and writing can be tested alone.

Environment variables reach the other processes too: $PRETENDED_DONE is a folder in which each run leaves a file,
$PRETENDED_STOP the seed at which a run is interrupted, $PRETENDED_MISSING the seed at which data are missing,
$PRETENDED_SECONDS how long a run takes.
"""

import os
import sys
import time
import types
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from research.paper import intervals
from research.paper.experiment import HOLDS, Analysis, Experiment, Verdict
from research.paper.report.plate import panel, plate
from sparing.errors import DataError


@dataclass(frozen=True)
class Setting:
    """Seeds, and a scale that distinguishes one setting from another."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4, 5)
    scale: float = 1.0
    steps: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0)
    words: tuple[str, ...] = ("a", "b", "c", "d")


def units(setting):
    return [{"seed": seed, "scale": setting.scale} for seed in setting.seeds]


def run(unit):
    """A number that takes all 17 digits to write."""
    time.sleep(float(os.environ.get("PRETENDED_SECONDS", "0")))
    if str(unit["seed"]) == os.environ.get("PRETENDED_STOP"):
        raise KeyboardInterrupt
    if str(unit["seed"]) == os.environ.get("PRETENDED_MISSING"):
        raise DataError("the data set nowhere could not be had")
    if done := os.environ.get("PRETENDED_DONE"):
        number = len(list(Path(done).glob(f"{unit['seed']}-*")))
        Path(done, f"{unit['seed']}-{number}-{os.getpid()}").touch()
    value = np.random.default_rng(unit["seed"]).standard_normal() * unit["scale"]
    return {"value": float(value), "pair": (1, 2), "lost": float("nan"), "endless": float("inf")}


def analyse(setting, results):
    values = [result["value"] for _, result in results]
    found = intervals.mean(values)
    verdict = Verdict("C1", "Fig. 1", "values are small", found.text(), HOLDS, "at every | scale")
    return Analysis(
        numbers={"mean": found.to_dict(), "endless": results[0][1]["endless"], "lost": float("nan")},
        tables={"values": {"seed": list(setting.seeds), "value": values}},
        verdicts=(verdict,),
    )


def draw(setting, analysis):
    axes = panel("Values", across="seed", up="value")
    axes.plot(analysis.tables["values"]["seed"], analysis.tables["values"]["value"], label="drawn")
    regime = f"values at scale {setting.scale:g}"
    return {"values": plate("Values", [axes], see="They are small.", regime=regime)}


def experiment(name="fig1"):
    return Experiment(
        name=name,
        title="a small one",
        quick=Setting(seeds=(0, 1, 2)),
        full=Setting(),
        units=units,
        run=run,
        analyse=analyse,
    )


def install(put=sys.modules.__setitem__, names=("fig1", "fig2")):
    """Let it stand in for these experiments and for the drawing of their figures."""
    for name in names:
        for room, thing in (
            ("paper", {"EXPERIMENT": experiment(name)}),
            ("paper.report", {"draw": draw}),
        ):
            module = types.ModuleType(f"research.{room}.{name}")
            vars(module).update(thing)
            put(module.__name__, module)
