"""Deprecated names of functions that `sparing.log` has now; removed in 0.3."""

import os
import warnings
from typing import Any

from sparing.engines import Progress
from sparing.log import formats
from sparing.log.log import Log
from sparing.log.rows import AnyLog, Rows


def _deprecated(old: str, new: str) -> None:
    warnings.warn(f"sparing.log.conversion.{old} is deprecated: use {new}", DeprecationWarning, stacklevel=3)


def read_any(source: Any, format: str | None = None, **options: Any) -> tuple[Log, list[str]]:
    """Use `sparing.read_log(..., notes=True)`."""
    _deprecated("read_any", "sparing.read_log(..., notes=True)")
    rows, notes = formats.open_log(source, format=format, **options)
    return rows.read(), notes


def scan_any(
    source: Any, format: str | None = None, *, progress: Progress | None = None, **options: Any
) -> tuple[Rows, list[str]]:
    """Use `sparing.scan`."""
    _deprecated("scan_any", "sparing.scan")
    return formats.open_log(source, format=format, progress=progress, **options)


def write_any(log: AnyLog, path: str | os.PathLike[str], format: str | None = None) -> list[str]:
    """Use `sparing.write_log(..., format=...)`."""
    _deprecated("write_any", "sparing.write_log(..., format=...)")
    return formats.write_log(log, path, format)


def convert(*arguments: Any, **options: Any) -> tuple[AnyLog, list[str], list[str]]:
    """Use `sparing.log.convert`."""
    _deprecated("convert", "sparing.log.convert")
    return formats.convert(*arguments, **options)
