"""Worlds: where contexts come from and what each action would have earned."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sparing.errors import SettingError
from sparing.log import Log

NOT_LOGGED = -1
"""The id of a context that is in no log."""


@dataclass(frozen=True, eq=False)
class Stream:
    """Rounds to come, with their luck already drawn, so that all learners meet the same.

    contexts (T, d), means (T, K) the expected rewards, draws (T,) the luck: an error added to the
    mean, or, where rewards are 0 or 1 (`binary`), a uniform number that the mean must exceed.
    """

    contexts: np.ndarray
    means: np.ndarray
    draws: np.ndarray
    context_ids: np.ndarray | None = None
    binary: bool = False

    def __len__(self) -> int:
        return len(self.contexts)

    def reward(self, t: int, action: int) -> float:
        """What playing this action in round t earns."""
        mean, draw = self.means[t, action], self.draws[t]
        return float(draw < mean) if self.binary else float(mean + draw)

    def rewards(self, actions: np.ndarray) -> np.ndarray:
        """What playing these actions, one a round, earns, (T,)."""
        means = self.means[np.arange(len(self)), actions]
        return (self.draws < means).astype(float) if self.binary else means + self.draws


class World(Protocol):
    """Something that a learner can be tried in."""

    @property
    def action_names(self) -> tuple[Hashable, ...]:
        """The labels of the actions."""

    @property
    def n_features(self) -> int:
        """Length of a context."""

    def log_stream(self, rows: int | None, rng: np.random.Generator) -> Stream:
        """Rounds for the logging policy."""

    def live_stream(self, rounds: int | None, rng: np.random.Generator, log: Log | None = None) -> Stream:
        """Rounds for a learner: fresh ones, or the contexts of a log again (with new luck)."""


class LinearWorld:
    """r = x·θ_a + noise, x uniform on [0, 1]^d, θ_a ~ N(0, I) (the paper's synthetic world).

    `theta` (K, d) fixes the parameters instead. With `offset` the last feature is 1 and its parameter
    is raised by that much for every action.
    """

    def __init__(
        self,
        *,
        n_actions: int = 20,
        n_features: int = 5,
        noise: float = 2.0,
        seed: int = 0,
        theta: np.ndarray | None = None,
        offset: float = 0.0,
    ) -> None:
        if n_actions < 1 or n_features < 1 or not (np.isfinite(noise) and noise >= 0):
            raise SettingError(
                f"n_actions={n_actions}, n_features={n_features}, noise={noise}; must be at least 1, 1 and 0"
            )
        if not np.isfinite(offset):
            raise SettingError(f"offset={offset}; must be a finite number")
        if theta is None:
            theta = np.random.default_rng(seed).standard_normal((n_actions, n_features))
            theta[:, -1] += offset
        self.theta, self.noise, self.offset = np.array(theta, dtype=np.float64), float(noise), float(offset)
        if self.theta.ndim != 2 or not self.theta.size or not np.isfinite(self.theta).all():
            raise SettingError(f"theta of shape {self.theta.shape}; expected finite (actions, features)")

    @property
    def action_names(self) -> tuple[Hashable, ...]:
        """0 to K − 1."""
        return tuple(range(len(self.theta)))

    @property
    def n_features(self) -> int:
        """Length of a context."""
        return int(self.theta.shape[1])

    def contexts(self, rounds: int, rng: np.random.Generator) -> np.ndarray:
        """Draw contexts, (rounds, d)."""
        contexts = rng.random((rounds, self.n_features))
        if self.offset:
            contexts[:, -1] = 1
        return contexts

    def means(self, contexts: np.ndarray) -> np.ndarray:
        """Expected rewards x·θ_a, (n, K)."""
        return contexts @ self.theta.T

    def log_stream(self, rows: int | None, rng: np.random.Generator) -> Stream:
        """Rounds to log, numbered."""
        if rows is None or rows < 0:
            raise SettingError(f"rows={rows}; say how many rows, 0 or more, a linear world should log")
        contexts = self.contexts(rows, rng)
        return self._stream(contexts, np.arange(rows), rng)

    def live_stream(self, rounds: int | None, rng: np.random.Generator, log: Log | None = None) -> Stream:
        """Fresh contexts; or a log's, in random order, and fresh ones when those run out."""
        if rounds is None:
            raise SettingError("rounds=None; say how many rounds to play in a linear world")
        contexts = self.contexts(rounds, rng)
        ids = np.full(rounds, NOT_LOGGED)
        if log is not None:
            again = rng.permutation(log.n_rows)[:rounds]
            contexts[: len(again)] = log.contexts[again]
            known = again if log.context_ids is None else log.context_ids[again]
            known = known if known.dtype.kind == "U" else known.astype(np.int64)
            ids = np.concatenate([known, ids[len(again) :]])
        return self._stream(contexts, ids, rng)

    def _stream(self, contexts: np.ndarray, ids: np.ndarray, rng: np.random.Generator) -> Stream:
        draws = self.noise * rng.standard_normal(len(contexts))
        return Stream(contexts, self.means(contexts), draws, ids)
