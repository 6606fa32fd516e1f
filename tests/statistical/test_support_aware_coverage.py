"""Support-aware intervals hold the truth under deficient support, where plain ones do not."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from research.paper.coverage import CoverageSetting, measure
from sparing.evaluation import evaluate
from sparing.simulation import LOGGING, LinearWorld, draw_log

pytestmark = pytest.mark.thorough

WORLDS = 60
SETTING = replace(
    CoverageSetting(),
    worlds=WORLDS,
    methods=("dm", "ips", "clipped", "snips", "dr", "sndr", "cab", "aipw"),
)
TOLERANCE = 3 * np.sqrt(0.95 * 0.05 / WORLDS)


@pytest.fixture(scope="module", params=list(LOGGING))
def coverage(request):
    return {found.method: found for found in measure(SETTING, request.param)}


def test_ours_cover(coverage):
    for found in coverage.values():
        assert found.aware >= 0.95 - TOLERANCE, found


def test_plain_ips_fails_where_the_policy_leaves_the_support(coverage):
    assert coverage["ips"].mass > 0.05
    assert coverage["ips"].plain < 0.95 - TOLERANCE


def test_no_plain_interval_survives_actions_that_were_never_logged():
    found = measure(replace(SETTING, worlds=40), "never-logged")
    assert max(each.plain for each in found) < 0.8


class Even:
    """Every action with one probability."""

    def __init__(self, k):
        self.action_names = tuple(range(k))

    def probabilities(self, contexts):
        return np.full((len(contexts), len(self.action_names)), 1 / len(self.action_names))


def tight_world():
    """The action that is never logged is worth exactly the lowest mean reward there is."""
    theta = np.random.default_rng(0).random((4, 2))
    theta[3] = 0.0
    return LinearWorld(theta=theta, n_actions=4, n_features=2, noise=1.0)


def tight_lower_limits():
    """Share of logs whose lower end lies below the truth, one-sided nominal 97.5 %, by method."""
    world, even = tight_world(), Even(4)
    contexts = world.contexts(400_000, np.random.default_rng(1))
    truth = float(world.means(contexts).mean())
    below = {name: 0 for name in ("ips", "dr", "aipw", "snips")}
    for seed in range(300):
        log = draw_log(world, rows=200, never=[3], seed=seed)
        found = evaluate(log, even, methods=list(below), reward_range=(0.0, 2.0))
        for estimate in found.estimates:
            below[estimate.method] += estimate.support_low <= truth
    return {name: count / 300 for name, count in below.items()}


def test_the_lower_end_is_neither_loose_nor_broken_where_the_bound_is_tight():
    for method, share in tight_lower_limits().items():
        assert 0.975 - 3.3 * np.sqrt(0.975 * 0.025 / 300) <= share < 1.0, (method, share)


def test_without_the_sampling_part_the_lower_end_fails(monkeypatch):
    module = sys.modules["sparing.evaluation.intervals"]
    monkeypatch.setattr(module, "closed_form", lambda terms, *_: (terms.value, terms.value))
    assert max(tight_lower_limits().values()) < 0.7


def test_fitted_propensities_cover_too():
    (found,) = measure(replace(SETTING, worlds=10, methods=("mlips",)), "never-logged")
    assert found.aware == 1.0
