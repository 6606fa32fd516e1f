"""Measure how often each interval holds the policy's true value."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from research.paper.coverage.setting import CoverageSetting
from sparing.evaluation import evaluate
from sparing.policies.policy import GreedyPolicy
from sparing.simulation import LinearWorld, draw_log

CONTEXTS = 50_000
"""Contexts by which a policy's true value is computed."""


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

    @property
    def action_names(self) -> tuple[Hashable, ...]:
        """The labels of the actions."""
        return self.greedy.action_names

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """π(a|x), (n, K)."""
        return 0.8 * self.greedy.probabilities(contexts) + 0.2 / len(self.action_names)

    def actions(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """The action with the largest probability."""
        return self.greedy.actions(contexts)


def measure(setting: CoverageSetting, support: str) -> list[Coverage]:
    """Coverage of every method under one logging policy."""
    hits: dict[str, list[tuple[bool, bool, float, float]]] = {name: [] for name in setting.methods}
    for seed in range(setting.worlds):
        world = LinearWorld(
            n_actions=setting.n_actions, n_features=setting.n_features, noise=setting.noise, seed=seed
        )
        blurred = world.theta + setting.blur * np.random.default_rng([seed, 31]).standard_normal(
            world.theta.shape
        )
        policy = MostlyBest(GreedyPolicy(world.action_names, blurred, np.arange(setting.n_actions)))
        contexts = world.contexts(CONTEXTS, np.random.default_rng([seed, 32]))
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
