"""Propositions 1 and 2: the pieces of work, and what they say together."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from research.paper.experiment import Analysis, Record
from research.paper.intervals import Interval, band, mean
from research.paper.propositions import runs
from research.paper.propositions.setting import Setting
from research.paper.propositions.verdicts import Growth, Identity, proposition_1, proposition_2
from research.paper.theorems.shares import share

Table = dict[str, list[Any]]
Pairs = Sequence[tuple[Record, Record]]


def units(setting: Setting) -> list[Record]:
    """One unit for each proposition, logging policy and seed."""
    world = {"actions": setting.actions, "features": setting.features, "noise": setting.noise}
    bias = {
        "kind": "bias",
        "logs": setting.logs,
        "rows": setting.rows,
        "unsupported": list(setting.unsupported),
        "blur": setting.blur,
    }
    growing = {
        "kind": "growing",
        "sizes": list(setting.sizes),
        "unsupported": setting.growing_unsupported,
    }
    return [
        {**kind, **world, "support": support, "seed": seed}
        for kind in (bias, growing)
        for support in setting.supports
        for seed in setting.seeds
    ]


def run(unit: Record) -> Record:
    """One unit."""
    return runs.bias(unit) if unit["kind"] == "bias" else runs.growing(unit)


def analyse(setting: Setting, results: Pairs) -> Analysis:
    """Measured against predicted bias, the slope of the error in N_a, and the verdicts on C9 and C10."""
    by_kind = {kind: [pair for pair in results if pair[0]["kind"] == kind] for kind in ("bias", "growing")}
    points = _points(by_kind["bias"])
    identities = {support: _identity(points, support) for support in setting.supports}
    grown = {support: _grown(setting, by_kind["growing"], support) for support in setting.supports}
    return Analysis(
        numbers={
            "proposition_1": {support: found.to_dict() for support, found in identities.items()},
            "proposition_2": {support: found.to_dict() for support, found in grown.items()},
        },
        tables={"bias": points, "errors": _errors(setting, by_kind["growing"]), "slopes": _slopes(grown)},
        verdicts=(proposition_1(setting, identities), proposition_2(setting, grown)),
    )


def _points(pairs: Pairs) -> Table:
    """One row for each world, logging policy and share: both sides of Proposition 1."""
    rows = []
    for unit, result in pairs:
        for found in result["shares"]:
            row = {"support": unit["support"], "seed": unit["seed"], "unsupported": found["unsupported"]}
            for name in ("measured", "difference"):
                ends = found[name]
                row |= {name: ends["value"], f"{name}_low": ends["low"], f"{name}_high": ends["high"]}
            rows.append({**row, "predicted": found["predicted"], "mass": found["mass"]})
    return {name: [row[name] for row in rows] for name in rows[0]}


def _identity(points: Table, support: str) -> Identity:
    here = np.array([name == support for name in points["support"]])
    chosen = {name: np.array(column)[here] for name, column in points.items()}
    seeds = np.unique(chosen["seed"])
    pooled = mean([float(chosen["difference"][chosen["seed"] == seed].mean()) for seed in seeds])
    inside = (chosen["difference_low"] <= 0) & (chosen["difference_high"] >= 0)
    slope, _ = np.polyfit(chosen["predicted"], chosen["measured"], 1)
    return Identity(
        difference=pooled,
        inside=share(int(inside.sum()), len(inside)),
        cells=len(inside),
        largest=float(np.abs(chosen["predicted"]).max()),
        size=float(np.abs(chosen["predicted"]).mean()),
        error=float(np.abs(chosen["difference"]).mean()),
        slope=float(slope),
    )


def _paths(pairs: Pairs, support: str) -> list[tuple[np.ndarray, np.ndarray]]:
    return [
        (np.array(result["counts"]), np.array(result["errors"]))
        for unit, result in pairs
        if unit["support"] == support
    ]


def _grown(setting: Setting, pairs: Pairs, support: str) -> Growth:
    paths = _paths(pairs, support)
    slopes, last, constants, left_out, never = [], [], [], 0, []
    for counts, errors in paths:
        enough = counts[0] >= runs.ENOUGH * setting.features
        slopes.append(runs.within_slope(counts[:, enough], errors[:, enough]))
        last.append(float(errors[-1, enough].mean() / errors[0, enough].mean()))
        constants.append(float((errors[-1] * np.sqrt(counts[-1]))[enough].mean()))
        left_out += int((~enough).sum())
        never += errors[-1, counts[-1] == 0].tolist()
    unlogged = mean(never) if never else None
    return Growth(mean(slopes), mean(last), mean(constants), left_out, len(paths) * setting.actions, unlogged)


def _errors(setting: Setting, pairs: Pairs) -> Table:
    """Geometric means over actions of N_a and of the error, over seeds, as the log grows."""
    rows = []
    for support in setting.supports:
        paths = _paths(pairs, support)
        kept = [counts[0] >= runs.ENOUGH * setting.features for counts, _ in paths]
        logs = [
            np.stack([np.log(counts[:, keep]).mean(axis=1), np.log(errors[:, keep]).mean(axis=1)])
            for (counts, errors), keep in zip(paths, kept, strict=True)
        ]
        steps = np.exp(np.mean([path[0] for path in logs], axis=0))
        centre, low, high = (np.exp(line) for line in band(np.array([path[1] for path in logs])))
        for place, size in enumerate(setting.sizes):
            ends = Interval(float(centre[place]), float(low[place]), float(high[place])).to_dict()
            rows.append({"support": support, "rows": size, "count": float(steps[place]), **ends})
    return {name: [row[name] for row in rows] for name in rows[0]}


def _slopes(grown: dict[str, Growth]) -> Table:
    """The slope of the error in N_a by logging policy."""
    ends = [found.slope.to_dict() for found in grown.values()]
    named: Table = {name: [end[name] for end in ends] for name in ("value", "low", "high")}
    return {"support": list(grown), **named}
