"""Learners side by side along the share n^UA of unsupported actions: what Figs. 3 and 4 share."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from research.learners import LEARNERS, SCALED
from research.paper.experiment import Columns, Record
from research.paper.frame import Frame
from research.paper.intervals import Interval

BEYOND = ("greedy", "warm_started", "certified", "confident")
"""Learners that are not in the paper."""


def at(runs: Frame, name: str, place: Record) -> Frame:
    """The runs of one learner in one setting; the scale is ignored for a learner that has none."""
    scale = place["scale"] if name in SCALED else None
    return runs.where(algorithm=name, **place | {"scale": scale})


def gap(runs: Frame, first: str, second: str, place: Record, metric: str) -> Interval:
    """One learner less another, paired by seed."""
    return at(runs, first, place).less(at(runs, second, place), metric)


def summary(runs: Frame, names: Sequence[str], metrics: Iterable[str]) -> Columns:
    """A row for each learner, setting and metric: its mean and 95 % limits."""
    rows = []
    for found in runs.by(*names).values():
        where = {name: found.rows[0][name] for name in names}
        for metric in metrics:
            mean = found.mean(metric)
            ends = {"value": mean.value, "low": mean.low, "high": mean.high, "seeds": len(found)}
            rows.append({**where, "metric": metric, **ends})
    return Frame(rows).columns()


def listed(runs: Frame, names: Sequence[str], metrics: Iterable[str]) -> Columns:
    """A row for each learner, setting and seed."""
    kept = (*names, "seed", *metrics)
    groups = runs.by(*names).values()
    return Frame({name: row[name] for name in kept} for found in groups for row in found).columns()


def gains(runs: Frame, places: Iterable[Record], metrics: Iterable[str]) -> Frame:
    """Every other learner less mOFUL, paired by seed; a row each."""
    rows = []
    for place in places:
        for metric in metrics:
            for name in LEARNERS:
                if name != "moful" and len(at(runs, name, place)):
                    found = gap(runs, name, "moful", place, metric)
                    where = {**place, "algorithm": name, "metric": metric}
                    rows.append(where | {"value": found.value, "low": found.low, "high": found.high})
    return Frame(rows)


def span(gaps: Mapping[Any, Interval]) -> tuple[Any, Any]:
    """Where a difference is least and where it is most."""
    ordered = sorted(gaps, key=lambda key: gaps[key].value)
    return ordered[0], ordered[-1]
