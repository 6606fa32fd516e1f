"""Paths of files: what they hold by their endings, whether they are packed, and errors of reading them in our words."""

import contextlib
import csv
import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from sparing.errors import LogError

KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
"""What a table's file holds, by its ending."""


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
    except (pa.ArrowException, OSError, EOFError, zlib.error, csv.Error, UnicodeDecodeError) as error:
        raise LogError(f"{path} {trouble}: {first_line(error)}") from None


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
        raise LogError(f"{path}: unknown ending {path.suffix!r}; known are {', '.join(KINDS)}")
    return KINDS[ending]
