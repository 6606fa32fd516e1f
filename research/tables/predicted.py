"""What a plan predicts against what comes, and how often intervals hold, in exchangeable worlds whose scales are drawn too."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from research.paper.experiment import Record
from research.paper.frame import Frame
from research.tables.part import Part, give, line, table
from sparing.log import Log
from sparing.online import algorithms
from sparing.planning.plan import plan
from sparing.simulation.simulate import play
from sparing.simulation.worlds import Stream

FEATURES = 4  # with a constant
PRICE = 0.05  # of a call, in units of the reward deviation
LEVEL, SLOPES, LOG_DEVIATION = 0.34, 0.23, 0.73
SIZE = {"0/1": 0.45}  # reward deviation; 1 for the others


@dataclass(frozen=True)
class Setting:
    """Rows of the log and live rounds; kinds of rewards, and those that the model does not fit; logged actions, and one is not."""

    seeds: tuple[int, ...] = tuple(range(200))
    rows: int = 1000
    kinds: tuple[str, ...] = ("normal", "0/1")
    misfits: tuple[str, ...] = ("cubic", "missing feature")
    logged: tuple[int, ...] = (2, 3, 5, 10)


def units(setting: Setting) -> list[Record]:
    """A kind of rewards, a number of logged actions and a seed each."""
    places = [
        *itertools.product(setting.kinds, setting.logged, setting.seeds),
        *itertools.product(setting.misfits, setting.logged[1:2], setting.seeds[:100]),
    ]
    return [
        {"kind": kind, "logged": logged, "seed": seed, "rows": setting.rows} for kind, logged, seed in places
    ]


def world(kind: str, logged: int, seed: int, rows: int) -> tuple[Log, Stream]:
    """A log of `logged` of one action more, uniform, and as many live rounds.

    Actions differ by scales drawn from the hyperprior. Rewards are normal, 0 or 1, normal around a cubic of the features, or
    normal and dependent on a feature that the log does not have.
    """
    rng, d, k = np.random.default_rng([seed, logged, len(kind)]), FEATURES, logged + 1
    size, binary = SIZE.get(kind, 1.0), kind == "0/1"
    level, slopes = (c * np.exp(LOG_DEVIATION * rng.standard_normal()) for c in (LEVEL, SLOPES))
    shared = np.r_[0.3 if binary else 1.0, size * 0.3 * rng.standard_normal(d - 1) / np.sqrt(d - 1)]
    own = level * rng.standard_normal((k, 1)), slopes * rng.standard_normal((k, d - 1)) / np.sqrt(d - 1)
    theta, bend = shared + size * np.hstack(own), rng.standard_normal((k, d - 1)) / np.sqrt(d - 1)

    def drawn() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x = np.c_[np.ones(rows), rng.standard_normal((rows, d - 1))]
        means = x @ theta.T
        if kind == "cubic":
            means = means + 0.25 * (x[:, 1:] @ bend.T) ** 3
        if kind == "missing feature":
            means = means + 0.4 * rng.standard_normal((rows, 1)) * bend[:, 0] * np.sqrt(d - 1)
        return (
            x,
            means.clip(0.02, 0.98) if binary else means,
            rng.random(rows) if binary else rng.standard_normal(rows),
        )

    streams = [Stream(*drawn(), binary=binary) for _ in range(2)]
    actions = rng.integers(logged, size=rows)
    log = Log.from_indices(
        streams[0].contexts, actions.astype(np.int32), streams[0].rewards(actions), tuple(range(k))
    )
    return log, streams[1]


def run(unit: Record) -> Record:
    """The plan of one log, what `economical` and the log alone then do, and whether intervals hold it."""
    log, stream = world(unit["kind"], unit["logged"], unit["seed"], unit["rows"])
    cost, rounds, seed = PRICE * SIZE.get(unit["kind"], 1.0), len(stream), unit["seed"]
    settings: Record = {"worlds": unit.get("worlds", 40), "workers": 1, "seed": seed}
    found = plan(log, horizon=rounds, call_cost=cost, learners=("economical",), **settings)
    option = found.options[1]
    starts = [
        algorithms.economical(log, call_cost=cost, horizon=rounds, seed=seed, calls=calls)
        for calls in (None, 0)
    ]
    live = stream.contexts[:50]
    theta = np.linalg.lstsq(stream.contexts, stream.means, rcond=None)[0].T
    spread = starts[0].assumptions.noise * np.sqrt(
        np.einsum("nd,kde,ne->nk", live, starts[0].sets.inverse, live)
    )
    held = np.abs(live @ (starts[0].sets.theta - theta).T) <= 1.96 * spread
    asked, alone = (play(each, stream) for each in starts)
    # Regret is against the best policy of these features: what a missing one would explain is noise.
    means = stream.contexts @ theta.T if unit["kind"] == "missing feature" else stream.means
    regrets = [
        float((means.max(axis=1) - means[np.arange(rounds), each.actions]).sum()) for each in (asked, alone)
    ]
    net = regrets[1] - regrets[0] - cost * float(asked.calls[-1])
    predicted = found.net(option)
    assert predicted is not None

    def holds(summary: object, value: float) -> float:
        return float(summary.low <= value <= summary.high)  # type: ignore[attr-defined]

    row = {
        "predicted": predicted.mean,
        "realised": net,
        "off": predicted.mean - net,
        "net": holds(predicted, net),
        "calls": holds(option.calls_at(), float(asked.calls[-1])),
        "regret": holds(option.regret_at(), regrets[0]),
        "logged_value": float(held[:, : unit["logged"]].mean()),
        "new_value": float(held[:, unit["logged"] :].mean()),
    }
    return {"rows": [row]}


def tell(found: Frame) -> Iterator[str]:
    """A row for each kind of rewards and number of logged actions."""
    held = ("net", "calls", "regret", "logged_value", "new_value")
    yield from table(
        "rewards",
        "logged",
        "net predicted",
        "realised",
        "difference",
        "90 % of net",
        "of calls",
        "of regret",
        "95 % of a logged value",
        "of a new one",
    )
    for row in found.rows:
        cells = (give(row, name, percent=True).partition("\u00a0±")[0] + " %" for name in held)
        yield line(
            row["kind"],
            str(row["logged"]),
            give(row, "predicted"),
            give(row, "realised"),
            give(row, "off"),
            *cells,
        )


PART = Part(
    "predicted",
    "planning.md",
    Setting(seeds=(0, 1), kinds=("normal",), logged=(2,), rows=300),
    Setting(),
    units,
    run,
    ("kind", "logged"),
    ("predicted", "realised", "off", "net", "calls", "regret", "logged_value", "new_value"),
    tell,
)
