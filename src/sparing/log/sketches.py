"""Small stands-in for many numbers, that parts of a log can make apart and join: exact up to a size, close beyond."""

import math
from dataclasses import dataclass, field

import numpy as np

MOST_VALUES = 2**17
"""Distinct values that are kept as they are; with more, the last bits of all are let go until as many are left."""

MOST_DISTINCT = 2**18
"""Distinct hashes that are counted; with more, their number is estimated, to about two thousandths."""


def _empty() -> np.ndarray:
    return np.empty(0, dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class QuantileSketch:
    """Positive numbers, or 0, by how often each occurs: keys (m,) are their bits but for the last `shift`, ascending.

    What is left of the bits follows from all numbers together, not from how they were parted and joined.
    """

    keys: np.ndarray = field(default_factory=_empty)
    counts: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    shift: int = 0

    @classmethod
    def of(cls, values: np.ndarray) -> "QuantileSketch":
        """Those of an array (n,)."""
        bits = (values + 0.0).view(np.uint64)
        return cls(*np.unique(bits, return_counts=True))._cut()

    @classmethod
    def within(cls, values: np.ndarray, low: np.ndarray, high: np.ndarray) -> "QuantileSketch":
        """Those of an array (n,) that lie in intervals of bits, as `brackets` gives them.

        Values between two intervals count as the upper end of the one before, those below all as 0: the order stays.
        """
        bits = (values + 0.0).view(np.uint64)
        place = np.searchsorted(low, bits, side="right") - 1
        return cls.of(
            np.where(place < 0, 0, np.minimum(bits, high[place])).astype(np.uint64).view(np.float64)
        )

    def __add__(self, other: "QuantileSketch") -> "QuantileSketch":
        shift = max(self.shift, other.shift)
        one, two = (each._shifted(shift) for each in (self, other))
        keys = np.concatenate([one.keys, two.keys])
        order = np.argsort(keys, kind="stable")  # two runs, each sorted: one pass
        return _joined(keys[order], np.concatenate([one.counts, two.counts])[order], shift)._cut()

    def _shifted(self, shift: int) -> "QuantileSketch":
        """Without the last bits, so many in all."""
        if shift == self.shift:
            return self
        return _joined(self.keys >> np.uint64(shift - self.shift), self.counts, shift)

    def _cut(self) -> "QuantileSketch":
        """Without as few of the last bits as must go; keys are told apart by the bits in which neighbours differ."""
        if len(self.keys) <= MOST_VALUES:
            return self
        apart, low, high = self.keys[1:] ^ self.keys[:-1], 1, 64
        while low < high:
            middle = (low + high) // 2
            if np.count_nonzero(apart >> np.uint64(middle)) < MOST_VALUES:
                high = middle
            else:
                low = middle + 1
        return self._shifted(self.shift + low)

    @property
    def exact(self) -> bool:
        """Whether the numbers are as they were."""
        return self.shift == 0

    @property
    def numbers(self) -> np.ndarray:
        """The numbers that are told apart, ascending (m,): the middle of what each key stands for; 0 stays 0."""
        bits = self.keys << np.uint64(self.shift)
        middle = (bits + np.uint64((1 << self.shift) // 2)).view(np.float64)
        return np.where(self.keys > 0, middle, 0.0)

    def quantiles(self, shares: np.ndarray) -> np.ndarray:
        """The quantiles at these shares: those of all numbers, as NumPy interpolates them."""
        t, below, above = self._ranked(shares)
        low, high = self.numbers[below], self.numbers[above]
        # As NumPy: from the nearer end, so that both ends are met exactly.
        near = low + (high - low) * t
        return np.where(t >= 0.5, high - (high - low) * (1 - t), near)

    def brackets(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Intervals of bits, their lower and upper ends ascending, which have the numbers that the quantiles lie between."""
        _, below, above = self._ranked(shares)
        low = self.keys[np.unique([below, above])] << np.uint64(self.shift)
        return low, low | np.uint64((1 << self.shift) - 1)

    def _ranked(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How far each quantile lies from its lower to its upper neighbour, and the indices of their keys."""
        ends, total = np.cumsum(self.counts), int(self.counts.sum())
        places = np.asarray(shares) * (total - 1)
        below = np.floor(places).astype(np.int64)
        above = np.minimum(below + 1, total - 1)
        return places - below, *(np.searchsorted(ends, at, side="right") for at in (below, above))


def _starts(keys: np.ndarray) -> np.ndarray:
    """Where a new key begins among keys in order, (m,)."""
    return np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])


def _joined(keys: np.ndarray, counts: np.ndarray, shift: int) -> QuantileSketch:
    """Values of keys in order, in which equal ones are neighbours."""
    starts = _starts(keys)
    return QuantileSketch(keys[starts], np.add.reduceat(counts, starts) if len(keys) else counts, shift)


@dataclass(frozen=True, eq=False)
class DistinctSketch:
    """How many different hashes there are: the smallest of them, ascending, all where they are few."""

    hashes: np.ndarray = field(default_factory=_empty)

    @classmethod
    def of(cls, hashes: np.ndarray) -> "DistinctSketch":
        """Those of an array (n,)."""
        return cls._smallest(np.sort(hashes))

    def __add__(self, other: "DistinctSketch") -> "DistinctSketch":
        return self._smallest(np.sort(np.concatenate([self.hashes, other.hashes]), kind="stable"))

    @classmethod
    def _smallest(cls, ordered: np.ndarray) -> "DistinctSketch":
        if (ordered[1:] == ordered[:-1]).any():
            ordered = ordered[_starts(ordered)]
        return cls(ordered[:MOST_DISTINCT].copy())

    @property
    def exact(self) -> bool:
        """Whether all were counted."""
        return len(self.hashes) < MOST_DISTINCT

    @property
    def count(self) -> int:
        """How many there are; beyond the sketch, how many would leave so small a largest one: (k − 1)/(its share of 2⁶⁴)."""
        if self.exact:
            return len(self.hashes)
        return round((len(self.hashes) - 1) / (float(self.hashes[-1]) / 2.0**64))


@dataclass(frozen=True)
class Moments:
    """How many numbers there are, their sum, the sum of their squared distances from their mean, and their range."""

    count: int = 0
    total: float = 0.0
    deviations: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    @classmethod
    def of(cls, values: np.ndarray) -> "Moments":
        """Those of an array (n,)."""
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
        """Their mean; 0 where there are none."""
        return self.total / max(self.count, 1)

    @property
    def deviation(self) -> float:
        """Their deviation; 0 where there are none."""
        return math.sqrt(self.deviations / max(self.count, 1))

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return math.sqrt(self.deviations / self.count) / math.sqrt(self.count)


@dataclass(frozen=True)
class PowerSums:
    """Of so many numbers: the largest |v|, and Σv, Σv², Σv⁴ of what is left of v when it is divided by that; none overflows."""

    rows: int = 0
    largest: float = 0.0
    one: float = 0.0
    two: float = 0.0
    four: float = 0.0

    @classmethod
    def of(cls, values: np.ndarray) -> "PowerSums":
        """Those of an array (n,)."""
        largest = float(np.abs(values).max(initial=0))
        if largest == 0:
            return cls(len(values))
        scaled = values / largest
        squares = scaled * scaled
        return cls(
            len(values),
            largest,
            float(scaled.sum()),
            float(squares.sum()),
            float((squares * squares).sum()),
        )

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
        """(Σv)²/Σv², the effective sample size of weights; 0 where all are 0."""
        return self.one**2 / self.two if self.two > 0 else 0.0

    @property
    def variance(self) -> float:
        """Σv²/(n − 1), the variance where v are deviations from a mean; NaN of a single row."""
        return self.two / (self.rows - 1) * self.largest**2 if self.rows > 1 else float("nan")

    @property
    def freedom(self) -> float:
        """(Σv²)²/Σv⁴ − 1, as `Terms.freedom` of deviations v; 1 or more."""
        if self.largest == 0:
            return max(float(self.rows) - 1, 1.0)
        return max(self.two**2 / self.four - 1, 1.0)
