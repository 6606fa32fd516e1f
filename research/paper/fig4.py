"""Fig. 4: classification of three UCI sets as a bandit problem (claim C5)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, product

import numpy as np

from research import learners
from research.learners import IPS, OFFLINE, OPR, ROLES, label
from research.paper import sweeps
from research.paper.experiment import FAILS, Analysis, Experiment, Pairs, Record, Verdict
from research.paper.frame import Frame
from research.paper.intervals import Interval
from research.paper.judging import Finding, above, below, counted, every, within, word
from research.paper.sweeps import BEYOND, gap
from sparing.log import Log
from sparing.model.confidence import most_logged
from sparing.online.learner import Learner
from sparing.policies.policy import Policy
from sparing.simulation import ClassificationWorld, datasets, draw_log, logging_policy, simulate

SWEPT = ("datasets", "noisy", "unsupported", "seeds", "opr_unsupported")
"""Fields of which a unit has one value each; it runs all streams and radius scales."""

WHERE = ("dataset", "rewards", "stream", "scale", "unsupported")
METRICS = ("held_out", "live", "calls", "regret")
MEASURES = {"held_out": "held-out error", "live": "error live"}

NEARLY = 0.02
"""Errors that differ by no more are nearly the same."""

MOSTLY = 0.9
"""A condition suffices if this share of the settings that meet it bear a claim out."""

PAPER = (*OPR, "moful", "eps_moful", "eps_moful_ips")

Levels = tuple[str, ...]
"""A setting in words."""

Placed = dict[Levels, Finding]


@cache
def load(name: str) -> datasets.Dataset:
    """A data set, read once in a process."""
    return datasets.load(name)


@dataclass(frozen=True)
class Setting:
    """Data sets as bandits, the shares n^UA of unsupported actions of their logs, and the learners' settings.

    60 % of a set's rows are logged (the first `rows` of them if given), 25 % are the live part, 15 % are held
    out. A run has `rounds` rounds: of the live part (`fresh`), or of the log's own contexts (`in-log`).
    L = K/2 by the most rows, points fitted to the log; S_x = 1, S_θ estimated from the log. Policy restriction
    takes most of the time: it is run at `opr_unsupported` only, with k of three and l2 among `opr_l2` (in
    deviations of the reward), chosen by `opr_folds` folds.
    """

    seeds: tuple[int, ...] = tuple(range(10))
    datasets: tuple[str, ...] = ("letter", "pendigits", "satimage")
    noisy: tuple[bool, ...] = (False, True)
    streams: tuple[str, ...] = ("in-log", "fresh")
    unsupported: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8)
    radius_scales: tuple[float, ...] = (1.0, 0.2)
    rounds: int = 1200
    rows: int | None = None
    noise: float = 0.5
    ridge: float = 1.0
    delta: float = 0.05
    radius: str = "determinant"
    tolerance: float = 0.1
    opr_unsupported: tuple[float, ...] = (0.0, 0.4, 0.8)
    opr_l2: tuple[float, ...] = (1e-5,)
    opr_folds: int = 2


FULL = Setting()
QUICK = replace(
    FULL,
    seeds=(0, 1, 2),
    unsupported=(0.2, 0.8),
    rounds=400,
    rows=2000,
    opr_unsupported=(0.2, 0.8),
    opr_l2=(1e-4,),
)


def units(setting: Setting) -> list[Record]:
    """One unit a seed, set, kind of reward and share of unsupported actions; the smallest set comes first."""
    common = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(setting).items()
        if name not in SWEPT
    }
    axes = (setting.seeds, tuple(reversed(setting.datasets)), setting.noisy, setting.unsupported)
    return [
        {"dataset": dataset, "noisy": noisy, "unsupported": share, "seed": seed, **common, **ROLES}
        | {"offline": [name for name in OFFLINE if name != "opr" or share in setting.opr_unsupported]}
        for seed, dataset, noisy, share in product(*axes)
    ]


def run(unit: Record) -> Record:
    """Errors live and on held-out rows, calls and regret of every algorithm on every stream."""
    world = ClassificationWorld(load(unit["dataset"]), noisy=unit["noisy"], seed=unit["seed"])
    log = draw_log(world, rows=unit["rows"], unsupported=unit["unsupported"], seed=unit["seed"])
    outcomes = list(_offline(world, log, unit))
    for stream in unit["streams"]:
        for scale in unit["radius_scales"]:
            outcomes += _scaled(world, log, unit, stream, scale)
        outcomes += [_live(name, world, log, unit, stream) for name in unit["scale_free"]]
    return {"outcomes": outcomes, "log_rows": log.n_rows, "features": world.n_features}


def error(policy: Policy, world: ClassificationWorld, rows: np.ndarray) -> float:
    """The chance that a policy gets one of these rows wrong, 1 − mean π(c|x)."""
    table = policy.probabilities(world.features[rows])
    return float(1 - table[np.arange(len(rows)), world.labels[rows]].mean())


def _offline(world: ClassificationWorld, log: Log, unit: Record) -> Iterator[Record]:
    """Policies from the log alone: errors on the rows that a stream draws from, and on held-out rows."""
    logger = logging_policy("per-context", world, unsupported=unit["unsupported"], seed=unit["seed"])
    options = {"l2": unit["opr_l2"], "folds": unit["opr_folds"], "seed": unit["seed"]}
    for name in unit["offline"]:
        policy = learners.offline(name, log, logger=logger, **options)
        for stream in unit["streams"]:
            rows = world.log_rows if stream == "in-log" else world.live_rows
            yield {
                "algorithm": name,
                "stream": stream,
                "live": error(policy, world, rows),
                "held_out": error(policy, world, world.held_out_rows),
                "calls": 0,
                "regret": 0.0,
            }


def _scaled(world: ClassificationWorld, log: Log, unit: Record, stream: str, scale: float) -> list[Record]:
    """The algorithms that have a radius."""
    found: dict[str, Record] = {}
    for name in unit["scaled"]:
        if name in IPS and stream == "fresh":
            # None of these contexts is in the log, so `log-beats` never fires: it is ε-mOFUL, step for step.
            found[name] = found["eps_moful"] | {"algorithm": name}
        else:
            found[name] = _live(name, world, log, unit, stream, scale) | {"scale": scale}
    return list(found.values())


def _live(
    name: str, world: ClassificationWorld, log: Log, unit: Record, stream: str, scale: float = 1.0
) -> Record:
    learner = start(name, log, unit, scale)
    trace = simulate(learner, world, rounds=unit["rounds"], seed=unit["seed"], stream=stream, log=log)
    return {
        "algorithm": name,
        "stream": stream,
        "live": float((trace.losses > 0).mean()),
        "held_out": error(learner.policy(), world, world.held_out_rows),
        "calls": learner.calls,
        "regret": float(trace.losses.sum()),
    }


def start(name: str, log: Log, unit: Record, scale: float) -> Learner:
    """One of the learners at its beginning."""
    same = {key: unit[key] for key in ("noise", "ridge", "delta", "radius", "tolerance", "seed")}
    half = most_logged(log.n_actions // 2)
    return learners.start(name, log, supported=half, context_bound=1.0, radius_scale=scale, **same)


def kind(noisy: bool) -> str:
    """The kind of reward in words."""
    return "noisy" if noisy else "noiseless"


def places(setting: Setting) -> list[Record]:
    """All settings of the comparison."""
    kinds = [kind(noisy) for noisy in setting.noisy]
    axes = (setting.datasets, kinds, setting.streams, setting.radius_scales, setting.unsupported)
    return [dict(zip(WHERE, levels, strict=True)) for levels in product(*axes)]


def analyse(setting: Setting, results: Pairs) -> Analysis:
    """Means and differences by data set, reward, stream, radius scale and n^UA, and what becomes of C5."""
    runs = Frame(
        {
            "dataset": unit["dataset"],
            "rewards": kind(unit["noisy"]),
            "stream": outcome["stream"],
            "scale": outcome.get("scale"),
            "unsupported": unit["unsupported"],
            "algorithm": outcome["algorithm"],
            "shown": label(outcome["algorithm"]),
            "seed": unit["seed"],
            **{name: outcome[name] for name in METRICS},
        }
        for unit, result in results
        for outcome in result["outcomes"]
    )
    logs = {
        f"{unit['dataset']}, {kind(unit['noisy'])}": {
            "rows": result["log_rows"],
            "features": result["features"],
        }
        for unit, result in results
    }
    names = (*WHERE, "algorithm")
    tables = {
        "summary": sweeps.summary(runs, (*names, "shown"), METRICS),
        "differences": sweeps.gains(runs, places(setting), MEASURES).columns(),
        "runs": sweeps.listed(runs, names, METRICS),
    }
    claims = (ips_is_lowest, opr_is_highest, points_change_little)
    return Analysis({"logs": logs}, tables, tuple(claim(setting, runs) for claim in claims))


def ips_is_lowest(setting: Setting, runs: Frame) -> Verdict:
    """ε-mOFUL-IPS below all others of the paper; on fresh contexts it is ε-mOFUL, so only in-log can tell."""
    others = tuple(name for name in PAPER if name not in IPS)
    findings = {
        (label(ips), *levels): every(map(below, gaps.values()))
        for ips in IPS
        for levels, gaps in _gaps(setting, runs, ips, others)
        if "in-log" in levels
    }
    beyond = "; ".join(f"{label(name)} {_beats(setting, runs, name)}" for name in BEYOND)
    more = (
        "On fresh contexts ε-mOFUL-IPS is ε-mOFUL, step for step, and cannot be lower. Not in the paper: held-out "
        f"error below that of ε-mOFUL-IPS: {beyond}"
    )
    says = "ε-mOFUL-IPS has the lowest classification error on all three sets, noiseless and noisy"
    return _verdict("ε-mOFUL-IPS lowest", says, findings, _example(setting, runs), more)


def opr_is_highest(setting: Setting, runs: Frame) -> Verdict:
    """OPR above all others of the paper."""
    others = tuple(name for name in PAPER if name not in OPR)
    findings, smallest = {}, {}
    for opr in OPR:
        for levels, gaps in _gaps(setting, runs, opr, others):
            findings[label(opr), *levels] = every(map(above, gaps.values()))
            smallest[label(opr), *levels] = min(gaps.values(), key=lambda gap: gap.value)
    texts = f"OPR less the highest of the others: {_range(smallest)}"
    says = "OPR has the highest classification error on all three sets"
    return _verdict("OPR highest", says, findings, texts)


def points_change_little(setting: Setting, runs: Frame) -> Verdict:
    """ε-mOFUL within .02 of mOFUL."""
    gaps = {levels: one["moful"] for levels, one in _gaps(setting, runs, "eps_moful", ("moful",))}
    findings = {levels: within(gap, NEARLY) for levels, gap in gaps.items()}
    lower = [below(gap) for gap in gaps.values()]
    more = (
        f"ε-mOFUL's error is below mOFUL's in {lower.count(True)} of {len(lower)} settings, above it in "
        f"{lower.count(False)}"
    )
    says = f"ε-mOFUL and mOFUL have nearly the same error (within {NEARLY:g})"
    return _verdict("ε-mOFUL near mOFUL", says, findings, f"ε-mOFUL less mOFUL: {_range(gaps)}", more)


def _gaps(
    setting: Setting, runs: Frame, name: str, others: tuple[str, ...]
) -> Iterator[tuple[Levels, dict[str, Interval]]]:
    """One algorithm less each of the others, for both errors and every setting where it was run."""
    for metric, shown in MEASURES.items():
        for place in places(setting):
            if len(sweeps.at(runs, name, place)):
                there = [other for other in others if len(sweeps.at(runs, other, place))]
                levels = (shown, *_levels(place))
                yield levels, {other: gap(runs, name, other, place, metric) for other in there}


def _levels(place: Record) -> Levels:
    """A setting in words, one for each of WHERE."""
    scale, share = f"radius × {place['scale']:g}", f"n^UA {place['unsupported']:g}"
    return place["dataset"], place["rewards"], place["stream"], scale, share


def _range(gaps: dict[Levels, Interval]) -> str:
    return " to ".join(f"{gaps[levels].text()} ({', '.join(levels)})" for levels in sweeps.span(gaps))


def conditions(findings: Placed) -> list[Levels]:
    """Single levels, and pairs of others, under which nine in ten settings or more bear a claim out."""
    levels = [level for axis in _axes(findings) for level in axis]
    single = [(level,) for level in levels if _fraction(findings, (level,)) >= MOSTLY]
    pairs = [
        pair
        for pair in combinations(levels, 2)
        if not any(set(one) <= set(pair) for one in single) and _fraction(findings, pair) >= MOSTLY
    ]
    return [*single, *pairs]


def _axes(findings: Placed) -> list[Levels]:
    """The levels of each dimension in which settings differ."""
    axes = (tuple(dict.fromkeys(dimension)) for dimension in zip(*findings, strict=True))
    return [axis for axis in axes if len(axis) > 1]


def _fraction(findings: Placed, levels: Levels) -> float:
    """Of the settings with these levels, how many bear a claim out; 0 where there are none."""
    chosen = [found is True for place, found in findings.items() if set(levels) <= set(place)]
    return sum(chosen) / len(chosen) if chosen else 0.0


def _margins(findings: Placed) -> str:
    """Shares of settings in which a claim was borne out, by each level of each dimension."""
    parts = (", ".join(f"{level} {_share(findings, level)}" for level in axis) for axis in _axes(findings))
    return f"borne out: {'; '.join(parts)}"


def _share(findings: Placed, level: str) -> str:
    chosen = [found for levels, found in findings.items() if level in levels]
    return f"{chosen.count(True)}/{len(chosen)}"


def _beats(setting: Setting, runs: Frame, name: str) -> str:
    found = [below(gap(runs, name, "eps_moful_ips", place, "held_out")) for place in places(setting)]
    return f"in {found.count(True)} of {len(found)} settings (above in {found.count(False)})"


def _verdict(part: str, says: str, findings: Placed, texts: str, more: str = "") -> Verdict:
    """Holds if borne out everywhere; only when, if one or two levels suffice for nine in ten settings."""
    flat = {"": {" ".join(levels): found for levels, found in findings.items()}}
    enough = conditions(findings)
    verdict = word(flat) if enough else FAILS
    when = "; ".join(" and ".join(levels) for levels in enough) or "no one or two of these settings suffice"
    when = f"{when} ({_margins(findings)})" + (f". {more}" if more else "")
    return Verdict("C5", f"Fig. 4: {part}", says, f"{counted(flat)}. {texts}", verdict, when)


def _example(setting: Setting, runs: Frame) -> str:
    """Held-out errors of the paper's algorithms in one column of the sweep."""
    shares = [at for at in setting.unsupported if at in setting.opr_unsupported] or setting.unsupported
    share = shares[len(shares) // 2]
    stream, scale = setting.streams[0], setting.radius_scales[-1]
    rows = []
    for place in places(setting):
        if (place["stream"], place["scale"], place["unsupported"]) == (stream, scale, share):
            there = {name: found for name in PAPER if len(found := sweeps.at(runs, name, place))}
            texts = [f"{label(name)} {found.mean('held_out').text()}" for name, found in there.items()]
            rows.append(f"{place['dataset']} {place['rewards']}: {', '.join(texts)}")
    return f"Held-out errors at n^UA {share:g}, {stream}, radius × {scale:g}: {'; '.join(rows)}"


EXPERIMENT = Experiment(
    name="fig4",
    title="Classification error on letter, pendigits and satimage, by the share of unsupported actions",
    quick=QUICK,
    full=FULL,
    units=units,
    run=run,
    analyse=analyse,
)
