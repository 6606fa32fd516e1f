"""Which line of a text file a row is: rows are counted from 0, lines as an editor does, from 1 and with the header."""

import contextlib
import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparing.errors import LogError
from sparing.log.labels import brief

MARKS = {",": "comma", ";": "semicolon", "\t": "tab"}
"""What most often parts cells."""


def of_csv(stream: Any, name: str, mark: str) -> Iterator[str]:
    """The line on which each row of a CSV file begins; lines with nothing on them are no rows."""
    rows = _rows(stream, mark)
    next(rows, None)
    for first, _, _ in rows:
        yield f"line {first} of {name}"


def _rows(stream: Any, mark: str) -> Iterator[tuple[int, int, list[str]]]:
    """The header and the rows of a CSV file, each with its first line and its last, up to where it is no such file."""
    with contextlib.suppress(csv.Error, OSError, UnicodeDecodeError):
        rows = csv.reader(io.TextIOWrapper(stream, "utf-8-sig", newline=""), delimiter=mark)
        end = 0
        for cells in rows:
            if cells:
                yield end + 1, rows.line_num, cells
            end = rows.line_num


def of_json(path: Path) -> Iterator[str]:
    """The line of each row of a file of JSON lines."""
    from sparing.log.formats.records import text_lines

    for where, line in text_lines(path):
        if line.strip():
            yield f"line {where.rpartition(' ')[2]} of {path.name}"


def check_cells(stream: Any, name: str, mark: str) -> None:
    """Refuse a CSV file with a row of another number of cells than the header has, by its first one."""
    rows = _rows(stream, mark)
    _, _, header = next(rows, (0, 0, []))
    odd = next((row for row in rows if len(row[2]) != len(header)), None)
    cut = ". If the file was cut off there, delete the line" if next(rows, None) is None else ""
    if odd is not None:
        raise LogError(f"{name}, {_odd_row(*odd, len(header), MARKS.get(mark, mark))}{cut}")


def _odd_row(first: int, last: int, cells: list[str], expected: int, mark: str) -> str:
    got = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
    mend = f"Fill in what is missing; a cell with nothing in it keeps its {mark}"
    if len(cells) > expected:
        mend = f"Put a cell that holds a {mark} in double quotes, or delete what is too much"
    if last > first:
        mend = f"In double quotes it goes on to line {last}: close a quote that is open, or double one that is meant"
    return f"line {first} has {got} ({brief(cells)}); the header has {expected}. {mend}"
