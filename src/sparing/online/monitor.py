"""Watches whether live rewards are noisier than the model believes, and widens it if so."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

LIMIT = 3.09
"""Normal quantile (99.9 %) beyond which the surprise is not chance."""


@dataclass
class NoiseMonitor:
    """Mean of (r − m)²/(σ² + s²) over reward calls; 1 where the model is right.

    `noise` is σ as the learner started with; `misfit` is counted in s.
    """

    noise: float
    misfit: float = 0.0
    calls: int = 0
    total: float = 0.0

    def observe(self, reward: float, mean: float, width: float) -> None:
        """Take in one call: the prediction before its reward was learnt."""
        variance = self.noise * self.noise * (1 + width * width) + self.misfit * self.misfit
        self.calls += 1
        self.total += (reward - mean) * (reward - mean) / variance

    @property
    def surprise(self) -> float:
        """The mean square of standardised errors."""
        return self.total / self.calls if self.calls else 1.0

    @property
    def inflation(self) -> float:
        """The factor for σ: 1 unless the surprise exceeds 1 significantly (χ², Wilson–Hilferty)."""
        if not self.calls:
            return 1.0
        spread = 2 / (9 * self.calls)
        root = 1 - spread + LIMIT * sqrt(spread)
        limit = root * root * root
        return sqrt(self.surprise) if self.surprise > limit else 1.0

    def numbers(self) -> np.ndarray:
        """The monitor as compiled code takes it."""
        return np.array([self.calls, self.total, self.noise, self.misfit, LIMIT])

    def take(self, numbers: np.ndarray) -> None:
        """What compiled code has seen since."""
        self.calls, self.total = int(numbers[0]), float(numbers[1])
