"""Reward calls and regret of the paper's algorithms in its synthetic world: what Figs. 1 and 2 share."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from research.paper import intervals
from research.paper.experiment import Record
from research.paper.synthetic import Synthetic
from sparing.log import Log
from sparing.online.learner import Learner
from sparing.simulation import LinearWorld, simulate
from sparing.simulation.loop import Trace

RATIO, UNCLIPPED = "percentile-ratio", "inf"
MOST_ROWS, SAME = "most rows", "the same"
"""How 𝓛 is chosen: by rows in each log (Remark 3), or by rows in the first log and for all of them."""

KEYS = ("algorithm", "supported", "unsupported", "clip", "chosen")
"""What tells the runs of a unit apart; null where it makes no difference."""

POINTS = 60
"""Points that a curve is thinned to."""

Unit = Record


def unit(
    world: Synthetic,
    *,
    algorithms: Sequence[str],
    supported: Sequence[int],
    unsupported: Sequence[float],
    clips: Sequence[str],
    chosen: Sequence[str] = (MOST_ROWS,),
) -> Unit:
    """All runs that share a world, its luck and a radius, as a record."""
    return {
        "features": world.features,
        "rounds": world.rounds,
        "radius_scale": world.radius_scale,
        "seed": world.seed,
        "algorithms": list(algorithms),
        "supported": list(supported),
        "unsupported": list(unsupported),
        "clips": list(clips),
        "chosen": list(chosen),
    }


def run(unit: Unit) -> Record:
    """Final numbers and thinned curves of each run of a unit."""
    base = Synthetic(
        features=unit["features"],
        rounds=unit["rounds"],
        rows=unit["rounds"],
        radius_scale=unit["radius_scale"],
        seed=unit["seed"],
    )
    world = base.world()
    logs = {share: replace(base, unsupported=share).log(world) for share in unit["unsupported"]}
    first = logs[unit["unsupported"][0]]
    shown = shown_rounds(base.rounds)
    runs = []
    for keys in runs_of(unit):
        log = first if keys["unsupported"] is None else logs[keys["unsupported"]]
        learner = _learner(base, keys, world, log, first)
        trace = simulate(learner, world, rounds=base.rounds, seed=base.seed, stream="in-log", log=log)
        runs.append({**keys, **_numbers(trace, shown)})
    return {"runs": runs}


def shown_rounds(rounds: int) -> np.ndarray:
    """The rounds at which curves are kept, the last of them included."""
    return np.unique(np.linspace(rounds / POINTS, rounds, POINTS).round().astype(int))


def runs_of(unit: Unit) -> Iterator[dict[str, Any]]:
    """Each run once: mOFUL knows neither 𝓛 nor the log, ε-mOFUL no M; the first log serves mOFUL."""
    nothing = dict.fromkeys(KEYS)
    if "moful" in unit["algorithms"]:
        yield nothing | {"algorithm": "moful"}
    for size in unit["supported"]:
        for share in unit["unsupported"]:
            for chosen in unit["chosen"]:
                keys = {"supported": size, "unsupported": share, "chosen": chosen}
                if "eps_moful" in unit["algorithms"]:
                    yield nothing | keys | {"algorithm": "eps_moful"}
                for clip in unit["clips"]:
                    yield nothing | keys | {"algorithm": "eps_moful_ips", "clip": clip}


def _learner(base: Synthetic, keys: Record, world: LinearWorld, log: Log, first: Log) -> Learner:
    if keys["algorithm"] == "moful":
        return base.learner("moful", world, log)
    setting = replace(base, supported=keys["supported"], clip=keys["clip"] or RATIO)
    known = setting.known(world, log if keys["chosen"] == MOST_ROWS else first)
    return setting.learner(keys["algorithm"], world, log, known=known)


def _numbers(trace: Trace, shown: np.ndarray) -> Record:
    beaten = trace.reasons == "log-beats"
    return {
        "calls": int(trace.calls[-1]),
        "regret": float(trace.regret[-1]),
        "skipped_regret": float(trace.skipped_losses.sum()),
        "log_beats": int(beaten.sum()),
        "log_beats_regret": float(trace.losses[beaten].sum()),
        "calls_so_far": trace.calls[shown - 1].tolist(),
        "regret_so_far": trace.regret[shown - 1].tolist(),
    }


Results = Sequence[tuple[Unit, Record]]


class Cells:
    """Runs by cell: everything but the seed. Seeds come in one order, so that cells can be paired."""

    def __init__(self, results: Results) -> None:
        self._runs: dict[tuple[Any, ...], dict[int, Record]] = {}
        for unit, result in results:
            place = (unit["features"], unit["rounds"], unit["radius_scale"])
            for run in result["runs"]:
                cell = place + tuple(run[key] for key in KEYS)
                self._runs.setdefault(cell, {})[unit["seed"]] = run

    def __iter__(self) -> Iterator[Record]:
        """The cells as records of what tells them apart."""
        names = ("features", "rounds", "radius_scale", *KEYS)
        return (dict(zip(names, cell, strict=True)) for cell in self._runs)

    def runs(self, cell: Record) -> dict[int, Record]:
        """The runs of a cell by seed."""
        return self._runs[tuple(cell[name] for name in ("features", "rounds", "radius_scale", *KEYS))]

    def values(self, cell: Record, name: str, seeds: Sequence[int] | None = None) -> np.ndarray:
        """A number, or a curve, of a cell's runs, (seeds, …), in the order of the seeds."""
        runs = self.runs(cell)
        return np.array([runs[seed][name] for seed in (sorted(runs) if seeds is None else seeds)])

    def difference(self, first: Record, second: Record, name: str = "calls") -> intervals.Interval:
        """first − second, paired over the seeds that both have."""
        seeds = sorted(self.runs(first).keys() & self.runs(second).keys())
        return intervals.difference(self.values(first, name, seeds), self.values(second, name, seeds))


def cell(
    algorithm: str,
    *,
    features: int,
    rounds: int,
    radius_scale: float,
    supported: int | None = None,
    unsupported: float | None = None,
    clip: str | None = None,
    chosen: str = MOST_ROWS,
) -> Record:
    """The record of a cell; what makes no difference to the algorithm is null."""
    informed = algorithm != "moful"
    return {
        "features": features,
        "rounds": rounds,
        "radius_scale": radius_scale,
        "algorithm": algorithm,
        "supported": supported if informed else None,
        "unsupported": unsupported if informed else None,
        "clip": clip if algorithm == "eps_moful_ips" else None,
        "chosen": chosen if informed else None,
    }


def final_table(cells: Cells) -> dict[str, list[Any]]:
    """One row a cell: share of rounds called, regret and what skipped rounds cost, with 95 % limits."""
    rows = []
    for place in cells:
        numbers = {
            "calls_share": intervals.mean(cells.values(place, "calls") / place["rounds"]),
            "regret": intervals.mean(cells.values(place, "regret")),
            "log_beats_share": intervals.mean(cells.values(place, "log_beats") / place["rounds"]),
            "log_beats_regret": intervals.mean(cells.values(place, "log_beats_regret")),
        }
        row = {**place, "seeds": len(cells.runs(place))}
        for name, interval in numbers.items():
            row |= {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
        rows.append(row)
    return columns(rows)


def curve_table(cells: Cells, shown: Sequence[Record]) -> dict[str, list[Any]]:
    """One row a shown round of each of these cells: mean calls and regret so far, with 95 % limits."""
    rows = []
    for place in shown:
        bands = [intervals.band(cells.values(place, name)) for name in ("calls_so_far", "regret_so_far")]
        for point, at in enumerate(shown_rounds(place["rounds"]).tolist()):
            row = {**place, "round": at}
            for name, band in zip(("calls", "regret"), bands, strict=True):
                ends = (name, f"{name}_low", f"{name}_high")
                row |= {end: float(curve[point]) for end, curve in zip(ends, band, strict=True)}
            rows.append(row)
    return columns(rows)


def columns(rows: Sequence[Record]) -> dict[str, list[Any]]:
    """Rows as columns."""
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
