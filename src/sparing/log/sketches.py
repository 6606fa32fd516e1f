"""Small stands-in for many numbers, that parts of a log can make apart and join: exact up to a size, close beyond."""

from dataclasses import dataclass, field

import numpy as np

MOST_VALUES = 2**17
"""Distinct values that are kept as they are; with more, the last bits of all are let go until as many are left."""

MOST_DISTINCT = 2**20
"""Distinct hashes that are counted; with more, their number is estimated, to about a thousandth."""


def _empty() -> np.ndarray:
    return np.empty(0, dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class Values:
    """Positive numbers, or 0, by how often each occurs: keys (m,) are their bits but for the last `shift`, ascending.

    What is left of the bits follows from all numbers together, not from how they were parted and joined.
    """

    keys: np.ndarray = field(default_factory=_empty)
    counts: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    shift: int = 0

    @classmethod
    def of(cls, values: np.ndarray) -> "Values":
        """Those of an array (n,)."""
        keys, counts = np.unique((values + 0.0).view(np.uint64), return_counts=True)
        return cls(keys, counts)._cut()

    def __add__(self, other: "Values") -> "Values":
        shift = max(self.shift, other.shift)
        keys = np.concatenate([each.keys >> np.uint64(shift - each.shift) for each in (self, other)])
        return Values(keys, np.concatenate([self.counts, other.counts]), shift)._joined()._cut()

    def _joined(self) -> "Values":
        keys, place = np.unique(self.keys, return_inverse=True)
        counts = np.bincount(place, weights=self.counts, minlength=len(keys)).astype(np.int64)
        return Values(keys, counts, self.shift)

    def _cut(self) -> "Values":
        found = self
        while len(found.keys) > MOST_VALUES:
            found = Values(found.keys >> np.uint64(1), found.counts, found.shift + 1)._joined()
        return found

    @property
    def exact(self) -> bool:
        """Whether the numbers are as they were."""
        return self.shift == 0

    @property
    def numbers(self) -> np.ndarray:
        """The numbers that are told apart, ascending (m,): the middle of what each key stands for."""
        bits = self.keys << np.uint64(self.shift)
        return (bits + np.uint64((1 << self.shift) // 2)).view(np.float64)

    def quantiles(self, shares: np.ndarray) -> np.ndarray:
        """The quantiles at these shares: those of all numbers, as NumPy interpolates them."""
        ends, total = np.cumsum(self.counts), int(self.counts.sum())
        places = np.asarray(shares) * (total - 1)
        below = np.floor(places).astype(np.int64)
        above = np.minimum(below + 1, total - 1)
        low, high = (self.numbers[np.searchsorted(ends, at, side="right")] for at in (below, above))
        t = places - below
        # As NumPy: from the nearer end, so that both ends are met exactly.
        near = low + (high - low) * t
        return np.where(t >= 0.5, high - (high - low) * (1 - t), near)


@dataclass(frozen=True, eq=False)
class Distinct:
    """How many different hashes there are: the smallest of them, ascending, all where they are few."""

    hashes: np.ndarray = field(default_factory=_empty)

    @classmethod
    def of(cls, hashes: np.ndarray) -> "Distinct":
        """Those of an array (n,)."""
        return cls(np.unique(hashes)[:MOST_DISTINCT])

    def __add__(self, other: "Distinct") -> "Distinct":
        return Distinct.of(np.concatenate([self.hashes, other.hashes]))

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
