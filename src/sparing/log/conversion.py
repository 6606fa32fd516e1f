"""From any format to any other, saying what is assumed and what is lost."""

import os
from typing import Any

from sparing.errors import LogError
from sparing.log import formats
from sparing.log.log import Log
from sparing.log.reading import read_table
from sparing.log.table import FORMATS as TABLES
from sparing.log.writing import write_table

TABLE = "table"


def read_any(source: Any, format: str | None = None, **options: Any) -> tuple[Log, list[str]]:
    """Read a log in any format, and what was assumed; `format` names it, else it is told by its content."""
    if format == TABLE:
        return read_table(source, **options), []
    found = formats.named(format) if format else formats.detect(source)
    if found is None:
        return read_table(source, **options), []
    return found.read(source, **options)


def write_any(log: Log, path: str | os.PathLike[str], format: str | None = None) -> list[str]:
    """Write a log in any format, by name or by the path's ending; returns what could not be carried."""
    chosen = formats.to_write(path) if format is None else None if format == TABLE else formats.named(format)
    if chosen is not None:
        return chosen.write(log, path)
    if format is None and os.path.splitext(path)[1].lower() not in TABLES:
        endings = [*TABLES, *(each.ending for each in formats.FORMATS.values() if each.ending)]
        raise LogError(
            f"{path}: unknown ending; known are {', '.join(endings)}. Or name the format: "
            f"{TABLE}, {', '.join(formats.FORMATS)}"
        )
    write_table(log, path)
    return []


def convert(
    source: Any,
    target: str | os.PathLike[str],
    source_format: str | None = None,
    target_format: str | None = None,
) -> tuple[Log, list[str], list[str]]:
    """Read, then write; returns the log, what was assumed and what was lost."""
    log, assumed = read_any(source, source_format)
    return log, assumed, write_any(log, target, target_format)
