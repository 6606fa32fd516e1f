"""Which rows taught a policy: a small sketch of them, and how others were held out to judge it by.

A row's hash is of its context's bytes, its action's label as text, and its reward; a file's format, the order
of the rows and the order of the actions do not matter. The sketch keeps the `SKETCH` smallest hashes, which
are a random sample of the rows that any other log samples alike.
"""

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Literal, overload

import numpy as np

from sparing.errors import LogError, SettingError
from sparing.log import Log
from sparing.log.hashing import context_hashes, folded, group_hashes, id_hashes, mixed
from sparing.log.labels import as_text
from sparing.log.rows import AnyLog, Filtered, Rows, kept, rows_of
from sparing.log.sketches import Distinct
from sparing.log.walking import Statistic, Together
from sparing.validation import fraction, integer, one_of

SKETCH = 256
"""Hashes that a fingerprint keeps, k."""

FEWEST_CONTEXTS = 100
"""With fewer distinct contexts, some of them cannot stand for the others: rows are held out instead."""

TAUGHT_SHARE = 0.01
"""A log that owes at most this share of its rows to the teaching rows is another log."""

BY = ("context", "context_id", "row", "place")
"""What may be held out whole: equal contexts, equal ids, or single rows, by their values or (long logs) by their numbers."""

ALL = np.uint64(2**64 - 1)

Overlap = Literal["none", "some", "unclear"]


@dataclass(frozen=True)
class Split:
    """Which rows are held out: a hash of what `by` names, and of the seed, says it of each row alone.

    So the split can be made again from the log, in whatever order its rows stand, but for that by `place`, a row's number.
    Equal rows are told apart by counting them.
    """

    share: float
    seed: int = 0
    by: str = "context"

    def __post_init__(self) -> None:
        fraction("holdout", self.share, hint=", such as 0.3; 0 holds nothing out")
        integer("seed", self.seed)
        one_of("by", self.by, BY)

    @classmethod
    def of(cls, log: Log, share: float, seed: int = 0) -> "Split":
        """By the log's context ids or contexts, or by rows where there are fewer than `FEWEST_CONTEXTS`."""
        by = "context" if log.context_ids is None else "context_id"
        row = "row" if rows_of(log).whole else "place"
        return cls(share, seed, row if log.n_contexts < FEWEST_CONTEXTS else by)

    @classmethod
    def walked(cls, rows: Rows, share: float, seed: int = 0) -> tuple["Split", int]:
        """The split of a log of several blocks, in one walk, and how many rows it holds out."""
        by = "context" if rows.header.context_ids is None else "context_id"
        splits = cls(share, seed, by), cls(share, seed, "place")
        held = [kept(Part(split)) for split in splits]
        contexts, *counts = rows.lean().fold(Together(_Contexts(), *held))
        chosen = int(len(contexts) < FEWEST_CONTEXTS)
        return splits[chosen], counts[chosen]

    def held_out(self, log: Log, first_row: int = 0) -> np.ndarray:
        """Whether each row is held out, (n,); `first_row` is the number of the first in a longer log."""
        seeds = mixed(np.array([(self.seed + 1) % 2**64], dtype=np.uint64))
        return (mixed(_keys(log, self.by, first_row) ^ seeds) >> np.uint64(11)) * 2.0**-53 < self.share


@dataclass(frozen=True)
class Part:
    """The rows that a split holds out, or the others."""

    split: Split
    held: bool = True

    @property
    def ids(self) -> bool:
        """Whether the split is by the contexts' ids."""
        return self.split.by == "context_id"

    def __call__(self, block: Log, first_row: int) -> np.ndarray:
        """Whether each row of a block is one of them, (n,)."""
        return self.split.held_out(block, first_row) == self.held


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """How many rows taught a policy, the smallest of their hashes and how many rows have each, the split if any.

    sketch (≤ SKETCH,) is ascending, counts goes with it.
    """

    rows: int
    sketch: np.ndarray
    counts: np.ndarray
    split: Split | None = None

    def __repr__(self) -> str:
        return f"Fingerprint({self.rows:,} rows, {'none held out' if self.split is None else self.split})"

    def __post_init__(self) -> None:
        integer("rows", self.rows)
        sketch, counts = self.sketch, self.counts
        plain = sketch.dtype == np.uint64 and counts.dtype == np.int64 and sketch.ndim == 1
        if not plain or sketch.shape != counts.shape or len(sketch) > SKETCH:
            raise SettingError("a fingerprint's sketch must be 64-bit hashes, at most 256, with their counts")
        if (sketch[1:] <= sketch[:-1]).any() or (counts < 1).any() or counts.sum() > self.rows:
            raise SettingError(
                "a fingerprint's hashes must ascend, and their counts add up to its rows or less"
            )

    @classmethod
    def of(cls, log: AnyLog, split: Split | None = None) -> "Fingerprint":
        """The fingerprint of a log's rows."""
        rows = rows_of(log).narrowed()
        return rows.fold(Sketch(rows.action_names)).split_by(split)

    def split_by(self, split: Split | None) -> "Fingerprint":
        """The same rows, beside others that a split held out."""
        return replace(self, split=split)

    @overload
    def held_out(self, log: Log) -> Log: ...

    @overload
    def held_out(self, log: Rows) -> Rows: ...

    def held_out(self, log: AnyLog) -> AnyLog:
        """The rows of a log that were held out when the policy was learnt; of one that is walked, to be walked too."""
        if self.split is None:
            raise SettingError("nothing was held out when this policy was learnt")
        if isinstance(log, Rows) and self.split.by == "row" and not log.whole:
            raise SettingError(
                f"single rows were held out when this policy was learnt, and which of {log.n_rows:,} they were can only be told "
                "from all at once. Read the log with sparing.read_log(...), if it is that very log"
            )
        if self.split.by in ("row", "place") and not self._taught(self._chosen(log, held=False)):
            order = ", its rows in the same order" if self.split.by == "place" else ""
            raise SettingError(
                "single rows of another log were held out when this policy was learnt, and which they were can "
                f"only be told from that very log{order}"
            )
        return self._chosen(log, held=True)

    def _chosen(self, log: AnyLog, *, held: bool) -> AnyLog:
        """The rows that were held out, or the others."""
        assert self.split is not None
        part = Part(self.split, held)
        return log.take(part(log, 0)) if isinstance(log, Log) else Filtered(log, part)

    def overlap(self, log: AnyLog) -> Overlap:
        """Whether rows of the log taught the policy.

        Of the log's distinct hashes within the sketch's reach, those in the sketch are known. Fresh rows would be known
        too, where values repeat: about as often as the sketch's own rows repeat each other (Good and Turing's
        1 − singles/rows). `unclear` where that, or too few rows, leaves it open.
        """
        rows = rows_of(log).narrowed()
        if not self.rows or not rows.n_rows:
            return "none"
        known, seen = rows.fold(_Known(self, rows.action_names))
        if not seen.count:
            return "unclear"
        share = float(known.sum() / seen.count)
        if share <= TAUGHT_SHARE:
            return "none"
        by_chance = 1 - float((self.counts == 1).sum() / self.counts.sum())
        return "some" if share > 2 * by_chance or self._taught(log) else "unclear"

    def _taught(self, log: AnyLog) -> bool:
        """Whether these are the very rows."""
        if log.n_rows != self.rows:
            return False
        other = Fingerprint.of(log)
        return np.array_equal(other.sketch, self.sketch) and np.array_equal(other.counts, self.counts)


class Sketch(Statistic[Log, Fingerprint]):
    """The fingerprint of rows whose actions have these names.

    A hash among the smallest of all is among the smallest of every part that has it, so that its rows are all counted.
    """

    def __init__(self, action_names: tuple[Hashable, ...]) -> None:
        self.names = _name_hashes(action_names)

    def zero(self) -> Fingerprint:
        """That of no rows."""
        return Fingerprint(0, np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))

    def update(self, state: Fingerprint, block: Log, first_row: int) -> Fingerprint:
        """With one more block."""
        return self.merge(state, Fingerprint(block.n_rows, *_smallest(row_hashes(block, self.names))))

    def merge(self, one: Fingerprint, other: Fingerprint) -> Fingerprint:
        """That of both."""
        sketch, places = np.unique(np.concatenate([one.sketch, other.sketch]), return_inverse=True)
        counts = np.zeros(len(sketch), dtype=np.int64)
        np.add.at(counts, places, np.concatenate([one.counts, other.counts]))
        return Fingerprint(one.rows + other.rows, sketch[:SKETCH], counts[:SKETCH])


class _Known(Statistic[Log, tuple[np.ndarray, Distinct]]):
    """Which of a sketch's hashes occur, (m,), and how many different ones do within its reach."""

    def __init__(self, known: Fingerprint, action_names: tuple[Hashable, ...]) -> None:
        self.sketch, self.names = known.sketch, _name_hashes(action_names)
        self.reach = known.sketch[-1] if len(known.sketch) == SKETCH else ALL

    def zero(self) -> tuple[np.ndarray, Distinct]:
        return np.zeros(len(self.sketch), dtype=bool), Distinct()

    def update(
        self, state: tuple[np.ndarray, Distinct], block: Log, first_row: int
    ) -> tuple[np.ndarray, Distinct]:
        hashes = row_hashes(block, self.names)
        seen = Distinct.of(hashes[hashes <= self.reach])
        return self.merge(state, (np.isin(self.sketch, seen.hashes), seen))

    def merge(
        self, one: tuple[np.ndarray, Distinct], other: tuple[np.ndarray, Distinct]
    ) -> tuple[np.ndarray, Distinct]:
        return one[0] | other[0], one[1] + other[1]


class _Contexts(Statistic[Log, np.ndarray]):
    """The hashes of different contexts, as many as `FEWEST_CONTEXTS`."""

    def zero(self) -> np.ndarray:
        return np.empty(0, dtype=np.uint64)

    def update(self, state: np.ndarray, block: Log, first_row: int) -> np.ndarray:
        return self.merge(state, group_hashes(block))

    def merge(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.unique(np.concatenate([one, other]))[:FEWEST_CONTEXTS]


def row_hashes(log: Log, names: np.ndarray | None = None) -> np.ndarray:
    """64 bits for each row, (n,); `names` are the hashes of the actions' labels (K,), where they are at hand."""
    names = _name_hashes(log.action_names) if names is None else names
    rewards = (log.rewards + 0.0).view(np.uint64)
    return mixed(folded(folded(context_hashes(log.contexts), names[log.actions]), rewards))


def _name_hashes(names: tuple[Hashable, ...]) -> np.ndarray:
    return np.array([_text_hash(name) for name in names], dtype=np.uint64)


def _keys(log: Log, by: str, first_row: int) -> np.ndarray:
    """What a split keeps whole, as 64 bits for each row, (n,)."""
    if by == "context":
        return context_hashes(log.contexts)
    if by == "row":
        return _told_apart(row_hashes(log))
    if by == "place":
        return np.arange(first_row, first_row + log.n_rows, dtype=np.uint64)
    if log.context_ids is None:
        raise SettingError(
            "contexts were held out by their ids when this policy was learnt, and this log has none; name the "
            "column (context_id=...)"
        )
    return id_hashes(log.context_ids)


def _told_apart(hashes: np.ndarray) -> np.ndarray:
    """Another hash for each row, in which equal ones are numbered: the first, the second, …"""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    first = np.append(True, ordered[1:] != ordered[:-1])[: len(hashes)]
    places = np.arange(len(hashes))
    number = np.empty(len(hashes), dtype=np.uint64)
    number[order] = places - np.maximum.accumulate(np.where(first, places, 0))
    return folded(hashes, number)


def _smallest(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The SKETCH smallest distinct hashes, ascending, and how many rows have each."""
    reach = ALL
    if len(hashes) > 4 * SKETCH:  # most often far fewer need sorting
        reach = np.partition(hashes, 4 * SKETCH)[4 * SKETCH]
        if len(np.unique(hashes[hashes <= reach])) < SKETCH:
            reach = ALL
    sketch, counts = np.unique(hashes[hashes <= reach], return_counts=True)
    return sketch[:SKETCH], counts[:SKETCH].astype(np.int64)


def _text_hash(name: Hashable) -> int:
    try:
        text = as_text(name)
    except LogError:  # a label that no file can hold
        text = repr(name)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
