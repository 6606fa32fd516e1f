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


def table_of(path: Path) -> "pa.Table":
    """The file's rows, read into memory: a field that a line does not have is missing there, a list stays one."""
    import pyarrow as pa

    from sparing.log.formats.records import Records

    columns: dict[str, list[Any]] = {}
    row = -1
    for row, (where, record) in enumerate(Records(path, "an object a line")):
        if not isinstance(record, dict):
            raise LogError(f"{where}: {brief(record)}; expected an object a line, with a field a column")
        for name, value in _fields("", record):
            cells = columns.setdefault(name, [])
            if len(cells) > row:
                raise LogError(f"{where} names {brief(name)} twice; name each field once")
            cells += [None] * (row - len(cells)) + [value]
        if len(columns) > MOST_COLUMNS:
            raise LogError(f"{where}: more than {MOST_COLUMNS:,} fields; expected the same few in every line")
    arrays = {}
    for name, cells in columns.items():
        cells += [None] * (row + 1 - len(cells))
        try:
            arrays[name] = pa.array(cells)
        except (pa.ArrowException, OverflowError) as error:
            raise LogError(
                f"{path}: {brief(name)} does not make a column: {str(error)[:200]}. Every line needs one type there"
            ) from None
    return pa.table(arrays)


def _fields(above: str, record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values of an object and of those within it, each with its dotted name."""
    for key, value in record.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            yield from _fields(f"{name}.", value)
        else:
            yield name, value
