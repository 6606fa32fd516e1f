"""How often intervals hold the truth when the log's support is deficient: plain ones, and ours."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from sparing.evaluation import evaluate
from sparing.policies.policy import GreedyPolicy
from sparing.simulation import LinearWorld, draw_log

CONTEXTS = 50_000
"""Contexts by which a policy's true value is computed."""

BLUR_STREAM, CONTEXT_STREAM = 31, 32
"""The random streams that blur θ* for the policy that is evaluated, and of the contexts above."""


@dataclass(frozen=True)
class CoverageSetting:
    """Seeded linear worlds, one log each, and a policy that plays the best action most of the time.

    The policy is 0.8 on the action that a blurred copy of the true parameters ranks first, plus 0.2
    spread evenly. The reward range given to the intervals is the true range of mean rewards.
    """

    n_actions: int = 6
    n_features: int = 3
    noise: float = 1.0
    rows: int = 1500
    unsupported: float = 1 / 3
    worlds: int = 100
    blur: float = 0.5
    confidence: float = 0.95
    clip: float = 2.0
    methods: tuple[str, ...] = ("dm", "ips", "clipped", "snips", "dr", "sndr", "cab", "mlips", "aipw")


@dataclass(frozen=True)
class Coverage:
    """One method under one logging policy: shares of worlds whose truth lies inside, mean mass and width."""

    support: str
    method: str
    plain: float
    aware: float
    mass: float
    width: float


@dataclass(frozen=True, eq=False)
class MostlyBest:
    """0.8 on a greedy policy's action, 0.2 spread evenly."""

    greedy: GreedyPolicy

    @classmethod
    def blurred(cls, world: LinearWorld, blur: float, seed: int) -> "MostlyBest":
        """Of the policy that is greedy for θ* + blur·N(0, I)."""
        rng = np.random.default_rng([seed, BLUR_STREAM])
        theta = world.theta + blur * rng.standard_normal(world.theta.shape)
        return cls(GreedyPolicy(world.action_names, theta, np.arange(len(theta))))

    @property
    def action_names(self) -> tuple[Hashable, ...]:
        """The labels of the actions."""
        return self.greedy.action_names

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """π(a|x), (n, K)."""
        return 0.8 * self.greedy.probabilities(contexts) + 0.2 / len(self.action_names)

    def indices(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """The action with the largest probability."""
        return self.greedy.indices(contexts)


def measure(setting: CoverageSetting, support: str) -> list[Coverage]:
    """Coverage of every method under one logging policy."""
    hits: dict[str, list[tuple[bool, bool, float, float]]] = {name: [] for name in setting.methods}
    for seed in range(setting.worlds):
        world = LinearWorld(
            n_actions=setting.n_actions, n_features=setting.n_features, noise=setting.noise, seed=seed
        )
        policy = MostlyBest.blurred(world, setting.blur, seed)
        contexts = world.contexts(CONTEXTS, np.random.default_rng([seed, CONTEXT_STREAM]))
        means = world.means(contexts)
        truth = float((policy.probabilities(contexts) * means).sum(axis=1).mean())
        log = draw_log(world, rows=setting.rows, support=support, unsupported=setting.unsupported, seed=seed)
        found = evaluate(
            log,
            policy,
            methods=setting.methods,
            confidence=setting.confidence,
            reward_range=(float(means.min()), float(means.max())),
            clip=setting.clip,
        )
        for e in found.estimates:
            assert e.support_low is not None
            assert e.support_high is not None
            inside = e.low <= truth <= e.high, e.support_low <= truth <= e.support_high
            mass = (e.unsupported_mass or 0.0) + e.clipped_mass
            hits[e.method].append((*inside, mass, e.support_high - e.support_low))
    return [Coverage(support, name, *np.mean(rows, axis=0).tolist()) for name, rows in hits.items()]
