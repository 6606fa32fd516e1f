"""Confidence sets: what is kept incrementally equals what the state says, whatever the ridge."""

import numpy as np
import pytest

import sparing
from reference.cases import make_log, parameters
from sparing.errors import SettingError
from sparing.model.confidence import Assumptions
from sparing.model.statistics import Statistics
from sparing.online.confidence_sets import ConfidenceSets
from sparing.online.engine.updates import REFACTOR

EPS = np.finfo(float).eps
RIDGES = [0.01, 1.0, 3.7]


def cold(n_actions=1, d=4, *, ridge=1.0, radius="determinant"):
    given = Assumptions(noise=1.0, theta_bound=1.0, context_bound=2.0, ridge=ridge, radius=radius)
    return ConfidenceSets(Statistics.zero(n_actions, d), given)


def feed(sets, rows, seed=0):
    """Random rows for random actions; contexts (rows, d), actions, rewards."""
    rng = np.random.default_rng(seed)
    k, d = sets.shape
    contexts, actions = rng.standard_normal((rows, d)), rng.integers(0, k, rows)
    rewards = rng.standard_normal(rows)
    for x, a, r in zip(contexts, actions, rewards, strict=True):
        sets.add_observation(int(a), x, float(r))
    return contexts, actions, rewards


@pytest.mark.parametrize("ridge", RIDGES)
def test_incremental_equals_batch(ridge):
    sets = cold(3, ridge=ridge)
    contexts, actions, rewards = feed(sets, 900)
    for a in range(3):
        x, r = contexts[actions == a], rewards[actions == a]
        gram = ridge * np.eye(4) + x.T @ x
        rounding = 50 * np.linalg.cond(gram) * len(x) * EPS
        assert np.allclose(sets.gram[a], gram, rtol=len(x) * EPS)
        assert np.allclose(
            sets.inverse[a], np.linalg.inv(gram), rtol=0, atol=rounding * np.linalg.norm(sets.inverse[a])
        )
        theta = np.linalg.solve(gram, x.T @ r)
        assert np.linalg.norm(sets.theta[a] - theta) <= rounding * max(1, np.linalg.norm(theta))
        assert sets.live[a] == len(x)
        assert sets.log_det[a] == pytest.approx(np.linalg.slogdet(gram / ridge)[1], rel=1e-12)


@pytest.mark.parametrize("ridge", RIDGES)
def test_gram_times_inverse_is_the_identity_at_the_start_and_after_many_updates(ridge):
    sets = cold(ridge=ridge)
    assert np.allclose(sets.gram[0], ridge * np.eye(4))
    assert np.allclose(sets.gram[0] @ sets.inverse[0], np.eye(4), atol=4 * EPS)
    assert sets.log_det[0] == pytest.approx(0, abs=8 * EPS)
    feed(sets, 2000)
    limit = 50 * REFACTOR * EPS * np.linalg.cond(sets.gram[0])
    assert np.abs(sets.gram[0] @ sets.inverse[0] - np.eye(4)).max() <= limit
    assert not sets.inconsistent()
    assert sets.log_det[0] == pytest.approx(np.linalg.slogdet(sets.gram[0] / ridge)[1], rel=1e-12)


@pytest.mark.parametrize("ridge", RIDGES)
def test_a_warm_start_is_ridge_regression_on_the_log(ridge):
    log = make_log(1, parameters(1), rows=80)
    learner = sparing.warm_started(log, ridge=ridge, noise=1.0, theta_bound=1.0, context_bound=1.0)
    for a in range(log.n_actions):
        x, r = log.contexts[log.actions == a], log.rewards[log.actions == a]
        gram = ridge * np.eye(3) + x.T @ x
        assert np.allclose(learner.sets.theta[a], np.linalg.solve(gram, x.T @ r), rtol=1e-11)
        assert learner.sets.log_det[a] == pytest.approx(np.linalg.slogdet(gram / ridge)[1], rel=1e-11)
    assert np.array_equal(learner.sets.logged, log.counts)


@pytest.mark.parametrize("ridge", RIDGES)
def test_widths_never_grow(ridge):
    sets = cold(ridge=ridge)
    rng = np.random.default_rng(5)
    probes = rng.standard_normal((20, 4))
    before = np.full(20, np.inf)
    for _ in range(600):
        widths = np.sqrt(np.einsum("ni,ij,nj->n", probes, sets.inverse[0], probes))
        assert (widths <= before * (1 + 1e-12 / ridge)).all()
        before = widths
        sets.add_observation(0, rng.standard_normal(4), 1.0)


@pytest.mark.parametrize("radius", ["determinant", "trace", "paper"])
def test_radii_by_their_formulas(radius):
    """ρ after live rows, two of three actions learnt: K' = 2."""
    sets = cold(3, ridge=0.5, radius=radius)
    sets.freeze(np.array([1]), np.zeros((1, 4)))
    rng = np.random.default_rng(2)
    for a in (0, 2, 2, 0, 2):
        sets.add_observation(a, rng.standard_normal(4), 0.3)
    d, square = 4, 2.0**2 / 0.5
    log_delta = np.log(2 / 0.05)
    for a, n in ((0, 2), (2, 3)):
        volume = {
            "determinant": np.linalg.slogdet(sets.gram[a] / 0.5)[1] + 2 * log_delta,
            "trace": d * np.log(1 + n * square / d) + 2 * log_delta,
            "paper": d * (np.log(1 + 5 * square) + log_delta),
        }[radius]
        assert sets.radius[a] == pytest.approx(np.sqrt(volume) + np.sqrt(0.5), rel=1e-12)


def test_ties_are_broken_by_priority_and_not_by_index():
    """All actions are cold, so all tie: over seeds each is the first equally often."""
    first = [
        sparing.moful(n_actions=5, n_features=3, seed=seed).decide([1.0, 0.5, 0.2]).action
        for seed in range(400)
    ]
    counts = np.bincount(first, minlength=5)
    chi_square = ((counts - 80) ** 2 / 80).sum()
    assert chi_square < 18.47  # the 99.9 % point with four degrees of freedom
    again = [
        sparing.moful(n_actions=5, n_features=3, seed=seed).decide([1.0, 0.5, 0.2]).action
        for seed in range(50)
    ]
    assert again == first[:50]


def test_a_ridge_too_small_for_the_log_is_refused():
    contexts = np.tile([[1e6, 1e6]], (50, 1))
    log = sparing.Log.from_arrays(contexts, [0] * 50, np.ones(50))
    with pytest.raises(SettingError, match="larger ridge"):
        sparing.warm_started(log, ridge=1e-9, noise=1.0, theta_bound=1.0, context_bound=1.0)


def test_a_posterior_with_hardly_any_noise_stays_regular(tmp_path):
    """Collinear features and σ → 0 make V_a singular in double precision; σ has a floor there."""
    rng = np.random.default_rng(0)
    contexts = 10 * np.c_[np.ones(300), np.eye(3)[rng.integers(0, 3, 300)]]
    theta, actions = rng.standard_normal((5, 4)), rng.integers(0, 5, 300)
    log = sparing.Log.from_arrays(contexts, actions, (contexts * theta[actions]).sum(axis=1))
    learner = sparing.confident(log, noise=1e-9, spot_check=0.5)
    assert learner.assumptions.noise > 1e-9
    for x in contexts:
        decision = learner.decide(x)
        if decision.needs_reward:
            learner.update(decision, float(x @ theta[decision.action]))
    learner.save(tmp_path / "a")
    assert sparing.load(tmp_path / "a").calls == learner.calls > 100
