"""The method `posterior`: the formula of its mean, what items add, and equal policies from a scan and from memory."""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import sparing
from sparing.cli import app
from sparing.errors import LogError, SettingError
from sparing.learning import METHODS, USE_ITEMS, learn
from sparing.learning.posterior import fitted_prior
from sparing.log import Log
from sparing.log.features.encoder import Encoder
from sparing.log.items import Items
from sparing.model.posterior import posterior_mean
from sparing.model.prior import evidence_prior, standardised
from sparing.model.statistics import Statistics

QUICK = {"candidates": ("greedy", "posterior")}


def made(rows=400, k=12, *, seed=0, residual=0.1, unlogged=0):
    """θ_a = Wz_a + residual·normal with a constant feature; also the items, and the true means of fresh contexts."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(k, 2))
    theta = np.c_[np.ones(k), z] @ rng.normal(size=(3, 3)) + residual * rng.normal(size=(k, 3))
    x = np.c_[np.ones(rows), rng.normal(size=(rows, 2))]
    actions = rng.integers(0, k - unlogged, rows)
    r = np.einsum("nd,nd->n", x, theta[actions]) + rng.normal(size=rows)
    log = Log.from_arrays(
        x,
        actions,
        r,
        propensities=np.full(rows, 1 / (k - unlogged)),
        action_names=range(k),
    )
    log = replace(log, items=Items(Encoder.raw(["price", "size"]), z))
    fresh = np.c_[np.ones(4000), rng.normal(size=(4000, 2))]
    return log, z, fresh, fresh @ theta.T


def value(policy, fresh, means):
    return float((policy.probabilities(fresh) * means).sum(axis=1).mean())


def test_its_mean_is_that_of_the_joint_normal_distribution():
    """All θ_a and W as one Gaussian vector, conditioned on the rewards: W has 3 columns here, so nothing is trivial."""
    log, z, *_ = made(rows=60, k=4, unlogged=1)
    sums = Statistics.of(log)
    items, standard = standardised(z)
    prior = evidence_prior(sums, items=items, standard=standard, noise=0.8)
    k, d, q = 4, 3, 3
    columns = np.stack([prior.flat, *[prior.slope] * (q - 1)])  # deviations of W, (q, d)
    of_w = np.diag((columns**2).ravel())
    link = np.kron(items, np.eye(d))  # θ = link·vec W + η
    joint = link @ of_w @ link.T + np.kron(np.eye(k), np.diag(prior.spread**2))
    design = np.zeros((log.n_rows, k * d))
    for row, (x, a) in enumerate(zip(log.contexts, log.actions, strict=True)):
        design[row, a * d : (a + 1) * d] = x
    total = design @ joint @ design.T + 0.8**2 * np.eye(log.n_rows)
    expected = joint @ design.T @ np.linalg.solve(total, log.rewards)
    np.testing.assert_allclose(posterior_mean(prior, sums), expected.reshape(k, d), rtol=1e-5, atol=1e-6)


def test_it_plays_the_best_mean_of_what_economical_starts_from():
    log, _, fresh, _ = made()
    learner = sparing.economical(log, call_cost=1e9, horizon=10)
    policy = learn(log, "posterior")
    np.testing.assert_allclose(policy.theta, learner.sets.theta, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(policy.indices(fresh), (fresh @ policy.theta.T).argmax(axis=1))


def test_items_help_where_rewards_depend_on_them():
    """12 actions, five rows each: the share of the way from a random action to the best."""
    shares = []
    for seed in range(12):
        log, z, fresh, means = made(rows=60, seed=seed)
        plain = replace(log, items=None)
        best, random = means.max(axis=1).mean(), means.mean()
        found = [learn(log, "posterior"), learn(plain, "posterior"), learn(plain, "greedy", ridge=1.0)]
        shares.append([(value(policy, fresh, means) - random) / (best - random) for policy in found])
        np.testing.assert_array_equal(learn(plain, "posterior", items=z).theta, found[0].theta)
    with_items, without, greedy = np.mean(shares, axis=0)
    assert with_items > 0.9
    assert with_items > without + 0.05
    assert without > greedy


def test_an_action_without_rows_is_played_only_if_allowed():
    """Four of twelve actions; with items, the log knows most of them, and they are the best as often as others."""
    played = 0
    for seed in range(4):
        log, *_, fresh, _ = made(k=12, unlogged=4, seed=seed)
        policy = learn(log, "posterior")
        assert policy.indices(fresh).max() < 8
        assert "4 actions that were never logged" in policy.notes[0]
        prior = fitted_prior(log, Statistics.of(log))
        np.testing.assert_allclose(policy.theta[8:], prior.centers()[8:], rtol=1e-9)
        played += (learn(log, "posterior", support=list(range(12))).indices(fresh) >= 8).mean()
    assert 0.05 < played / 4 < 0.7


def test_a_scan_gives_the_same_policy(tmp_path):
    log, *_, fresh, _ = made(rows=3000)
    sparing.write_log(log, tmp_path / "log.parquet")
    scan = sparing.scan(tmp_path / "log.parquet", engine="local", workers=2)
    for holdout in (0.0, 0.3):
        one, other = (learn(each, "posterior", holdout=holdout) for each in (log, scan))
        np.testing.assert_array_equal(one.theta, other.theta)
        assert one.notes == other.notes
        assert one.trained_on.rows == other.trained_on.rows
    sparing.save_policy(one, tmp_path / "policy.sparing")
    loaded = sparing.load_policy(tmp_path / "policy.sparing")
    np.testing.assert_array_equal(loaded.probabilities(fresh), one.probabilities(fresh))


@pytest.mark.parametrize("known", [True, False])
def test_auto_takes_it_where_items_speak(known):
    log, *_ = made(rows=200, k=20, residual=0.0)
    if not known:
        log = replace(log, propensities=None)
    policy = learn(log, "auto", **QUICK)
    assert policy.method == "posterior"


def test_what_other_methods_say_of_items():
    log, z, *_ = made(rows=60)
    for method in set(METHODS) - set(USE_ITEMS):
        with pytest.raises(SettingError, match="has no option 'items'"):
            learn(log, method, items=z)
    assert "item features are not used by greedy" in learn(log, "greedy").notes[-1]
    assert "2 item features" in learn(log, "posterior").notes[-1]
    with pytest.raises(SettingError, match="items of shape"):
        learn(log, "posterior", items=z[:3])


def test_rewards_that_are_all_zero():
    log = Log.from_arrays(np.ones((10, 1)), [0, 1] * 5, np.zeros(10), propensities=np.full(10, 0.5))
    with pytest.raises(LogError, match="rewards are all 0"):
        learn(log, "posterior")
    assert learn(log, "posterior", noise=1.0, prior_scale=1.0).theta.shape == (2, 1)


def test_the_command_uses_items_or_refuses_them(tmp_path):
    rng = np.random.default_rng(0)
    rows = ["age,action,reward,propensity"]
    rows += [f"{rng.normal():.3f},{'abc'[i % 3]},{rng.normal() + i % 3:.3f},.3333" for i in range(90)]
    (tmp_path / "log.csv").write_text("\n".join(rows))
    (tmp_path / "items.csv").write_text("action,price\na,1\nb,2\nc,3")
    words = ["learn", str(tmp_path / "log.csv"), "--items", str(tmp_path / "items.csv"), "--features", "auto"]
    words += ["--out", str(tmp_path / "policy.sparing")]
    found = CliRunner().invoke(app, [*words, "--method", "posterior"])
    assert found.exit_code == 0, found.output
    assert "1 item feature" in found.output
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code != 0
    assert "--method posterior or auto" in " ".join(str(refused.exception or refused.output).split())
