"""Text files and paths: kinds by ending, gzip, CSV dialects, JSON lines, line numbers, and readable errors."""

import codecs
import contextlib
import csv
import gzip
import io
import itertools
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sparing.errors import LogError, SettingError
from sparing.log.labels import shorten

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "json",
    ".ndjson": "json",
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), "spreadsheet"),
}
WRITTEN = tuple(ending for ending, kind in KINDS.items() if kind not in ("json", "spreadsheet"))

UNSUPPORTED_ENDINGS = {".json": ". If it has one object per line, rename it to .jsonl"}

GZIP = b"\x1f\x8b"
DELIMITER = re.compile(r'[^"\r\n\x80-\U0010ffff]')
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
TAB = {"tab": "\t", "\\t": "\t"}
LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)?")

# With more columns, field names are assumed to contain ids by mistake.
MAX_JSON_COLUMNS = 10_000

NUMBER = "a number"
JSON_TYPES = {bool: "a truth value", int: NUMBER, float: NUMBER, str: "a text", list: "a list"}
ONE_TYPE = "Make it one kind in every line, or leave it out: name the columns to take with contexts=[...]"


def is_path(source: Any) -> bool:
    return isinstance(source, str | os.PathLike)


def is_gzip(path: Path) -> bool:
    """Whether a file is compressed by gzip, by its first two bytes, regardless of its name."""
    with path.open("rb") as file:
        return file.read(2) == GZIP


def open_text(path: Path) -> IO[bytes]:
    """Open a file for reading bytes, decompressed if it is a gzip file."""
    return gzip.open(path, "rb") if is_gzip(path) else path.open("rb")  # type: ignore[return-value]


def is_table(path: Path) -> bool:
    return ending_of(path) in KINDS


def ending_of(path: Path) -> str:
    """A path's ending in lower case, before that of gzip: .csv for log.csv.gz."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() if last == ".gz" else last


def existing(path: str | os.PathLike[str]) -> Path:
    """The path of a file; an error if it does not exist."""
    target = Path(path)
    if not target.is_file():
        raise LogError(f"{target} does not exist or is not a file")
    return target


def kind_of(path: Path, ending: str) -> str:
    """The kind of table with this ending."""
    if ending not in KINDS:
        hint = UNSUPPORTED_ENDINGS.get(ending, "")
        raise LogError(f"{path}: unknown ending {path.suffix!r}; known are {', '.join(KINDS)}{hint}")
    return KINDS[ending]


@contextlib.contextmanager
def readable_errors(path: Path | str, trouble: str = "is truncated or damaged") -> Iterator[None]:
    """Raise the errors of reading a damaged file as `LogError`."""
    import pyarrow as pa

    try:
        yield
    except UnicodeDecodeError as error:
        raise LogError(f"{path} is {_not_utf8(error.object)}") from None
    except (pa.ArrowException, OSError, EOFError, zlib.error, csv.Error) as error:
        if isinstance(error, pa.ArrowInvalid) and "invalid UTF8" in str(error):
            raise LogError(f"{path} is {_not_utf8(b'')}") from None
        raise LogError(f"{path} {trouble}: {first_line(error)}") from None


def _not_utf8(begin: bytes) -> str:
    if begin.startswith(b"PK"):
        return "a zip file, such as an Excel workbook, not text. If it is a workbook, rename it to .xlsx"
    return (
        "not text in UTF-8; it may be in Windows' or another old encoding. Pass the encoding of a CSV file, such as "
        "encoding='cp1252', or save it as UTF-8 (in Excel: CSV UTF-8)"
    )


UTF8 = "utf-8-sig"
BOMS = {
    codecs.BOM_UTF8: UTF8,
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""What files of each encoding begin with; that of UTF-32 begins like that of UTF-16."""

WESTERN = ("äöüß", "àâçéèêëîïôûùüœæ", "áéíñóúü", "ãáâàçéêíóôú", "àèéìòù", "åäöæøé")
CENTRAL = ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "ăâîşţ", "čćđšž")
CODE_PAGES = {
    "cp1252": WESTERN,
    "cp1250": CENTRAL,
    "iso8859_15": WESTERN,
    "iso8859_2": CENTRAL,
    "cp1251": ("абвгдежзийклмнопрстуфхцчшщъыьэюяёіїєґ",),
    "cp1253": ("αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώϊϋ",),
    "cp1254": ("çğıöşü",),
    "cp1257": ("āčēģīķļņšūž", "ąčęėįšųūž", "äõöüšž"),
}
"""Old encodings, the likelier first, with letters beyond ASCII of languages that are written in them; cp1252 has Latin-1 in it."""

OF_ALL = frozenset("€£§°«»–—‘’“”„…\u00a0")
"""Signs that texts of any language have."""

LESS_LIKELY = 0.9
"""Factor of the score of every encoding but the first, so that few letters, or those of several languages, do not decide."""

GUESSED_BYTES = 2**16
"""Bytes of lines with other letters than ASCII from which an encoding is guessed."""


WORD = re.compile(r"[^\W\d_]+")


def _guess_encoding(content: bytes) -> str:
    """The encoding in which most letters beyond ASCII are those of one language, and of two.

    In Latin scripts they stand among ASCII letters, in others they do not; capitals do not follow small letters.
    """
    scores = {}
    for encoding, languages in CODE_PAGES.items():
        text = content.decode(encoding, errors="replace")
        total = sum(not letter.isascii() for letter in text)
        latin = encoding not in ("cp1251", "cp1253")
        words = [
            word.lower()
            for word in WORD.findall(text)
            if (word.islower() or word.isupper() or word.istitle())
            and (len(word) == 1 or latin == any(map(str.isascii, word)))
        ]
        counts = Counter(letter for word in words for letter in word if not letter.isascii())
        counts.update(letter for letter in text if letter in OF_ALL)
        covered = [{*language} | OF_ALL for language in languages]
        shares = [
            max(sum(counts[letter] for letter in one | two if letter in counts) for one, two in pairs)
            for pairs in (zip(covered, covered, strict=True), itertools.product(covered, covered))
        ]
        likely = 1.0 if encoding == "cp1252" else LESS_LIKELY
        scores[encoding] = likely * sum(shares) / max(1, total)
    return max(scores, key=scores.__getitem__)


def encoding_of(head: bytes, name: str) -> tuple[str, str]:
    """Return the encoding of a text file that begins with these bytes, and what was assumed; empty for UTF-8."""
    for bom, encoding in BOMS.items():
        if head.startswith(bom):
            said = f"the encoding {encoding.upper()}, by its first bytes"
            return encoding, "" if encoding == UTF8 else said
    try:
        codecs.getincrementaldecoder(UTF8)().decode(head)
    except UnicodeDecodeError:
        pass
    else:
        if b"\0" not in head[:GUESSED_BYTES]:
            return UTF8, ""
    if head.startswith(b"PK\3\4"):
        raise LogError(f"{name} is {_not_utf8(head)}")
    zeros = [head[start:GUESSED_BYTES:2].count(0) for start in (0, 1)]
    if max(zeros) > 0.4 * len(head[:GUESSED_BYTES:2]) and min(zeros) == 0:
        encoding = "utf-16-be" if zeros[0] else "utf-16-le"
        return encoding, f"the encoding {encoding.upper()}"
    if any(zeros):
        raise LogError(f"{name} has bytes 0, which no text has; expected a text file")
    lines = b"\n".join(line for line in head.splitlines() if not line.isascii())[:GUESSED_BYTES]
    encoding = _guess_encoding(lines)
    return encoding, f"the encoding {encoding}, by its letters (encoding=NAME sets another)"


def first_line(error: BaseException) -> str:
    """The first line of an error's message, at most 200 characters."""
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__


@dataclass(frozen=True)
class Dialect:
    """How files of people write tables: delimiter and encoding of a text file, decimal mark, order of dates, sheet.

    Without a delimiter, it is the one of comma, semicolon and tab that splits the header into most names. Decimal mark and
    order are those of columns that do not show them. A sheet has a name, or a number from 1 on.
    """

    delimiter: str | None = None
    decimal: str | None = None
    dates: str | None = None
    encoding: str | None = None
    sheet: str | int | None = None

    def __post_init__(self) -> None:
        delimiter = TAB.get(self.delimiter or "", self.delimiter)
        if delimiter is not None and not (isinstance(delimiter, str) and DELIMITER.fullmatch(delimiter)):
            raise SettingError(
                f"delimiter={self.delimiter!r}; must be one character such as ; or |, or 'tab'"
            )
        if self.decimal not in (None, ".", ","):
            raise SettingError(f"decimal={self.decimal!r}; must be '.' or ','")
        if self.dates not in (None, "day-first", "month-first"):
            raise SettingError(f"dates={self.dates!r}; must be 'day-first' or 'month-first'")
        if self.encoding is not None and not _is_encoding(self.encoding):
            raise SettingError(
                f"encoding={self.encoding!r}; must be that of a text, such as 'utf-8', 'utf-16', 'cp1252' or 'latin-1'"
            )
        if not isinstance(self.sheet, str | int | None) or isinstance(self.sheet, bool):
            raise SettingError(f"sheet={self.sheet!r}; must be the name of a sheet, or its number from 1 on")
        object.__setattr__(self, "delimiter", delimiter)

    def header(self, text: str) -> tuple[str, list[str]]:
        """The delimiter, and the names in the first line that is not empty."""
        found = {}
        for mark in DELIMITERS if self.delimiter is None else ():
            with contextlib.suppress(csv.Error):  # a quoted header with another delimiter
                found[mark] = _header_names(text, mark)
        best = max(found, key=lambda mark: len(found[mark]), default=",")
        mark = self.delimiter or (best if len(found.get(best, ())) > 1 else ",")
        return mark, _header_names(text, mark)


def _is_encoding(name: object) -> bool:
    try:
        return isinstance(name, str) and isinstance("".encode(name), bytes)
    except (LookupError, ValueError):
        return False


def _header_names(text: str, delimiter: str) -> list[str]:
    lines = (found[0] for found in LINE.finditer(text))
    return next(filter(None, csv.reader(lines, delimiter=delimiter, strict=True)), [])


def csv_line_names(stream: Any, name: str, delimiter: str, encoding: str) -> Iterator[str]:
    """The first line of each row of a CSV file, as an editor counts; empty lines are not rows."""
    rows = _csv_rows(stream, delimiter, encoding)
    next(rows, None)
    for first, _, _ in rows:
        yield f"line {first} of {name}"


def _csv_rows(stream: Any, delimiter: str, encoding: str) -> Iterator[tuple[int, int, list[str]]]:
    # The header and each row with its first and last line, up to where the file is not CSV.
    with contextlib.suppress(csv.Error, OSError, UnicodeDecodeError):
        rows = csv.reader(io.TextIOWrapper(stream, encoding, newline=""), delimiter=delimiter)
        end = 0
        for cells in rows:
            if cells:
                yield end + 1, rows.line_num, cells
            end = rows.line_num


def check_csv_cells(stream: Any, name: str, delimiter: str, encoding: str) -> None:
    """Raise for the first row of a CSV file that has another number of cells than the header."""
    rows = _csv_rows(stream, delimiter, encoding)
    _, _, header = next(rows, (0, 0, []))
    odd = next((row for row in rows if len(row[2]) != len(header)), None)
    if odd is None:
        return
    first, last, cells = odd
    mark = DELIMITERS.get(delimiter, delimiter)
    hint = f"Add the missing cells; an empty cell keeps its {mark}"
    if len(cells) > len(header):
        hint = f"Put a cell that holds a {mark} in double quotes, or delete the extra cells"
    if last > first:
        hint = f"A quoted cell continues to line {last}: close its quote, or double a quote that is part of the text"
    if next(rows, None) is None:
        hint += ". If the file was cut off there, delete the line"
    got = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
    raise LogError(f"{name}, line {first} has {got} ({shorten(cells)}); the header has {len(header)}. {hint}")


def json_line_names(path: Path) -> Iterator[str]:
    """The line of each row of a file of JSON lines."""
    from sparing.log.formats.records import text_lines

    for where, line in text_lines(path):
        if line.strip():
            yield f"line {where.rpartition(' ')[2]} of {path.name}"


def read_json_lines(path: Path) -> "tuple[pa.Table, dict[str, str]]":
    """Read a file with one object per line into memory; fields of nested objects get dotted names.

    A field that a line does not have is null there. Also returned are the errors of fields that do not make a column;
    their columns are null. `pyarrow.json` is not used: it neither reports repeated keys and mixed types by their line, nor
    reads whole numbers of more than 64 bits.
    """
    import pyarrow as pa

    arrays, errors = {}, {}
    for name, cells in _json_cells(path).items():
        try:
            arrays[name] = _json_array(cells)
        except (pa.ArrowException, OverflowError) as error:
            arrays[name] = pa.nulls(len(cells))
            errors[name] = _mixed_types(path, name) or (
                f"{path}: {shorten(name)} does not make a column: {str(error)[:200]}. {ONE_TYPE}"
            )
    return pa.table(arrays), errors


def _json_cells(path: Path) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    row = -1
    for row, (where, record) in enumerate(_json_objects(path)):
        for name, value in _flatten("", record):
            cells = columns.setdefault(name, [])
            if len(cells) > row:
                raise LogError(f"{where} names {shorten(name)} twice; name each field once")
            cells += [None] * (row - len(cells)) + [value]
        if len(columns) > MAX_JSON_COLUMNS:
            raise LogError(
                f"{where}: more than {MAX_JSON_COLUMNS:,} fields; expected the same few in every line"
            )
    for cells in columns.values():
        cells += [None] * (row + 1 - len(cells))
    return columns


def _json_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    from sparing.log.formats.records import LISTED, JsonRecords

    for where, record in JsonRecords(path, "an object a line"):
        if not isinstance(record, dict):
            hint = f". {LISTED}" if isinstance(record, list) else ""
            raise LogError(
                f"{where}: {shorten(record)}; expected an object a line, with a field a column{hint}"
            )
        yield where, record


def _flatten(above: str, record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, dict):
            yield from _flatten(f"{above}{key}.", value)
        else:
            yield f"{above}{key}", value


def _json_array(cells: list[Any]) -> "pa.Array":
    import pyarrow as pa

    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, OverflowError):
        types = {type(cell) for cell in cells if cell is not None}
        if not types <= {int, float}:
            raise
        # Whole numbers of more than 64 bits stay exact as their digits, unless other cells are floats.
        convert = float if float in types else str
        return pa.array([None if cell is None else convert(cell) for cell in cells])


def _mixed_types(path: Path, name: str) -> str:
    first: tuple[str, Any, str] | None = None
    for where, record in _json_objects(path):
        for value in (value for key, value in _flatten("", record) if key == name and value is not None):
            kind = JSON_TYPES[type(value)]
            first = first or (kind, value, where)
            if kind != first[0]:
                return (
                    f"{where}: {shorten(name)} is {shorten(value)}, {kind}, but it is {shorten(first[1])}, {first[0]}, at "
                    f"{first[2].rpartition(', ')[2]}; expected one kind. {ONE_TYPE}"
                )
    return ""
