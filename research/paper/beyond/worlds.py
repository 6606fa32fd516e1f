"""One synthetic world, one log: all who take part, on the same rounds with the same luck."""

import itertools
from collections.abc import Iterator

import numpy as np

from research.paper.beyond import vowpal
from research.paper.beyond.setting import Setting, Size
from research.paper.beyond.vowpal import Tuned, Vowpal
from research.paper.experiment import Record
from research.paper.synthetic import Synthetic
from sparing.log import Log
from sparing.model.supported import given, top
from sparing.online import algorithms
from sparing.online.learner import Learner
from sparing.simulation import LinearWorld, Stream, simulate

LIVE, HELD_OUT, OUTSIDE = 3, 5, 6
"""Random streams: the one that `simulate` draws rounds from, fresh contexts, an outside learner's own luck."""

COLD = ("moful",)
"""They learn nothing from a log: one run a seed serves every logging policy, since contexts and luck are the same."""


def units(setting: Setting, *, version: str | None) -> Iterator[Record]:
    """A piece of work for each log; those who start cold have one of their own for each seed.

    `version` is Vowpal Wabbit's, None to leave it out.
    """
    for size, seed in itertools.product(setting.sizes, setting.seeds):
        wanted = version if size.outside else None
        cold = _outside(setting.tuned.cold, wanted, "cold")
        yield _unit(setting, size, seed, "cold", [{"name": name} for name in COLD], cold)
        for support in setting.supports:
            warm = _outside(setting.tuned.warm, wanted, "warm")
            yield _unit(setting, size, seed, support, learners(setting), warm)


def learners(setting: Setting) -> list[Record]:
    """All who learn from the log."""
    scaled = {"radius_scale": setting.radius_scale}
    ips = [
        {"name": f"eps_moful_ips{clip}{known}", **scaled}
        for known, clip in itertools.product(("", "_given"), ("", "_inf"))
    ]
    return [
        {"name": "greedy"},
        {"name": "eps_moful", **scaled},
        *ips,
        {"name": "warm_started", **scaled},
        *({"name": "certified", "tolerance": value, **scaled} for value in setting.certified),
        *({"name": "guaranteed", "tolerance": value, "radius_scale": 1.0} for value in setting.guaranteed),
        *({"name": "confident", "tolerance": value} for value in setting.confident),
        {"name": "linucb"},
        {"name": "lints"},
    ]


def _outside(tuned: tuple[Tuned, ...], version: str | None, start: str) -> list[Record]:
    return [] if version is None else [vowpal.record(one, version, start) for one in tuned]


def _unit(
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


def run(unit: Record) -> Record:
    """Calls, regret and the final policy's mean loss on fresh contexts, for each learner in the unit's order."""
    base = _synthetic(unit)
    world = base.world()
    log = base.log(world)
    inside = [_inside(record, base, world, log, unit) for record in unit["learners"]]
    return {"runs": inside + [_played(record, base, world, log, unit) for record in unit["outside"]]}


def _synthetic(unit: Record) -> Synthetic:
    support = "per-context" if unit["support"] == "cold" else unit["support"]
    return Synthetic(
        features=unit["features"],
        rows=unit["rows"],
        rounds=unit["rounds"],
        support=support,
        unsupported=unit["unsupported"],
        supported=unit["supported"],
        radius_scale=unit["radius_scale"],
        seed=unit["seed"],
    )


def rounds(base: Synthetic, world: LinearWorld, log: Log) -> Stream:
    """The rounds that `simulate` plays."""
    return world.live_stream(base.rounds, np.random.default_rng([base.seed, LIVE]), log)


def _inside(record: Record, base: Synthetic, world: LinearWorld, log: Log, unit: Record) -> Record:
    learner = start(record, base, world, log)
    if record["name"] == "greedy":
        stream = rounds(base, world, log)
        calls, regret = 0, _loss(stream.means, learner.policy().actions(stream.contexts)).sum()
    else:
        trace = simulate(learner, world, rounds=base.rounds, seed=base.seed, stream=base.stream, log=log)
        calls, regret = int(trace.calls[-1]), trace.regret[-1]
    fresh = _fresh(world, unit)
    final = _loss(world.means(fresh), learner.policy().actions(fresh)).mean()
    return {"calls": calls, "regret": float(regret), "final": float(final)}


def start(record: Record, base: Synthetic, world: LinearWorld, log: Log) -> Learner:
    """A learner as its record says, told the true noise and bounds."""
    name = record["name"]
    common: algorithms.Settings = {
        "noise": base.noise,
        "theta_bound": float(np.linalg.norm(world.theta, axis=1).max()),
        "context_bound": float(np.sqrt(base.features)),
        "ridge": base.ridge,
        "delta": base.delta,
        "radius": base.radius,
        "radius_scale": record.get("radius_scale", base.radius_scale),
        "seed": base.seed,
    }
    if name.startswith("eps_moful"):
        points = given(base.known(world, log)) if name.endswith("_given") else top(base.supported)
        if name == "eps_moful":
            return algorithms.eps_moful(log, supported=points, **common)
        clip = "inf" if "_inf" in name else "percentile-ratio"
        return algorithms.eps_moful_ips(log, supported=points, clip=clip, **common)
    if name in ("certified", "guaranteed"):
        return algorithms.certified(log, tolerance=record["tolerance"], **common)
    if name == "confident":
        return algorithms.confident(log, tolerance=record["tolerance"], **common)
    others = {"greedy": algorithms.warm_started, "warm_started": algorithms.warm_started}
    others |= {"moful": algorithms.moful, "linucb": algorithms.linucb, "lints": algorithms.lints}
    return others[name](log, **common)


def _played(record: Record, base: Synthetic, world: LinearWorld, log: Log, unit: Record) -> Record:
    """Vowpal Wabbit on the same rounds."""
    warm = record["name"].endswith("_warm")
    stream, fresh = rounds(base, world, log), _fresh(world, unit)
    with Vowpal.on(log, vowpal.tuned(record), warm=warm) as learner:
        actions = learner.play(stream, np.random.default_rng([base.seed, OUTSIDE]))
        final = _loss(world.means(fresh), learner.actions(fresh)).mean()
    return {"calls": len(stream), "regret": float(_loss(stream.means, actions).sum()), "final": float(final)}


def _fresh(world: LinearWorld, unit: Record) -> np.ndarray:
    return world.contexts(unit["held_out"], np.random.default_rng([unit["seed"], HELD_OUT]))


def _loss(means: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return means.max(axis=1) - means[np.arange(len(means)), actions]
