"""Play every learner in every place and on every seed; sum up, paired by seed."""

import functools
import itertools
import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from research.front.setting import ALONE, OURS, WARM, Setting
from research.paper import intervals
from research.paper.experiment import Record
from research.paper.running import libraries
from research.paper.synthetic import LIVE_STREAM
from sparing.engines import Progress
from sparing.errors import UnitWarning
from sparing.log import Log
from sparing.online import algorithms
from sparing.online.learner import Learner
from sparing.simulation import RoutingWorld, Stream, datasets, hidden_model_log
from sparing.simulation.parallel import run_many
from sparing.simulation.simulate import play

DIGITS = 10
"""Decimals of a mean reward that are kept."""


@functools.cache
def prompts(weight: float) -> RoutingWorld:
    """Prompts and what their answers are worth, a dollar being worth `weight`; made once in a process."""
    return RoutingWorld(datasets.load("llm-routing"), cost_weight=weight)


def units(setting: Setting) -> list[Record]:
    """The pieces of work: a weight, an untried model and a seed each."""
    common = {"favoured": setting.favoured, "learners": setting.learners}
    places = itertools.product(setting.weights, range(3), setting.seeds)
    return [{"weight": weight, "untried": model, "seed": seed, **common} for weight, model, seed in places]


def run(unit: Record) -> Record:
    """Calls, and the mean reward of a live prompt, of each learner; all have the same log and the same prompts."""
    world, seed = prompts(unit["weight"]), unit["seed"]
    untried = world.action_names[unit["untried"]]
    log = hidden_model_log(world, hidden=untried, favoured=unit["favoured"], seed=seed)
    stream = world.live_stream(None, np.random.default_rng([seed, LIVE_STREAM]))
    return {name: _played(name, how, log, stream, seed) for name, how in unit["learners"].items()}


def _played(name: str, how: Record, log: Log, stream: Stream, seed: int) -> Record:
    learner = started(how, log, len(stream), seed)
    if name == ALONE:
        calls, actions = 0, learner.policy().indices(stream.contexts)
    else:
        trace = play(learner, stream)
        calls, actions = int(trace.needs_reward.sum()), trace.actions
    return {"calls": calls, "reward": round(float(stream.rewards(actions).mean()), DIGITS)}


def started(how: Record, log: Log, rounds: int, seed: int) -> Learner:
    """A learner as its record says; `economical` has the number of rounds, a cold one has only the log's sizes."""
    settings = {key: value for key, value in how.items() if key not in ("algorithm", "cold")} | {"seed": seed}
    if how["algorithm"] == "economical":
        settings["horizon"] = rounds
    make = getattr(algorithms, how["algorithm"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnitWarning)
        if how.get("cold"):
            return make(actions=log.action_names, n_features=log.n_features, **settings)
        return make(log, **settings)


def numbers(setting: Setting, *, workers: int | None = None, progress: Progress | None = None) -> Record:
    """All that the picture and the texts beside it say, as plain values."""
    todo = units(setting)
    results = run_many(run, todo, workers=workers, progress=progress)
    world = prompts(setting.shown)
    found = {
        "what": "Prompts routed to three language models of which the log never tried one: judged answers paid for, and what "
        "they earned.",
        "command": "python -m research front",
        "libraries": libraries(),
        "setting": asdict(setting),
        "models": list(world.action_names),
        "logged": len(world.log_rows),
        "rounds": len(world.live_rows),
        "places": list(_places(setting, todo, results, world)),
    }
    return dict(json.loads(json.dumps(found)))


def _places(
    setting: Setting, todo: list[Record], results: list[Record], world: RoutingWorld
) -> Iterator[Record]:
    for weight, model in itertools.product(setting.weights, range(3)):
        here = [
            result
            for unit, result in zip(todo, results, strict=True)
            if (unit["weight"], unit["untried"]) == (weight, model)
        ]
        runs = {
            name: {key: [result[name][key] for result in here] for key in ("calls", "reward")}
            for name in setting.learners
        }
        place = {"weight": weight, "untried": world.action_names[model]}
        yield place | summary(runs, setting.call_cost, len(world.live_rows)) | {"runs": runs}


def summary(runs: Record, call_cost: float, rounds: int) -> Record:
    """Means over seeds with 95 % intervals; and `economical` less the log alone and less asking always, paired by seed.

    net is the mean reward less what the reward calls cost, a round.
    """
    columns = {name: _columns(values, call_cost, rounds) for name, values in runs.items()}
    means = {
        name: {key: intervals.mean(values).to_dict() for key, values in found.items()}
        for name, found in columns.items()
    }
    less = {
        name: {
            key: intervals.difference(columns[OURS][key], columns[name][key]).to_dict()
            for key in ("reward", "net")
        }
        for name in (ALONE, WARM)
    }
    return {"means": means, "economical less": less}


def _columns(values: Record, call_cost: float, rounds: int) -> dict[str, np.ndarray]:
    calls, reward = np.array(values["calls"], dtype=float), np.array(values["reward"])
    return {"calls": calls, "reward": reward, "net": reward - call_cost * calls / rounds}


def shown(found: Record) -> list[Record]:
    """The places of the picture, cheapest model untried first."""
    return [place for place in found["places"] if place["weight"] == found["setting"]["shown"]]


def short(place: Record) -> str:
    """The untried model's everyday name."""
    return {"meta-llama": "Llama", "mistralai": "Mistral", "google": "Gemini"}[
        place["untried"].partition("/")[0]
    ]


def text(found: Any, depth: int = 0) -> str:
    """JSON whose lists of numbers, and records of nothing but numbers, stand on a line each."""
    pad = " " * (depth + 1)
    if isinstance(found, dict) and any(isinstance(value, dict | list) for value in found.values()):
        lines = (f"{pad}{json.dumps(key)}: {text(value, depth + 1)}" for key, value in found.items())
        return "{\n" + ",\n".join(lines) + f"\n{' ' * depth}}}"
    if isinstance(found, list) and any(isinstance(value, dict | list) for value in found):
        return "[\n" + ",\n".join(pad + text(value, depth + 1) for value in found) + f"\n{' ' * depth}]"
    return json.dumps(found, ensure_ascii=False)
