"""`log-beats` by a lower limit: with probability 1 − δ no round that it skips in a run costs more than ε·S_x.

Binomial tolerance: were a run to break that with probability δ exactly, more than `ALLOWED` of them would
break it with probability below 0.001. The seeds are fixed.
"""

import numpy as np
import pytest
from scipy import stats

from sparing import eps_moful_ips, simulate, supported_actions
from sparing.model.confidence import RADII
from sparing.simulation import LinearWorld, draw_log

RUNS, ROUNDS = 60, 400
K, D, NOISE, DELTA = 4, 2, 0.5, 0.2
ERROR = 0.1
"""‖θ̂_a − θ*_a‖ of the two points."""

ALLOWED = int(stats.binom.ppf(0.999, RUNS, DELTA))


def skipped(seed, *, rows=3000, noise=NOISE, supported=2, **settings):
    """What each round skipped as `log-beats` cost, in a run on the log's own contexts."""
    world = LinearWorld(n_actions=K, n_features=D, noise=noise, seed=seed)
    log = draw_log(world, rows=rows, unsupported=0.25, seed=seed)
    off = np.random.default_rng([seed, 7]).standard_normal((supported, D))
    off *= ERROR / np.linalg.norm(off, axis=1, keepdims=True)
    learner = eps_moful_ips(
        log,
        supported=supported_actions(
            {action: world.theta[action] + off[action] for action in range(supported)}
        ),
        noise=noise,
        theta_bound=float(np.linalg.norm(world.theta, axis=1).max()),
        context_bound=float(np.sqrt(D)),
        ridge=0.1,
        delta=DELTA,
        seed=seed,
        **settings,
    )
    trace = simulate(learner, world, rounds=ROUNDS, seed=seed, stream="in-log", log=log)
    return trace.losses[trace.reasons == "log-beats"]


def broken(runs, bound):
    return sum(bool((losses > bound + 1e-12).any()) for losses in runs)


@pytest.mark.parametrize(("inflate", "bound"), [(0.0, ERROR * np.sqrt(D)), (ERROR, 0.0)])
@pytest.mark.parametrize("radius", RADII)
def test_a_skipped_round_costs_no_more_than_its_bound(radius, inflate, bound):
    runs = [skipped(seed, beats="limit", radius=radius, inflate=inflate) for seed in range(RUNS)]
    assert broken(runs, bound) <= ALLOWED
    assert sum(map(len, runs)) > 0.02 * RUNS * ROUNDS, "and it does skip"


def test_one_sample_breaks_it():
    """The paper's threshold, in the same worlds: hardly a run keeps what the limit promises."""
    runs = [skipped(seed, inflate=ERROR) for seed in range(RUNS)]
    assert broken(runs, ERROR * np.sqrt(D)) > RUNS / 2 > ALLOWED


def test_a_small_part_of_the_radius_breaks_it():
    runs = [
        skipped(seed, beats="limit", inflate=ERROR, noise=2.0, rows=100, radius_scale=0.02)
        for seed in range(RUNS)
    ]
    assert broken(runs, 0.0) > ALLOWED
