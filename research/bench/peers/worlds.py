"""The worlds that all contenders meet, drawn from a seed with NumPy alone."""

from collections.abc import Callable
from typing import Any

import numpy as np

CONTEXTS = 512
"""Distinct contexts in a run of steps; after the last one the first comes again."""

NOISE = 2.0
"""Deviation of a reward, as in the paper's synthetic world."""


class Rounds:
    """r = x·θ_a + noise, x uniform on [0, 1]^d, θ_a ~ N(0, I): contexts (T, d), means (T, K), noise (T,).

    `spec` has `actions`, `features` and `seed`.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.n_actions, self.n_features = int(spec["actions"]), int(spec["features"])
        rng = np.random.default_rng([int(spec["seed"]), 1])
        self.theta = rng.standard_normal((self.n_actions, self.n_features))
        self.contexts = rng.random((CONTEXTS, self.n_features))
        self.means = self.contexts @ self.theta.T
        self.noise = NOISE * rng.standard_normal(CONTEXTS)

    def logged(self, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A log with `rows` rows of each action in turn: contexts, actions, rewards."""
        rng = np.random.default_rng([seed, 2])
        actions = np.tile(np.arange(self.n_actions), rows)
        contexts = rng.random((len(actions), self.n_features))
        rewards = np.einsum("ij,ij->i", contexts, self.theta[actions])
        return contexts, actions, rewards + NOISE * rng.standard_normal(len(actions))


class Steps:
    """Decide and update, over and over; `spec["fresh"]` makes a new learner before each timed run.

    `make(rounds)` is a learner: `step(x, means, noise)` decides at x and learns from means[action] + noise. Where it
    has them, `context(x)` gives the context in the form that its library wants, before the clock starts, and
    `close()` gives back what the garbage collector would not.
    """

    def __init__(self, spec: dict[str, Any], make: Callable[[Rounds], Any]) -> None:
        self.rounds, self.fresh, self.remake = Rounds(spec), bool(spec.get("fresh")), make
        self._begin()
        formed = getattr(self.agent, "context", lambda x: x)
        self.contexts = [formed(x) for x in self.rounds.contexts]
        self.means = list(self.rounds.means)
        self.noise: list[float] = self.rounds.noise.tolist()
        self.run(1)

    def _begin(self) -> None:
        self.agent = self.remake(self.rounds)
        self.next = 0

    def renew(self) -> None:
        """Begin anew where asked to; the first step, which may allocate, is not timed."""
        if self.fresh and self.next > 1:
            getattr(self.agent, "close", lambda: None)()
            del self.agent  # two of the largest learners need not live at once
            self._begin()
            self.run(1)

    def run(self, count: int) -> None:
        """So many steps."""
        step, contexts, means, noise = self.agent.step, self.contexts, self.means, self.noise
        for number in range(self.next, self.next + count):
            t = number % CONTEXTS
            step(contexts[t], means[t], noise[t])
        self.next += count


class Feedback:
    """Logged rounds and a target policy for off-policy evaluation.

    contexts (n, d), actions, rewards, propensities (n,), target (n, K) and estimated (n, K), a reward
    model's predictions. `spec` has `rows`, `actions`, `features` and `seed`.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        n, k, d = int(spec["rows"]), int(spec["actions"]), int(spec["features"])
        rng = np.random.default_rng([int(spec["seed"]), 3])
        theta = rng.standard_normal((k, d)) / np.sqrt(d)
        self.n_actions = k
        self.contexts = rng.random((n, d))
        self.estimated = self.contexts @ theta.T
        behaviour = _softmax(self.estimated + 0.3 * rng.standard_normal((n, k)))
        self.actions = (behaviour.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=k - 1)
        self.behaviour = behaviour
        self.propensities = behaviour[np.arange(n), self.actions]
        self.target = _softmax(3 * self.estimated)
        self.rewards = self.estimated[np.arange(n), self.actions] + rng.standard_normal(n)


def _softmax(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)
