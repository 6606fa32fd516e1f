"""`confident` with the prior that a log teaches does not lock out actions that the log never tried.

A fixed prior N(0, σ²I) does where noise is low or rewards are offset: it is sure, before any reward, that an
unknown action is near 0, and never finds out.
"""

import numpy as np
import pytest

from sparing import confident, simulate
from sparing.simulation import LinearWorld, draw_log

WORLDS, ROUNDS = 20, 300
K, D, TOLERANCE, CONFIDENCE = 20, 5, 0.1, 0.95
SETTINGS = {
    "low noise": {"noise": 0.1},
    "offset": {"noise": 1.0, "offset": 5.0},
    "low noise and offset": {"noise": 0.1, "offset": 5.0},
    "a reward level": {"noise": 0.3, "offset": 0.8},
}


def fixed_prior(noise):
    return {"noise": noise, "prior_mean": np.zeros(D), "prior_scale": noise}


def pooled(setting, *, prior):
    """Bad skips as a share of all skips, and never-logged actions tried as a share of all of them."""
    bad = skips = tried = never = 0
    for seed in range(WORLDS):
        world = LinearWorld(n_actions=K, n_features=D, seed=seed, **setting)
        log = draw_log(world, rows=2000, support="never-logged", unsupported=0.25, seed=seed)
        given = fixed_prior(setting["noise"]) if prior == "fixed" else {}
        learner = confident(log, tolerance=TOLERANCE, confidence=CONFIDENCE, seed=seed, **given)
        losses = simulate(learner, world, rounds=ROUNDS, seed=seed).skipped_losses
        bad += (losses > TOLERANCE).sum()
        skips += len(losses)
        unknown = log.counts == 0
        tried += (learner.sets.live[unknown] > 0).sum()
        never += unknown.sum()
    assert never == WORLDS * K / 4
    assert skips > 0.3 * WORLDS * ROUNDS, "many skips, or a share of them says little"
    return bad / skips, tried / never


@pytest.mark.parametrize("name", SETTINGS)
def test_never_logged_actions_are_tried_and_bad_skips_are_rare(name):
    """Skips are no more than rounds, so the share of rounds is smaller still."""
    bad, tried = pooled(SETTINGS[name], prior="empirical")
    assert bad < 1 - CONFIDENCE
    assert tried > 0.8


@pytest.mark.parametrize("name", SETTINGS)
def test_a_fixed_prior_locks_them_out_in_the_same_worlds(name):
    """The control: what the empirical prior is for."""
    bad, tried = pooled(SETTINGS[name], prior="fixed")
    assert bad > 2 * (1 - CONFIDENCE)
    assert tried < 0.2


@pytest.mark.parametrize("logged", [1, 2])
def test_one_or_two_logged_actions_do(logged):
    """Prompts routed to language models, say: rewards near 0.8, and a model that was never tried."""
    bad = skips = tried = 0
    for seed in range(WORLDS):
        world = LinearWorld(n_actions=3, n_features=D, noise=0.3, offset=0.8, seed=seed)
        log = draw_log(world, rows=500, never=range(logged, 3), seed=seed)
        learner = confident(log, tolerance=TOLERANCE, confidence=CONFIDENCE, seed=seed)
        losses = simulate(learner, world, rounds=1000, seed=seed).skipped_losses
        bad, skips = bad + (losses > TOLERANCE).sum(), skips + len(losses)
        tried += (learner.sets.live[logged:] > 0).all()
    assert skips > 0.5 * WORLDS * 1000
    assert bad < (1 - CONFIDENCE) * skips
    assert tried >= 0.9 * WORLDS
