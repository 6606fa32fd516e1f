"""Intervals from a mean and its deviation, and the level of every interval that is shown without another one."""

from typing import Any

import numpy as np
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

EARLY = 50
"""Number of observations at which an interval for every look is made to be narrow; it costs later ones little."""

EACH_SIDE = 0.99
"""Share of 1 − level that is used: at it each limit holds at half of 1 − level by itself (`docs/math.md`)."""


def watched_deviations(freedom: Any, observations: Any) -> Any:
    """Return how many deviations lie on each side of an interval that holds at every look at once with probability `LEVEL`.

    It is infinite if no number does.

    A mixture of t-tests over the effects that are likely after `EARLY` observations (Wang and Ramdas 2025); with many degrees
    of freedom it is Robbins' normal mixture.

    Parameters
    ----------
    freedom : array of shape (...,)
        Degrees of freedom of the estimated variance.
    observations : array of shape (...,)
        How many independent observations of one variance the estimate is worth: that variance over the estimate's.
    """
    share = EARLY / (observations + EARLY)
    growth = np.exp(-np.log(share * (EACH_SIDE * (1 - LEVEL)) ** 2) / (freedom + 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        squared = freedom * (growth - 1) / (1 - share * growth)
    return np.sqrt(np.where(share * growth < 1, squared, np.inf))


def interval(mean: Any, deviation: Any, many: Any = NORMAL) -> tuple[Any, Any]:
    """Return the limits mean ± many · deviation; by default those of a normal distribution at `LEVEL`."""
    half = many * deviation
    return mean - half, mean + half
