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
from sparing.errors import LogError, SettingError
from sparing.log import arrays, checksums, labels
from sparing.log.arrays import Found
from sparing.log.blocks import METADATA, Blocks, Source, kind_of, notes_text, open_source
from sparing.log.columns import ColumnNames, Columns, keywords_of
from sparing.log.features import Encoder, Features
from sparing.log.items import Items
from sparing.log.labels import DIGITS, WHOLE_NUMBER, brief, first_repeated, whole_numbers
from sparing.log.log import Log
from sparing.log.support import SupportBuilder

Wanted = Features | Encoder | str | None
"""What a table's columns are to become: `auto`, `raw`, as said by `sparing.features(...)`, or by an encoder."""


@keywords_of(Columns)
def read(
    source: Any,
    *,
    actions: Sequence[Hashable] | None = None,
    features: Wanted = None,
    **columns: Unpack[ColumnNames],
) -> tuple[Log, list[str]]:
    """Read a table batch by batch, in memory proportional to the log itself, and say what its columns were taken for."""
    table = open_source(source)
    found, encoder = columns_of(table, arrays.roles_of(columns), features)
    parts = _Parts(table, found, names_of(table, found, actions), encoder)
    for _, batch in table.blocks(found.all):
        parts.add(batch)
    log = aligned(parts.log(), features)
    return log, [] if encoder is None else [f"Features: {encoder.described()}."]


def columns_of(source: Source, roles: Columns, features: Wanted) -> tuple[Found, Encoder | None]:
    """The columns by their roles, and what encodes those of the contexts: None where they are taken as they are."""
    if not isinstance(features, Features | Encoder | None) and features not in ("auto", "raw"):
        raise SettingError(
            f"features={features!r}; must be 'auto', 'raw', sparing.features(...) or an encoder"
        )
    if source.notes.get("encoder") is not None:
        if isinstance(features, Features) or features == "auto":
            raise SettingError(
                f"{source.name} was written with its features encoded; leave features out, or read the raw table"
            )
        return arrays.find_columns(source, roles, raw=True), None
    if isinstance(features, Encoder) and not features.is_raw:
        known = [column.column for column in features.columns]
        return arrays.find_columns(source, roles, taken=lambda _: known), features
    if isinstance(features, Features):
        found = arrays.find_columns(source, roles, taken=features.columns)
    elif features == "auto" and roles.contexts is None:
        found = arrays.find_columns(source, roles, taken=tuple)
    else:
        found = arrays.find_columns(source, roles, raw=features == "raw" or isinstance(features, Encoder))
        if found.raw and features != "auto":
            return found, None
    plan = features if isinstance(features, Features) else Features(others="auto")
    return found, plan.fit(source, found.contexts)


def aligned(log: Log, features: Wanted, *, sparse: str | None = None) -> Log:
    """The log with its contexts as a given encoder has them, by name; see there for `sparse` files."""
    if not isinstance(features, Encoder) or features.digest == log.encoder.digest:
        return log
    return replace(log, contexts=features.aligned(log.encoder, log.contexts, sparse=sparse), encoder=features)


def names_of(source: Source, columns: Found, actions: Sequence[Hashable] | None) -> tuple[Hashable, ...]:
    """Every action's label: as given, as written, by the probability columns, or those that occur."""
    if actions is not None:
        return labels.action_names(actions)
    if "actions" in source.notes:
        return labels.action_names(source.notes["actions"])
    if columns.distribution:
        return labels.action_names(_column_labels(source, columns))
    seen: set[Hashable] = set()
    for row, batch in source.blocks(arrays.distinct(columns.action, columns.eligible)):
        seen.update(arrays.occurring(batch.column(columns.action), columns.action))
        if columns.eligible:
            sets = batch.column(columns.eligible)
            seen.update(arrays.occurring_in_sets(sets, columns.eligible, first_row=row))
    if not seen:
        raise LogError(f"{source.name} has no rows with an action; a log without rows is Log.empty(...)")
    if source.text:
        return labels.in_order(whole_numbers(map(labels.as_text, seen)))
    return labels.in_order(seen)


def index_of(source: Source, names: Sequence[Hashable]) -> dict[Hashable, int]:
    """The place of each action's label, and of its text where the table holds or was written as text."""
    index: dict[Hashable, int] = {name: i for i, name in enumerate(names)}
    if source.text or source.notes:
        index.update(labels.by_text(names).items())
    return index


def feature_names_of(source: Source, columns: Found) -> list[str] | None:
    """The features' names: as written, or by their columns; None for a list column."""
    names = columns.contexts
    if len(names) == 1 and arrays.is_list(source.schema.field(names[0]).type):
        return None
    written = source.notes.get("features", {})
    features = [written.get(name, _feature_name(name)) for name in names]
    return features if len(set(features)) == len(features) else list(names)


def written_encoder(source: Source, columns: Found) -> Encoder | None:
    """The encoder that a written log carries, if all of its features are read."""
    saved = source.notes.get("encoder")
    if saved is None or columns.contexts != tuple(source.notes["features"]):
        return None
    encoder = Encoder.from_header(saved)
    if encoder.names != tuple(source.notes["features"].values()):
        raise LogError(f"{source.name} carries features that are not those of its columns. Write it again")
    return encoder


def written_items(source: Source, names: Sequence[Hashable]) -> Items | None:
    """The items that a written log carries, in the order of these actions, if all are there."""
    saved = source.notes.get("items")
    written = source.notes.get("actions", ())
    if saved is None or not set(names) <= set(written):
        return None
    try:
        items = Items.from_header(saved, len(written))
    except (KeyError, TypeError, ValueError):
        raise LogError(f"{source.name} carries damaged item features. Write it again") from None
    return replace(items, features=items.features[[list(written).index(name) for name in names]])


def _column_labels(source: Source, columns: Found) -> Sequence[Hashable]:
    """What the probability columns are named after, as values of the action column's type."""
    texts = [name.removeprefix(columns.prefix) for name in columns.distribution]
    if source.text:
        return whole_numbers(texts)
    kind = source.schema.field(columns.action).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if arrays.is_text(kind):
        return texts
    try:
        return pa.array(texts, pa.string()).cast(kind).to_pylist()
    except pa.ArrowException:
        raise LogError(
            f"the columns {columns.prefix}* of {source.name} end in {brief(texts[:5])}, not in actions, which are "
            f"{kind}. Name one column {columns.prefix}<action> for each, or pass distribution=None"
        ) from None


class _Parts:
    """What has been read so far, by what `Log.from_indices` calls it."""

    def __init__(
        self, source: Source, columns: Found, names: tuple[Hashable, ...], encoder: Encoder | None
    ) -> None:
        self.source, self.columns, self.names, self.encoder = source, columns, names, encoder
        self.index = index_of(source, names)
        self.rows = 0
        self.parts: defaultdict[str, list[np.ndarray]] = defaultdict(list)
        self.support = SupportBuilder(len(names), kind="estimated" if columns.estimated else "exact")
        self.order = self._distribution_order()

    def _distribution_order(self) -> list[str]:
        """The probability columns in the order of the actions."""
        by_text = {name.removeprefix(self.columns.prefix): name for name in self.columns.distribution}
        if not by_text:
            return []
        found = [_named_after(name, by_text) for name in self.names]
        if None in found or len(by_text) != len(self.names):
            absent = f"; none for {brief(self.names[found.index(None)])}" if None in found else ""
            raise LogError(
                f"{len(by_text)} probability columns for {len(self.names)} actions{absent}. "
                f"Expected one column {self.columns.prefix}<action> for each"
            )
        return [name for name in found if name is not None]

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in the next batch."""
        columns, row, parts = self.columns, self.rows, self.parts
        parts["contexts"].append(self._contexts(batch, row))
        rows = np.arange(row, row + batch.num_rows)
        actions = arrays.indices(batch.column(columns.action), columns.action, self.index, rows=rows)
        parts["actions"].append(actions)
        parts["rewards"].append(self._numbers(batch, columns.reward))
        if columns.propensity:
            parts["propensities"].append(self._numbers(batch, columns.propensity))
        if columns.context_id:
            ids = batch.column(columns.context_id)
            parts["context_ids"].append(arrays.context_ids(ids, columns.context_id, first_row=row))
        if self.order:
            table = np.column_stack([self._numbers(batch, name) for name in self.order])
            self.support.add_distribution(table)
            if not columns.estimated:
                parts["logged_probabilities"].append(table[np.arange(len(table)), actions])
        elif columns.eligible:
            column = batch.column(columns.eligible)
            self.support.add_sets(*arrays.sets(column, columns.eligible, self.index, first_row=row))
        self.rows += batch.num_rows

    def _contexts(self, batch: pa.RecordBatch, row: int) -> np.ndarray:
        if self.encoder is None:
            return arrays.features(batch, self.columns.contexts, first_row=row)
        return self.encoder.encode_batch(batch, first_row=row)

    def _numbers(self, batch: pa.RecordBatch, name: str) -> np.ndarray:
        return arrays.numbers(batch.column(name), name, first_row=self.rows)

    def log(self) -> Log:
        """The log of all that was read."""
        if not self.rows:
            raise no_rows(self.source)
        log = Log.from_indices(
            action_names=self.names,
            support=self.support.build() if self.order or self.columns.eligible else None,
            feature_names=feature_names_of(self.source, self.columns),
            encoder=self.encoder or written_encoder(self.source, self.columns),
            **{what: self._joined(what) for what in list(self.parts)},
        )
        return replace(log, items=written_items(self.source, self.names))

    def _joined(self, what: str) -> np.ndarray:
        """One array of its parts, which are let go of."""
        try:
            return np.concatenate(self.parts.pop(what))
        except ValueError:
            raise LogError("contexts have different lengths in different parts of the file") from None


def no_rows(source: Source) -> LogError:
    """The error for a table without rows."""
    return LogError(f"{source.name} has no rows; a log without rows is Log.empty(...)")


def _named_after(name: Hashable, by_text: Mapping[str, str]) -> str | None:
    """The column that is named after an action: 1.0 may be written 1, and True true."""
    texts = [labels.as_text(name), str(name)]
    if isinstance(name, float) and name.is_integer():
        texts.append(str(int(name)))
    return next((by_text[text] for text in texts if text in by_text), None)


def _feature_name(column: str) -> str:
    return column if DIGITS.fullmatch(column[2:]) else column.removeprefix("x_")


def write(
    log: Log, path: str | os.PathLike[str], *, beside: Mapping[str, Sequence[Any]] | None = None
) -> list[str]:
    """Write a log as Parquet, CSV or Arrow, by the path's ending. Says what CSV could not carry.

    `beside` are columns (n,) of other names than the log's: they stand beside it, and reading leaves them out.
    """
    target = Path(path)
    others = {name: pa.array(values) for name, values in (beside or {}).items()}
    kind = kind_of(target, target.suffix.lower())
    schema = _schema(log, text=kind == "csv")
    blocks = _blocks(log, schema)
    wide = pa.schema([*schema, *((name, array.type) for name, array in others.items())], schema.metadata)
    with replacing(target) as part, _writer(part, kind, wide) as writer:
        for place, batch in enumerate(_widened(_batches(log, schema), wide, others)):
            if kind == "arrow":
                writer.write_batch(batch, custom_metadata=checksums.of_batch(batch, place, len(blocks)))
            else:
                writer.write_batch(batch)
    return _lost_in_text(log) if kind == "csv" else []


def _lost_in_text(log: Log) -> list[str]:
    lost = []
    if not log.encoder.is_raw:
        lost.append("How the features were made of raw columns is lost: write Parquet or Arrow to keep it.")
    if log.items is not None:
        lost.append("What is known of the items is lost: write Parquet or Arrow to keep it.")
    if any(isinstance(name, str) and WHOLE_NUMBER.fullmatch(name) for name in log.action_names):
        lost.append("Labels of text that look like whole numbers read back as whole numbers.")
    if log.support.probabilities is None and (log.counts == 0).any():
        lost.append("Actions that are in no row and no eligible set are not named: read with actions=[...].")
    return lost


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
    """The rows of each batch that is written."""
    return Blocks.of_table(log.n_rows, max(len(schema), log.n_actions if log.support.known else 0))


def _batches(log: Log, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    label = schema.field("action").type
    texts = map(labels.as_text, log.action_names)
    dictionary = pa.array(log.action_names if label == pa.int64() else texts, type=label)
    for rows in _blocks(log, schema):
        yield _batch(log, schema, rows, dictionary)


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
