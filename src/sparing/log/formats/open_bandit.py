"""The Open Bandit Dataset's CSV: item_id, position, click, propensity_score and hashed user features."""

import csv
import os
import re
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from sparing.archive import replacing
from sparing.engines import Progress
from sparing.errors import LogError
from sparing.log import labels, writer
from sparing.log.blocks import Blocks
from sparing.log.formats.open_bandit_table import (
    AFFINITY,
    CLICK,
    ITEM,
    NUMBER,
    POSITION,
    PROPENSITY,
    USER,
    Columns,
    Table,
    are_numbers,
    feature_names,
    features,
)
from sparing.log.formats.records import numbered
from sparing.log.formats.streams import cut_anew
from sparing.log.labels import WHOLE_NUMBER
from sparing.log.log import Log
from sparing.log.rows import AnyLog, Rows
from sparing.log.walking import Statistic

MAX_CATEGORIES = 1000

FEATURE = re.compile(rf"({USER}[0-9]+|{POSITION})=([^\r\n]*)|((?:{USER}|{AFFINITY})[0-9]+)")
BATCH_ROWS = 4096


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
    rows, notes = scan(
        source, position=position, affinities=affinities, actions=actions, max_categories=max_categories
    )
    [(_, log)] = rows.pieces(rows.n_rows)
    return log, notes


def scan(
    source: str | os.PathLike[str],
    *,
    position: int | None = None,
    affinities: bool = False,
    actions: Sequence[Hashable] | None = None,
    max_categories: int = MAX_CATEGORIES,
    progress: Progress | None = None,
) -> tuple["Rounds", list[str]]:
    """The same log as one that is walked, after a first walk for its items, positions and values."""
    table = Table(source, position)
    table.survey(max_categories, progress)
    if actions is not None:
        names = labels.action_names(actions)
    elif table.affinities:
        names = labels.action_names(range(len(table.affinities)))
    else:
        names = numbered(table.items, first=0)
    known = range(len(names)) if actions is not None else names
    columns = table.columns(affinities=affinities)
    notes = table.notes(columns, affinities=affinities)
    if actions is None and not table.affinities:
        notes.append(f"No affinity columns: {len(names)} items, as far as they were logged.")
    return Rounds(table, columns, names, np.array(known, dtype=np.int64), progress), notes


class Rounds(Rows):
    """The rows of a table; `known` (K,) are the actions' items, in rising order."""

    def __init__(
        self,
        table: Table,
        columns: Columns,
        names: tuple[Hashable, ...],
        known: np.ndarray,
        progress: Progress | None,
    ) -> None:
        self.table, self.columns, self.known = table, columns, known
        self.n_rows, self.progress = table.rows, progress
        shares = np.empty(0) if table.propensity else None
        self.header = Log.from_indices(
            np.empty((0, sum(map(len, columns.values())))),
            np.empty(0, dtype=np.int32),
            np.empty(0),
            names,
            propensities=shares,
            feature_names=feature_names(columns),
        )

    def blocks(self) -> Iterator[tuple[int, Log]]:
        """Read here, one after the other."""
        return self.pieces(self.cut.block)

    def pieces(self, step: int) -> Iterator[tuple[int, Log]]:
        """The rows in order, so many at a time, each piece with its first row."""
        for first, (contexts, actions, rewards, *shares) in cut_anew(
            self._parts(), self.n_rows, step, self.table.path.name
        ):
            yield (
                first,
                Log.from_indices(
                    contexts,
                    actions,
                    rewards,
                    self.action_names,
                    propensities=shares[0] if shares else None,
                    feature_names=self.feature_names,
                    first_row=first,
                ),
            )

    def _parts(self) -> Iterator[tuple[np.ndarray, ...]]:
        """Contexts, actions, rewards, and where there are any propensities, batch by batch."""
        table, known = self.table, self.known
        for line, batch, keep in table.batches(ITEM, CLICK, table.propensity, *self.columns):
            items = table.numbers(batch, ITEM, line, "count").astype(np.int64)
            places = np.searchsorted(known, items)
            outside = np.flatnonzero(known[np.minimum(places, len(known) - 1)] != items)
            if len(outside):
                raise LogError(
                    f"{table.path.name}, line {line + outside[0]}: {ITEM} {items[outside[0]]}; expected {known[0]} to "
                    f"{known[-1]}"
                )
            numbers = [table.numbers(batch, CLICK, line)]
            if table.propensity:
                numbers.append(table.numbers(batch, table.propensity, line, "probability"))
            cells = [features(table, batch, name, values, line) for name, values in self.columns.items()]
            contexts = np.column_stack(cells)[keep].astype(np.float64, copy=False)
            yield contexts, places[keep].astype(np.int32), *(each[keep] for each in numbers)


def write(log: AnyLog, path: str | os.PathLike[str]) -> list[str]:
    """Write the CSV, with the user features that the contexts were made of where they tell, else as numbers.

    Says what the format could not carry.
    """
    passing = writer.Passing(log)
    header = passing.header
    columns = _columns_of(passing)
    notes = []
    if columns is None:
        columns = {f"{USER}{i}": NUMBER for i in range(header.n_features)}
        if header.feature_names != tuple(columns):
            notes.append(f"Features are written as numbers under the names {USER}0, …: their own are lost.")
    with replacing(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        users = [name for name in columns if name != POSITION]
        shares = [] if header.propensities is None else [PROPENSITY[0]]
        lines.writerow(["", "timestamp", ITEM, POSITION, CLICK, *shares, *users])
        for first, block in passing.blocks():
            for part in Blocks(0, block.n_rows, BATCH_ROWS):
                lines.writerows(zip(*_cells(block.part(part), columns, first + part.start), strict=True))
    return [*notes, *_lost(header, passing.told, columns)]


def _columns_of(passing: writer.Passing) -> Columns | None:
    """The columns that reading would turn into these very features, or None where there are none such."""
    columns: Columns = {}
    for name in passing.header.feature_names:
        found = FEATURE.fullmatch(name)
        if found is None:
            return None
        column = found[1] or found[3]
        columns[column] = (*columns.get(column, ()), found[2])
    if feature_names(columns) != list(passing.header.feature_names) or not _reads_back(columns):
        return None
    if all(values == NUMBER for values in columns.values()):
        return columns
    whole, seen = passing.rows.fold(_OneHot(columns))
    return columns if whole and seen.all() else None


def _reads_back(columns: Columns) -> bool:
    rank = [0 if name.startswith(USER) else 1 if name == POSITION else 2 for name in columns]
    affinities = [name for name in columns if name.startswith(AFFINITY)]
    for name, found in columns.items():
        values = [value for value in found if value is not None]
        if found != NUMBER and (len(values) < len(found) or values != sorted(set(values))):
            return False
        if name == POSITION and (len(values) < 2 or not all(map(WHOLE_NUMBER.fullmatch, values))):
            return False
        if name != POSITION and values and are_numbers(values):
            return False
    return rank == sorted(rank) and affinities == [f"{AFFINITY}{i}" for i in range(len(affinities))]


def _parts(
    columns: Columns, contexts: np.ndarray
) -> Iterator[tuple[str, tuple[str | None, ...], np.ndarray]]:
    """Each column with its values and its features (n, values)."""
    start = 0
    for name, values in columns.items():
        yield name, values, contexts[:, start : start + len(values)]
        start += len(values)


class _OneHot(Statistic[Log, "tuple[bool, np.ndarray]"]):
    """Whether every row has one value of each column with values; and which features, (d,), some row has."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def zero(self) -> tuple[bool, np.ndarray]:
        return True, np.array(
            [values == NUMBER for values in self.columns.values() for _ in values], dtype=bool
        )

    def update(self, state: tuple[bool, np.ndarray], block: Log, first_row: int) -> tuple[bool, np.ndarray]:
        whole, seen = state
        for _, values, cells in _parts(self.columns, block.contexts):
            whole = whole and (values == NUMBER or _is_one_hot(cells))
        return whole, seen | block.contexts.any(axis=0)

    def merge(self, one: tuple[bool, np.ndarray], other: tuple[bool, np.ndarray]) -> tuple[bool, np.ndarray]:
        return one[0] and other[0], one[1] | other[1]


def _is_one_hot(cells: np.ndarray) -> bool:
    ones = np.isin(cells, (0, 1)).all() and (cells.sum(axis=1) == 1).all()
    return bool(ones and not np.signbit(cells).any())


def _cells(log: Log, columns: Columns, first: int) -> list[Sequence[Any]]:
    """The file's columns for some rows, of which the first has this number. Its readers sort by time: rows count microseconds, and stay in order."""
    numbers = range(first, first + log.n_rows)
    times = [str(np.datetime64(number, "us")).replace("T", " ") + "+00:00" for number in numbers]
    rewards = log.rewards
    short = np.isin(rewards, (0, 1)) & ~np.signbit(rewards)
    clicks = [int(reward) if whole else reward for reward, whole in zip(rewards.tolist(), short, strict=True)]
    users: dict[str, list[Any]] = {
        name: block[:, 0].tolist() if values == NUMBER else [values[j] for j in block.argmax(axis=1)]
        for name, values, block in _parts(columns, log.contexts)
    }
    positions = users.pop(POSITION, ["1"] * len(numbers))
    shares = [] if log.propensities is None else [log.propensities.tolist()]
    return [numbers, times, log.actions.tolist(), positions, clicks, *shares, *users.values()]


def _lost(log: Log, told: writer.Told, columns: Columns) -> list[str]:
    notes = ["Timestamps only count the rows: the log has none."]
    if POSITION not in columns:
        notes.append("Every row is written with position 1.")
    affinities = sum(name.startswith(AFFINITY) for name in columns)
    if affinities:
        notes.append("Affinities are read back with affinities=True.")
    if log.action_names != tuple(range(log.n_actions)):
        notes.append("Actions are written as 0 to K−1: read the file with actions=[...] for their names.")
    elif affinities != log.n_actions and not told.logged[-1]:
        notes.append("The last action is in no row: read the file with actions=[...] to keep it.")
    if log.support.known:
        notes.append("The log's support is lost: the format has only the logged action's propensity.")
    if log.context_ids is not None:
        notes.append("Context ids are lost.")
    return notes
