"""Lines of text and JSON records, one at a time, each with the place it stands at for error messages."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sparing.errors import LogError
from sparing.log.files import readable, unpacked
from sparing.log.parsing import brief, load_json

LONGEST_LINE = 2**26
"""Bytes that a line may have: one event must fit in memory many times over."""


def is_path(source: Any) -> bool:
    """Whether a source names a file."""
    return isinstance(source, str | os.PathLike)


def text_lines(path: str | os.PathLike[str]) -> Iterator[tuple[str, str]]:
    """Each line of a UTF-8 file without its end, with its place: («log.vw, line 3», «1:0:0.5 | a»).

    A file packed by gzip is unpacked on the way.
    """
    target = Path(path)
    if not target.is_file():
        raise LogError(f"{target} does not exist or is not a file")
    with readable(target), unpacked(target) as file:
        for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), 1):
            where = f"{target.name}, line {number}"
            if len(raw) > LONGEST_LINE:
                raise LogError(f"{where} has more than {LONGEST_LINE:,} bytes; expected an event a line")
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise LogError(
                    f"{where}: byte {error.start} is not UTF-8; the file is damaged, compressed or of another "
                    "encoding. Unpack it, or convert it to UTF-8"
                ) from None
            line = line.rstrip("\r\n")
            if "\r" in line:
                raise LogError(
                    f"{where}: a carriage return within the line {brief(line)}; lines end in a line feed, or in both. "
                    "Convert the file's line ends"
                )
            yield where, line


class Records:
    """JSON values, one a line of a file, or the items of a sequence; can be walked more than once.

    `objects_only`: lines that do not begin with a brace are skipped and counted, as Vowpal Wabbit does.
    """

    def __init__(self, source: Any, expected: str, *, objects_only: bool = False) -> None:
        self.expected, self.objects_only = expected, objects_only
        self.skipped = 0
        self.source = source
        if is_path(source):
            self.name = Path(source).name
        else:
            self.name = f"the {type(source).__name__}"
            self.source = source if isinstance(source, Sequence) else _listed(source, expected)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        if not is_path(self.source):
            for row, item in enumerate(self.source):
                yield f"row {row}", item
            return
        self.skipped = 0
        for where, line in text_lines(self.source):
            if self.objects_only and line.strip() and not line.lstrip().startswith("{"):
                self.skipped += 1
            elif line.strip():
                yield where, self._parsed(line, where)

    def _parsed(self, line: str, where: str) -> Any:
        try:
            return load_json(line)
        except ValueError as error:
            raise LogError(
                f"{where} is not whole JSON ({error}): {brief(line)}; expected {self.expected}. "
                "A last line that was cut off can be deleted"
            ) from None


def _listed(source: Any, expected: str) -> list[Any]:
    if not isinstance(source, Iterable):
        raise LogError(f"cannot read {type(source).__name__}; expected a path, or a list of {expected}")
    return list(source)
