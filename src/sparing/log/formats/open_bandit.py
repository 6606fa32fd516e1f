"""The Open Bandit Dataset's CSV: item_id, position, click, propensity_score and hashed user features."""

import csv
import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparing.archive import replacing
from sparing.errors import LogError
from sparing.log import labels
from sparing.log.blocks import Blocks
from sparing.log.formats import writing
from sparing.log.formats.records import EXACT, numbered
from sparing.log.labels import WHOLE_NUMBER, brief, check_action_count, cut, first_repeated
from sparing.log.limits import LARGEST
from sparing.log.log import Log
from sparing.log.scanning import AnyLog
from sparing.log.sources import existing, open_csv, readable
from sparing.log.walking import Statistic

ITEM, POSITION, CLICK = "item_id", "position", "click"
PROPENSITY = ("propensity_score", "action_prob")
USER, AFFINITY = "user_feature_", "user-item_affinity_"
MAX_CATEGORIES = 1000

KINDS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "number": (f"a finite number, at most {LARGEST:g} in size", lambda x: np.abs(x) <= LARGEST),
    "whole": ("a whole number that is not too large", lambda x: (np.abs(x) <= EXACT) & (np.rint(x) == x)),
    "count": ("a whole number, 0 or more", lambda x: (x >= 0) & (x <= EXACT) & (np.rint(x) == x)),
    "probability": ("a number in (0, 1]", lambda x: (x > 0) & (x <= 1)),
}
"""What the cells of a column must be, in words and as a test."""

FEATURE = re.compile(rf"({USER}[0-9]+|{POSITION})=([^\r\n]*)|((?:{USER}|{AFFINITY})[0-9]+)")
BATCH_ROWS = 4096

Columns = dict[str, tuple[str | None, ...]]
"""The file's columns that are features, in order: the values of a one-hot one, or `NUMBER` for itself."""

NUMBER = (None,)


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
    table = _Table(source, position)
    table.survey(max_categories)
    if actions is not None:
        names = labels.action_names(actions)
    elif table.affinities:
        names = labels.action_names(range(len(table.affinities)))
    else:
        names = numbered(table.items, first=0)
    known = range(len(names)) if actions is not None else names
    columns = table.columns(affinities=affinities)
    log = _fill(table, columns, names, np.array(known, dtype=np.int64))
    notes = table.notes(columns, affinities=affinities)
    if actions is None and not table.affinities:
        notes.append(f"No affinity columns: {len(names)} items, as far as they were logged.")
    return log, notes


class _Table:
    """The file's columns and batches as text; after `survey` also which items, positions and values there are."""

    def __init__(self, source: str | os.PathLike[str], position: int | None) -> None:
        self.path = path = existing(source)
        with readable(path):
            self.source = open_csv(path, gaps=False)
        header = self.source.schema.names
        if len(set(header)) < len(header):
            raise LogError(
                f"{path} has two columns {brief(first_repeated(header))}. Rename or drop one of them"
            )
        missing = [name for name in (ITEM, CLICK) if name not in header]
        if missing:
            raise LogError(
                f"{path} has no column {missing[0]!r}; expected {ITEM}, {CLICK}, {PROPENSITY[0]}, {USER}0, …"
            )
        if position is not None and POSITION not in header:
            raise LogError(f"position={position}, but {path} has no column {POSITION}; leave it out")
        self.users = [name for name in header if name.startswith(USER)]
        self.affinities = [name for name in header if name.startswith(AFFINITY)]
        self.propensity = next((name for name in PROPENSITY if name in header), None)
        self.has_positions, self.position = POSITION in header, position
        self.rows = 0
        self.items: set[int] = set()
        self.positions: set[int] = set()
        self.categories: dict[str, set[str] | None] = {name: set() for name in self.users}

    def batches(self, *names: str | None) -> Iterator[tuple[int, pa.RecordBatch, np.ndarray]]:
        """Batches of these columns, each with the line it begins at and which of its rows have the wanted position."""
        wanted = dict.fromkeys(name for name in names if name is not None)
        if self.has_positions:
            wanted[POSITION] = None
        for row, batch in self.source.blocks(list(wanted)):
            keep = np.ones(batch.num_rows, dtype=bool)
            if self.has_positions:
                positions = self.numbers(batch, POSITION, row + 2, "whole")
                self.positions.update(np.unique(positions).astype(int).tolist())
                keep = keep if self.position is None else positions == self.position
            yield row + 2, batch, keep

    def numbers(self, batch: pa.RecordBatch, name: str, line: int, kind: str = "number") -> np.ndarray:
        """A column as numbers of a kind."""
        expected, allowed = KINDS[kind]
        column = pc.utf8_trim_whitespace(batch.column(name))
        try:
            values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
            bad = ~allowed(values)
        except pa.ArrowInvalid:
            bad = np.array([not _are_numbers([text]) for text in column.to_pylist()])
        if bad.any():
            row = int(bad.argmax())
            raise LogError(
                f"{self.path.name}, line {line + row}: {cut(name)} is {brief(column[row].as_py())}; expected "
                f"{expected}. Mend it, or drop the line"
            )
        return np.asarray(values)

    def survey(self, max_categories: int) -> None:
        """The first walk: how many rows, which items and positions, which values each user feature has."""
        for line, batch, keep in self.batches(ITEM, *self.users):
            self.rows += int(keep.sum())
            items = self.numbers(batch, ITEM, line, "count")
            self.items.update(np.unique(items).astype(int).tolist())
            check_action_count(len(self.items), f"{self.path.name}, column {ITEM}")
            for name, known in self.categories.items():
                if known is None:
                    continue
                known.update(pc.unique(batch.column(name).filter(pa.array(keep))).to_pylist())
                if len(known) > max_categories:
                    if not _are_numbers(known):
                        raise LogError(
                            f"{self.path.name}, before line {line + batch.num_rows}: {cut(name)} has more than "
                            f"{max_categories} values. Drop the column, or raise max_categories"
                        )
                    self.categories[name] = None
        if not self.rows:
            wanted = "" if self.position is None else f" with position {self.position}"
            there = f"; its positions are {sorted(self.positions)}" if self.positions else ""
            raise LogError(f"{self.path} has no rows{wanted}{there}")

    def columns(self, *, affinities: bool) -> Columns:
        """The columns that become features."""
        columns: Columns = {
            name: NUMBER if values is None or _are_numbers(values) else tuple(sorted(values))
            for name, values in self.categories.items()
        }
        if self.position is None and len(self.positions) > 1:
            columns[POSITION] = tuple(map(str, sorted(self.positions)))
        if affinities:
            columns |= dict.fromkeys(self.affinities, NUMBER)
        if not columns:
            raise LogError(f"{self.path} has no user features; expected {USER}0, … or affinities=True")
        return columns

    def notes(self, columns: Columns, *, affinities: bool) -> list[str]:
        """What was assumed."""
        notes = [
            "A propensity alone does not tell which other items could have been shown: the support is unknown."
            if self.propensity
            else "There are no propensities, and the support is unknown."
        ]
        if POSITION in columns:
            notes.append("Rows of all positions were read, and the position is one-hot in the contexts.")
        elif self.position is not None:
            notes.append(f"Only position {self.position} was read.")
        if numeric := [cut(name) for name in self.users if columns[name] == NUMBER]:
            notes.append(f"User features that are all numbers were kept as numbers: {', '.join(numeric)}.")
        left = ["timestamps"] + (["affinities"] if self.affinities and not affinities else [])
        return [*notes, f"Not kept: {' and '.join(left)}."]


def _are_numbers(texts: Iterable[str]) -> bool:
    """Whether every cell reads as a finite number."""
    try:
        values = pc.utf8_trim_whitespace(pa.array(list(texts), type=pa.string())).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return bool(np.isfinite(values.to_numpy(zero_copy_only=False)).all())


def _feature_names(columns: Columns) -> list[str]:
    return [
        name if value is None else f"{name}={value}" for name, values in columns.items() for value in values
    ]


def _fill(table: _Table, columns: Columns, names: tuple[Hashable, ...], known: np.ndarray) -> Log:
    """The second walk; `known` (K,) are the actions' items, in rising order."""
    features = _feature_names(columns)
    contexts = np.zeros((table.rows, len(features)))
    actions = np.empty(table.rows, dtype=np.int32)
    rewards = np.empty(table.rows)
    propensities = np.empty(table.rows) if table.propensity else None
    start = 0
    for line, batch, keep in table.batches(ITEM, CLICK, table.propensity, *columns):
        part = slice(start, start + int(keep.sum()))
        items = table.numbers(batch, ITEM, line, "count").astype(np.int64)
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
            propensities[part] = table.numbers(batch, table.propensity, line, "probability")[keep]
        blocks = [_features(table, batch, name, values, line) for name, values in columns.items()]
        contexts[part] = np.column_stack(blocks)[keep]
        start = part.stop
    return Log.from_indices(
        contexts, actions, rewards, names, propensities=propensities, feature_names=features
    )


def _features(
    table: _Table, batch: pa.RecordBatch, name: str, values: tuple[str | None, ...], line: int
) -> np.ndarray:
    """One column's features, (rows, 1) as numbers or (rows, values) one-hot."""
    if values == NUMBER:
        return table.numbers(batch, name, line)[:, None]
    texts = batch.column(name)
    if name == POSITION:
        texts = pa.array(table.numbers(batch, POSITION, line).astype(int)).cast(pa.string())
    return np.column_stack([pc.equal(texts, value).to_numpy(zero_copy_only=False) for value in values])


def write(log: AnyLog, path: str | os.PathLike[str]) -> list[str]:
    """Write the CSV, with the user features that the contexts were made of where they tell, else as numbers.

    Says what the format could not carry.
    """
    passing = writing.Passing(log)
    header = passing.header
    columns = _columns_of(passing)
    notes = []
    if columns is None:
        columns = {f"{USER}{i}": NUMBER for i in range(header.n_features)}
        if header.feature_names != tuple(columns):
            notes.append(f"Features are written as numbers under the names {USER}0, …: their own are lost.")
    with replacing(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        users = [name for name in columns if name != POSITION]
        shares = [] if header.propensities is None else [PROPENSITY[0]]
        writer.writerow(["", "timestamp", ITEM, POSITION, CLICK, *shares, *users])
        for first, block in passing.blocks():
            for part in Blocks(0, block.n_rows, BATCH_ROWS):
                writer.writerows(zip(*_cells(block.part(part), columns, first + part.start), strict=True))
    return [*notes, *_lost(header, passing.told, columns)]


def _columns_of(passing: writing.Passing) -> Columns | None:
    """The columns that reading would turn into these very features, or None where there are none such."""
    columns: Columns = {}
    for name in passing.header.feature_names:
        found = FEATURE.fullmatch(name)
        if found is None:
            return None
        column = found[1] or found[3]
        columns[column] = (*columns.get(column, ()), found[2])
    if _feature_names(columns) != list(passing.header.feature_names) or not _reads_back(columns):
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
        if name != POSITION and values and _are_numbers(values):
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


def _lost(log: Log, told: writing.Told, columns: Columns) -> list[str]:
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
