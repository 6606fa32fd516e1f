"""Writing logs: tables (Parquet, CSV, Arrow), and the rows of a log for the writers of text formats."""

import json
import os
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparing.archive import replacing
from sparing.errors import LogError
from sparing.log import labels
from sparing.log.labels import WHOLE_NUMBER, first_repeated, shorten, whole_numbers
from sparing.log.log import Log
from sparing.log.passes import Blocks, SumOf
from sparing.log.rows import AnyLog, as_rows
from sparing.log.tables import METADATA, metadata_json
from sparing.log.text_files import WRITTEN, kind_of


@dataclass(frozen=True, eq=False)
class SupportSummary:
    """Whether each action is logged, (K,), or in a known set, (K,), and the size of the smallest such set."""

    logged: np.ndarray
    listed: np.ndarray
    smallest: int

    @classmethod
    def of(cls, block: Log, first_row: int = 0) -> "SupportSummary":
        logged = block.counts > 0
        if not has_sets(block):
            return cls(logged, np.zeros_like(logged), sys.maxsize)
        support = block.support
        assert support.table is not None
        places = slice(None) if support.index is None else np.unique(support.index)
        sets = support.table[places]
        listed = np.unpackbits(np.bitwise_or.reduce(sets, axis=0), count=block.n_actions).astype(bool)
        smallest = int(np.bitwise_count(sets).sum(axis=1, dtype=np.int64).min(initial=sys.maxsize))
        return cls(logged, listed, smallest)

    def __add__(self, other: "SupportSummary") -> "SupportSummary":
        smallest = min(self.smallest, other.smallest)
        return SupportSummary(self.logged | other.logged, self.listed | other.listed, smallest)


class LogStream:
    """A log that is written block by block, in a format that may need propensities; `summary` is that of the blocks so far."""

    def __init__(self, log: AnyLog, needs_propensities: str = "") -> None:
        self.rows = as_rows(log)
        self.header = self.rows.header
        if needs_propensities and self.header.propensities is None:
            raise LogError(
                f"{needs_propensities} needs the probability of every logged action, and this log has none. Estimate them "
                "first, or write a format that does not need them (obp, a table)"
            )
        self.summary = SupportSummary.of(self.header)

    def blocks(self) -> Iterator[tuple[int, Log]]:
        for first, block in self.rows.blocks():
            self.summary += SupportSummary.of(block)
            yield first, block
            if self.rows.progress is not None:
                self.rows.progress(first + block.n_rows, self.rows.n_rows)

    def full_summary(self) -> SupportSummary:
        """The summary of all blocks, which takes a pass."""
        return self.rows.fold(SumOf(SupportSummary.of)) or self.summary


@dataclass(frozen=True, slots=True)
class WrittenRow:
    """One row of a log.

    The first row has all features, so that a reader finds them in their order; others those that are not 0.
    """

    number: int
    features: list[tuple[Any, float]]
    action: int
    reward: float
    propensity: float | None
    available: Sequence[int]  # indices of the actions that the row could have taken; all if that is unknown
    probabilities: list[float] | None  # of these; None if only the set is known
    context_id: Any


def rows(stream: LogStream, names: Sequence[Any]) -> Iterator[WrittenRow]:
    """Each row, its features under these names; sets and distributions are unpacked for a few rows at a time."""
    for first, block in stream.blocks():
        for part in Blocks.of(block.n_rows, max(block.n_features, block.n_actions)):
            yield from _rows(block.part(part), first + part.start, names)


def _rows(log: Log, first: int, names: Sequence[Any]) -> Iterator[WrittenRow]:
    known = has_sets(log)
    written = (log.contexts != 0) | np.signbit(log.contexts)
    masks = log.support.mask() if known else None
    shares = log.support.distribution() if known else None
    for i in range(log.n_rows):
        where = np.flatnonzero(written[i]) if first + i else np.arange(log.n_features)
        available = None if masks is None else np.flatnonzero(masks[i])
        yield WrittenRow(
            first + i,
            list(zip([names[j] for j in where.tolist()], log.contexts[i, where].tolist(), strict=True)),
            int(log.actions[i]),
            float(log.rewards[i]),
            None if log.propensities is None else float(log.propensities[i]),
            range(log.n_actions) if available is None else available.tolist(),
            None if shares is None else shares[i, available].tolist(),
            None if log.context_ids is None else log.context_ids[i].item(),
        )


def has_sets(log: Log) -> bool:
    """Whether the support is exact."""
    return log.support.kind == "exact"


COST_PREFIX = "cost_"  # of the columns of costs by row


def lossy_notes(stream: LogStream, *, keeps_distributions: bool = False) -> list[str]:
    """Notes on the actions and support that are lost in a format that reads labels back sorted."""
    log, summary, notes = stream.header, stream.summary, []
    if labels.in_order(log.action_names) != log.action_names:
        notes += ["Actions read back in sorted order; read the file with actions=[...] for the log's order."]
    notes += [] if keeps_distributions else distribution_notes(log)
    shown = summary.logged | summary.listed
    if not has_sets(log):
        what = "is estimated, not logged" if log.support.kind == "estimated" else "is unknown"
        notes.append(
            f"The log's support {what}: all actions are listed, which reads back as if each row could have taken any."
        )
        shown = np.ones_like(shown)
    if unseen := [name for name, there in zip(log.action_names, shown, strict=True) if not there]:
        some = ", ".join(map(repr, unseen[:3])) + (", …" if unseen[3:] else "")
        notes.append(
            f"Actions that are in no row ({some}) are lost unless the file is read with actions=[...]."
        )
    return notes


def distribution_notes(log: Log) -> list[str]:
    """A note for formats that keep sets but no full distributions."""
    full = has_sets(log) and log.support.probabilities is not None
    note = "Of each row's distribution, the set and the logged action's probability are kept."
    return [note] if full else []


def feature_names(log: Log, *, usable: Callable[[str], object] = bool) -> tuple[list[str], list[str]]:
    """The names to write features under, and a note if the log's own cannot be written."""
    names = list(log.feature_names)
    bad = [name for name in names if not usable(name)]
    if not bad:
        return names, []
    note = f"Feature names are written as x_0, x_1, … because {shorten(bad[0])} cannot be written."
    return [f"x_{i}" for i in range(len(names))], [note]


def text_notes(names: Sequence[Hashable]) -> list[str]:
    """A note if labels change when they are written as text and read back."""
    back = whole_numbers(labels.labels_by_text(names))
    same = [type(a) is type(b) and a == b for a, b in zip(names, back, strict=True)]
    if all(same):
        return []
    name, text = names[same.index(False)], back[same.index(False)]
    return [
        f"Action labels are written as text: {shorten(name)} reads back as {shorten(text)} unless actions=[...] is given."
    ]


def write_lines(path: str | os.PathLike[str], lines: Iterable[str]) -> None:
    """Write lines of text to a file, which appears only when it is complete."""
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(f"{line}\n")


def write(
    log: AnyLog,
    path: str | os.PathLike[str],
    *,
    extra_columns: Mapping[str, Sequence[Any]] | None = None,
    escape_formulas: bool = False,
) -> list[str]:
    """Write a log as Parquet, CSV or Arrow, by the path's ending, and return notes on what CSV does not keep.

    `extra_columns` of n cells have other names than the log's; reading ignores them. With `escape_formulas` texts of a CSV
    file that a spreadsheet would run as a formula begin with an apostrophe.
    """
    target = Path(path)
    others = {name: pa.array(values) for name, values in (extra_columns or {}).items()}
    kind = kind_of(target, target.suffix.lower())
    if kind == "json":
        raise LogError(f"{path}: a table is written as {', '.join(WRITTEN)}. Name one of these")
    stream = LogStream(log)
    schema = _schema(stream.header, text=kind == "csv")
    wide = pa.schema([*schema, *((name, array.type) for name, array in others.items())], schema.metadata)
    delimiter = "\t" if target.suffix.lower() == ".tsv" else ","
    start = 0
    with replacing(target) as part, _writer(part, kind, wide, delimiter) as writer:
        for batch in _batches(stream, schema):
            more = [array.slice(start, batch.num_rows) for array in others.values()]
            columns = [*batch.columns, *more]
            if escape_formulas and kind == "csv":
                columns = [escaped_formulas(column) for column in columns]
            writer.write_batch(pa.record_batch(columns, schema=wide))
            start += batch.num_rows
    return _lost_in_text(stream) if kind == "csv" else []


def escaped_formulas(column: pa.Array) -> pa.Array:
    """Return a column in which texts that a spreadsheet would run as a formula begin with an apostrophe."""
    if not pa.types.is_string(column.type):
        return column
    risky = pc.match_substring_regex(column, r"^[=+\-@\t\r]")
    return pc.if_else(risky, pc.binary_join_element_wise("'", column, ""), column)


def _lost_in_text(stream: LogStream) -> list[str]:
    log, lost = stream.header, []
    if not log.encoder.is_raw:
        lost.append("The encoder of the features is lost: write Parquet or Arrow to keep it.")
    if log.items is not None:
        lost.append("The features of the items are lost: write Parquet or Arrow to keep them.")
    if log.costs is not None:
        again = f"costs={COST_PREFIX!r}" if log.costs.ndim == 2 else "costs={...}"
        lost += [f"The role of the costs is lost: read with {again}, or write Parquet or Arrow to keep it."]
    if any(isinstance(name, str) and WHOLE_NUMBER.fullmatch(name) for name in log.action_names):
        lost.append("Labels of text that look like whole numbers read back as whole numbers.")
    if log.support.probabilities is None and not stream.summary.logged.all():
        lost.append("Actions that are in no row and no eligible set are not named: read with actions=[...].")
    return lost


def _writer(path: Path, kind: str, schema: pa.Schema, delimiter: str) -> Any:
    if kind == "parquet":
        import pyarrow.parquet as pq

        dictionary = [field.name for field in schema if field.type != pa.float64()]
        return pq.ParquetWriter(path, schema, use_dictionary=dictionary, write_page_checksum=True)
    if kind == "csv":
        import pyarrow.csv as pc

        return pc.CSVWriter(path, schema, write_options=pc.WriteOptions(delimiter=delimiter))
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
        columns |= {f"{estimated}p_{labels.label_text(name)}": pa.float64() for name in log.action_names}
    elif log.support.known:
        columns[f"{estimated}eligible"] = pa.string() if text else pa.list_(label)
    if log.context_ids is not None:
        ids = log.context_ids.dtype
        columns["context_id"] = pa.string() if ids.kind == "U" else pa.from_numpy_dtype(ids)
    if log.costs is not None and log.costs.ndim == 2:
        columns |= {f"{COST_PREFIX}{labels.label_text(name)}": pa.float64() for name in log.action_names}
    metadata: dict[str, Any] = {
        "actions": [labels.to_json(name) for name in log.action_names],
        "features": dict(zip(contexts, log.feature_names, strict=True)),
        "columns": list(columns),
        "encoder": None if log.encoder.is_raw else log.encoder.header(),
        "items": None if log.items is None else log.items.header(),
    }
    if log.costs is not None:
        by_row = log.costs.ndim == 2
        metadata |= {"cost_prefix": COST_PREFIX} if by_row else {"costs": log.costs.tolist()}
    return pa.schema(list(columns.items()), metadata=None if text else {METADATA: metadata_json(metadata)})


def _context_names(log: Log) -> list[str]:
    names = [name if name.startswith("x_") else f"x_{name}" for name in log.feature_names]
    if len(set(names)) < len(names):
        twice = str(first_repeated(names))
        raise LogError(
            f"feature names differ only in a prefix x_: {shorten(twice[2:])} and {shorten(twice)}. Rename one of them"
        )
    return names


def _label_type(names: tuple[Hashable, ...], *, text: bool) -> pa.DataType:
    # Whole numbers stay numbers; anything else than text is written as its JSON.
    if not text and all(type(name) is int and -(2**63) <= name < 2**63 for name in names):
        return pa.int64()
    labels.labels_by_text(names)
    return pa.string()


def _batches(stream: LogStream, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    log = stream.header
    label = schema.field("action").type
    texts = map(labels.label_text, log.action_names)
    width = max(len(schema), log.n_actions if log.support.known else 0)
    dictionary = pa.array(log.action_names if label == pa.int64() else texts, type=label)
    for _, block in stream.blocks():
        for rows in Blocks.of_table(block.n_rows, width):
            yield _batch(block, schema, rows, dictionary)


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
    if log.costs is not None and log.costs.ndim == 2:
        arrays += [np.ascontiguousarray(column) for column in log.costs[rows].T]
    return pa.record_batch([pa.array(array) for array in arrays], schema=schema)


def _sets(mask: np.ndarray, dictionary: pa.Array, *, text: bool) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int32)
    values = dictionary.take(pa.array(np.nonzero(mask)[1]))
    lists = pa.ListArray.from_arrays(pa.array(offsets), values)
    if not text:
        return lists
    return pa.array([json.dumps(row, ensure_ascii=False) for row in lists.to_pylist()])
