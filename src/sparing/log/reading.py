"""A table's rows as a log: which columns they are read from, which actions there are, what encodes the features."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sparing.engines import Engine, Progress, local
from sparing.errors import LogError, SettingError
from sparing.log import arrays, labels
from sparing.log.arrays import Found
from sparing.log.blocks import Cut
from sparing.log.columns import Columns
from sparing.log.features import Encoder, Features
from sparing.log.features.fitting import Surveys, Wish, as_it_is
from sparing.log.items import Items
from sparing.log.labels import DIGITS, brief, whole_numbers
from sparing.log.log import Log, check_features, check_numbers
from sparing.log.sources import Source
from sparing.log.support import SupportBuilder
from sparing.log.walking import Standing, Statistic, Together, Total, walk

Wanted = Features | Encoder | str | None
"""What a table's columns are to become: `auto`, `raw`, as said by `sparing.features(...)`, or by an encoder."""


@dataclass(frozen=True, eq=False)
class Reading:
    """All that it takes to make logs of a table's rows, wherever they are read.

    `order` are the probability columns in the order of the actions, `width` the length of a context, `rows` how many there are,
    `places` the features that are read where not all are.
    """

    columns: Found
    names: tuple[Hashable, ...]
    index: dict[Hashable, int]
    encoder: Encoder | None
    written: Encoder | None
    feature_names: list[str] | None
    order: tuple[str, ...]
    items: Items | None
    width: int
    rows: int
    places: tuple[int, ...] | None = None

    def narrowed(self) -> "Reading":
        """The same, of contexts, actions and rewards alone."""
        few = replace(
            self.columns, propensity=None, context_id=None, eligible=None, distribution=(), prefix=""
        )
        return replace(self, columns=few, order=())

    def focused(self, features: Collection[int]) -> "Reading":
        """The same with contexts that are 0 but in these features, where columns can be left out for it."""
        names = self.columns.contexts
        if self.encoder is not None:
            names = self.encoder.columns_of(features)
        elif len(names) == self.width:
            names = tuple(name for place, name in enumerate(names) if place in features)
        if len(names) == len(self.columns.contexts):
            return self
        return replace(self, columns=replace(self.columns, contexts=names), places=tuple(sorted(features)))

    def log(self, batch: pa.RecordBatch, first_row: int = 0) -> Log:
        """The log of a batch whose first row has this number."""
        support = self.support(first_row)
        return self.build(self.parts(batch, first_row, support), support, first_row)

    @property
    def plain(self) -> bool:
        """Whether a row is no more than a column a feature, with numbers as they are, an action and a reward."""
        columns = self.columns
        few = columns.all == (*columns.contexts, columns.action, columns.reward)
        named = self.feature_names is not None  # neither lists nor an encoder's
        return few and named and self.places is None

    def standing(self, batch: pa.RecordBatch, first_row: int = 0) -> Standing:
        """The rows of a batch, if they are plain, with the columns as they stand; refused where their log would be."""
        columns = self.columns
        actions = self.actions(batch, first_row)
        contexts = [
            arrays.numbers(batch.column(name), name, first_row=first_row) for name in columns.contexts
        ]
        rewards = arrays.numbers(
            batch.column(columns.reward), columns.reward, first_row=first_row, feature=False
        )
        check_features(
            contexts, self.written.names if self.written else self.feature_names, first_row=first_row
        )
        check_numbers(rewards, "reward", first_row=first_row)
        return Standing(contexts, actions, rewards)

    def actions(self, batch: pa.RecordBatch, first_row: int) -> np.ndarray:
        """The action indices of a batch, (n,)."""
        name, rows = self.columns.action, np.arange(first_row, first_row + batch.num_rows)
        return arrays.indices(batch.column(name), name, self.index, rows=rows)

    def support(self, first_row: int = 0) -> SupportBuilder:
        """What is to take in what rows from this one on could have taken."""
        kind: Any = "estimated" if self.columns.estimated else "exact"
        return SupportBuilder(len(self.names), kind=kind, first_row=first_row)

    def parts(self, batch: pa.RecordBatch, first_row: int, support: SupportBuilder) -> dict[str, np.ndarray]:
        """A batch's arrays, by what `Log.from_indices` calls them; its support is taken in."""
        columns = self.columns

        def numbers(name: str) -> np.ndarray:
            return arrays.numbers(batch.column(name), name, first_row=first_row, feature=False)

        actions = self.actions(batch, first_row)
        parts = {
            "contexts": self.contexts(batch, first_row),
            "actions": actions,
            "rewards": numbers(columns.reward),
        }
        if columns.propensity:
            parts["propensities"] = numbers(columns.propensity)
        if columns.context_id:
            ids = batch.column(columns.context_id)
            parts["context_ids"] = arrays.context_ids(ids, columns.context_id, first_row=first_row)
        if self.order:
            table = np.column_stack([numbers(name) for name in self.order])
            support.add_distribution(table)
            if not columns.estimated:
                parts["logged_probabilities"] = table[np.arange(len(table)), actions]
        elif columns.eligible:
            column = batch.column(columns.eligible)
            support.add_sets(*arrays.sets(column, columns.eligible, self.index, first_row=first_row))
        return parts

    def contexts(self, batch: pa.RecordBatch, first_row: int) -> np.ndarray:
        """The contexts (n, d) of a batch."""
        if self.encoder is not None:
            among = None if self.places is None else self.columns.contexts
            return self.encoder.encode_batch(batch, first_row=first_row, among=among)
        if self.places is not None:
            table = np.zeros((batch.num_rows, self.width))
            for place, name in zip(self.places, self.columns.contexts, strict=True):
                table[:, place] = arrays.numbers(batch.column(name), name, first_row=first_row)
            return table
        return arrays.features(batch, self.columns.contexts, first_row=first_row, width=self.width)

    def build(self, parts: Mapping[str, np.ndarray], support: SupportBuilder, first_row: int = 0) -> Log:
        """The log of what was read."""
        log = Log.from_indices(
            action_names=self.names,
            support=support.build() if self.order or self.columns.eligible else None,
            feature_names=self.feature_names,
            encoder=self.encoder or self.written,
            first_row=first_row,
            **parts,
        )
        return log if self.items is None else replace(log, items=self.items)


def look_over(
    source: Source,
    roles: Columns,
    *,
    actions: Sequence[Hashable] | None = None,
    features: Wanted = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Reading:
    """Find the columns, and walk the table once for what its columns and labels tell, unless both are known."""
    engine = engine or local(1)
    found, plan, fixed = columns_of(source, roles, features)
    names = _known_names(source, found, actions)
    surveys = Surveys(plan or Features(), found.contexts if plan else ())
    labelled = _Labels(found.action if names is None else "", found.eligible or "" if names is None else "")
    rows = source.rows
    if plan is not None or names is None or rows is None:
        used = arrays.distinct(*surveys.columns, labelled.action or found.action, labelled.eligible or None)
        cut = None if rows is None else Cut.of_table(rows, len(used))
        both = Together(surveys, labelled, Total(_count))
        columns, seen, rows = walk(source, used, both, as_it_is, cut=cut, engine=engine, progress=progress)
        if plan is not None and rows:
            fixed = plan.fitted(source, columns, engine)
        if names is None:
            names = _seen_names(source, seen)
    if not rows:
        raise no_rows(source)
    assert names is not None
    return _reading(source, found, names, fixed, rows)


def _reading(
    source: Source, found: Found, names: tuple[Hashable, ...], encoder: Encoder | None, rows: int
) -> Reading:
    named = feature_names_of(source, found) if encoder is None else list(encoder.names)
    return Reading(
        found,
        names,
        index_of(source, names),
        encoder,
        written_encoder(source, found) if encoder is None else None,
        None if encoder is not None else named,
        _distribution_order(found, names),
        written_items(source, names),
        _width(source, found) if named is None else len(named),
        rows,
    )


def _width(source: Source, columns: Found) -> int:
    """Length of a context in a list column, d."""
    for _, batch in source.blocks(columns.contexts, stop=1):
        rows = arrays.features(batch.slice(0, 1), columns.contexts, first_row=0)
        if not rows.shape[1]:
            raise LogError(f"{columns.contexts[0]} at row 0 is an empty list; expected a feature or more")
        return int(rows.shape[1])
    raise no_rows(source)


@dataclass(frozen=True)
class _Labels(Statistic[pa.RecordBatch, "set[Hashable]"]):
    """The labels that occur in a column of actions and in one of sets; none where neither is named."""

    action: str
    eligible: str

    def zero(self) -> set[Hashable]:
        return set()

    def update(self, state: set[Hashable], block: pa.RecordBatch, first_row: int) -> set[Hashable]:
        if self.action:
            state.update(arrays.occurring(block.column(self.action), self.action))
        if self.eligible:
            sets = block.column(self.eligible)
            state.update(arrays.occurring_in_sets(sets, self.eligible, first_row=first_row))
        return state

    def merge(self, one: set[Hashable], other: set[Hashable]) -> set[Hashable]:
        return one | other


def _count(batch: pa.RecordBatch, first_row: int) -> int:
    return int(batch.num_rows)


def columns_of(
    source: Source, roles: Columns, features: Wanted
) -> tuple[Found, Features | None, Encoder | None]:
    """The columns by their roles, what is to be fitted to those of the contexts, or what encodes them already.

    Neither where they are taken as they are.
    """
    if not isinstance(features, Features | Encoder | None) and features not in ("auto", "raw"):
        raise SettingError(
            f"features={features!r}; must be 'auto', 'raw', sparing.features(...) or an encoder"
        )
    if roles.action == roles.reward:
        raise SettingError(
            f"action={roles.action!r} and reward={roles.reward!r}: one column cannot be both. Name two"
        )
    if source.notes.get("encoder") is not None:
        if isinstance(features, Features) or features == "auto":
            raise SettingError(
                f"{source.name} was written with its features encoded; leave features out, or read the raw table"
            )
        return arrays.find_columns(source, roles, raw=True), None, None
    if isinstance(features, Encoder) and not features.is_raw:
        known = [column.column for column in features.columns]
        return arrays.find_columns(source, roles, taken=lambda _: known), None, features
    if isinstance(features, Features):
        found = arrays.find_columns(source, roles, taken=features.columns)
    elif features == "auto" and roles.contexts is None:
        found = arrays.find_columns(source, roles, taken=tuple)
    else:
        found = arrays.find_columns(source, roles, raw=features == "raw" or isinstance(features, Encoder))
        if found.raw and features != "auto":
            return found, None, None
    if isinstance(features, Features):
        return found, features, None
    named = () if roles.contexts is None else found.contexts
    return found, Features(tuple((name, Wish("auto")) for name in named), others="auto"), None


def _known_names(
    source: Source, columns: Found, actions: Sequence[Hashable] | None
) -> tuple[Hashable, ...] | None:
    """Every action's label: as given, as written, by the probability columns; None where the rows must tell."""
    if actions is not None:
        return labels.action_names(actions)
    if "actions" in source.notes:
        return labels.action_names(source.notes["actions"])
    if columns.distribution:
        return labels.action_names(_column_labels(source, columns))
    return None


def _seen_names(source: Source, seen: set[Hashable]) -> tuple[Hashable, ...]:
    """The labels that occur, in order."""
    if not seen:
        raise LogError(
            f"{source.name} has no rows with an action; expected a row for each decision (in Python, a log without rows is Log.empty(...))"
        )
    return labels.in_order(whole_numbers(map(labels.as_text, seen)) if source.text else seen)


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


def _distribution_order(columns: Found, names: tuple[Hashable, ...]) -> tuple[str, ...]:
    """The probability columns in the order of the actions."""
    by_text = {name.removeprefix(columns.prefix): name for name in columns.distribution}
    if not by_text:
        return ()
    found = [_named_after(name, by_text) for name in names]
    if None in found or len(by_text) != len(names):
        absent = f"; none for {brief(names[found.index(None)])}" if None in found else ""
        raise LogError(
            f"{len(by_text)} probability columns for {len(names)} actions{absent}. "
            f"Expected one column {columns.prefix}<action> for each"
        )
    return tuple(name for name in found if name is not None)


def no_rows(source: Source) -> LogError:
    """The error for a table without rows."""
    return LogError(
        f"{source.name} has no rows; expected a row for each decision (in Python, a log without rows is Log.empty(...))"
    )


def _named_after(name: Hashable, by_text: Mapping[str, str]) -> str | None:
    """The column that is named after an action: 1.0 may be written 1, and True true."""
    texts = [labels.as_text(name), str(name)]
    if isinstance(name, float) and name.is_integer():
        texts.append(str(int(name)))
    return next((by_text[text] for text in texts if text in by_text), None)


def _feature_name(column: str) -> str:
    return column if DIGITS.fullmatch(column[2:]) else column.removeprefix("x_")
