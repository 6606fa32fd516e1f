"""Confidence intervals of a mean, and of a mean plus a ratio of means."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from sparing.errors import SettingError

BLOCKS = 1024
"""Larger samples are resampled in this many random blocks of rows."""

RESAMPLES = 1000


@dataclass(frozen=True, eq=False)
class Terms:
    """A statistic as rows: mean(base) + factor·Σ numerator / Σ denominator; all (n,).

    `span` is the width of the interval that a row's term must lie in, where one is known.
    """

    base: np.ndarray
    numerator: np.ndarray | None = None
    denominator: np.ndarray | None = None
    factor: float = 1.0
    span: float | None = None

    @property
    def value(self) -> float:
        """The statistic."""
        return float(self.base.mean() + self.factor * self.ratio)

    @property
    def ratio(self) -> float:
        """Σ numerator / Σ denominator, 0 where there is none."""
        if self.numerator is None or self.denominator is None:
            return 0.0
        total = self.denominator.sum()
        return float(self.numerator.sum() / total) if total > 0 else float("nan")

    def linearised(self) -> np.ndarray:
        """Rows whose mean is the statistic and whose deviation is its, to first order (n,)."""
        if self.numerator is None or self.denominator is None:
            return self.base
        ratio = self.ratio
        slope = (self.numerator - ratio * self.denominator) / self.denominator.mean()
        return self.base + self.factor * (ratio + slope)


def limits(
    terms: Terms, *, interval: str, confidence: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Two-sided limits of the statistic: `normal`, `bootstrap` or `bernstein`."""
    if len(terms.base) < 2:
        return float("-inf"), float("inf")
    return INTERVALS[interval](terms, confidence, rng)


def normal(terms: Terms, confidence: float, rng: np.random.Generator) -> tuple[float, float]:
    """value ± z·sd/√n of the linearised rows."""
    rows = terms.linearised()
    half = float(ndtri((1 + confidence) / 2) * rows.std(ddof=1) / np.sqrt(len(rows)))
    return terms.value - half, terms.value + half


def bernstein(terms: Terms, confidence: float, rng: np.random.Generator) -> tuple[float, float]:
    """Empirical Bernstein: value ± (sqrt(2·V·ln(4/α)/n) + 7·span·ln(4/α)/(3(n−1))), for bounded rows."""
    if terms.span is None:
        raise SettingError("interval='bernstein' needs bounded terms: use it with the method `clipped`")
    n, level = len(terms.base), np.log(4 / (1 - confidence))
    variance = float(terms.base.var(ddof=1))
    half = float(np.sqrt(2 * variance * level / n) + 7 * terms.span * level / (3 * (n - 1)))
    return terms.value - half, terms.value + half


def bootstrap(terms: Terms, confidence: float, rng: np.random.Generator) -> tuple[float, float]:
    """Percentiles over resampled rows, or over resampled random blocks of rows where there are many.

    The ratio is formed anew in each resample: its denominator varies too.
    """
    columns = [terms.base]
    if terms.numerator is not None and terms.denominator is not None:
        columns += [terms.numerator, terms.denominator]
    table = np.column_stack(columns)
    n = len(table)
    sizes = np.ones(n)
    if n > BLOCKS:
        block = rng.permutation(n) % BLOCKS
        table = np.column_stack([np.bincount(block, column, BLOCKS) for column in table.T])
        sizes = np.bincount(block, minlength=BLOCKS).astype(float)
    counts = rng.multinomial(len(table), np.full(len(table), 1 / len(table)), size=RESAMPLES)
    sums = counts @ table
    values = sums[:, 0] / (counts @ sizes)
    if sums.shape[1] == 3:
        with np.errstate(invalid="ignore", divide="ignore"):
            values = values + terms.factor * np.where(sums[:, 2] > 0, sums[:, 1] / sums[:, 2], 0.0)
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


INTERVALS = {"normal": normal, "bootstrap": bootstrap, "bernstein": bernstein}
