"""Does the interval of a freshly learnt policy hold what the policy is worth, on rows held out and on those that taught it?"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from research.paper.experiment import Record
from research.paper.frame import Frame
from research.tables.part import Part, line, table
from research.tables.shapes import ShapedWorld
from sparing.evaluation import evaluate
from sparing.learning import learn
from sparing.log import Log
from sparing.policies.policy import Policy
from sparing.simulation import LinearWorld, draw_log

CONTEXTS, CONTEXT_STREAM = 20_000, 36
"""Contexts by which a policy's true value is computed, and their random stream."""

README = "readme"
SCALES = {"clicks": 0.4, "bold clicks": 1.0}
"""Deviations of the parameters in worlds of clicks."""

WORLDS = {
    README: "the README's setting: 20 actions, 5 features, noise 2, 3,000 rows, four actions never logged",
    "clicks": "clicks: 278 actions, 8 features, 20,000 rows of 0 and 1, means 1/(1 + e^(3 − z)), z = x·θ_a, θ ~ N(0, .16·I), logged uniformly",
    "bold clicks": "the same, θ ~ N(0, I)",
}
METHODS = ("dr", "ips")
HELD_OUT, IN_SAMPLE = "held out", "in-sample"


@dataclass(frozen=True)
class Setting:
    """So many logs of each world."""

    seeds: tuple[int, ...] = tuple(range(100))
    worlds: tuple[str, ...] = tuple(WORLDS)


def units(setting: Setting) -> list[Record]:
    """A world and a seed each."""
    return [
        {"world": world, "seed": seed} for world, seed in itertools.product(setting.worlds, setting.seeds)
    ]


def run(unit: Record) -> Record:
    """Whether the intervals of `greedy` hold its true value; the rest of the rows is what taught it."""
    seed = unit["seed"]
    world, log = _readme(seed) if unit["world"] == README else _clicks(seed, SCALES[unit["world"]])
    policy: Any = learn(log, "greedy", holdout=0.3, seed=seed)
    truth = _value(world, policy, seed)
    teaching = log.take(~policy.trained_on.split.held_out(log))
    rows = []
    for where, part, taught in ((HELD_OUT, log, "refuse"), (IN_SAMPLE, teaching, "allow")):
        for found in evaluate(part, policy, methods=METHODS, training_rows=taught).estimates:
            holds = not found.refused and found.low <= truth <= found.high
            row = {"where": where, "method": found.method, "truth": truth, "holds": float(holds)}
            rows.append(row | {"effective": found.effective_sample_size, "refused": float(found.refused)})
    return {"rows": rows}


def _readme(seed: int) -> tuple[LinearWorld, Log]:
    world = LinearWorld(n_actions=20, n_features=5, noise=2.0, seed=seed)
    return world, draw_log(world, rows=3000, support="never-logged", unsupported=0.2, seed=seed)


def _clicks(seed: int, scale: float) -> tuple[ShapedWorld, Log]:
    shape = "1/(1 + e^(3 − z)), rewards 0 or 1"
    world = ShapedWorld(shape, n_actions=278, n_features=8, seed=seed, scale=scale)
    known: Any = world
    return world, draw_log(known, rows=20_000, support="never-logged", unsupported=0.0, seed=seed)


def _value(world: LinearWorld | ShapedWorld, policy: Policy, seed: int) -> float:
    contexts = world.contexts(CONTEXTS, np.random.default_rng([seed, CONTEXT_STREAM]))
    return float(world.means(contexts)[np.arange(CONTEXTS), policy.indices(contexts)].mean())


def tell(found: Frame) -> Iterator[str]:
    """A row for each world."""
    yield from table("", "truth", "effective rows", *(f"`{name}`: held out / in-sample" for name in METHODS))
    for (world,), group in found.by("world").items():
        first = group.where(where=HELD_OUT, method="ips").rows[0]
        shares = (
            " / ".join(
                f"{group.where(where=where, method=name)['holds'][0]:.2f}" for where in (HELD_OUT, IN_SAMPLE)
            )
            for name in METHODS
        )
        yield line(WORLDS[world], f"{first['truth']:.3g}", f"{first['effective']:.0f}", *shares)


PART = Part(
    "holding",
    "evaluation.md",
    Setting(seeds=(0, 1), worlds=(README,)),
    Setting(),
    units,
    run,
    ("world", "where", "method"),
    ("truth", "effective", "holds", "refused"),
    tell,
)
