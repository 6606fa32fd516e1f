"""`certified`: with probability 1 − δ all skipped rounds of a run cost at most the tolerance each.

Binomial tolerance: were a run to break that with probability δ exactly, more than `ALLOWED` of them would
break it with probability below 0.001. The seeds are fixed.
"""

import numpy as np
import pytest
from scipy import stats

from sparing import certified, simulate
from sparing.model.confidence import RADII
from sparing.simulation import LinearWorld, draw_log

RUNS, ROUNDS = 60, 250
K, D, NOISE, DELTA = 4, 2, 0.5, 0.2
ALLOWED = int(stats.binom.ppf(0.999, RUNS, DELTA))


def run(seed, *, tolerance, support, rows, noise=NOISE, **settings):
    world = LinearWorld(n_actions=K, n_features=D, noise=noise, seed=seed)
    log = draw_log(world, rows=rows, support=support, unsupported=0.25, seed=seed)
    learner = certified(
        log,
        tolerance=tolerance,
        noise=noise,
        theta_bound=float(np.linalg.norm(world.theta, axis=1).max()),
        context_bound=float(np.sqrt(D)),
        ridge=0.1,
        delta=DELTA,
        seed=seed,
        **settings,
    )
    return simulate(learner, world, rounds=ROUNDS, seed=seed)


@pytest.mark.parametrize(
    ("support", "rows", "tolerance"), [("never-logged", 1500, 0.4), ("per-context", 300, 0.6)]
)
@pytest.mark.parametrize("explore", ["leader", "wider"])
@pytest.mark.parametrize("radius", RADII)
def test_skipped_rounds_cost_at_most_the_tolerance(radius, explore, support, rows, tolerance):
    traces = [
        run(seed, tolerance=tolerance, support=support, rows=rows, radius=radius, explore=explore)
        for seed in range(RUNS)
    ]
    broken = sum(bool((trace.skipped_losses > tolerance).any()) for trace in traces)
    skipped = sum(len(trace.skipped_losses) for trace in traces)
    assert broken <= ALLOWED
    assert 0.2 * RUNS * ROUNDS < skipped < RUNS * ROUNDS, "many skips, and not all"
    assert sum(float(trace.skipped_losses.sum()) for trace in traces) > 0, "some skips were not the best"


def test_a_tenth_of_the_radius_breaks_the_promise():
    """So the test above can fail: at a small scale nothing is promised, and skips go wrong."""
    traces = [
        run(seed, tolerance=0.05, support="per-context", rows=100, noise=2.0, radius_scale=0.1)
        for seed in range(RUNS)
    ]
    assert sum(bool((trace.skipped_losses > 0.05).any()) for trace in traces) > RUNS / 2 > ALLOWED


def test_no_tolerance_at_all_still_skips_only_the_best_action():
    """τ = 0: a round is skipped only where the leader is surely the best, so skips cost nothing."""
    traces = [run(seed, tolerance=0.0, support="per-context", rows=3000) for seed in range(RUNS)]
    assert sum(bool(trace.skipped_losses.any()) for trace in traces) <= ALLOWED
    assert sum(len(trace.skipped_losses) for trace in traces) > 0.2 * RUNS * ROUNDS


@pytest.mark.parametrize("explore", ["leader", "wider"])
@pytest.mark.parametrize("radius", RADII)
def test_a_round_is_skipped_exactly_where_its_certificate_holds(radius, explore):
    """max_{b≠a*} U_b(x) − L_{a*}(x) ≤ τ, computed anew from V_a and b_a by solving, not from inverses."""
    world = LinearWorld(n_actions=K, n_features=D, noise=NOISE, seed=3)
    log = draw_log(world, rows=600, support="never-logged", unsupported=0.25, seed=3)
    given = {"noise": NOISE, "theta_bound": 3.0, "context_bound": 1.5, "ridge": 0.1}
    learner = certified(log, tolerance=0.5, radius=radius, explore=explore, **given)
    stream = world.live_stream(200, np.random.default_rng(3))
    skipped = 0
    for t, x in enumerate(stream.contexts):
        sets = learner.sets
        reach = np.linalg.solve(sets.gram, np.tile(x, (K, 1))[:, :, None])[:, :, 0]
        mean, half = (sets.response * reach).sum(axis=1), sets.radius * np.sqrt(reach @ x)
        leader = (mean + half).argmax()
        gap = np.delete(mean + half, leader).max() - (mean - half)[leader]
        decision = learner.decide(x)
        assert decision.needs_reward == (gap > 0.5)
        if decision.needs_reward:
            learner.update(decision, stream.reward(t, decision.action))
        else:
            assert decision.action == leader
            skipped += 1
    assert 20 < skipped < 180
