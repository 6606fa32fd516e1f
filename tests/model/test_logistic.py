"""Multinomial logistic regression: the least loss, by its own conditions and by scikit-learn."""

import numpy as np
import pytest
from scipy import special

from sparing.model import crossfitting
from sparing.model.crossfitting import fit_log_odds


def drawn(n, k, d, seed=0, sharp=1.0):
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-2, 3, d) + rng.normal(size=d)
    standard = (contexts - contexts.mean(axis=0)) / contexts.std(axis=0)
    odds = sharp * standard @ rng.normal(size=(k, d)).T + rng.normal(size=k)
    chances = special.softmax(odds, axis=1)
    actions = (chances.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=k - 1)
    return contexts, np.unique(actions, return_inverse=True)[1], chances


def loss(contexts, actions, theta, offset):
    odds = contexts @ theta.T + offset
    picked = odds[np.arange(len(actions)), actions]
    penalty = ((theta * contexts.std(axis=0)) ** 2).sum() / 2
    return (special.logsumexp(odds, axis=1) - picked).sum() + penalty


@pytest.mark.parametrize(("n", "k", "d"), [(3000, 5, 3), (2000, 15, 4)])
def test_it_is_scikit_learns(n, k, d):
    linear_model = pytest.importorskip("sklearn.linear_model")
    contexts, actions, _ = drawn(n, k, d)
    theta, offset = fit_log_odds(contexts, actions, actions.max() + 1)
    spread, center = contexts.std(axis=0), contexts.mean(axis=0)
    model = linear_model.LogisticRegression(max_iter=10_000, tol=1e-9)
    model.fit((contexts - center) / spread, actions)
    coefficients, intercept = model.coef_, model.intercept_
    best = loss(contexts, actions, coefficients / spread, intercept - (coefficients / spread) @ center)
    # What the rows leave open is half a nat for each parameter; the fit may end a hundredth of that short.
    assert loss(contexts, actions, theta, offset) - best < 0.01 * theta.size / 2
    reached = special.softmax(contexts @ theta.T + offset, axis=1)
    expected = model.predict_proba((contexts - center) / spread)
    assert np.abs(reached - expected).max() < 0.01


@pytest.mark.parametrize("k", [2, 4])
def test_no_direction_gains(k):
    contexts, actions, _ = drawn(2000, k, 3)
    theta, offset = fit_log_odds(contexts, actions, k)
    least = loss(contexts, actions, theta, offset)
    rng = np.random.default_rng(1)
    for size in (0.3, 1.0):
        step = size * rng.normal(size=theta.shape) / contexts.std(axis=0) / np.sqrt(500)
        assert loss(contexts, actions, theta + step, offset) > least


def test_a_large_fit_ends_within_its_own_error(monkeypatch):
    contexts, actions, _ = drawn(4000, 30, 4)
    fine = loss(contexts, actions, *fit_log_odds(contexts, actions, actions.max() + 1))
    monkeypatch.setattr(crossfitting, "LARGE", 0)
    coarse = loss(contexts, actions, *fit_log_odds(contexts, actions, actions.max() + 1))
    parameters = 30 * 5
    assert fine <= coarse < fine + 0.1 * parameters / 2  # a tenth of what the rows leave open


def test_equal_constant_and_huge_features_do_no_harm():
    contexts, actions, chances = drawn(3000, 4, 2)
    odd = np.column_stack([contexts, contexts[:, 0], np.ones(3000), 1e12 * contexts[:, 1]])
    theta, offset = fit_log_odds(odd, actions, 4)
    reached = special.softmax(odd @ theta.T + offset, axis=1)
    assert np.abs(reached - chances).mean() < 0.03
