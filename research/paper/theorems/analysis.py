"""Theorems 1 to 3: the pieces of work, and what they say together."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from research.paper.experiment import Analysis, Record
from research.paper.synthetic import Synthetic
from research.paper.theorems import extremes, runs, tables
from research.paper.theorems.setting import Cell, Setting
from research.paper.theorems.summary import Summary, knowing_rates, summarise
from research.paper.theorems.verdicts import verdicts

GIVEN = ("eps_moful", *runs.CLIPS)
"""What is run with 𝓛 = all actions."""


def units(setting: Setting) -> list[Record]:
    """One unit for each cell and seed, and the worlds apart."""
    cells = [
        {"kind": "cell", "synthetic": asdict(_synthetic(setting, cell, seed))}
        for cell in setting.cells
        for seed in setting.seeds
    ]
    features = sorted({cell.features for cell in setting.cells})
    knowing = [
        {
            "kind": "knowing",
            "noises": list(setting.noises),
            "synthetic": asdict(_synthetic(setting, Cell(d, rounds=setting.knowing_rows), seed)),
        }
        for d in features
        for seed in setting.seeds
    ]
    main = Cell(setting.main.features, rounds=setting.given_rounds)
    given = [
        {
            "kind": "given",
            "synthetic": asdict(replace(_synthetic(setting, main, seed), supported=setting.actions)),
        }
        for seed in setting.seeds
    ]
    contrary = [
        {"kind": "contrary", "rounds": setting.contrary_rounds, "seed": seed} for seed in setting.seeds
    ]
    return [*cells, *knowing, *given, *contrary]


def _synthetic(setting: Setting, cell: Cell, seed: int) -> Synthetic:
    return Synthetic(
        actions=setting.actions,
        features=cell.features,
        noise=setting.noise,
        epsilon=setting.epsilon,
        rounds=cell.rounds,
        rows=cell.rounds,
        ridge=setting.ridge,
        delta=setting.delta,
        radius=cell.radius,
        radius_scale=cell.radius_scale,
        supported=setting.supported,
        unsupported=setting.unsupported,
        support=setting.support,
        tolerance=setting.tolerance,
        seed=seed,
    )


def run(unit: Record) -> Record:
    """One unit."""
    if unit["kind"] == "contrary":
        return extremes.contrary(rounds=unit["rounds"], seed=unit["seed"])
    if unit["kind"] == "knowing":
        given = unit["synthetic"]
        return {
            "rates": [extremes.knowing(Synthetic(**{**given, "noise": noise})) for noise in unit["noises"]]
        }
    names = GIVEN if unit["kind"] == "given" else runs.ALGORITHMS
    return runs.run_cell(Synthetic(**unit["synthetic"]), names)


def analyse(setting: Setting, results: Sequence[tuple[Record, Record]]) -> Analysis:
    """Slopes, shares of runs below each bound, what skipping cost, and the verdicts on C6, C7 and C8."""
    by_cell = {
        cell: [result for unit, result in results if unit["kind"] == "cell" and _is(unit["synthetic"], cell)]
        for cell in setting.cells
    }
    summaries: dict[Cell, dict[str, Summary]] = {
        cell: {name: summarise(name, found) for name in runs.ALGORITHMS} for cell, found in by_cell.items()
    }
    knowing = knowing_rates(
        setting, [(unit, result) for unit, result in results if unit["kind"] == "knowing"]
    )
    apart = {
        kind: [result for unit, result in results if unit["kind"] == kind] for kind in ("given", "contrary")
    }
    contrary = apart["contrary"]
    given = {name: summarise(name, apart["given"]) for name in GIVEN}
    numbers = {
        "cells": {
            cell.label: {name: summary.to_dict() for name, summary in named.items()}
            for cell, named in summaries.items()
        },
        "knowing": [row.to_dict() for row in knowing],
        "given": {name: summary.to_dict() for name, summary in given.items()},
        "contrary": {
            name: [result[name][-1] for result in contrary]
            for name in ("regret", "calls", "bound", "printed")
        },
    }
    return Analysis(
        numbers=numbers,
        tables={
            "curves": tables.curves(by_cell),
            "kinds": tables.kinds(by_cell),
            "cells": tables.cells(summaries),
            "knowing": tables.knowing(knowing),
            "given": tables.apart(apart["given"], GIVEN),
            "contrary": tables.contrary(contrary),
        },
        verdicts=verdicts(setting, summaries, knowing=knowing, given=given, contrary=contrary),
    )


def _is(synthetic: Record, cell: Cell) -> bool:
    return all(synthetic[name] == value for name, value in asdict(cell).items())
