"""Worlds that a log leaves possible: scales, what actions share, and each action's parameters, drawn from their joint posterior."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sparing.model.prior import Prior, inverses, regular
from sparing.model.statistics import Statistics
from sparing.simulation.worlds import Stream

CONTEXTS = 128  # contexts over which a loss is averaged


class Conditional(NamedTuple):
    """The posterior given the scales: W ~ N(weights, root·rootᵀ), and θ_a = pull_a·(W z_a) + own_a + noise_a·N(0, I).

    weights (q·d,), root (q·d, q·d); pull and deviation (K, d, d), own (K, d).
    """

    weights: np.ndarray
    root: np.ndarray
    pull: np.ndarray
    own: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, prior: Prior, sums: Statistics) -> "Conditional":
        """The posterior of a prior, given the sums of the log."""
        d, precision = len(prior.spread), regular(prior.noise, sums.gram) / prior.spread**2
        inverse = inverses(np.linalg.cholesky(sums.gram + np.diag(precision)))
        values, vectors = np.linalg.eigh(prior.coefficient_covariance.reshape(prior.weights.size, -1))
        return cls(
            prior.weights.ravel(),
            vectors * np.sqrt(np.maximum(values, 0.0)),
            inverse * precision,
            np.einsum("kij,kj->ki", inverse, sums.response),
            prior.noise * np.linalg.cholesky(inverse + 1e-300 * np.eye(d)),
        )

    def draw(self, items: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw θ, (K, d), for item features z (K, q)."""
        shared = self.weights + self.root @ rng.standard_normal(len(self.weights))
        centre = items @ shared.reshape(items.shape[1], -1)
        own = np.einsum("kij,kj->ki", self.deviation, rng.standard_normal(self.own.shape))
        return np.asarray(np.einsum("kij,kj->ki", self.pull, centre) + self.own + own)


@dataclass(frozen=True, eq=False)
class Worlds:
    """Possible worlds by number; the same number gives the same world.

    Attributes
    ----------
    prior, sums
        The prior that the log gives, and the sums of its rows.
    pool : array of shape (m, d)
        Contexts that live ones are drawn from.
    misfit : float
        Deviation of what the features cannot explain of an action's mean reward at a context; it is part of the noise
        that the log shows, and no learner can learn it.
    seed : int
    costs : array of shape (K,), optional
        Known costs of the actions, which a loss counts.
    """

    prior: Prior
    sums: Statistics
    pool: np.ndarray
    misfit: float
    seed: int
    costs: np.ndarray | None = None

    def _scales(self, number: int) -> int:
        """The index of a world's scales."""
        weights, place = self.prior.scale_weights, np.random.default_rng([self.seed, 6, number]).random()
        return min(int(np.searchsorted(weights.cumsum(), place)), len(weights) - 1)

    def _conditional(self, index: int) -> Conditional:
        return Conditional.of(self.prior.at_point(self.sums, index), self.sums)

    def parameters(self, number: int, given: Conditional | None = None) -> np.ndarray:
        """θ of a world, (K, d)."""
        given = self._conditional(self._scales(number)) if given is None else given
        return given.draw(self.prior.items, np.random.default_rng([self.seed, 1, number]))

    def losses(self, theta: np.ndarray, count: int) -> np.ndarray:
        """Mean regret per round of playing the best mean of θ (K, d), less costs, in each of the first worlds, (count,)."""
        costs = 0.0 if self.costs is None else self.costs
        rng = np.random.default_rng([self.seed, 4])
        contexts = self.pool[rng.permutation(len(self.pool))[:CONTEXTS]]
        rows, leaders = np.arange(len(contexts)), (contexts @ theta.T - costs).argmax(axis=1)
        losses, indices = np.empty(count), np.array([self._scales(number) for number in range(count)])
        for index in np.unique(indices):
            given = self._conditional(int(index))
            for number in np.flatnonzero(indices == index).tolist():
                means = contexts @ self.parameters(number, given).T - costs
                losses[number] = (means.max(axis=1) - means[rows, leaders]).mean()
        return losses

    def stream(self, number: int, rounds: int) -> Stream:
        """Live rounds in a world; a context equal to a logged one is a new round with new noise."""
        theta, rng = self.parameters(number), np.random.default_rng([self.seed, 2, number])
        rows = rng.integers(len(self.pool), size=rounds)
        contexts = self.pool[rows]
        means, noise = contexts @ theta.T, self.prior.noise
        if self.misfit:
            means = means + self.misfit * rng.standard_normal((len(self.pool), len(theta)))[rows]
            noise = float(np.sqrt(max(noise**2 - self.misfit**2, 0.0)))
        return Stream(contexts=contexts, means=means, draws=noise * rng.standard_normal(rounds))
