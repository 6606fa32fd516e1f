"""The paper's synthetic world, its log and its learners, from a record that says which."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from research import learners
from sparing.log import Log
from sparing.model.confidence import supported_actions
from sparing.online.learner import Learner
from sparing.simulation import LinearWorld, Stream, draw_log, simulate
from sparing.simulation.simulate import Trace

LIVE_STREAM, KNOWN_STREAM = 3, 4
"""The random streams of live rounds, as `simulate` draws them, and of the θ̂ of 𝓛; world and log have others."""


@dataclass(frozen=True)
class Synthetic:
    """The paper's synthetic setting; what it leaves unstated has the defaults that stand here.

    unsupported is n^UA, epsilon the deviation of θ̂_a ~ N(θ*_a, ε²I) for a ∈ 𝓛, supported is L.
    """

    actions: int = 20
    features: int = 5
    noise: float = 2.0
    epsilon: float = 0.05
    rounds: int = 3000
    rows: int = 3000
    ridge: float = 1.0
    delta: float = 0.05
    radius: str = "determinant"
    radius_scale: float = 1.0
    supported: int = 10
    unsupported: float = 0.2
    support: str = "per-context"
    stream: str = "in-log"
    clip: float | str = "percentile-ratio"
    tolerance: float = 0.3
    seed: int = 0

    def world(self) -> LinearWorld:
        """θ* ~ N(0, I), x ~ U[0, 1]^d."""
        return LinearWorld(n_actions=self.actions, n_features=self.features, noise=self.noise, seed=self.seed)

    def log(self, world: LinearWorld) -> Log:
        """The log that the logging policy leaves."""
        return draw_log(
            world, rows=self.rows, support=self.support, unsupported=self.unsupported, seed=self.seed
        )

    def known(self, world: LinearWorld, log: Log) -> dict[Hashable, np.ndarray]:
        """θ̂_a ~ N(θ*_a, ε²I) of the L actions with the most rows (Remark 3)."""
        rng = np.random.default_rng([self.seed, KNOWN_STREAM])
        points = world.theta + self.epsilon * rng.standard_normal(world.theta.shape)
        most = np.sort(np.argsort(-log.counts, kind="stable")[: self.supported])
        return {log.action_names[action]: points[action] for action in most}

    def learner(
        self,
        name: str,
        world: LinearWorld,
        log: Log,
        *,
        known: dict[Hashable, np.ndarray] | None = None,
    ) -> Learner:
        """One of the learners, told the true noise and bounds; `known` is 𝓛 if not the log's."""
        points = supported_actions(self.known(world, log) if known is None else known)
        return self.start(name, world, log, supported=points)

    def start(self, name: str, world: LinearWorld, log: Log, **changes: Any) -> Learner:
        """One of the learners, told the true noise and bounds; changes replace what this setting says."""
        settings: dict[str, Any] = {
            "noise": self.noise,
            "theta_bound": float(np.linalg.norm(world.theta, axis=1).max()),
            "context_bound": float(np.sqrt(self.features)),
            "ridge": self.ridge,
            "delta": self.delta,
            "radius": self.radius,
            "radius_scale": self.radius_scale,
            "clip": self.clip,
            "tolerance": self.tolerance,
            "seed": self.seed,
        }
        return learners.start(name, log, **settings | changes)

    def live_stream(self, world: LinearWorld, log: Log) -> Stream:
        """The rounds that `simulate` plays."""
        replayed = log if self.stream == "in-log" else None
        return world.live_stream(self.rounds, np.random.default_rng([self.seed, LIVE_STREAM]), replayed)

    def run(self, name: str) -> tuple[Learner, Trace, LinearWorld, Log]:
        """Let one learner live through the rounds; one seed gives all of them the same world and luck."""
        world = self.world()
        log = self.log(world)
        learner = self.learner(name, world, log)
        trace = simulate(learner, world, rounds=self.rounds, seed=self.seed, stream=self.stream, log=log)
        return learner, trace, world, log
