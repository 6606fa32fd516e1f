"""A statistic as rows, and its confidence interval: in closed form, or by resampling the rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

from sparing.errors import SettingError

INTERVALS = ("normal", "bootstrap", "block-bootstrap", "bernstein")

BLOCKS = 1024
"""Random blocks of rows in the block bootstrap; a sample no larger than this is resampled row by row."""

RESAMPLES = 1000

Recipe = tuple[int | float, int | float, int | float, float]
"""Base, numerator and denominator, each the place of a column or a constant, and the factor of the ratio."""


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
    def n(self) -> int:
        """Rows."""
        return len(self.base)

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

    @property
    def variance(self) -> float:
        """That of the linearised rows."""
        return float(self.linearised().var(ddof=1))

    @property
    def freedom(self) -> float:
        """Degrees of freedom that the rows leave to their variance: (Σe²)²/Σe⁴ − 1, e a row's deviation; 1 or more.

        n − 1 where all deviations are of one size, few where a few rows make up the variance.
        """
        away = self.linearised() - self.value
        largest = float(np.abs(away).max(initial=0))
        if largest == 0:
            return max(float(len(away)) - 1, 1.0)
        squares = np.square(away / largest)
        return max(float(squares.sum() ** 2 / (squares @ squares)) - 1, 1.0)


@dataclass(frozen=True)
class Summed:
    """What is left of the terms of many rows when they are let go: what `Terms` says of itself, and how to resample it.

    columns: the places of base, numerator and denominator among the sums of resamples; None where a term has none.
    """

    n: int
    value: float
    variance: float
    freedom: float
    factor: float
    span: float | None
    columns: tuple[int, int | None, int | None]


def closed_form(terms: Terms | Summed, interval: str, confidence: float) -> tuple[float, float]:
    """value ± half: `normal`, half = z·sd/√n of the linearised rows; or `bernstein`, for bounded rows.

    Empirical Bernstein: half = sqrt(2·V·ln(4/α)/n) + 7·span·ln(4/α)/(3(n−1)).
    """
    n = terms.n
    if n < 2:
        return -np.inf, np.inf
    if interval == "normal":
        half = float(ndtri((1 + confidence) / 2) * np.sqrt(terms.variance) / np.sqrt(n))
    elif terms.span is None:
        raise SettingError("interval='bernstein' needs bounded terms: use it with the method `clipped`")
    else:
        level, variance = np.log(4 / (1 - confidence)), terms.variance
        half = float(np.sqrt(2 * variance * level / n) + 7 * terms.span * level / (3 * (n - 1)))
    return terms.value - half, terms.value + half


def stretch(terms: Terms | Summed, confidence: float) -> float:
    """How many times farther out Student's limits are than the normal's, by the freedom of the terms."""
    tail = (1 + confidence) / 2
    return float(stdtrit(terms.freedom, tail) / ndtri(tail))


def stretched(low: float, high: float, value: float, factor: float) -> tuple[float, float]:
    """Limits at so many times their distance from the value, which they hold."""
    return value - factor * max(value - low, 0.0), value + factor * max(high - value, 0.0)


class Limits:
    """Two-sided limits of several statistics of the same n rows, by one of `INTERVALS`.

    All but Bernstein's are stretched as Student's are, by the freedom that the rows leave.

    Statistics are added one by one and what is not needed of them let go; a bootstrap then resamples the rows
    once for all of them. The block bootstrap cuts more than `BLOCKS` rows into random blocks, which are
    resampled whole; only the blocks' sums are kept.
    """

    def __init__(self, interval: str, confidence: float, rng: np.random.Generator) -> None:
        self.interval, self.confidence, self._rng = interval, confidence, rng
        self._found: list[tuple[float, float]] = []
        self._block_of_row: np.ndarray | None = None
        self._columns: list[np.ndarray] = []
        self._recipes: list[Recipe] = []
        self._stretches: list[tuple[float, float]] = []
        self._n = 0

    def add(self, terms: Terms | Summed) -> int:
        """Take a statistic; returns its place in what is found."""
        self._n = terms.n
        if self._n < 2 or "bootstrap" not in self.interval:
            low, high = closed_form(terms, self.interval, self.confidence)
            sure = self.interval == "bernstein" or self._n < 2
            factor = 1.0 if sure else stretch(terms, self.confidence)
            self._found.append(stretched(low, high, terms.value, factor))
            return len(self._found) - 1
        self._stretches.append((terms.value, stretch(terms, self.confidence)))
        self._recipes.append(self._recipe(terms))
        return len(self._recipes) - 1

    def _recipe(self, terms: Any) -> Recipe:
        above: int | float = 0.0
        below: int | float = 1.0
        if terms.numerator is not None and terms.denominator is not None:
            above, below = self._column(terms.numerator), self._column(terms.denominator)
        return self._column(terms.base), above, below, terms.factor

    def found(self) -> list[tuple[float, float]]:
        """The limits, in the order in which the statistics were added."""
        if self._found:
            return self._found
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(self.replicates(), [tail, 1 - tail], axis=1)
        ends = zip(low.tolist(), high.tolist(), self._stretches, strict=True)
        return [stretched(lower, upper, *how) for lower, upper, how in ends]

    def replicates(self) -> np.ndarray:
        """The statistics in each resample, (statistics, RESAMPLES).

        A ratio is formed anew in each: its denominator varies too.
        """
        sums, taken = self._sums()

        def total(column: int | float) -> np.ndarray:
            return sums[column] if isinstance(column, int) else column * taken

        values = np.empty((len(self._recipes), RESAMPLES))
        for place, (base, above, below, factor) in enumerate(self._recipes):
            parts = total(below)
            ratio = np.divide(total(above), parts, where=parts > 0, out=np.zeros(RESAMPLES))
            values[place] = total(base) / taken + factor * ratio
        return values

    def _column(self, values: np.ndarray) -> int | float:
        """The number of this column among those kept, or, where it is constant, its value as a float."""
        if values[0] == values[-1] and (values == values[0]).all():
            return float(values[0])
        if self.interval == "block-bootstrap" and self._n > BLOCKS:
            if self._block_of_row is None:
                self._block_of_row = self._rng.integers(BLOCKS, size=self._n)
            values = np.bincount(self._block_of_row, values, BLOCKS)
        for number, kept in enumerate(self._columns):
            if kept is values or (kept[0] == values[0] and np.array_equal(kept, values)):
                return number
        self._columns.append(values)
        return len(self._columns) - 1

    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Σ count·column (columns, RESAMPLES) and Σ count (RESAMPLES,) over the rows."""
        if not self._columns:
            return np.empty((0, RESAMPLES)), np.ones(RESAMPLES)
        if self.interval == "bootstrap" and self._n > BLOCKS:
            return poisson(np.array(self._columns), self._rng)
        sizes = np.ones(self._n)
        if self._block_of_row is not None:
            sizes = np.bincount(self._block_of_row, minlength=BLOCKS).astype(float)
        return resampled(np.array([*self._columns, sizes]), self._rng)


def resampled(columns: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Sums over units drawn with replacement, of columns (C, units), and of the last of them, which are the units' rows."""
    counts = _with_replacement(columns.shape[1], rng)
    # Not a matrix product: BLAS may round differently with another number of threads.
    sums = np.einsum("bn,cn->cb", counts, columns)
    return sums[:-1], sums[-1]


def _with_replacement(units: int, rng: np.random.Generator) -> np.ndarray:
    """How often each resample takes each unit, (RESAMPLES, units)."""
    drawn = rng.integers(units, size=(RESAMPLES, units)) + units * np.arange(RESAMPLES)[:, None]
    return np.bincount(drawn.ravel(), minlength=RESAMPLES * units).reshape(RESAMPLES, units)


def poisson(columns: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Every replicate takes every row Poisson(1) times, columns (C, n)."""
    from sparing.evaluation import resampling_kernels as kernels

    tiles = -(-RESAMPLES // kernels.TILE)
    states = rng.integers(2**64, size=(2, tiles, kernels.LANES), dtype=np.uint64)
    sums = kernels.replicate_sums(columns, states)
    joined = sums.transpose(1, 0, 2).reshape(len(columns) + 1, -1)[:, :RESAMPLES]
    return joined[:-1], joined[-1]
