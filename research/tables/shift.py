"""What `shift="auto"` costs where nothing changes, and what it saves where rewards changed between the log and the first live round."""

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from research.paper.experiment import Record
from research.paper.frame import Frame
from research.paper.synthetic import LIVE_STREAM
from research.tables.part import Part, give, line, table
from sparing.log import Log
from sparing.online import algorithms
from sparing.simulation import (
    ChangingWorld,
    LinearWorld,
    RoutingWorld,
    Stream,
    datasets,
    draw_log,
    hidden_model_log,
)
from sparing.simulation.simulate import play

STILL, CUT = "nothing changes", "the best loses half of its quality"
SWAP, SWAP_NEW = "the logged ones trade quality", "the best and the new one trade quality"
LEVELS = "levels move by one deviation"
"""What happens after the log: nothing; the best logged model loses half of its quality, or trades it with the other logged
model, or with the one that was never logged; every action's level moves by N(0, 1)."""

ROUTED = {"llama": 0, "mistral": 1, "gemini": 2}
"""Prompts routed to models, by the one that was never logged."""

SIMULATED = {
    "a policy for each context": "per-context",
    "an action never logged": "never-logged",
    "a policy by region": "region",
    "a sharpened policy": "sharpened",
}
"""Simulated worlds, by the logging policy."""

MOVED = 9
"""Number of the random stream of what changes."""


@dataclass(frozen=True)
class Setting:
    """Prompts: what a dollar is worth, in answers, and the price of a call. Simulated worlds: their sizes and the price."""

    seeds: tuple[int, ...] = tuple(range(700, 720))
    places: tuple[str, ...] = (*ROUTED, *SIMULATED)
    dollar: float = 3.0
    price: float = 0.01
    n_actions: int = 10
    n_features: int = 5
    noise: float = 1.0
    logged: int = 2000
    rounds: int = 3000
    simulated_price: float = 0.05


def units(setting: Setting) -> list[Record]:
    """A place, a change and a seed each."""
    rest = {name: value for name, value in vars(setting).items() if name not in ("seeds", "places")}
    return [
        {"place": place, "change": change, "seed": seed, **rest}
        for place, seed in itertools.product(setting.places, setting.seeds)
        for change in ((STILL, CUT, SWAP, SWAP_NEW) if place in ROUTED else (STILL, LEVELS))
    ]


@functools.cache
def prompts(dollar: float) -> tuple[datasets.Routing, RoutingWorld]:
    """Prompts and what their answers are worth; made once in a process."""
    routing = datasets.load("llm-routing")
    return routing, RoutingWorld(routing, cost_weight=dollar, features="prompt_features")


def routed(unit: Record) -> tuple[Log, Stream, float]:
    """A log, live prompts after the change, and what the best single model earns on them."""
    routing, world = prompts(unit["dollar"])
    new, seed = ROUTED[unit["place"]], unit["seed"]
    log = hidden_model_log(world, hidden=world.action_names[new], seed=seed)
    stream = world.live_stream(None, np.random.default_rng([seed, LIVE_STREAM]))
    worth = world.means[world.log_rows].mean(axis=0)
    best, other = sorted((a for a in range(3) if a != new), key=lambda a: -worth[a])
    rows = stream.context_ids
    quality = routing.quality[rows].copy()
    if unit["change"] == CUT:
        quality[:, best] /= 2
    elif unit["change"] != STILL:
        pair = [best, other if unit["change"] == SWAP else new]
        quality[:, pair] = quality[:, pair[::-1]]
    means = quality - unit["dollar"] * routing.cost[rows]
    return log, replace(stream, means=means), float(means.mean(axis=0).max()) * len(stream)


def simulated(unit: Record) -> tuple[Log, Stream, float]:
    """A log, live rounds after the change, and what the best actions earn in them."""
    seed, shape = unit["seed"], (unit["n_actions"], unit["n_features"])
    theta = np.random.default_rng(seed).standard_normal(shape)
    world = LinearWorld(theta=theta, noise=unit["noise"], offset=1e-9)  # the last feature is 1
    log = draw_log(world, rows=unit["logged"], support=SIMULATED[unit["place"]], seed=seed)
    moved = theta.copy()
    if unit["change"] == LEVELS:
        moved[:, -1] += np.random.default_rng([seed, MOVED]).standard_normal(shape[0])
    live = ChangingWorld([world, LinearWorld(theta=moved)], [0])
    stream = live.live_stream(unit["rounds"], np.random.default_rng([seed, LIVE_STREAM]))
    return log, stream, float(stream.means.max(axis=1).sum())


def run(unit: Record) -> Record:
    """`economical` with and without `shift`; `more` is its calls and its regret less those of the run without."""
    here = unit["place"] in ROUTED
    log, stream, best = routed(unit) if here else simulated(unit)
    rows: list[Record] = []
    for shift in (None, "auto"):
        learner = algorithms.economical(
            log,
            call_cost=unit["price"] if here else unit["simulated_price"],
            horizon=len(stream),
            shift=shift,
            seed=unit["seed"],
        )
        trace = play(learner, stream)
        earned = stream.means[np.arange(len(stream)), trace.actions].sum()
        row: Record = {
            "shift": shift or "none",
            "calls": int(trace.needs_reward.sum()),
            "regret": best - float(earned),
        }
        first = rows[0] if rows else row
        row["more_calls"], row["more_regret"] = (row[name] - first[name] for name in ("calls", "regret"))
        found = learner.shift is not None and learner.shift.size > 0
        rows.append(row | {"found": float(found)})
    return {"rows": rows}


def tell(found: Frame) -> Iterator[str]:
    """A row for each place and change: calls and regret without and with `shift`, and how often a shift was found."""
    yield from table(
        "log", "after the log", "calls, none", "calls, auto", "regret, none", "regret, auto", "more", "found"
    )
    for (place, change), group in found.by("place", "change").items():
        none, auto = (group.where(shift=shift).rows[0] for shift in ("none", "auto"))
        small = abs(none["regret"]) < 10
        cells = [give(none, "calls"), give(auto, "calls")]
        cells += [give(row, "regret", int(small)) for row in (none, auto)]
        cells += [
            give(auto, "more_regret", int(small)),
            f"{auto['found'] * auto['runs']:.0f} of {auto['runs']}",
        ]
        yield line(place, change, *(cell.replace("-", "−") for cell in cells))


PART = Part(
    "shift",
    "how-to/drift.md",
    Setting(seeds=(0,), places=("a policy for each context",), rounds=300),
    Setting(),
    units,
    run,
    ("place", "change", "shift"),
    ("calls", "regret", "more_calls", "more_regret", "found"),
    tell,
)
