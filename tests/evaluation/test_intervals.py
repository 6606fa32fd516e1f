"""Intervals of a mean and of a ratio: formulas, agreement between them, coverage."""

import numpy as np
import pytest
from scipy import stats

from sparing.evaluation import intervals as module
from sparing.evaluation import resampling_kernels as kernels
from sparing.evaluation.intervals import (
    BLOCKS,
    INTERVALS,
    RESAMPLES,
    Terms,
    TermSummary,
    resample_blocks,
    resample_sums,
)
from sparing.log.sketches import PowerSums

BOOTSTRAPS = ["bootstrap", "block-bootstrap"]
SPREAD = 4 * np.sqrt(1 / (2 * RESAMPLES))
"""Four relative standard errors of a standard deviation from the resamples."""

BLOCK_SPREAD = SPREAD + 4 * np.sqrt(1 / (2 * BLOCKS))
"""The same, with the error of a standard deviation from the blocks."""


def rng(seed=0):
    return np.random.default_rng(seed)


def resampled(*terms, interval, seed=0):
    """Summaries of statistics of the same rows, in one block, and their resampled sums."""
    sums = None
    if "bootstrap" in interval:
        sums = resample_sums(terms, interval, seed, 0)
        sums = resample_blocks(sums, seed) if interval == "block-bootstrap" else sums
    summaries = []
    for place, one in enumerate(terms):
        powers = PowerSums.of(one.linearised() - one.value)
        summary = TermSummary(
            one.n, one.value, powers.variance, powers.freedom, one.factor, one.span, 3 * place
        )
        summaries.append(summary)
    return summaries, sums


def limits_of(*terms, interval, confidence=0.95, seed=0):
    summaries, sums = resampled(*terms, interval=interval, seed=seed)
    return module.limits(summaries, interval, confidence, sums)


def limits(terms, **options):
    """The limits of one statistic."""
    return limits_of(terms, **options)[0]


def replicates(*terms, blocks=False, seed=0):
    return module.replicates(*resampled(*terms, interval=BOOTSTRAPS[blocks], seed=seed))


def ratio_terms(n, seed=0):
    generator = rng(seed)
    weights = generator.exponential(size=n)
    return Terms(generator.normal(size=n), weights * generator.normal(1, 1, n), weights, factor=0.6)


def test_normal_is_the_textbook_interval():
    rows = rng().normal(2, 3, 400)
    low, high = limits(Terms(rows), interval="normal", confidence=0.95)
    squares = (rows - rows.mean()) ** 2
    freedom = squares.sum() ** 2 / (squares**2).sum() - 1  # about n/3: the fourth moment of a normal is 3
    half = stats.t.ppf(0.975, freedom) * rows.std(ddof=1) / 20
    assert (low, high) == pytest.approx((rows.mean() - half, rows.mean() + half))
    assert half == pytest.approx(1.96 * rows.std(ddof=1) / 20, rel=0.02)


def test_freedom_is_that_of_the_rows_that_vary():
    even = np.tile([1.0, -1.0], 50)
    assert PowerSums.of(even).freedom == pytest.approx(99)
    assert PowerSums.of(np.append(np.zeros(9999), 1.0)).freedom == 1
    assert PowerSums.of(np.zeros(30)).freedom == 29
    assert PowerSums.of(1e200 * even).freedom == pytest.approx(99)


def test_student_is_wide_where_few_rows_vary():
    """One success in a hundred: the normal's upper limit is 0.03, Clopper and Pearson's 0.054."""
    rows = np.append(np.zeros(99), 1.0)
    low, high = limits(Terms(rows), interval="normal", confidence=0.95)
    assert high > 0.054
    assert low < 0.01 / 40


def test_bernstein_formula():
    rows = rng().random(100)
    low, high = limits(Terms(rows, span=1.0), interval="bernstein", confidence=0.9)
    level = np.log(4 / 0.1)
    half = np.sqrt(2 * rows.var(ddof=1) * level / 100) + 7 * level / (3 * 99)
    assert (low, high) == pytest.approx((rows.mean() - half, rows.mean() + half))


def test_linearised_rows_have_the_ratio_as_their_mean():
    generator = rng()
    base, top, bottom = generator.normal(size=(3, 500))
    terms = Terms(base, top, bottom**2 + 0.1, factor=0.7)
    assert terms.linearised().mean() == pytest.approx(terms.value)


def test_the_counts_have_the_mean_and_the_variance_of_poisson():
    """All 2¹⁶ draws together: mean 1 and variance 1 exactly, each chance that of Poisson(1) to 2⁻¹² of all."""
    chances = np.array(kernels.CHANCES)
    times = np.arange(len(chances))
    assert chances.sum() == times @ chances == 2**16
    assert times**2 @ chances == 2 * 2**16
    assert times**3 @ chances == pytest.approx(5 * 2**16, rel=1e-4)
    poisson = np.exp(-1) / np.cumprod([1, *times[1:]])
    np.testing.assert_allclose(chances / 2**16, poisson, atol=2.0**-11)


def test_drawn_counts_follow_their_chances():
    """Counts of single rows: multinomial cells within 5 standard errors, rows and replicates uncorrelated."""
    columns = np.eye(64)
    states = rng().integers(2**64, size=(2, 8, kernels.LANES), dtype=np.uint64)
    sums = kernels.replicate_sums(columns, states)
    counts = sums[:, :-1].transpose(1, 0, 2).reshape(64, -1)
    np.testing.assert_array_equal(sums[:, -1].reshape(-1), counts.sum(axis=0))
    draws = counts.size
    for times, chance in enumerate(kernels.CHANCES[:6]):
        expected = chance / 2**16
        error = np.sqrt(expected * (1 - expected) / draws)
        assert abs((counts == times).mean() - expected) < 5 * error
    between = np.corrcoef(counts)[np.triu_indices(64, 1)]
    assert np.abs(between).max() < 5.5 / np.sqrt(counts.shape[1])
    across = np.corrcoef(counts.T[:256])[np.triu_indices(256, 1)]
    assert np.abs(across).max() < 6.5 / np.sqrt(64)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 1023, 1024, 1025, 1030])
def test_every_row_is_summed_once_for_each_time_it_is_taken(n):
    """Columns 1 and i: the second moments of both follow from the same counts."""
    columns = np.array([np.ones(n), np.arange(n), 2.0 * np.arange(n) + 3])
    states = rng(n).integers(2**64, size=(2, 2, kernels.LANES), dtype=np.uint64)
    sums = kernels.replicate_sums(columns, states).transpose(1, 0, 2).reshape(4, -1)
    np.testing.assert_array_equal(sums[0], sums[3])
    np.testing.assert_array_equal(sums[2], 2 * sums[1] + 3 * sums[3])
    error = np.sqrt(n / sums.shape[1])
    assert abs(sums[3].mean() - n) < 5 * error


@pytest.mark.parametrize("n", [800, 20_000])
@pytest.mark.parametrize("blocks", [False, True])
def test_replicates_of_a_mean_vary_as_normal_theory_says(n, blocks):
    rows = rng(3).exponential(size=n)
    values = replicates(Terms(rows), blocks=blocks)[0]
    theory = rows.std() / np.sqrt(n)
    assert values.std() == pytest.approx(theory, rel=BLOCK_SPREAD if blocks else SPREAD)
    assert values.mean() == pytest.approx(rows.mean(), abs=4 * theory / np.sqrt(RESAMPLES))


@pytest.mark.parametrize("n", [800, 20_000])
@pytest.mark.parametrize("blocks", [False, True])
def test_replicates_of_a_ratio_vary_as_the_delta_method_says(n, blocks):
    """Numerator and denominator go together: held fixed, the denominator would leave more variance."""
    terms = ratio_terms(n)
    values = replicates(terms, blocks=blocks)[0]
    theory = terms.linearised().std() / np.sqrt(n)
    assert values.std() == pytest.approx(theory, rel=BLOCK_SPREAD if blocks else SPREAD)
    assert values.mean() == pytest.approx(terms.value, abs=5 * theory / np.sqrt(RESAMPLES))
    fixed = terms.base + terms.factor * terms.numerator / terms.denominator.mean()
    assert values.std() < 0.95 * fixed.std() / np.sqrt(n)


def test_a_ratio_of_equal_columns_does_not_vary():
    weights = rng().exponential(size=3000)
    for blocks in (False, True):
        np.testing.assert_allclose(replicates(Terms(np.zeros(3000), 3 * weights, weights), blocks=blocks), 3)


def test_blocks_of_ordered_rows_still_tell_the_variance():
    """Rows sorted by value: blocks of neighbours, or of every 1,024th row, would be far off."""
    rows = np.sort(rng(5).normal(size=30_000))
    values = replicates(Terms(rows), blocks=True)[0]
    assert values.std() == pytest.approx(rows.std() / np.sqrt(30_000), rel=BLOCK_SPREAD)


@pytest.mark.parametrize("n", [800, 5000])
@pytest.mark.parametrize("interval", BOOTSTRAPS)
def test_bootstrap_agrees_with_normal(n, interval):
    """Both are right to first order; 1,000 resamples leave about 5 % error in a quantile's distance."""
    terms = ratio_terms(n)
    normal = np.array(limits(terms, interval="normal", confidence=0.95))
    bootstrap = np.array(limits(terms, interval=interval, confidence=0.95))
    assert np.abs(bootstrap - normal).max() < 0.12 * (normal[1] - normal[0])


@pytest.mark.parametrize(("interval", "rows"), [*((name, 300) for name in INTERVALS), ("bootstrap", 1100)])
def test_coverage_of_a_mean(interval, rows):
    generator = rng()
    hits = 0
    for seed in range(300):
        terms = Terms(generator.random(rows), span=1.0)
        low, high = limits(terms, interval=interval, confidence=0.9, seed=seed)
        hits += low <= 0.5 <= high
    error = np.sqrt(300 * 0.9 * 0.1)
    assert hits >= 300 * 0.9 - 3.3 * error
    if interval == "bernstein":
        assert hits == 300  # honest for every n, so wider
    else:
        assert hits <= 300 * 0.9 + 3.3 * error


def test_coverage_of_a_ratio_by_blocks():
    generator = rng(8)
    hits = 0
    for seed in range(100):
        weights = generator.exponential(size=1500)
        terms = Terms(np.zeros(1500), weights * generator.normal(1, 1, 1500), weights)
        low, high = limits(terms, interval="block-bootstrap", confidence=0.9, seed=seed)
        hits += low <= 1 <= high
    assert abs(hits - 90) <= 3.3 * np.sqrt(100 * 0.9 * 0.1)


@pytest.mark.parametrize("n", [500, 4000])
@pytest.mark.parametrize("interval", BOOTSTRAPS)
def test_the_seed_fixes_the_limits(n, interval):
    terms = ratio_terms(n)
    first, again, other = (limits(terms, interval=interval, confidence=0.9, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("n", [500, 4000])
@pytest.mark.parametrize("interval", BOOTSTRAPS)
def test_a_statistic_has_the_same_limits_alone_and_among_others(n, interval):
    many = [ratio_terms(n), Terms(rng(1).normal(size=n)), Terms(np.zeros(n), *rng(2).random((2, n)))]
    found = limits_of(*many, many[0], interval=interval, confidence=0.9)
    assert found[0] == found[3]
    for limit, terms in zip(found, many, strict=False):
        assert limit == limits(terms, interval=interval, confidence=0.9)


def test_equal_and_constant_columns_are_summed_once(monkeypatch):
    n = 3000
    seen = []
    poisson = module._poisson

    def spy(columns, generator):
        seen.append(columns.shape)
        return poisson(columns, generator)

    monkeypatch.setattr(module, "_poisson", spy)
    rows, weights = rng().random((2, n))
    bases = (rows, rows.copy(), np.full(n, 2.5))
    terms = [Terms(base, rows * 1.0, weights) for base in bases]
    found = limits_of(*terms, interval="bootstrap", confidence=0.9)
    assert seen == [(2, n)]
    assert found[0] == found[1]
    ratio = limits(Terms(np.zeros(n), rows, weights), interval="bootstrap", confidence=0.9)
    assert found[2] == pytest.approx((ratio[0] + 2.5, ratio[1] + 2.5))


@pytest.mark.parametrize("n", [50, 3000])
@pytest.mark.parametrize("interval", BOOTSTRAPS)
def test_a_constant_has_no_width(n, interval):
    assert limits(Terms(np.full(n, 0.3)), interval=interval, confidence=0.9) == pytest.approx((0.3, 0.3))


@pytest.mark.parametrize("interval", INTERVALS)
def test_one_row_says_nothing(interval):
    assert limits(Terms(np.ones(1)), interval=interval, confidence=0.9) == (-np.inf, np.inf)
