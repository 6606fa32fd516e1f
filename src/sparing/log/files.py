"""Files as they lie on disk: plain, or packed by gzip, which is told by its first two bytes."""

import csv
import gzip
import zlib
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from sparing.errors import LogError

GZIP = b"\x1f\x8b"
PACKED = ".gz"

DAMAGE = (pa.ArrowException, OSError, EOFError, zlib.error, csv.Error, UnicodeDecodeError)
"""What reading a truncated or damaged file may raise."""


def is_packed(path: Path) -> bool:
    """Whether a file is packed by gzip, whatever its name."""
    with path.open("rb") as file:
        return file.read(2) == GZIP


def unpacked(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked on the way where it is packed."""
    return gzip.open(path, "rb") if is_packed(path) else path.open("rb")  # type: ignore[return-value]


def arrow_stream(path: Path) -> Any:
    """The same for Arrow's own readers."""
    return pa.CompressedInputStream(pa.OSFile(str(path)), "gzip") if is_packed(path) else pa.OSFile(str(path))


def ending(path: Path) -> str:
    """A path's ending in small letters, without that of gzip: .csv for log.csv.gz."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() if last == PACKED else last


class readable:  # noqa: N801 (a context manager read as a word)
    """Turn the errors of reading a damaged file into ours."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, DAMAGE):
            raise LogError(f"{self.path} is truncated or damaged: {first_line(error)}") from None


def first_line(error: BaseException) -> str:
    """The first line of an error's message, short enough to repeat."""
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
