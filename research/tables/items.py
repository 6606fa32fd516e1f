"""Items: what features of the actions are worth where the actions' parameters follow them wholly, in part or not at all."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from research.paper.experiment import Record
from research.paper.frame import Frame
from research.tables.part import Part, give, line, table
from sparing.online.algorithms import certified, confident
from sparing.online.learner import Learner
from sparing.simulation import LinearWorld, draw_log, simulate

FEATURES, ITEM_FEATURES, ITEM_STREAM = 5, 4, 34
LEARNERS: dict[str, tuple[Callable[..., Learner], Record]] = {
    "confident, τ = .1": (confident, {"tolerance": 0.1}),
    "certified × .2, τ = .3": (certified, {"tolerance": 0.3, "radius_scale": 0.2}),
}
WITHOUT, WITH = "without items", "with items"


@dataclass(frozen=True)
class Setting:
    """Actions and the log's rows; the residual's shares of the parameters' variance; rounds to play."""

    seeds: tuple[int, ...] = tuple(range(10))
    sizes: tuple[tuple[int, int], ...] = ((50, 3_000), (500, 20_000))
    shares: tuple[float, ...] = (0.0, 0.25, 1.0)
    rounds: int = 3000


def units(setting: Setting) -> list[Record]:
    """A size, a share and a seed each."""
    return [
        {"actions": actions, "rows": rows, "share": share, "seed": seed, "rounds": setting.rounds}
        for (actions, rows), share, seed in itertools.product(setting.sizes, setting.shares, setting.seeds)
    ]


def run(unit: Record) -> Record:
    """θ_a = √(1 − share)·W z_a + √share·η_a, both parts of variance 1; learners that see z_a, and that do not."""
    k, share, seed = unit["actions"], unit["share"], unit["seed"]
    rng = np.random.default_rng([seed, ITEM_STREAM])
    items = rng.standard_normal((k, ITEM_FEATURES))
    common = items @ rng.standard_normal((ITEM_FEATURES, FEATURES)) / ITEM_FEATURES**0.5
    theta = (1 - share) ** 0.5 * common + share**0.5 * rng.standard_normal((k, FEATURES))
    world = LinearWorld(theta=theta, noise=1.0)
    log = draw_log(world, rows=unit["rows"], support="never-logged", unsupported=0.3, seed=seed)
    rows = []
    for (name, (make, settings)), seen in itertools.product(LEARNERS.items(), (WITHOUT, WITH)):
        options = {"items": items} if seen == WITH else {}
        trace = simulate(make(log, seed=seed, **settings, **options), world, rounds=unit["rounds"], seed=seed)
        found = {"calls": int(trace.calls[-1]), "regret": float(trace.regret[-1])}
        rows.append({"learner": name, "items": seen, **found})
    return {"rows": rows}


def tell(found: Frame) -> Iterator[str]:
    """Calls and regret, a row for each size and share."""
    heads = (f"{name}: {seen}" for name in LEARNERS for seen in (WITHOUT, WITH))
    yield from table("actions", "residual's share of the variance", *heads)
    for (actions, share), group in found.by("actions", "share").items():
        rows = [
            group.where(learner=name, items=seen).rows[0] for name in LEARNERS for seen in (WITHOUT, WITH)
        ]
        cells = (f"{give(row, 'calls')} / {give(row, 'regret')}" for row in rows)
        yield line(f"{actions}", f"{share:g}", *cells)


PART = Part(
    "items",
    "math.md",
    Setting(seeds=(0,), sizes=((20, 500),), shares=(0.25,), rounds=100),
    Setting(),
    units,
    run,
    ("actions", "share", "learner", "items"),
    ("calls", "regret"),
    tell,
)
