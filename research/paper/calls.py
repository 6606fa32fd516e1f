"""Reward calls and regret of the paper's algorithms in its synthetic world: what Figs. 1 and 2 share."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from research.learners import RATIO, UNCLIPPED
from research.paper import intervals
from research.paper.experiment import Columns, Pairs, Record
from research.paper.frame import Frame
from research.paper.synthetic import Synthetic
from sparing.log import Log
from sparing.online.learner import Learner
from sparing.simulation import LinearWorld, simulate
from sparing.simulation.simulate import Trace

MOST_ROWS, SAME = "most rows", "the same"
"""How 𝓛 is chosen: by rows in each log (Remark 3), or by rows in the first log and for all of them."""

EVERY = ("moful", "eps_moful", "eps_moful_ips")

WORLD = ("features", "rounds", "radius_scale")
KEYS = ("algorithm", "supported", "unsupported", "clip", "chosen")
"""What tells the runs of a unit apart; null where it makes no difference."""

POINTS = 60
"""Points that a curve is thinned to."""


def unit(
    *,
    seed: int,
    features: int,
    rounds: int,
    radius_scale: float = 1.0,
    algorithms: Sequence[str] = EVERY,
    supported: Sequence[int],
    unsupported: Sequence[float],
    clips: Sequence[str] = (RATIO, UNCLIPPED),
    chosen: Sequence[str] = (MOST_ROWS,),
) -> Record:
    """All runs that share a world, its luck and a radius, as a record."""
    return {
        "features": features,
        "rounds": rounds,
        "radius_scale": radius_scale,
        "seed": seed,
        "algorithms": list(algorithms),
        "supported": list(supported),
        "unsupported": list(unsupported),
        "clips": list(clips),
        "chosen": list(chosen),
    }


def run(unit: Record) -> Record:
    """Final numbers and thinned curves of each run of a unit."""
    base = Synthetic(rows=unit["rounds"], seed=unit["seed"], **{name: unit[name] for name in WORLD})
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


def runs_of(unit: Record) -> Iterator[Record]:
    """Each run once: mOFUL knows neither 𝓛 nor the log, ε-mOFUL no M; the first log serves mOFUL."""
    nothing = dict.fromkeys(KEYS)
    if "moful" in unit["algorithms"]:
        yield nothing | {"algorithm": "moful"}
    for size, share, chosen in itertools.product(unit["supported"], unit["unsupported"], unit["chosen"]):
        keys = {"supported": size, "unsupported": share, "chosen": chosen}
        if "eps_moful" in unit["algorithms"]:
            yield nothing | keys | {"algorithm": "eps_moful"}
        for clip in unit["clips"]:
            yield nothing | keys | {"algorithm": "eps_moful_ips", "clip": clip}


def _learner(base: Synthetic, keys: Record, world: LinearWorld, log: Log, first: Log) -> Learner:
    if keys["algorithm"] == "moful":
        return base.start("moful", world, log)
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


def frame(results: Pairs) -> Frame:
    """A row a run."""
    return Frame(
        {**{name: unit[name] for name in (*WORLD, "seed")}, **run}
        for unit, result in results
        for run in result["runs"]
    )


def cell(
    algorithm: str,
    place: Record,
    *,
    supported: int | None = None,
    unsupported: float | None = None,
    clip: str | None = None,
    chosen: str = MOST_ROWS,
) -> Record:
    """All settings of a run but its seed; `place` are those of WORLD. What makes no difference is null."""
    informed = algorithm != "moful"
    return {
        **place,
        "algorithm": algorithm,
        "supported": supported if informed else None,
        "unsupported": unsupported if informed else None,
        "clip": clip if algorithm == "eps_moful_ips" else None,
        "chosen": chosen if informed else None,
    }


def every_cell(
    place: Record, supported: Sequence[int], unsupported: Sequence[float], clips: Sequence[str]
) -> Iterator[Record]:
    """The cells that a figure shows at one radius."""
    yield cell("moful", place)
    for size, share in itertools.product(supported, unsupported):
        yield cell("eps_moful", place, supported=size, unsupported=share)
        for clip in clips:
            yield cell("eps_moful_ips", place, supported=size, unsupported=share, clip=clip)


def final_table(runs: Frame) -> Columns:
    """One row a cell: share of rounds called, regret and what skipped rounds cost, with 95 % limits."""
    rows = []
    for place, found in runs.by(*WORLD, *KEYS).items():
        row: Record = dict(zip((*WORLD, *KEYS), place, strict=True))
        rows.append(
            {**row, "seeds": len(found)}
            | found.mean("calls", of=row["rounds"]).named("calls_share")
            | found.mean("regret").named("regret")
            | found.mean("log_beats", of=row["rounds"]).named("log_beats_share")
            | found.mean("log_beats_regret").named("log_beats_regret")
        )
    return Frame(rows).columns()


def curve_table(runs: Frame, shown: Iterable[Record]) -> Columns:
    """One row a shown round of each of these cells: mean calls and regret so far, with 95 % limits."""
    rows = []
    for place in shown:
        found = runs.where(**place)
        bands = {name: intervals.band(found.values(f"{name}_so_far")) for name in ("calls", "regret")}
        for point, at in enumerate(shown_rounds(place["rounds"]).tolist()):
            row = {**place, "round": at}
            for name, band in bands.items():
                row |= intervals.Interval(*(float(curve[point]) for curve in band)).named(name)
            rows.append(row)
    return Frame(rows).columns()
