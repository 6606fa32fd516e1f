"""Learners on disk: one archive of arrays and JSON."""

import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from sparing import archive
from sparing.errors import FileError
from sparing.log import labels
from sparing.offline.assumptions import Assumptions
from sparing.online.decision import Decision
from sparing.online.learner import Learner
from sparing.online.log_beats import LogBeats
from sparing.online.monitor import NoiseMonitor
from sparing.online.rules import Certified, Confident, SkipRule, Supported
from sparing.online.sets import ConfidenceSets

KIND = "sparing learner"
VERSION = 2
DRIFT = 1e-9
"""A saved V·V⁻¹ farther from I than this share of ‖V‖·‖V⁻¹‖ is not a state a learner can be in."""

RULES: dict[str, Callable[[dict[str, Any], dict[str, np.ndarray]], SkipRule]] = {
    Supported.name: lambda header, arrays: Supported(arrays["frozen"]),
    Certified.name: lambda header, arrays: Certified(**header),
    Confident.name: lambda header, arrays: Confident(**header),
    LogBeats.name: LogBeats.from_saved,
}


def save(learner: Learner, path: str | os.PathLike[str]) -> None:
    """Write a learner, open decisions and random streams included."""
    sets = learner.sets
    waiting = list(learner.open.values())
    header = {
        "algorithm": learner.algorithm,
        "guarantee": learner.guarantee,
        "action_names": [labels.to_json(name) for name in learner.action_names],
        "assumptions": asdict(sets.assumptions),
        "sets": {name: getattr(sets, name) for name in ("ridge", "constant", "slack", "misfit")},
        "rules": [[rule.name, rule.header()] for rule in learner.rules],
        "explore": learner.explore,
        "optimism": learner.optimism,
        "spot_check": learner.spot_check,
        "monitor": None if learner.monitor is None else asdict(learner.monitor),
        "reward_range": learner.reward_range,
        "rounds": learner.rounds,
        "calls": learner.calls,
        "rng": learner.rng.bit_generator.state,
        "open": [
            {**decision._asdict(), "action": action, "needs_reward": True} for decision, action, _ in waiting
        ],
    }
    arrays = {f"sets/{name}": array for name, array in sets.state().items()}
    arrays["priority"] = learner.priority
    arrays["open"] = np.array([x for _, _, x in waiting]).reshape(len(waiting), learner.n_features)
    for number, rule in enumerate(learner.rules):
        arrays |= {f"rules/{number}/{name}": array for name, array in rule.arrays().items()}
    archive.write(path, KIND, VERSION, header, arrays)


def load(path: str | os.PathLike[str]) -> Learner:
    """Read a learner that `Learner.save` wrote; it decides as the saved one would have."""
    try:
        learner = _learner(*archive.read(path, KIND, VERSION))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise FileError(f"{path} does not hold a whole learner: {error!r}") from None
    if not learner.sets.residual() <= DRIFT:
        raise FileError(f"{path} holds matrices that contradict their inverses; it was not saved by sparing")
    return learner


def _learner(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Learner:
    assumptions = dict(header["assumptions"])
    for name in ("estimated", "assumed"):
        assumptions[name] = tuple(assumptions[name])
    sets = ConfidenceSets.from_state(_under(arrays, "sets/"), Assumptions(**assumptions), **header["sets"])
    rules = [
        RULES[name](settings, _under(arrays, f"rules/{number}/"))
        for number, (name, settings) in enumerate(header["rules"])
    ]
    rng = np.random.default_rng()
    rng.bit_generator.state = header["rng"]
    names = tuple(map(labels.from_json, header["action_names"]))
    if sets.shape[0] != len(names) or sorted(arrays["priority"].tolist()) != list(range(len(names))):
        raise ValueError(f"{len(names)} action names for {sets.shape[0]} sets, or their order is damaged")
    learner = Learner(
        header["algorithm"],
        names,
        sets,
        rules,
        priority=arrays["priority"],
        rng=rng,
        explore=header["explore"],
        optimism=header["optimism"],
        spot_check=header["spot_check"],
        monitor=None if header["monitor"] is None else NoiseMonitor(**header["monitor"]),
        reward_range=None if header["reward_range"] is None else tuple(header["reward_range"]),
        guarantee=header["guarantee"],
    )
    learner.rounds, learner.calls = header["rounds"], header["calls"]
    for entry, x in zip(header["open"], arrays["open"], strict=True):
        decision = Decision(**{**entry, "action": names[entry["action"]]})
        learner.open[decision.id] = (decision, entry["action"], x.copy())
    return learner


def _under(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
