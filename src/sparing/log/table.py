"""Where a table comes from: a file of some format, or a table in memory."""

import codecs
import csv
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparing.errors import LogError
from sparing.log import checksums, files, labels
from sparing.log.files import DAMAGE, first_line, readable
from sparing.log.parsing import load_json

BATCH_ROWS = 131_072
"""Rows that are read or written at a time, fewer where a row is wide."""

BATCH_CELLS = 2**24
"""Numbers that are read or written at a time."""

CSV_BLOCK = 2**24
"""Bytes of a text file that are parsed at a time; a row must fit."""

METADATA = b"sparing"

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


@dataclass(frozen=True)
class Source:
    """A table that can be walked, batch by batch, more than once."""

    name: str
    schema: pa.Schema
    batches: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
    text: bool = False

    @cached_property
    def notes(self) -> dict[str, Any]:
        """What `write_log` left in the schema's metadata: the actions, and the features by their columns."""
        raw = (self.schema.metadata or {}).get(METADATA)
        if raw is None:
            return {}
        try:
            notes = load_json(raw, constants=True)
            whole = notes.pop("check", None) in (None, _check(notes))
            actions = [labels.from_json(value) for value in notes["actions"]]
            features = {str(column): str(name) for column, name in dict(notes["features"]).items()}
            columns = list(map(str, notes.get("columns", features)))
        except (AttributeError, KeyError, TypeError, ValueError):
            whole = False
        if not whole:
            raise LogError(
                f"{self.name} has damaged notes on its actions in its metadata. Write it again with write_log"
            ) from None
        return {"actions": actions, "features": features, "columns": columns}


def notes_text(notes: Mapping[str, Any]) -> str:
    """Notes as they are written, with a checksum by which damage is told."""
    return json.dumps({**notes, "check": _check(notes)}, ensure_ascii=False)


def _check(notes: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(notes, ensure_ascii=False).encode())


def open_source(source: Any) -> Source:
    """A file path, an Arrow table, a pandas or polars frame, or a mapping of columns."""
    if isinstance(source, str | os.PathLike):
        return _open_file(Path(source))
    table = _table(source)

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from table.select(list(columns)).to_batches(max_chunksize=batch_rows(len(columns)))

    return Source("the table", table.schema, batches)


def batch_rows(width: int) -> int:
    """How many rows of this many numbers to hold at a time."""
    return max(1, min(BATCH_ROWS, BATCH_CELLS // max(1, width)))


def _table(source: Any) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    if not isinstance(source, Mapping) and not hasattr(source, "__arrow_c_stream__"):
        raise LogError(
            f"cannot read a log from {type(source).__name__}; expected a path, a pyarrow, pandas or polars "
            "table, or a mapping of columns. For arrays use Log.from_arrays(contexts, actions, rewards)"
        )
    try:
        if isinstance(source, Mapping):
            return pa.table({name: _column(values) for name, values in source.items()})
        return pa.table(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise LogError(
            f"the {type(source).__name__} does not make a table: {first_line(error)}. Every column needs one "
            "type and the same length; labels of several types go through Log.from_arrays"
        ) from None


def _column(values: Any) -> Any:
    if isinstance(values, np.ndarray) and values.ndim == 2:
        flat = pa.array(np.ascontiguousarray(values).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return values


def file_format(path: Path) -> str:
    """Tell a table's format by its ending."""
    return _format_of(path, path.suffix.lower())


def _format_of(path: Path, ending: str) -> str:
    try:
        return FORMATS[ending]
    except KeyError:
        raise LogError(f"{path}: unknown ending {path.suffix!r}; known are {', '.join(FORMATS)}") from None


def _open_file(path: Path) -> Source:
    kind = _format_of(path, files.ending(path))
    if not path.is_file():
        raise LogError(f"{path} does not exist or is not a file")
    if path.stat().st_size == 0:
        raise LogError(f"{path} is empty (0 bytes); expected a {kind} table")
    try:
        if kind != "csv" and files.is_packed(path):
            raise LogError(f"{path} is packed by gzip; a {kind} file is read as it is. Unpack it first")
        source = {"parquet": _parquet, "csv": _csv, "arrow": _arrow}[kind](path)
        _ = source.schema.names  # decodes them, or finds that they are no text
    except DAMAGE as error:
        raise LogError(f"{path} cannot be read as {kind}: {first_line(error)}") from None
    return source


READING: dict[str, Any] = {"page_checksum_verification": True, "pre_buffer": False, "buffer_size": 2**20}
"""How Parquet is read: pre-buffering would keep the bytes of the whole file in memory."""


def _parquet(path: Path) -> Source:
    import pyarrow.parquet as pq

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with readable(path), pq.ParquetFile(path, **READING) as file:
            for batch in file.iter_batches(batch_size=batch_rows(len(columns)), columns=list(columns)):
                batch.validate(full=True)  # damaged text or offsets would fail later, or crash
                yield batch

    with pq.ParquetFile(path) as file:
        metadata = file.metadata
        rows = sum(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
        if rows != metadata.num_rows:
            raise LogError(f"{path} is damaged: {metadata.num_rows} rows, but {rows} in its parts")
        return Source(str(path), file.schema_arrow, batches)


def _arrow(path: Path) -> Source:
    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with readable(path), pa.memory_map(str(path)) as memory:
            reader = pa.ipc.open_file(memory)
            count = reader.num_record_batches
            places = {name: j for j, name in enumerate(reader.schema.names)}
            for i in range(count):
                whole, metadata = reader.get_batch_with_custom_metadata(i)
                batch = whole.select(list(columns))
                batch.validate(full=True)
                checksums.check(batch, metadata, places, place=i, count=count)
                for start in range(0, batch.num_rows, batch_rows(len(columns))):
                    yield batch.slice(start, batch_rows(len(columns)))

    with pa.memory_map(str(path)) as memory:
        return Source(str(path), pa.ipc.open_file(memory).schema, batches)


def _csv(path: Path) -> Source:
    """Every cell is read as text; its role decides what it must parse to."""
    import pyarrow.csv as pc

    with files.unpacked(path) as file:
        header = csv_header(file.read(CSV_BLOCK))

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        options = pc.ConvertOptions(
            include_columns=list(columns),
            column_types=dict.fromkeys(header, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        with (
            readable(path),
            files.arrow_stream(path) as stream,
            pc.open_csv(
                stream,
                read_options=pc.ReadOptions(block_size=CSV_BLOCK),
                parse_options=pc.ParseOptions(newlines_in_values=True),
                convert_options=options,
            ) as reader,
        ):
            yield from reader

    return Source(str(path), pa.schema([(name, pa.string()) for name in header]), batches, text=True)


def csv_header(head: bytes) -> list[str]:
    """The names in the first row of a text file, of which these are the first bytes."""
    text = codecs.getincrementaldecoder("utf-8-sig")().decode(head)
    return next(csv.reader(io.StringIO(text, newline=""), strict=True), [])
