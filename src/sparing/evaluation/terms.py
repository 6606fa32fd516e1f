"""A statistic as rows: a mean, or a mean plus a ratio of means."""

from dataclasses import dataclass

import numpy as np


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
