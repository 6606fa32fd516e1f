"""Estimators with a boosted reward model: their formulas, cross-fitting, and what they cure."""

import numpy as np
import pytest

from sparing.errors import SettingError
from sparing.evaluation import evaluate
from sparing.log import Log
from sparing.model.boosting import boost
from sparing.policies.policy import sample


def make(rows=800, seed=0):
    """Three actions with rewards that no line fits; a random policy to judge, and what it is worth in each row."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.uniform(-1, 1, (rows, 2)), np.ones(rows)])
    product = 3 * x[:, 0] * x[:, 1]
    means = np.column_stack([product, -product, 0 * product])
    mu = np.tile([0.5, 0.3, 0.2], (rows, 1))
    actions = sample(mu, rng)
    log = Log.from_arrays(
        x, actions, means[np.arange(rows), actions] + 0.1 * rng.normal(size=rows), distribution=mu
    )
    policy = np.eye(3)[means.argmax(axis=1)] * 0.8 + 0.2 / 3
    return log, policy, (policy * means).sum(axis=1)


def test_values_are_the_formulas_with_held_out_trees():
    log, policy, _ = make(300)
    found = evaluate(log, policy, methods=["dm", "dr", "sndr", "aipw"], reward_model="boosted", folds=3)
    fitted = boost(log, folds=3).held_out(log.contexts)
    rows = np.arange(log.n_rows)
    weights = policy[rows, log.actions] / log.propensities
    correction = weights * (log.rewards - fitted[rows, log.actions])
    direct = (policy * fitted).sum(axis=1)
    assert found["dm"].value == pytest.approx(direct.mean())
    assert found["aipw"].value == pytest.approx((direct + correction).mean())
    assert found["dr"].value == found["aipw"].value  # never in sample
    assert found["sndr"].value == pytest.approx(direct.mean() + correction.sum() / weights.sum())
    assert any("own error" in note for note in found["dm"].notes)


def test_where_no_line_fits_the_interval_shrinks_and_still_holds_the_truth():
    log, policy, worth = make()
    linear, boosted = (
        evaluate(log, policy, methods=["aipw"], reward_model=model, folds=3)["aipw"]
        for model in ("linear", "boosted")
    )
    assert boosted.high - boosted.low < 0.6 * (linear.high - linear.low)
    assert boosted.low - 0.02 < worth.mean() < boosted.high + 0.02


def test_an_unknown_model_is_refused():
    log, policy, _ = make(60)
    with pytest.raises(SettingError, match="reward_model='forest'; must be one of linear, boosted"):
        evaluate(log, policy, reward_model="forest")
