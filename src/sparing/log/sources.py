"""Tables that can be walked batch by batch: files here or far away, folders of them, frames in memory.

A `Source` reads rows from any row on where its file allows that (Parquet, Arrow), else from the first on (CSV).
PyArrow is imported where a table is opened: a log in memory does without.
"""

import codecs
import contextlib
import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.errors import LogError
from sparing.log import labels
from sparing.log.blocks import Blocks, exactly
from sparing.log.paths import (
    Dialect,
    ending_of,
    existing,
    is_packed,
    is_path,
    kind_of,
    readable,
)

if TYPE_CHECKING:
    import pyarrow as pa

CSV_BLOCK = 2**24
"""Bytes of a text file that are parsed at a time; a row must fit."""

PARQUET: dict[str, Any] = {"page_checksum_verification": True, "pre_buffer": False, "buffer_size": 2**20}
"""How Parquet is read: pre-buffering would keep the bytes of the whole file in memory."""

METADATA = b"sparing"


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """A table that can be walked, batch by batch, more than once, and sent to where it is walked.

    `text`: every cell is text, and its role decides what it must parse to. `sizes` are the rows of the parts
    that can be read on their own; none where rows can only be read from the first on.
    """

    name: str
    schema: "pa.Schema"
    text: bool = False
    sizes: tuple[int, ...] = ()

    @abstractmethod
    def batches(
        self, columns: list[str], step: int, parts: Sequence[int] | None
    ) -> "Iterator[pa.RecordBatch]":
        """These columns of these parts (None: of all rows), in batches of about so many rows."""

    @property
    def rows(self) -> int | None:
        """How many rows there are; None where that takes a walk."""
        return sum(self.sizes) if self.sizes else None

    def blocks(
        self, columns: Sequence[str], *, step: int | None = None, start: int = 0, stop: int | None = None
    ) -> "Iterator[tuple[int, pa.RecordBatch]]":
        """The rows from `start` to before `stop` of these columns, exactly `step` at a time, each with its first row."""
        if step is None:
            step = Blocks.of_table(0, len(columns)).step
        parts, row = None, 0
        if self.sizes and (start, stop) != (0, None):
            ends = np.cumsum(self.sizes)
            last = int(ends[-1]) if stop is None else stop
            first, final = np.searchsorted(ends, [start, last - 1], side="right").tolist()
            parts, row = range(first, min(final + 1, len(ends))), int(ends[first] - self.sizes[first])
        end = self.rows if stop is None else stop
        found = start
        for first, batch in exactly(self.batches(list(columns), step, parts), row, start, stop, step):
            found = first + batch.num_rows
            yield first, batch
        if end is not None and self.sizes and found < end:
            raise LogError(
                f"{self.name} is damaged, or has changed: rows end at {found:,} where {end:,} were told"
            )

    def coding(self, columns: Sequence[str]) -> "Source":
        """The same, giving text of these columns as a dictionary and codes where its file has it so, which is faster."""
        return self

    def part(self, start: int, stop: int) -> tuple["Source", int]:
        """What is needed of it to read these rows, and its first row: small enough to be sent."""
        return self, 0

    def lines(self) -> Iterator[str]:
        """Where each row stands in a file of text, in words; none where rows are not lines."""
        return iter(())

    @cached_property
    def notes(self) -> dict[str, Any]:
        """What `write_log` left in the schema's metadata: actions, features by their columns, encoder and items as JSON."""
        raw = (self.schema.metadata or {}).get(METADATA)
        if raw is None:
            return {}
        try:
            notes = labels.load_json(raw, constants=True)
            whole = notes.pop("check", None) in (None, _check(notes))
            actions = [labels.from_json(value) for value in notes["actions"]]
            features = {str(column): str(name) for column, name in dict(notes["features"]).items()}
            columns = list(map(str, notes.get("columns", features)))
            carried = {what: notes.get(what) for what in ("encoder", "items")}
        except (AttributeError, KeyError, TypeError, ValueError):
            whole = False
        if not whole:
            raise LogError(
                f"{self.name} has damaged notes on its actions in its metadata. Write it again with write_log"
            ) from None
        return {"actions": actions, "features": features, "columns": columns, **carried}


def notes_text(notes: Mapping[str, Any]) -> str:
    """Notes as they are written, with a checksum by which damage is told."""
    return json.dumps({**notes, "check": _check(notes)}, ensure_ascii=False)


def _check(notes: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(notes, ensure_ascii=False).encode())


def open_source(source: Any, dialect: Dialect = Dialect()) -> Source:  # noqa: B008
    """A file path, an Arrow table, a pandas or polars frame, or a mapping of columns."""
    if is_path(source):
        return _open_file(Path(source), dialect)
    table = _table(source)
    return _Memory(name="the table", schema=table.schema, table=table, sizes=(table.num_rows,), unfit={})


@dataclass(frozen=True, kw_only=True)
class _Memory(Source):
    """`unfit` says what is wrong with columns that could not be made; it is told where one of them is asked for."""

    table: "pa.Table"
    unfit: dict[str, str]

    def batches(
        self, columns: list[str], step: int, parts: Sequence[int] | None
    ) -> "Iterator[pa.RecordBatch]":
        for column in filter(self.unfit.get, columns):
            raise LogError(self.unfit[column])
        table = self.table.select(columns)
        if parts is not None:
            ends = np.cumsum(self.sizes)
            first = int(ends[parts[0]] - self.sizes[parts[0]])
            table = table.slice(first, int(ends[parts[-1]]) - first)
        yield from table.to_batches(max_chunksize=step)

    def part(self, start: int, stop: int) -> tuple[Source, int]:
        table = self.table.slice(start, stop - start)
        return replace(self, table=table, sizes=(table.num_rows,)), start


class _Lines(_Memory):
    def lines(self) -> Iterator[str]:
        from sparing.log.line_numbers import of_json

        return of_json(Path(self.name))


def _table(source: Any) -> "pa.Table":
    import pyarrow as pa

    if isinstance(source, pa.Table):
        return source
    one_column = hasattr(source, "to_frame") and not hasattr(source, "columns")
    if not isinstance(source, Mapping) and (one_column or not hasattr(source, "__arrow_c_stream__")):
        mend = "For arrays use Log.from_arrays(contexts, actions, rewards)"
        if isinstance(source, list) and source and isinstance(source[0], Mapping):
            mend = "For a list of rows use pandas.json_normalize(rows)"
        elif hasattr(source, "collect"):
            mend = "Collect it first, with its collect()"
        elif one_column:
            mend = "This is one column; pass the frame that it is of"
        raise LogError(
            f"cannot read a log from {type(source).__name__}; expected a path, a pyarrow, pandas or polars "
            f"table, or a mapping of columns. {mend}"
        )
    try:
        if isinstance(source, Mapping):
            return pa.table({name: _column(values) for name, values in source.items()})
        return pa.table(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise LogError(
            f"the {type(source).__name__} does not make a table: {'; '.join(map(str, error.args))[:200]}. Every column needs one "
            "type and the same length; labels of several types go through Log.from_arrays"
        ) from None


def _column(values: Any) -> Any:
    import pyarrow as pa

    if isinstance(values, np.ndarray) and values.ndim == 2:
        flat = pa.array(np.ascontiguousarray(values).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return values


def _open_file(path: Path, dialect: Dialect) -> Source:
    size, kind = existing(path).stat().st_size, kind_of(path, ending_of(path))
    if size == 0:
        raise LogError(f"{path} is empty (0 bytes); expected a {kind} table")
    with readable(path, f"cannot be read as {kind}"):
        if kind in ("parquet", "arrow") and is_packed(path):
            raise LogError(f"{path} is packed by gzip; a {kind} file is read as it is. Unpack it first")
        source = open_kind(kind, path, dialect)
        _ = source.schema.names  # decodes them, or finds that they are no text
    return source


def open_kind(kind: str, path: Path | str, dialect: Dialect, files: Any = None) -> Source:
    """A file of this kind, of a filesystem of PyArrow's or here."""
    if kind == "csv":
        return open_csv(path, files, dialect=dialect)
    if kind == "json":
        from sparing.log.lines import table_of

        table, unfit = table_of(Path(path), files)
        return _Lines(name=str(path), schema=table.schema, table=table, sizes=(table.num_rows,), unfit=unfit)
    return (open_parquet if kind == "parquet" else open_arrow)(path, files)


def open_parquet(path: Path | str, files: Any = None) -> Source:
    """A Parquet file, of a filesystem of PyArrow's or here."""
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path, filesystem=files)
    sizes = tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
    if sum(sizes) != metadata.num_rows:
        raise LogError(f"{path} is damaged: {metadata.num_rows} rows, but {sum(sizes)} in its parts")
    return _Parquet(name=str(path), schema=metadata.schema.to_arrow_schema(), sizes=sizes, files=files)


@dataclass(frozen=True, kw_only=True)
class _Parquet(Source):
    files: Any
    coded: tuple[str, ...] = ()

    def coding(self, columns: Sequence[str]) -> Source:
        from sparing.log.arrays import is_text

        return replace(self, coded=tuple(name for name in columns if is_text(self.schema.field(name).type)))

    def batches(
        self, columns: list[str], step: int, parts: Sequence[int] | None
    ) -> "Iterator[pa.RecordBatch]":
        import pyarrow.parquet as pq

        coded = [name for name in columns if name in self.coded]
        with (
            readable(self.name),
            pq.ParquetFile(self.name, filesystem=self.files, read_dictionary=coded, **PARQUET) as file,
        ):
            if file.metadata.num_rows != sum(self.sizes):
                raise LogError(
                    f"{self.name} has changed since it was opened: {file.metadata.num_rows} rows instead of {sum(self.sizes)}"
                )
            # Of several parts, each has a thread of its own already.
            groups = range(len(self.sizes)) if parts is None else parts
            for batch in file.iter_batches(step, list(groups), columns, use_threads=parts is None):
                batch.validate(full=True)  # damaged text or offsets would fail later, or crash
                yield batch


def open_arrow(path: Path | str, files: Any = None) -> Source:
    """An Arrow file, of a filesystem of PyArrow's or here."""
    import pyarrow as pa

    with _opened(str(path), files) as memory:
        reader = pa.ipc.open_file(memory)
        sizes = tuple(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
        return _Arrow(name=str(path), schema=reader.schema, sizes=sizes, files=files)


def _opened(path: str, files: Any) -> Any:
    import pyarrow as pa

    return pa.memory_map(path) if files is None else files.open_input_file(path)


@dataclass(frozen=True, kw_only=True)
class _Arrow(Source):
    files: Any

    def batches(
        self, columns: list[str], step: int, parts: Sequence[int] | None
    ) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        from sparing.log import checksums

        with readable(self.name), _opened(self.name, self.files) as memory:
            reader = pa.ipc.open_file(memory)
            count = reader.num_record_batches
            places = {name: j for j, name in enumerate(reader.schema.names)}
            for i in range(count) if parts is None else parts:
                whole, metadata = reader.get_batch_with_custom_metadata(i)
                batch = whole.select(columns)
                batch.validate(full=True)
                checksums.check(batch, metadata, places, place=i, count=count)
                for rows in Blocks(0, batch.num_rows, step):
                    yield batch.slice(rows.start, rows.stop - rows.start)


def open_csv(
    path: Path | str,
    files: Any = None,
    *,
    gaps: bool = True,
    dialect: Dialect = Dialect(),  # noqa: B008
) -> Source:
    """A text file, packed or not; `gaps`: whether a cell with nothing in it is missing, or an empty text."""
    import pyarrow as pa

    with _unpacked_bytes(str(path), files) as file:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(file.read(CSV_BLOCK))
    mark, header = dialect.header(text)
    schema = pa.schema([(name, pa.string()) for name in header])
    commas = dialect.decimal == ","
    return _Csv(name=str(path), schema=schema, text=True, gaps=gaps, files=files, mark=mark, commas=commas)


@contextlib.contextmanager
def _unpacked_bytes(path: str, files: Any) -> Iterator[Any]:
    """The bytes of a file, unpacked on the way where it is packed."""
    import pyarrow.fs

    here = pyarrow.fs.LocalFileSystem() if files is None else files
    with here.open_input_stream(path, compression=None) as head:
        packed = head.read(2) == b"\x1f\x8b"
    with here.open_input_stream(path, compression="gzip" if packed else None) as stream:
        yield stream


@dataclass(frozen=True, kw_only=True)
class _Csv(Source):
    gaps: bool
    files: Any
    mark: str
    commas: bool

    def batches(
        self, columns: list[str], step: int, parts: Sequence[int] | None
    ) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        import pyarrow.csv as pc

        options = pc.ConvertOptions(
            include_columns=columns,
            column_types=dict.fromkeys(self.schema.names, pa.string()),
            null_values=[""],
            strings_can_be_null=self.gaps,
            quoted_strings_can_be_null=False,
        )
        with readable(self.name):
            try:
                with (
                    _unpacked_bytes(self.name, self.files) as stream,
                    pc.open_csv(
                        stream,
                        read_options=pc.ReadOptions(block_size=CSV_BLOCK),
                        parse_options=pc.ParseOptions(delimiter=self.mark, newlines_in_values=True),
                        convert_options=options,
                    ) as reader,
                ):
                    yield from map(_with_points, reader) if self.commas else reader
            except pa.ArrowInvalid:
                from sparing.log.line_numbers import check_cells

                with _unpacked_bytes(self.name, self.files) as stream:
                    check_cells(stream, self.name, self.mark)
                raise

    def lines(self) -> Iterator[str]:
        from sparing.log.line_numbers import of_csv

        with _unpacked_bytes(self.name, self.files) as stream:
            yield from of_csv(stream, Path(self.name).name, self.mark)


def _with_points(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """Every cell that is a number with a decimal comma, with a point."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [pc.replace_substring_regex(column, labels.DECIMAL, r"\1.\2") for column in batch.columns]
    return pa.record_batch(columns, schema=batch.schema)
