"""Tables that are read in batches: files, folders, glob patterns, URIs, and tables in memory.

Files are read by PyArrow's own reader of each kind. `pyarrow.dataset` decodes a whole row group before it yields the
first batch: on a Parquet file of a million rows it took twice the memory and twice the CPU time of a process.
PyArrow is imported where a table is opened, because a log in memory does not need it.
"""

import codecs
import fnmatch
import itertools
import json
import os
import re
import urllib.parse
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sparing.errors import LogError
from sparing.log import labels, text_files
from sparing.log.labels import WHOLE_NUMBER, shorten
from sparing.log.passes import Blocks, rechunk
from sparing.log.text_files import KINDS, Dialect, ending_of, existing, is_path, kind_of, readable_errors

if TYPE_CHECKING:
    import pyarrow as pa

    Batches = Iterator[pa.RecordBatch]

# Bytes of a text file that are parsed at a time; a row must fit.
CSV_BLOCK = 2**24

# Pre-buffering would keep the bytes of the whole file in memory.
PARQUET: dict[str, Any] = {"page_checksum_verification": True, "pre_buffer": False, "buffer_size": 2**20}

METADATA = b"sparing"
PLAIN = Dialect()

URI = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
WILDCARD = re.compile(r"[*?\[]")

# Files that are opened at a time.
MAX_OPENING = 16

UNNAMED = re.compile(r"__index_level_\d+__")  # pandas' name of an index without a name
NAMELESS = re.compile(r"(Unnamed: \d+)?")  # header of a column of row numbers in text files


def indexes(schema: "pa.Schema", columns: Sequence[str]) -> dict[str, str]:
    """Return the columns that are an index, each with the reason for which it is left out."""
    index = _pandas_index(schema)
    found = {}
    for name in columns:
        if UNNAMED.fullmatch(name):
            found[name] = "left out, the row numbers that pandas wrote"
        elif name in index:
            found[name] = "left out, the index of a frame (name it in contexts to take it)"
        elif NAMELESS.fullmatch(name):
            found[name] = "left out, a column without a name"
    return found


def _pandas_index(schema: "pa.Schema") -> set[str]:
    """Return the columns that the pandas metadata of a table list as its index."""
    try:
        notes = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
        return {name for name in notes["index_columns"] if isinstance(name, str)}
    except (KeyError, TypeError, ValueError):
        return set()


@dataclass(frozen=True, kw_only=True)
class TableSource(ABC):
    """A table that is read in batches, any number of times; it is picklable.

    `text`: every cell is text, and its role decides what it must parse to. `sizes` are the rows of each part that can be
    read on its own; empty if rows can only be read from the first on. `dictionary_columns` of text are read as dictionary
    and codes, which is faster, if the file stores them so. `assumed` is what was assumed to read it, in words. `plain_numbers`:
    texts that computers write as numbers are those, so that 1.234 is no 1234.
    """

    name: str
    schema: "pa.Schema"
    text: bool = False
    sizes: tuple[int, ...] = ()
    dictionary_columns: tuple[str, ...] = ()
    dialect: Dialect = PLAIN
    assumed: tuple[str, ...] = ()
    plain_numbers: bool = True

    @abstractmethod
    def batches(self, columns: list[str], step: int, parts: Sequence[int] | None) -> "Batches":
        """Read columns of consecutive parts (None: of all rows) in batches of about `step` rows."""

    @property
    def rows(self) -> int | None:
        """Number of rows; None if it takes a pass to count them."""
        return sum(self.sizes) if self.sizes else None

    def blocks(
        self, columns: Sequence[str], *, step: int | None = None, start: int = 0, stop: int | None = None
    ) -> "Iterator[tuple[int, pa.RecordBatch]]":
        """Read columns of the rows from `start` to before `stop`, exactly `step` at a time, each with its first row."""
        if step is None:
            step = Blocks.of_table(0, len(columns)).step
        parts, row, end = None, 0, self.rows if stop is None else stop
        if self.sizes and (start, stop) != (0, None):
            ends = np.cumsum(self.sizes)
            assert end is not None
            first, last = np.searchsorted(ends, [start, end - 1], side="right").tolist()
            parts, row = range(first, min(last + 1, len(ends))), int(ends[first] - self.sizes[first])
        found = start
        for first, batch in rechunk(self.batches(list(columns), step, parts), row, start, stop, step):
            found = first + batch.num_rows
            yield first, batch
        if end is not None and self.sizes and found < end:
            raise LogError(
                f"{self.name} is damaged, or has changed: it has {found:,} rows instead of {end:,}"
            )

    def with_dictionaries(self, columns: Sequence[str]) -> "TableSource":
        """The table with text of these columns read as dictionary and codes, if the file stores it so."""
        from sparing.log.arrays import is_text

        text = tuple(name for name in columns if is_text(self.schema.field(name).type))
        return replace(self, dictionary_columns=text)

    def part(self, start: int, stop: int) -> tuple["TableSource", int]:
        """The smallest table with these rows, to be sent to a worker, and the number of its first row."""
        return self, 0

    def line_names(self) -> Iterator[str]:
        """The line of each row of a text file, as text for errors; empty for other tables."""
        return iter(())

    @cached_property
    def stored_metadata(self) -> dict[str, Any]:
        """The metadata that `write_log` stored: actions, features by column, encoder and items as JSON, costs."""
        raw = (self.schema.metadata or {}).get(METADATA)
        if raw is None:
            return {}
        try:
            stored = labels.load_json(raw, constants=True)
            intact = stored.pop("check", None) in (None, _checksum(stored))
            actions = [labels.from_json(value) for value in stored["actions"]]
            features = {str(column): str(name) for column, name in dict(stored["features"]).items()}
            columns = list(map(str, stored.get("columns", features)))
            encoders = {what: stored.get(what) for what in ("encoder", "items")}
            if "costs" in stored:
                encoders["costs"] = [float(cost) for cost in stored["costs"]]
            if "cost_prefix" in stored:
                encoders["cost_prefix"] = str(stored["cost_prefix"])
        except (AttributeError, KeyError, TypeError, ValueError):
            intact = False
        if not intact:
            raise LogError(f"{self.name} has damaged metadata. Write it again with write_log") from None
        return {"actions": actions, "features": features, "columns": columns, **encoders}


def metadata_json(metadata: Mapping[str, Any]) -> str:
    """The metadata of a written table as JSON, with a checksum."""
    return json.dumps({**metadata, "check": _checksum(metadata)}, ensure_ascii=False)


def _checksum(metadata: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(metadata, ensure_ascii=False).encode())


def redact_uri(source: str) -> str:
    """A source without the credentials of a URI, for messages."""
    return re.sub(r"(?<=://)[^/@]*@", "", source)


def is_file(source: str) -> bool:
    """Whether a source names one local file, existing or not: no folder, pattern or URI."""
    path = Path(source)
    return path.is_file() or not (URI.match(source) or WILDCARD.search(source) or path.is_dir())


def open_table(source: Any, dialect: Dialect = PLAIN) -> TableSource:
    """Open a file; all files of a folder, a pattern or a URI, in the order of their names; or a table in memory.

    Folders named `day=2026-01-31` add a column `day`.
    """
    if not is_path(source):
        return _InMemoryTable.of(_arrow_table(source), "the table", dialect=dialect)
    import pyarrow.fs as fs

    text = os.fspath(source)
    if is_file(text):
        return _open_file(str(existing(text)), fs.LocalFileSystem(), dialect)
    filesystem, paths, root = _find_files(text)
    if not paths:
        raise LogError(
            f"no table at {redact_uri(text)}; expected a file, or files that end in {', '.join(KINDS)}, in a folder or by a pattern such "
            "as logs/*.parquet"
        )
    with ThreadPoolExecutor(MAX_OPENING) as pool:
        files = list(pool.map(lambda path: _open_file(path, filesystem, dialect), paths))
    partitions = [_partition_values(root, path) for path in paths]
    return files[0] if len(files) == 1 and not partitions[0] else _join(redact_uri(text), files, partitions)


@dataclass(frozen=True, kw_only=True)
class _InMemoryTable(TableSource):
    table: "pa.Table"

    @classmethod
    def of(cls, table: "pa.Table", name: str, **others: Any) -> Self:
        return cls(name=name, schema=table.schema, table=table, sizes=(table.num_rows,), **others)

    def batches(self, columns: list[str], step: int, parts: Sequence[int] | None) -> "Batches":
        yield from self.table.select(columns).to_batches(max_chunksize=step)  # the table is its only part

    def part(self, start: int, stop: int) -> tuple[Self, int]:
        table = self.table.slice(start, stop - start)
        return replace(self, table=table, sizes=(table.num_rows,)), start


@dataclass(frozen=True, kw_only=True)
class _JsonLines(_InMemoryTable):
    # An error is raised only if its column is read.
    errors: dict[str, str]

    def batches(self, columns: list[str], step: int, parts: Sequence[int] | None) -> "Batches":
        for column in filter(self.errors.get, columns):
            raise LogError(self.errors[column])
        return super().batches(columns, step, parts)

    def line_names(self) -> Iterator[str]:
        return text_files.json_line_names(Path(self.name))


@dataclass(frozen=True, kw_only=True)
class _Sheet(_InMemoryTable):
    # The rows of the sheet, from 1 on, of each row of the table.
    row_numbers: np.ndarray

    def line_names(self) -> Iterator[str]:
        path, _, sheet = self.name.rpartition(", sheet ")
        return (f"row {row} of the sheet {sheet} of {Path(path).name}" for row in self.row_numbers.tolist())

    def part(self, start: int, stop: int) -> tuple[Self, int]:
        part, first = super().part(start, stop)
        return replace(part, row_numbers=self.row_numbers[start:stop]), first


def _arrow_table(source: Any) -> "pa.Table":
    import pyarrow as pa

    if isinstance(source, pa.Table):
        return source
    one_column = hasattr(source, "to_frame") and not hasattr(source, "columns")
    if not isinstance(source, Mapping) and (one_column or not hasattr(source, "__arrow_c_stream__")):
        hint = "For arrays use Log.from_arrays(contexts, actions, rewards)"
        if isinstance(source, list) and source and isinstance(source[0], Mapping):
            hint = "For a list of rows use pandas.json_normalize(rows)"
        elif hasattr(source, "collect"):
            hint = "Collect it first, with its collect()"
        elif one_column:
            hint = "This is one column; pass the frame that it is of"
        raise LogError(
            f"cannot read a log from {type(source).__name__}; expected a path, a pyarrow, pandas or polars "
            f"table, or a mapping of columns. {hint}"
        )
    try:
        if isinstance(source, Mapping):
            return pa.table({name: _arrow_column(values) for name, values in source.items()})
        return pa.table(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise LogError(
            f"the {type(source).__name__} does not make a table: {'; '.join(map(str, error.args))[:200]}. Every column needs one "
            "type and the same length; labels of several types go through Log.from_arrays"
        ) from None


def _arrow_column(values: Any) -> Any:
    import pyarrow as pa

    if isinstance(values, np.ndarray) and values.ndim == 2:
        flat = pa.array(np.ascontiguousarray(values).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return values


def _open_file(name: str, filesystem: Any, dialect: Dialect) -> TableSource:
    path = Path(name)
    kind = kind_of(path, ending_of(path))
    with readable_errors(path, f"cannot be read as {kind}"):
        if filesystem.type_name == "local":  # elsewhere it would take a request
            if path.stat().st_size == 0:
                raise LogError(f"{path} is empty (0 bytes); expected a {kind} table")
            if kind in ("parquet", "arrow") and text_files.is_gzip(path):
                raise LogError(
                    f"{path} is compressed by gzip; a {kind} file must not be. Decompress it first"
                )
        source = replace(OPENERS[kind](name, filesystem, dialect), dialect=dialect)
        _ = source.schema.names  # decodes them, which fails if they are not text
    return source


def _open_json_lines(path: str, filesystem: Any, dialect: Dialect) -> TableSource:
    if filesystem.type_name != "local":
        raise LogError(f"{path}: JSON lines are read from local files only. Convert them to Parquet first")
    table, errors = text_files.read_json_lines(Path(path))
    return _JsonLines.of(table, path, errors=errors)


def _open_spreadsheet(path: str, filesystem: Any, dialect: Dialect) -> TableSource:
    from sparing.log.spreadsheets import read_sheet

    with filesystem.open_input_file(path) as file:
        sheet = read_sheet(file.read(), path, dialect.sheet)
    name, rows = f"{path}, sheet {shorten(sheet.name)}", sheet.row_numbers
    return _Sheet.of(sheet.table, name, row_numbers=rows, assumed=sheet.assumed, plain_numbers=False)


def _open_parquet(path: str, filesystem: Any, dialect: Dialect) -> TableSource:
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path, filesystem=filesystem)
    sizes = tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
    if sum(sizes) != metadata.num_rows:
        raise LogError(f"{path} is damaged: {metadata.num_rows} rows, but {sum(sizes)} in its parts")
    return _Parquet(name=path, schema=metadata.schema.to_arrow_schema(), sizes=sizes, filesystem=filesystem)


@dataclass(frozen=True, kw_only=True)
class _Parquet(TableSource):
    filesystem: Any

    def batches(self, columns: list[str], step: int, parts: Sequence[int] | None) -> "Batches":
        import pyarrow.parquet as pq

        coded = [name for name in columns if name in self.dictionary_columns]
        with (
            readable_errors(self.name),
            pq.ParquetFile(self.name, filesystem=self.filesystem, read_dictionary=coded, **PARQUET) as file,
        ):
            if file.metadata.num_rows != sum(self.sizes):
                raise LogError(
                    f"{self.name} has changed since it was opened: {file.metadata.num_rows} rows instead of {sum(self.sizes)}"
                )
            # If parts are selected, other threads read the others.
            groups = range(len(self.sizes)) if parts is None else parts
            for batch in file.iter_batches(step, list(groups), columns, use_threads=parts is None):
                batch.validate(full=True)  # damaged text or offsets would fail later, or crash
                yield batch


def _open_arrow(path: str, filesystem: Any, dialect: Dialect) -> TableSource:
    import pyarrow as pa

    with _open_mapped(path, filesystem) as file:
        reader = pa.ipc.open_file(file)
        sizes = tuple(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
        return _Arrow(name=path, schema=reader.schema, sizes=sizes, filesystem=filesystem)


def _open_mapped(path: str, filesystem: Any) -> Any:
    import pyarrow as pa

    return pa.memory_map(path) if filesystem.type_name == "local" else filesystem.open_input_file(path)


@dataclass(frozen=True, kw_only=True)
class _Arrow(TableSource):
    filesystem: Any

    def batches(self, columns: list[str], step: int, parts: Sequence[int] | None) -> "Batches":
        import pyarrow as pa

        with readable_errors(self.name), _open_mapped(self.name, self.filesystem) as file:
            reader = pa.ipc.open_file(file)
            for i in range(reader.num_record_batches) if parts is None else parts:
                batch = reader.get_batch(i).select(columns)
                batch.validate(full=True)
                for rows in Blocks(0, batch.num_rows, step):
                    yield batch.slice(rows.start, rows.stop - rows.start)


def open_csv(path: Path | str, *, gaps: bool = True, dialect: Dialect = PLAIN) -> TableSource:
    """Open a local text file; `gaps`: whether an empty cell is missing, or an empty text."""
    import pyarrow.fs as fs

    return _open_csv(str(path), fs.LocalFileSystem(), dialect, gaps=gaps)


def _open_csv(path: str, filesystem: Any, dialect: Dialect, *, gaps: bool = True) -> TableSource:
    import pyarrow as pa

    with _open_text(path, filesystem) as file:
        head = file.read(CSV_BLOCK)
    encoding, assumed = (dialect.encoding, "") if dialect.encoding else text_files.encoding_of(head, path)
    encoding = text_files.UTF8 if codecs.lookup(encoding).name == "utf-8" else encoding
    delimiter, header = dialect.header(codecs.getincrementaldecoder(encoding)().decode(head))
    return _Csv(
        name=path,
        schema=pa.schema([(name, pa.string()) for name in header]),
        text=True,
        filesystem=filesystem,
        empty_is_null=gaps,
        delimiter=delimiter,
        encoding=encoding,
        assumed=(assumed,) if assumed else (),
        plain_numbers=delimiter == ",",
    )


OPENERS = {
    "parquet": _open_parquet,
    "arrow": _open_arrow,
    "csv": _open_csv,
    "json": _open_json_lines,
    "spreadsheet": _open_spreadsheet,
}


def _open_text(path: str, filesystem: Any) -> Any:
    with filesystem.open_input_stream(path, compression=None) as head:
        packed = head.read(2) == text_files.GZIP
    return filesystem.open_input_stream(path, compression="gzip" if packed else None)


@dataclass(frozen=True, kw_only=True)
class _Csv(TableSource):
    # Every column is read as text: inferred types would depend on the first rows.
    filesystem: Any
    empty_is_null: bool
    delimiter: str
    encoding: str

    def batches(self, columns: list[str], step: int, parts: Sequence[int] | None) -> "Batches":
        import pyarrow as pa
        import pyarrow.csv as pc

        options = pc.ConvertOptions(
            include_columns=columns,
            column_types=dict.fromkeys(self.schema.names, pa.string()),
            null_values=[""],
            strings_can_be_null=self.empty_is_null,
            quoted_strings_can_be_null=False,
        )
        encoding = (
            "utf8" if self.encoding == text_files.UTF8 else self.encoding
        )  # Arrow skips its mark by itself
        with readable_errors(self.name):
            try:
                with (
                    _open_text(self.name, self.filesystem) as stream,
                    pc.open_csv(
                        stream,
                        read_options=pc.ReadOptions(block_size=CSV_BLOCK, encoding=encoding),
                        parse_options=pc.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                        convert_options=options,
                    ) as reader,
                ):
                    yield from reader
            except pa.ArrowInvalid:
                with _open_text(self.name, self.filesystem) as stream:
                    text_files.check_csv_cells(stream, self.name, self.delimiter, self.encoding)
                raise

    def line_names(self) -> Iterator[str]:
        with _open_text(self.name, self.filesystem) as stream:
            yield from text_files.csv_line_names(stream, Path(self.name).name, self.delimiter, self.encoding)


def _find_files(source: str) -> tuple[Any, list[str], str]:
    # The filesystem, the paths of the files in order, and the folder above them.
    import pyarrow.fs as fs

    shown, path = redact_uri(source), source
    filesystem: Any = fs.LocalFileSystem()
    if source.lower().startswith(("http://", "https://")):
        raise LogError(
            f"{shown} is a web address; tables are not read from there. Download it and name the file"
        )
    if URI.match(source):
        base, pattern = _split_uri(source)
        with readable_errors(shown, "cannot be reached"):
            filesystem, path = fs.FileSystem.from_uri(base)
        path += pattern
    wild = WILDCARD.search(path)
    if wild and not (filesystem.type_name == "local" and Path(path).exists()):
        root = path[: wild.start()].rpartition("/")[0]
        wanted = PurePosixPath(path).parts
        there = _list(filesystem, root or ".")
        return filesystem, [path for path in there if _matches(PurePosixPath(path).parts, wanted)], root
    with readable_errors(shown, "cannot be reached"):
        info = filesystem.get_file_info(path)
    if info.type != fs.FileType.Directory:
        return filesystem, [path], str(PurePosixPath(path).parent)
    there = _list(filesystem, path)
    return filesystem, [each for each in there if _is_table(PurePosixPath(each), PurePosixPath(path))], path


def _split_uri(uri: str) -> tuple[str, str]:
    # A URI with its query up to the folder of its first wildcard, and the rest, which no filesystem resolves.
    address, mark, query = uri.rpartition("?")
    if not mark or "=" not in query or "/" in query.split("=")[0]:  # a question mark of the pattern
        address, mark, query = uri, "", ""
    wild = WILDCARD.search(address)
    if wild is None:
        return uri, ""
    base = address[: wild.start()].rpartition("/")[0]
    return base + mark + query, urllib.parse.unquote(address[len(base) :])


def _list(filesystem: Any, root: str) -> list[str]:
    import pyarrow.fs as fs

    with readable_errors(root, "cannot be listed"):
        found = filesystem.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
    return sorted(info.path for info in found if info.type == fs.FileType.File)


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    # Folder by folder, so that * stays within one; ** is any number of folders.
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[i:], pattern[1:]) for i in range(len(parts) + 1))
    return (
        bool(parts)
        and fnmatch.fnmatchcase(parts[0], pattern[0])
        and not (parts[0].startswith(".") and not pattern[0].startswith("."))
        and _matches(parts[1:], pattern[1:])
    )


def _is_table(path: PurePosixPath, root: PurePosixPath) -> bool:
    # Hidden files, and marker files of other tools (_SUCCESS), are not read.
    hidden = any(part.startswith((".", "_")) for part in path.relative_to(root).parts)
    return not hidden and text_files.is_table(Path(path))


def _partition_values(root: str, path: str) -> dict[str, str]:
    above = PurePosixPath(path).parent.relative_to(PurePosixPath(root)).parts if root else ()
    pairs = (part.partition("=") for part in above if "=" in part)
    return {urllib.parse.unquote(key): urllib.parse.unquote(value) for key, _, value in pairs if key}


def _join(name: str, files: list[TableSource], partitions: list[dict[str, str]]) -> TableSource:
    import pyarrow as pa

    files = _alike(files)
    first, keys = files[0], list(partitions[0])
    for file, partition in zip(files, partitions, strict=True):
        same = file.schema.names == first.schema.names and file.schema.types == first.schema.types
        if not same or file.text != first.text or list(partition) != keys:
            raise LogError(f"{file.name} and {first.name} {_difference(file, first, list(partition), keys)}")
        if file.stored_metadata != first.stored_metadata:
            raise LogError(
                f"{file.name} and {first.name} were written with different actions or features; they are two logs. Write them "
                "with the same, or read them one by one"
            )
    whole = {key: all(WHOLE_NUMBER.fullmatch(each[key]) for each in partitions) for key in keys}
    added = [pa.field(key, pa.int64() if whole[key] and not first.text else pa.string()) for key in keys]
    return _Fragments(
        name=name,
        schema=pa.schema([*first.schema, *added], first.schema.metadata),
        text=first.text,
        sizes=_sizes(files),
        dialect=first.dialect,
        assumed=tuple(dict.fromkeys(each for file in files for each in file.assumed)),
        plain_numbers=all(file.plain_numbers for file in files),
        files=tuple(files),
        partitions=tuple(partitions),
    )


def _alike(files: list[TableSource]) -> list[TableSource]:
    """Sheets with common types: a column of whole numbers, or without any cell, may have others in another month."""
    import pyarrow as pa

    sheets = [file for file in files if isinstance(file, _Sheet)]
    if len(sheets) < len(files) or any(file.schema.names != files[0].schema.names for file in files):
        return files
    try:
        schema = pa.unify_schemas([file.schema for file in files], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return files
    return [replace(file, table=file.table.cast(schema), schema=schema) for file in sheets]


def _sizes(files: Sequence[TableSource]) -> tuple[int, ...]:
    return tuple(size for file in files for size in file.sizes) if all(file.sizes for file in files) else ()


def _difference(one: TableSource, two: TableSource, keys: list[str], others: list[str]) -> str:
    mine, theirs = (dict(zip(each.schema.names, each.schema.types, strict=True)) for each in (one, two))
    odd = [name for name in (*mine, *theirs) if mine.get(name) != theirs.get(name)]
    if odd:
        types = " and ".join(str(each.get(odd[0], "nothing")) for each in (mine, theirs))
        return f"differ in the column {shorten(odd[0])}: {types}. All files of a log need the same columns"
    if keys != others:
        return f"are in folders that name different columns: {keys} and {others}"
    return "have the same columns in another order, or are of different kinds. Write them alike"


@dataclass(frozen=True, kw_only=True)
class _Fragments(TableSource):
    # Several files in order; `partitions` are the values of the columns that folder names add.

    files: tuple[TableSource, ...]
    partitions: tuple[dict[str, str], ...]

    def batches(self, columns: list[str], step: int, parts: Sequence[int] | None) -> "Batches":
        import pyarrow as pa

        first, inside = 0, set(self.files[0].schema.names)
        # A batch without columns has no rows.
        read = [name for name in columns if name in inside] or self.files[0].schema.names[:1]
        for file, partition in zip(self.files, self.partitions, strict=True):
            own = None
            if parts is not None:
                own = [part - first for part in parts if first <= part < first + len(file.sizes)]
                first += len(file.sizes)
                if not own:
                    continue
            values = {key: pa.scalar(partition[key]).cast(self.schema.field(key).type) for key in partition}
            coded = replace(file, dictionary_columns=self.dictionary_columns)
            for batch in coded.batches(read, step, own):
                added = {name: pa.repeat(value, batch.num_rows) for name, value in values.items()}
                arrays = [added[name] if name in added else batch.column(name) for name in columns]
                yield pa.record_batch(arrays, names=columns)

    def line_names(self) -> Iterator[str]:
        return itertools.chain.from_iterable(file.line_names() for file in self.files)

    def part(self, start: int, stop: int) -> tuple[TableSource, int]:
        if not self.sizes:
            return self, 0
        rows = [sum(file.sizes) for file in self.files]
        firsts = [0, *itertools.accumulate(rows)]
        some = [i for i in range(len(rows)) if firsts[i] < stop and firsts[i + 1] > start]
        chosen = slice(some[0], some[-1] + 1)
        files, partitions = self.files[chosen], self.partitions[chosen]
        return replace(self, files=files, partitions=partitions, sizes=_sizes(files)), firsts[some[0]]
