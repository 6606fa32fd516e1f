"""The Open Bandit Dataset's CSV: item_id, position, click, propensity_score and hashed user features."""

import csv
import os
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparing.archive import replacing
from sparing.errors import LogError
from sparing.log import labels
from sparing.log.blocks import Blocks, existing, open_csv, readable
from sparing.log.formats.records import numbered
from sparing.log.labels import WHOLE_NUMBER, brief, check_action_count, cut, first_repeated
from sparing.log.limits import LARGEST
from sparing.log.log import Log

ITEM, POSITION, CLICK = "item_id", "position", "click"
PROPENSITY = ("propensity_score", "action_prob")
USER, AFFINITY = "user_feature_", "user-item_affinity_"
MAX_CATEGORIES = 1000

EXACT = 2.0**53
"""Whole numbers up to here are told apart by floats."""

ONE_HOT = re.compile(rf"({USER}[0-9]+|{POSITION})=([^\r\n]*)")
NUMBER = re.compile(rf"(?:{USER}|{AFFINITY})[0-9]+")
BATCH_ROWS = 4096

Groups = dict[str, list[tuple[str | None, int]]]
"""For each column of the file the features it comes from: a value each, or None for a plain number."""


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
    table = _Table(source)
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


class _Table:
    """The file's columns, and its batches as text."""

    def __init__(self, source: str | os.PathLike[str]) -> None:
        self.path = path = existing(source)
        with readable(path):
            self.source = open_csv(path, gaps=False)
        self.header = self.source.schema.names
        if len(set(self.header)) < len(self.header):
            raise LogError(
                f"{path} has two columns {brief(first_repeated(self.header))}. Rename or drop one of them"
            )
        missing = [name for name in (ITEM, CLICK) if name not in self.header]
        if missing:
            raise LogError(
                f"{path} has no column {missing[0]!r}; expected {ITEM}, {CLICK}, {PROPENSITY[0]}, {USER}0, …"
            )
        self.users = [name for name in self.header if name.startswith(USER)]
        self.affinities = [name for name in self.header if name.startswith(AFFINITY)]
        self.propensity = next((name for name in PROPENSITY if name in self.header), None)
        self.position = POSITION if POSITION in self.header else None

    def batches(self, columns: Sequence[str | None]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches of these columns with the line that each begins at."""
        wanted = dict.fromkeys(name for name in columns if name is not None)
        for row, batch in self.source.blocks(list(wanted)):
            yield row + 2, batch

    def numbers(self, batch: pa.RecordBatch, name: str, line: int, *, whole: bool = False) -> np.ndarray:
        """A column as numbers, finite and not too large to be exact (`whole`) or to be summed."""
        limit = EXACT if whole else LARGEST
        column = pc.utf8_trim_whitespace(batch.column(name))
        try:
            values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
            bad = ~(np.abs(values) <= limit)
            bad |= np.fmod(values, 1, where=~bad, out=np.zeros(len(values))) != 0 if whole else False
        except pa.ArrowInvalid:
            bad = np.array([not _are_numbers([text]) for text in column.to_pylist()])
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise LogError(
                f"{self.path.name}, line {line + row}: {cut(name)} is {brief(column[row].as_py())}; expected a "
                f"{'whole' if whole else 'finite'} number, at most {limit:g} in size. Mend it, or drop the line"
            )
        return np.asarray(values)

    def items(self, batch: pa.RecordBatch, line: int) -> np.ndarray:
        """The items of a batch, which count from 0."""
        values = self.numbers(batch, ITEM, line, whole=True)
        bad = np.flatnonzero(values < 0)
        if len(bad):
            raise LogError(
                f"{self.path.name}, line {line + bad[0]}: {ITEM} {values[bad[0]]:.0f}; expected 0 or more"
            )
        return values.astype(np.int64)

    def propensities(self, batch: pa.RecordBatch, line: int) -> np.ndarray:
        """The propensities of a batch, each in (0, 1]."""
        name = self.propensity or ""
        values = self.numbers(batch, name, line)
        bad = np.flatnonzero((values <= 0) | (values > 1))
        if len(bad):
            raise LogError(
                f"{self.path.name}, line {line + bad[0]}: {name} is {values[bad[0]]}; must be in (0, 1]. "
                "Drop the line, or mend it"
            )
        return values


def _are_numbers(texts: Iterable[str]) -> bool:
    """Whether every cell reads as a finite number."""
    try:
        values = pc.utf8_trim_whitespace(pa.array(list(texts), type=pa.string())).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return bool(np.isfinite(values.to_numpy(zero_copy_only=False)).all())


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

    def __init__(self, table: _Table, position: int | None, max_categories: int) -> None:
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
            if not _are_numbers(known):
                raise LogError(
                    f"{self.table.path.name}, before line {line + len(column)}: {cut(name)} has more than {limit} "
                    "values. Drop the column, or raise max_categories"
                )
            self.categories[name] = None

    def columns(self, *, affinities: bool) -> list[_Column]:
        """The columns that become features, in order."""
        columns = []
        for name, values in self.categories.items():
            numeric = values is None or _are_numbers(values)
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


def _features(table: _Table, batch: pa.RecordBatch, column: _Column, line: int) -> np.ndarray:
    """One column's features, (rows, 1) as numbers or (rows, values) one-hot."""
    if column.values is None:
        return table.numbers(batch, column.source, line)[:, None]
    texts = batch.column(column.source)
    if column.source == POSITION:
        texts = pa.array(table.numbers(batch, POSITION, line).astype(int)).cast(pa.string())
    return np.column_stack([pc.equal(texts, value).to_numpy(zero_copy_only=False) for value in column.values])


def write(log: Log, path: str | os.PathLike[str]) -> list[str]:
    """Write the CSV, with the user features that the contexts were made of where they tell, else as numbers.

    Says what the format could not carry.
    """
    groups = _groups(log)
    notes = []
    if groups is None:
        groups = {f"{USER}{i}": [(None, i)] for i in range(log.n_features)}
        if log.feature_names != tuple(groups):
            notes.append(f"Features are written as numbers under the names {USER}0, …: their own are lost.")
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        users = [name for name in groups if name != POSITION]
        shares = [] if log.propensities is None else [PROPENSITY[0]]
        writer.writerow(["", "timestamp", ITEM, POSITION, CLICK, *shares, *users])
        for number, cells in enumerate(_cells(log, groups)):
            row = [number, _timestamp(number), int(log.actions[number]), cells.get(POSITION, "1")]
            row += [_short(float(log.rewards[number]))]
            row += [] if log.propensities is None else [repr(float(log.propensities[number]))]
            writer.writerow([*row, *(cells[name] for name in users)])
    return [*notes, *_lost(log, groups)]


def _groups(log: Log) -> Groups | None:
    """The columns that reading would turn into these very features, or None where there are none such."""
    groups: Groups = {}
    for i, name in enumerate(log.feature_names):
        if one_hot := ONE_HOT.fullmatch(name):
            groups.setdefault(one_hot[1], []).append((one_hot[2], i))
        elif NUMBER.fullmatch(name):
            groups.setdefault(name, []).append((None, i))
        else:
            return None
    return groups if _reads_back(groups) and _is_one_hot(log, groups) else None


def _reads_back(groups: Groups) -> bool:
    rank = [0 if name.startswith(USER) else 1 if name == POSITION else 2 for name in groups]
    affinities = [name for name in groups if name.startswith(AFFINITY)]
    flat = [i for members in groups.values() for _, i in members]
    for name, members in groups.items():
        values = [value for value, _ in members if value is not None]
        if len(values) not in (0, len(members)) or values != sorted(set(values)):
            return False
        if name == POSITION and (len(values) < 2 or not all(map(WHOLE_NUMBER.fullmatch, values))):
            return False
        if name != POSITION and values and _are_numbers(values):
            return False
    return (
        rank == sorted(rank)
        and flat == sorted(flat)
        and affinities == [f"{AFFINITY}{i}" for i in range(len(affinities))]
    )


def _is_one_hot(log: Log, groups: Groups) -> bool:
    for members in groups.values():
        if members[0][0] is None:
            continue
        block = log.contexts[:, [i for _, i in members]]
        if not (((block == 0) | (block == 1)).all() and (block.sum(axis=1) == 1).all()):
            return False
        if np.signbit(block).any() or not block.any(axis=0).all():
            return False
    return True


def _cells(log: Log, groups: Groups) -> Iterator[dict[str, str]]:
    for part in Blocks(0, log.n_rows, BATCH_ROWS):
        contexts = log.contexts[part]
        columns = {name: _texts(contexts, members) for name, members in groups.items()}
        for i in range(len(contexts)):
            yield {name: texts[i] for name, texts in columns.items()}


def _texts(contexts: np.ndarray, members: Sequence[tuple[str | None, int]]) -> list[str]:
    places = [i for _, i in members]
    if members[0][0] is None:
        return [repr(value) for value in contexts[:, places[0]].tolist()]
    return [str(members[j][0]) for j in contexts[:, places].argmax(axis=1)]


def _short(value: float) -> str:
    return str(int(value)) if value in (0, 1) and not np.signbit(value) else repr(value)


def _timestamp(number: int) -> str:
    """The dataset's readers sort by time: rows count microseconds, so that they stay in order."""
    return str(np.datetime64(number, "us")).replace("T", " ") + "+00:00"


def _lost(log: Log, groups: Groups) -> list[str]:
    notes = ["Timestamps only count the rows: the log has none."]
    if POSITION not in groups:
        notes.append("Every row is written with position 1.")
    affinities = sum(name.startswith(AFFINITY) for name in groups)
    if affinities:
        notes.append("Affinities are read back with affinities=True.")
    if log.action_names != tuple(range(log.n_actions)):
        notes.append("Actions are written as 0 to K−1: read the file with actions=[...] for their names.")
    elif affinities != log.n_actions and not log.counts[-1]:
        notes.append("The last action is in no row: read the file with actions=[...] to keep it.")
    if log.support.known:
        notes.append("The log's support is lost: the format has only the logged action's propensity.")
    if log.context_ids is not None:
        notes.append("Context ids are lost.")
    return notes
