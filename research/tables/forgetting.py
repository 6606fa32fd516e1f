"""What forgetting costs where nothing changes, and what it saves where actions trade places half-way."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from research.paper.experiment import Record
from research.paper.frame import Frame
from research.paper.synthetic import LIVE_STREAM
from research.tables.part import Part, give, line, table
from sparing.online import algorithms
from sparing.simulation import ChangingWorld, LinearWorld, World, draw_log
from sparing.simulation.simulate import play

STILL, TRADED = "nothing", "actions trade places"
MOVED = 9
"""Number of the random stream of what changes."""

LAST = 500
"""Rounds at the end whose loss is told apart."""


@dataclass(frozen=True)
class Setting:
    """Linear worlds of which a part of the actions was never logged, and the half-lives in rounds; 0 forgets nothing."""

    seeds: tuple[int, ...] = tuple(range(700, 720))
    half_lives: tuple[int, ...] = (0, 6000, 3000, 1500)
    n_actions: int = 10
    n_features: int = 5
    noise: float = 1.0
    logged: int = 2000
    rounds: int = 6000
    price: float = 0.05


def units(setting: Setting) -> list[Record]:
    """A change and a seed each."""
    rest = {name: value for name, value in vars(setting).items() if name != "seeds"}
    return [
        {"change": change, "seed": seed, **rest}
        for change, seed in itertools.product((STILL, TRADED), setting.seeds)
    ]


def run(unit: Record) -> Record:
    """`economical` with each half-life; `more` is its regret and price less those of the run that forgets nothing."""
    rows: list[Record] = []
    for half_life in unit["half_lives"]:
        calls, losses = played(unit, half_life)
        paid = float(losses.sum()) + unit["price"] * calls
        more = paid - (rows[0]["paid"] if rows else paid)
        last = float(losses[-LAST:].mean())
        rows.append({"half_life": half_life, "calls": calls, "paid": paid, "more": more, "last": last})
    return {"rows": rows}


def played(unit: Record, half_life: int) -> tuple[int, np.ndarray]:
    """Calls, and the loss of each round."""
    seed, shape = unit["seed"], (unit["n_actions"], unit["n_features"])
    world = LinearWorld(n_actions=shape[0], n_features=shape[1], noise=unit["noise"], seed=seed)
    log = draw_log(world, rows=unit["logged"], support="never-logged", unsupported=0.2, seed=seed)
    live: World = world
    if unit["change"] == TRADED:
        order = np.random.default_rng([seed, MOVED]).permutation(shape[0])
        live = ChangingWorld([world, LinearWorld(theta=world.theta[order])], [unit["rounds"] // 2])
    stream = live.live_stream(unit["rounds"], np.random.default_rng([seed, LIVE_STREAM]))
    learner = algorithms.economical(
        log, call_cost=unit["price"], horizon=len(stream), half_life=half_life or None, seed=seed
    )
    trace = play(learner, stream)
    return int(trace.needs_reward.sum()), trace.losses


def tell(found: Frame) -> Iterator[str]:
    """A row for each half-life."""
    yield from table(
        "half-life",
        "nothing changes: calls",
        "regret + price",
        "more than none",
        "actions trade places: calls",
        "regret + price",
        "loss a round, last 500",
    )
    for (half_life,), group in found.by("half_life").items():
        still, traded = (group.where(change=change).rows[0] for change in (STILL, TRADED))
        cells = [give(still, "calls"), give(still, "paid"), give(still, "more")]
        cells += [give(traded, "calls"), give(traded, "paid"), give(traded, "last", 1)]
        yield line(f"{half_life:,}" if half_life else "none", *(cell.replace("-", "−") for cell in cells))


PART = Part(
    "forgetting",
    "how-to/drift.md",
    Setting(seeds=(0,), half_lives=(0, 100), rounds=300),
    Setting(),
    units,
    run,
    ("change", "half_life"),
    ("calls", "paid", "more", "last"),
    tell,
)
