"""Theorems 1 to 3: regret against each bound, how fast it grows, and what the skipped rounds cost."""

from dataclasses import asdict

from research.learners import LIMIT
from research.paper.experiment import Analysis, Experiment, Pairs
from research.paper.frame import Frame
from research.paper.theorems import summary
from research.paper.theorems.mended import mended
from research.paper.theorems.runs import GIVEN, run, units
from research.paper.theorems.setting import FULL, QUICK, Setting
from research.paper.theorems.verdicts import verdicts


def analyse(setting: Setting, results: Pairs) -> Analysis:
    """Slopes, shares of runs below each bound, what skipping cost, and the verdicts on C6, C7 and C8."""
    runs = summary.lived(results)
    cells = {cell: runs.where(kind="cell", **asdict(cell)) for cell in setting.cells}
    every = runs.where(kind="given")
    summaries = {cell: _by_algorithm(found) for cell, found in cells.items()}
    comparable = {cell: _by_algorithm(runs.where(kind="mended", **asdict(cell))) for cell in setting.alike}
    given, knowing = _by_algorithm(every), summary.knowing_rates(results)
    by_samples = [row for row in knowing if row.algorithm != LIMIT]
    by_limits = [row for row in knowing if row.algorithm == LIMIT]
    contrary = Frame(unit | result for unit, result in results if unit["kind"] == "contrary")
    ends = ("regret", "calls", "bound", "printed")
    numbers = {
        "cells": {
            cell.label: {name: found.to_dict() for name, found in named.items()}
            for cell, named in summaries.items()
        },
        "knowing": [row.to_dict() for row in knowing],
        "given": {name: found.to_dict() for name, found in given.items()},
        "mended": {
            cell.label: {name: found.to_dict() for name, found in named.items()}
            for cell, named in comparable.items()
        },
        "contrary": {name: [curve[-1] for curve in contrary[name]] for name in ends},
    }
    supported = [
        row
        for name in GIVEN
        for row in summary.curve_rows(every.where(algorithm=name), ("regret", "calls"), algorithm=name)
    ]
    tables = {
        "curves": summary.curves(cells),
        "kinds": summary.kinds(cells),
        "cells": summary.cell_table(summaries),
        "knowing": summary.knowing_table(knowing),
        "given": Frame(supported).columns(),
        "contrary": Frame(summary.curve_rows(contrary, ends)).columns(),
    }
    judged = (
        *verdicts(setting, summaries, knowing=by_samples, given=given, contrary=contrary),
        mended(setting, comparable, by_limits, by_samples),
    )
    return Analysis(numbers, tables, judged)


def _by_algorithm(runs: Frame) -> dict[str, summary.Summary]:
    plain = runs.where(algorithm="eps_moful")
    return {name: summary.summarise(found, plain) for (name,), found in runs.by("algorithm").items()}


EXPERIMENT = Experiment(
    name="theorems",
    title="Regret against the bounds of Theorems 1, 2 and 3, and our certified bound",
    quick=QUICK,
    full=FULL,
    units=units,
    run=run,
    analyse=analyse,
)
