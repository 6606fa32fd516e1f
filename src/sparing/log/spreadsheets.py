"""Sheets of workbooks (.xlsx, .xlsm, .xlsb, .xls, .ods) as tables.

A sheet has titles above its header, empty rows and columns around its table, merged cells, and columns of several types.
Values are those that the program has computed last: of a formula its result, of an error (#N/A, #DIV/0!) nothing.
"""

import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from sparing.errors import LogError, require
from sparing.log.features import cells
from sparing.log.labels import shorten, suggest
from sparing.log.text_files import first_line

if TYPE_CHECKING:
    import pyarrow as pa

HEADER_ROWS = 50
"""Rows that are not empty among which the header is searched."""

Cells = list[list[Any]]


@dataclass(frozen=True)
class Sheet:
    """A sheet's table, its name, the number in the sheet of each row, from 1 on, and what was assumed, in words."""

    table: "pa.Table"
    name: str
    row_numbers: np.ndarray
    assumed: tuple[str, ...]


def read_sheet(content: bytes, path: str, wanted: str | int | None = None) -> Sheet:
    """Read the wanted sheet of a workbook, by its name or its number from 1 on; by default the first that is not empty."""
    calamine = require("python_calamine", extra="excel", purpose=f"reading the spreadsheet {path}")
    _check_area(content, path)
    try:
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(content))
        sheets = [each for each in book.sheets_metadata if each.typ == calamine.SheetTypeEnum.WorkSheet]
        names = [each.name for each in sheets]
        hidden = {each.name for each in sheets if each.visible != calamine.SheetVisibleEnum.Visible}
        name, rows, sheet = _chosen(book, path, names, hidden, wanted)
    except calamine.PasswordError:
        raise LogError(f"{path} is protected by a password. Save it without one") from None
    except calamine.CalamineError as error:
        raise LogError(f"{path} cannot be read as a spreadsheet: {first_line(error)}") from None
    _fill_merged(rows, sheet.merged_cell_ranges or ())
    head = _header_row(rows)
    if head is None:
        raise LogError(
            f"{path}, sheet {shorten(name)} has no table; expected a row of column names, and rows below it"
        )
    table, kept, notes = _table(rows, head)
    if wanted is None and len(names) > 1:
        others = ", ".join(shorten(each) for each in names if each != name)
        notes.insert(0, f"the sheet {shorten(name)} (there is also {others}; sheet=NAME selects one)")
    if head:
        notes.insert(1 if wanted is None and len(names) > 1 else 0, f"column names in row {head + 1}")
    return Sheet(table, name, kept + 1, tuple(notes))


MOST_CELLS = 2**25
"""Cells of a sheet from its first to its last one: a million rows of 32 columns."""

CELL = re.compile(rb'<(?:\w+:)?c\b[^>]*?\br="([A-Z]{1,3})([0-9]{1,7})"[^>]*(?<!/)>')
"""A cell of Office Open XML that is not empty."""

READ_AHEAD = 2**20
MOST_BYTES = 2**31


def _check_area(content: bytes, path: str) -> None:
    """Refuse a workbook with a cell so far from the others that the area between them does not fit in memory.

    Binary workbooks and OpenDocument are not checked.
    """
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as book:
            if sum(each.file_size for each in book.infolist()) > MOST_BYTES:
                raise LogError(
                    f"{path} has more than {MOST_BYTES:,} bytes when it is unpacked. Save it as CSV"
                )
            for name in book.namelist():
                if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                    with book.open(name) as file:
                        _check_cells(file, path)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise LogError(f"{path} cannot be read as a spreadsheet: {first_line(error)}") from None


def _check_cells(file: IO[bytes], path: str) -> None:
    rest, columns, rows = b"", 0, 0
    while block := file.read(READ_AHEAD):
        block = rest + block
        end = block.rfind(b"<")  # the last tag may be cut off
        for letters, row in set(CELL.findall(block, 0, end)):
            columns, rows = max(columns, _column_number(letters)), max(rows, int(row))
            if columns * rows > MOST_CELLS:
                raise LogError(
                    f"{path} has a cell at {letters.decode()}{row.decode()}, which makes a table of {rows:,} rows and {columns:,} columns; at most "
                    f"{MOST_CELLS:,} cells are read. Delete cells far from the table, or save it as CSV"
                )
        rest = block[end:] if 0 <= len(block) - end < READ_AHEAD else b""


def _column_number(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + letter - ord("A") + 1
    return number


def _chosen(
    book: Any, path: str, names: Sequence[str], hidden: set[str], wanted: str | int | None
) -> tuple[str, Cells, Any]:
    """The name of the wanted sheet, its rows from the first on, and the sheet."""
    if wanted is not None:
        found = next((name for name in names if name == wanted), None) or _numbered(names, wanted)
        if found is None:
            near = suggest(wanted, names)
            guess = "" if near is None else f" Did you mean {shorten(near)}?"
            raise LogError(
                f"{path} has no sheet {shorten(wanted)}; it has {', '.join(map(shorten, names))}.{guess} Pass sheet=NAME, or its number from 1 on"
            )
        names, hidden = [found], set()
    for name in [each for each in names if each not in hidden] or names:
        sheet = book.get_sheet_by_name(name)
        rows = sheet.to_python(skip_empty_area=False)
        if any(cell != "" for row in rows for cell in row):
            return name, rows, sheet
    shown = f"the sheet {shorten(names[0])} is" if len(names) == 1 else "all its sheets are"
    raise LogError(f"{path} has no rows: {shown} empty")


def _numbered(names: Sequence[str], wanted: str | int) -> str | None:
    number = int(wanted) if str(wanted).isascii() and str(wanted).isdigit() else 0
    return names[number - 1] if 0 < number <= len(names) else None


def _fill_merged(rows: Cells, ranges: Sequence[tuple[tuple[int, int], tuple[int, int]]]) -> None:
    """Put the value of merged cells into all rows that they cover, in their first column: headers and rows of data go on below.

    A column beside has no name of its own, and titles that span many columns must not look like a header.
    """
    for (top, left), (bottom, _) in ranges:
        for row in range(top + 1, min(bottom + 1, len(rows))):
            rows[row][left] = rows[top][left]


def _header_row(rows: Cells) -> int | None:
    """The first row with the most texts among the first ones: titles have fewer, rows of data have numbers too."""
    there = [place for place, row in enumerate(rows) if any(cell != "" for cell in row)][:HEADER_ROWS]
    texts = [sum(isinstance(cell, str) and cell.strip() != "" for cell in rows[place]) for place in there]
    return there[texts.index(max(texts))] if any(texts) else None


def _table(rows: Cells, head: int) -> "tuple[pa.Table, np.ndarray, list[str]]":
    """The table below a header, the place of each of its rows, and what was assumed."""
    import pyarrow as pa

    kept = [place for place in range(head + 1, len(rows)) if any(cell != "" for cell in rows[place])]
    names, arrays, notes = [], [], []
    seen: Counter[str] = Counter()
    for column, title in enumerate(rows[head]):
        cells_ = [rows[place][column] for place in kept]
        name = _text(title).strip()
        if not name and all(cell == "" for cell in cells_):
            continue
        name = name or f"Unnamed: {column}"
        seen[name] += 1
        if seen[name] > 1:
            again = f"{name} ({seen[name]})"
            notes.append(f"{shorten(again)} for the column that is the {seen[name]}. {shorten(name)}")
            name = again
        array, note = _column([None if cell == "" else cell for cell in cells_])
        names.append(name)
        arrays.append(array)
        notes += [f"{shorten(name)} {note}"] if note else []
    return pa.table(dict(zip(names, arrays, strict=True))), np.array(kept, dtype=np.int64), notes


def _column(values: list[Any]) -> "tuple[pa.Array, str]":
    """Cells as a column of one type, text where they are of several; and what was assumed."""
    import pyarrow as pa

    kinds = {_kind(value) for value in values if value is not None}
    if not kinds:
        return pa.nulls(len(values)), ""
    if kinds == {"number"}:
        whole = all(value is None or (float(value).is_integer() and abs(value) < 2**53) for value in values)
        return pa.array(values, pa.float64()).cast(pa.int64() if whole else pa.float64()), ""
    if kinds == {"time of day"}:
        hours = [None if value is None else _hours(value) for value in values]
        return pa.array(hours, pa.float64()), "as hours"
    if kinds == {"bool"}:
        return pa.array(values, pa.bool_()), ""
    if kinds == {"date"}:
        midnight = time()
        moments = [v if isinstance(v, datetime | None) else datetime.combine(v, midnight) for v in values]
        return pa.array(moments, pa.timestamp("us")), ""
    # Numbers among texts of numbers must be read alike with a decimal point and with a comma.
    numerals = all(cells.is_numeral(value) for value in values if isinstance(value, str) and value.strip())
    texts = [None if value is None else _text(value, power=numerals) for value in values]
    return pa.array(texts, pa.string()), ""


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, date):
        return "date"
    return "time of day" if isinstance(value, time | timedelta) else "text"


def _hours(value: time | timedelta) -> float:
    if isinstance(value, time):
        value = datetime.combine(date.min, value) - datetime.min
    return value / timedelta(hours=1)


def _text(value: Any, *, power: bool = False) -> str:
    """A cell as text: 5.0 is 5; with `power`, 12.5 is 125e-1."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        word = cells.as_word(value)
        if power and "." in word:
            power_of_ten = Decimal(word).as_tuple().exponent
            word = f"{Decimal(word).scaleb(-int(power_of_ten)):f}e{power_of_ten}"
        return word
    if isinstance(value, datetime):
        return value.isoformat(" ") if value.time() != time() else value.date().isoformat()
    return value.isoformat() if isinstance(value, date) else str(value)
