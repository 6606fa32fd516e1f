"""Intervals of a mean and of a ratio: formulas, agreement between them, coverage."""

import numpy as np
import pytest

from sparing.offline.evaluation.intervals import Terms, limits


def rng():
    return np.random.default_rng(0)


def test_normal_is_the_textbook_interval():
    rows = rng().normal(2, 3, 400)
    low, high = limits(Terms(rows), interval="normal", confidence=0.95, rng=rng())
    half = 1.959963984540054 * rows.std(ddof=1) / 20
    assert (low, high) == pytest.approx((rows.mean() - half, rows.mean() + half))


def test_bernstein_formula():
    rows = rng().random(100)
    low, high = limits(Terms(rows, span=1.0), interval="bernstein", confidence=0.9, rng=rng())
    level = np.log(4 / 0.1)
    half = np.sqrt(2 * rows.var(ddof=1) * level / 100) + 7 * level / (3 * 99)
    assert (low, high) == pytest.approx((rows.mean() - half, rows.mean() + half))


def test_linearised_rows_have_the_ratio_as_their_mean():
    generator = rng()
    base, top, bottom = generator.normal(size=(3, 500))
    terms = Terms(base, top, bottom**2 + 0.1, factor=0.7)
    assert terms.linearised().mean() == pytest.approx(terms.value)


@pytest.mark.parametrize("n", [800, 5000], ids=["rows", "blocks"])
def test_bootstrap_agrees_with_normal(n):
    """Both are right to first order; 1,000 resamples leave about 5 % error in a quantile's distance."""
    generator = rng()
    weights = generator.exponential(size=n)
    terms = Terms(np.zeros(n), weights * generator.normal(1, 1, n), weights)
    normal = np.array(limits(terms, interval="normal", confidence=0.95, rng=rng()))
    bootstrap = np.array(limits(terms, interval="bootstrap", confidence=0.95, rng=rng()))
    assert np.abs(bootstrap - normal).max() < 0.12 * (normal[1] - normal[0])


@pytest.mark.parametrize("interval", ["normal", "bootstrap", "bernstein"])
def test_coverage_of_a_mean(interval):
    generator = rng()
    hits = 0
    for _ in range(300):
        rows = generator.random(300)
        low, high = limits(Terms(rows, span=1.0), interval=interval, confidence=0.9, rng=generator)
        hits += low <= 0.5 <= high
    assert hits >= 300 * 0.9 - 3.3 * np.sqrt(300 * 0.9 * 0.1)
    if interval == "bernstein":
        assert hits == 300  # honest for every n, so wider


def test_one_row_says_nothing():
    assert limits(Terms(np.ones(1)), interval="normal", confidence=0.9, rng=rng()) == (-np.inf, np.inf)
