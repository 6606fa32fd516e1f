"""From any format to any other, saying what is assumed and what is lost."""

import os
from typing import Any

from sparing.engines import Progress
from sparing.log.formats import named, read_any, scan_any, to_write, write_any
from sparing.log.rows import AnyLog
from sparing.log.text_files import is_path

__all__ = ["convert", "read_any", "scan_any", "write_any"]


def convert(
    source: Any,
    target: str | os.PathLike[str],
    source_format: str | None = None,
    target_format: str | None = None,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> tuple[AnyLog, list[str], list[str]]:
    """Read (with the format's own options) and write; returns the log, what was assumed, what was lost.

    A file, or for tables a folder, a pattern or a URI, is walked: memory does not grow with its rows, and the log that is
    returned is one such as `sparing.scan` gives. What is in memory stays there. `progress(done, total)` is told of every walk,
    how many of the rows or parts it has seen; the total is 0 until it is known. The target takes its name when it is whole.
    """
    written = named(target_format) if target_format else to_write(target)  # refused before long work
    log: AnyLog
    if is_path(source):
        log, assumed = scan_any(source, source_format, progress=progress, **options)
    else:
        log, assumed = read_any(source, source_format, **options)
    return log, assumed, written.write(log, target)
