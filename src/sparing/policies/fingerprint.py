"""Which rows taught a policy: a small sketch of them, and how others were held out to judge it by.

A row's hash is of its context's bytes, its action's label as text, and its reward; a file's format, the order
of the rows and the order of the actions do not matter. The sketch keeps the `SKETCH` smallest hashes, which
are a random sample of the rows that any other log samples alike.
"""

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sparing.errors import LogError, SettingError
from sparing.log import Log
from sparing.log.hashing import context_hashes, folded, id_hashes, mixed
from sparing.log.labels import as_text
from sparing.log.scanning import AnyLog, rows_of
from sparing.log.sketches import Distinct
from sparing.log.walking import Statistic
from sparing.settings import among, share, whole

SKETCH = 256
"""Hashes that a fingerprint keeps, k."""

FEWEST_CONTEXTS = 100
"""With fewer distinct contexts, some of them cannot stand for the others: rows are held out instead."""

TAUGHT_SHARE = 0.01
"""A log that owes at most this share of its rows to the teaching rows is another log."""

BY = ("context", "context_id", "row")
"""What may be held out whole: equal contexts, equal ids, or single rows."""

ALL = np.uint64(2**64 - 1)

Overlap = Literal["none", "some", "unclear"]


@dataclass(frozen=True)
class Split:
    """Which rows are held out: a hash of what `by` names, and of the seed, says it of each row alone.

    So the split can be made again from the log, in whatever order its rows stand. Equal rows are told apart by
    counting them.
    """

    share: float
    seed: int = 0
    by: str = "context"

    def __post_init__(self) -> None:
        share("holdout", self.share)
        whole("seed", self.seed)
        among("by", self.by, BY)

    @classmethod
    def of(cls, log: Log, share: float, seed: int = 0) -> "Split":
        """By the log's context ids or contexts, or by rows where there are fewer than `FEWEST_CONTEXTS`."""
        by = "context" if log.context_ids is None else "context_id"
        return cls(share, seed, "row" if log.n_contexts < FEWEST_CONTEXTS else by)

    def held_out(self, log: Log) -> np.ndarray:
        """Whether each row is held out, (n,)."""
        seeds = mixed(np.array([(self.seed + 1) % 2**64], dtype=np.uint64))
        return (mixed(_keys(log, self.by) ^ seeds) >> np.uint64(11)) * 2.0**-53 < self.share


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """How many rows taught a policy, the smallest of their hashes and how many rows have each, the split if any.

    sketch (≤ SKETCH,) is ascending, counts goes with it.
    """

    rows: int
    sketch: np.ndarray
    counts: np.ndarray
    split: Split | None = None

    def __post_init__(self) -> None:
        whole("rows", self.rows)
        sketch, counts = self.sketch, self.counts
        plain = sketch.dtype == np.uint64 and counts.dtype == np.int64 and sketch.ndim == 1
        if not plain or sketch.shape != counts.shape or len(sketch) > SKETCH:
            raise SettingError("a fingerprint's sketch must be 64-bit hashes, at most 256, with their counts")
        if (sketch[1:] <= sketch[:-1]).any() or (counts < 1).any() or counts.sum() > self.rows:
            raise SettingError(
                "a fingerprint's hashes must ascend, and their counts add up to its rows or less"
            )

    @classmethod
    def of(cls, log: Log, split: Split | None = None) -> "Fingerprint":
        """The fingerprint of a log's rows."""
        hashes = row_hashes(log)
        return cls(log.n_rows, *_smallest(hashes), split)

    def held_out(self, log: Log) -> Log:
        """The rows of a log that were held out when the policy was learnt."""
        if self.split is None:
            raise SettingError("nothing was held out when this policy was learnt")
        held = self.split.held_out(log)
        if self.split.by == "row" and not self._taught(log.take(~held)):
            raise SettingError(
                "single rows of another log were held out when this policy was learnt, and which they were can "
                "only be told from that very log"
            )
        return log.take(held)

    def overlap(self, log: AnyLog) -> Overlap:
        """Whether rows of the log taught the policy.

        Of the log's distinct hashes within the sketch's reach, those in the sketch are known. Fresh rows would be known
        too, where values repeat: about as often as the sketch's own rows repeat each other (Good and Turing's
        1 − singles/rows). `unclear` where that, or too few rows, leaves it open.
        """
        return self.overlap_of(rows_of(log).fold(Meeting(self)))

    def overlap_of(self, met: "Met") -> Overlap:
        """The same, of what a `Meeting` with the log's rows has gathered."""
        if not self.rows or not met.rows:
            return "none"
        seen = met.near.hashes
        if not len(seen):
            return "unclear"
        known = float(np.isin(seen, self.sketch).mean())
        if known <= TAUGHT_SHARE:
            return "none"
        by_chance = 1 - float((self.counts == 1).sum() / self.counts.sum())
        return "some" if known > 2 * by_chance or self._same(met.rows, met.sketch, met.counts) else "unclear"

    def _taught(self, log: Log) -> bool:
        """Whether these are the very rows."""
        return log.n_rows == self.rows and self._same(log.n_rows, *_smallest(row_hashes(log)))

    def _same(self, rows: int, sketch: np.ndarray, counts: np.ndarray) -> bool:
        alike = np.array_equal(sketch, self.sketch) and np.array_equal(counts, self.counts)
        return rows == self.rows and alike


@dataclass(frozen=True, eq=False)
class Met:
    """What a log's rows have of a fingerprint: how many there are, their hashes within its reach, and their own sketch with its counts."""

    rows: int
    near: Distinct
    sketch: np.ndarray
    counts: np.ndarray


class Meeting(Statistic[Log, Met]):
    """Gathers of a log what tells whether its rows are those of a fingerprint.

    Of more hashes than are counted, at most 256 in a million are in a sketch: the log is then another one in any case.
    """

    def __init__(self, known: Fingerprint) -> None:
        self.reach = known.sketch[-1] if len(known.sketch) == SKETCH else ALL

    def zero(self) -> Met:
        """No rows."""
        return Met(0, Distinct(), np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))

    def update(self, state: Met, block: Log, first_row: int) -> Met:
        """The block's rows too."""
        hashes = row_hashes(block)
        near = Distinct.of(hashes[hashes <= self.reach])
        return self.merge(state, Met(block.n_rows, near, *_smallest(hashes)))

    def merge(self, one: Met, other: Met) -> Met:
        """Those of both: what is among the smallest of all is among the smallest of each part that has it."""
        sketch, place = np.unique(np.concatenate([one.sketch, other.sketch]), return_inverse=True)
        counts = np.zeros(len(sketch), dtype=np.int64)
        np.add.at(counts, place, np.concatenate([one.counts, other.counts]))
        return Met(one.rows + other.rows, one.near + other.near, sketch[:SKETCH], counts[:SKETCH])


def row_hashes(log: Log) -> np.ndarray:
    """64 bits for each row, (n,)."""
    names = np.array([_text_hash(name) for name in log.action_names], dtype=np.uint64)
    rewards = (log.rewards + 0.0).view(np.uint64)
    return mixed(folded(folded(context_hashes(log.contexts), names[log.actions]), rewards))


def _keys(log: Log, by: str) -> np.ndarray:
    """What a split keeps whole, as 64 bits for each row, (n,)."""
    if by == "context":
        return context_hashes(log.contexts)
    if by == "row":
        return _told_apart(row_hashes(log))
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
