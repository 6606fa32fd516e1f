"""One algorithm in one cell, over seeds: every number with its interval."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from research.learners import LIMIT
from research.paper.experiment import Columns, Pairs, Record
from research.paper.frame import Frame
from research.paper.intervals import Interval, band, difference, log_log_slope, mean, share
from research.paper.theorems.runs import ALGORITHMS, CLIPS, KINDS
from research.paper.theorems.setting import Cell

UNKNOWN = Interval(float("nan"), float("nan"), float("nan"))
CURVES = ("regret", "calls", "bound", "printed", "call_bound")
UNTABLED = ("runs", "largest_ratio", "dearest", "supported_regret", "beaten_regret", "beaten_kept")
"""Numbers of a summary that the table of cells leaves out."""


def top(interval: Interval) -> float:
    """The upper end; the value itself where one seed leaves no interval."""
    return interval.value if np.isnan(interval.high) else interval.high


def bottom(interval: Interval) -> float:
    """The lower end; the value itself where one seed leaves no interval."""
    return interval.value if np.isnan(interval.low) else interval.low


@dataclass(frozen=True)
class Summary:
    """What one algorithm did in one cell.

    slope is the log-log slope of regret on [T/10, T], beaten_slope that of the regret of `log-beats` rounds
    alone; below and printed_below are shares of runs below a bound; ratio is regret ÷ bound and vacuity
    bound ÷ worst possible regret. dearest is the most costly skipped round (of `supported` in units of εS_x);
    selected and unselected are threshold − true reward of the log's answer, over `log-beats` rounds and
    over all; beaten is the share of rounds `log-beats` answered, beaten_loss what one of them cost and
    beaten_rate its regret a round over the second half of the run; beaten_kept is the share of runs in which none of them
    cost more than εS_x, where limits decide. dearer and fewer_calls compare with ε-mOFUL
    on the same random numbers, seed by seed: regret above its, calls below its.
    """

    runs: int
    slope: Interval
    regret: Interval
    calls: Interval
    below: Interval | None = None
    ratio: Interval | None = None
    largest_ratio: float | None = None
    vacuity: Interval | None = None
    printed_below: Interval | None = None
    calls_below: Interval | None = None
    call_vacuity: Interval | None = None
    dearest: float | None = None
    supported_regret: Interval | None = None
    beaten_regret: Interval | None = None
    beaten_slope: Interval | None = None
    beaten_rate: Interval | None = None
    beaten: Interval | None = None
    beaten_loss: Interval | None = None
    beaten_kept: Interval | None = None
    selected: Interval | None = None
    unselected: Interval | None = None
    dearer: Interval | None = None
    fewer_calls: Interval | None = None

    @property
    def sublinear(self) -> bool:
        """Whether the interval of the slope ends below 1."""
        return top(self.slope) < 1

    def to_dict(self) -> Record:
        """Plain values, without what does not speak about this algorithm."""
        named = {name: value for name, value in vars(self).items() if value is not None}
        return {
            name: value.to_dict() if isinstance(value, Interval) else value for name, value in named.items()
        }


@dataclass(frozen=True)
class Knowing:
    """What `log-beats` costs a learner that knows every θ*: regret a round, and the share of rounds.

    least and largest are those of the rates of any seed. Of limits: leader is the share of rounds in which the limit is not below
    the best action's value either, most that of rounds whose logged action is the best.
    """

    features: int
    noise: float
    algorithm: str
    rate: Interval
    share: Interval
    least: float
    largest: float
    leader: Interval | None = None
    most: Interval | None = None

    def to_dict(self) -> Record:
        """Plain values, without what does not speak about this rule."""
        named = {name: value for name, value in vars(self).items() if value is not None}
        return {
            name: value.to_dict() if isinstance(value, Interval) else value for name, value in named.items()
        }


def lived(results: Pairs) -> Frame:
    """A row a run of an algorithm, in a cell, with 𝓛 = all actions, or beside the mended rule."""
    return Frame(
        _run(unit, result, name)
        for unit, result in results
        if unit["kind"] in ("cell", "given", "mended")
        for name in (*ALGORITHMS, LIMIT)
        if name in result
    )


def _run(unit: Record, result: Record, name: str) -> Record:
    world, found = unit["synthetic"], result[name]
    kinds, curse = found.get("kinds", {}), found.get("curse", {})
    return {
        "kind": unit["kind"],
        **{field.name: world[field.name] for field in fields(Cell)},
        "seed": world["seed"],
        "algorithm": name,
        "t": result["t"],
        "worst": result["worst"],
        **found,
        **{f"{kind} {name}": line for kind, lines in kinds.items() for name, line in lines.items()},
        **{f"curse {name}": value for name, value in curse.items()},
    }


def _last(runs: Frame, name: str) -> np.ndarray:
    """Where a curve ends, a number a seed."""
    return runs.values(name)[:, -1]


def slopes(runs: Frame, name: str) -> Interval:
    """The log-log slope of a curve on [T/10, T], over seeds; seeds without two positive points are left out."""
    t = np.array(runs.rows[0]["t"])
    late = t >= t[-1] / 10
    return known_mean([log_log_slope(t[late], curve[late]) for curve in runs.values(name)])


def known_mean(values: Sequence[float | None]) -> Interval:
    """The mean of the values that are there."""
    there = [value for value in values if value is not None and not np.isnan(value)]
    return mean(there) if there else UNKNOWN


def summarise(runs: Frame, plain: Frame) -> Summary:
    """The runs of one algorithm in one cell; plain are those of ε-mOFUL."""
    there, rounds = runs.rows[0], runs.rows[0]["t"][-1]
    regret, calls = _last(runs, "regret"), _last(runs, "calls")
    more: Record = {}
    if "bound" in there:
        bound = _last(runs, "bound")
        more |= {
            "below": share(int((regret <= bound).sum()), len(runs)),
            "ratio": mean(regret / bound),
            "largest_ratio": float((regret / bound).max()),
            "vacuity": mean(bound / _last(runs, "worst")),
        }
    if "printed" in there:
        more["printed_below"] = share(int((regret <= _last(runs, "printed")).sum()), len(runs))
    if "call_bound" in there:
        most = _last(runs, "call_bound")
        more["calls_below"] = share(int((calls <= most).sum()), len(runs))
        more["call_vacuity"] = mean(most / rounds)
        more["dearest"] = max(runs["dearest_skip"])
    if "kinds" in there:
        unit = runs.values("epsilon") * runs.values("context_bound")
        more["supported_regret"] = mean(_last(runs, "supported regret"))
        more["dearest"] = float((runs.values("dearest_skip") / unit).max())
    if "curse" in there:
        more |= _beaten(runs, plain, rounds) | {
            "beaten_loss": known_mean(runs["curse lost"]),
            "selected": known_mean(runs["curse selected"]),
            "unselected": runs.mean("curse all"),
        }
    if "dearest_beaten" in there:
        kept = runs.values("dearest_beaten") <= runs.values("epsilon") * runs.values("context_bound")
        more |= _beaten(runs, plain, rounds) | {"beaten_kept": share(int(kept.sum()), len(runs))}
    return Summary(
        runs=len(runs), slope=slopes(runs, "regret"), regret=mean(regret), calls=mean(calls), **more
    )


def _beaten(runs: Frame, plain: Frame, rounds: int) -> Record:
    """What `log-beats` did to ε-mOFUL-IPS."""
    t, curve = runs.rows[0]["t"], runs.values("log-beats regret")
    middle = int(np.searchsorted(t, rounds / 2))
    return {
        "dearer": difference(_last(runs, "regret"), _last(plain, "regret")),
        "fewer_calls": difference(_last(plain, "calls"), _last(runs, "calls")),
        "beaten_regret": mean(curve[:, -1]),
        "beaten_slope": slopes(runs, "log-beats regret"),
        "beaten_rate": mean((curve[:, -1] - curve[:, middle]) / (rounds - t[middle])),
        "beaten": mean(_last(runs, "log-beats rounds") / rounds),
    }


def knowing_rates(results: Pairs) -> list[Knowing]:
    """The knowing learner by d, σ and M, or by limits."""
    rates = Frame(
        {
            "features": unit["synthetic"]["features"],
            "noise": noise,
            "algorithm": name,
            "seed": unit["synthetic"]["seed"],
            **found[name],
        }
        for unit, result in results
        if unit["kind"] == "knowing"
        for noise, found in zip(unit["noises"], result["rates"], strict=True)
        for name in (*CLIPS, LIMIT)
    )
    return [
        Knowing(
            features,
            noise,
            name,
            found.mean("rate"),
            found.mean("share"),
            min(found["rate"]),
            max(found["rate"]),
            **({key: found.mean(key) for key in ("leader", "most")} if name == LIMIT else {}),
        )
        for (features, noise, name), found in rates.by("features", "noise", "algorithm").items()
    ]


def curve_rows(runs: Frame, names: Sequence[str], **known: Any) -> list[Record]:
    """Curves over rounds by name: means and 95 % limits over seeds, one row a point."""
    rows = []
    for name in names:
        if name in runs.rows[0]:
            lines = zip(runs.rows[0]["t"], *band(runs.values(name).astype(float)), strict=True)
            rows += [
                {**known, "quantity": name.split(" ")[-1], "t": t}
                | {"value": float(value), "low": float(low), "high": float(high)}
                for t, value, low, high in lines
            ]
    return rows


def curves(cells: Mapping[Cell, Frame]) -> Columns:
    """Regret, calls, bounds and the worst possible regret of every cell."""
    rows = []
    for cell, runs in cells.items():
        by_name = runs.by("algorithm")
        rows += curve_rows(by_name["moful",], ("worst",), **asdict(cell), algorithm="any")
        for (name,), found in by_name.items():
            rows += curve_rows(found, CURVES, **asdict(cell), algorithm=name)
    return Frame(rows).columns()


def kinds(cells: Mapping[Cell, Frame]) -> Columns:
    """Regret and rounds of ε-mOFUL-IPS by what decided the round."""
    rows = []
    for cell, runs in cells.items():
        for name in CLIPS:
            for kind in KINDS:
                lines = (f"{kind} regret", f"{kind} rounds")
                known = {**asdict(cell), "algorithm": name, "kind": kind}
                rows += curve_rows(runs.where(algorithm=name), lines, **known)
    return Frame(rows).columns()


def cell_table(summaries: Mapping[Cell, Mapping[str, Summary]]) -> Columns:
    """One row for each cell and algorithm, every number with its ends; null where it says nothing."""
    rows = []
    for cell, named in summaries.items():
        for name, summary in named.items():
            row: Record = {**asdict(cell), "algorithm": name}
            for quantity, found in vars(summary).items():
                if quantity not in UNTABLED:
                    ends = UNKNOWN if found is None else found
                    row |= ends.named(quantity)
            rows.append(row)
    return Frame(rows).columns()


def knowing_table(found: Sequence[Knowing]) -> Columns:
    """What `log-beats` costs a round when every θ* is known."""
    return Frame(
        {"features": row.features, "noise": row.noise, "algorithm": row.algorithm}
        | row.rate.named("rate")
        | row.share.named("share")
        for row in found
    ).columns()
