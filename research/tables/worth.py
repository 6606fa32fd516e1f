"""Real rewards: what each learner earns net of the price of its calls, beside playing what the log says."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from research import matrices
from research.paper.experiment import Record
from research.paper.frame import Frame
from research.tables.part import Part, line, table
from sparing.online import algorithms
from sparing.simulation.simulate import play

PRICES = (0.01, 0.05, 0.2)
"""Of a reward call, in deviations of the reward."""

ALONE, ECONOMICAL = "the log alone", "`economical`"
LEARNERS = (
    ALONE,
    ECONOMICAL,
    "`economical`, price × 2",
    "`economical`, price × 4",
    "`confident`",
    "`warm_started`",
)


@dataclass(frozen=True)
class Setting:
    """Matrices, gaps of the log, and seeds."""

    seeds: tuple[int, ...] = tuple(range(20))
    sets: tuple[str, ...] = matrices.NAMES
    gaps: tuple[str, ...] = matrices.GAPS


def units(setting: Setting) -> list[Record]:
    """A matrix, a gap and a seed each."""
    places = itertools.product(setting.sets, setting.gaps, setting.seeds)
    return [{"set": name, "gap": gap, "seed": seed} for name, gap, seed in places]


def run(unit: Record) -> Record:
    """Every learner, at every price, on the same rounds; `net` and `calls` are a round, `more` is net above the log alone's."""
    log, stream, deviation = matrices.problem(unit["set"], unit["gap"], unit["seed"])
    rounds, rows = len(stream), []
    alone = None
    for price, name in itertools.product(PRICES, LEARNERS):
        if name in (ALONE, "`confident`", "`warm_started`") and price != PRICES[0]:
            continue
        settings: Record = {"seed": unit["seed"], "allow_outside": True}
        if name == ALONE:
            settings |= {"call_cost": 0.0, "calls": 0, "horizon": rounds}
        elif "economical" in name:
            settings |= {
                "call_cost": price * deviation * float(name[-1] if "×" in name else 1),
                "horizon": rounds,
            }
        algorithm = "economical" if name == ALONE else name.split("`")[1]
        trace = play(getattr(algorithms, algorithm)(log, **settings), stream)
        earned = float(stream.rewards(trace.actions).mean()) / deviation
        calls = float(trace.calls[-1]) / rounds
        alone = earned if name == ALONE else alone
        for cost in PRICES if price == PRICES[0] and "economical" not in name else (price,):
            assert alone is not None
            rows.append(
                {
                    "price": cost,
                    "learner": name,
                    "calls": calls,
                    "net": earned - cost * calls,
                    "more": earned - cost * calls - alone,
                }
            )
    return {"rows": rows}


def tell(found: Frame) -> Iterator[str]:
    """A row for each price and learner: calls and net a round, over all cells, and the cells surely below and above the log alone."""
    yield from table(
        "price of a call",
        "learner",
        "calls a round",
        "net, above the log alone",
        "cells surely below / above",
    )
    for (price, learner), group in found.by("price", "learner").items():
        if learner == ALONE:
            continue
        more, error = np.array(group["more"]), np.array(group["more_se"])
        total = float(np.sqrt((error**2).sum())) / len(more)
        below, above = int((more < -2 * error).sum()), int((more > 2 * error).sum())
        yield line(
            f"{price:g}",
            learner,
            f"{np.mean(group['calls']):.3f}",
            f"{more.mean():+.4f} ± {total:.4f}".replace("-", "−"),
            f"{below} / {above} of {len(more)}",
        )


PART = Part(
    "worth",
    "economical.md",
    Setting(seeds=(0, 1), sets=("segment",), gaps=("best",)),
    Setting(),
    units,
    run,
    ("set", "gap", "price", "learner"),
    ("calls", "net", "more"),
    tell,
)
