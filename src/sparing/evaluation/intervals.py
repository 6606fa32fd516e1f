"""Confidence intervals of statistics of rows: in closed form or by resampling; widened by what the sample did not contain."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparing import interval as intervals
from sparing.errors import SettingError
from sparing.hashing import row_keys
from sparing.log.passes import add_fields

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
        return TermSums.of(self).value

    def linearised(self) -> np.ndarray:
        """Rows whose mean is the statistic and whose deviation is that of the statistic, to first order (n,)."""
        return TermSums.of(self).linearised(self)

    @property
    def variance(self) -> float:
        return float(self.linearised().var(ddof=1))


def _total(values: np.ndarray) -> float:
    return float(values.sum())


@dataclass(frozen=True)
class TermSums:
    """The sums of a statistic's n rows; those of a ratio are None where it has none."""

    n: int
    base: float
    numerator: float | None
    denominator: float | None
    factor: float
    span: float | None

    @classmethod
    def of(cls, terms: Terms, total: Callable[[np.ndarray], float] = _total) -> "TermSums":
        above, below = (
            None if values is None else total(values) for values in (terms.numerator, terms.denominator)
        )
        return cls(terms.n, total(terms.base), above, below, terms.factor, terms.span)

    def __add__(self, other: "TermSums") -> "TermSums":
        return replace(add_fields(self, other), factor=self.factor, span=self.span)

    @property
    def ratio(self) -> float:
        if self.numerator is None or self.denominator is None:
            return 0.0
        below = self.denominator / self.n
        return self.numerator / self.n / below if below > 0 else float("nan")

    @property
    def value(self) -> float:
        return self.base / self.n + self.factor * self.ratio

    def linearised(self, terms: Terms) -> np.ndarray:
        """Some of the rows, so that their deviation from the value is that of the statistic, to first order, (n,)."""
        if terms.numerator is None or terms.denominator is None or self.denominator is None:
            return terms.base
        ratio = self.ratio
        slope = (terms.numerator - ratio * terms.denominator) / (self.denominator / self.n)
        return terms.base + terms.factor * (ratio + slope)


@dataclass(frozen=True)
class TermSummary:
    """All that a statistic's limits need.

    `freedom` are the degrees of freedom that the rows leave to their variance; `column` is the index of its base among the
    resampled sums, before those of numerator and denominator.
    """

    n: int
    value: float
    variance: float
    freedom: float
    factor: float = 1.0
    span: float | None = None
    column: int = 0


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


def limits(
    statistics: Sequence[TermSummary], interval: str, confidence: float, sums: np.ndarray | None
) -> list[tuple[float, float]]:
    """Two-sided limits of statistics of the same rows, by one of `INTERVALS`; `sums` (C, RESAMPLES) are those of resamples.

    All but Bernstein's are scaled as Student's are, by the freedom that the rows leave.
    """
    tail = (1 - confidence) / 2
    if sums is None or statistics[0].n < 2:
        ends = [closed_form(terms, interval, confidence) for terms in statistics]
    else:
        low, high = np.quantile(replicates(statistics, sums), [tail, 1 - tail], axis=1)
        ends = list(zip(low.tolist(), high.tolist(), strict=True))
    if interval == "bernstein" or statistics[0].n < 2:
        return ends
    scaled = []
    for (low, high), terms in zip(ends, statistics, strict=True):
        value = terms.value  # Student's limits are farther out
        factor = intervals.deviations(confidence, terms.freedom) / intervals.deviations(confidence)
        scaled.append((value - factor * max(value - low, 0.0), value + factor * max(high - value, 0.0)))
    return scaled


def replicates(statistics: Sequence[TermSummary], sums: np.ndarray) -> np.ndarray:
    """The statistics in each resample, (statistics, RESAMPLES). A ratio is formed anew in each: its denominator varies too."""
    values = np.empty((len(statistics), RESAMPLES))
    for place, terms in enumerate(statistics):
        base, above, below = sums[terms.column : terms.column + 3]
        ratio = np.divide(above, below, where=below > 0, out=np.zeros(RESAMPLES))
        values[place] = base / np.maximum(sums[-1], 1) + terms.factor * ratio
    return values


def resample_sums(terms: Sequence[Terms], interval: str, seed: int, first_row: int) -> np.ndarray:
    """Of a block's statistics: the sums of base, numerator and denominator in each resample and, last, of the rows taken,
    (3·statistics + 1, RESAMPLES); or those of each block of the block bootstrap, (…, BLOCKS), for `resample_blocks`.

    Draws follow from the seed and the rows' numbers alone.
    """
    n = terms[0].n
    none = np.zeros(n)
    columns = [values for each in terms for values in (each.base, each.numerator, each.denominator)]
    kept, places = distinct_columns([*(none if values is None else values for values in columns), np.ones(n)])
    varying = [place for place, values in enumerate(kept) if values.min() < values.max()]
    if interval == "bootstrap":
        found = _poisson(
            np.array([kept[place] for place in varying]).reshape(len(varying), n),
            np.random.default_rng([seed, 22, first_row]),
        )
    else:
        numbers = row_keys(np.arange(first_row, first_row + n))
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


def resample_blocks(sums: np.ndarray, seed: int) -> np.ndarray:
    """Sums (C, RESAMPLES) over blocks drawn with replacement, of the sums of blocks (C, BLOCKS)."""
    columns, places = distinct_columns(list(sums))
    drawn = np.random.default_rng([seed, 21]).integers(BLOCKS, size=(RESAMPLES, BLOCKS))
    drawn += BLOCKS * np.arange(RESAMPLES)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=RESAMPLES * BLOCKS).reshape(RESAMPLES, BLOCKS)
    # Not a matrix product: BLAS may round differently with another number of threads.
    return np.einsum("bn,cn->cb", counts.astype(np.float64), np.array(columns))[places]


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
    """The rows behind an estimate, as its weights leave them: `effective` is (Σw)²/Σw².

    unseen: the policy's mass that the weights lack beyond chance; below 0 where they have too much. imputed: that mass
    counts with what the rest earns (SNIPS) or with a model (DR), not with 0 (IPS). fit_error, fit_lift: half a width and a
    bias that fitted propensities bring. assumed: the policy's share that counts with a range of mean rewards which is only
    that of the rewards seen, though these are hardly the policy's, and no model stands in.
    """

    effective: float
    unseen: float = 0.0
    imputed: bool = True
    fit_error: float = 0.0
    fit_lift: float = 0.0
    assumed: float = 0.0
    inconsistent: str = ""

    @property
    def refusal(self) -> str:
        """Why there can be no interval; empty where there can."""
        if self.inconsistent:
            return self.inconsistent
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
