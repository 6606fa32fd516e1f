"""The arrays of an .npz, whole or some rows at a time; nothing is unpickled, and nothing is believed of its sizes."""

import contextlib
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import IO, Any

import numpy as np

from sparing.archive import unpacked
from sparing.errors import LogError
from sparing.log.blocks import Blocks
from sparing.log.text_files import first_line

MOST_INFLATED = 1100
"""Bytes that one packed byte can become at most; who claims more is damaged."""

Path = str | os.PathLike[str]


@contextlib.contextmanager
def opened(path: Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    """The archive, and its members by their arrays' names; whatever damage makes its reader raise becomes one error."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            if len(members) < len(archive.infolist()):
                raise ValueError("an array stands in it twice")  # noqa: TRY301 (reported like any damage)
            yield archive, members
    except FileNotFoundError:
        raise LogError(f"{path} does not exist") from None
    except Exception as error:  # a damaged archive or header fails in a dozen ways
        raise LogError(
            f"{path} is no .npz of plain arrays, or it is damaged: {first_line(error)}. Save it with "
            "np.savez(path, **{k: v for k, v in feedback.items() if v is not None})"
        ) from None


def whole(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """An array, without trusting what the archive says of it."""
    with _member(archive, info) as file:
        return unpacked(file.read(info.file_size + 1), info.filename)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{info.filename} is packed in a way that NumPy does not write")
    if info.file_size > MOST_INFLATED * (info.compress_size + 1):
        raise ValueError(f"{info.filename} claims {info.file_size} bytes, more than it can have")
    return archive.open(info)


@dataclass(frozen=True)
class Member:
    """An array whose rows can be read one after the other."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, file: IO[bytes], size: int) -> "Member | None":
        """That of an open file of so many bytes, which then stands at its first row; None where it is not so simple."""
        first = np.lib.format.read_magic(file) == (1, 0)
        parse = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = parse(file)
        simple = dtype.kind in "fiub" and shape and min(shape) > 0 and (not by_columns or len(shape) == 1)
        fits = simple and size - file.tell() == prod(shape) * dtype.itemsize
        return cls(shape, dtype) if fits else None

    def rows(self, file: IO[bytes], many: int) -> np.ndarray:
        """The next rows."""
        needed = many * prod(self.shape[1:]) * self.dtype.itemsize
        content = file.read(needed)
        if len(content) < needed:
            raise ValueError("it ends too early")
        return np.frombuffer(content, self.dtype).reshape(many, *self.shape[1:])


def members_of(path: Path, names: Sequence[str]) -> dict[str, Member] | None:
    """Those of these arrays that are there; None if one of them cannot be read row by row."""
    found: dict[str, Member] = {}
    with opened(path) as (archive, infos):
        for name in names:
            if name in infos:
                with _member(archive, infos[name]) as file:
                    member = Member.of(file, infos[name].file_size)
                if member is None:
                    return None
                found[name] = member
    return found


def rows_of_members(path: Path, members: dict[str, Member]) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Arrays of as many rows each, some rows at a time, each time with their first row."""
    n = next(iter(members.values())).shape[0]
    widest = max(prod(member.shape[1:]) for member in members.values())
    with opened(path) as (archive, infos), contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(_member(archive, infos[name])) for name in members}
        if any(Member.of(files[name], infos[name].file_size) != members[name] for name in members):
            raise ValueError("it has changed since it was opened")
        for rows in Blocks.of_table(n, widest):
            many = rows.stop - rows.start
            yield rows.start, {name: member.rows(files[name], many) for name, member in members.items()}
