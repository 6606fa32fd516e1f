"""Classes as actions, of which some were never logged: bad skips, calls and the final error, with kernel features and without."""

import functools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from research.paper.experiment import Record
from research.paper.frame import Frame
from research.paper.synthetic import LIVE_STREAM
from research.tables.part import Part, give, line, table
from sparing.errors import UnitWarning
from sparing.online.algorithms import confident
from sparing.online.learner import Learner
from sparing.simulation import ClassificationWorld, Stream, datasets, draw_log
from sparing.simulation.simulate import Trace, play

LINEAR, KERNEL, BOLD_LINEAR, BOLD = (
    "linear",
    'kernel="auto"',
    "linear, confidence=.8",
    'kernel="auto", confidence=.8',
)
LEARNERS: dict[str, Record] = {
    LINEAR: {},
    BOLD_LINEAR: {"confidence": 0.8},
    KERNEL: {"kernel": "auto"},
    BOLD: {"kernel": "auto", "confidence": 0.8},
}
"""How `confident` is asked for; the first is what the others are compared with."""

SHOWN = {LINEAR: "linear", BOLD_LINEAR: "linear, .8", KERNEL: "`auto`", BOLD: "`auto`, .8"}
"""How they stand in the table."""

STOPS = 100
"""How often a run is stopped to score what it has learnt."""


@dataclass(frozen=True)
class Setting:
    """Data sets, tolerances (None: the default) and the share of classes that are never logged."""

    seeds: tuple[int, ...] = tuple(range(10))
    data: tuple[str, ...] = ("letter", "pendigits", "satimage")
    tolerances: tuple[float | None, ...] = (None, 0.1)
    never: float = 0.3


def units(setting: Setting) -> list[Record]:
    """A data set, a tolerance and a seed each."""
    return [
        {"data": data, "tolerance": tolerance, "seed": seed, "never": setting.never}
        for data in setting.data
        for tolerance in setting.tolerances
        for seed in setting.seeds
    ]


@functools.cache
def load(name: str) -> datasets.Dataset:
    """A data set, read once in a process."""
    return datasets.load(name)


def run(unit: Record) -> Record:
    """Every learner on the same log and the same rounds; `needed` are calls until it errs no more than the linear one in the end."""
    seed = unit["seed"]
    world = ClassificationWorld(load(unit["data"]), seed=seed)
    log = draw_log(world, support="never-logged", unsupported=unit["never"], seed=seed)
    stream = world.live_stream(None, np.random.default_rng([seed, LIVE_STREAM]))
    rows: list[Record] = []
    for name, settings in LEARNERS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnitWarning)
            learner = confident(log, tolerance=unit["tolerance"], seed=seed, **settings)
        rows.append({"learner": name, **_played(learner, world, stream, rows)})
    return {"rows": rows}


def _played(learner: Learner, world: ClassificationWorld, stream: Stream, before: list[Record]) -> Record:
    kernel = learner.encoder.kernel
    traces: list[Trace] = []
    calls, errors = [0], [world.error(learner.policy())]
    for trace in _pieces(learner, stream):
        traces.append(trace)
        calls.append(calls[-1] + int(trace.needs_reward.sum()))
        errors.append(world.error(learner.policy()))
    skipped = np.concatenate([trace.skipped_losses for trace in traces])
    target = before[0]["error"] if before else errors[-1]
    monitor: Any = learner.monitor
    return {
        "calls": calls[-1],
        "bad": float((skipped > 0.5).mean()),  # a wrong class costs 1
        "error": errors[-1],
        "needed": needed(calls, errors, target),
        "share": None if not before else calls[-1] / before[0]["calls"],
        "inflation": monitor.inflation,
        "landmarks": 0 if kernel is None else len(kernel.landmarks),
    }


def _pieces(learner: Learner, stream: Stream) -> Iterator[Trace]:
    """A run, stopped now and then."""
    start, calls = 0, max(1, len(stream) // STOPS)
    while start < len(stream):
        assert stream.context_ids is not None
        left = Stream(
            stream.contexts[start:], stream.means[start:], stream.draws[start:], stream.context_ids[start:]
        )
        trace = play(learner, left, call_budget=calls)
        start += len(trace)
        yield trace


def needed(calls: list[int], errors: list[float], target: float) -> int | None:
    """From how many calls on no error is above the target; None where the last one is."""
    above = [place for place, error in enumerate(errors) if error > target]
    if not above:
        return 0
    return calls[above[-1] + 1] if above[-1] + 1 < len(calls) else None


def tell(found: Frame) -> Iterator[str]:
    """A table for each tolerance."""
    heads = ("data", "learner", "bad skips", "calls", "final error", "calls needed")
    for (tolerance,), group in found.by("tolerance").items():
        yield "The default tolerance:" if tolerance is None else f"A tolerance of {tolerance:g}:"
        yield ""
        yield from table(*heads)
        for row in group:
            name, first = row["learner"], row["learner"] == LINEAR
            yield line(
                row["data"] if first else "",
                SHOWN[name],
                give(row, "bad", 1, percent=True),
                give(row, "calls"),
                give(row, "error", 3),
                "" if first else _needed(row),
            )
        yield ""


def _needed(row: Record) -> str:
    """How many calls, and of how many runs that is said where some never get there."""
    if not row["needed_of"]:
        return "never"
    few = "" if row["needed_of"] == row["runs"] else f" ({row['needed_of']} of {row['runs']})"
    return give(row, "needed") + few


PART = Part(
    "classes",
    "models.md",
    Setting(seeds=(0,), data=("vowel",), tolerances=(0.1,)),
    Setting(),
    units,
    run,
    ("tolerance", "data", "learner"),
    ("bad", "calls", "error", "needed", "share", "inflation", "landmarks"),
    tell,
)
