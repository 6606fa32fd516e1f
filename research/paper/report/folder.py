"""An experiment's folder: its numbers, the data behind its figures, and the figures."""

import importlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from research.paper.experiment import Analysis, Columns, Experiment, Pairs, Record, digest, settled, text
from research.paper.running import libraries
from sparing import __version__, archive
from sparing.archive import replacing
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS = "results.json"


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


def write(experiment: Experiment, setting: Any, found: Record, analysis: Analysis, out: Path) -> None:
    """Write the folder of one experiment; its results.json comes last, and says what else is there."""
    target = archive.folder(out / experiment.name)
    before = _files(read(target / RESULTS))
    for name, columns in analysis.tables.items():
        _write_table(target / f"{name}.parquet", columns)
    drawn = draw(experiment.name, setting, analysis)
    for name, figure in drawn.items():
        figures.save_png(figure, target / f"{name}.png")
    captions = {name: str(figure.get_label()) for name, figure in drawn.items()}
    complete = {**found, "figures": captions}
    with replacing(target / RESULTS) as part:
        part.write_text(text(complete), encoding="utf-8")
    for name in before - _files(complete):
        (target / name).unlink(missing_ok=True)


def draw(name: str, setting: Any, analysis: Analysis) -> "dict[str, Figure]":
    """The figures of an experiment by name, from its tables."""
    module = importlib.import_module(f"research.paper.report.{name}")
    drawn: dict[str, Figure] = module.draw(setting, analysis)
    return drawn


def read(path: Path) -> Record:
    """A results.json again; empty if it is not there or cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _files(found: Record) -> set[str]:
    tables = {f"{name}.parquet" for name in found.get("tables", ())}
    return tables | {f"{name}.png" for name in found.get("figures", ())}


def _write_table(path: Path, columns: Columns) -> None:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({name: settled(list(column)) for name, column in columns.items()})
    with replacing(path) as part:
        parquet.write_table(table, part)
