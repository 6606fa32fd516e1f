"""Run the comparison beyond the paper, and put the seeds together."""

from collections.abc import Sequence
from typing import Any

from research.paper.beyond import classes, vowpal, worlds
from research.paper.beyond.comparing import compared, losses, notes
from research.paper.beyond.gathering import METRICS, Gathered, gather
from research.paper.beyond.setting import Setting
from research.paper.beyond.vowpal import Tuned
from research.paper.experiment import Analysis, Record
from research.paper.intervals import mean


def units(setting: Setting) -> list[Record]:
    """All pieces of work; Vowpal Wabbit stands in them only where it is installed."""
    version = vowpal.installed()
    return [*worlds.units(setting, version=version), *classes.units(setting, version=version)]


def run(unit: Record) -> Record:
    """One piece of work."""
    return worlds.run(unit) if unit["kind"] == "world" else classes.run(unit)


def analyse(setting: Setting, results: Sequence[tuple[Record, Record]]) -> Analysis:
    """Means over seeds, paired differences, and what they say in words, losses included."""
    gathered = gather(setting, results)
    differences = compared(setting, gathered)
    versions = sorted({record["version"] for unit, _ in results for record in unit["outside"]})
    numbers = {
        "outside": _outside(setting, ", ".join(versions)) if versions else None,
        "differences": [
            {
                **place.to_dict(),
                "ours": ours.name,
                "tolerance": ours.tolerance,
                "other": other.name,
                "metric": metric,
                **found.to_dict(),
            }
            for (place, ours, other, metric), found in differences.items()
        ],
        "data": {
            unit["data"]: {key: result[key] for key in ("rounds", "logged", "never")}
            for unit, result in results
            if unit["kind"] == "classes"
        },
        "losses": losses(setting, differences),
        "notes": notes(setting, differences, outside=bool(versions)),
    }
    tables = {"frontier": _points(gathered, "world"), "classes": _points(gathered, "classes")}
    return Analysis(numbers, tables)


def _outside(setting: Setting, version: str) -> Record:
    """Vowpal Wabbit's version and options."""

    def options(chosen: Sequence[Tuned]) -> list[str]:
        return [tuned.options for tuned in chosen]

    tuned = setting.tuned
    return {
        "version": version,
        "warm": options(tuned.warm),
        "cold": options(tuned.cold),
        "classes": options(tuned.classes),
    }


def _points(gathered: Gathered, kind: str) -> dict[str, list[Any]]:
    """A row for each learner in each place: calls, regret and final loss with their 95 % limits."""
    rows = [
        {**place.to_dict(), "name": who.name, "tolerance": who.tolerance, "seeds": len(values["calls"])}
        | _limits(values)
        for (place, who), values in gathered.items()
        if place.kind == kind
    ]
    return {column: [row[column] for row in rows] for column in rows[0]} if rows else {}


def _limits(values: dict[str, list[float]]) -> Record:
    found = {metric: mean(values[metric]) for metric in METRICS}
    ends = {
        f"{metric}_{end}": getattr(interval, end)
        for metric, interval in found.items()
        for end in ("low", "high")
    }
    return {metric: interval.value for metric, interval in found.items()} | ends
