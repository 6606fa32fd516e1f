"""Confidence intervals of statistics of rows: in closed form or by resampling; widened by what the sample did not contain."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparing import interval as intervals
from sparing.errors import SettingError
from sparing.hashing import row_keys

INTERVALS = ("normal", "bootstrap", "block-bootstrap", "bernstein")

BLOCKS = 1024
"""Random blocks of rows in the block bootstrap."""

RESAMPLES = 1000

MIN_ROWS = 10
"""With fewer effective rows there is no interval: it is infinite, or the range of the mean rewards where that is known."""

FEW_ROWS = 30
"""An estimate of fewer effective rows is marked."""

EXPECTED, EXPECTED_OF_FEW = 2.0, 1.0
"""Weights are expected to miss their known mean by as many standard errors as this; by fewer where there are few rows and no
model imputes what they miss: the standard error of few weights ignores the large ones that did not occur."""

MOST_ASSUMED = 0.5
"""The share of a policy that may count with a range which was assumed from the rewards of another policy."""

FLAT = 1e-9
"""Limits closer than this share of the reward range mean that nothing varied."""


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
        return len(self.base)

    @property
    def value(self) -> float:
        return float(self.base.mean() + self.factor * self.ratio)

    @property
    def ratio(self) -> float:
        if self.numerator is None or self.denominator is None:
            return 0.0
        total = self.denominator.sum()
        return float(self.numerator.sum() / total) if total > 0 else float("nan")

    def linearised(self) -> np.ndarray:
        """Rows whose mean is the statistic and whose deviation is that of the statistic, to first order (n,)."""
        if self.numerator is None or self.denominator is None:
            return self.base
        ratio = self.ratio
        slope = (self.numerator - ratio * self.denominator) / self.denominator.mean()
        return self.base + self.factor * (ratio + slope)

    @property
    def variance(self) -> float:
        return float(self.linearised().var(ddof=1))


@dataclass(frozen=True)
class TermSummary:
    """The sums of a statistic's rows: all that its limits need.

    `freedom` are the degrees of freedom that the rows leave to their variance. `columns` are the indices of base, numerator
    and denominator among the resampled sums; None where a term has none.
    """

    n: int
    value: float
    variance: float
    freedom: float
    factor: float = 1.0
    span: float | None = None
    columns: tuple[int, int | None, int | None] = (0, None, None)


def closed_form(terms: Terms | TermSummary, interval: str, confidence: float) -> tuple[float, float]:
    """value ± half: `normal`, half = z·sd/√n of the linearised rows; or `bernstein`, for bounded rows.

    Empirical Bernstein: half = sqrt(2·V·ln(4/α)/n) + 7·span·ln(4/α)/(3(n−1)).
    """
    n = terms.n
    if n < 2:
        return -np.inf, np.inf
    if interval == "normal":
        error = float(np.sqrt(terms.variance) / np.sqrt(n))
        return intervals.interval(terms.value, error, intervals.deviations(confidence))
    if terms.span is None:
        raise SettingError("interval='bernstein' needs bounded terms: use it with the method `clipped`")
    level, variance = np.log(4 / (1 - confidence)), terms.variance
    half = float(np.sqrt(2 * variance * level / n) + 7 * terms.span * level / (3 * (n - 1)))
    return terms.value - half, terms.value + half


def student_factor(freedom: float, confidence: float) -> float:
    """How many times farther out Student's limits are than the normal's."""
    return float(intervals.deviations(confidence, freedom) / intervals.deviations(confidence))


def scale_limits(low: float, high: float, value: float, factor: float) -> tuple[float, float]:
    """Limits at so many times their distance from the value, which they contain."""
    return value - factor * max(value - low, 0.0), value + factor * max(high - value, 0.0)


class Limits:
    """Two-sided limits of statistics of the same n rows, by one of `INTERVALS`.

    All but Bernstein's are scaled as Student's are, by the freedom that the rows leave. `sums` (C + 1, RESAMPLES) are those of
    every column in each resample and, last, of the rows taken; or those of the blocks of the block bootstrap, (C + 1, BLOCKS).
    """

    def __init__(self, interval: str, confidence: float, sums: np.ndarray, seed: int = 0) -> None:
        self.interval, self.confidence = interval, confidence
        self._sums, self._seed = sums, seed
        self._added: list[TermSummary] = []

    def add(self, terms: TermSummary) -> int:
        """Take a statistic; returns the index of its limits."""
        if self.interval == "bernstein":
            closed_form(terms, self.interval, self.confidence)  # refuses terms that are not bounded
        self._added.append(terms)
        return len(self._added) - 1

    def limits(self) -> list[tuple[float, float]]:
        tail = (1 - self.confidence) / 2
        if not self._added or "bootstrap" not in self.interval or self._added[0].n < 2:
            ends = [closed_form(terms, self.interval, self.confidence) for terms in self._added]
        else:
            low, high = np.quantile(self.replicates(), [tail, 1 - tail], axis=1)
            ends = list(zip(low.tolist(), high.tolist(), strict=True))
        if self.interval == "bernstein" or not ends or self._added[0].n < 2:
            return ends
        return [
            scale_limits(*each, terms.value, student_factor(terms.freedom, self.confidence))
            for each, terms in zip(ends, self._added, strict=True)
        ]

    def replicates(self) -> np.ndarray:
        """The statistics in each resample, (statistics, RESAMPLES). A ratio is formed anew in each: its denominator varies too."""
        sums = self._sums
        if self.interval == "block-bootstrap":
            columns, places = distinct_columns(list(sums))
            sums = _resampled(np.array(columns), np.random.default_rng([self._seed, 21]))[places]
        taken = np.maximum(sums[-1], 1)
        values = np.empty((len(self._added), RESAMPLES))
        for place, terms in enumerate(self._added):
            base, above, below = terms.columns
            values[place] = sums[base] / taken
            if above is not None and below is not None:
                ratio = np.divide(sums[above], sums[below], where=sums[below] > 0, out=np.zeros(RESAMPLES))
                values[place] += terms.factor * ratio
        return values


def resample_sums(columns: Sequence[np.ndarray], interval: str, seed: int, first_row: int) -> np.ndarray:
    """Of a block's columns (n,): their sums in each resample and the rows taken, (C + 1, RESAMPLES); or those of each
    block of the block bootstrap, (C + 1, BLOCKS). Draws follow from the seed and the rows' numbers alone.
    """
    kept, places = distinct_columns([*columns, np.ones(len(columns[0]))])
    varying = [place for place, values in enumerate(kept) if values.min() < values.max()]
    if interval == "bootstrap":
        found = _poisson(
            np.array([kept[place] for place in varying]).reshape(len(varying), len(columns[0])),
            np.random.default_rng([seed, 22, first_row]),
        )
    else:
        numbers = row_keys(np.arange(first_row, first_row + len(columns[0])))
        block_of_row = row_keys(numbers ^ row_keys(np.array([seed]))) % np.uint64(BLOCKS)
        block_of_row = block_of_row.astype(np.int64)
        counts = np.bincount(block_of_row, minlength=BLOCKS)
        found = np.array([*(np.bincount(block_of_row, kept[place], BLOCKS) for place in varying), counts])
    sums = np.outer([values[0] for values in kept], found[-1])
    sums[varying] = found[:-1]
    return sums[places]


def _poisson(columns: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Every replicate takes every row Poisson(1) times."""
    from sparing.evaluation import resampling_kernels as kernels  # Numba: closed-form intervals do without

    tiles = -(-RESAMPLES // kernels.TILE)
    states = rng.integers(2**64, size=(2, tiles, kernels.LANES), dtype=np.uint64)
    sums = kernels.replicate_sums(columns, states)
    return sums.transpose(1, 0, 2).reshape(len(columns) + 1, -1)[:, :RESAMPLES]


def _resampled(columns: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sums (C, RESAMPLES) over blocks drawn with replacement, of columns (C, BLOCKS)."""
    drawn = rng.integers(BLOCKS, size=(RESAMPLES, BLOCKS)) + BLOCKS * np.arange(RESAMPLES)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=RESAMPLES * BLOCKS).reshape(RESAMPLES, BLOCKS)
    # Not a matrix product: BLAS may round differently with another number of threads.
    return np.einsum("bn,cn->cb", counts.astype(np.float64), columns)


def distinct_columns(columns: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[int]]:
    """The columns that differ, and the index of each column among them."""
    kept: list[np.ndarray] = []
    places: list[int] = []
    for values in columns:
        for place, known in enumerate(kept):
            if known is values or (known[0] == values[0] and np.array_equal(known, values)):
                places.append(place)
                break
        else:
            places.append(len(kept))
            kept.append(values)
    return kept, places


@dataclass(frozen=True)
class EffectiveSample:
    """The rows behind an estimate, as its weights leave them.

    Attributes
    ----------
    effective : float
        (Σw)²/Σw².
    unseen : float
        The mass of the policy that the weights lack beyond chance; below 0 where they have too much.
    imputed : bool
        Whether that mass counts with what the rest earns (SNIPS) or with a model (DR), not with 0 (IPS).
    fit_error, fit_lift : float
        Half a width and a bias that fitted propensities bring.
    assumed : float
        The share of the policy that counts with a range of mean rewards which is only that of the rewards seen, though these
        are hardly the policy's, and no model stands in.
    """

    effective: float
    unseen: float = 0.0
    imputed: bool = True
    fit_error: float = 0.0
    fit_lift: float = 0.0
    assumed: float = 0.0

    @property
    def refusal(self) -> str:
        """Why there can be no interval; empty where there can."""
        if not self.effective:
            return "the policy never plays what was logged, so the log has no data on what it earns"
        if self.effective < MIN_ROWS:
            return f"fewer than {MIN_ROWS} effective rows, too few to estimate the error of the value"
        if self.assumed > MOST_ASSUMED:
            return (
                f"{self.assumed:.0%} of the policy would count with the range of the rewards seen, which are not the policy's. Give the "
                "range of mean rewards (reward_range)"
            )
        return ""


@dataclass(frozen=True)
class WeightDeficit:
    """Mean over the rows of the weight deficit 1 − u_i − w_i, whose expectation is 0, and its standard error."""

    mean: float
    error: float

    def beyond_chance(self, expected: float = EXPECTED) -> float:
        """The mean where it is more than so many standard errors from 0, else 0.

        Where weights have a heavy tail, the largest are seldom in the log: the mean is then well above 0, far beyond a standard
        error that ignores them too.
        """
        return self.mean if abs(self.mean) > expected * self.error else 0.0


def widened(
    low: float,
    high: float,
    value: float,
    *,
    sample: EffectiveSample,
    reward_range: tuple[float, float],
    confidence: float,
) -> tuple[float, float]:
    """Limits that count what the sample did not contain; infinite where they are refused.

    Where nothing varied, m effective rows may have missed an event with a chance of 1 − (α/2)^(1/m), about 3.7/m at
    95 %: the rule of three, for both sides.
    """
    if sample.refusal:
        return -np.inf, np.inf
    (least, most), gone = reward_range, abs(sample.unseen)
    below, above = max(value - least, 0.0), max(most - value, 0.0)
    if high - low <= FLAT * (most - least):
        rare = 1 - ((1 - confidence) / 2) ** (1 / sample.effective)
        low, high = low - rare * below, high + rare * above
    if sample.fit_error or sample.fit_lift:
        low = value - np.hypot(value - low, sample.fit_error) - abs(sample.fit_lift)
        high = value + np.hypot(high - value, sample.fit_error) + abs(sample.fit_lift)
    if not sample.imputed:
        below, above = max(-least, 0.0), max(most, 0.0)
        if sample.unseen < 0:
            below, above = above, below
    return low - gone * below, high + gone * above
