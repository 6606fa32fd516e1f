"""Deprecated names of functions that `sparing.log` has now; removed in 0.4."""

import warnings
from collections.abc import Callable
from typing import Any

from sparing.log import formats
from sparing.log.log import Log
from sparing.log.rows import Rows


def _deprecated(old: str, new: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        warnings.warn(
            f"sparing.log.conversion.{old} is deprecated: use {new}", DeprecationWarning, stacklevel=2
        )
        return function(*arguments, **options)

    return call


def _scan(source: Any, format: str | None = None, **options: Any) -> tuple[Rows, list[str]]:
    return formats.open_log(source, format=format, **options)


def _read(source: Any, format: str | None = None, **options: Any) -> tuple[Log, list[str]]:
    rows, notes = _scan(source, format, **options)
    return rows.read(), notes


read_any = _deprecated("read_any", "sparing.read_log(..., notes=True)", _read)
scan_any = _deprecated("scan_any", "sparing.scan", _scan)
write_any = _deprecated("write_any", "sparing.write_log(..., format=...)", formats.write_log)
convert = _deprecated("convert", "sparing.log.convert", formats.convert)
