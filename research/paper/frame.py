"""One way to hold results: rows of settings and of what came out, picked, grouped and averaged over seeds."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import numpy as np

from research.paper import intervals
from research.paper.experiment import Columns, Record
from research.paper.intervals import Interval


class Frame:
    """Rows, each a record of the same names. Those of runs have a `seed`, by which they are put in order."""

    def __init__(self, rows: Iterable[Record] = ()) -> None:
        self.rows = list(rows)
        self._groups: dict[tuple[str, ...], dict[tuple[Any, ...], Frame]] = {}

    @classmethod
    def of(cls, table: Columns) -> "Frame":
        """The rows of a table."""
        return cls(dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True))

    def __iter__(self) -> Iterator[Record]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> list[Any]:
        """A column."""
        return [row[name] for row in self.rows]

    def by(self, *names: str) -> "dict[tuple[Any, ...], Frame]":
        """Rows that have these settings in common, in the order in which they first appear."""
        if names not in self._groups:
            rows: dict[tuple[Any, ...], list[Record]] = {}
            for row in self.rows:
                rows.setdefault(tuple(row[name] for name in names), []).append(row)
            self._groups[names] = {key: Frame(group) for key, group in rows.items()}
        return self._groups[names]

    def where(self, **settings: Any) -> "Frame":
        """The rows that have these settings."""
        return self.by(*settings).get(tuple(settings.values()), Frame())

    def among(self, name: str, values: Collection[Any]) -> "Frame":
        """The rows whose value is one of these."""
        return self.only(lambda row: row[name] in values)

    def only(self, wanted: Callable[[Record], bool]) -> "Frame":
        """The rows of which this is true."""
        return Frame(filter(wanted, self.rows))

    def values(self, name: str) -> np.ndarray:
        """A number, or a curve, of each run, (seeds, …), in the order of the seeds."""
        return np.array([row[name] for row in sorted(self.rows, key=lambda row: row["seed"])])

    def mean(self, name: str, *, of: float = 1.0) -> Interval:
        """The mean over seeds, as a share of something."""
        return intervals.mean(self.values(name) / of)

    def less(self, other: "Frame", name: str) -> Interval:
        """This less another, paired over the seeds that both have."""
        both = set(self["seed"]) & set(other["seed"])
        first, second = (one.among("seed", both).values(name) for one in (self, other))
        return intervals.difference(first, second)

    def columns(self) -> Columns:
        """A table: names and equally long lists."""
        return {name: self[name] for name in self.rows[0]} if self.rows else {}
