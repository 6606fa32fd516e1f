"""Rewards with a level of their own, and features without a constant."""

import numpy as np
import pytest

import sparing
from sparing.simulation import LOGGING, LinearWorld, draw_log


def click_log(*, constant):
    """Four arms of different worth, features that say nothing of them."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3000, 3))
    if constant:
        x = np.column_stack([x, np.ones(3000)])
    actions = rng.integers(4, size=3000)
    rewards = (rng.random(3000) < np.array([0.1, 0.3, 0.5, 0.9])[actions]).astype(float)
    return sparing.Log.from_arrays(x, actions, rewards, distribution=np.full((3000, 4), 0.25))


def test_a_missing_constant_is_told():
    found = sparing.audit(click_log(constant=False))
    assert any("Add a constant feature" in note and "action 3" in note for note in found.notes)


def test_a_constant_silences_it():
    assert not any("constant" in note for note in sparing.audit(click_log(constant=True)).notes)


@pytest.mark.parametrize("support", list(LOGGING))
def test_linear_rewards_need_none(support):
    for seed in range(5):
        log = draw_log(LinearWorld(seed=seed), rows=3000, support=support, seed=seed)
        assert not any("constant" in note for note in sparing.audit(log).notes)
