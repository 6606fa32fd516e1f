"""Intervals from a mean and its deviation, and the level of every interval that is shown without another one."""

from typing import Any

from scipy.special import ndtri, stdtrit

LEVEL = 0.95
"""Share of the cases in which an interval contains what it estimates."""


def deviations(level: float = LEVEL, freedom: Any = None) -> Any:
    """Return how many deviations lie on each side of an interval of a level.

    Of a normal distribution, or of Student's with `freedom` degrees of freedom, (...,).
    """
    tail = (1 + level) / 2
    return float(ndtri(tail)) if freedom is None else stdtrit(freedom, tail)


NORMAL = deviations()


def interval(mean: Any, deviation: Any, many: Any = NORMAL) -> tuple[Any, Any]:
    """Return the limits mean ± many · deviation; by default those of a normal distribution at `LEVEL`."""
    half = many * deviation
    return mean - half, mean + half
