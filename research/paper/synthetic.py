"""The paper's synthetic world, its log and its learners, from a record that says which."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparing.log import Log
from sparing.model.supported import given
from sparing.online import algorithms
from sparing.online.learner import Learner
from sparing.simulation import LinearWorld, draw_log, simulate
from sparing.simulation.loop import Trace

KNOWN_STREAM = 4
"""The random stream of the θ̂ of 𝓛; world, log and live luck have others."""


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
        algorithm: str,
        world: LinearWorld,
        log: Log,
        *,
        known: dict[Hashable, np.ndarray] | None = None,
    ) -> Learner:
        """One of the algorithms, told the true noise and bounds; `known` is 𝓛 if not the log's."""
        common: dict[str, Any] = {
            "noise": self.noise,
            "theta_bound": float(np.linalg.norm(world.theta, axis=1).max()),
            "context_bound": float(np.sqrt(self.features)),
            "ridge": self.ridge,
            "delta": self.delta,
            "radius": self.radius,
            "radius_scale": self.radius_scale,
            "seed": self.seed,
        }
        if algorithm == "eps_moful":
            points = given(known or self.known(world, log))
            return algorithms.eps_moful(log, supported=points, **common)
        if algorithm == "eps_moful_ips":
            points = given(known or self.known(world, log))
            return algorithms.eps_moful_ips(log, supported=points, clip=self.clip, **common)
        if algorithm in ("certified", "confident"):
            return getattr(algorithms, algorithm)(log, tolerance=self.tolerance, **common)
        return getattr(algorithms, algorithm)(log, **common)

    def run(
        self, algorithm: str, *, call_budget: int | None = None
    ) -> tuple[Learner, Trace, LinearWorld, Log]:
        """Let one algorithm live through the rounds; one seed gives all of them the same world and luck."""
        world = self.world()
        log = self.log(world)
        learner = self.learner(algorithm, world, log)
        trace = simulate(
            learner,
            world,
            rounds=self.rounds,
            seed=self.seed,
            stream=self.stream,
            log=log,
            call_budget=call_budget,
        )
        return learner, trace, world, log
