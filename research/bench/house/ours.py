"""Ours, through the public names; and the compiled step behind them, called as plain kernels are."""

from typing import Any

import numpy as np

import sparing
from research.bench.house.data import Repeated, visits

VERSION = sparing.__version__


def step(worlds: Any, spec: dict[str, Any]) -> Any:
    """decide and update; `spec["regime"]` says what the learner knows when it begins."""
    begin = STARTS[spec["regime"]]

    class Ours(worlds.Agent):  # type: ignore[misc]
        def __init__(self, rounds: Any) -> None:
            self.learner = begin(rounds, spec)

        def step(self, x: Any, means: Any, noise: float) -> None:
            decision = self.learner.decide(x)
            if decision.needs_reward:
                self.learner.update(decision, means[decision.action] + noise)

    return worlds.Steps(spec, Ours)


def compiled_step(worlds: Any, spec: dict[str, Any]) -> Any:
    """The compiled decide and update alone: no `Decision`, no checks of the reward, nothing left open."""
    from sparing.online.checking import EVERYONE
    from sparing.online.engine import bounding, choosing, opening

    class Compiled(worlds.Agent):  # type: ignore[misc]
        def __init__(self, rounds: Any) -> None:
            self.learner = _worst(rounds, spec)
            self.table = self.learner.sets.desk.settled

        def step(self, x: Any, means: Any, noise: float) -> None:
            action, _, _, _ = choosing.by_log(self.table, x, EVERYONE, self.learner.sets.bounds)
            slot = opening.absorb(self.table, action, x, means[action] + noise)
            if self.learner.sets.bounds is not None:
                bounding.keep_bounds(self.table, slot)

    return worlds.Steps(spec, Compiled)


def _cold(rounds: Any, spec: dict[str, Any]) -> sparing.Learner:
    """LinUCB, α = 1, that has seen nothing."""
    return sparing.linucb(alpha=1.0, n_actions=rounds.n_actions, n_features=rounds.n_features)


def _warm(rounds: Any, spec: dict[str, Any]) -> sparing.Learner:
    """LinUCB, α = 1, warm from a log with `rows_an_action` rows of every action."""
    return sparing.linucb(_log(rounds, spec), alpha=1.0)


def _worst(rounds: Any, spec: dict[str, Any]) -> sparing.Learner:
    """Radii at their full width over few, equally many rows of every action: nothing can be ruled out."""
    size = float(np.sqrt(rounds.n_features))
    return sparing.warm_started(_log(rounds, spec), noise=2.0, theta_bound=size, context_bound=size)


def _certified(rounds: Any, spec: dict[str, Any]) -> sparing.Learner:
    """A learner that we recommend, in rounds that it asks about."""
    return sparing.certified(
        _log(rounds, spec), tolerance=-np.inf, radius_scale=0.2, noise=2.0, theta_bound=1.0
    )


def _confident(rounds: Any, spec: dict[str, Any]) -> sparing.Learner:
    """The other, with its spot checks."""
    return sparing.confident(
        _log(rounds, spec), tolerance=0.0, confidence=1 - 1e-9, noise=2.0, prior_scale=1.0
    )


def _unchecked(rounds: Any, spec: dict[str, Any]) -> sparing.Learner:
    """And without them."""
    return sparing.confident(
        _log(rounds, spec), tolerance=0.0, confidence=1 - 1e-9, noise=2.0, prior_scale=1.0, spot_check=0.0
    )


STARTS = {
    "cold": _cold,
    "warm": _warm,
    "worst": _worst,
    "certified": _certified,
    "confident": _confident,
    "unchecked": _unchecked,
}


def _log(rounds: Any, spec: dict[str, Any]) -> sparing.Log:
    contexts, actions, rewards = rounds.logged(int(spec["rows_an_action"]), int(spec["seed"]))
    return sparing.Log.from_indices(contexts, actions, rewards, tuple(range(rounds.n_actions)))


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
        sparing.summarise(spec["path"], threads=1)

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
    "step": step,
    "compiled step": compiled_step,
    "simulate": simulation,
    "statistics": statistics,
    "intervals": Intervals,
    "pi_plus": PiPlus,
}
