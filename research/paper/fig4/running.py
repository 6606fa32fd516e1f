"""One data set, one log: every algorithm classifies live, and its final policy is scored on held-out rows."""

from functools import cache
from typing import Any

import numpy as np

from research.paper.experiment import Record
from research.paper.lineup import IPS
from sparing.learning import learn
from sparing.log import Log
from sparing.model.supported import top
from sparing.online import algorithms
from sparing.online.learner import Learner
from sparing.policies.policy import Policy
from sparing.simulation import ClassificationWorld, datasets, draw_log, logging_policy, simulate

load = cache(datasets.load)
"""A data set, read once in a process."""


def run(unit: Record) -> Record:
    """Errors live and on held-out rows, calls and regret of every algorithm on every stream."""
    world = ClassificationWorld(load(unit["dataset"]), noisy=unit["noisy"], seed=unit["seed"])
    log = draw_log(world, rows=unit["rows"], unsupported=unit["unsupported"], seed=unit["seed"])
    outcomes = []
    for method in unit["offline"]:
        policy = _offline(method, world, log, unit)
        outcomes += [_scored(method, policy, world, stream) for stream in unit["streams"]]
    for stream in unit["streams"]:
        for scale in unit["radius_scales"]:
            outcomes += _scaled(world, log, unit, stream, scale)
        outcomes += [_live(name, world, log, unit, stream) for name in unit["scale_free"]]
    return {"outcomes": outcomes, "log_rows": log.n_rows, "features": world.n_features}


def error(policy: Policy, world: ClassificationWorld, rows: np.ndarray) -> float:
    """The chance that a policy gets one of these rows wrong, 1 − mean π(c|x)."""
    table = policy.probabilities(world.features[rows])
    return float(1 - table[np.arange(len(rows)), world.labels[rows]].mean())


def _offline(method: str, world: ClassificationWorld, log: Log, unit: Record) -> Policy:
    """A policy from the log alone; OPR is told U(x) of the contexts it is scored on, too."""
    options: dict[str, Any] = {}
    if method != "greedy":
        options["support"] = logging_policy(
            "per-context", world, unsupported=unit["unsupported"], seed=unit["seed"]
        )
    if method == "opr":
        options |= {"l2": np.array(unit["opr_l2"]) * log.rewards.std(), "folds": unit["opr_folds"]}
    return learn(log, method, seed=unit["seed"], **options)


def _scored(method: str, policy: Policy, world: ClassificationWorld, stream: str) -> Record:
    """A policy's errors on the rows that a stream draws from, and on held-out rows."""
    rows = world.log_rows if stream == "in-log" else world.live_rows
    return {
        "algorithm": method,
        "stream": stream,
        "live": error(policy, world, rows),
        "held_out": error(policy, world, world.held_out_rows),
        "calls": 0,
        "regret": 0.0,
    }


def _scaled(world: ClassificationWorld, log: Log, unit: Record, stream: str, scale: float) -> list[Record]:
    """The algorithms that have a radius."""
    found: dict[str, Record] = {}
    for name in unit["scaled"]:
        if name in IPS and stream == "fresh":
            # None of these contexts is in the log, so `log-beats` never fires: it is ε-mOFUL, step for step.
            found[name] = found["eps_moful"] | {"algorithm": name}
        else:
            found[name] = _live(name, world, log, unit, stream, scale) | {"scale": scale}
    return list(found.values())


def _live(
    name: str, world: ClassificationWorld, log: Log, unit: Record, stream: str, scale: float = 1.0
) -> Record:
    learner = start(name, log, unit, scale)
    trace = simulate(learner, world, rounds=unit["rounds"], seed=unit["seed"], stream=stream, log=log)
    return {
        "algorithm": name,
        "stream": stream,
        "live": float((trace.losses > 0).mean()),
        "held_out": error(learner.policy(), world, world.held_out_rows),
        "calls": learner.calls,
        "regret": float(trace.losses.sum()),
    }


def start(name: str, log: Log, unit: Record, scale: float) -> Learner:
    """One of the algorithms at its beginning."""
    common: algorithms.Settings = {
        "noise": unit["noise"],
        "context_bound": 1.0,
        "ridge": unit["ridge"],
        "delta": unit["delta"],
        "radius": unit["radius"],
        "radius_scale": scale,
        "seed": unit["seed"],
    }
    half = top(log.n_actions // 2)
    if name == "eps_moful":
        return algorithms.eps_moful(log, supported=half, **common)
    if name in IPS:
        clip = "percentile-ratio" if name == "eps_moful_ips" else np.inf
        return algorithms.eps_moful_ips(log, supported=half, clip=clip, **common)
    if name == "certified":
        return algorithms.certified(log, tolerance=unit["tolerance"], **common)
    if name == "confident":
        return algorithms.confident(log, tolerance=unit["tolerance"], **common)
    return algorithms.moful(log, **common) if name == "moful" else algorithms.warm_started(log, **common)
