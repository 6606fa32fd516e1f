"""Stratified worlds: of many drawn from the posterior, one per stratum of the regret of the offline policy."""

from dataclasses import dataclass

import numpy as np

from sparing.errors import SettingError
from sparing.planning.worlds import CONTEXTS, Worlds

# Worlds drawn per stratum; with many actions or features fewer, but 8 can be halved 3 times.
DRAWN, FEWEST = 50, 8
MOST = 20_000  # worlds drawn in all, unless there are as many strata
WORK = 5e9  # products in all: a second or two
# The highest stratum is halved, its higher half again, and so on: few worlds may have all that calls can gain.
HALVINGS = 3
SLACK = 1e-9  # against rounding just below or above an integer


@dataclass(frozen=True, eq=False)
class Strata:
    """The simulated worlds, by increasing regret of the offline policy, and their weights.

    `numbers` (n,) are their indices among those drawn, `sizes` (n,) the sizes of their strata: `equal` of them, the highest of
    which is cut again. `rank` is k of the prediction intervals.
    """

    numbers: np.ndarray
    sizes: np.ndarray
    equal: int
    rank: int

    @property
    def drawn(self) -> int:
        return int(self.sizes.sum())

    @property
    def weights(self) -> np.ndarray:
        """w_h, the share of all worlds in each stratum, (n,)."""
        return self.sizes / self.drawn

    def mean(self, values: np.ndarray) -> float:
        """Return Σ w_h y_h of values (n,), unbiased for the mean over all worlds."""
        return float(self.sizes @ values / self.drawn)

    def error(self, values: np.ndarray) -> float:
        """Return the standard error of the mean, √(Σ w_h² s_h² + s²/M).

        s_h² is the variance inside a stratum, from second differences, so that a trend over strata does not count:
        (y_{h−1} − 2y_h + y_{h+1})²/6, at the ends (y_h − y_{h±1})²/2. s² is that over all worlds, of which M were drawn.
        """
        inside = np.empty(len(values))
        inside[1:-1] = np.diff(values, 2) ** 2 / 6
        inside[[0, -1]] = np.diff(values)[[0, -1]] ** 2 / 2
        overall = self.weights @ (values - self.mean(values)) ** 2
        return float(np.sqrt(self.weights**2 @ inside + overall / self.drawn))

    def median(self, values: np.ndarray) -> float:
        """Return the middle of the values with at most half of the weight on either side."""
        ordered, below, above = self._ordered(values)
        return float(ordered[(below <= 0.5 + SLACK) & (above <= 0.5 + SLACK)][[0, -1]].mean())

    def limits(self, values: np.ndarray) -> tuple[float, float]:
        """Return the largest value with at most k − 1 equal strata below it, and the smallest with as many above it."""
        ordered, below, above = self._ordered(values)
        outside = (self.rank - 1) / self.equal + SLACK
        return float(ordered[below <= outside][-1]), float(ordered[above <= outside][0])

    def _ordered(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        order = np.argsort(values, kind="stable")
        weights = self.weights[order]
        return values[order], weights.cumsum() - weights, 1 - weights.cumsum()

    @property
    def coverage(self) -> float:
        """Lower bound of the probability that a further world falls inside the limits.

        It is in stratum h with probability w_h, where it is exchangeable with the simulated one. Outside the extremes are at
        most 2·∫Π(1 − F_h) ≤ 2/(W + 1) of the worlds, as without strata; outside the k-th at most 2k/W.
        """
        return (self.equal - 1) / (self.equal + 1) if self.rank == 1 else 1 - 2 * self.rank / self.equal


def interval_rank(worlds: int, confidence: float) -> int:
    """Return k of the prediction intervals: the largest whose coverage is at least the confidence."""
    if (worlds + 1) * (1 - confidence) / 2 + SLACK < 1:
        needed = int(np.ceil(2 / (1 - confidence) - SLACK)) - 1
        raise SettingError(
            f"worlds={worlds}; an interval with confidence {confidence:g} needs {needed} or more. "
            "Simulate more worlds, or ask for less confidence"
        )
    return max(int(worlds * (1 - confidence) / 2 + SLACK), 1)


def draw_strata(possible: Worlds, theta: np.ndarray, worlds: int, rank: int) -> Strata:
    """Draw many worlds, order them by the regret of playing the best mean of θ (K, d), cut them into strata, take one of each."""
    rng = np.random.default_rng([possible.seed, 5])
    each = _each(worlds, *theta.shape)
    order = np.argsort(possible.losses(theta, worlds * each), kind="stable")
    sizes = np.array([each] * (worlds - 1) + _halved(each))
    taken = sizes.cumsum() - sizes + rng.integers(sizes)
    return Strata(order[taken], sizes, worlds, rank)


def _each(worlds: int, actions: int, features: int) -> int:
    most = min(MOST, WORK / (actions * features * (features + CONTEXTS)))
    return int(np.clip(most / worlds, FEWEST, DRAWN))


def _halved(size: int) -> list[int]:
    sizes = []
    for _ in range(HALVINGS):
        sizes.append((size + 1) // 2)
        size //= 2
    return [*sizes, size]
