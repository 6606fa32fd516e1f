"""Counts of all rows that an audit needs, block by block, and counts of rows in segments."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sparing.auditing.segments import Bound, Segment
from sparing.log import Log, Support
from sparing.log.log import group_hashes
from sparing.log.passes import Blocks, SumOf, add_fields
from sparing.log.rows import RewardSummary, Rows
from sparing.log.sketches import DistinctSketch, Moments, PowerSums, QuantileSketch


@dataclass(frozen=True, eq=False)
class Propensities:
    """Those of the logged actions, μ: their values, the least and the largest; 1/μ, and its sum by action (K,).

    `excess` is of 1/μ − the number of supported actions, where a row's are known; `variance` the sum over rows of
    Var(1/μ | x), where distributions are.
    """

    values: QuantileSketch
    low: float
    high: float
    inverse: Moments
    weights: PowerSums
    by_action: np.ndarray
    excess: Moments | None
    variance: float | None

    @classmethod
    def of(cls, block: Log) -> "Propensities":
        assert block.propensities is not None
        inverse = 1 / block.propensities
        known = block.support.known
        return cls(
            values=QuantileSketch.of(block.propensities),
            low=float(block.propensities.min()),
            high=float(block.propensities.max()),
            inverse=Moments.of(inverse),
            weights=PowerSums.of(inverse),
            by_action=np.bincount(block.actions, weights=inverse, minlength=block.n_actions),
            excess=Moments.of(inverse - block.support.sizes) if known else None,
            variance=_variance(block.support) if known else None,
        )

    def __add__(self, other: "Propensities") -> "Propensities":
        return replace(add_fields(self, other), low=min(self.low, other.low), high=max(self.high, other.high))


def _variance(support: Support) -> float | None:
    """Σ over rows of Σ_a 1/μ(a|x) − |support|², in the rows' order, however distributions are stored; None without them."""
    if support.probabilities is None:
        return None
    places, place = sets_of(support)
    each = np.empty(len(places))
    for part in Blocks.of(len(places), support.n_actions):
        table = support.probabilities[places[part]]
        supported = table > 0
        one_over = np.divide(1, table, out=np.zeros_like(table), where=supported).sum(axis=1)
        each[part] = one_over - supported.sum(axis=1) ** 2
    return float(each[place].sum())


@dataclass(frozen=True, eq=False)
class SupportCounts:
    """Rows in which each action is supported, (K,), or rare, (K,) where distributions are known; rows by their set's size, (K + 1,)."""

    rows_with: np.ndarray
    rare: np.ndarray | None
    sizes: np.ndarray

    @classmethod
    def of(cls, support: Support, rare: float) -> "SupportCounts":
        """Those of a block's rows; an action is rare where its probability is positive and below `rare`."""
        places, place = sets_of(support)
        weights = np.bincount(place, minlength=len(places)).astype(float)
        counts = np.zeros((2, support.n_actions))
        for part, bits in unpacked(support, places):
            counts[0] += weights[part] @ bits if (weights[part] != 1).any() else column_sums(bits)
            if support.probabilities is not None:
                table = support.probabilities[places[part]]
                counts[1] += weights[part] @ ((table > 0) & (table < rare))
        with_each, seldom = counts.astype(np.int64)  # whole numbers, whatever the order
        sizes = np.bincount(support.sizes, minlength=support.n_actions + 1)
        return cls(with_each, None if support.probabilities is None else seldom, sizes)

    __add__ = add_fields

    @property
    def rows(self) -> int:
        return int(self.sizes.sum())

    @property
    def shares(self) -> np.ndarray:
        return self.rows_with / max(1, self.rows)

    @property
    def mean_size(self) -> float:
        return float(self.sizes @ np.arange(len(self.sizes))) / self.rows

    @property
    def unsupported_sizes(self) -> dict[int, int]:
        """Rows by their number of unsupported actions."""
        missing = self.sizes[::-1]
        return {size: int(missing[size]) for size in np.flatnonzero(missing).tolist()}


def sets_of(support: Support) -> tuple[np.ndarray, np.ndarray]:
    """The places (m,) in its table that rows of a support use, and perhaps others; and which of them each row is, (n,)."""
    assert support.table is not None
    if support.index is None:
        places = np.arange(support.n_rows)
        return places, places
    if len(support.table) <= support.n_rows:
        return np.arange(len(support.table)), support.index
    places, place = np.unique(support.index, return_inverse=True)
    return places, place


def unpacked(support: Support, places: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """SupportCounts by their places (m,) as bits (part, K), a part at a time."""
    assert support.table is not None
    for part in Blocks.of(len(places), support.n_actions):
        yield part, np.unpackbits(support.table[places[part]], axis=1, count=support.n_actions)


def column_sums(bits: np.ndarray) -> np.ndarray:
    """How many of bits (n, K) are 1 in each column, (K,): as many rows at a time as a byte can count."""
    whole = len(bits) // 255 * 255
    parts = bits[:whole].reshape(-1, 255, bits.shape[1]).sum(axis=1, dtype=np.uint8)
    return parts.sum(axis=0, dtype=np.int64) + bits[whole:].sum(axis=0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class LogCounts:
    """All of them; what the rows do not have is None."""

    rewards: RewardSummary
    propensities: Propensities | None
    sets: SupportCounts | None
    contexts: DistinctSketch

    @classmethod
    def of(cls, block: Log, first_row: int, *, rare: float) -> "LogCounts":
        return cls(
            RewardSummary.of(block),
            None if block.propensities is None else Propensities.of(block),
            SupportCounts.of(block.support, rare) if block.support.known else None,
            DistinctSketch.of(group_hashes(block)),
        )

    __add__ = add_fields


@dataclass(frozen=True, eq=False)
class SegmentCounts:
    """Of segments, in a log of so many rows: each one's rows (G,), rows of each action in it (G, K), and rows of it in
    which each action was supported (G, K), None where the support is unknown.
    """

    rows: int
    sizes: np.ndarray
    tried: np.ndarray
    supported: np.ndarray | None

    @classmethod
    def of(cls, block: Log, first_row: int, *, segments: Sequence[Segment]) -> "SegmentCounts":
        k, members = block.n_actions, inside(segments, block.contexts)
        tried = np.array([np.bincount(block.actions[rows], minlength=k) for rows in members], dtype=np.int64)
        tried = tried.reshape(len(members), k)
        supported = _supported(block, members) if block.support.known else None
        return cls(block.n_rows, tried.sum(axis=1), tried, supported)

    __add__ = add_fields

    @property
    def shares(self) -> np.ndarray:
        if self.supported is None:
            return (self.tried > 0).astype(float)
        return self.supported / np.maximum(self.sizes, 1)[:, None]


def count_segments(rows: Rows, segments: Sequence[Segment]) -> SegmentCounts:
    """The counts of a log's segments; without any it is not read."""
    if not segments:
        k = rows.n_actions
        return SegmentCounts(rows.n_rows, np.zeros(0, np.int64), np.zeros((0, k), np.int64), None)
    known = rows.header.support.known
    needed = rows.select(ids=known, support=known, features=features_of(segments))
    found: SegmentCounts = needed.fold(SumOf(partial(SegmentCounts.of, segments=segments)))
    return found


def features_of(segments: Sequence[Segment]) -> set[int]:
    return {j for segment in segments for bound in segment.bounds for j, _ in bound.terms}


def inside(segments: Sequence[Segment], contexts: np.ndarray) -> list[np.ndarray]:
    """The rows of contexts (n, d) that lie in each segment; a bound that several have is looked at once."""
    known: dict[Bound, np.ndarray] = {}
    everywhere = np.arange(len(contexts))
    columns = np.empty(contexts.shape, order="F")  # each feature that is asked for in one piece
    for j in features_of(segments):
        columns[:, j] = contexts[:, j]
    found = []
    for segment in segments:
        held = None
        for bound in segment.bounds:
            if bound not in known:
                known[bound] = bound.contains(columns)
            held = known[bound] if held is None else held & known[bound]
        found.append(everywhere if held is None else np.flatnonzero(held))
    return found


def _supported(block: Log, members: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of each segment in which each action was supported, (G, K): set by set, or row by row where each has its own."""
    rows_with = np.zeros((len(members), block.n_actions))
    if block.support.index is None:
        for segment, rows in enumerate(members):
            for _, bits in unpacked(block.support, rows):
                rows_with[segment] += column_sums(bits)
        return rows_with.astype(np.int64)
    places, place = sets_of(block.support)
    counts = np.zeros((len(members), len(places)), dtype=np.float32)
    for segment, rows in enumerate(members):
        counts[segment] = np.bincount(place[rows], minlength=len(places))
    for part, bits in unpacked(block.support, places):
        rows_with += counts[:, part] @ bits.astype(np.float32)  # whole numbers below 2²⁴: exact
    return rows_with.astype(np.int64)
