"""One data set, some of whose classes the log never tried: all who take part, on the same fresh rounds."""

import functools
import itertools
from collections.abc import Iterator

import numpy as np

from research.paper.beyond import vowpal
from research.paper.beyond.setting import Setting
from research.paper.beyond.vowpal import Vowpal
from research.paper.beyond.worlds import LIVE, OUTSIDE
from research.paper.experiment import Record
from sparing.log import Log
from sparing.model.supported import top
from sparing.online import algorithms
from sparing.online.learner import Learner
from sparing.simulation import ClassificationWorld, draw_log, simulate
from sparing.simulation.datasets import Dataset, load

REWARDS = (0.0, 1.0)


def units(setting: Setting, *, version: str | None) -> Iterator[Record]:
    """A piece of work for each data set and seed; `version` is Vowpal Wabbit's, None to leave it out."""
    tuned = setting.tuned.classes if version is not None else ()
    others = [vowpal.record(one, str(version), "warm") for one in tuned]
    for name, seed in itertools.product(setting.data, setting.seeds[: setting.class_seeds]):
        yield {
            "kind": "classes",
            "data": name,
            "unsupported": setting.class_unsupported,
            "rounds": setting.class_rounds,
            "ridge": setting.class_ridge,
            "radius_scale": setting.radius_scale,
            "seed": seed,
            "learners": learners(setting),
            "outside": others,
        }


def learners(setting: Setting) -> list[Record]:
    """All who learn from the log."""
    return [
        {"name": "greedy"},
        {"name": "eps_moful_ips"},
        {"name": "warm_started"},
        *({"name": "certified", "tolerance": value} for value in setting.class_certified),
        *({"name": "confident", "tolerance": value} for value in setting.class_confident),
    ]


@functools.cache
def _loaded(name: str) -> Dataset:
    return load(name)


def run(unit: Record) -> Record:
    """Calls, wrong live answers and the final policy's held-out error, for each learner in the unit's order."""
    world = ClassificationWorld(_loaded(unit["data"]), seed=unit["seed"])
    log = draw_log(world, support="never-logged", unsupported=unit["unsupported"], seed=unit["seed"])
    runs = [_inside(record, world, log, unit) for record in unit["learners"]]
    runs += [_played(record, world, log, unit) for record in unit["outside"]]
    rounds = unit["rounds"] or len(world.live_rows)
    return {"runs": runs, "rounds": rounds, "logged": log.n_rows, "never": int((log.counts == 0).sum())}


def _inside(record: Record, world: ClassificationWorld, log: Log, unit: Record) -> Record:
    learner = start(record, log, unit)
    if record["name"] == "greedy":
        stream = world.live_stream(unit["rounds"], np.random.default_rng([unit["seed"], LIVE]))
        wrong = learner.policy().actions(stream.contexts) != stream.means.argmax(axis=1)
        calls, regret = 0, float(wrong.sum())
    else:
        trace = simulate(learner, world, rounds=unit["rounds"], seed=unit["seed"])
        calls, regret = int(trace.calls[-1]), float(trace.regret[-1])
    return {"calls": calls, "regret": regret, "final": world.error(learner.policy())}


def start(record: Record, log: Log, unit: Record) -> Learner:
    """A learner as its record says; rewards are 0 or 1, so σ = 1/2, but for `confident`, which fits it."""
    common: algorithms.Settings = {
        "ridge": unit["ridge"],
        "radius_scale": unit["radius_scale"],
        "reward_range": REWARDS,
        "seed": unit["seed"],
    }
    name = record["name"]
    if name == "eps_moful_ips":
        half = min(log.n_actions // 2, int((log.counts > 0).sum()))
        return algorithms.eps_moful_ips(log, supported=top(half), **common)
    if name == "certified":
        return algorithms.certified(log, tolerance=record["tolerance"], **common)
    if name == "confident":
        return algorithms.confident(log, tolerance=record["tolerance"], **common)
    return algorithms.warm_started(log, **common)


def _played(record: Record, world: ClassificationWorld, log: Log, unit: Record) -> Record:
    """Vowpal Wabbit on the same rounds."""
    stream = world.live_stream(unit["rounds"], np.random.default_rng([unit["seed"], LIVE]))
    rows = world.held_out_rows
    with Vowpal.on(log, vowpal.tuned(record), warm=True) as learner:
        actions = learner.play(stream, np.random.default_rng([unit["seed"], OUTSIDE]))
        final = (learner.actions(world.features[rows]) != world.labels[rows]).mean()
    wrong = (actions != stream.means.argmax(axis=1)).sum()
    return {"calls": len(stream), "regret": float(wrong), "final": float(final)}
