"""Rows in pieces of bounded size: of a log in memory, or of a table, which a file never has to be read for at once.

`Blocks` says which rows; a `Source` also reads them. Both can be split into parts that are walked apart.
PyArrow is imported where a table is opened: a log in memory does without.
"""

import codecs
import contextlib
import csv
import gzip
import io
import itertools
import json
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from sparing.errors import LogError
from sparing.log import labels

if TYPE_CHECKING:
    import pyarrow as pa

CELLS = 2**22
"""Numbers of a log in memory that are looked at at a time."""

BATCH_ROWS = 131_072
"""Rows of a table that are read or written at a time, fewer where a row is wide."""

BATCH_CELLS = 2**24
"""Numbers of a table that are read or written at a time."""

CSV_BLOCK = 2**24
"""Bytes of a text file that are parsed at a time; a row must fit."""

KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
"""What a table's file holds, by its ending."""

PARQUET: dict[str, Any] = {"page_checksum_verification": True, "pre_buffer": False, "buffer_size": 2**20}
"""How Parquet is read: pre-buffering would keep the bytes of the whole file in memory."""

METADATA = b"sparing"


@dataclass(frozen=True)
class Blocks:
    """The rows from `start` to before `stop` in pieces of `step` rows, as slices; len() says how many pieces.

    Pieces do not depend on how they are split: what is summed piece by piece, and added in order, is the same.
    """

    start: int
    stop: int
    step: int

    @classmethod
    def of(cls, rows: int, width: int) -> "Blocks":
        """All rows, each of `width` numbers in memory: at most `CELLS` of them a piece, one row at least."""
        return cls(0, rows, max(1, CELLS // max(1, width)))

    @classmethod
    def of_table(cls, rows: int, width: int) -> "Blocks":
        """All rows of a table with so many numbers each, as they are read and written."""
        return cls(0, rows, max(1, min(BATCH_ROWS, BATCH_CELLS // max(1, width))))

    def __len__(self) -> int:
        return -((self.start - self.stop) // self.step)

    def __iter__(self) -> Iterator[slice]:
        for start in range(self.start, self.stop, self.step):
            yield slice(start, min(start + self.step, self.stop))

    def split(self, parts: int) -> list["Blocks"]:
        """At most so many runs of whole pieces, about equally long, in order."""
        parts = max(1, min(parts, len(self)))
        ends = [self.start + self.step * (len(self) * part // parts) for part in range(parts)] + [self.stop]
        return [Blocks(start, stop, self.step) for start, stop in itertools.pairwise(ends)]


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """A table that can be walked, batch by batch, more than once, and sent to where it is walked.

    `text`: every cell is text, and its role decides what it must parse to. `sizes` are the rows of the parts
    that can be read on their own; `parts` are those of them that this source is, `first_row` its first row.
    """

    name: str
    schema: "pa.Schema"
    text: bool = False
    sizes: tuple[int, ...] = ()
    parts: tuple[int, ...] | None = None
    first_row: int = 0

    @abstractmethod
    def batches(self, columns: list[str], step: int) -> "Iterator[pa.RecordBatch]":
        """These columns, in batches of about so many rows."""

    def blocks(self, columns: Sequence[str]) -> "Iterator[tuple[int, pa.RecordBatch]]":
        """Batches of these columns that are not empty, each with its first row."""
        row = self.first_row
        for batch in self.batches(list(columns), Blocks.of_table(0, len(columns)).step):
            if batch.num_rows:
                yield row, batch
                row += batch.num_rows

    def split(self, count: int) -> list["Source"]:
        """At most so many sources with about equally many rows; they follow from the file and the count alone."""
        if count < 2 or not sum(self.sizes):
            return [self]
        ends = np.cumsum(self.sizes, dtype=np.int64)
        starts = ends - self.sizes
        home = starts * count // ends[-1]
        runs = (np.flatnonzero(home == i).tolist() for i in range(count))
        return [replace(self, parts=tuple(run), first_row=int(starts[run[0]])) for run in runs if run]

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


def ending_of(path: Path) -> str:
    """A path's ending in small letters, without that of gzip: .csv for log.csv.gz."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() if last == ".gz" else last


@contextlib.contextmanager
def readable(path: Path, trouble: str = "is truncated or damaged") -> Iterator[None]:
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


def open_source(source: Any) -> Source:
    """A file path, an Arrow table, a pandas or polars frame, or a mapping of columns."""
    if is_path(source):
        return _open_file(Path(source))
    table = _table(source)
    return _Memory(name="the table", schema=table.schema, table=table)


@dataclass(frozen=True, kw_only=True)
class _Memory(Source):
    table: "pa.Table"

    def batches(self, columns: list[str], step: int) -> "Iterator[pa.RecordBatch]":
        yield from self.table.select(columns).to_batches(max_chunksize=step)


def _table(source: Any) -> "pa.Table":
    import pyarrow as pa

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
    import pyarrow as pa

    if isinstance(values, np.ndarray) and values.ndim == 2:
        flat = pa.array(np.ascontiguousarray(values).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return values


def _open_file(path: Path) -> Source:
    kind = kind_of(path, ending_of(path))
    if existing(path).stat().st_size == 0:
        raise LogError(f"{path} is empty (0 bytes); expected a {kind} table")
    with readable(path, f"cannot be read as {kind}"):
        if kind != "csv" and is_packed(path):
            raise LogError(f"{path} is packed by gzip; a {kind} file is read as it is. Unpack it first")
        source = {"parquet": _open_parquet, "csv": open_csv, "arrow": _open_arrow}[kind](path)
        _ = source.schema.names  # decodes them, or finds that they are no text
    return source


def _open_parquet(path: Path) -> Source:
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    sizes = tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
    if sum(sizes) != metadata.num_rows:
        raise LogError(f"{path} is damaged: {metadata.num_rows} rows, but {sum(sizes)} in its parts")
    schema = metadata.schema.to_arrow_schema()
    return _Parquet(name=str(path), schema=schema, sizes=sizes, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class _Parquet(Source):
    metadata: Any

    def batches(self, columns: list[str], step: int) -> "Iterator[pa.RecordBatch]":
        import pyarrow.parquet as pq

        path, whole = Path(self.name), self.parts is None
        with readable(path), pq.ParquetFile(path, metadata=self.metadata, **PARQUET) as file:
            # Of several parts, each has a thread of its own already.
            for batch in file.iter_batches(step, self.parts, columns, use_threads=whole):
                batch.validate(full=True)  # damaged text or offsets would fail later, or crash
                yield batch


def _open_arrow(path: Path) -> Source:
    import pyarrow as pa

    with pa.memory_map(str(path)) as memory:
        return _Arrow(name=str(path), schema=pa.ipc.open_file(memory).schema)


@dataclass(frozen=True, kw_only=True)
class _Arrow(Source):
    def batches(self, columns: list[str], step: int) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        from sparing.log import checksums

        with readable(Path(self.name)), pa.memory_map(self.name) as memory:
            reader = pa.ipc.open_file(memory)
            count = reader.num_record_batches
            places = {name: j for j, name in enumerate(reader.schema.names)}
            for i in range(count):
                whole, metadata = reader.get_batch_with_custom_metadata(i)
                batch = whole.select(columns)
                batch.validate(full=True)
                checksums.check(batch, metadata, places, place=i, count=count)
                for rows in Blocks(0, batch.num_rows, step):
                    yield batch.slice(rows.start, rows.stop - rows.start)


def open_csv(path: Path, *, gaps: bool = True) -> Source:
    """A text file, packed or not; `gaps`: whether a cell with nothing in it is missing, or an empty text."""
    import pyarrow as pa

    with unpacked(path) as file:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(file.read(CSV_BLOCK))
    header = next(csv.reader(io.StringIO(text, newline=""), strict=True), [])
    schema = pa.schema([(name, pa.string()) for name in header])
    return _Csv(name=str(path), schema=schema, text=True, gaps=gaps)


@dataclass(frozen=True, kw_only=True)
class _Csv(Source):
    gaps: bool

    def batches(self, columns: list[str], step: int) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        import pyarrow.csv as pc

        path = Path(self.name)
        options = pc.ConvertOptions(
            include_columns=columns,
            column_types=dict.fromkeys(self.schema.names, pa.string()),
            null_values=[""],
            strings_can_be_null=self.gaps,
            quoted_strings_can_be_null=False,
        )
        with (
            readable(path),
            pa.OSFile(self.name) as plain,
            pa.CompressedInputStream(plain, "gzip") if is_packed(path) else plain as stream,
            pc.open_csv(
                stream,
                read_options=pc.ReadOptions(block_size=CSV_BLOCK),
                parse_options=pc.ParseOptions(newlines_in_values=True),
                convert_options=options,
            ) as reader,
        ):
            yield from reader
