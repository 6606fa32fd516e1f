"""JSON lines as a table: an object a line, nested fields under dotted names."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparing.errors import LogError
from sparing.log.labels import brief

if TYPE_CHECKING:
    import pyarrow as pa

MOST_COLUMNS = 10_000
"""Columns beyond which a field is taken to hold an id by mistake."""

KINDS: dict[type, str] = {
    bool: "a truth value",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
}
"""What a value of JSON is called; an object is its fields."""

MEND = "Make it one kind in every line, or leave it out: name the columns to take with contexts=[...]"


def table_of(path: Path, files: Any = None) -> "tuple[pa.Table, dict[str, str]]":
    """The file's rows, read into memory, and what is wrong with the fields that make no column; those are empty.

    A field that a line does not have is missing there, a list stays one. Files of other filesystems than this machine's are refused.
    """
    import pyarrow as pa

    if files is not None:
        raise LogError(f"{path}: JSON lines are read from this machine only. Convert them to Parquet first")
    columns = _columns(path)
    arrays, unfit = {}, {}
    for name, cells in columns.items():
        try:
            arrays[name] = _array(cells)
        except (pa.ArrowException, OverflowError) as error:
            arrays[name] = pa.nulls(len(cells))
            unfit[name] = _kinds_of(path, name) or (
                f"{path}: {brief(name)} does not make a column: {str(error)[:200]}. {MEND}"
            )
    return pa.table(arrays), unfit


def _columns(path: Path) -> dict[str, list[Any]]:
    """The cells of every field, as many as there are lines."""
    columns: dict[str, list[Any]] = {}
    row = -1
    for row, (where, record) in enumerate(_records(path)):
        for name, value in _fields("", record):
            cells = columns.setdefault(name, [])
            if len(cells) > row:
                raise LogError(f"{where} names {brief(name)} twice; name each field once")
            cells += [None] * (row - len(cells)) + [value]
        if len(columns) > MOST_COLUMNS:
            raise LogError(f"{where}: more than {MOST_COLUMNS:,} fields; expected the same few in every line")
    for cells in columns.values():
        cells += [None] * (row + 1 - len(cells))
    return columns


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The object of each line, with its place."""
    from sparing.log.formats.records import LISTED, JsonRecords

    for where, record in JsonRecords(path, "an object a line"):
        if not isinstance(record, dict):
            mend = f". {LISTED}" if isinstance(record, list) else ""
            raise LogError(
                f"{where}: {brief(record)}; expected an object a line, with a field a column{mend}"
            )
        yield where, record


def _fields(above: str, record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values of an object and of those within it, each with its dotted name."""
    for key, value in record.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            yield from _fields(f"{name}.", value)
        else:
            yield name, value


def _array(cells: list[Any]) -> "pa.Array":
    """A column; whole numbers of which one has more than 64 bits stay exact as their digits, unless others are floats."""
    import pyarrow as pa

    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, OverflowError):
        kinds = {type(cell) for cell in cells if cell is not None}
        if not kinds <= {int, float}:
            raise
        convert = float if float in kinds else str
        return pa.array([None if cell is None else convert(cell) for cell in cells])


def _kinds_of(path: Path, name: str) -> str:
    """Which lines hold a field as different kinds of values; empty where all are of one kind."""
    first: tuple[str, Any, str] | None = None
    for where, record in _records(path):
        for value in (value for key, value in _fields("", record) if key == name and value is not None):
            kind = KINDS[type(value)]
            first = first or (kind, value, where)
            if kind != first[0]:
                return (
                    f"{where}: {brief(name)} is {brief(value)}, {kind}, but it is {brief(first[1])}, {first[0]}, at "
                    f"{first[2].rpartition(', ')[2]}; expected one kind. {MEND}"
                )
    return ""
