"""The files behind a path, a folder, a pattern or a URI, as one table: all of them have the same columns.

Folders named `day=2026-01-31` add a column `day` to what lies in them. Files are taken in the order of their names.
"""

import fnmatch
import itertools
import os
import re
import urllib.parse
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.errors import LogError
from sparing.log.labels import WHOLE_NUMBER, brief
from sparing.log.paths import KINDS, Dialect, ending_of, is_path, kind_of, readable
from sparing.log.sources import Source, open_kind, open_source

if TYPE_CHECKING:
    import pyarrow as pa

URI = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
PATTERN = re.compile(r"[*?\[]")

OPENERS = 16
"""Files whose beginnings are looked at at a time."""


def named(source: str) -> str:
    """A source as it may be shown: without the keys that a URI carries."""
    return re.sub(r"(?<=://)[^/@]*@", "", source)


def is_file(source: str) -> bool:
    """Whether a source names one file of this machine, there or not: no folder, no pattern, no URI."""
    path = Path(source)
    return path.is_file() or not (URI.match(source) or PATTERN.search(source) or path.is_dir())


def open_files(source: Any, dialect: Dialect = Dialect()) -> Source:  # noqa: B008
    """A table as `open_source` opens it; or all files of a folder, a pattern (`logs/*.parquet`) or a URI (`s3://…`)."""
    if not is_path(source) or is_file(os.fspath(source)):
        return open_source(source, dialect)
    files, paths, root = _found(os.fspath(source))
    if not paths:
        raise LogError(
            f"no table at {named(os.fspath(source))}; expected a file, or files that end in {', '.join(KINDS)}, in a folder or by a pattern such "
            "as logs/*.parquet"
        )
    with ThreadPoolExecutor(OPENERS) as pool:
        opened = list(pool.map(partial(_opened, files=files, dialect=dialect), paths))
    constants = [_folders(root, path) for path in paths]
    if len(opened) == 1 and not constants[0]:
        return opened[0]
    return _joined(named(os.fspath(source)), opened, constants)


def _found(source: str) -> tuple[Any, list[str], str]:
    """The filesystem (None: this one's own), the files' paths in order, and the path above them."""
    import pyarrow.fs as fs

    files, path = None, source
    if source.lower().startswith(("http://", "https://")):
        raise LogError(
            f"{named(source)} is an address of the web, where tables are not read; download it and name the file"
        )
    if URI.match(source):
        with readable(named(source), "cannot be reached"):
            files, path = fs.FileSystem.from_uri(_plain(source))
        path += urllib.parse.unquote(_tail(source))
        if isinstance(files, fs.LocalFileSystem):
            files = None
    here = fs.LocalFileSystem() if files is None else files
    wild = PATTERN.search(path)
    if wild and (files is not None or not Path(path).exists()):
        root = path[: wild.start()].rpartition("/")[0]
        paths = [each for each in _below(here, root or ".") if _matches(each, path)]
        return files, sorted(paths), root
    with readable(named(source), "cannot be reached"):
        info = here.get_file_info(path)
    if info.type == fs.FileType.Directory:
        paths = [each for each in _below(here, path) if _is_table(each, path)]
        return files, sorted(paths), path
    return files, [path], str(PurePosixPath(path).parent)


def _plain(uri: str) -> str:
    """A URI up to its first wildcard, which no filesystem knows; with its query, which names an endpoint or a region."""
    address, mark, query = _query(uri)
    found = PATTERN.search(address)
    return (address[: found.start()].rpartition("/")[0] if found else address) + mark + query


def _tail(uri: str) -> str:
    """What `_plain` leaves out."""
    address = _query(uri)[0]
    found = PATTERN.search(address)
    return "" if found is None else address[address[: found.start()].rindex("/") :]


def _query(uri: str) -> tuple[str, str, str]:
    """A URI's address and its query; a question mark in a pattern has no = behind it."""
    address, mark, query = uri.rpartition("?")
    return (
        (address, mark, query) if mark and "=" in query and "/" not in query.split("=")[0] else (uri, "", "")
    )


def _below(files: Any, root: str) -> Iterator[str]:
    import pyarrow.fs as fs

    with readable(root, "cannot be listed"):
        for info in files.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True)):
            if info.type == fs.FileType.File:
                yield info.path


def _matches(path: str, pattern: str) -> bool:
    """Part by part, so that * stays within a folder; ** is any number of folders."""
    return _fits(str(PurePosixPath(path)).split("/"), str(PurePosixPath(pattern)).split("/"))


def _fits(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(_fits(parts[i:], wanted[1:]) for i in range(len(parts) + 1))
    return (
        bool(parts)
        and fnmatch.fnmatchcase(parts[0], wanted[0])
        and not (parts[0].startswith(".") and not wanted[0].startswith("."))
        and _fits(parts[1:], wanted[1:])
    )


def _is_table(path: str, root: str) -> bool:
    """Whether a folder's file is to be read: hidden ones, and what other tools leave (_SUCCESS), are not."""
    below = PurePosixPath(path).relative_to(PurePosixPath(root)).parts
    return ending_of(Path(path)) in KINDS and not any(part.startswith((".", "_")) for part in below)


def _opened(path: str, files: Any, dialect: Dialect) -> Source:
    if files is None:
        return open_source(path, dialect)
    kind = kind_of(Path(path), ending_of(Path(path)))
    with readable(path, f"cannot be read as {kind}"):
        source = open_kind(kind, path, dialect, files)
        _ = source.schema.names
    return source


def _folders(root: str, path: str) -> dict[str, str]:
    """The columns that a file's folders name: key=value."""
    above = PurePosixPath(path).parent.relative_to(PurePosixPath(root)).parts if root else ()
    named = (part.partition("=") for part in above if "=" in part)
    return {urllib.parse.unquote(key): urllib.parse.unquote(value) for key, _, value in named if key}


def _joined(name: str, opened: list[Source], folders: list[dict[str, str]]) -> Source:
    """Several files as one table, with the columns that their folders name."""
    import pyarrow as pa

    first = opened[0]
    for source, named in zip(opened, folders, strict=True):
        same = source.schema.names == first.schema.names and source.schema.types == first.schema.types
        if not same or source.text != first.text or list(named) != list(folders[0]):
            raise LogError(f"{source.name} and {first.name} {_difference(source, first, named, folders[0])}")
        if source.notes != first.notes:
            raise LogError(
                f"{source.name} and {first.name} were written with different actions or features; they are two logs. Write them "
                "with the same, or read them one by one"
            )
    kinds = {
        key: pa.int64()
        if not first.text and all(WHOLE_NUMBER.fullmatch(each[key]) for each in folders)
        else pa.string()
        for key in folders[0]
    }
    fields = [*first.schema, *(pa.field(key, kind) for key, kind in kinds.items())]
    sizes = tuple(size for source in opened for size in source.sizes)
    return _Files(
        name=name,
        schema=pa.schema(fields, first.schema.metadata),
        text=first.text,
        sizes=sizes if all(source.sizes for source in opened) else (),
        opened=tuple(opened),
        folders=tuple(tuple(named.items()) for named in folders),
    )


def _difference(one: Source, two: Source, folders: dict[str, str], others: dict[str, str]) -> str:
    """In which columns two files differ, and what to do."""
    mine, theirs = (dict(zip(each.schema.names, each.schema.types, strict=True)) for each in (one, two))
    odd = [name for name in (*mine, *theirs) if mine.get(name) != theirs.get(name)]
    if odd:
        kinds = " and ".join(str(each.get(odd[0], "nothing")) for each in (mine, theirs))
        return f"differ in the column {brief(odd[0])}: {kinds}. All files of a log need the same columns"
    if list(folders) != list(others):
        return f"lie in folders that name different columns: {list(folders)} and {list(others)}"
    return "have the same columns in another order, or are of different kinds. Write them alike"


@dataclass(frozen=True, kw_only=True)
class _Files(Source):
    """One file after the other; `folders` are the columns that each one's folders name."""

    opened: tuple[Source, ...]
    folders: tuple[tuple[tuple[str, str], ...], ...]

    def batches(
        self, columns: list[str], step: int, parts: Sequence[int] | None
    ) -> "Iterator[pa.RecordBatch]":
        first = 0
        for source, named in zip(self.opened, self.folders, strict=True):
            own = None
            if parts is not None:
                own = [part - first for part in parts if first <= part < first + len(source.sizes)]
                first += len(source.sizes)
            if own is None or own:
                yield from self._batches(source, dict(named), columns, step, own)

    def _batches(
        self,
        source: Source,
        named: dict[str, str],
        columns: list[str],
        step: int,
        parts: Sequence[int] | None,
    ) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        inside = [column for column in columns if column not in named]
        some = inside or source.schema.names[:1]  # a batch of no columns has no rows
        for batch in source.batches(some, step, parts):
            arrays = [
                pa.repeat(pa.scalar(named[column]).cast(self.schema.field(column).type), batch.num_rows)
                if column in named
                else batch.column(column)
                for column in columns
            ]
            yield pa.record_batch(arrays, names=columns)

    def lines(self) -> Iterator[str]:
        return itertools.chain.from_iterable(source.lines() for source in self.opened)

    def coding(self, columns: Sequence[str]) -> Source:
        inside = set(self.opened[0].schema.names)
        own = [name for name in columns if name in inside]
        return replace(self, opened=tuple(source.coding(own) for source in self.opened))

    def part(self, start: int, stop: int) -> tuple[Source, int]:
        if not self.sizes:
            return self, 0
        rows = np.array([sum(source.sizes) for source in self.opened])
        ends = np.cumsum(rows)
        some = np.flatnonzero((ends > start) & (ends - rows < stop)).tolist()
        opened = tuple(self.opened[i] for i in some)
        sizes = tuple(size for source in opened for size in source.sizes)
        folders = tuple(self.folders[i] for i in some)
        return replace(self, opened=opened, folders=folders, sizes=sizes), int(ends[some[0]] - rows[some[0]])
