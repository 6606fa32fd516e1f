"""An experiment's folder: its numbers, the data behind its figures, and the figures."""

import importlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from research.paper.experiment import Analysis, Columns, Experiment, Pairs, Record, digest, settled, text
from research.paper.report import svg
from research.paper.report.plate import Plate
from research.paper.running import libraries
from sparing import __version__, archive
from sparing.archive import replacing
from sparing.errors import DataError

RESULTS = "results.json"

SAID = ("title", "see", "regime", "lost", "folded", "columns")
"""What results.json says of a figure beside its drawings."""


def outcome(experiment: Experiment, setting: Any, pairs: Pairs, analysis: Analysis) -> Record:
    """All that an experiment found, as plain values: no dates and no times, so that equal runs are equal.

    `sample` is the first unit with its result: run again, it must give the same.
    """
    values = settled(asdict(setting))
    found = {
        "version": __version__,
        "libraries": libraries(),
        "title": experiment.title,
        "full": setting == experiment.full,
        "setting": values,
        "setting_sha256": digest(values),
        "seeds": list(setting.seeds),
        "pieces": len(pairs),
        "verdicts": [asdict(verdict) for verdict in analysis.verdicts],
        "numbers": analysis.numbers,
        "sample": dict(zip(("unit", "result"), pairs[0], strict=True)) if pairs else None,
        "tables": {name: sorted(columns) for name, columns in analysis.tables.items()},
    }
    return dict(settled(found))


def write(experiment: Experiment, found: Record, analysis: Analysis, out: Path) -> None:
    """Write the folder of one experiment; its results.json comes last, and says what else is there."""
    target = archive.folder(out / experiment.name)
    before = files(read(target / RESULTS))
    for name, columns in analysis.tables.items():
        _write_table(target / f"{name}.parquet", columns)
    _finish(experiment, found, before, target)


def render(experiment: Experiment, out: Path) -> bool:
    """Draw the figures of an experiment again from the numbers in its folder; False if there are none."""
    target = out / experiment.name
    found = read(target / RESULTS)
    if found:
        _finish(experiment, found, files(found), target)
    return bool(found)


def _finish(experiment: Experiment, found: Record, before: set[str], target: Path) -> None:
    """Draw from what is kept, write results.json, and take away files of an earlier run."""
    described = {}
    for name, plate in draw(experiment, found, target).items():
        described[name] = describe(name, plate)
        for file, figure in plate.drawings(name).items():
            with replacing(target / f"{file}.svg") as part:
                part.write_text(svg.small(figure), encoding="utf-8")
    complete = {**found, "figures": described}
    with replacing(target / RESULTS) as part:
        part.write_text(text(complete), encoding="utf-8")
    for name in before - files(complete):
        (target / name).unlink(missing_ok=True)


def describe(name: str, plate: Plate) -> Record:
    """A figure in words, and its drawings by file, each with its alternative text."""
    words = {key: getattr(plate, key) for key in SAID}
    drawings = {file: str(figure.get_label()) for file, figure in plate.drawings(name).items()}
    return {**words, "drawings": drawings}


def draw(experiment: Experiment, found: Record, target: Path) -> dict[str, Plate]:
    """The figures of an experiment by name, from the numbers and tables that its folder holds."""
    module = importlib.import_module(f"research.paper.report.{experiment.name}")
    tables = {name: _read_table(target / f"{name}.parquet") for name in found["tables"]}
    drawn: dict[str, Plate] = module.draw(
        setting_of(experiment, found), Analysis(numbers=found["numbers"], tables=tables)
    )
    return drawn


def setting_of(experiment: Experiment, found: Record) -> Any:
    """The setting in which results were found."""
    for quick in (False, True):
        setting = replace(experiment.setting(quick=quick), seeds=tuple(found["seeds"]))
        if digest(settled(asdict(setting))) == found["setting_sha256"]:
            return setting
    raise DataError(
        f"the results of {experiment.name} are of a setting that this code does not have; run them again: "
        f"python -m research reproduce {experiment.name}"
    )


def read(path: Path) -> Record:
    """A results.json again; empty if it is not there or cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    drawn = found.get("figures", {})
    if not all(isinstance(about, dict) and about.keys() >= set(SAID) for about in drawn.values()):
        found["figures"] = {}  # of an earlier form: to be drawn again
    return found


def files(found: Record) -> set[str]:
    """The files that results.json speaks of."""
    tables = {f"{name}.parquet" for name in found.get("tables", ())}
    drawn = found.get("figures", {}).values()
    return tables | {f"{name}.svg" for plate in drawn for name in plate["drawings"]}


def _write_table(path: Path, columns: Columns) -> None:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({name: settled(list(column)) for name, column in columns.items()})
    with replacing(path) as part:
        parquet.write_table(table, part)


def _read_table(path: Path) -> Columns:
    from pyarrow import parquet

    try:
        columns: Columns = parquet.read_table(path).to_pydict()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error}; run the experiment again to have it") from None
    return columns
