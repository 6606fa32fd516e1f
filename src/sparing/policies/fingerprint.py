"""Which rows a policy was trained on: a sketch of their hashes, and the split that held other rows out.

A row's hash covers its context's bytes, its action's label as text, and its reward; the file format, the order of
the rows and the order of the actions do not matter. The sketch keeps the `SKETCH` smallest hashes: a random sample
of the rows, and every log that has these rows samples the same ones.
"""

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, overload

import numpy as np

from sparing.errors import LogError, SettingError
from sparing.hashing import fold_word, id_hashes, mix64
from sparing.log import Log
from sparing.log.labels import label_text
from sparing.log.passes import Combined, Statistic, SumOf, add_fields
from sparing.log.rows import AnyLog, FilteredRows, InMemoryRows, Rows, as_rows, count_kept
from sparing.log.sketches import DistinctSketch
from sparing.model.crossfitting import ContextKeys
from sparing.validation import fraction, integer, one_of

SKETCH = 256
"""Hashes that a fingerprint keeps, k."""

MIN_CONTEXTS_FOR_SPLIT = 100
"""With fewer distinct contexts a part of them cannot represent the others: single rows are held out instead."""

MAX_OVERLAP_SHARE = 0.01
"""A log that shares at most this part of its rows with the training rows is another log."""

SPLIT_UNITS = ("context", "context_id", "row", "place")
"""What is held out as a whole: equal contexts, equal ids, or single rows by their number in the log (`place`).

`row`, single rows by their values, is read from policy files of releases before 0.2 and never written anew.
"""

MAX_HASH = np.uint64(2**64 - 1)

RowOverlap = Literal["none", "some", "unclear"]


@dataclass(frozen=True)
class Split:
    """Which rows are held out: those whose unit, hashed with the seed, falls below `share`.

    So the split can be recomputed from the log. A split by `place` depends on the order of the rows; `order` is a
    check sum of the training rows and their numbers, None in files of releases before 0.2.
    """

    share: float
    seed: int = 0
    by: str = "context"
    order: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        fraction("holdout", self.share, hint=", such as 0.3; 0 holds nothing out")
        integer("seed", self.seed)
        one_of("by", self.by, SPLIT_UNITS)
        if self.order is not None:
            integer("order", self.order)

    @classmethod
    def of(cls, log: AnyLog, share: float, seed: int = 0) -> tuple["Split", int]:
        """The split of a log and the number of rows it holds out.

        It is by context id if the log has ids, else by context; by place if there are fewer contexts than
        `MIN_CONTEXTS_FOR_SPLIT`.
        """
        rows = as_rows(log)
        by = "context" if rows.header.context_ids is None else "context_id"
        by_context, by_place = splits = cls(share, seed, by), cls(share, seed, "place")
        held = [count_kept(SplitFilter(split)) for split in splits]
        contexts, *counts = rows.select(support=False).fold(
            Combined(_FewContexts(0, MIN_CONTEXTS_FOR_SPLIT), *held)
        )
        if len(contexts) < MIN_CONTEXTS_FOR_SPLIT:
            return replace(by_place, order=_order_sum(rows, by_place)), counts[1]
        return by_context, counts[0]

    def held_out(self, log: Log, first_row: int = 0) -> np.ndarray:
        """Whether each row is held out, (n,); `first_row` is the number of its first row in the whole log."""
        seeds = mix64(np.array([(self.seed + 1) % 2**64], dtype=np.uint64))
        return (mix64(_unit_hashes(log, self.by, first_row) ^ seeds) >> np.uint64(11)) * 2.0**-53 < self.share


@dataclass(frozen=True)
class SplitFilter:
    """A row filter: the rows that a split holds out, or (`held=False`) the training rows."""

    split: Split
    held: bool = True

    @property
    def ids(self) -> bool:
        return self.split.by == "context_id"

    def __call__(self, block: Log, first_row: int) -> np.ndarray:
        return self.split.held_out(block, first_row) == self.held


@dataclass(frozen=True, eq=False)
class TrainingFingerprint:
    """The rows a policy was trained on: their number, and the split that held others out, if any.

    sketch (m,) are their smallest distinct hashes in ascending order, at most `SKETCH`; counts (m,) the rows with each.
    """

    rows: int
    sketch: np.ndarray
    counts: np.ndarray
    split: Split | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.rows:,} rows, {'none held out' if self.split is None else self.split})"

    def __post_init__(self) -> None:
        integer("rows", self.rows)
        sketch, counts = self.sketch, self.counts
        typed = sketch.dtype == np.uint64 and counts.dtype == np.int64 and sketch.ndim == 1
        if not typed or sketch.shape != counts.shape or len(sketch) > SKETCH:
            raise SettingError("a fingerprint's sketch must be 64-bit hashes, at most 256, with their counts")
        if (sketch[1:] <= sketch[:-1]).any() or (counts < 1).any() or counts.sum() > self.rows:
            raise SettingError(
                "a fingerprint's hashes must ascend, and their counts add up to its rows or less"
            )

    @classmethod
    def of(cls, log: AnyLog, split: Split | None = None) -> "TrainingFingerprint":
        """The fingerprint of all rows of a log; `split` is the one that selected them."""
        rows = as_rows(log).select(ids=False, support=False)
        return replace(rows.fold(FingerprintStatistic(rows.action_names)), split=split)

    @overload
    def held_out(self, log: Log) -> Log: ...

    @overload
    def held_out(self, log: Rows) -> Rows: ...

    def held_out(self, log: AnyLog) -> AnyLog:
        """The rows of a log that were held out when the policy was learned; of a scan, as rows to be scanned."""
        if self.split is None:
            raise SettingError("nothing was held out when this policy was learnt")
        if self.split.by == "row" and isinstance(log, Rows):
            if not isinstance(log, InMemoryRows):
                raise SettingError(
                    f"single rows were held out when this policy was learnt, and finding them among {log.n_rows:,} "
                    "needs all rows at once. Read the log with sparing.read_log(...), if it is that very log"
                )
            return as_rows(self.held_out(log.log))
        if self.split.by in ("row", "place") and not self._has_training_rows(log):
            order = ", its rows in the same order" if self.split.by == "place" else ""
            raise SettingError(
                "single rows of another log were held out when this policy was learnt, and they can only "
                f"be found in that very log{order}"
            )
        return _filtered(log, SplitFilter(self.split))

    def _has_training_rows(self, log: AnyLog) -> bool:
        """Whether the rows that the split does not hold out are the training rows."""
        assert self.split is not None
        if self.split.order is None:
            return self._is_of(_filtered(log, SplitFilter(self.split, held=False)))
        return _order_sum(log, self.split) == self.split.order

    def overlap(self, log: AnyLog) -> RowOverlap:
        """Whether rows of the log are training rows.

        Of the log's distinct hashes within the range of the sketch, those in the sketch are known. Where values
        repeat, new rows are known too, about as often as the sketch's own rows repeat each other (Good and
        Turing's 1 − singles/rows). `unclear` if that, or too few rows, explains what is found.
        """
        rows = as_rows(log).select(ids=False, support=False)
        if not self.rows or not rows.n_rows:
            return "none"
        found = rows.fold(SumOf(partial(_KnownRows.of, self.sketch, _name_hashes(rows.action_names))))
        if not found.seen.count:
            return "unclear"
        share = float(found.known.sum() / found.seen.count)
        if share <= MAX_OVERLAP_SHARE:
            return "none"
        by_chance = 1 - float((self.counts == 1).sum() / self.counts.sum())
        return "some" if share > 2 * by_chance or self._is_of(log) else "unclear"

    def _is_of(self, log: AnyLog) -> bool:
        if log.n_rows != self.rows:
            return False
        other = TrainingFingerprint.of(log)
        return np.array_equal(other.sketch, self.sketch) and np.array_equal(other.counts, self.counts)


class FingerprintStatistic(Statistic[Log, TrainingFingerprint]):
    """The fingerprint of rows whose actions have these names.

    A hash among the smallest of all rows is among the smallest of every part that has it, so its count is exact.
    """

    def __init__(self, action_names: tuple[Hashable, ...]) -> None:
        self.names = _name_hashes(action_names)

    def zero(self) -> TrainingFingerprint:
        return TrainingFingerprint(0, np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))

    def update(self, state: TrainingFingerprint, block: Log, first_row: int) -> TrainingFingerprint:
        found = TrainingFingerprint(block.n_rows, *_smallest(row_hashes(block, self.names)))
        return self.merge(state, found) if state.rows else found

    def merge(self, one: TrainingFingerprint, other: TrainingFingerprint) -> TrainingFingerprint:
        sketch, places = np.unique(np.concatenate([one.sketch, other.sketch]), return_inverse=True)
        counts = np.zeros(len(sketch), dtype=np.int64)
        np.add.at(counts, places, np.concatenate([one.counts, other.counts]))
        return TrainingFingerprint(one.rows + other.rows, sketch[:SKETCH], counts[:SKETCH])


@dataclass(frozen=True, eq=False)
class _KnownRows:
    """Which hashes of a sketch occur, (m,), and the distinct hashes within its range."""

    known: np.ndarray
    seen: DistinctSketch

    @classmethod
    def of(cls, sketch: np.ndarray, names: np.ndarray, block: Log, first_row: int) -> "_KnownRows":
        hashes = row_hashes(block, names)
        seen = DistinctSketch.of(hashes[hashes <= (sketch[-1] if len(sketch) == SKETCH else MAX_HASH)])
        return cls(np.isin(sketch, seen.hashes), seen)

    __add__ = add_fields  # a hash is known where either part has it


class _FewContexts(ContextKeys):
    """Keys of distinct contexts, at most `MIN_CONTEXTS_FOR_SPLIT`."""

    def update(self, state: np.ndarray, block: Log, first_row: int) -> np.ndarray:
        return state if len(state) == self.size else super().update(state, block, first_row)


def _order_sum(log: AnyLog, split: Split) -> int:
    """Σ mix64(row hash ⊕ mix64(row number)) mod 2⁶⁴ over the rows that the split does not hold out."""
    rows = as_rows(log).select(ids=False, support=False)
    words = rows.fold(SumOf(partial(_order_word, split, _name_hashes(rows.action_names))))
    return 0 if words is None else int(words[0])


def _order_word(split: Split, names: np.ndarray, block: Log, first_row: int) -> np.ndarray:
    rows = np.flatnonzero(~split.held_out(block, first_row))
    numbers = (first_row + rows).astype(np.uint64)
    words = mix64(row_hashes(block, names)[rows] ^ mix64(numbers))
    return words.sum(dtype=np.uint64, keepdims=True)  # unlike scalars, arrays wrap around without a warning


def row_hashes(log: Log, names: np.ndarray | None = None) -> np.ndarray:
    """A 64-bit hash of each row, (n,); `names` are the hashes of the actions' labels (K,) if already computed."""
    names = _name_hashes(log.action_names) if names is None else names
    rewards = (log.rewards + 0.0).view(np.uint64)
    return mix64(fold_word(fold_word(log.context_hashes, names[log.actions]), rewards))


def _filtered(log: AnyLog, keep: SplitFilter) -> AnyLog:
    return log.take(keep(log, 0)) if isinstance(log, Log) else FilteredRows(log, keep)


def _name_hashes(names: tuple[Hashable, ...]) -> np.ndarray:
    return np.array([_text_hash(name) for name in names], dtype=np.uint64)


def _unit_hashes(log: Log, by: str, first_row: int) -> np.ndarray:
    if by == "context":
        return log.context_hashes
    if by == "row":
        return _numbered(row_hashes(log))
    if by == "place":
        return np.arange(first_row, first_row + log.n_rows, dtype=np.uint64)
    if log.context_ids is None:
        raise SettingError(
            "contexts were held out by their ids when this policy was learnt, and this log has none; name the "
            "column (context_id=...)"
        )
    return id_hashes(log.context_ids)


def _numbered(hashes: np.ndarray) -> np.ndarray:
    """Hashes in which equal rows differ: the first, the second, … of each value."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    first = np.append(True, ordered[1:] != ordered[:-1])[: len(hashes)]
    places = np.arange(len(hashes))
    number = np.empty(len(hashes), dtype=np.uint64)
    number[order] = places - np.maximum.accumulate(np.where(first, places, 0))
    return fold_word(hashes, number)


def _smallest(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The SKETCH smallest distinct hashes in ascending order, and the number of rows with each."""
    largest = MAX_HASH
    if len(hashes) > 4 * SKETCH:  # sorting a few candidates is enough unless they repeat
        largest = np.partition(hashes, 4 * SKETCH)[4 * SKETCH]
        if len(np.unique(hashes[hashes <= largest])) < SKETCH:
            largest = MAX_HASH
    sketch, counts = np.unique(hashes[hashes <= largest], return_counts=True)
    return sketch[:SKETCH], counts[:SKETCH].astype(np.int64)


def _text_hash(name: Hashable) -> int:
    try:
        text = label_text(name)
    except LogError:  # a label that no file can hold
        text = repr(name)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
