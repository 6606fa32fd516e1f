"""The Open Bandit Dataset's CSV: item_id, position, click, propensity_score and hashed user features; read only."""

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparing.engines import Progress
from sparing.errors import LogError
from sparing.log import labels
from sparing.log.formats.events import ArrayRows, Arrays, example_row
from sparing.log.formats.records import EXACT, numbered
from sparing.log.labels import check_action_count, first_repeated, shorten, truncate
from sparing.log.limits import LARGEST
from sparing.log.rows import Rows
from sparing.log.tables import open_csv
from sparing.log.text_files import Dialect, existing, readable_errors

MAX_CATEGORIES = 1000
ITEM, POSITION, CLICK = "item_id", "position", "click"
PROPENSITY = ("propensity_score", "action_prob")
USER, AFFINITY = "user_feature_", "user-item_affinity_"

KINDS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "number": (f"a finite number, at most {LARGEST:g} in size", lambda x: np.abs(x) <= LARGEST),
    "whole": ("a whole number that is not too large", lambda x: (np.abs(x) <= EXACT) & (np.rint(x) == x)),
    "count": ("a whole number, 0 or more", lambda x: (x >= 0) & (x <= EXACT) & (np.rint(x) == x)),
    "probability": ("a number in (0, 1]", lambda x: (x > 0) & (x <= 1)),
}
"""What the cells of a column must be, in words and as a test."""

Features = dict[str, tuple[str | None, ...]]
"""The file's columns that become features, in order: the values of a one-hot column, or `NUMBER`."""

NUMBER = (None,)


def scan(
    source: str | os.PathLike[str],
    *,
    position: int | None = None,
    affinities: bool = False,
    actions: Sequence[Hashable] | None = None,
    max_categories: int = MAX_CATEGORIES,
    progress: Progress | None = None,
) -> tuple[Rows, list[str]]:
    """Read the CSV, in a first pass for its items, positions and values, and again in every later pass.

    User features are one-hot (`user_feature_0=<value>`, values sorted), unless every value is a number. Of several
    positions `position` selects one; otherwise all rows are read and the position is one-hot too, because clicks and
    propensities depend on it. `affinities` adds the user's affinity to each item. `actions` names the items 0..K−1; K
    is the number of affinity columns, else the largest item + 1. If items are large and sparse, those that occur are
    the actions.
    """
    table = OpenBanditColumns(source, position)
    table.collect_values(max_categories, progress)
    if actions is not None:
        names = labels.action_names(actions)
    elif table.affinities:
        names = labels.action_names(range(len(table.affinities)))
    else:
        names = numbered(table.items, first=0)
    items = np.array(range(len(names)) if actions is not None else names, dtype=np.int64)
    features = table.features(affinities=affinities)
    notes = table.notes(features, affinities=affinities)
    if actions is None and not table.affinities:
        notes.append(f"No affinity columns: {len(names)} items, as far as they were logged.")
    pairs = [(name, value) for name, values in features.items() for value in values]
    named = [name if value is None else f"{name}={value}" for name, value in pairs]
    example = example_row(len(named), len(names), propensities=table.propensity is not None)
    arrays = partial(table.arrays, features, items)
    return ArrayRows(table.path.name, table.rows, names, named, arrays, example, progress), notes


class OpenBanditColumns:
    """The file's columns as text; after `collect_values` also its items, positions and values of user features."""

    def __init__(self, source: str | os.PathLike[str], position: int | None) -> None:
        self.path = path = existing(source)
        with readable_errors(path):
            self.source = open_csv(path, gaps=False, dialect=Dialect(",", encoding="utf-8"))
        header = self.source.schema.names
        if len(set(header)) < len(header):
            raise LogError(
                f"{path} has two columns {shorten(first_repeated(header))}. Rename or drop one of them"
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

    def arrays(self, features: Features, known: np.ndarray) -> Iterator[Arrays]:
        """Iterate over the rows; `known` (K,) are the actions' items, in rising order."""
        for line, batch, keep in self.batches(ITEM, CLICK, self.propensity, *features):
            items = self.numbers(batch, ITEM, line, "count").astype(np.int64)
            places = np.searchsorted(known, items)
            outside = np.flatnonzero(known[np.minimum(places, len(known) - 1)] != items)
            if len(outside):
                where = f"{self.path.name}, line {line + outside[0]}"
                raise LogError(f"{where}: {ITEM} {items[outside[0]]}; expected {known[0]} to {known[-1]}")
            cells = [self.encode(batch, name, values, line) for name, values in features.items()]
            found: Arrays = {
                "contexts": np.column_stack(cells).astype(np.float64, copy=False),
                "actions": places.astype(np.int32),
                "rewards": self.numbers(batch, CLICK, line),
            }
            if self.propensity:
                found["propensities"] = self.numbers(batch, self.propensity, line, "probability")
            yield {name: each[keep] for name, each in found.items()}

    def batches(self, *names: str | None) -> Iterator[tuple[int, pa.RecordBatch, np.ndarray]]:
        """Yield batches of these columns, each with its first line and which of its rows have the wanted position."""
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
        """Return a column as numbers of a kind, (rows,)."""
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
                f"{self.path.name}, line {line + row}: {truncate(name)} is {shorten(column[row].as_py())}; expected "
                f"{expected}. Correct it, or drop the line"
            )
        return np.asarray(values)

    def encode(
        self, batch: pa.RecordBatch, name: str, values: tuple[str | None, ...], line: int
    ) -> np.ndarray:
        """Return one column's features, (rows, 1) as numbers or (rows, values) one-hot."""
        if values == NUMBER:
            return self.numbers(batch, name, line)[:, None]
        texts = batch.column(name)
        if name == POSITION:
            texts = pa.array(self.numbers(batch, POSITION, line).astype(int)).cast(pa.string())
        return np.column_stack([pc.equal(texts, value).to_numpy(zero_copy_only=False) for value in values])

    def collect_values(self, max_categories: int, progress: Progress | None = None) -> None:
        """Count the rows and collect items, positions and values of user features, in one pass."""
        for line, batch, keep in self.batches(ITEM, *self.users):
            self.rows += int(keep.sum())
            if progress is not None:
                progress(self.rows, 0)
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
                            f"{self.path.name}, before line {line + batch.num_rows}: {truncate(name)} has more than "
                            f"{max_categories} values. Drop the column, or raise max_categories"
                        )
                    self.categories[name] = None
        if not self.rows:
            wanted = "" if self.position is None else f" with position {self.position}"
            there = f"; its positions are {sorted(self.positions)}" if self.positions else ""
            raise LogError(f"{self.path} has no rows{wanted}{there}")

    def features(self, *, affinities: bool) -> Features:
        """Return the columns that become features."""
        columns: Features = {
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

    def notes(self, features: Features, *, affinities: bool) -> list[str]:
        """Return what was assumed."""
        alone = "A propensity alone does not show which other items were available: the support is unknown."
        notes = [alone if self.propensity else "There are no propensities, and the support is unknown."]
        if POSITION in features:
            notes.append("Rows of all positions were read, and the position is one-hot in the contexts.")
        elif self.position is not None:
            notes.append(f"Only position {self.position} was read.")
        if numeric := [truncate(name) for name in self.users if features[name] == NUMBER]:
            notes.append(f"User features that are all numbers were kept as numbers: {', '.join(numeric)}.")
        left = ["timestamps"] + (["affinities"] if self.affinities and not affinities else [])
        return [*notes, f"Not kept: {' and '.join(left)}."]


def _are_numbers(texts: Iterable[str]) -> bool:
    try:
        values = pc.utf8_trim_whitespace(pa.array(list(texts), type=pa.string())).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return bool(np.isfinite(values.to_numpy(zero_copy_only=False)).all())
