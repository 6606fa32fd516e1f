"""Prompts routed to language models, of which the log never tried one: who finds out what it is worth, and for how many calls."""

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from research.paper.experiment import Record
from research.paper.frame import Frame
from research.paper.synthetic import LIVE_STREAM
from research.tables.part import Part, line, table
from sparing.online import algorithms
from sparing.simulation import RoutingWorld, datasets, hidden_model_log
from sparing.simulation.simulate import play

LEARNERS: dict[str, tuple[str, Record]] = {
    "`confident`": ("confident", {}),
    "`economical`, .01 a call": ("economical", {"call_cost": 0.01}),
    "`certified`": ("certified", {}),
    "`certified` × .2": ("certified", {"radius_scale": 0.2}),
    "`warm_started`": ("warm_started", {}),
    "`warm_started` × .2": ("warm_started", {"radius_scale": 0.2}),
}
"""Whom the log is given to; × is radius_scale, else 1."""


@dataclass(frozen=True)
class Setting:
    """What a dollar is worth, in answers; each model in turn is never logged; the cheapest other gets `favoured` of the prompts."""

    seeds: tuple[int, ...] = tuple(range(5))
    weights: tuple[float, ...] = (0.0, 3.0, 8.0, 15.0)
    favoured: float = 0.85


def units(setting: Setting) -> list[Record]:
    """A weight, an untried model and a seed each."""
    places = itertools.product(setting.weights, range(3), setting.seeds)
    return [
        {"weight": weight, "model": model, "seed": seed, "favoured": setting.favoured}
        for weight, model, seed in places
    ]


@functools.cache
def prompts(weight: float) -> RoutingWorld:
    """Prompts and what their answers are worth; made once in a process."""
    return RoutingWorld(datasets.load("llm-routing"), cost_weight=weight, features="prompt_features")


def run(unit: Record) -> Record:
    """Every learner is given the log (`economical` its price too) and nothing else; `behind` is what its last policy lacks on the best model."""
    world, seed = prompts(unit["weight"]), unit["seed"]
    hidden = world.action_names[unit["model"]]
    log = hidden_model_log(world, hidden=hidden, favoured=unit["favoured"], seed=seed)
    stream = world.live_stream(None, np.random.default_rng([seed, LIVE_STREAM]))
    single = world.means[world.live_rows].mean(axis=0)
    rows = []
    for name, (algorithm, settings) in LEARNERS.items():
        ahead = {"horizon": len(stream)} if algorithm == "economical" else {}
        learner = getattr(algorithms, algorithm)(log, seed=seed, **settings, **ahead)
        trace = play(learner, stream)
        final = world.value(learner.policy())
        rows.append(
            {
                "learner": name,
                "hidden": hidden.rpartition("/")[2],
                "best": world.action_names[int(single.argmax())].rpartition("/")[2],
                "calls": int(trace.calls[-1]),
                "earned": float(stream.rewards(trace.actions).mean()),
                "final": final,
                "behind": float(single.max()) - final,
            }
        )
    return {"rows": rows}


def tell(found: Frame) -> Iterator[str]:
    """A row for each place: calls, what a live prompt earned, and what the last policy lacks on the best single model."""
    shown = [name for name in LEARNERS if "warm" not in name]
    yield from table("worth, best", "hidden", *shown)
    for (weight, best, hidden), group in found.by("weight", "best", "hidden").items():
        rows = [group.where(learner=name).rows[0] for name in shown]
        cells = (f"{row['calls']:,.0f} / {row['earned']:.4f} / {row['behind']:+.4f}" for row in rows)
        text = (cell.replace("-", "−").replace(" ", "\u00a0") for cell in cells)
        yield line(f"{weight:g}, {best.partition('-')[0]}", hidden.partition("-")[0], *text)


PART = Part(
    "routing",
    "models.md",
    Setting(seeds=(0,), weights=(8.0,)),
    Setting(),
    units,
    run,
    ("weight", "best", "hidden", "learner"),
    ("calls", "earned", "final", "behind"),
    tell,
)
