"""Which line of a text file a row is: rows are counted from 0, lines as an editor does, from 1 and with the header."""

import contextlib
import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def of_csv(stream: Any, name: str, mark: str) -> Iterator[str]:
    """The line on which each row of a CSV file begins; lines with nothing on them are no rows."""
    with contextlib.suppress(csv.Error, OSError, UnicodeDecodeError):
        rows = csv.reader(io.TextIOWrapper(stream, "utf-8-sig", newline=""), delimiter=mark)
        header, end = False, 0
        for cells in rows:
            if cells and header:
                yield f"line {end + 1} of {name}"
            header, end = header or bool(cells), rows.line_num


def of_json(path: Path) -> Iterator[str]:
    """The line of each row of a file of JSON lines."""
    from sparing.log.formats.records import text_lines

    for where, line in text_lines(path):
        if line.strip():
            yield f"line {where.rpartition(' ')[2]} of {path.name}"
