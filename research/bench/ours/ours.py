"""Ours, through the public names; and the compiled step behind them, called as plain kernels are."""

from typing import Any

import numpy as np

import sparing
from research.bench.ours.data import Repeated, visits
from research.learners import start
from sparing.online.decision import EVERYONE
from sparing.online.engine import runs

VERSION = sparing.__version__

ASKING = {"tolerance": 0.0, "confidence": 1 - 1e-9, "noise": 2.0, "prior_scale": 1.0}
"""`confident` calls unless the probability of being beaten is below 10⁻⁹."""


PRICED = {"horizon": 10**6, "noise": 2.0, "prior_scale": 1.0}
"""`economical` over so many rounds that nearly every one is worth a tiny price."""


class Step:
    """decide and update; `spec["regime"]` says what the learner knows when it begins."""

    def __init__(self, rounds: Any) -> None:
        self.learner = _begin(rounds, rounds.spec["regime"])

    def step(self, x: Any, means: Any, noise: float) -> None:
        """Decide and, if it asks, learn."""
        decision = self.learner.decide(x)
        if decision.needs_reward:
            self.learner.update(decision, means[decision.action] + noise)


class Skip:
    """decide in rounds that ask for nothing, after so many, in the world that the log is of, that were learnt from."""

    def __init__(self, rounds: Any) -> None:
        self.learner = _begin(rounds, rounds.spec["regime"])
        world = sparing.simulation.LinearWorld(theta=rounds.theta, noise=2.0)
        sparing.simulate(self.learner, world, rounds=int(rounds.spec["lived"]), seed=1)
        contexts = world.contexts(4096, np.random.default_rng(2))
        self.contexts = contexts[~self.learner.decide_many(contexts).needs_reward][:512]
        self.place = 0
        for x in self.contexts:  # what is kept of a state that does not change is found once
            self.learner.decide(x)

    def step(self, x: Any, means: Any, noise: float) -> None:
        """Decide."""
        self.place = (self.place + 1) % len(self.contexts)
        self.learner.decide(self.contexts[self.place])


class CompiledStep:
    """The compiled decide and update alone: no `Decision`, no checks of the reward, nothing left open."""

    def __init__(self, rounds: Any) -> None:
        self.learner = _begin(rounds, "worst")
        self.table, self.bounds = self.learner.sets.scratch.observed, self.learner.sets.bounds
        self.decide = runs.CHOOSE_LOG_BEATS[self.bounds].call

    def step(self, x: Any, means: Any, noise: float) -> None:
        """Decide and learn."""
        action, _, _, _ = self.decide(self.table, x, EVERYONE, self.bounds)
        slot = runs.ADD_OBSERVATION.call(self.table, action, x, means[action] + noise)
        if self.bounds is not None:
            runs.REFRESH_BOUNDS.call(self.table, slot)


REGIMES: dict[str, tuple[str, dict[str, Any]]] = {
    "cold": ("linucb", {"alpha": 1.0}),
    "warm": ("linucb", {"alpha": 1.0}),
    "worst": ("warm_started", {"noise": 2.0}),
    "certified": ("certified", {"tolerance": -np.inf, "radius_scale": 0.2, "noise": 2.0, "theta_bound": 1.0}),
    "confident": ("confident", ASKING),
    "unchecked": ("confident", {**ASKING, "spot_check": 0.0}),
    "economical": ("economical", {**PRICED, "call_cost": 1e-6}),
    "confident, skipping": (
        "confident",
        {"tolerance": 6.0, "noise": 2.0, "prior_scale": 1.0, "spot_check": 0.0},
    ),
    "confident, a run": (
        "confident",
        {"tolerance": 1.0, "noise": 2.0, "prior_scale": 1.0, "spot_check": 0.0},
    ),
    "economical, skipping": ("economical", {**PRICED, "call_cost": 0.2, "horizon": 10_000}),
}
"""Which learner, and how: `cold` has seen nothing, the others a log with `rows_an_action` rows of every action.

In `worst` radii have their full width over few, equally many rows: nothing can be ruled out. The learners that we
recommend meet rounds that they ask about, `confident` with its spot checks and without; and, `skipping`, rounds that they do not.
"""


def _begin(rounds: Any, regime: str) -> sparing.Learner:
    name, settings = REGIMES[regime]
    if regime == "cold":
        return start(name, None, n_actions=rounds.n_actions, n_features=rounds.n_features, **settings)
    if regime == "worst":
        size = float(np.sqrt(rounds.n_features))
        settings = {**settings, "theta_bound": size, "context_bound": size}
    contexts, actions, rewards = rounds.logged(int(rounds.spec["rows_an_action"]), int(rounds.spec["seed"]))
    log = sparing.Log.from_indices(contexts, actions, rewards, tuple(range(rounds.n_actions)))
    return start(name, log, **settings)


def simulation(worlds: Any, spec: dict[str, Any]) -> Any:
    """`simulate(moful(...), LinearWorld)`, one run after the other."""
    k, d = int(spec["actions"]), int(spec["features"])

    def once() -> None:
        for seed in range(int(spec["runs"])):
            world = sparing.simulation.LinearWorld(n_actions=k, n_features=d, seed=seed)
            learner = sparing.moful(n_actions=k, n_features=d, noise=world.noise, seed=seed)
            sparing.simulate(learner, world, rounds=int(spec["rounds"]), seed=seed)

    return _warmed(once)


def statistics(worlds: Any, spec: dict[str, Any]) -> Any:
    """Per-action sums of a Parquet file, by one thread."""

    def once() -> None:
        sparing.scan(spec["path"], workers=1).summary()

    return _warmed(once)


class Intervals:
    """`evaluate` with IPS, SNIPS and DR, from raw rows to intervals, the reward model's fit included."""

    def __init__(self, worlds: Any, spec: dict[str, Any]) -> None:
        self.data, self.interval = worlds.Feedback(spec), str(spec["interval"])
        self.renew()
        self.run(1)

    def renew(self) -> None:
        """A log remembers what was computed from it; each run gets a new one."""
        data = self.data
        self.log = sparing.Log.from_indices(
            data.contexts,
            data.actions,
            data.rewards,
            tuple(range(data.n_actions)),
            propensities=data.propensities,
        )

    def run(self, count: int) -> None:
        """So many evaluations."""
        for _ in range(count):
            sparing.evaluate(
                self.log, self.data.target, methods=["ips", "snips", "dr"], interval=self.interval
            )


class PiPlus:
    """`pi_plus`, contexts told apart by their ids."""

    def __init__(self, worlds: Any, spec: dict[str, Any]) -> None:
        self.data, self.clip, self.grouped = visits(spec), spec["clip"], bool(spec["grouped"])
        del self.data["table"]
        self.renew()
        self.run(1)

    def renew(self) -> None:
        """A log remembers which rows share a context; each run gets a new one, asked before or not."""
        self.log = sparing.Log.from_indices(**self.data)
        if self.grouped:
            _ = self.log.groups

    def run(self, count: int) -> None:
        """So many policies."""
        for _ in range(count):
            sparing.pi_plus(self.log, self.clip)


def _warmed(once: Any) -> Repeated:
    """What is compiled on first use is compiled before the clock starts."""
    once()
    return Repeated(once)


CONTENDERS = {
    "step": Step,
    "skip": Skip,
    "compiled step": CompiledStep,
    "simulate": simulation,
    "statistics": statistics,
    "intervals": Intervals,
    "pi_plus": PiPlus,
}
