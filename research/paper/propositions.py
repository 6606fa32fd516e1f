"""Propositions 1 and 2: the bias of IPS under deficient support, and least squares on the log (C9, C10)."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import stats

from research.paper.coverage import MostlyBest
from research.paper.experiment import (
    FAILS,
    HOLDS,
    ONLY_WHEN,
    Analysis,
    Columns,
    Experiment,
    Pairs,
    Record,
    Verdict,
)
from research.paper.frame import Frame
from research.paper.intervals import LEVEL, Interval, band, mean, share
from sparing.evaluation import evaluate
from sparing.model.statistics import Statistics, least_squares
from sparing.simulation import LinearWorld, draw_log, logging_policy

ENOUGH = 10
"""Actions with so many rows for each feature at the smallest size take part in the slope."""

RATE, MARGIN = -0.5, 0.05
"""The slope of the error in N_a that theory gives, and how near to it an interval must come."""


@dataclass(frozen=True)
class Setting:
    """The paper's synthetic world under all four logging policies.

    Proposition 1: `logs` independent logs of `rows` rows for each world, logging policy and share n^UA; the
    policy evaluated is 0.8 on the action that θ* blurred by `blur` ranks first, and 0.2 spread evenly.
    Proposition 2: one growing log for each world and logging policy, read at `sizes` rows, with the share
    `growing_unsupported` of unsupported actions.
    """

    seeds: tuple[int, ...]
    logs: int = 50
    rows: int = 1000
    unsupported: tuple[float, ...] = (0.0, 0.2, 0.5, 0.8)
    supports: tuple[str, ...] = ("per-context", "never-logged", "region", "sharpened")
    blur: float = 0.5
    sizes: tuple[int, ...] = (2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000)
    growing_unsupported: float = 0.2
    actions: int = 20
    features: int = 5
    noise: float = 2.0


QUICK = Setting(seeds=tuple(range(4)), logs=20, unsupported=(0.0, 0.5), sizes=(2000, 4000, 8000, 16_000))
FULL = Setting(seeds=tuple(range(20)))


def units(setting: Setting) -> list[Record]:
    """One unit for each proposition, logging policy and seed."""
    world = {"actions": setting.actions, "features": setting.features, "noise": setting.noise}
    bias = {
        "kind": "bias",
        "logs": setting.logs,
        "rows": setting.rows,
        "unsupported": list(setting.unsupported),
        "blur": setting.blur,
    }
    growing = {
        "kind": "growing",
        "sizes": list(setting.sizes),
        "unsupported": setting.growing_unsupported,
    }
    return [
        {**kind, **world, "support": support, "seed": seed}
        for kind, support, seed in product((bias, growing), setting.supports, setting.seeds)
    ]


def run(unit: Record) -> Record:
    """One world under one logging policy: the bias of IPS over many logs, or least squares on a growing one."""
    world = LinearWorld(
        n_actions=unit["actions"], n_features=unit["features"], noise=unit["noise"], seed=unit["seed"]
    )
    if unit["kind"] == "growing":
        return _growing(world, unit)
    target = MostlyBest.blurred(world, unit["blur"], unit["seed"])
    return {"shares": [_bias(world, target, unit, at) for at in unit["unsupported"]]}


def _bias(world: LinearWorld, target: MostlyBest, unit: Record, unsupported: float) -> Record:
    """Proposition 1 for one share n^UA.

    Each log gives an estimate of both sides whose mean is exact, because its contexts are draws of P_x:
    measured = IPS − mean_i Σ_a π(a|x_i)δ(x_i, a), predicted = −mean_i Σ_{a∈U(x_i)} π(a|x_i)δ(x_i, a).
    """
    logger = logging_policy(unit["support"], world, unsupported=unsupported, seed=unit["seed"])
    measured, predicted, mass = np.empty((3, unit["logs"]))
    for number in range(unit["logs"]):
        seed = _own_seed(unit, f"{unsupported:g}", number)
        log = draw_log(world, rows=unit["rows"], policy=logger, seed=seed)
        estimate = evaluate(log, target, methods=("ips",)).estimates[0].value
        chances, worth = target.probabilities(log.contexts), world.means(log.contexts)
        outside = logger.probabilities(log.contexts) == 0
        measured[number] = estimate - (chances * worth).sum(axis=1).mean()
        predicted[number] = -(chances * worth * outside).sum(axis=1).mean()
        mass[number] = (chances * outside).sum(axis=1).mean()
    return {
        "unsupported": unsupported,
        "measured": mean(measured).to_dict(),
        "predicted": float(predicted.mean()),
        "difference": mean(measured - predicted).to_dict(),
        "mass": float(mass.mean()),
    }


def _growing(world: LinearWorld, unit: Record) -> Record:
    """Proposition 2: N_a and ‖θ̂_a − θ*_a‖ of every action as the log grows; (sizes, K) each.

    Pieces of log are added up, so that the smaller logs are parts of the larger ones.
    """
    logger = logging_policy(unit["support"], world, unsupported=unit["unsupported"], seed=unit["seed"])
    sums = Statistics.zero(unit["actions"], unit["features"])
    sizes = unit["sizes"]
    counts, errors = [], []
    for piece, (before, size) in enumerate(zip([0, *sizes], sizes, strict=False)):
        log = draw_log(world, rows=size - before, policy=logger, seed=_own_seed(unit, "growing", piece))
        sums = sums + Statistics.of(log)
        counts.append(sums.counts.tolist())
        errors.append(np.linalg.norm(least_squares(sums, 1.0) - world.theta, axis=1).tolist())
    return {"counts": counts, "errors": errors}


def _own_seed(unit: Record, part: str, number: int) -> int:
    """A seed for one log, so that no two logs of the experiment share their luck."""
    words = [unit["seed"], number, *f"{unit['support']} {part}".encode()]
    return int(np.random.SeedSequence(words).generate_state(1)[0])


def within_slope(counts: np.ndarray, errors: np.ndarray) -> float:
    """The exponent b of error ≈ c_a·N_a^b, one c_a for each action; arrays (sizes, actions)."""
    x, y = np.log(counts), np.log(errors)
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    return float((x * y).sum() / (x * x).sum())


@dataclass(frozen=True)
class Identity:
    """Proposition 1 under one logging policy.

    difference is measured − predicted bias over worlds; inside the share of cells (world, n^UA) whose own 95 %
    interval of it holds 0; size and largest the mean and largest |predicted|, error the mean |difference|; slope that
    of measured on predicted.
    """

    difference: Interval
    inside: Interval
    cells: int
    largest: float
    size: float
    error: float
    slope: float


@dataclass(frozen=True)
class Growth:
    """Proposition 2 under one logging policy.

    slope is the exponent of the error in N_a; shrunk the mean error at the largest size ÷ at the smallest; constant
    the mean of error·sqrt(N_a); left_out of actions were logged too rarely, or never: unlogged is the error of the latter.
    """

    slope: Interval
    shrunk: Interval
    constant: Interval
    left_out: int
    actions: int
    unlogged: Interval | None


def _plain(found: Identity | Growth) -> Record:
    """Plain values."""
    named = vars(found).items()
    return {name: value.to_dict() if isinstance(value, Interval) else value for name, value in named}


def analyse(setting: Setting, results: Pairs) -> Analysis:
    """Measured against predicted bias, the slope of the error in N_a, and the verdicts on C9 and C10."""
    points = Frame(_point(unit, found) for unit, result in results for found in result.get("shares", ()))
    paths = {support: _paths(setting, results, support) for support in setting.supports}
    identities = {support: _identity(points.where(support=support)) for support in setting.supports}
    grown = {support: _grown(setting, paths[support]) for support in setting.supports}
    slopes = [{"support": support, **found.slope.to_dict()} for support, found in grown.items()]
    return Analysis(
        numbers={
            "proposition_1": {support: _plain(found) for support, found in identities.items()},
            "proposition_2": {support: _plain(found) for support, found in grown.items()},
        },
        tables={
            "bias": points.columns(),
            "errors": _errors(setting, paths),
            "slopes": Frame(slopes).columns(),
        },
        verdicts=(proposition_1(setting, identities), proposition_2(setting, grown)),
    )


def _point(unit: Record, found: Record) -> Record:
    """Both sides of Proposition 1 for a world, logging policy and share."""
    row = {"support": unit["support"], "seed": unit["seed"], "unsupported": found["unsupported"]}
    for name in ("measured", "difference"):
        row |= Interval(**found[name]).named(name)
    return {**row, "predicted": found["predicted"], "mass": found["mass"]}


def _identity(points: Frame) -> Identity:
    predicted, measured, difference, low, high = (
        np.array(points[name])
        for name in ("predicted", "measured", "difference", "difference_low", "difference_high")
    )
    worlds = points.by("seed").values()
    inside = (low <= 0) & (high >= 0)
    slope, _ = np.polyfit(predicted, measured, 1)
    return Identity(
        difference=mean([float(np.mean(world["difference"])) for world in worlds]),
        inside=share(int(inside.sum()), len(inside)),
        cells=len(inside),
        largest=float(np.abs(predicted).max()),
        size=float(np.abs(predicted).mean()),
        error=float(np.abs(difference).mean()),
        slope=float(slope),
    )


@dataclass(frozen=True, eq=False)
class Path:
    """Counts and errors (sizes, K) of one growing log, and which actions have enough rows (K,)."""

    counts: np.ndarray
    errors: np.ndarray
    enough: np.ndarray


def _paths(setting: Setting, results: Pairs, support: str) -> list[Path]:
    found = []
    for unit, result in results:
        if (unit["kind"], unit["support"]) == ("growing", support):
            counts, errors = np.array(result["counts"]), np.array(result["errors"])
            found.append(Path(counts, errors, counts[0] >= ENOUGH * setting.features))
    return found


def _grown(setting: Setting, paths: list[Path]) -> Growth:
    slopes, last, constants, left_out, never = [], [], [], 0, []
    for path in paths:
        counts, errors = path.counts[:, path.enough], path.errors[:, path.enough]
        slopes.append(within_slope(counts, errors))
        last.append(float(errors[-1].mean() / errors[0].mean()))
        constants.append(float((errors[-1] * np.sqrt(counts[-1])).mean()))
        left_out += int((~path.enough).sum())
        never += path.errors[-1, path.counts[-1] == 0].tolist()
    unlogged = mean(never) if never else None
    return Growth(mean(slopes), mean(last), mean(constants), left_out, len(paths) * setting.actions, unlogged)


def _errors(setting: Setting, paths: Mapping[str, list[Path]]) -> Columns:
    """Geometric means over actions of N_a and of the error, over seeds, as the log grows."""
    rows = []
    for support, found in paths.items():
        counts = [np.log(path.counts[:, path.enough]).mean(axis=1) for path in found]
        errors = [np.log(path.errors[:, path.enough]).mean(axis=1) for path in found]
        steps = np.exp(np.mean(counts, axis=0))
        centre, low, high = (np.exp(line) for line in band(np.array(errors)))
        for place, size in enumerate(setting.sizes):
            ends = Interval(float(centre[place]), float(low[place]), float(high[place])).to_dict()
            rows.append({"support": support, "rows": size, "count": float(steps[place]), **ends})
    return Frame(rows).columns()


def at_once(interval: Interval, seeds: int, among: int) -> tuple[float, float]:
    """A 95 % Student interval widened so that `among` of them hold at once (Bonferroni)."""
    if np.isnan(interval.low):
        return -np.inf, np.inf
    wide, narrow = (stats.t.ppf(1 - (1 - LEVEL) / 2 / number, seeds - 1) for number in (among, 1))
    half = (interval.high - interval.value) * float(wide / narrow)
    return interval.value - half, interval.value + half


def proposition_1(setting: Setting, found: Mapping[str, Identity]) -> Verdict:
    """C9 holds under a logging policy if the difference of both sides is within sampling error of 0.

    Pooled over worlds: the interval, widened so that those of all logging policies hold at once, holds 0. World by
    world: not significantly fewer than 95 % of the 95 % intervals do.
    """
    held = []
    for support, identity in found.items():
        low, high = at_once(identity.difference, len(setting.seeds), len(found))
        if low <= 0 <= high and identity.inside.high >= LEVEL:
            held.append(support)
    measured = "; ".join(
        f"{support}: measured − predicted {identity.difference.text()}, predicted bias up to {identity.largest:.3g} in size "
        f"(mean {identity.size:.3g}), slope of measured on predicted {identity.slope:.3g}, own 95 % interval holds 0 in "
        f"{identity.inside.text()} of {identity.cells} cells"
        for support, identity in found.items()
    )
    when = (
        f"within sampling error under {', '.join(held) or 'none'}; {setting.logs} logs of {setting.rows:,} rows for each of "
        f"{len(setting.seeds)} worlds, n^UA = {', '.join(f'{at:g}' for at in setting.unsupported)}"
    )
    says = "the bias of IPS is minus the expected reward on unsupported actions"
    return Verdict("C9", "Proposition 1", says, measured, _word(held, found), when)


def proposition_2(setting: Setting, found: Mapping[str, Growth]) -> Verdict:
    """C10 holds under a logging policy if the error falls with N_a at a rate within the margin of −1/2."""
    held = []
    for support, growth in found.items():
        low, high = (
            growth.slope.value if np.isnan(end) else end for end in (growth.slope.low, growth.slope.high)
        )
        if high < 0 and low <= RATE + MARGIN and high >= RATE - MARGIN:
            held.append(support)
    measured = "; ".join(
        f"{support}: slope of the error in N_a {growth.slope.text()} (theory {RATE:g}), error at {setting.sizes[-1]:,} rows "
        f"{growth.shrunk.text()} of that at {setting.sizes[0]:,}, error·sqrt(N_a) {growth.constant.text()}"
        for support, growth in found.items()
    )
    when = (
        f"under {', '.join(held) or 'none'}, for actions that are logged; left out as logged too rarely or never: "
        + ", ".join(f"{support} {growth.left_out} of {growth.actions}" for support, growth in found.items())
    )
    unlogged = {support: growth.unlogged for support, growth in found.items() if growth.unlogged is not None}
    if unlogged:
        when += "; error of never-logged actions, however long the log: " + ", ".join(
            f"{support} {interval.text()}" for support, interval in unlogged.items()
        )
    says = "least squares on the log converges to θ* as N_a grows"
    return Verdict("C10", "Proposition 2", says, measured, _word(held, found), when)


def _word(held: list[str], found: Mapping[str, object]) -> str:
    return HOLDS if len(held) == len(found) else ONLY_WHEN if held else FAILS


EXPERIMENT = Experiment(
    name="propositions",
    title="The bias of IPS where support is deficient, and least squares on the log",
    quick=QUICK,
    full=FULL,
    units=units,
    run=run,
    analyse=analyse,
)
