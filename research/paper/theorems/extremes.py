"""Two worlds apart: a learner that knows everything and still follows the log, and one built against Theorem 2."""

import numpy as np

from research.paper.experiment import Record
from research.paper.synthetic import Synthetic
from research.paper.theorems.runs import CLIPS, LIVE_STREAM, checkpoints, followed
from sparing.model.supported import given
from sparing.online.algorithms import eps_moful
from sparing.policies.pi_plus import pi_plus
from sparing.simulation import LinearWorld, draw_log

CONTRARY_EPSILON = 0.2
CONTRARY_MARGIN = 0.02
CONTRARY_NOISE = 0.1


def knowing(base: Synthetic) -> Record:
    """What `log-beats` costs a round when every θ* is known, for both M.

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
    return found


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
        supported=given({0: np.array([point])}),
        noise=CONTRARY_NOISE,
        theta_bound=best,
        context_bound=1.0,
        seed=seed,
    )
    points = checkpoints(rounds)
    stream = world.live_stream(rounds, np.random.default_rng([seed, LIVE_STREAM]))
    trace, curves = followed(Synthetic(), learner, stream, points, epsilon=CONTRARY_EPSILON)
    return {
        "t": points.tolist(),
        "regret": trace.regret[points - 1].tolist(),
        "calls": trace.calls[points - 1].tolist(),
        **curves,
    }
