"""Mergeable summaries of bounded size: sketches and moments of numbers, and random samples of a log's rows.

Every row has a key that depends on its number alone, and the rows with the smallest keys are the sample. Parts of a log
can be sampled separately, in any order: the smallest keys of all parts are those of the log.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparing.hashing import row_keys
from sparing.log.passes import ColumnarBlock, Statistic

if TYPE_CHECKING:
    from sparing.log.log import Log

# Distinct values that are kept exactly; with more, the last bits of all are dropped until this many are left.
MAX_VALUES = 2**17

# Distinct hashes that are counted; with more, their number is estimated, with a relative error of about 0.002.
MAX_DISTINCT = 2**18

# Texts of a column to which its directions are fitted, and their characters together.
TEXT_ROWS = 2**13
TEXT_CHARACTERS = 2**23

# Contexts that represent future ones: a mean over them is within a tenth of a standard deviation of the mean over all.
CONTEXT_SAMPLE_SIZE = 128


def _empty() -> np.ndarray:
    return np.empty(0, dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class QuantileSketch:
    """Counts (m,) of non-negative numbers; keys (m,) are their bits without the last `shift`, ascending.

    `shift` depends on all numbers together, not on the order in which parts were merged.
    """

    keys: np.ndarray = field(default_factory=_empty)
    counts: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    shift: int = 0

    @classmethod
    def of(cls, values: np.ndarray) -> "QuantileSketch":
        bits = (values + 0.0).view(np.uint64)
        return cls(*np.unique(bits, return_counts=True))._truncated()

    @classmethod
    def within(cls, values: np.ndarray, low: np.ndarray, high: np.ndarray) -> "QuantileSketch":
        """The sketch of values (n,) in intervals of bits, as `brackets` returns them.

        Values between two intervals count as the upper end of the lower one, values below all as 0: ranks stay.
        """
        bits = (values + 0.0).view(np.uint64)
        place = np.searchsorted(low, bits, side="right") - 1
        moved = np.where(place < 0, 0, np.minimum(bits, high[place])).astype(np.uint64)
        return cls.of(moved.view(np.float64))

    def __add__(self, other: "QuantileSketch") -> "QuantileSketch":
        shift = max(self.shift, other.shift)
        one, two = (each._shifted(shift) for each in (self, other))
        keys = np.concatenate([one.keys, two.keys])
        order = np.argsort(keys, kind="stable")  # merges two sorted runs in one pass
        return _joined(keys[order], np.concatenate([one.counts, two.counts])[order], shift)._truncated()

    def _shifted(self, shift: int) -> "QuantileSketch":
        if shift == self.shift:
            return self
        return _joined(self.keys >> np.uint64(shift - self.shift), self.counts, shift)

    def _truncated(self) -> "QuantileSketch":
        """Drop as few of the last bits as possible; the highest bit in which neighbours differ separates them."""
        if len(self.keys) <= MAX_VALUES:
            return self
        apart = self.keys[1:] ^ self.keys[:-1]
        largest_joined = int(np.partition(apart, -MAX_VALUES)[-MAX_VALUES])
        return self._shifted(self.shift + largest_joined.bit_length())

    @property
    def exact(self) -> bool:
        return self.shift == 0

    @property
    def numbers(self) -> np.ndarray:
        """The distinct numbers, ascending (m,): the middle of each key's interval; 0 stays 0."""
        bits = self.keys << np.uint64(self.shift)
        middle = (bits + np.uint64((1 << self.shift) // 2)).view(np.float64)
        return np.where(self.keys > 0, middle, 0.0)

    def quantiles(self, shares: np.ndarray) -> np.ndarray:
        """Quantiles of all numbers at these shares, interpolated as NumPy does."""
        t, below, above = self._ranked(shares)
        low, high = self.numbers[below], self.numbers[above]
        # From the nearer end, as NumPy does, so that both ends are exact.
        near = low + (high - low) * t
        return np.where(t >= 0.5, high - (high - low) * (1 - t), near)

    def brackets(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends, ascending, of the intervals of bits that contain the neighbours of these quantiles."""
        _, below, above = self._ranked(shares)
        low = self.keys[np.unique([below, above])] << np.uint64(self.shift)
        return low, low | np.uint64((1 << self.shift) - 1)

    def _ranked(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The position of each quantile between its two neighbours, in [0, 1), and the indices of their keys."""
        ends, total = np.cumsum(self.counts), int(self.counts.sum())
        places = np.asarray(shares) * (total - 1)
        below = np.floor(places).astype(np.int64)
        above = np.minimum(below + 1, total - 1)
        return places - below, *(np.searchsorted(ends, at, side="right") for at in (below, above))


def _starts(keys: np.ndarray) -> np.ndarray:
    """Positions at which a new key begins in sorted keys, (m,)."""
    return np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])


def _joined(keys: np.ndarray, counts: np.ndarray, shift: int) -> QuantileSketch:
    """The sketch of sorted keys, of which some may be equal."""
    starts = _starts(keys)
    return QuantileSketch(keys[starts], np.add.reduceat(counts, starts) if len(keys) else counts, shift)


@dataclass(frozen=True, eq=False)
class DistinctSketch:
    """Number of distinct hashes: the smallest of them, ascending; all if there are few."""

    hashes: np.ndarray = field(default_factory=_empty)

    @classmethod
    def of(cls, hashes: np.ndarray) -> "DistinctSketch":
        return cls._smallest(np.sort(hashes))

    def __add__(self, other: "DistinctSketch") -> "DistinctSketch":
        return self._smallest(np.sort(np.concatenate([self.hashes, other.hashes]), kind="stable"))

    @classmethod
    def _smallest(cls, ordered: np.ndarray) -> "DistinctSketch":
        if (ordered[1:] == ordered[:-1]).any():
            ordered = ordered[_starts(ordered)]
        return cls(ordered[:MAX_DISTINCT].copy())

    @property
    def exact(self) -> bool:
        return len(self.hashes) < MAX_DISTINCT

    @property
    def count(self) -> int:
        """The number of distinct hashes; beyond the sketch of k, estimated as (k − 1)/(largest/2⁶⁴)."""
        if self.exact:
            return len(self.hashes)
        return round((len(self.hashes) - 1) / (float(self.hashes[-1]) / 2.0**64))


@dataclass(frozen=True)
class Moments:
    """Count, sum, sum of squared deviations from the mean, minimum and maximum of numbers."""

    count: int = 0
    total: float = 0.0
    deviations: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    @classmethod
    def of(cls, values: np.ndarray) -> "Moments":
        if not len(values):
            return cls()
        total = float(values.sum())
        off = values - total / len(values)
        return cls(len(values), total, float((off * off).sum()), float(values.min()), float(values.max()))

    def __add__(self, other: "Moments") -> "Moments":
        if not self.count or not other.count:
            return self if self.count else other
        count, apart = self.count + other.count, other.mean - self.mean
        between = apart * apart * (self.count * other.count / count)
        return Moments(
            count,
            self.total + other.total,
            self.deviations + other.deviations + between,
            min(self.low, other.low),
            max(self.high, other.high),
        )

    @property
    def mean(self) -> float:
        """The mean; 0 without numbers."""
        return self.total / max(self.count, 1)

    @property
    def deviation(self) -> float:
        """The standard deviation; 0 without numbers."""
        return math.sqrt(self.deviations / max(self.count, 1))

    @property
    def scale(self) -> float:
        """The standard deviation, or 1 if it is 0."""
        deviation = self.deviation
        return deviation if deviation > 1e-12 * max(abs(self.mean), 1e-300) else 1.0

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return math.sqrt(self.deviations / self.count) / math.sqrt(self.count)


SURE_EXCESS = 4.0  # standard errors above 1 from which a mean weight is not chance
ROUNDING_EXCESS = 0.05  # excess that rounded propensities may have
MIN_WEIGHTED_ROWS = 30  # fewer rows have no standard error to rely on


class MeanWeight(NamedTuple):
    """Mean over rows of a policy's weight w plus its unsupported mass, where that is known, and its standard error.

    E[w] = Σ_a π(a|x)·1{μ(a|x) > 0} ≤ 1, with equality where the support is added. A mean far below 1 can be chance, because
    large weights are seldom in a log. A mean far above 1 cannot: large weights raise the standard error too.
    """

    value: float
    error: float
    rows: int

    @classmethod
    def of(cls, found: Moments) -> "MeanWeight":
        return cls(found.mean, found.error, found.count)

    @property
    def inconsistent(self) -> bool:
        """Whether the propensities cannot be those of the log."""
        return self.rows >= MIN_WEIGHTED_ROWS and self.value > 1 + SURE_EXCESS * self.error + ROUNDING_EXCESS

    @property
    def sentence(self) -> str:
        """What is wrong with the propensities; empty if nothing is."""
        if not self.inconsistent:
            return ""
        return f"Propensities are inconsistent (mean weight {self.value:.3g}, should be about 1)"


@dataclass(frozen=True)
class PowerSums:
    """Sums of powers of numbers v: `largest` = max |v|, and Σu, Σu², Σu⁴ of u = v/largest, which cannot overflow."""

    rows: int = 0
    largest: float = 0.0
    one: float = 0.0
    two: float = 0.0
    four: float = 0.0

    @classmethod
    def of(cls, values: np.ndarray) -> "PowerSums":
        largest = float(np.abs(values).max(initial=0))
        if largest == 0:
            return cls(len(values))
        scaled = values / largest
        squares = scaled * scaled
        sums = (float(powers.sum()) for powers in (scaled, squares, squares * squares))
        return cls(len(values), largest, *sums)

    def __add__(self, other: "PowerSums") -> "PowerSums":
        largest = max(self.largest, other.largest)
        rows = self.rows + other.rows
        if largest == 0:
            return PowerSums(rows)
        here, there = self.largest / largest, other.largest / largest
        return PowerSums(
            rows,
            largest,
            self.one * here + other.one * there,
            self.two * here**2 + other.two * there**2,
            self.four * here**4 + other.four * there**4,
        )

    @property
    def mean(self) -> float:
        """Σv/n."""
        return self.one / self.rows * self.largest

    @property
    def effective(self) -> float:
        """(Σv)²/Σv², the effective sample size of weights; 0 if all are 0."""
        return self.one**2 / self.two if self.two > 0 else 0.0

    @property
    def variance(self) -> float:
        """Σv²/(n − 1), the variance if v are deviations from a mean; NaN for a single row."""
        return self.two / (self.rows - 1) * self.largest**2 if self.rows > 1 else float("nan")

    @property
    def freedom(self) -> float:
        """(Σv²)²/Σv⁴ − 1, the degrees of freedom of deviations v; 1 or more."""
        if self.largest == 0:
            return max(float(self.rows) - 1, 1.0)
        return max(self.two**2 / self.four - 1, 1.0)


def smallest(keys: np.ndarray, size: int) -> np.ndarray:
    """Indices of the `size` smallest of keys (n,) that all differ, in the order of the keys."""
    found = np.arange(len(keys)) if len(keys) <= size else np.argpartition(keys, size)[:size]
    return found[np.argsort(keys[found], kind="stable")]


@dataclass(frozen=True, eq=False)
class SampleState:
    """Candidates for a sample of `size` rows: keys (m,), row numbers (m,), and the logs that hold these rows, in order.

    `extra` (m,) are further numbers of these rows, if the sample collects some.
    """

    header: "Log"
    size: int
    keys: np.ndarray
    numbers: np.ndarray
    parts: "tuple[Log, ...]"
    extra: np.ndarray | None = None

    @cached_property
    def kept(self) -> np.ndarray:
        """Indices of the sampled rows among the candidates, in the log's order, (size,)."""
        if len(self.keys) <= self.size:
            return np.arange(len(self.keys))
        return np.sort(np.argpartition(self.keys, self.size)[: self.size])

    def log(self) -> "Log":
        """The sampled rows in the log's order."""
        from sparing.log.rows import concatenate_logs  # that module imports this one

        candidates = concatenate_logs(self.header, self.parts)
        return candidates if len(self.keys) <= self.size else candidates.take(self.kept)


class RowSample(Statistic["Log", SampleState]):
    """Sample `size` of a log's `n_rows` rows, those with the smallest keys; all if there are no more.

    `extra(block, first_row)` returns a further number for each row of a block, (n,).
    """

    def __init__(
        self,
        header: "Log",
        n_rows: int,
        size: int,
        seed: int = 0,
        extra: "Callable[[Log, int], np.ndarray] | None" = None,
    ) -> None:
        self.header, self.size, self.seed, self.extra = header, size, seed, extra
        # Candidates: six standard deviations more rows than the sample, so that they take little memory.
        expected = size + 6 * np.sqrt(size) + 6
        self.reach = None if expected >= n_rows else np.uint64(expected / n_rows * 2**64)

    def zero(self) -> SampleState:
        none = None if self.extra is None else np.empty(0)
        return SampleState(self.header, self.size, np.empty(0, np.uint64), np.empty(0, np.int64), (), none)

    def update(self, state: SampleState, block: "Log", first_row: int) -> SampleState:
        numbers = np.arange(first_row, first_row + block.n_rows)
        keys = row_keys(numbers, self.seed)
        extra = None if self.extra is None else self.extra(block, first_row)
        if self.reach is not None:
            near = np.flatnonzero(keys < self.reach)
            keys, numbers, block = keys[near], numbers[near], block.take(near)
            extra = None if extra is None else extra[near]
            block = replace(block, support=block.support.compact())
        return self.merge(state, SampleState(self.header, self.size, keys, numbers, (block,), extra))

    def merge(self, one: SampleState, other: SampleState) -> SampleState:
        keys, numbers = np.append(one.keys, other.keys), np.append(one.numbers, other.numbers)
        extra = None if one.extra is None or other.extra is None else np.append(one.extra, other.extra)
        return SampleState(one.header, one.size, keys, numbers, (*one.parts, *other.parts), extra)


@dataclass(frozen=True, eq=False)
class SampledContexts:
    """Sampled contexts (m, d) and the keys of their rows (m,), ascending."""

    keys: np.ndarray
    contexts: np.ndarray


class ContextSample(Statistic[Any, SampledContexts]):
    """Sample contexts as `RowSample` does rows; blocks are logs, columnar blocks or arrays of contexts (n, d)."""

    by_columns = True

    def __init__(self, n_features: int, size: int = CONTEXT_SAMPLE_SIZE) -> None:
        self.n_features, self.size = n_features, size

    def zero(self) -> SampledContexts:
        return SampledContexts(np.empty(0, dtype=np.uint64), np.empty((0, self.n_features)))

    def update(
        self, state: SampledContexts, block: "Log | ColumnarBlock | np.ndarray", first_row: int
    ) -> SampledContexts:
        many = len(block) if isinstance(block, np.ndarray) else block.n_rows
        keys = row_keys(np.arange(first_row, first_row + many))
        near = np.arange(many) if len(state.keys) < self.size else np.flatnonzero(keys < state.keys[-1])
        near = near[smallest(keys[near], self.size)]
        if isinstance(block, ColumnarBlock):
            found = block.at(near)
        else:
            found = (block if isinstance(block, np.ndarray) else block.contexts)[near]
        return self.merge(state, SampledContexts(keys[near], found))

    def merge(self, one: SampledContexts, other: SampledContexts) -> SampledContexts:
        keys, contexts = np.append(one.keys, other.keys), np.concatenate([one.contexts, other.contexts])
        order = smallest(keys, self.size)
        return SampledContexts(keys[order], contexts[order])


@dataclass(frozen=True, eq=False)
class TextSample:
    """Sampled texts of a column and the keys of their rows (m,), ascending: the smallest keys of rows with a text.

    There are at most `TEXT_ROWS` of them, and no more than are needed for `TEXT_CHARACTERS` together. What is left out of a
    part of the log is left out of the whole too, so that parts can be sampled separately.
    """

    keys: np.ndarray = field(default_factory=_empty)
    words: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=object))
    sizes: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @classmethod
    def of(cls, keys: np.ndarray, texts: Sequence[str], which: np.ndarray | None = None) -> "TextSample":
        """The texts of rows with these keys (n,); or `texts` are the distinct ones, and `which` (n,) the row's."""
        words = np.empty(len(texts), dtype=object)
        words[:] = texts
        sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        return cls(keys, words, sizes) if which is None else cls(keys, words[which], sizes[which])

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self.words)

    def near(self, keys: np.ndarray) -> np.ndarray:
        """Indices of those keys (n,) that may still enter, ascending by key."""
        full = len(self.words) >= TEXT_ROWS or self.sizes.sum() >= TEXT_CHARACTERS
        places = np.flatnonzero(keys < self.keys[-1]) if full else np.arange(len(keys))
        return places[smallest(keys[places], TEXT_ROWS)]

    def __add__(self, other: "TextSample") -> "TextSample":
        keys, sizes = np.append(self.keys, other.keys), np.append(self.sizes, other.sizes)
        order = smallest(keys, TEXT_ROWS)
        order = order[: int(np.searchsorted(np.cumsum(sizes[order]), TEXT_CHARACTERS)) + 1]
        return TextSample(keys[order], np.append(self.words, other.words)[order], sizes[order])


def sample_contexts(contexts: np.ndarray, size: int = CONTEXT_SAMPLE_SIZE) -> np.ndarray:
    """A sample (m, d) of contexts (n, d)."""
    sample = ContextSample(contexts.shape[1], size)
    return sample.update(sample.zero(), contexts, 0).contexts
