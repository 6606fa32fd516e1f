"""Paths of files: what they hold by their endings, whether they are packed, how text is written in them; errors in our words."""

import codecs
import contextlib
import csv
import gzip
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sparing.errors import LogError, SettingError

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
}
"""What a table's file holds, by its ending."""

WRITTEN = tuple(ending for ending, kind in KINDS.items() if kind != "json")
"""The endings of tables that are written too."""

SHEET = ". Save the sheet as CSV (UTF-8)"
LINES = ". Where it has an object a line, call it .jsonl"
OTHERS = {".xlsx": SHEET, ".xls": SHEET, ".ods": SHEET, ".json": LINES}
"""What to do about files that are often tried."""


def is_path(source: Any) -> bool:
    """Whether a source names a file."""
    return isinstance(source, str | os.PathLike)


def is_packed(path: Path) -> bool:
    """Whether a file is packed by gzip, whatever its name: its first two bytes tell."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def unpacked(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked on the way where it is packed."""
    return gzip.open(path, "rb") if is_packed(path) else path.open("rb")  # type: ignore[return-value]


def is_table(path: Path) -> bool:
    """Whether a file is a table by its ending."""
    return ending_of(path) in KINDS


def ending_of(path: Path) -> str:
    """A path's ending in small letters, without that of gzip: .csv for log.csv.gz."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() if last == ".gz" else last


@contextlib.contextmanager
def readable(path: Path | str, trouble: str = "is truncated or damaged") -> Iterator[None]:
    """Turn the errors of reading a damaged file into ours."""
    import pyarrow as pa

    try:
        yield
    except UnicodeDecodeError as error:
        raise LogError(f"{path} is {_not_utf8(error.object)}") from None
    except pa.ArrowInvalid as error:
        if "invalid UTF8" in str(error):
            raise LogError(f"{path} is {_not_utf8(b'')}") from None
        raise LogError(f"{path} {trouble}: {first_line(error)}") from None
    except (pa.ArrowException, OSError, EOFError, zlib.error, csv.Error) as error:
        raise LogError(f"{path} {trouble}: {first_line(error)}") from None


def _not_utf8(begin: bytes) -> str:
    """What a file that is no text in UTF-8 is, by the bytes that it begins with, and what to do about it."""
    if begin.startswith(b"PK"):
        return "a packed file (zip), as Excel's workbooks are, not text. Save the sheet as CSV (UTF-8)"
    if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "text in UTF-16; expected UTF-8. Save it as UTF-8: iconv -f UTF-16 -t UTF-8 OLD > NEW"
    return (
        "not text in UTF-8; it may be in Windows' or another old encoding. Save it as UTF-8 (in Excel: CSV UTF-8), or turn it: "
        "iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW"
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's message, short enough to repeat."""
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__


def existing(path: str | os.PathLike[str]) -> Path:
    """The path of a file that is there."""
    target = Path(path)
    if not target.is_file():
        raise LogError(f"{target} does not exist or is not a file")
    return target


def kind_of(path: Path, ending: str) -> str:
    """What a table's file of this ending holds."""
    if ending not in KINDS:
        raise LogError(
            f"{path}: unknown ending {path.suffix!r}; known are {', '.join(KINDS)}{OTHERS.get(ending, '')}"
        )
    return KINDS[ending]


MARKS = (",", ";", "\t")
TAB = {"tab": "\t", "\\t": "\t"}
LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)?")


@dataclass(frozen=True)
class Dialect:
    """How text files are written: what parts their cells, and whether their numbers have a decimal point or comma.

    Without a `delimiter` it is the one of comma, semicolon and tab that parts a file's header line into most names.
    """

    delimiter: str | None = None
    decimal: str | None = None

    def __post_init__(self) -> None:
        delimiter = TAB.get(self.delimiter or "", self.delimiter)
        if delimiter is not None and not (
            isinstance(delimiter, str)
            and len(delimiter) == 1
            and delimiter.isascii()
            and delimiter not in '"\r\n'
        ):
            raise SettingError(
                f"delimiter={self.delimiter!r}; must be one character such as ; or |, or 'tab'"
            )
        if self.decimal not in (None, ".", ","):
            raise SettingError(f"decimal={self.decimal!r}; must be '.' or ','")
        object.__setattr__(self, "delimiter", delimiter)

    def header(self, text: str) -> tuple[str, list[str]]:
        """What parts the cells, and the names in the first line."""
        found = {}
        for mark in MARKS if self.delimiter is None else ():
            with contextlib.suppress(csv.Error):  # the header is quoted, and parted by another character
                found[mark] = _names(text, mark)
        best = max(found, key=lambda mark: len(found[mark]), default=",")
        mark = self.delimiter or (best if len(found.get(best, ())) > 1 else ",")
        return mark, _names(text, mark)


def _names(text: str, mark: str) -> list[str]:
    """The cells of the first line that has something on it."""
    lines = (found[0] for found in LINE.finditer(text))
    return next(filter(None, csv.reader(lines, delimiter=mark, strict=True)), [])
