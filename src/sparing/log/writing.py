"""Write a log as a table that `read_log` reads back."""

import json
import os
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparing.archive import replacing
from sparing.errors import LogError
from sparing.log import checksums, labels
from sparing.log.log import Log
from sparing.log.parsing import brief, first_repeated
from sparing.log.table import METADATA, batch_rows, file_format, notes_text


def write_log(log: Log, path: str | os.PathLike[str]) -> None:
    """Write a log as Parquet, CSV or Arrow, by the path's ending.

    Parquet and Arrow carry everything. In CSV labels and ids are text: whole numbers read back as
    numbers, anything else as its text, and an action that is in no row, set or probability column not at
    all, unless `read_log` is given `actions`.
    """
    target = Path(path)
    kind = file_format(target)
    schema = _schema(log, text=kind == "csv")
    with replacing(target) as part, _writer(part, kind, schema) as writer:
        count = len(_parts(log, schema))
        for place, batch in enumerate(_batches(log, schema)):
            if kind == "arrow":
                writer.write_batch(batch, custom_metadata=checksums.of_batch(batch, place, count))
            else:
                writer.write_batch(batch)


def _writer(path: Path, kind: str, schema: pa.Schema) -> Any:
    if kind == "parquet":
        import pyarrow.parquet as pq

        dictionary = [field.name for field in schema if field.type != pa.float64()]
        return pq.ParquetWriter(path, schema, use_dictionary=dictionary, write_page_checksum=True)
    if kind == "csv":
        import pyarrow.csv as pc

        return pc.CSVWriter(path, schema)
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


def _parts(log: Log, schema: pa.Schema) -> list[slice]:
    """The rows of each batch."""
    step = batch_rows(max(len(schema), log.n_actions if log.support.known else 0))
    return [slice(start, min(start + step, log.n_rows)) for start in range(0, log.n_rows, step)]


def _batches(log: Log, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    label = schema.field("action").type
    texts = map(labels.as_text, log.action_names)
    dictionary = pa.array(log.action_names if label == pa.int64() else texts, type=label)
    for rows in _parts(log, schema):
        yield _batch(log, schema, rows, dictionary)


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
