"""Read a log from a table, batch by batch, in memory proportional to the log itself."""

import json
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparing.errors import LogError
from sparing.log import labels
from sparing.log.log import Log
from sparing.log.support import Support, SupportBuilder
from sparing.log.table import WHOLE_NUMBER, Columns, Source, find_columns, open_source


def read_log(
    source: Any,
    *,
    contexts: str | Sequence[str] | None = None,
    action: str = "action",
    reward: str = "reward",
    propensity: str | None = "propensity",
    distribution: str | None = "p_",
    eligible: str | None = "eligible",
    context_id: str | None = "context_id",
    actions: Sequence[Hashable] | None = None,
) -> Log:
    """Read a log from a Parquet, CSV or Arrow file, an Arrow, pandas or polars table, or a mapping.

    One row a round. Context features are the columns x_0, x_1, … (or x_<name>), or one list column;
    `contexts` names others. `distribution` is the prefix of one probability column an action,
    `eligible` a list column of the labels the row could have taken. `actions` lists every action,
    logged or not. Columns with default names are optional, except the action and the reward.
    """
    table = open_source(source)
    columns = find_columns(
        table,
        contexts=contexts,
        action=action,
        reward=reward,
        propensity=propensity,
        distribution=distribution,
        eligible=eligible,
        context_id=context_id,
    )
    names = _names(table, columns, actions)
    parts = _Parts(table, columns, names)
    for batch in table.batches(columns.all):
        parts.add(batch)
    return parts.log()


def _names(source: Source, columns: Columns, actions: Sequence[Hashable] | None) -> tuple[Hashable, ...]:
    """Every action's label: as given, as written, by the probability columns, or those that occur."""
    if actions is not None:
        return labels.action_names(actions)
    if "actions" in source.notes:
        return labels.action_names(map(labels.from_json, source.notes["actions"]))
    if columns.distribution:
        texts = [name.removeprefix(columns.prefix) for name in columns.distribution]
        textual = pa.types.is_string(source.schema.field(columns.action).type) and not source.text
        return labels.action_names(texts if textual else _numbers_if_whole(texts))
    seen: set[Hashable] = set()
    wanted = [columns.action] + ([columns.eligible] if columns.eligible else [])
    for batch in source.batches(wanted):
        seen.update(map(labels.plain, pc.unique(batch.column(columns.action)).to_pylist()))
        if columns.eligible:
            for row in _lists(batch.column(columns.eligible), columns.eligible):
                seen.update(map(labels.plain, row))
    if source.text:
        return labels.in_order(_numbers_if_whole([str(label) for label in seen]))
    return labels.in_order(seen)


def _numbers_if_whole(texts: Sequence[str]) -> Sequence[Hashable]:
    """Labels that all look like whole numbers are whole numbers: text files cannot tell."""
    return [int(text) for text in texts] if all(map(WHOLE_NUMBER.fullmatch, texts)) else texts


class _Parts:
    """What has been read so far."""

    def __init__(self, source: Source, columns: Columns, names: tuple[Hashable, ...]) -> None:
        self.source, self.columns, self.names = source, columns, names
        self.index: dict[Hashable, int] = {}
        if source.text or source.notes:
            self.index.update(labels.by_text(names))
        self.index.update((name, i) for i, name in enumerate(names))
        self.rows = 0
        self.contexts: list[np.ndarray] = []
        self.actions: list[np.ndarray] = []
        self.rewards: list[np.ndarray] = []
        self.propensities: list[np.ndarray] = []
        self.ids: list[np.ndarray] = []
        self.support = SupportBuilder(len(names), kind="estimated" if columns.estimated else "exact")
        self.order = self._distribution_order()

    def _distribution_order(self) -> list[str]:
        by_text = {name.removeprefix(self.columns.prefix): name for name in self.columns.distribution}
        if not by_text:
            return []
        missing = [name for name in self.names if labels.as_text(name) not in by_text]
        if missing or len(by_text) != len(self.names):
            raise LogError(
                f"{len(by_text)} probability columns for {len(self.names)} actions"
                + (f"; none for {missing[0]!r}" if missing else "")
                + f". Expected one column {self.columns.prefix}<action> for each"
            )
        return [by_text[labels.as_text(name)] for name in self.names]

    def add(self, batch: pa.RecordBatch) -> None:
        columns = self.columns
        self.contexts.append(self._features(batch))
        self.actions.append(self._indices(batch.column(columns.action)))
        self.rewards.append(self._numbers(batch, columns.reward))
        if columns.propensity:
            self.propensities.append(self._numbers(batch, columns.propensity))
        if columns.context_id:
            self.ids.append(np.asarray(batch.column(columns.context_id).to_numpy(zero_copy_only=False)))
        if self.order:
            table = np.column_stack([self._numbers(batch, name) for name in self.order])
            self.support.add_distribution(table)
        elif columns.eligible:
            sets = _lists(batch.column(columns.eligible), columns.eligible)
            self.support.add_sets(labels.indices(row, self.index, what="eligible action") for row in sets)
        self.rows += batch.num_rows

    def _features(self, batch: pa.RecordBatch) -> np.ndarray:
        names = self.columns.contexts
        kind = batch.schema.field(names[0]).type
        if len(names) == 1 and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            column = batch.column(names[0])
            lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
            if len(lengths) and (np.isnan(lengths.astype(float)).any() or (lengths != lengths[0]).any()):
                row = int(np.flatnonzero(lengths != lengths[0])[0])
                raise LogError(
                    f"context at row {self.rows + row} has length {lengths[row]}; the rows before it have "
                    f"{lengths[0]}"
                )
            width = int(lengths[0]) if len(lengths) else 0
            flat = column.flatten().to_numpy(zero_copy_only=False)
            return np.asarray(flat, dtype=np.float64).reshape(batch.num_rows, width)
        if len(names) == 1 and pa.types.is_fixed_size_list(kind):
            flat = batch.column(names[0]).flatten().to_numpy(zero_copy_only=False)
            return np.asarray(flat, dtype=np.float64).reshape(batch.num_rows, kind.list_size)
        features = np.empty((batch.num_rows, len(names)))
        for j, name in enumerate(names):
            features[:, j] = self._numbers(batch, name)
        return features

    def _numbers(self, batch: pa.RecordBatch, name: str) -> np.ndarray:
        """A column as floats; what is missing becomes NaN and is refused by the log with its row."""
        column = batch.column(name)
        if self.source.text:
            column = pc.utf8_trim_whitespace(column)
            column = pc.if_else(pc.equal(column, ""), "nan", column)
        try:
            numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            row, value = self._first_bad(column)
            raise LogError(
                f"{name} at row {row} is {value!r}, not a number. Encode text features as numbers first, or "
                "choose the feature columns with contexts=[...]"
            ) from None
        return np.asarray(numbers, dtype=np.float64)

    def _first_bad(self, column: pa.Array) -> tuple[int, Any]:
        for row, value in enumerate(column.to_pylist()):
            try:
                float(value)
            except (TypeError, ValueError):
                return self.rows + row, value
        return self.rows, column[0].as_py()

    def _indices(self, column: pa.Array) -> np.ndarray:
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        if encoded.null_count:
            row = int(np.flatnonzero(encoded.indices.is_null().to_numpy(zero_copy_only=False))[0])
            raise LogError(f"the action at row {self.rows + row} is missing; drop the row")
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        known = np.empty(len(encoded.dictionary), dtype=np.int32)
        for code, label in enumerate(encoded.dictionary.to_pylist()):
            position = self.index.get(labels.plain(label))
            if position is None:
                where = np.flatnonzero(codes == code)
                if not len(where):
                    continue
                raise LogError(
                    f"unknown action {label!r} at row {self.rows + int(where[0])}; the {len(self.names)} known "
                    f"ones begin with {self.names[:5]!r}. Add it to actions=[...], or drop the row"
                )
            known[code] = position
        return known[codes]

    def log(self) -> Log:
        n = self.rows
        if not n:
            raise LogError(f"{self.source.name} has no rows; a log without rows is Log.empty(...)")
        columns = self.columns
        support = Support.unknown(n, len(self.names))
        if self.order or columns.eligible:
            support = self.support.build()
        features = self.source.notes.get("features")
        if features is None and len(columns.contexts) > 1:
            features = [_feature_name(name) for name in columns.contexts]
        return Log.from_indices(
            _joined(self.contexts),
            _joined(self.actions),
            _joined(self.rewards),
            self.names,
            propensities=_joined(self.propensities) if columns.propensity else None,
            support=support,
            context_ids=_joined(self.ids) if columns.context_id else None,
            feature_names=features,
        )


def _feature_name(column: str) -> str:
    return column if column[2:].isdigit() else column.removeprefix("x_")


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenate and let go of the parts."""
    try:
        whole = np.concatenate(parts)
    except ValueError:
        raise LogError("contexts have different lengths in different parts of the file") from None
    parts.clear()
    return whole


def _lists(column: pa.Array, name: str) -> Iterator[Sequence[Any]]:
    """Each row of a list column; in text files a list is written as JSON."""
    for row, value in enumerate(column.to_pylist()):
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                raise LogError(
                    f'{name} at row {row} is {value!r}; expected a JSON list such as ["a", "b"]'
                ) from None
        if not isinstance(value, list):
            raise LogError(f"{name} at row {row} is {value!r}; expected a list of actions")
        yield value
