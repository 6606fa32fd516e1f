"""Means, shares, paired differences and slopes over seeds, each with its 95 % interval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate and the ends of its 95 % interval; the ends are NaN where one value is all there is."""

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float | None]:
        """Plain values; an end that is not known is null."""
        known = [None if np.isnan(end) else end for end in (self.value, self.low, self.high)]
        return dict(zip(("value", "low", "high"), known, strict=True))

    def named(self, name: str) -> dict[str, float]:
        """Three values of a table's row: name, name_low and name_high."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}

    def text(self, digits: int = 3) -> str:
        """`value [low, high]` with so many significant digits."""
        value, low, high = (short(end, digits) for end in (self.value, self.low, self.high))
        return value if np.isnan(self.low) else f"{value} [{low}, {high}]"


def short(value: float, digits: int = 3) -> str:
    """A number with so many significant digits; from a thousand on in whole numbers, not in powers of ten."""
    return f"{float(f'{value:.{digits}g}'):,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.{digits}g}"


def read(row: Mapping[str, Any], name: str) -> Interval:
    """An interval again from the three values of a row."""
    return Interval(row[name], row[f"{name}_low"], row[f"{name}_high"])


def mean(values: Sequence[float] | np.ndarray) -> Interval:
    """The mean over seeds with Student's interval."""
    sample = np.asarray(values, dtype=float)
    centre = float(sample.mean())
    if len(sample) < 2:
        return Interval(centre, np.nan, np.nan)
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(sample) - 1) * sample.std(ddof=1) / np.sqrt(len(sample)))
    return Interval(centre, centre - half, centre + half)


def difference(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> Interval:
    """first − second, paired by seed."""
    return mean(np.asarray(first, dtype=float) - np.asarray(second, dtype=float))


def share(hits: int, runs: int) -> Interval:
    """hits/runs with the exact interval of Clopper and Pearson."""
    limits = stats.binomtest(hits, runs).proportion_ci(LEVEL)
    return Interval(hits / runs, float(limits.low), float(limits.high))


def band(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and 95 % limits of curves (seeds, points), point by point: three arrays (points,)."""
    centre = curves.mean(axis=0)
    if len(curves) < 2:
        return centre, centre, centre
    half = stats.t.ppf((1 + LEVEL) / 2, len(curves) - 1) * curves.std(axis=0, ddof=1) / np.sqrt(len(curves))
    return centre, centre - half, centre + half


def log_log_slope(x: np.ndarray, y: np.ndarray) -> float:
    """The exponent b of y ≈ c·x^b, by least squares on logarithms; points with y ≤ 0 are left out."""
    keep = y > 0
    return float(np.polyfit(np.log(x[keep]), np.log(y[keep]), 1)[0]) if keep.sum() > 1 else float("nan")
