"""Offline methods on real and synthetic logs with deficient support: is `auto` as good as the best of them?"""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from research.paper.experiment import Record
from research.paper.frame import Frame
from research.tables.part import Part, give, line, table
from research.tables.shapes import ShapedWorld, value
from sparing.learning import learn
from sparing.log import Log
from sparing.policies.policy import softmax
from sparing.simulation import ClassificationWorld, datasets, draw_log
from sparing.simulation.logging_policies import LoggingPolicy, logging_policy
from sparing.simulation.worlds import World

SIX = ("greedy", "pessimistic", "caipwl", "opr-dlm", "ipw-logistic", "boosted")
METHODS = (*SIX, "stacked", "auto")
WORLDS = {"linear": "z", "logistic": "1/(1 + e^(−1.5z)), rewards 0 or 1", "cubic": "z³/3"}
"""Synthetic worlds, and the shape of their mean rewards."""

SHARPNESS = {"softmax": 1.0, "sharp softmax": 2.0}
"""How many deviations of its scores a unit of log-odds is worth to a logger."""

REGION = "region"
LOGGERS = {
    "softmax": "a softmax logger that never plays the 40 % of actions which are least likely in a context",
    "sharp softmax": "the same, twice as sharp",
    REGION: "a logger that plays each action in a half-space of its own, of 60 % of the contexts, evenly",
}
LOGGER_STREAM, SCALE = 35, 0.6
TRAINED = 0.05
"""The share of the logged rows that a logger of classes was trained on."""

OFTEN = {"cubic": 4}
"""Worlds that differ so much from seed to seed that there are so many times the seeds of them."""


@dataclass(frozen=True)
class Setting:
    """Loggers that leave out a share of the actions of each context; a softmax never plays three of ten in synthetic worlds."""

    seeds: tuple[int, ...] = tuple(range(10))
    places: tuple[str, ...] = ("pendigits", "satimage", "segment", "vowel", *WORLDS)
    loggers: tuple[str, ...] = tuple(LOGGERS)
    dropped: float = 0.4
    rows: int = 5000


def units(setting: Setting) -> list[Record]:
    """A world, a logger and a seed each."""
    common = {"dropped": setting.dropped, "rows": setting.rows}
    return [
        {"place": place, "logger": logger, "seed": seed, **common}
        for logger, place in itertools.product(setting.loggers, setting.places)
        for seed in (*setting.seeds, *_further(setting, place))
    ]


def _further(setting: Setting, place: str) -> range:
    """The seeds that a world has beside those of all."""
    most = len(setting.seeds) * OFTEN.get(place, 1)
    return range(max(setting.seeds) + 1, max(setting.seeds) + 1 + most - len(setting.seeds))


@functools.cache
def load(name: str) -> datasets.Dataset:
    """A data set, read once in a process."""
    return datasets.load(name)


def run(unit: Record) -> Record:
    """The true value of what each method learns, and what it lacks on the best of the first six."""
    log, worth = _classes(unit) if unit["place"] not in WORLDS else _synthetic(unit)
    found = {name: worth(learn(log, name, seed=unit["seed"]).indices) for name in METHODS}
    best, whole = max(found[name] for name in SIX), max(found.values())
    rows = [
        {"method": name, "value": got, "behind": best - got, "behind_all": whole - got}
        for name, got in found.items()
    ]
    return {"rows": rows}


Worth = Callable[[Callable[[np.ndarray], np.ndarray]], float]
"""The true value of a policy, given as what it plays."""


def _classes(unit: Record) -> tuple[Log, Worth]:
    """70 % of the rows are logged; the logger has learnt from a few of them, by least squares of the classes."""
    world = ClassificationWorld(load(unit["place"]), split="paper", seed=unit["seed"])
    few = world.log_rows[: max(1, round(TRAINED * len(world.log_rows)))]
    x, k = world.features[few], len(world.classes)
    theta = np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ np.eye(k)[world.labels[few]]).T
    policy = _logger(unit, world, theta)
    rows = world.live_rows

    def worth(indices: Callable[[np.ndarray], np.ndarray]) -> float:
        return float((indices(world.features[rows]) == world.labels[rows]).mean())

    return draw_log(world, policy=policy, seed=unit["seed"]), worth


def _synthetic(unit: Record) -> tuple[Log, Worth]:
    """The logger's parameters are the true ones, blurred as much as they vary; three actions are never played."""
    seed = unit["seed"]
    world = ShapedWorld(WORLDS[unit["place"]], n_actions=10, n_features=6, seed=seed, scale=SCALE)
    rng = np.random.default_rng([seed, LOGGER_STREAM])
    theta = world.theta + SCALE * rng.standard_normal(world.theta.shape)
    known: World = world
    policy = _logger(unit, known, theta, never=rng.permutation(10)[:3])
    log = draw_log(known, rows=unit["rows"], policy=policy, seed=seed)
    return log, lambda indices: value(world, indices, seed)[0]


def _logger(
    unit: Record, world: World, theta: np.ndarray, never: Sequence[int] | np.ndarray = ()
) -> LoggingPolicy:
    if unit["logger"] == REGION:
        return logging_policy(REGION, world, unsupported=unit["dropped"], seed=unit["seed"])
    return dropping(world, theta, unit["dropped"], SHARPNESS[unit["logger"]], never)


def dropping(
    world: World, theta: np.ndarray, share: float, sharp: float, never: Sequence[int] | np.ndarray = ()
) -> LoggingPolicy:
    """Softmax of sharp·x·θ_a, in deviations of a context's scores, without its least likely actions and those never played."""

    def chances(contexts: np.ndarray) -> np.ndarray:
        scores = contexts @ theta.T
        scores *= sharp / scores.std(axis=1).mean()
        scores[:, never] = -np.inf
        played = len(theta) - len(never)
        unlikely = (-scores).argsort(axis=1).argsort(axis=1) >= max(1, played - round(share * played))
        scores[unlikely] = -np.inf
        return np.asarray(softmax(scores - scores.max(axis=1, keepdims=True)))

    return LoggingPolicy(world.action_names, chances)


def tell(found: Frame) -> Iterator[str]:
    """A table for each logger: a row for each world, `auto` first, then the methods that it chooses among."""
    others = METHODS[:-1]
    for (logger,), worlds in found.by("logger").items():
        yield f"{LOGGERS[logger].capitalize()}:"
        yield ""
        yield from table("", "`auto`", "behind", "of seven", "by seed", *(f"`{name}`" for name in others))
        for (place,), group in worlds.by("place").items():
            rows = {row["method"]: row for row in group}
            own = rows["auto"]["value"]
            lacks = (max(rows[name]["value"] for name in methods) - own for methods in (SIX, others))
            text = (*(f"{lack:.4f}" for lack in lacks), give(rows["auto"], "behind", 4))
            values = (f"{rows[name]['value']:.3f}" for name in others)
            yield line(place, f"{own:.3f}", *(each.replace("-", "−") for each in text), *values)
        yield ""


PART = Part(
    "methods",
    "learning.md",
    Setting(seeds=(0,), places=("vowel", "linear"), loggers=("softmax",), rows=500),
    Setting(),
    units,
    run,
    ("logger", "place", "method"),
    ("value", "behind", "behind_all"),
    tell,
)
