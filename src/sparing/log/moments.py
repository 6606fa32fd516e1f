"""Means of many numbers, with what tells how sure they are: parts of a log sum them apart, and join them."""

import math
from dataclasses import dataclass

import numpy as np

SHORT = 10_000
"""Numbers of one product: longer ones are cut by BLAS as there are threads, which would show in the last digits."""


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
class Weights:
    """Weights of 0 or more: the largest, the sum, and the sum of squares, both in units of the largest and its square."""

    largest: float = 0.0
    total: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, weights: np.ndarray) -> "Weights":
        """Those of an array (n,)."""
        largest = float(weights.max(initial=0))
        if largest == 0:
            return cls()
        scaled = weights / largest
        pieces = (scaled[start : start + SHORT] for start in range(0, len(scaled), SHORT))
        return cls(largest, float(scaled.sum()), sum(float(piece @ piece) for piece in pieces))

    def __add__(self, other: "Weights") -> "Weights":
        largest = max(self.largest, other.largest)
        if largest == 0:
            return self
        one, two = self.largest / largest, other.largest / largest
        return Weights(
            largest,
            self.total * one + other.total * two,
            self.squares * one * one + other.squares * two * two,
        )

    @property
    def effective_sample_size(self) -> float:
        """(Σw)²/Σw²; 0 where all weights are 0."""
        return self.total**2 / self.squares if self.squares > 0 else 0.0
