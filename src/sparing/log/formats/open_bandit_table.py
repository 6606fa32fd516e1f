"""The columns of the Open Bandit Dataset's CSV, walked as text, and what they hold."""

import os
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparing.engines import Progress
from sparing.errors import LogError
from sparing.log.formats.records import EXACT
from sparing.log.labels import brief, check_action_count, cut, first_repeated
from sparing.log.limits import LARGEST
from sparing.log.tables import open_csv
from sparing.log.text_files import Dialect, existing, readable

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

Columns = dict[str, tuple[str | None, ...]]
"""The file's columns that are features, in order: the values of a one-hot one, or `NUMBER` for itself."""

NUMBER = (None,)


class Table:
    """The file's columns and batches as text; after `survey` also which items, positions and values there are."""

    def __init__(self, source: str | os.PathLike[str], position: int | None) -> None:
        self.path = path = existing(source)
        with readable(path):
            self.source = open_csv(path, gaps=False, dialect=Dialect(","))
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
            bad = np.array([not are_numbers([text]) for text in column.to_pylist()])
        if bad.any():
            row = int(bad.argmax())
            raise LogError(
                f"{self.path.name}, line {line + row}: {cut(name)} is {brief(column[row].as_py())}; expected "
                f"{expected}. Mend it, or drop the line"
            )
        return np.asarray(values)

    def survey(self, max_categories: int, progress: Progress | None = None) -> None:
        """The first walk: how many rows, which items and positions, which values each user feature has."""
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
                    if not are_numbers(known):
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
            name: NUMBER if values is None or are_numbers(values) else tuple(sorted(values))
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


def are_numbers(texts: Iterable[str]) -> bool:
    """Whether every cell reads as a finite number."""
    try:
        values = pc.utf8_trim_whitespace(pa.array(list(texts), type=pa.string())).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return bool(np.isfinite(values.to_numpy(zero_copy_only=False)).all())


def feature_names(columns: Columns) -> list[str]:
    """The names of the features that columns become."""
    return [
        name if value is None else f"{name}={value}" for name, values in columns.items() for value in values
    ]


def features(
    table: Table, batch: pa.RecordBatch, name: str, values: tuple[str | None, ...], line: int
) -> np.ndarray:
    """One column's features, (rows, 1) as numbers or (rows, values) one-hot."""
    if values == NUMBER:
        return table.numbers(batch, name, line)[:, None]
    texts = batch.column(name)
    if name == POSITION:
        texts = pa.array(table.numbers(batch, POSITION, line).astype(int)).cast(pa.string())
    return np.column_stack([pc.equal(texts, value).to_numpy(zero_copy_only=False) for value in values])
