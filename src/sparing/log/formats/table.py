"""Our own format: a table with a row a round, as Parquet, CSV or Arrow, or in memory, read and written in blocks."""

import json
import os
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from sparing.archive import replacing
from sparing.engines import Progress, local
from sparing.errors import LogError
from sparing.log import checksums, labels
from sparing.log.blocks import Blocks
from sparing.log.columns import ColumnNames, Columns, keywords_of, roles_of
from sparing.log.features import Encoder
from sparing.log.files import open_files
from sparing.log.formats.writing import Passing
from sparing.log.labels import WHOLE_NUMBER, brief, first_repeated
from sparing.log.log import Log
from sparing.log.paths import WRITTEN, Dialect, kind_of
from sparing.log.reading import Reading, Wanted, look_over
from sparing.log.rows import AnyLog, Rows, rows_of
from sparing.log.scanning import Scan
from sparing.log.sources import METADATA, notes_text
from sparing.log.walking import telling_lines


@keywords_of(Columns)
def read(
    source: Any,
    *,
    actions: Sequence[Hashable] | None = None,
    features: Wanted = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    **columns: Unpack[ColumnNames],
) -> tuple[Log, list[str]]:
    """Read a table batch by batch, in memory proportional to the log itself, and say what its columns were taken for."""
    roles = roles_of(columns)
    return load(source, roles, Dialect(delimiter, decimal), actions=actions, features=features)


def load(
    source: Any, roles: Columns, dialect: Dialect, *, actions: Sequence[Hashable] | None, features: Wanted
) -> tuple[Log, list[str]]:
    """The same of columns by their roles, where text is written so."""
    table = open_files(source, dialect)
    reading = look_over(table, roles, actions=actions, features=features)
    parts, support = defaultdict[str, list[np.ndarray]](list), reading.support()
    with telling_lines(table):
        for row, batch in table.blocks(reading.columns.all):
            for what, array in reading.parts(batch, row, support).items():
                parts[what].append(array)
        # One array of its parts, which are let go of.
        joined = {what: np.concatenate(parts.pop(what)) for what in list(parts)}
        log = reading.build(joined, support)
    return aligned(log, features), _assumed(reading)


@keywords_of(Columns)
def scan(
    source: Any,
    *,
    actions: Sequence[Hashable] | None = None,
    features: Wanted = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    progress: Progress | None = None,
    **columns: Unpack[ColumnNames],
) -> tuple[Rows, list[str]]:
    """The same log as one that is walked; also of a folder, a pattern or a URI, by one worker."""
    roles, dialect = roles_of(columns), Dialect(delimiter, decimal)
    if isinstance(features, Encoder):  # which may have the columns in another order
        log, notes = load(source, roles, dialect, actions=actions, features=features)
        return rows_of(log), notes
    table, engine = open_files(source, dialect), local(1)
    reading = look_over(table, roles, actions=actions, features=features, engine=engine)
    return Scan(table, reading, engine, progress), _assumed(reading)


def _assumed(reading: Reading) -> list[str]:
    return [] if reading.encoder is None else [f"Features: {reading.encoder.described()}."]


def aligned(log: Log, features: Wanted, *, sparse: str | None = None) -> Log:
    """The log with its contexts as a given encoder has them, by name; see there for `sparse` files."""
    if not isinstance(features, Encoder) or features.digest == log.encoder.digest:
        return log
    return replace(log, contexts=features.aligned(log.encoder, log.contexts, sparse=sparse), encoder=features)


def write(
    log: AnyLog, path: str | os.PathLike[str], *, beside: Mapping[str, Sequence[Any]] | None = None
) -> list[str]:
    """Write a log as Parquet, CSV or Arrow, by the path's ending. Says what CSV could not carry.

    `beside` are columns (n,) of other names than the log's: they stand beside it, and reading leaves them out.
    """
    target = Path(path)
    others = {name: pa.array(values) for name, values in (beside or {}).items()}
    kind = kind_of(target, target.suffix.lower())
    if kind == "json":
        raise LogError(f"{path}: a table is written as {', '.join(WRITTEN)}. Name one of these")
    passing = Passing(log)
    schema = _schema(passing.header, text=kind == "csv")
    count = _count(passing, schema)
    wide = pa.schema([*schema, *((name, array.type) for name, array in others.items())], schema.metadata)
    mark = "\t" if target.suffix.lower() == ".tsv" else ","
    with replacing(target) as part, _writer(part, kind, wide, mark) as writer:
        for place, batch in enumerate(_widened(_batches(passing, schema), wide, others)):
            if kind == "arrow":
                writer.write_batch(batch, custom_metadata=checksums.of_batch(batch, place, count))
            else:
                writer.write_batch(batch)
    return _lost_in_text(passing) if kind == "csv" else []


def _lost_in_text(passing: Passing) -> list[str]:
    log, lost = passing.header, []
    if not log.encoder.is_raw:
        lost.append("How the features were made of raw columns is lost: write Parquet or Arrow to keep it.")
    if log.items is not None:
        lost.append("What is known of the items is lost: write Parquet or Arrow to keep it.")
    if any(isinstance(name, str) and WHOLE_NUMBER.fullmatch(name) for name in log.action_names):
        lost.append("Labels of text that look like whole numbers read back as whole numbers.")
    if log.support.probabilities is None and not passing.told.logged.all():
        lost.append("Actions that are in no row and no eligible set are not named: read with actions=[...].")
    return lost


def _writer(path: Path, kind: str, schema: pa.Schema, mark: str) -> Any:
    if kind == "parquet":
        import pyarrow.parquet as pq

        dictionary = [field.name for field in schema if field.type != pa.float64()]
        return pq.ParquetWriter(path, schema, use_dictionary=dictionary, write_page_checksum=True)
    if kind == "csv":
        import pyarrow.csv as pc

        return pc.CSVWriter(path, schema, write_options=pc.WriteOptions(delimiter=mark))
    return pa.ipc.new_file(path, schema)


def _schema(log: Log, *, text: bool) -> pa.Schema:
    label = _label_type(log.action_names, text=text)
    contexts = _context_names(log)
    columns: dict[str, pa.DataType] = dict.fromkeys(contexts, pa.float64())
    columns |= {"action": label, "reward": pa.float64()}
    if log.propensities is not None:
        columns["propensity"] = pa.float64()
    estimated = "estimated_" if log.support.kind == "estimated" else ""
    if log.support.probabilities is not None:
        columns |= {f"{estimated}p_{labels.as_text(name)}": pa.float64() for name in log.action_names}
    elif log.support.known:
        columns[f"{estimated}eligible"] = pa.string() if text else pa.list_(label)
    if log.context_ids is not None:
        ids = log.context_ids.dtype
        columns["context_id"] = pa.string() if ids.kind == "U" else pa.from_numpy_dtype(ids)
    notes = {
        "actions": [labels.to_json(name) for name in log.action_names],
        "features": dict(zip(contexts, log.feature_names, strict=True)),
        "columns": list(columns),
        "encoder": None if log.encoder.is_raw else log.encoder.header(),
        "items": None if log.items is None else log.items.header(),
    }
    metadata = None if text else {METADATA: notes_text(notes)}
    return pa.schema(list(columns.items()), metadata=metadata)


def _context_names(log: Log) -> list[str]:
    names = [name if name.startswith("x_") else f"x_{name}" for name in log.feature_names]
    if len(set(names)) < len(names):
        twice = str(first_repeated(names))
        raise LogError(
            f"feature names are not all different but for their x_: {brief(twice[2:])} and {brief(twice)}. Rename one of them"
        )
    return names


def _label_type(names: tuple[Hashable, ...], *, text: bool) -> pa.DataType:
    """Whole numbers stay numbers; anything but strings is otherwise written as its JSON."""
    if not text and all(type(name) is int and -(2**63) <= name < 2**63 for name in names):
        return pa.int64()
    labels.by_text(names)
    return pa.string()


def _blocks(log: Log, schema: pa.Schema) -> Blocks:
    """The rows of each batch that is written of a block."""
    return Blocks.of_table(log.n_rows, max(len(schema), log.n_actions if log.support.known else 0))


def _count(passing: Passing, schema: pa.Schema) -> int:
    """How many batches are written."""
    step, blocks = (
        _blocks(passing.header, schema).step,
        Blocks(0, passing.rows.n_rows, passing.rows.cut.block),
    )
    return sum(len(Blocks(rows.start, rows.stop, step)) for rows in blocks)


def _batches(passing: Passing, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    log = passing.header
    label = schema.field("action").type
    texts = map(labels.as_text, log.action_names)
    dictionary = pa.array(log.action_names if label == pa.int64() else texts, type=label)
    for _, block in passing.blocks():
        for rows in _blocks(block, schema):
            yield _batch(block, schema, rows, dictionary)


def _widened(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, others: Mapping[str, pa.Array]
) -> Iterator[pa.RecordBatch]:
    """Each batch with its part of other columns behind its own."""
    start = 0
    for batch in batches:
        more = [array.slice(start, batch.num_rows) for array in others.values()]
        yield pa.record_batch([*batch.columns, *more], schema=schema)
        start += batch.num_rows


def _batch(log: Log, schema: pa.Schema, rows: slice, dictionary: pa.Array) -> pa.RecordBatch:
    arrays: list[Any] = [np.ascontiguousarray(column) for column in log.contexts[rows].T]
    arrays += [dictionary.take(pa.array(log.actions[rows])), log.rewards[rows]]
    if log.propensities is not None:
        arrays.append(log.propensities[rows])
    distribution = log.support.distribution(rows) if log.support.known else None
    if distribution is not None:
        arrays += [np.ascontiguousarray(column) for column in distribution.T]
    elif log.support.known:
        arrays.append(_sets(log.support.mask(rows), dictionary, text=schema.metadata is None))
    if log.context_ids is not None:
        arrays.append(pa.array(log.context_ids[rows].tolist(), type=schema.field("context_id").type))
    return pa.record_batch([pa.array(array) for array in arrays], schema=schema)


def _sets(mask: np.ndarray, dictionary: pa.Array, *, text: bool) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int32)
    values = dictionary.take(pa.array(np.nonzero(mask)[1]))
    lists = pa.ListArray.from_arrays(pa.array(offsets), values)
    if not text:
        return lists
    return pa.array([json.dumps(row, ensure_ascii=False) for row in lists.to_pylist()])
