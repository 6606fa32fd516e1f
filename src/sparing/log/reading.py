"""Read a log from a table, batch by batch, in memory proportional to the log itself."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sparing.errors import LogError
from sparing.log import arrays, formats, labels
from sparing.log.log import Log
from sparing.log.parsing import DIGITS, brief, whole_numbers
from sparing.log.roles import Columns, find_columns
from sparing.log.support import Support, SupportBuilder
from sparing.log.table import Source, open_source

TABLE = "table"
"""The name of our own format among the others."""


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
    format: str | None = None,
) -> Log:
    """Read a log from a Parquet, CSV or Arrow file, an Arrow, pandas or polars table, or a mapping.

    Other tools' formats (OBP, Open Bandit Dataset, Vowpal Wabbit, coba, river) are told by their content,
    or named by `format`; `sparing.log.conversion.read_any` also says what was assumed.

    A table has one row a round. Context features are the columns x_0, x_1, … (or x_<name>), or one list
    column; `contexts` names others. `distribution` is the prefix of one probability column an action,
    `eligible` a list column of the labels the row could have taken. `actions` lists every action,
    logged or not. Columns with default names are optional, except the action and the reward. No constant
    feature is added: the linear models have no intercept unless the contexts hold one.
    """
    foreign = None if format == TABLE else formats.named(format) if format else formats.detect(source)
    if foreign is not None:
        given = contexts is not None or (action, reward) != ("action", "reward")
        if given or (propensity, distribution, eligible) != ("propensity", "p_", "eligible"):
            raise LogError(
                f"this is {foreign.title}, which names its own columns; leave the column names out"
            )
        return foreign.read(source, **({} if actions is None else {"actions": actions}))[0]
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
    parts = _Parts(table, columns, names_of(table, columns, actions))
    for batch in table.batches(columns.all):
        if batch.num_rows:
            parts.add(batch)
    return parts.log()


def names_of(source: Source, columns: Columns, actions: Sequence[Hashable] | None) -> tuple[Hashable, ...]:
    """Every action's label: as given, as written, by the probability columns, or those that occur."""
    if actions is not None:
        return labels.action_names(actions)
    if "actions" in source.notes:
        return labels.action_names(source.notes["actions"])
    if columns.distribution:
        return labels.action_names(_column_labels(source, columns))
    seen: set[Hashable] = set()
    row = 0
    for batch in source.batches([columns.action, *([columns.eligible] if columns.eligible else [])]):
        seen.update(arrays.occurring(batch.column(columns.action), columns.action))
        if columns.eligible:
            sets = batch.column(columns.eligible)
            seen.update(arrays.occurring_in_sets(sets, columns.eligible, first_row=row))
        row += batch.num_rows
    if not seen:
        raise LogError(f"{source.name} has no rows with an action; a log without rows is Log.empty(...)")
    if source.text:
        return labels.in_order(whole_numbers(map(labels.as_text, seen)))
    return labels.in_order(seen)


def feature_names_of(source: Source, columns: Columns) -> list[str] | None:
    """The features' names: as written, or by their columns; None for a list column."""
    names = columns.contexts
    if len(names) == 1 and arrays.is_list(source.schema.field(names[0]).type):
        return None
    written = source.notes.get("features", {})
    features = [written.get(name, _feature_name(name)) for name in names]
    return features if len(set(features)) == len(features) else list(names)


def _column_labels(source: Source, columns: Columns) -> Sequence[Hashable]:
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
    """What has been read so far."""

    def __init__(self, source: Source, columns: Columns, names: tuple[Hashable, ...]) -> None:
        self.source, self.columns, self.names = source, columns, names
        self.index: dict[Hashable, int] = {name: i for i, name in enumerate(names)}
        if source.text or source.notes:
            self.index.update(labels.by_text(names).items())
        self.rows = 0
        self.contexts: list[np.ndarray] = []
        self.actions: list[np.ndarray] = []
        self.rewards: list[np.ndarray] = []
        self.propensities: list[np.ndarray] = []
        self.logged: list[np.ndarray] = []
        self.ids: list[np.ndarray] = []
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
        columns, row = self.columns, self.rows
        self.contexts.append(arrays.features(batch, columns.contexts, first_row=row))
        actions = arrays.indices(
            batch.column(columns.action),
            columns.action,
            self.index,
            rows=np.arange(row, row + batch.num_rows),
        )
        self.actions.append(actions)
        self.rewards.append(self._numbers(batch, columns.reward))
        if columns.propensity:
            self.propensities.append(self._numbers(batch, columns.propensity))
        if columns.context_id:
            ids = batch.column(columns.context_id)
            self.ids.append(arrays.context_ids(ids, columns.context_id, first_row=row))
        if self.order:
            self._add_distribution(batch, actions)
        elif columns.eligible:
            column = batch.column(columns.eligible)
            self.support.add_sets(*arrays.sets(column, columns.eligible, self.index, first_row=row))
        self.rows += batch.num_rows

    def _add_distribution(self, batch: pa.RecordBatch, actions: np.ndarray) -> None:
        table = np.empty((batch.num_rows, len(self.order)))
        for j, name in enumerate(self.order):
            table[:, j] = self._numbers(batch, name)
        self.support.add_distribution(table)
        if not self.columns.estimated:
            self.logged.append(table[np.arange(len(table)), actions])

    def _numbers(self, batch: pa.RecordBatch, name: str) -> np.ndarray:
        return arrays.numbers(batch.column(name), name, first_row=self.rows)

    def log(self) -> Log:
        n = self.rows
        if not n:
            raise LogError(f"{self.source.name} has no rows; a log without rows is Log.empty(...)")
        columns = self.columns
        support = Support.unknown(n, len(self.names))
        if self.order or columns.eligible:
            support = self.support.build()
        return Log.from_indices(
            _joined(self.contexts),
            _joined(self.actions),
            _joined(self.rewards),
            self.names,
            propensities=_joined(self.propensities) if self.propensities else None,
            logged_probabilities=_joined(self.logged) if self.logged else None,
            support=support,
            context_ids=_joined(self.ids) if self.ids else None,
            feature_names=feature_names_of(self.source, columns),
        )


def _named_after(name: Hashable, by_text: Mapping[str, str]) -> str | None:
    """The column that is named after an action: 1.0 may be written 1, and True true."""
    texts = [labels.as_text(name), str(name)]
    if isinstance(name, float) and name.is_integer():
        texts.append(str(int(name)))
    return next((by_text[text] for text in texts if text in by_text), None)


def _feature_name(column: str) -> str:
    return column if DIGITS.fullmatch(column[2:]) else column.removeprefix("x_")


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenate and let go of the parts."""
    try:
        whole = np.concatenate(parts)
    except ValueError:
        raise LogError("contexts have different lengths in different parts of the file") from None
    parts.clear()
    return whole
