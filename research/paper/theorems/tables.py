"""The data behind the figures, one row a point."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from research.paper.experiment import Record
from research.paper.intervals import Interval, band
from research.paper.theorems.runs import ALGORITHMS, CLIPS, KINDS
from research.paper.theorems.setting import Cell
from research.paper.theorems.summary import Knowing, Summary

Table = dict[str, list[Any]]
Results = Mapping[Cell, Sequence[Record]]

CURVES = ("regret", "calls", "bound", "printed", "call_bound")
INTERVALS = (
    "slope",
    "regret",
    "calls",
    "below",
    "ratio",
    "vacuity",
    "printed_below",
    "calls_below",
    "call_vacuity",
    "beaten_slope",
    "beaten_rate",
    "beaten",
    "beaten_loss",
    "selected",
    "unselected",
    "dearer",
    "fewer_calls",
)


def columns(rows: Sequence[Record]) -> Table:
    """Rows as columns; all rows have the same names."""
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def _banded(t: Sequence[int], lines: Sequence[Sequence[float]]) -> Iterator[Record]:
    centre, low, high = band(np.array(lines, dtype=float))
    for point, *values in zip(t, centre.tolist(), low.tolist(), high.tolist(), strict=True):
        yield {"t": point, **dict(zip(("value", "low", "high"), values, strict=True))}


def curves(by_cell: Results) -> Table:
    """Regret, calls, bounds and the worst possible regret over rounds: means and 95 % limits over seeds."""
    rows = []
    for cell, results in by_cell.items():
        t = results[0]["t"]
        lines = {("any", "worst"): [result["worst"] for result in results]}
        for name in ALGORITHMS:
            for quantity in CURVES:
                if quantity in results[0][name]:
                    lines[name, quantity] = [result[name][quantity] for result in results]
        for (name, quantity), values in lines.items():
            known = {**asdict(cell), "algorithm": name, "quantity": quantity}
            rows += [known | point for point in _banded(t, values)]
    return columns(rows)


def kinds(by_cell: Results) -> Table:
    """Regret and rounds of ε-mOFUL-IPS by what decided the round, over rounds."""
    rows = []
    for cell, results in by_cell.items():
        for name in CLIPS:
            for kind in KINDS:
                for quantity in ("regret", "rounds"):
                    lines = [result[name]["kinds"][kind][quantity] for result in results]
                    known = {**asdict(cell), "algorithm": name, "kind": kind, "quantity": quantity}
                    rows += [known | point for point in _banded(results[0]["t"], lines)]
    return columns(rows)


def _ends(name: str, interval: Interval | None) -> Record:
    if interval is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    named = interval.to_dict()
    return {name: named["value"], f"{name}_low": named["low"], f"{name}_high": named["high"]}


def cells(summaries: Mapping[Cell, Mapping[str, Summary]]) -> Table:
    """One row for each cell and algorithm, every number with its ends."""
    rows = []
    for cell, named in summaries.items():
        for name, summary in named.items():
            row: Record = {**asdict(cell), "algorithm": name}
            for quantity in INTERVALS:
                row |= _ends(quantity, getattr(summary, quantity))
            rows.append(row)
    return columns(rows)


def knowing(found: Sequence[Knowing]) -> Table:
    """What `log-beats` costs a round when every θ* is known."""
    return columns(
        [
            {
                "features": row.features,
                "noise": row.noise,
                "algorithm": row.algorithm,
                **_ends("rate", row.rate),
                **_ends("share", row.share),
            }
            for row in found
        ]
    )


def apart(results: Sequence[Record], names: Sequence[str]) -> Table:
    """Regret and calls over rounds where 𝓛 is all actions."""
    rows = []
    for name in names:
        for quantity in ("regret", "calls"):
            lines = [result[name][quantity] for result in results]
            known = {"algorithm": name, "quantity": quantity}
            rows += [known | point for point in _banded(results[0]["t"], lines)]
    return columns(rows)


def contrary(results: Sequence[Record]) -> Table:
    """The world built against Theorem 2 as printed: regret, calls and both bounds over rounds."""
    rows = []
    for quantity in ("regret", "calls", "bound", "printed"):
        lines = [result[quantity] for result in results]
        rows += [{"quantity": quantity} | point for point in _banded(results[0]["t"], lines)]
    return columns(rows)
