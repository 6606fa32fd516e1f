"""Every ellipsoid holds its action's parameters, in all rounds at once, in at least 1 − δ of the runs.

Binomial tolerance: were a run to fail with probability δ exactly, more than `allowed` of the runs would
fail with probability below 0.001. The seeds are fixed.
"""

import numpy as np
import pytest
from scipy import stats

from sparing import moful, warm_started
from sparing.model.confidence import RADII
from sparing.simulation import LinearWorld, draw_log

RUNS, ROUNDS, EVERY = 200, 200, 10
K, NOISE, DELTA = 4, 2.0, 0.2
FEW, CONTROLS = 100, 60  # runs that take long; runs of a control, which fails in nearly every one


def allowed(runs):
    """Runs that may fail."""
    return int(stats.binom.ppf(0.999, runs, DELTA))


def covered(learner, theta):
    """Whether ‖θ̂_a − θ*_a‖_{V_a} ≤ ρ_a for every action."""
    sets = learner.sets
    error = sets.theta - theta
    return bool((np.einsum("ki,kij,kj->k", error, sets.gram, error) <= sets.radius**2).all())


def always_covered(learner, world, stream):
    """Play optimistically; whether the sets held whenever they were looked at, the start included."""
    for t in range(len(stream)):
        if t % EVERY == 0 and not covered(learner, world.theta):
            return False
        decision = learner.decide(stream.contexts[t])
        learner.update(decision, stream.reward(t, decision.action))
    return covered(learner, world.theta)


def cold(world, settings, seed):
    """Nothing but the online rows."""
    return moful(n_actions=K, n_features=world.n_features, **settings)


def warm(world, settings, seed):
    """A log first, from one of the four logging policies."""
    support = ("per-context", "never-logged", "region", "sharpened")[seed % 4]
    return warm_started(draw_log(world, rows=100, support=support, unsupported=0.25, seed=seed), **settings)


def around(items, share=1.0):
    """A log first, and sets around centres that it teaches; S_θ is how far the truth lies from them, or a `share` of that."""

    def start(world, settings, seed):
        features = np.random.default_rng([seed, 7]).standard_normal((K, 1)) if items else None
        log = draw_log(world, rows=100, support="never-logged", unsupported=0.25, seed=seed)
        centers = warm_started(log, **settings, center="learnt", items=features).prior.centers()
        settings["theta_bound"] = share * float(np.linalg.norm(world.theta - centers, axis=1).max())
        learner = warm_started(log, **settings, center="learnt", items=features)
        np.testing.assert_array_equal(learner.prior.centers(), centers)
        return learner

    return start


def failures(start, radius, d, *, told=1.0, noise=NOISE, rounds=ROUNDS, ridge=1.0, runs=RUNS):
    """Runs in which some set lost its parameters; `told` is the share of the noise that is admitted."""
    failed = 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, d, 17])
        world = LinearWorld(noise=noise, theta=rng.standard_normal((K, d)) / np.sqrt(d))
        settings = {
            "noise": told * noise,
            "theta_bound": float(np.linalg.norm(world.theta, axis=1).max()),
            "context_bound": float(np.sqrt(d)),
            "delta": DELTA,
            "ridge": ridge,
            "radius": radius,
            "seed": seed,
        }
        learner = start(world, settings, seed)
        failed += not always_covered(learner, world, world.live_stream(rounds, rng))
    return failed


@pytest.mark.parametrize(("start", "d"), [(cold, 2), (warm, 3)])
@pytest.mark.parametrize("radius", RADII)
def test_the_parameters_stay_in_their_sets(start, d, radius):
    assert failures(start, radius, d) <= allowed(RUNS)


@pytest.mark.parametrize("radius", RADII)
def test_they_stay_there_when_the_ridge_outweighs_the_noise(radius):
    """The estimate is then far from the truth for its bias, which √λ·S_θ must cover, and only just does."""
    assert failures(cold, radius, 2, noise=0.01, rounds=40, ridge=4.0) <= allowed(RUNS)


@pytest.mark.parametrize(
    ("noise", "items"),
    [
        (0.01, False),
        *(
            pytest.param(*one, marks=pytest.mark.thorough)
            for one in ((2.0, False), (0.01, True), (2.0, True))
        ),
    ],
)
def test_they_stay_there_around_centres_learnt_from_the_same_rows(noise, items):
    """Any centre will do, as long as S_θ bounds the distance from it: at little noise that is all that counts."""
    assert failures(around(items), "determinant", 2, noise=noise, rounds=60, ridge=4.0, runs=FEW) <= allowed(
        FEW
    )


def test_an_understated_distance_from_the_centre_breaks_the_promise():
    start, few = around(False, 0.3), {"rounds": 20, "ridge": 4.0, "runs": CONTROLS}
    assert failures(start, "determinant", 2, noise=0.01, **few) > CONTROLS / 2 > allowed(CONTROLS)


@pytest.mark.parametrize(("start", "d"), [(cold, 3), (warm, 2)])
@pytest.mark.parametrize("radius", RADII)
def test_a_third_of_the_noise_breaks_the_promise(start, d, radius):
    """So the test above can fail: an understated noise is caught, far beyond the tolerance."""
    failed = failures(start, radius, d, told=1 / 3, runs=CONTROLS)
    assert failed > CONTROLS / 2 > allowed(CONTROLS)
