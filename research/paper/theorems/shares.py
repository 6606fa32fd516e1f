"""A share of runs with its exact 95 % interval."""

from scipy import stats

from research.paper.intervals import LEVEL, Interval


def share(hits: int, runs: int) -> Interval:
    """hits/runs with the interval of Clopper and Pearson."""
    limits = stats.binomtest(hits, runs).proportion_ci(LEVEL)
    return Interval(hits / runs, float(limits.low), float(limits.high))
