"""`certified` for τ > 0: calls ≤ Σ_a log(det V_T/det V_0) / log(1 + τ²/(4ρ_T²)), at any radius scale."""

import numpy as np
import pytest

import sparing
from reference.cases import make_log, make_rounds, parameters, run


@pytest.mark.parametrize("explore", ["leader", "wider"])
@pytest.mark.parametrize("scale", [0.1, 0.2, 1.0])
def test_calls_stay_below_their_bound(scale, explore):
    calls = 0
    for seed, (radius, tolerance) in enumerate(
        [("determinant", 0.05), ("determinant", 0.3), ("determinant", 1.5), ("trace", 0.3), ("paper", 0.3)]
    ):
        theta = parameters(seed)
        learner = sparing.certified(
            make_log(seed, theta, rows=60, never=[1]),
            tolerance=tolerance,
            explore=explore,
            radius=radius,
            radius_scale=scale,
            noise=0.5,
            theta_bound=2.5,
            context_bound=1.75,
            seed=seed,
        )
        start = np.linalg.slogdet(learner.sets.gram)[1]
        run(learner, make_rounds(seed, theta, 500))
        growth = float((np.linalg.slogdet(learner.sets.gram)[1] - start).sum())
        largest = float(learner.sets.radius.max())
        assert learner.calls <= growth / np.log1p(tolerance**2 / (4 * largest**2))
        calls += learner.calls
    assert calls > 50


@pytest.mark.parametrize("explore", ["leader", "wider"])
def test_every_call_had_a_width_beyond_half_the_tolerance(explore):
    """The step behind the bound: a round that is not skipped plays a set wider than τ/2 at x."""
    theta = parameters(9)
    given = {"noise": 0.5, "theta_bound": 2.5, "context_bound": 1.75, "radius_scale": 0.3}
    learner = sparing.certified(make_log(9, theta), tolerance=0.2, explore=explore, **given)
    calls = [decision for decision in run(learner, make_rounds(9, theta, 400)) if decision.needs_reward]
    assert len(calls) > 20
    assert min(decision.high - decision.value for decision in calls) > 0.1
