"""From any format to any other, saying what is assumed and what is lost."""

import os
from typing import Any

from sparing.log.formats import read_any, write_any
from sparing.log.log import Log

__all__ = ["convert", "read_any", "write_any"]


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
