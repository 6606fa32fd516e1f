"""Synthetic worlds whose rewards are linear or not: does `confident` keep its promise, and does it say when it cannot?"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from research.paper.experiment import Record
from research.paper.frame import Frame
from research.paper.synthetic import LIVE_STREAM
from research.tables.part import Part, give, line, table
from sparing.online.algorithms import confident
from sparing.simulation import Stream, draw_log
from sparing.simulation.simulate import play
from sparing.simulation.worlds import NOT_LOGGED, World

SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "z³/3": lambda z: z**3 / 3,
    "z + z³/10": lambda z: z + z**3 / 10,
    "z": lambda z: z,
    "1/(1 + e^(−1.5z)), rewards 0 or 1": lambda z: 1 / (1 + np.exp(-1.5 * z)),
    "1/(1 + e^(3 − z)), rewards 0 or 1": lambda z: 1 / (1 + np.exp(3 - z)),
}
"""The mean reward, by what is linear in the features."""

LEARNERS: dict[str, Record] = {"linear": {}, 'kernel="auto"': {"kernel": "auto"}}
HELD_OUT, HELD_OUT_STREAM = 20_000, 33
"""Fresh contexts by which a final policy is judged, and their random stream."""


class ShapedWorld:
    """Mean rewards f(x·θ_a), θ ~ N(0, scale²·I); x is uniform on [−1, 1], the last feature 1. Noise has deviation 1, or rewards are 0 or 1."""

    def __init__(self, shape: str, *, n_actions: int, n_features: int, seed: int, scale: float = 1.0) -> None:
        self.shape, self.binary = SHAPES[shape], shape.endswith("rewards 0 or 1")
        self.theta = scale * np.random.default_rng(seed).standard_normal((n_actions, n_features))
        self.action_names, self.n_features = tuple(range(n_actions)), n_features

    def contexts(self, rounds: int, rng: np.random.Generator) -> np.ndarray:
        """Draw contexts, (rounds, d)."""
        drawn = rng.uniform(-1, 1, (rounds, self.n_features))
        drawn[:, -1] = 1
        return drawn

    def means(self, contexts: np.ndarray) -> np.ndarray:
        """Expected rewards, (n, K)."""
        return self.shape(contexts @ self.theta.T)

    def log_stream(self, rows: int | None, rng: np.random.Generator) -> Stream:
        """Rounds to log, numbered."""
        assert rows is not None
        return self._stream(rows, rng, np.arange(rows))

    def live_stream(self, rounds: int | None, rng: np.random.Generator, log: object = None) -> Stream:
        """Fresh rounds."""
        assert rounds is not None
        return self._stream(rounds, rng, np.full(rounds, NOT_LOGGED))

    def _stream(self, rounds: int, rng: np.random.Generator, ids: np.ndarray) -> Stream:
        contexts = self.contexts(rounds, rng)
        draws = rng.random(rounds) if self.binary else rng.standard_normal(rounds)
        return Stream(contexts, self.means(contexts), draws, ids, binary=self.binary)


def value(world: ShapedWorld, indices: Callable[[np.ndarray], np.ndarray], seed: int) -> tuple[float, float]:
    """What a policy earns on fresh contexts, and what the best actions do."""
    contexts = world.contexts(HELD_OUT, np.random.default_rng([seed, HELD_OUT_STREAM]))
    means = world.means(contexts)
    return float(means[np.arange(HELD_OUT), indices(contexts)].mean()), float(means.max(axis=1).mean())


@dataclass(frozen=True)
class Setting:
    """Ten actions, three of which are never logged; five features and a constant."""

    seeds: tuple[int, ...] = tuple(range(10))
    shapes: tuple[str, ...] = tuple(SHAPES)
    actions: int = 10
    features: int = 6
    rows: int = 3000
    rounds: int = 3000


def units(setting: Setting) -> list[Record]:
    """A shape and a seed each."""
    sizes = {name: getattr(setting, name) for name in ("actions", "features", "rows", "rounds")}
    return [
        {"shape": shape, "seed": seed, **sizes}
        for shape, seed in itertools.product(setting.shapes, setting.seeds)
    ]


def run(unit: Record) -> Record:
    """Both learners on the same log and the same rounds."""
    seed = unit["seed"]
    world = ShapedWorld(unit["shape"], n_actions=unit["actions"], n_features=unit["features"], seed=seed)
    known: World = world
    log = draw_log(known, rows=unit["rows"], support="never-logged", unsupported=0.3, seed=seed)
    stream = world.live_stream(unit["rounds"], np.random.default_rng([seed, LIVE_STREAM]))
    rows = []
    for name, settings in LEARNERS.items():
        learner = confident(log, seed=seed, **settings)
        said = "NOT linear" in learner.guarantee
        trace = play(learner, stream)
        earned, best = value(world, learner.policy().indices, seed)
        kernel = learner.encoder.kernel
        rows.append(
            {
                "learner": name,
                "bad": float((trace.skipped_losses > learner.plan.tolerance).mean()),
                "calls": int(trace.calls[-1]),
                "regret": float(trace.regret[-1]),
                "loss": best - earned,
                "named": float(said),
                "bent": float(kernel is not None),
            }
        )
    return {"rows": rows}


def tell(found: Frame) -> Iterator[str]:
    """A row for each world and learner."""
    yield from table(
        "mean reward", "learner", "bad skips", "calls", "regret", "final loss a round", "noticed"
    )
    for row in found:
        first = row["learner"] == "linear"
        share = row["named"] if first else row["bent"]
        yield line(
            row["shape"] if first else "",
            "linear" if first else "`auto`",
            give(row, "bad", 1, percent=True),
            give(row, "calls"),
            give(row, "regret"),
            give(row, "loss", 3),
            f"{share * row['runs']:.0f} of {row['runs']}",
        )


PART = Part(
    "shapes",
    "models.md",
    Setting(seeds=(0,), shapes=("z³/3",), rows=600, rounds=100),
    Setting(),
    units,
    run,
    ("shape", "learner"),
    ("bad", "calls", "regret", "loss", "named", "bent"),
    tell,
)
