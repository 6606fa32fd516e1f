"""The regret and call bounds, each as one formula. Those of regret need radius_scale ≥ 1; all hold with 1 − δ."""

from dataclasses import dataclass

import numpy as np


def constant(*, context_bound: float, ridge: float) -> float:
    """c = B/log(1 + B) with B = S_x²/λ: u ≤ c·log(1 + u) for every u in [0, B]."""
    ratio = context_bound**2 / ridge
    return float(ratio / np.log1p(ratio))


@dataclass(frozen=True)
class Lived:
    """What the bounds are made of after T rounds, T' of them called.

    growth is D = Σ_a log(det V_{T,a}/det V_{0,a}) over the learnt sets, radius is ρ_T, the largest of theirs.
    """

    rounds: float
    calls: float
    growth: float
    radius: float
    context_bound: float
    ridge: float

    def optimistic(self, calls: float | None = None) -> float:
        """What the called rounds of an optimistic learner cost: 2ρ_T·sqrt(c·T'·D).

        With T' = T this is the bound of mOFUL (Theorem 1) and of a warm start.
        """
        c = constant(context_bound=self.context_bound, ridge=self.ridge)
        called = self.calls if calls is None else calls
        return float(2 * self.radius * np.sqrt(c * called * self.growth))

    def corrected(self, epsilon: float) -> float:
        """Corrected Theorem 2: 2εS_x(T−T') + εS_x·T' + 2ρ_T·sqrt(c·T'·D), D over a ∉ 𝓛.

        A skipped round compares two points, each off by εS_x. A called round may have passed over an action of
        𝓛 whose point is too low, by εS_x as well.
        """
        points = epsilon * self.context_bound * (2 * (self.rounds - self.calls) + self.calls)
        return points + self.optimistic()

    def printed(self, epsilon: float) -> float:
        """Theorem 2 as printed, with the constants of its proof: εS_x(T−T') + 2ρ_T·sqrt(c·T'·D)."""
        return epsilon * self.context_bound * (self.rounds - self.calls) + self.optimistic()

    def certified(self, tolerance: float) -> float:
        """Regret of `certified` that plays its leader: 2ρ_T·sqrt(c·T'·D) + τ(T−T')."""
        return tolerance * (self.rounds - self.calls) + self.optimistic()

    def certified_calls(self, tolerance: float) -> float:
        """Calls of `certified`, at any radius_scale: D / log(1 + τ²/(4ρ_T²))."""
        return float(self.growth / np.log1p(tolerance**2 / (4 * self.radius**2)))
