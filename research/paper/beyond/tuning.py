"""How Vowpal Wabbit was set: the best of a grid, on seeds that no comparison uses."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from research.paper.beyond.meeting import OUTSIDE, lost
from research.paper.beyond.vowpal import Tuned, Vowpal
from research.paper.synthetic import LIVE_STREAM, Synthetic
from sparing.simulation import ClassificationWorld, draw_log
from sparing.simulation.datasets import load

SEEDS = (1000, 1001)
DATA = ("pendigits", "satimage")
RATES = {"worlds": (0.125, 0.25, 0.5, 1.0, 2.0), "classes": (1.0, 2.0, 4.0, 8.0, 16.0)}
EXPLORATION: dict[str, dict[str, tuple[float, ...]]] = {
    "worlds": {"squarecb": (30.0, 100.0, 300.0, 1000.0), "regcb": (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)},
    "classes": {"squarecb": (3.0, 10.0, 30.0, 100.0), "regcb": (1e-2, 1e-3, 1e-4, 1e-5)},
}


def grid(where: str, algorithm: str) -> Iterator[Tuned]:
    """Every setting that is tried in the synthetic `worlds` or on `classes`."""
    for rate, exploration in itertools.product(RATES[where], EXPLORATION[where][algorithm]):
        yield Tuned(algorithm, rate, exploration)


def regret(tuned: Tuned, base: Synthetic, *, warm: bool) -> float:
    """Mean regret over the tuning seeds in a synthetic world; `base` says which."""
    found = []
    for seed in SEEDS:
        setting = replace(base, seed=seed)
        world = setting.world()
        log = setting.log(world)
        stream = setting.live_stream(world, log)
        with Vowpal.on(log, tuned, warm=warm) as learner:
            actions = learner.play(stream, np.random.default_rng([seed, OUTSIDE]))
        found.append(float(lost(stream.means, actions).sum()))
    return float(np.mean(found))


def error(tuned: Tuned) -> float:
    """Mean held-out error over the tuning seeds and data sets, a third of the classes never logged."""
    found = []
    for name, seed in itertools.product(DATA, SEEDS):
        world = ClassificationWorld(load(name), seed=seed)
        log = draw_log(world, support="never-logged", unsupported=1 / 3, seed=seed)
        with Vowpal.on(log, tuned, warm=True) as learner:
            stream = world.live_stream(None, np.random.default_rng([seed, LIVE_STREAM]))
            learner.play(stream, np.random.default_rng([seed, OUTSIDE]))
            wrong = learner.actions(world.features[world.held_out_rows]) != world.labels[world.held_out_rows]
        found.append(float(wrong.mean()))
    return float(np.mean(found))


def main() -> None:
    """Print the whole grid; the settings in use are the best of each part."""
    base = Synthetic(features=10, rows=30_000, support="never-logged")
    for algorithm in ("squarecb", "regcb"):
        for tuned in grid("worlds", algorithm):
            warm, cold = regret(tuned, base, warm=True), regret(tuned, base, warm=False)
            print(f"{tuned}: regret {warm:.0f} warm, {cold:.0f} cold", flush=True)
        for tuned in grid("classes", algorithm):
            print(f"{tuned}: held-out error {error(tuned):.4f}", flush=True)


if __name__ == "__main__":
    main()
