"""Tables as logs: their layout, inferred in one pass, and `Scan`, a log whose rows are read when they are needed."""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar, Unpack

import numpy as np
import pyarrow as pa

from sparing.engines import Engine, Progress, engine_of, local
from sparing.errors import LogError, SettingError
from sparing.log import arrays, labels
from sparing.log.arrays import TableColumns
from sparing.log.columns import ColumnKeywords, ColumnRoles, keywords_of
from sparing.log.features import Encoder, Features
from sparing.log.features.cells import COMMA, PERCENT, Notation
from sparing.log.features.columns import NumberColumn
from sparing.log.features.encoder import SHOWN
from sparing.log.features.fitting import (
    TIME_KINDS,
    ColumnProfile,
    ColumnProfiles,
    NumberReadings,
    identity_batch,
    settle,
)
from sparing.log.features.specs import ColumnSpec
from sparing.log.items import Items, ItemTable
from sparing.log.labels import DIGITS, shorten, whole_numbers
from sparing.log.log import Log, as_costs, check_features, check_numbers
from sparing.log.passes import (
    ColumnarBlock,
    Combined,
    Statistic,
    SumOf,
    line_numbers_in_errors,
    scan_rows,
)
from sparing.log.rows import Rows
from sparing.log.support import SupportBuilder
from sparing.log.tables import TableSource, open_table
from sparing.log.text_files import Dialect

S = TypeVar("S")

ONE_A_DECISION = "expected a row for each decision (in Python, a log without rows is Log.empty(...))"

FeatureSpec = Features | Encoder | str | None
"""What a table's columns become: `auto`, `raw`, as `sparing.features(...)` specifies, or as an encoder does."""


@dataclass(frozen=True, eq=False)
class TableLayout:
    """What it takes to make logs of a table's rows, wherever they are read."""

    columns: TableColumns
    names: tuple[Hashable, ...]
    index: dict[Hashable, int]  # of each label, and of its text if the table holds text
    encoder: Encoder | None  # of columns that are not read as they are
    features: Encoder  # the encoder of the log
    lists: bool  # contexts are the lists of one column
    items: Items | None
    n_rows: int
    feature_subset: tuple[int, ...] | None = None  # indices of the features that are read; None: all
    costs: np.ndarray | None = None  # of each action in every row
    # of numbers as text, unless as computers write them
    notations: Mapping[str, Notation] = field(default_factory=dict)
    assumed: str = ""  # what was assumed to read the cells, in a sentence

    def select(
        self, *, ids: bool = True, support: bool = True, features: Collection[int] | None = None
    ) -> "TableLayout":
        """The layout without columns of ids, of propensities and supports, or of other features, as in `Rows.select`."""
        columns = self.columns
        if not ids:
            columns = replace(columns, context_id=None)
        if not support:
            columns = replace(columns, propensity=None, eligible=None, distribution=(), prefix="", costs=())
        layout = replace(self, columns=columns)
        return layout if features is None else layout._with_features(features)

    def _with_features(self, features: Collection[int]) -> "TableLayout":
        # Contexts are 0 except in these features, if that saves columns.
        names = self.columns.contexts
        if self.encoder is not None:
            names = self.encoder.columns_of(features)
        elif not self.lists:
            names = tuple(name for place, name in enumerate(names) if place in features)
        if len(names) == len(self.columns.contexts):
            return self
        few = replace(self.columns, contexts=names)
        return replace(self, columns=few, feature_subset=tuple(sorted(features)))

    def log(self, batch: pa.RecordBatch, first_row: int = 0) -> Log:
        """The log of a batch."""
        columns, actions = self.columns, self.actions(batch, first_row)
        parts: dict[str, Any] = {
            "contexts": self.contexts(batch, first_row),
            "rewards": self._numbers(batch, columns.reward, first_row),
        }
        kind: Any = "estimated" if columns.estimated else "exact"
        support = SupportBuilder(len(self.names), kind=kind, first_row=first_row)
        if columns.propensity:
            parts["propensities"] = self._numbers(batch, columns.propensity, first_row)
        if columns.context_id:
            ids = batch.column(columns.context_id)
            parts["context_ids"] = arrays.context_ids(ids, columns.context_id, first_row=first_row)
        if columns.distribution:
            table = self._table(batch, columns.distribution, first_row)
            support.add_distribution(table)
            if not columns.estimated:
                parts["logged_probabilities"] = table[np.arange(len(table)), actions]
        elif columns.eligible:
            column = batch.column(columns.eligible)
            support.add_sets(*arrays.eligible_sets(column, columns.eligible, self.index, first_row=first_row))
        if columns.costs:
            parts["costs"] = self._table(batch, columns.costs, first_row)
        elif self.costs is not None:
            parts["costs"] = self.costs
        log = Log.from_indices(
            actions=actions,
            action_names=self.names,
            support=support.build() if columns.distribution or columns.eligible else None,
            encoder=self.features,
            first_row=first_row,
            **parts,
        )
        return log if self.items is None else replace(log, items=self.items)

    @property
    def plain(self) -> bool:
        """Whether a row is an action, a reward and one raw number a feature, each in a column of its own."""
        columns = self.columns
        few = columns.all == (*columns.contexts, columns.action, columns.reward)
        return few and self.encoder is None and not self.lists and self.feature_subset is None

    def columnar(self, batch: pa.RecordBatch, first_row: int = 0) -> ColumnarBlock:
        """The rows of a batch as columns, if the layout is plain; checked as `log` does."""
        actions = self.actions(batch, first_row)
        contexts = [self._numbers(batch, name, first_row, feature=True) for name in self.columns.contexts]
        rewards = self._numbers(batch, self.columns.reward, first_row)
        check_features(contexts, self.features.names, first_row=first_row)
        check_numbers(rewards, "reward", first_row=first_row)
        return ColumnarBlock(contexts, actions, rewards)

    def actions(self, batch: pa.RecordBatch, first_row: int) -> np.ndarray:
        """The action indices of a batch, (n,)."""
        name, rows = self.columns.action, np.arange(first_row, first_row + batch.num_rows)
        return arrays.indices(batch.column(name), name, self.index, rows=rows)

    def contexts(self, batch: pa.RecordBatch, first_row: int) -> np.ndarray:
        """The contexts (n, d) of a batch."""
        if self.encoder is not None:
            among = None if self.feature_subset is None else self.columns.contexts
            return self.encoder.encode_batch(batch, first_row=first_row, among=among)
        if self.feature_subset is not None:
            table = np.zeros((batch.num_rows, self.features.size))
            for place, name in zip(self.feature_subset, self.columns.contexts, strict=True):
                table[:, place] = self._numbers(batch, name, first_row, feature=True)
            return table
        names, width = self.columns.contexts, self.features.size
        return arrays.features(batch, names, first_row=first_row, width=width, notations=self.notations)

    def _table(self, batch: pa.RecordBatch, names: Sequence[str], first_row: int) -> np.ndarray:
        return np.column_stack([self._numbers(batch, name, first_row) for name in names])

    def _numbers(
        self, batch: pa.RecordBatch, name: str, first_row: int, *, feature: bool = False
    ) -> np.ndarray:
        column, notation = batch.column(name), self.notations.get(name)
        return arrays.numbers(column, name, first_row=first_row, feature=feature, notation=notation)


def infer_layout(
    source: TableSource,
    roles: ColumnRoles,
    *,
    actions: Sequence[Hashable] | None = None,
    features: FeatureSpec = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> TableLayout:
    """Find the columns, and read the table once to fit features, collect labels and count rows, unless all are known."""
    engine = engine or local(1)
    found, plan, fixed = _resolve_columns(source, roles, features)
    names = _known_names(source, found, actions)
    coded = _words(source, found, plan)
    profiles = ColumnProfiles(
        plan or Features(), found.contexts if plan else (), source.dialect.dates, frozenset(coded)
    )
    readings = NumberReadings(_numeric_texts(source, found, plan, fixed))
    labelled = [_ActionLabels(found.action, found.eligible)] if names is None else []
    rows = source.rows
    notations: dict[str, Notation] = {}
    assumed = ""
    if plan is not None or names is None or rows is None or readings.columns:
        sets = found.eligible if names is None else None
        used = arrays.distinct(*profiles.columns, found.action, sets, *readings.columns)
        statistic = Combined(profiles, readings, SumOf(_count), *labelled)
        table = source.with_dictionaries(coded)
        columns, numbers, rows, *seen = scan_rows(
            table, used, statistic, identity_batch, engine=engine, progress=progress
        )
        marks = () if fixed is None else fixed.decimal_marks
        notations = settle(source, columns, dict(zip(readings.columns, numbers, strict=True)), marks)
        assumed = _assumptions(source, columns, notations)
        if fixed is not None:
            fixed = fixed.with_notations({name: notations.get(name) for name in readings.columns})
        if plan is not None and rows:
            dropped = [(name, "left out, dropped") for name in arrays.dropped_columns(source, roles)]
            fixed = plan.fitted(source, columns, engine)
            fixed = replace(fixed, left_out=(*fixed.left_out, *dropped), roles=found.others)
        if names is None:
            names = _seen_names(source, *seen)
    if not rows:
        raise LogError(f"{source.name} has no rows; {ONE_A_DECISION}")
    assert names is not None
    index: dict[Hashable, int] = {name: i for i, name in enumerate(names)}
    if source.text or source.stored_metadata:
        index.update(labels.labels_by_text(names).items())
    lists = fixed is None and _are_lists(source, found)
    return TableLayout(
        columns=replace(
            found,
            distribution=_columns_by_action("probability", found.prefix, found.distribution, names),
            costs=_columns_by_action("cost", found.cost_prefix, found.costs, names),
        ),
        names=names,
        index=index,
        encoder=fixed,
        features=_list_encoder(source, found) if lists else fixed or _raw_encoder(source, found),
        lists=lists,
        costs=_constant_costs(source, roles, names),
        items=_stored_items(source, names),
        n_rows=rows,
        notations=notations,
        assumed=assumed,
    )


def _numeric_texts(
    source: TableSource, columns: TableColumns, plan: Features | None, encoder: Encoder | None
) -> tuple[str, ...]:
    """Columns of text that are read as numbers without a profile: rewards, probabilities, raw contexts, an encoder's numbers."""
    names = [columns.reward, columns.propensity, *columns.distribution, *columns.costs]
    if encoder is not None:
        names += [column.column for column in encoder.columns if isinstance(column, NumberColumn)]
    elif plan is None:
        names += columns.contexts
    return tuple(name for name in arrays.distinct(*names) if arrays.is_text(source.schema.field(name).type))


def _words(source: TableSource, columns: TableColumns, plan: Features | None) -> tuple[str, ...]:
    """Columns of text whose kind is to be detected: where a file has a dictionary of their words, each is read once."""
    if plan is None:
        return ()
    named = dict(plan.specs)
    known = set(source.schema.names)
    kinds = {name: source.schema.field(name).type for name in columns.contexts if name in known}
    return tuple(
        name
        for name, kind in kinds.items()
        if arrays.is_text(kind)
        and not pa.types.is_dictionary(kind)
        and (name not in named or named[name].kind == "auto")
    )


def _assumptions(
    source: TableSource, profiles: Sequence[ColumnProfile], notations: Mapping[str, Notation]
) -> str:
    """What was assumed to read the table's cells, in one sentence; empty if nothing was."""
    units = sorted({each.unit for each in notations.values()} - {"", PERCENT})
    columns = {
        "a decimal comma": [name for name, each in notations.items() if each.decimal == COMMA],
        "a decimal point": [name for name, each in notations.items() if each.decimal != COMMA],
        "percent (12 % is 0.12)": [name for name, each in notations.items() if each.unit == PERCENT],
        **{unit: [name for name, each in notations.items() if each.unit == unit] for unit in units},
    }
    for profile in profiles:
        kind, what = profile.kind if profile.spec.kind == "auto" else "", ""
        if kind == "bool" and len(profile.counts) == 2:
            what = f"{'/'.join(sorted(profile.counts))} as truth values"
        elif kind in TIME_KINDS.values():
            what = f"the {kind.removeprefix('time-').replace('-', ' ')}"
        columns.setdefault(what, []).append(profile.column)
    said = [
        *source.assumed,
        *(f"{what} in {_listed(names)}" for what, names in columns.items() if what and names),
    ]
    return f"Assumed: {'; '.join(said)}." if said else ""


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(shorten, names[:SHOWN])) + more


def _are_lists(source: TableSource, columns: TableColumns) -> bool:
    names = columns.contexts
    return len(names) == 1 and arrays.is_list(source.schema.field(names[0]).type)


def _list_encoder(source: TableSource, columns: TableColumns) -> Encoder:
    _, first = next(source.blocks(columns.contexts, stop=1))
    length = arrays.features(first, columns.contexts, first_row=0).shape[1]
    if not length:
        raise LogError(f"{columns.contexts[0]} at row 0 is an empty list; expected a feature or more")
    return Encoder.raw(labels.feature_names(None, length))


@dataclass(frozen=True)
class _ActionLabels(Statistic[pa.RecordBatch, "set[Hashable]"]):
    action: str
    eligible: str | None

    def zero(self) -> set[Hashable]:
        return set()

    def update(self, state: set[Hashable], block: pa.RecordBatch, first_row: int) -> set[Hashable]:
        state.update(arrays.distinct_labels(block.column(self.action), self.action))
        if self.eligible is not None:
            sets = block.column(self.eligible)
            state.update(arrays.distinct_set_labels(sets, self.eligible, first_row=first_row))
        return state

    def merge(self, one: set[Hashable], other: set[Hashable]) -> set[Hashable]:
        return one | other


def _count(batch: pa.RecordBatch, first_row: int) -> int:
    return int(batch.num_rows)


def _resolve_columns(
    source: TableSource, roles: ColumnRoles, features: FeatureSpec
) -> tuple[TableColumns, Features | None, Encoder | None]:
    # The columns, the features to fit to those of the contexts, or the encoder that is known; neither if they are raw.
    if not isinstance(features, Features | Encoder | None) and features not in ("auto", "raw"):
        raise SettingError(
            f"features={features!r}; must be 'auto', 'raw', sparing.features(...) or an encoder"
        )
    if roles.action == roles.reward:
        raise SettingError(
            f"action={roles.action!r} and reward={roles.reward!r}: one column cannot be both. Name two"
        )
    if source.stored_metadata.get("encoder") is not None:
        if isinstance(features, Features) or features == "auto":
            raise SettingError(
                f"{source.name} was written with its features encoded; leave features out, or read the raw table"
            )
        features = "raw"
    if isinstance(features, Encoder) and not features.is_raw:
        known = [column.column for column in features.columns]
        return arrays.find_columns(source, roles, taken=lambda _: known), None, features
    if isinstance(features, Features):
        return arrays.find_columns(source, roles, taken=features.columns), features, None
    every = tuple if features == "auto" and roles.contexts is None else None
    raw = features == "raw" or isinstance(features, Encoder)
    found = arrays.find_columns(source, roles, taken=every, raw=raw)
    if found.raw and features != "auto":
        return found, None, None
    named = () if roles.contexts is None else found.contexts
    return found, Features(tuple((name, ColumnSpec("auto")) for name in named), others="auto"), None


def _known_names(
    source: TableSource, columns: TableColumns, actions: Sequence[Hashable] | None
) -> tuple[Hashable, ...] | None:
    # None if the labels must be collected from the rows.
    if actions is not None:
        return labels.action_names(actions)
    if "actions" in source.stored_metadata:
        return labels.action_names(source.stored_metadata["actions"])
    if columns.distribution:
        return labels.action_names(_column_labels(source, columns, columns.prefix, columns.distribution))
    if columns.costs:  # an action may have a price before it has a row
        return labels.action_names(_column_labels(source, columns, columns.cost_prefix, columns.costs))
    return None


def _seen_names(source: TableSource, seen: set[Hashable]) -> tuple[Hashable, ...]:
    if not seen:
        raise LogError(f"{source.name} has no rows with an action; {ONE_A_DECISION}")
    return labels.in_order(whole_numbers(map(labels.label_text, seen)) if source.text else seen)


def _raw_encoder(source: TableSource, columns: TableColumns) -> Encoder:
    """The encoder of numbers that are read as they are: what encoded them before they were written, or a raw one."""
    saved, names = source.stored_metadata.get("encoder"), columns.contexts
    written = source.stored_metadata.get("features", {})
    if saved is None or names != tuple(written):
        plain = [name if DIGITS.fullmatch(name[2:]) else name.removeprefix("x_") for name in names]
        features = [written.get(name, own) for name, own in zip(names, plain, strict=True)]
        return Encoder.raw(features if len(set(features)) == len(features) else names, columns.others)
    encoder = Encoder.from_header(saved)
    if encoder.names != tuple(written.values()):
        raise LogError(f"{source.name} carries features that are not those of its columns. Write it again")
    return encoder


def _stored_items(source: TableSource, names: Sequence[Hashable]) -> Items | None:
    saved = source.stored_metadata.get("items")
    written = source.stored_metadata.get("actions", ())
    if saved is None or not set(names) <= set(written):
        return None
    try:
        items = Items.from_header(saved, len(written))
    except (KeyError, TypeError, ValueError):
        raise LogError(f"{source.name} carries damaged item features. Write it again") from None
    return replace(items, features=items.features[[list(written).index(name) for name in names]])


def _constant_costs(
    source: TableSource, roles: ColumnRoles, names: tuple[Hashable, ...]
) -> np.ndarray | None:
    # The same in every row: as given, else those of a table that sparing wrote.
    if roles.costs is not None:
        return None if isinstance(roles.costs, str) else as_costs(roles.costs, names)
    stored = source.stored_metadata.get("costs")
    if stored is None:
        return None
    known = dict(zip(labels.action_names(source.stored_metadata["actions"]), stored, strict=True))
    return as_costs({name: known[name] for name in names if name in known}, names)


def _column_labels(
    source: TableSource, columns: TableColumns, prefix: str, found: Sequence[str]
) -> Sequence[Hashable]:
    # The ends of the names of one column per action, as values of the action column's type.
    texts = [name.removeprefix(prefix) for name in found]
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
            f"the columns {prefix}* of {source.name} end in {shorten(texts[:5])}, not in actions, which are "
            f"{kind}. Name one column {prefix}<action> for each, or pass {'distribution' if prefix == columns.prefix else 'costs'}=None"
        ) from None


def _columns_by_action(
    what: str, prefix: str, columns: Sequence[str], names: tuple[Hashable, ...]
) -> tuple[str, ...]:
    by_text = {name.removeprefix(prefix): name for name in columns}
    if not by_text:
        return ()
    found = [_column_of_action(name, by_text) for name in names]
    if None in found or len(by_text) != len(names):
        absent = f"; none for {shorten(names[found.index(None)])}" if None in found else ""
        raise LogError(
            f"{len(by_text)} {what} columns for {len(names)} actions{absent}. "
            f"Expected one column {prefix}<action> for each"
        )
    return tuple(name for name in found if name is not None)


def _column_of_action(name: Hashable, by_text: Mapping[str, str]) -> str | None:
    # 1.0 may be written 1, and True true.
    texts = [labels.label_text(name), str(name)]
    if isinstance(name, float) and name.is_integer():
        texts.append(str(int(name)))
    return next((by_text[text] for text in texts if text in by_text), None)


class Scan(Rows):
    """A log in tables that an engine's workers read whenever something is computed from it.

    Build one with `sparing.scan`. Results equal those of the log in memory, to the last bit.

    Parameters
    ----------
    source : TableSource
        The open table.
    layout : TableLayout
        The role of each column, the labels of the actions and the encoder.
    engine : Engine
        Where the rows are read.
    progress : callable, optional
        Called as `progress(done, total)` during every pass.

    Attributes
    ----------
    header : Log
        The log without its rows: names, encoder, items, the kind of support, and which optional columns exist.
    n_rows, n_actions, n_features : int
        Numbers of rows n, of actions K (logged or not), and of features d.
    action_names : tuple
        Labels of the actions, (K,).
    feature_names : tuple of str
        Names of the features, (d,).
    """

    def __init__(
        self, source: TableSource, layout: TableLayout, engine: Engine, progress: Progress | None = None
    ) -> None:
        self.source = source.with_dictionaries((*layout.columns.contexts, layout.columns.action))
        self.layout, self.engine, self.progress = layout, engine, progress
        self.n_rows, self.threads = layout.n_rows, engine.threads
        with line_numbers_in_errors(source):
            _, first = next(source.blocks(layout.columns.all, step=1, stop=1))
            self.header = layout.log(first).part(slice(0, 0))

    def fold(self, statistic: Statistic[Log, S]) -> S:
        """Compute a statistic in one pass of the engine's workers.

        Parameters
        ----------
        statistic : sparing.log.passes.Statistic
            What to compute of the blocks of rows, and how to merge it.
        """
        make: Any = self.layout.columnar if statistic.by_columns and self.layout.plain else self.layout.log
        return scan_rows(
            self.source,
            self.layout.columns.all,
            statistic,
            make,
            partition=self.partition,
            engine=self.engine,
            progress=self.progress,
        )

    def blocks(self) -> Iterator[tuple[int, Log]]:
        for row, batch in self.source.blocks(self.layout.columns.all, step=self.partition.block):
            with line_numbers_in_errors(self.source):
                log = self.layout.log(batch, row)
            yield row, log

    def select(
        self, *, ids: bool = True, support: bool = True, features: Collection[int] | None = None
    ) -> "Scan":
        """Skip columns that a pass does not need; contexts, actions and rewards are always there.

        Parameters
        ----------
        ids : bool
            Read the ids of contexts.
        support : bool
            Read propensities and supports.
        features : collection of int, optional
            Indices of the features that are needed; others may be 0. All by default.
        """
        layout = self.layout.select(ids=ids, support=support, features=features)
        return Scan(self.source, layout, self.engine, self.progress)

    def on(self, engine: Any, *, workers: int | None = None, progress: Progress | None = None) -> "Scan":
        """Read the same log with another engine.

        Parameters
        ----------
        engine : Engine, str or distributed.Client
            "local", the address of a Dask scheduler (dask://host:8786), a Dask client, or an engine of `sparing.engines`.
        workers : int, optional
            Threads of the local engine; by default one per core.
        progress : callable, optional
            Called with the rows done and all rows during a pass; by default as before.
        """
        return Scan(self.source, self.layout, engine_of(engine, workers), progress or self.progress)


def roles_of(names: ColumnKeywords) -> ColumnRoles:
    """The roles from a function's keywords; raises a TypeError for unknown ones."""
    roles = [role.name for role in fields(ColumnRoles)]
    if unknown := sorted(set(names) - set(roles)):
        raise TypeError(
            f"unexpected keyword argument {unknown[0]!r}; columns are named by {', '.join(roles)}"
        )
    return ColumnRoles(**names)


@keywords_of(ColumnRoles)
def scan_table(
    source: Any,
    *,
    actions: Sequence[Hashable] | None = None,
    features: FeatureSpec = None,
    items: Any = None,
    item_features: FeatureSpec = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    dates: str | None = None,
    encoding: str | None = None,
    sheet: str | int | None = None,
    engine: Any = "local",
    workers: int | None = None,
    progress: Progress | None = None,
    **columns: Unpack[ColumnKeywords],
) -> Scan:
    """Open a table as a scan: one pass for its labels and to fit `features`. The keywords are those of `sparing.scan`."""
    roles, chosen = roles_of(columns), engine_of(engine, workers)
    table = open_table(source, Dialect(delimiter, decimal, dates, encoding, sheet))
    layout = infer_layout(table, roles, actions=actions, features=features, engine=chosen, progress=progress)
    if items is not None:
        label = columns.get("action", "action")
        about = ItemTable(items, label, item_features, decimal=decimal, dates=dates)
        every = about.actions(layout.names)
        if actions is None and len(every) > len(layout.names):
            encoder = layout.encoder or features
            again = infer_layout(table, roles, actions=every, features=encoder, engine=chosen)
            layout = replace(again, assumed=layout.assumed)
        layout = replace(layout, items=about.items(layout.names))
    return Scan(table, layout, chosen, progress)
