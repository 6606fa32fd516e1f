"""One seed in one cell: every algorithm lives through the same rounds, its bound computed on the way."""

from dataclasses import replace

import numpy as np

from research.paper.experiment import Record
from research.paper.synthetic import Synthetic
from research.paper.theorems import bounds
from sparing.log import Log
from sparing.online.learner import Learner
from sparing.policies.pi_plus import pi_plus
from sparing.simulation import LinearWorld
from sparing.simulation.loop import Trace, play
from sparing.simulation.worlds import Stream

POINTS = 41
"""Points of a curve, evenly spaced in log t from T/100 to T."""

LIVE_STREAM = 3
"""The random stream of live rounds, the one that `simulate` uses."""

CLIPS = {"eps_moful_ips": "percentile-ratio", "eps_moful_ips_inf": "inf"}
"""M of the two runs of ε-mOFUL-IPS."""

ALGORITHMS = ("moful", "eps_moful", *CLIPS, "certified")
KINDS = ("explore", "supported", "log-beats")


def checkpoints(rounds: int) -> np.ndarray:
    """The rounds at which curves are read, T/10 among them."""
    return np.unique(np.geomspace(max(rounds / 100, 1), rounds, POINTS).round().astype(int))


def run_cell(base: Synthetic, names: tuple[str, ...] = ALGORITHMS) -> Record:
    """All algorithms on one world, one log and one luck."""
    world = base.world()
    log = base.log(world)
    rng = np.random.default_rng([base.seed, LIVE_STREAM])
    stream = world.live_stream(base.rounds, rng, log if base.stream == "in-log" else None)
    points = checkpoints(base.rounds)
    worst = (stream.means.max(axis=1) - stream.means.min(axis=1)).cumsum()
    result: Record = {"t": points.tolist(), "worst": worst[points - 1].tolist()}
    for name in names:
        chosen = replace(base, clip=CLIPS.get(name, base.clip))
        learner = chosen.learner("eps_moful_ips" if name in CLIPS else name, world, log)
        result[name] = _lived(chosen, learner, world, log, stream, points)
    return result


def _lived(
    chosen: Synthetic, learner: Learner, world: LinearWorld, log: Log, stream: Stream, points: np.ndarray
) -> Record:
    epsilon = realised_epsilon(learner, world)
    trace, curves = followed(chosen, learner, stream, points, epsilon=epsilon)
    found: Record = {
        "regret": trace.regret[points - 1].tolist(),
        "calls": trace.calls[points - 1].tolist(),
        **curves,
    }
    if learner.sets.frozen.any():
        found["epsilon"] = epsilon
        found["context_bound"] = learner.assumptions.context_bound
        found["kinds"] = _kinds(trace, points)
        found["dearest_skip"] = float(trace.losses[trace.reasons == "supported"].max(initial=0.0))
    if learner.algorithm == "certified":
        found["dearest_skip"] = float(trace.skipped_losses.max(initial=0.0))
    if learner.algorithm == "eps_moful_ips":
        found["curse"] = overstated(trace, stream, log, chosen.clip)
    return found


def followed(
    chosen: Synthetic, learner: Learner, stream: Stream, points: np.ndarray, *, epsilon: float
) -> tuple[Trace, dict[str, list[float]]]:
    """Play a stream and read the bounds off the learner at these rounds."""
    start = learner.sets.log_det.copy()
    parts, read, before = [], [], 0
    for t in points.tolist():
        parts.append(play(learner, _between(stream, before, t)))
        read.append(bounds_now(chosen, learner, start, rounds=t, epsilon=epsilon))
        before = t
    return _joined(parts), {name: [values[name] for values in read] for name in read[0]}


def realised_epsilon(learner: Learner, world: LinearWorld) -> float:
    """max_{a∈𝓛} ‖θ̂_a − θ*_a‖, 0 without 𝓛."""
    frozen = learner.sets.frozen
    errors = np.linalg.norm(learner.sets.theta[frozen] - world.theta[frozen], axis=1)
    return float(errors.max(initial=0.0))


def bounds_now(
    chosen: Synthetic, learner: Learner, start: np.ndarray, *, rounds: int, epsilon: float
) -> dict[str, float]:
    """The bounds that speak about this learner after so many rounds; none for ε-mOFUL-IPS."""
    learnt = ~learner.sets.frozen
    growth = float((learner.sets.log_det - start)[learnt].sum())
    radius = float(learner.sets.radius[learnt].max(initial=0.0))
    sizes = {"context_bound": learner.assumptions.context_bound, "ridge": learner.sets.ridge}
    calls = learner.calls
    if learner.algorithm == "moful":
        return {"bound": bounds.optimistic(calls=rounds, growth=growth, radius=radius, **sizes)}
    common = {"rounds": rounds, "calls": calls, "growth": growth, "radius": radius, **sizes}
    if learner.algorithm == "eps_moful":
        return {
            "bound": bounds.corrected(epsilon=epsilon, **common),
            "printed": bounds.printed(epsilon=epsilon, **common),
        }
    if learner.algorithm == "certified":
        tolerance = chosen.tolerance
        return {
            "bound": bounds.certified(tolerance=tolerance, **common),
            "call_bound": bounds.certified_calls(tolerance=tolerance, growth=growth, radius=radius),
        }
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
