"""The pieces of work: every algorithm in one cell with its bounds, and two worlds apart."""

from dataclasses import asdict, replace
from itertools import product

import numpy as np

from research.learners import IPS, LIMIT, RATIO, UNCLIPPED
from research.paper.experiment import Record
from research.paper.synthetic import LIVE_STREAM, Synthetic
from research.paper.theorems.bounds import Lived
from research.paper.theorems.setting import Cell, Setting
from sparing.log import Log
from sparing.model.confidence import supported_actions
from sparing.online.algorithms import eps_moful
from sparing.online.learner import Learner
from sparing.online.log_beats import LogBeats
from sparing.policies.pi_plus import pi_plus
from sparing.simulation import LinearWorld, Stream, draw_log
from sparing.simulation.simulate import Trace, play

POINTS = 41
"""Points of a curve, evenly spaced in log t from T/100 to T."""

CLIPS = dict(zip(IPS, (RATIO, UNCLIPPED), strict=True))
"""M of the two runs of ε-mOFUL-IPS."""

ALGORITHMS = ("moful", "eps_moful", *CLIPS, "certified")
GIVEN = ("eps_moful", *CLIPS)
"""What is run with 𝓛 = all actions."""

MENDED = ("eps_moful", LIMIT)
"""What is run to see what limits do to `log-beats`."""

KINDS = ("explore", "supported", "log-beats")

CONTRARY_EPSILON = 0.2
CONTRARY_MARGIN = 0.02
CONTRARY_NOISE = 0.1


def units(setting: Setting) -> list[Record]:
    """One unit for each cell and seed, and the worlds apart."""
    features = sorted({cell.features for cell in setting.cells})
    main = Cell(setting.main.features, rounds=setting.given_rounds)
    cells = [
        {"kind": "cell", "synthetic": asdict(_synthetic(setting, cell, seed))}
        for cell, seed in product(setting.cells, setting.seeds)
    ]
    knowing = [
        {
            "kind": "knowing",
            "noises": list(setting.noises),
            "synthetic": asdict(_synthetic(setting, Cell(d, rounds=setting.knowing_rows), seed)),
        }
        for d, seed in product(features, setting.seeds)
    ]
    mended = [_synthetic(setting, cell, seed) for cell, seed in product(setting.alike, setting.seeds)]
    every = [replace(_synthetic(setting, main, seed), supported=setting.actions) for seed in setting.seeds]
    return [
        *cells,
        *knowing,
        *({"kind": "given", "synthetic": asdict(world)} for world in every),
        *({"kind": "contrary", "rounds": setting.contrary_rounds, "seed": seed} for seed in setting.seeds),
        *({"kind": "mended", "synthetic": asdict(world)} for world in mended),
    ]


def _synthetic(setting: Setting, cell: Cell, seed: int) -> Synthetic:
    """The paper's world with what the cell says, and what it leaves to the setting."""
    names = (
        "actions",
        "noise",
        "epsilon",
        "ridge",
        "delta",
        "supported",
        "unsupported",
        "support",
        "tolerance",
    )
    same = {name: getattr(setting, name) for name in names}
    return Synthetic(rows=cell.rounds, seed=seed, **same, **asdict(cell))


def run(unit: Record) -> Record:
    """One unit."""
    if unit["kind"] == "contrary":
        return contrary(rounds=unit["rounds"], seed=unit["seed"])
    base = Synthetic(**unit["synthetic"])
    if unit["kind"] == "knowing":
        return {"rates": [knowing(replace(base, noise=noise)) for noise in unit["noises"]]}
    return run_cell(base, {"given": GIVEN, "mended": MENDED}.get(unit["kind"], ALGORITHMS))


def checkpoints(rounds: int) -> np.ndarray:
    """The rounds at which curves are read, T/10 among them."""
    return np.unique(np.geomspace(max(rounds / 100, 1), rounds, POINTS).round().astype(int))


def run_cell(base: Synthetic, names: tuple[str, ...] = ALGORITHMS) -> Record:
    """All algorithms on one world, one log and one luck, each with its bounds on the way."""
    world = base.world()
    log = base.log(world)
    stream = base.live_stream(world, log)
    points = checkpoints(base.rounds)
    worst = (stream.means.max(axis=1) - stream.means.min(axis=1)).cumsum()
    result: Record = {"t": points.tolist(), "worst": worst[points - 1].tolist()}
    for name in names:
        learner = base.learner(name, world, log)
        epsilon = realised_epsilon(learner, world)
        trace, curves = followed(learner, stream, points, epsilon=epsilon, tolerance=base.tolerance)
        result[name] = curves
        if learner.sets.frozen.any():
            result[name] |= {
                "epsilon": epsilon,
                "context_bound": learner.assumptions.context_bound,
                "kinds": _kinds(trace, points),
                "dearest_skip": float(trace.losses[trace.reasons == "supported"].max(initial=0.0)),
            }
        if name == "certified":
            result[name]["dearest_skip"] = float(trace.skipped_losses.max(initial=0.0))
        if name == LIMIT:
            result[name]["dearest_beaten"] = float(
                trace.losses[trace.reasons == "log-beats"].max(initial=0.0)
            )
        if name in CLIPS:
            result[name]["curse"] = overstated(trace, stream, log, CLIPS[name])
    return result


def followed(
    learner: Learner, stream: Stream, points: np.ndarray, *, epsilon: float, tolerance: float = 0.0
) -> tuple[Trace, Record]:
    """Play a stream; regret, calls and the bounds that speak about this learner at these rounds."""
    start = learner.sets.log_det.copy()
    parts, read, before = [], [], 0
    for t in points.tolist():
        parts.append(play(learner, _between(stream, before, t)))
        read.append(bounds_now(learner, start, rounds=t, epsilon=epsilon, tolerance=tolerance))
        before = t
    trace = _joined(parts)
    lived = {"regret": trace.regret[points - 1].tolist(), "calls": trace.calls[points - 1].tolist()}
    return trace, lived | {name: [values[name] for values in read] for name in read[0]}


def realised_epsilon(learner: Learner, world: LinearWorld) -> float:
    """max_{a∈𝓛} ‖θ̂_a − θ*_a‖, 0 without 𝓛."""
    frozen = learner.sets.frozen
    errors = np.linalg.norm(learner.sets.theta[frozen] - world.theta[frozen], axis=1)
    return float(errors.max(initial=0.0))


def bounds_now(
    learner: Learner, start: np.ndarray, *, rounds: int, epsilon: float, tolerance: float
) -> dict[str, float]:
    """The bounds that speak about this learner after so many rounds; none for ε-mOFUL-IPS by samples."""
    learnt = ~learner.sets.frozen
    lived = Lived(
        rounds=rounds,
        calls=learner.calls,
        growth=float((learner.sets.log_det - start)[learnt].sum()),
        radius=float(learner.sets.radius[learnt].max(initial=0.0)),
        context_bound=learner.assumptions.context_bound,
        ridge=learner.sets.ridge,
    )
    if learner.algorithm == "moful":
        return {"bound": lived.optimistic(calls=rounds)}
    if learner.algorithm == "eps_moful":
        return {"bound": lived.corrected(epsilon), "printed": lived.printed(epsilon)}
    if learner.algorithm == "certified":
        return {"bound": lived.certified(tolerance), "call_bound": lived.certified_calls(tolerance)}
    if any(isinstance(rule, LogBeats) and rule.beats == "limit" for rule in learner.rules):
        return {"bound": lived.corrected(epsilon)}
    return {}


def overstated(trace: Trace, stream: Stream, log: Log, clip: float | str) -> Record:
    """How far the log's threshold lies above what its answer truly earns: threshold(x) − x·θ*_{a_i}.

    Means over the rounds that `log-beats` skipped, and over all rounds whose context is in the log; every
    context is logged once, so its row has its threshold and its answer.
    """
    assert stream.context_ids is not None
    rows = stream.context_ids
    known = np.flatnonzero(rows >= 0)
    rows = rows[known]
    answered = stream.means[known, log.actions[rows]]
    above = pi_plus(log, clip).thresholds[rows] - answered
    chosen = trace.reasons[known] == "log-beats"
    lost = stream.means[known].max(axis=1) - answered
    if not chosen.any():
        return {"rounds": 0, "selected": None, "all": float(above.mean()), "lost": None, "lost_all": None}
    return {
        "rounds": int(chosen.sum()),
        "selected": float(above[chosen].mean()),
        "all": float(above.mean()),
        "lost": float(lost[chosen].mean()),
        "lost_all": float(lost.mean()),
    }


def _kinds(trace: Trace, points: np.ndarray) -> Record:
    """Regret and rounds so far by what decided the round."""
    found: Record = {}
    for kind in KINDS:
        here = trace.reasons == kind
        found[kind] = {
            "regret": np.where(here, trace.losses, 0.0).cumsum()[points - 1].tolist(),
            "rounds": here.cumsum()[points - 1].tolist(),
        }
    return found


def _between(stream: Stream, start: int, stop: int) -> Stream:
    part = slice(start, stop)
    ids = None if stream.context_ids is None else stream.context_ids[part]
    return Stream(stream.contexts[part], stream.means[part], stream.draws[part], ids, stream.binary)


def _joined(parts: list[Trace]) -> Trace:
    fields = ("actions", "needs_reward", "reasons", "losses")
    return Trace(
        parts[0].algorithm, *(np.concatenate([getattr(part, name) for part in parts]) for name in fields)
    )


def knowing(base: Synthetic) -> Record:
    """What `log-beats` costs a round when every θ* is known, for both M and by limits.

    Confidence sets that have shrunk to the truth skip where max_a x·θ*_a ≤ threshold(x) and answer with
    the logged action: the rate towards which the regret of ε-mOFUL-IPS tends. Above 0 it is linear regret.
    """
    world = base.world()
    log = base.log(world)
    means = world.means(log.contexts)
    best = means.max(axis=1)
    lost = best - means[np.arange(log.n_rows), log.actions]
    found: Record = {}
    for name, clip in CLIPS.items():
        beaten = best <= pi_plus(log, clip).thresholds
        found[name] = {"share": float(beaten.mean()), "rate": float((lost * beaten).mean())}
    return found | {LIMIT: knowing_by_limit(base, world, log, means)}


def knowing_by_limit(base: Synthetic, world: LinearWorld, log: Log, means: np.ndarray) -> Record:
    """The same by limits L(x), means (n, K): skip where max_{b≠a} x·θ*_b ≤ L(x), a being the logged action.

    `leader` is the share of rounds in which L(x) is not below max_b x·θ*_b either, `most` that of rounds whose logged action
    is the best: nothing that answers with it can skip more for free.
    """
    (rule, _) = base.start(LIMIT, world, log, supported=supported_actions({})).rules
    assert isinstance(rule, LogBeats)
    limit = rule.by_context.thresholds[rule.by_context.index.find(log.contexts)]
    rows, best = np.arange(log.n_rows), means.max(axis=1)
    rivals = means.copy()
    rivals[rows, log.actions] = -np.inf
    beaten, lost = rivals.max(axis=1) <= limit, best - means[rows, log.actions]
    return {
        "share": float(beaten.mean()),
        "rate": float((lost * beaten).mean()),
        "leader": float((best <= limit).mean()),
        "most": float((lost == 0).mean()),
    }


def contrary(*, rounds: int, seed: int) -> Record:
    """A world in which ε-mOFUL calls for ever and loses almost ε in every call.

    Two actions, x = 1. The better one is in 𝓛 and its point is ε too low; the other lies just above that
    point, so its optimistic value always leads: T' = T, and regret is linear where the printed Theorem 2 says
    sqrt((K−L)·T').
    """
    best, point = 1.0, 1.0 - CONTRARY_EPSILON
    world = LinearWorld(
        theta=np.array([[best], [point + CONTRARY_MARGIN]]), noise=CONTRARY_NOISE, offset=1.0, seed=seed
    )
    log = draw_log(world, rows=20, unsupported=0.0, seed=seed)
    learner = eps_moful(
        log,
        supported=supported_actions({0: np.array([point])}),
        noise=CONTRARY_NOISE,
        theta_bound=best,
        context_bound=1.0,
        seed=seed,
    )
    points = checkpoints(rounds)
    stream = world.live_stream(rounds, np.random.default_rng([seed, LIVE_STREAM]))
    _, curves = followed(learner, stream, points, epsilon=CONTRARY_EPSILON)
    return {"t": points.tolist(), **curves}
