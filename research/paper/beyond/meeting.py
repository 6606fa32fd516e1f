"""One world, one log: all who take part, on the same rounds with the same luck."""

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from research import learners
from research.paper.beyond import vowpal
from research.paper.beyond.setting import Setting, Size
from research.paper.beyond.vowpal import Tuned, Vowpal
from research.paper.experiment import Record
from research.paper.synthetic import LIVE_STREAM, Synthetic
from sparing.log import Log
from sparing.model.supported import given, top
from sparing.online.learner import Learner
from sparing.simulation import ClassificationWorld, LinearWorld, Stream, datasets, draw_log, simulate

HELD_OUT, OUTSIDE = 5, 6
"""Random streams: fresh contexts, an outside learner's own luck."""

COLD = ("moful",)
"""They learn nothing from a log: one run a seed serves every logging policy, since contexts and luck are the same."""

REWARDS = (0.0, 1.0)
"""The least and the greatest reward where actions are classes."""

load = functools.cache(datasets.classification)
"""A data set, read once in a process."""


def units(setting: Setting) -> list[Record]:
    """All pieces of work; Vowpal Wabbit stands in them only where it is installed.

    One for each log of a synthetic world; those who start cold have one of their own for each seed. Then one
    for each data set and seed.
    """
    version = vowpal.installed()
    return [*_worlds(setting, version), *_classes(setting, version)]


def _worlds(setting: Setting, version: str | None) -> Iterator[Record]:
    for size, seed in itertools.product(setting.sizes, setting.seeds):
        wanted = version if size.outside else None
        cold = _outside(setting.tuned.cold, wanted, "cold")
        yield _world(setting, size, seed, "cold", [{"name": name} for name in COLD], cold)
        for support in setting.supports:
            warm = _outside(setting.tuned.warm, wanted, "warm")
            yield _world(setting, size, seed, support, _live(setting), warm)


def _world(
    setting: Setting, size: Size, seed: int, support: str, inside: list[Record], outside: list[Record]
) -> Record:
    return {
        "kind": "world",
        "features": size.features,
        "rows": size.rows,
        "support": support,
        "unsupported": setting.unsupported,
        "rounds": setting.rounds,
        "supported": setting.supported,
        "radius_scale": setting.radius_scale,
        "held_out": setting.held_out,
        "seed": seed,
        "learners": inside,
        "outside": outside,
    }


def _classes(setting: Setting, version: str | None) -> Iterator[Record]:
    for name, seed in itertools.product(setting.data, setting.seeds[: setting.class_seeds]):
        yield {
            "kind": "classes",
            "data": name,
            "unsupported": setting.class_unsupported,
            "rounds": setting.class_rounds,
            "ridge": setting.class_ridge,
            "radius_scale": setting.radius_scale,
            "seed": seed,
            "learners": [
                *({"name": name} for name in ("greedy", "eps_moful_ips", "warm_started")),
                *_tolerant("certified", setting.class_certified),
                *_tolerant("confident", setting.class_confident),
            ],
            "outside": _outside(setting.tuned.classes, version, "warm"),
        }


def _live(setting: Setting) -> list[Record]:
    """All who learn from the log of a synthetic world."""
    scaled = {"radius_scale": setting.radius_scale}
    ips = [f"eps_moful_ips{clip}{known}" for known in ("", "_given") for clip in ("", "_inf")]
    return [
        {"name": "greedy"},
        *({"name": name, **scaled} for name in ("eps_moful", *ips, "warm_started")),
        *_tolerant("certified", setting.certified, **scaled),
        *_tolerant("guaranteed", setting.guaranteed, radius_scale=1.0),
        *_tolerant("confident", setting.confident),
        {"name": "linucb"},
        {"name": "lints"},
    ]


def _tolerant(name: str, tolerances: tuple[float, ...], **more: float) -> Iterator[Record]:
    return ({"name": name, "tolerance": value, **more} for value in tolerances)


def _outside(tuned: tuple[Tuned, ...], version: str | None, start: str) -> list[Record]:
    return [] if version is None else [vowpal.record(one, version, start) for one in tuned]


def run(unit: Record) -> Record:
    """Calls, regret and the final policy's mean loss, for each learner in the unit's order.

    Of a synthetic world the loss is that on fresh contexts; where actions are classes regret is the number of
    wrong live answers, and the loss the held-out error.
    """
    return _run_classes(unit) if unit["kind"] == "classes" else _run_world(unit)


Actions = Callable[[np.ndarray], np.ndarray]
"""A policy as a function from contexts (n, d) to actions (n,)."""


@dataclass(frozen=True, eq=False)
class Meeting:
    """A world, its log and the live rounds that all of a unit meet.

    `live` is what `simulate` is told to play the same rounds; `final` says what a policy loses on contexts that
    no round showed.
    """

    world: LinearWorld | ClassificationWorld
    log: Log
    stream: Stream
    live: Record
    final: Callable[[Actions], float]

    def runs(self, unit: Record, start: Callable[[Record], Learner]) -> list[Record]:
        """All of ours, then Vowpal Wabbit."""
        ours = [self._played(record, start(record)) for record in unit["learners"]]
        return ours + [self._guest(record, unit["seed"]) for record in unit["outside"]]

    def _played(self, record: Record, learner: Learner) -> Record:
        """One of ours; the log alone plays its policy and asks nothing."""
        if record["name"] == "greedy":
            actions = learner.policy().actions(self.stream.contexts)
            calls, regret = 0, lost(self.stream.means, actions).sum()
        else:
            trace = simulate(learner, self.world, **self.live)
            calls, regret = int(trace.calls[-1]), trace.regret[-1]
        return {"calls": calls, "regret": float(regret), "final": self.final(learner.policy().actions)}

    def _guest(self, record: Record, seed: int) -> Record:
        """Vowpal Wabbit on the same rounds."""
        warm = record["name"].endswith("_warm")
        with Vowpal.on(self.log, vowpal.tuned(record), warm=warm) as learner:
            actions = learner.play(self.stream, np.random.default_rng([seed, OUTSIDE]))
            final = self.final(learner.actions)
        regret = float(lost(self.stream.means, actions).sum())
        return {"calls": len(self.stream), "regret": regret, "final": final}


def _run_world(unit: Record) -> Record:
    names = ("features", "rows", "rounds", "unsupported", "supported", "radius_scale", "seed")
    support = "per-context" if unit["support"] == "cold" else unit["support"]
    base = Synthetic(support=support, **{name: unit[name] for name in names})
    world = base.world()
    log = base.log(world)
    fresh = world.contexts(unit["held_out"], np.random.default_rng([unit["seed"], HELD_OUT]))

    def final(actions: Actions) -> float:
        return float(lost(world.means(fresh), actions(fresh)).mean())

    live = {"rounds": base.rounds, "seed": base.seed, "stream": base.stream, "log": log}
    meeting = Meeting(world, log, base.live_stream(world, log), live, final)
    return {"runs": meeting.runs(unit, lambda record: start(record, base, world, log))}


def _run_classes(unit: Record) -> Record:
    seed, rounds = unit["seed"], unit["rounds"]
    world = ClassificationWorld(load(unit["data"]), seed=seed)
    log = draw_log(world, support="never-logged", unsupported=unit["unsupported"], seed=seed)
    rows = world.held_out_rows

    def final(actions: Actions) -> float:
        return float((actions(world.features[rows]) != world.labels[rows]).mean())

    stream = world.live_stream(rounds, np.random.default_rng([seed, LIVE_STREAM]))
    meeting = Meeting(world, log, stream, {"rounds": rounds, "seed": seed}, final)
    runs = meeting.runs(unit, lambda record: _classifier(record, log, unit))
    never = int((log.counts == 0).sum())
    return {"runs": runs, "rounds": rounds or len(world.live_rows), "logged": log.n_rows, "never": never}


def start(record: Record, base: Synthetic, world: LinearWorld, log: Log) -> Learner:
    """A learner as its record says, told the true noise and bounds."""
    name = record["name"]
    points = given(base.known(world, log)) if name.endswith("_given") else top(base.supported)
    return base.start(name, world, log, supported=points, **_told(record))


def _classifier(record: Record, log: Log, unit: Record) -> Learner:
    """A learner as its record says; rewards are 0 or 1, so σ = 1/2, but for `confident`, which fits it."""
    half = min(log.n_actions // 2, int((log.counts > 0).sum()))
    same = {key: unit[key] for key in ("ridge", "radius_scale", "seed")}
    told = same | _told(record)
    return learners.start(record["name"], log, supported=top(half), reward_range=REWARDS, **told)


def _told(record: Record) -> Record:
    """What a learner's record says beside its name."""
    return {key: value for key, value in record.items() if key != "name"}


def lost(means: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """What the best action of each round earns above the one played, (T,)."""
    return means.max(axis=1) - means[np.arange(len(means)), actions]
