"""From any format to any other, saying what is assumed and what is lost."""

import os
from pathlib import Path
from typing import Any

from sparing.errors import LogError
from sparing.log import formats
from sparing.log.log import Log
from sparing.log.parsing import WHOLE_NUMBER
from sparing.log.reading import TABLE, read_log
from sparing.log.table import FORMATS as TABLES
from sparing.log.writing import write_log


def read_any(source: Any, format: str | None = None, **options: Any) -> tuple[Log, list[str]]:
    """Read a log in any format, and what was assumed; `format` names it, else it is told by its content."""
    found = None if format == TABLE else formats.named(format) if format else formats.detect(source)
    try:
        if found is not None:
            return found.read(source, **options)
        return read_log(source, format=TABLE, **options), []
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise LogError(f"an option does not fit {found.name if found else TABLE}: {error}") from None


def write_any(log: Log, path: str | os.PathLike[str], format: str | None = None) -> list[str]:
    """Write a log in any format, by name or by the path's ending; returns what could not be carried."""
    chosen = formats.to_write(path) if format is None else None if format == TABLE else formats.named(format)
    if chosen is not None:
        return chosen.write(log, path)
    if format is None and Path(path).suffix.lower() not in TABLES:
        endings = [*TABLES, *(each.ending for each in formats.FORMATS.values() if each.ending)]
        raise LogError(
            f"{path}: unknown ending; known are {', '.join(endings)}. Or name the format: "
            f"{TABLE}, {', '.join(formats.FORMATS)}"
        )
    write_log(log, path)
    return _lost_in_csv(log) if Path(path).suffix.lower() == ".csv" else []


def _lost_in_csv(log: Log) -> list[str]:
    """What a text table cannot say."""
    lost = []
    if any(isinstance(name, str) and WHOLE_NUMBER.fullmatch(name) for name in log.action_names):
        lost.append("Labels of text that look like whole numbers read back as whole numbers.")
    if log.support.probabilities is None and (log.counts == 0).any():
        lost.append("Actions that are in no row and no eligible set are not named: read with actions=[...].")
    return lost


def convert(
    source: Any,
    target: str | os.PathLike[str],
    source_format: str | None = None,
    target_format: str | None = None,
    **options: Any,
) -> tuple[Log, list[str], list[str]]:
    """Read (with the format's own options), then write; returns the log, what was assumed, what was lost."""
    log, assumed = read_any(source, source_format, **options)
    return log, assumed, write_any(log, target, target_format)
