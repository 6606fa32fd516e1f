"""Weights have mean 1 under correct propensities: a mean far above it is marked, and correct logs are not."""

import json

import numpy as np
import pytest

import sparing
from sparing.evaluation.estimators import LOGGED_WEIGHTS
from sparing.log.sketches import MeanWeight, Moments
from sparing.policies.policy import ConstantPolicy, UniformPolicy

SENTENCE = "Propensities are inconsistent (mean weight 10, should be about 1)"


def drawn(seed, *, rows=2000, factor=1.0, full=False, strength=1.0):
    """A log of 0/1 rewards whose propensities are `factor` times the true ones; `full`: with every action's."""
    rng = np.random.default_rng(seed)
    x, theta = rng.normal(size=(rows, 2)), strength * rng.normal(size=(3, 2))
    chances = np.exp(x @ theta.T)
    chances /= chances.sum(axis=1, keepdims=True)
    actions = (chances.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)
    table = {"x": x[:, 0], "y": x[:, 1], "action": actions, "reward": rng.integers(0, 2, rows)}
    table["propensity"] = factor * chances[np.arange(rows), actions]
    if full:
        table |= {f"p_{action}": chances[:, action] for action in range(3)}
        del table["propensity"]
    return sparing.read_log(table)


@pytest.mark.parametrize("interval", ["normal", "bernstein"])
def test_a_mean_weight_of_ten_is_marked(interval):
    rng = np.random.default_rng(0)
    table = {"x": rng.normal(size=500), "action": rng.integers(0, 2, 500), "reward": rng.integers(0, 2, 500)}
    log, policy = sparing.read_log({**table, "propensity": np.full(500, 0.05)}), UniformPolicy((0, 1))
    methods = ["clipped"] if interval == "bernstein" else None
    found = sparing.evaluate(log, policy, interval=interval, methods=methods)
    assert found.mean_weight == pytest.approx(10)
    for estimate in found.estimates:
        weighted = estimate.method in LOGGED_WEIGHTS
        assert estimate.inconsistent is weighted
        assert ("#" in estimate.cells[1], "INCONSISTENT" in str(estimate)) == (weighted, weighted)
        if weighted:
            assert (estimate.refused, estimate.low, estimate.high) == (True, 0.0, 1.0)
    assert any(SENTENCE in note for note in found.notes)
    assert found.warnings[0].startswith("INCONSISTENT")
    assert json.loads(json.dumps(found.to_dict()))["estimates"][0].keys() >= {"inconsistent"}
    audit = sparing.audit(log)
    assert any(note.startswith(SENTENCE) for note in audit.notes)
    assert "INCONSISTENT" in str(audit)
    said = json.loads(json.dumps(audit.to_dict()))["propensities"]
    assert (said["inconsistent"], said["mean_weight"]) == (True, pytest.approx(10))


@pytest.mark.parametrize("full", [False, True])
def test_correct_propensities_are_not_marked(full):
    for seed in range(8):
        log = drawn(seed, rows=300, full=full, strength=1.0 + seed % 3)
        for policy in (UniformPolicy((0, 1, 2)), ConstantPolicy((0, 1, 2), seed % 3)):
            found = sparing.evaluate(log, policy, methods=["ips"])
            assert not found["ips"].inconsistent
        assert not sparing.audit(log).overlap.inconsistent


def test_false_alarms_are_rare_with_heavy_weights():
    """1,200 logs of correct propensities, as skewed as softmax policies get: the limit is 1 %."""
    rng, alarms = np.random.default_rng(7), 0
    for number in range(1200):
        rows, strength = (30, 100, 1000)[number % 3], (0.5, 1.0, 3.0)[number // 3 % 3]
        score = strength * rng.normal(size=(rows, 4))
        chances = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
        actions = (chances.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)
        own = chances[np.arange(rows), actions]
        weights = (0.25 if number % 2 else (actions == 0)) / own
        alarms += MeanWeight.of(Moments.of(weights)).inconsistent
    assert alarms <= 3


def test_propensities_that_are_too_small_are_found():
    for seed in range(8):
        log = drawn(seed, factor=0.5, strength=0.5)
        assert sparing.evaluate(log, UniformPolicy((0, 1, 2)), methods=["ips"])["ips"].inconsistent
        assert sparing.audit(log).overlap.inconsistent


def test_unsupported_mass_is_no_contradiction():
    """Propensities of 1 for the only action of each row: the mean weight is the supported mass, below 1."""
    rng = np.random.default_rng(0)
    table = {"x": rng.normal(size=300), "action": [0, 1, 2] * 100, "reward": rng.integers(0, 2, 300)}
    log = sparing.read_log({**table, "propensity": np.ones(300)})
    found = sparing.evaluate(log, UniformPolicy((0, 1, 2)), methods=["ips"])
    assert found.mean_weight == pytest.approx(1 / 3)
    assert not found["ips"].inconsistent
