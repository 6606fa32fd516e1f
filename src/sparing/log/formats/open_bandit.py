"""The Open Bandit Dataset's CSV: item_id, position, click, propensity_score and hashed user features."""

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparing.errors import LogError
from sparing.log import labels
from sparing.log.formats.naming import numbered
from sparing.log.formats.open_bandit_table import CLICK, ITEM, POSITION, Table, are_numbers
from sparing.log.formats.open_bandit_writing import write as write
from sparing.log.limits import check_action_count
from sparing.log.log import Log
from sparing.log.parsing import cut

MAX_CATEGORIES = 1000


def read(
    source: str | os.PathLike[str],
    *,
    position: int | None = None,
    affinities: bool = False,
    actions: Sequence[Hashable] | None = None,
    max_categories: int = MAX_CATEGORIES,
) -> tuple[Log, list[str]]:
    """Read the CSV, batch by batch and twice.

    User features are one-hot (`user_feature_0=<value>`, values sorted), unless every value is a number.
    Of several positions `position` selects one; otherwise all rows are read and the position is one-hot
    too, because clicks and propensities depend on it. `affinities` adds the user's affinity to each item.
    `actions` names the items 0..K−1; K is the number of affinity columns, else the largest item + 1. Where items
    are large and sparse, those that occur are the actions.
    """
    table = Table(Path(source))
    survey = _Survey(table, position, max_categories)
    if actions is not None:
        names = labels.action_names(actions)
    elif table.affinities:
        names = labels.action_names(range(len(table.affinities)))
    else:
        names = numbered(survey.items, first=0)
    known = range(len(names)) if actions is not None else names
    columns = survey.columns(affinities=affinities)
    log = _fill(survey, columns, names, np.array(known, dtype=np.int64))
    notes = survey.notes(columns, affinities=affinities)
    if actions is None and not table.affinities:
        notes.append(f"No affinity columns: {len(names)} items, as far as they were logged.")
    return log, notes


@dataclass(frozen=True)
class _Column:
    """A column of the file, and the features it becomes: itself, or one for each of its values."""

    source: str
    values: tuple[str, ...] | None = None

    @property
    def names(self) -> list[str]:
        return [self.source] if self.values is None else [f"{self.source}={value}" for value in self.values]


class _Survey:
    """The first walk: how many rows, which items and positions, which values each user feature has."""

    def __init__(self, table: Table, position: int | None, max_categories: int) -> None:
        if position is not None and table.position is None:
            raise LogError(f"position={position}, but {table.path} has no column {POSITION}; leave it out")
        self.table, self.position = table, position
        self.rows = 0
        self.items: set[int] = set()
        self.positions: set[int] = set()
        self.categories: dict[str, set[str] | None] = {name: set() for name in table.users}
        for line, batch in table.batches([ITEM, table.position, *table.users]):
            keep = self.kept(batch, line)
            self.rows += int(keep.sum())
            self.items.update(np.unique(table.items(batch, line)).tolist())
            check_action_count(len(self.items), f"{table.path.name}, column {ITEM}")
            for name in table.users:
                self._see(name, batch.column(name).filter(pa.array(keep)), max_categories, line)
        if not self.rows:
            there = f"; its positions are {sorted(self.positions)}" if self.positions else ""
            raise LogError(
                f"{table.path} has no rows{'' if position is None else f' with position {position}'}{there}"
            )

    def kept(self, batch: pa.RecordBatch, line: int) -> np.ndarray:
        """Which rows of a batch have the wanted position."""
        if self.table.position is None:
            return np.ones(batch.num_rows, dtype=bool)
        positions = self.table.numbers(batch, POSITION, line, whole=True)
        self.positions.update(np.unique(positions).astype(int).tolist())
        return (
            positions == self.position if self.position is not None else np.ones(len(positions), dtype=bool)
        )

    def _see(self, name: str, column: pa.Array, limit: int, line: int) -> None:
        known = self.categories[name]
        if known is None:
            return
        known.update(pc.unique(column).to_pylist())
        if len(known) > limit:
            if not are_numbers(known):
                raise LogError(
                    f"{self.table.path.name}, before line {line + len(column)}: {cut(name)} has more than {limit} "
                    "values. Drop the column, or raise max_categories"
                )
            self.categories[name] = None

    def columns(self, *, affinities: bool) -> list[_Column]:
        """The columns that become features, in order."""
        columns = []
        for name, values in self.categories.items():
            numeric = values is None or are_numbers(values)
            columns.append(_Column(name, None if numeric else tuple(sorted(values or ()))))
        if self.position is None and len(self.positions) > 1:
            columns.append(_Column(POSITION, tuple(map(str, sorted(self.positions)))))
        return columns + [_Column(name) for name in self.table.affinities if affinities]

    def notes(self, columns: list[_Column], *, affinities: bool) -> list[str]:
        """What was assumed."""
        table = self.table
        notes = [
            "A propensity alone does not tell which other items could have been shown: the support is unknown."
        ]
        if table.propensity is None:
            notes[0] = "There are no propensities, and the support is unknown."
        if any(column.source == POSITION for column in columns):
            notes.append("Rows of all positions were read, and the position is one-hot in the contexts.")
        elif self.position is not None:
            notes.append(f"Only position {self.position} was read.")
        if numeric := [c.source for c in columns if c.values is None and c.source in table.users]:
            notes.append(
                f"User features that are all numbers were kept as numbers: {', '.join(map(cut, numeric))}."
            )
        left = ["timestamps"] + (["affinities"] if table.affinities and not affinities else [])
        return [*notes, f"Not kept: {' and '.join(left)}."]


def _fill(survey: _Survey, columns: list[_Column], names: tuple[Hashable, ...], known: np.ndarray) -> Log:
    """The second walk; `known` (K,) are the actions' items, in rising order."""
    table = survey.table
    features = [name for column in columns for name in column.names]
    if not features:
        raise LogError(f"{table.path} has no user features; expected user_feature_0, … or affinities=True")
    contexts = np.zeros((survey.rows, len(features)))
    actions = np.empty(survey.rows, dtype=np.int32)
    rewards = np.empty(survey.rows)
    propensities = np.empty(survey.rows) if table.propensity else None
    start = 0
    wanted = [ITEM, CLICK, table.position, table.propensity, *(column.source for column in columns)]
    for line, batch in table.batches(wanted):
        keep = survey.kept(batch, line)
        part = slice(start, start + int(keep.sum()))
        items = table.items(batch, line)
        places = np.searchsorted(known, items)
        outside = np.flatnonzero(known[np.minimum(places, len(known) - 1)] != items)
        if len(outside):
            raise LogError(
                f"{table.path.name}, line {line + outside[0]}: {ITEM} {items[outside[0]]}; expected {known[0]} to "
                f"{known[-1]}"
            )
        actions[part] = places[keep]
        rewards[part] = table.numbers(batch, CLICK, line)[keep]
        if propensities is not None and table.propensity:
            propensities[part] = table.propensities(batch, line)[keep]
        first = 0
        for column in columns:
            contexts[part, first : first + len(column.names)] = _features(table, batch, column, line)[keep]
            first += len(column.names)
        start = part.stop
    return Log.from_indices(
        contexts, actions, rewards, names, propensities=propensities, feature_names=features
    )


def _features(table: Table, batch: pa.RecordBatch, column: _Column, line: int) -> np.ndarray:
    """One column's features, (rows, 1) as numbers or (rows, values) one-hot."""
    if column.values is None:
        return table.numbers(batch, column.source, line)[:, None]
    texts = batch.column(column.source)
    if column.source == POSITION:
        texts = pa.array(table.numbers(batch, POSITION, line).astype(int)).cast(pa.string())
    return np.column_stack([pc.equal(texts, value).to_numpy(zero_copy_only=False) for value in column.values])
