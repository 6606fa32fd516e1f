"""What is known of logged decisions beyond what a log holds, written beside it in the way each format allows."""

import csv
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from sparing.archive import replacing
from sparing.log.formats import FORMATS, obp, table, write_any
from sparing.log.log import Log
from sparing.log.text_files import KINDS, WRITTEN
from sparing.log.writer import write_lines

Beside = Mapping[str, Sequence[Any]]
"""Columns (n,) by their names: numbers or texts, some of them nothing."""

TABLES = tuple(dict.fromkeys(KINDS[ending] for ending in WRITTEN))
"""Kinds of tables, which can be asked for by their own names."""

FORMS = (*TABLES, *(name for name in FORMATS if name != "table"))
"""What decisions can be exported as."""

ENDING = ".beside.csv"
"""Ends the name of a file that has what another one's format has no place for."""

JSON_LINES = {"coba": "", "dsjson": "", "vw-json": "_"}
"""Formats of an object a line, and how a field's name must begin that is no feature."""


def ending(form: str) -> str:
    """How the name of a file in a format ends."""
    if form in TABLES:
        return next(end for end, kind in KINDS.items() if kind == form)
    if form == "table":
        return ".parquet"
    found = FORMATS[form]
    return found.ending or (".jsonl" if ".jsonl" in found.endings else found.endings[0])


def write(log: Log, path: Path, form: str, beside: Beside) -> tuple[list[str], Path | None]:
    """Write a log, and what stands beside it; what the format could not carry, and the second file where it takes one."""
    if form in ("table", *TABLES):
        return table.write(log, path, beside=beside), None
    if form == "obp":
        return _into_arrays(log, path, beside), None
    if form in JSON_LINES:
        mark = JSON_LINES[form]
        lines = (json.dumps(one, ensure_ascii=False)[1:] for one in _rows(beside, mark))
        return _appended(log, path, form, lambda line: f"{line[:-1]}, {next(lines)}"), None
    if form == "open-bandit":
        cells = chain([_cells(beside)], map(_cells, zip(*beside.values(), strict=True)))
        return _appended(log, path, form, lambda line: f"{line},{next(cells)}"), None
    notes = write_any(log, path, form)
    second = path.with_name(path.name + ENDING)
    beside = {"row": range(log.n_rows), "play_probability": _propensities(log), **beside}
    write_lines(second, chain([_cells(beside)], map(_cells, zip(*beside.values(), strict=True))))
    said = (
        f"The format has no place for {', '.join(list(beside)[2:])}: they are in {second.name}, a line a row."
    )
    return [*notes, said], second


def _propensities(log: Log) -> list[float]:
    assert log.propensities is not None
    found: list[float] = log.propensities.tolist()
    return found


def _rows(beside: Beside, mark: str) -> Iterator[dict[str, Any]]:
    names = [f"{mark}{name}" for name in beside]
    for row in zip(*beside.values(), strict=True):
        yield {name: value for name, value in zip(names, row, strict=True) if value is not None}


def _cells(values: Any) -> str:
    """One line of CSV."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()


def _appended(log: Log, path: str | os.PathLike[str], form: str, longer: Callable[[str], str]) -> list[str]:
    """Write a log of a line a row, each line made longer."""
    target = Path(path)
    draft = target.with_name(f".{target.name}.draft{ending(form)}")
    try:
        notes = write_any(log, draft, form)
        with draft.open(encoding="utf-8", newline="\n") as file:
            write_lines(target, (longer(line.removesuffix("\n")) for line in file))
    finally:
        draft.unlink(missing_ok=True)
    return notes


def _into_arrays(log: Log, path: Path, beside: Beside) -> list[str]:
    """A feedback with more arrays than its readers look for."""
    feedback, notes = obp.to_feedback(log)
    arrays = {name: np.asarray(value) for name, value in feedback.items() if value is not None}
    more = {name: np.array(["" if one is None else one for one in values]) for name, values in beside.items()}
    with replacing(path) as part, part.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays, **more)
    return notes
