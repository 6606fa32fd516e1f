"""Means of many numbers, with what tells how sure they are: parts of a log sum them apart, and join them."""

import math
from dataclasses import dataclass

import numpy as np


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
class Powers:
    """Of so many numbers: the largest |v|, and Σv, Σv², Σv⁴ of what is left of v when it is divided by that; none overflows."""

    rows: int = 0
    largest: float = 0.0
    one: float = 0.0
    two: float = 0.0
    four: float = 0.0

    @classmethod
    def of(cls, values: np.ndarray) -> "Powers":
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

    def __add__(self, other: "Powers") -> "Powers":
        largest = max(self.largest, other.largest)
        rows = self.rows + other.rows
        if largest == 0:
            return Powers(rows)
        here, there = self.largest / largest, other.largest / largest
        return Powers(
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
