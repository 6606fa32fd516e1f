"""How Vowpal Wabbit was set: the best of a grid, on seeds that no comparison uses."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from research.paper.beyond import data
from research.paper.beyond.meeting import OUTSIDE, lost
from research.paper.beyond.vowpal import Tuned, Vowpal
from research.paper.synthetic import LIVE_STREAM, Synthetic
from sparing.log import Log
from sparing.simulation import ClassificationWorld, Stream, draw_log, hidden_model_log

SEEDS = (1000, 1001)
WORLD = Synthetic(features=10, rows=30_000, support="never-logged")
DATA = ("pendigits", "satimage")
WEIGHT = 3.0
RATES = {
    "worlds": (0.125, 0.25, 0.5, 1.0, 2.0),
    "classes": (1.0, 2.0, 4.0, 8.0, 16.0),
    "routing": (0.125, 0.25, 0.5, 1.0, 2.0, 4.0),
}
EXPLORATION: dict[str, dict[str, tuple[float, ...]]] = {
    "worlds": {"squarecb": (30.0, 100.0, 300.0, 1000.0), "regcb": (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)},
    "classes": {"squarecb": (3.0, 10.0, 30.0, 100.0), "regcb": (1e-2, 1e-3, 1e-4, 1e-5)},
    "routing": {"squarecb": (10.0, 100.0, 1000.0, 10000.0), "regcb": (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)},
}


def grid(where: str, algorithm: str) -> Iterator[Tuned]:
    """Every setting that is tried in the synthetic `worlds`, on `classes` or on `routing`."""
    for rate, exploration in itertools.product(RATES[where], EXPLORATION[where][algorithm]):
        yield Tuned(algorithm, rate, exploration)


def _regret(tuned: Tuned, log: Log, stream: Stream, seed: int) -> float:
    with Vowpal(log, tuned) as learner:
        actions = learner.play(stream, np.random.default_rng([seed, OUTSIDE]))
    return float(lost(stream.means, actions).sum())


def regret(tuned: Tuned, base: Synthetic = WORLD) -> float:
    """Mean regret over the tuning seeds in a synthetic world; `base` says which."""
    found = []
    for seed in SEEDS:
        setting = replace(base, seed=seed)
        world = setting.world()
        log = setting.log(world)
        found.append(_regret(tuned, log, setting.live_stream(world, log), seed))
    return float(np.mean(found))


def error(tuned: Tuned) -> float:
    """Mean held-out error over the tuning seeds and data sets, a third of the classes never logged."""
    found = []
    for name, seed in itertools.product(DATA, SEEDS):
        world = ClassificationWorld(data.load(name), seed=seed)
        log = draw_log(world, support="never-logged", unsupported=1 / 3, seed=seed)
        with Vowpal(log, tuned) as learner:
            stream = world.live_stream(None, np.random.default_rng([seed, LIVE_STREAM]))
            learner.play(stream, np.random.default_rng([seed, OUTSIDE]))
            wrong = learner.actions(world.features[world.held_out_rows]) != world.labels[world.held_out_rows]
        found.append(float(wrong.mean()))
    return float(np.mean(found))


def routed(tuned: Tuned) -> float:
    """Mean regret over the tuning seeds, each language model untried in turn."""
    found, world = [], data.prompts(WEIGHT)
    for hidden, seed in itertools.product(world.action_names, SEEDS):
        log = hidden_model_log(world, hidden=hidden, seed=seed)
        stream = world.live_stream(None, np.random.default_rng([seed, LIVE_STREAM]))
        found.append(_regret(tuned, log, stream, seed))
    return float(np.mean(found))


SCORES: dict[str, Callable[[Tuned], float]] = {"worlds": regret, "classes": error, "routing": routed}


def main() -> None:
    """Print the whole grid; the settings in use are the best of each part."""
    for (where, score), algorithm in itertools.product(SCORES.items(), ("squarecb", "regcb")):
        for tuned in grid(where, algorithm):
            print(f"{where}: {tuned}: {score(tuned):.4f}", flush=True)


if __name__ == "__main__":
    main()
