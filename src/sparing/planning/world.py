"""Worlds as a log leaves them possible: parameters drawn from its posterior, contexts from its rows."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from sparing.errors import SettingError
from sparing.log import Log
from sparing.online.learner import Learner
from sparing.simulation.worlds import NOT_LOGGED, Stream

MOST_CONTEXTS = 20_000
"""Of a longer log, a random part of this many rows stands for its contexts: each process gets a copy."""


@dataclass(frozen=True, eq=False)
class PosteriorWorld:
    """r = x·θ_a + noise with one draw of theta (K, d) and normal noise of deviation `noise`.

    `pool` (m, d) holds the contexts, met again with replacement and with new luck. They count as not
    logged: a live context that looks like a logged one is a new round.
    """

    theta: np.ndarray
    noise: float
    pool: np.ndarray
    action_names: tuple[Hashable, ...]

    @property
    def n_features(self) -> int:
        """Length of a context."""
        return int(self.theta.shape[1])

    def log_stream(self, rows: int | None, rng: np.random.Generator) -> Stream:
        """Rounds for a logging policy, numbered."""
        stream = self.live_stream(rows, rng)
        return Stream(stream.contexts, stream.means, stream.draws, np.arange(len(stream)))

    def live_stream(self, rounds: int | None, rng: np.random.Generator, log: Log | None = None) -> Stream:
        """Contexts of `log`, or of the pool, drawn with replacement."""
        if rounds is None or rounds < 0:
            raise SettingError(f"rounds={rounds}; say how many rounds, 0 or more, to draw from the posterior")
        pool = self.pool if log is None else log.contexts
        contexts = pool[rng.integers(0, len(pool), rounds)]
        draws = self.noise * rng.standard_normal(rounds)
        return Stream(contexts, contexts @ self.theta.T, draws, np.full(rounds, NOT_LOGGED))


@dataclass(frozen=True, eq=False)
class Posterior:
    """θ_a ~ N(V_a⁻¹ b_a, σ² V_a⁻¹), independent between actions: what `confident` believes at its start.

    theta (K, d) holds the means, root (K, d, d) a root of each covariance: root·rootᵀ = σ² V_a⁻¹.
    """

    theta: np.ndarray
    root: np.ndarray
    noise: float
    pool: np.ndarray
    action_names: tuple[Hashable, ...]

    @classmethod
    def of(cls, learner: Learner, contexts: np.ndarray, rng: np.random.Generator) -> "Posterior":
        """Take the posterior of a `confident` learner that has seen its log and nothing else."""
        sets = learner.sets
        noise = learner.assumptions.noise
        pool = contexts
        if len(pool) > MOST_CONTEXTS:
            pool = pool[rng.choice(len(pool), MOST_CONTEXTS, replace=False)]
        root = noise * np.linalg.cholesky(sets.inverse)
        return cls(sets.theta.copy(), root, noise, pool, learner.action_names)

    def draw(self, rng: np.random.Generator) -> PosteriorWorld:
        """One world."""
        luck = rng.standard_normal(self.theta.shape)
        theta = self.theta + np.einsum("kij,kj->ki", self.root, luck)
        return PosteriorWorld(theta, self.noise, self.pool, self.action_names)
