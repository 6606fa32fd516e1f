"""One world, one log: every algorithm spends the same budget of reward calls, and its policy is scored."""

from dataclasses import replace
from typing import Any

import numpy as np

from research.paper.experiment import Record
from research.paper.synthetic import Synthetic
from sparing.learning import learn
from sparing.log import Log
from sparing.policies.policy import Policy
from sparing.simulation import LinearWorld, logging_policy, simulate

EVALUATION_STREAM = 5
"""The random stream of the contexts on which policies are scored."""

NOT_CLIPPED = "_inf"
"""Ends the name of ε-mOFUL-IPS with M = ∞."""


def run(unit: Record) -> Record:
    """Expected reward, calls, rounds and regret of every algorithm; `best` is what the best policy earns."""
    setting = Synthetic(**unit["synthetic"])
    world = setting.world()
    log = setting.log(world)
    score = _Score(world, unit["evaluation"], setting.seed)
    outcomes = [_offline(method, setting, world, log, score, unit) for method in unit["offline"]]
    for scale in unit["radius_scales"]:
        scaled = replace(setting, radius_scale=scale)
        outcomes += [
            {**_live(name, scaled, world, log, score, unit), "scale": scale} for name in unit["scaled"]
        ]
    outcomes += [_live(name, setting, world, log, score, unit) for name in unit["scale_free"]]
    return {"best": score.best, "outcomes": outcomes}


class _Score:
    """Scores policies by their expected reward over one set of fresh contexts."""

    def __init__(self, world: LinearWorld, contexts: int, seed: int) -> None:
        self.contexts = world.contexts(contexts, np.random.default_rng([seed, EVALUATION_STREAM]))
        self.means = world.means(self.contexts)
        self.best = float(self.means.max(axis=1).mean())

    def __call__(self, policy: Policy) -> float:
        """mean_x Σ_a π(a|x)·x·θ*_a."""
        return float((policy.probabilities(self.contexts) * self.means).sum(axis=1).mean())


def _offline(
    method: str, setting: Synthetic, world: LinearWorld, log: Log, score: _Score, unit: Record
) -> Record:
    """A policy from the log alone; OPR is told U(x) of the contexts it is scored on, too."""
    options: dict[str, Any] = {}
    if method != "greedy":
        options["support"] = logging_policy(
            setting.support, world, unsupported=setting.unsupported, seed=setting.seed
        )
    if method == "opr":
        options |= {"l2": np.array(unit["opr_l2"]) * log.rewards.std(), "folds": unit["opr_folds"]}
    policy = learn(log, method, seed=setting.seed, **options)
    return {"algorithm": method, "reward": score(policy), "calls": 0, "rounds": 0, "regret": 0.0}


def _live(name: str, setting: Synthetic, world: LinearWorld, log: Log, score: _Score, unit: Record) -> Record:
    """Rounds until the budget of calls is spent, or the longest run is over."""
    algorithm = name.removesuffix(NOT_CLIPPED)
    told = replace(setting, clip=np.inf) if name != algorithm else setting
    learner = told.learner(algorithm, world, log)
    trace = simulate(
        learner,
        world,
        rounds=unit["longest"],
        seed=setting.seed,
        stream=setting.stream,
        log=log,
        call_budget=unit["budget"],
    )
    return {
        "algorithm": name,
        "reward": score(learner.policy()),
        "calls": learner.calls,
        "rounds": len(trace),
        "regret": float(trace.losses.sum()),
    }
