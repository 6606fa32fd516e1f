"""Confidence intervals of a mean, and of a mean plus a ratio of means."""

import numpy as np
from scipy.special import ndtri

from sparing.errors import SettingError
from sparing.evaluation.resampling import RESAMPLES as RESAMPLES
from sparing.evaluation.resampling import Resampling
from sparing.evaluation.terms import Terms

INTERVALS = ("normal", "bootstrap", "block-bootstrap", "bernstein")


class Limits:
    """Two-sided limits of several statistics of the same rows, by one of `INTERVALS`.

    Statistics are added one by one and what is not needed of them let go; a bootstrap then resamples once for
    all of them.
    """

    def __init__(self, interval: str, confidence: float, rng: np.random.Generator) -> None:
        self._interval, self._confidence = interval, confidence
        self._resampling = None
        if interval in ("bootstrap", "block-bootstrap"):
            self._resampling = Resampling(rng, blocks=interval == "block-bootstrap")
        self._found: list[tuple[float, float] | None] = []

    def add(self, terms: Terms) -> int:
        """Take a statistic; returns its place in what is found."""
        pair: tuple[float, float] | None = None
        if len(terms.base) < 2:
            pair = float("-inf"), float("inf")
        elif self._resampling is None:
            pair = CLOSED_FORMS[self._interval](terms, self._confidence)
        else:
            self._resampling.add(terms)
        self._found.append(pair)
        return len(self._found) - 1

    def found(self) -> list[tuple[float, float]]:
        """The limits, in the order in which the statistics were added."""
        if self._resampling is None or None not in self._found:
            return [pair for pair in self._found if pair is not None]
        tail = (1 - self._confidence) / 2
        low, high = np.quantile(self._resampling.replicates(), [tail, 1 - tail], axis=1)
        return list(zip(low.tolist(), high.tolist(), strict=True))


def limits(
    terms: Terms, *, interval: str, confidence: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Two-sided limits of one statistic."""
    both = Limits(interval, confidence, rng)
    both.add(terms)
    return both.found()[0]


def normal(terms: Terms, confidence: float) -> tuple[float, float]:
    """value ± z·sd/√n of the linearised rows."""
    rows, value = terms.linearised(), terms.value
    half = float(ndtri((1 + confidence) / 2) * rows.std(ddof=1) / np.sqrt(len(rows)))
    return value - half, value + half


def bernstein(terms: Terms, confidence: float) -> tuple[float, float]:
    """Empirical Bernstein: value ± (sqrt(2·V·ln(4/α)/n) + 7·span·ln(4/α)/(3(n−1))), for bounded rows."""
    if terms.span is None:
        raise SettingError("interval='bernstein' needs bounded terms: use it with the method `clipped`")
    n, level = len(terms.base), np.log(4 / (1 - confidence))
    variance = float(terms.base.var(ddof=1))
    half = float(np.sqrt(2 * variance * level / n) + 7 * terms.span * level / (3 * (n - 1)))
    return terms.value - half, terms.value + half


CLOSED_FORMS = {"normal": normal, "bernstein": bernstein}
