"""Rewards that come late or never: open calls count, so the same doubt is not asked about again and again."""

import numpy as np
import pytest

import sparing
from sparing.simulation import LinearWorld, draw_log

ROUNDS, SEEDS, TOLERANCE = 4000, range(6), 0.3
LEARNERS = {
    "confident": lambda log, seed: sparing.confident(log, tolerance=TOLERANCE, seed=seed),
    "certified": lambda log, seed: sparing.certified(log, tolerance=TOLERANCE, radius_scale=0.2, seed=seed),
}


def traces(name, **post):
    """Runs of one learner over worlds with 20 actions, 10 features and four actions that were never logged."""
    found = []
    for seed in SEEDS:
        world = LinearWorld(n_actions=20, n_features=10, noise=2.0, seed=seed)
        log = draw_log(world, rows=30_000, support="never-logged", unsupported=0.2, seed=seed)
        found.append(sparing.simulate(LEARNERS[name](log, seed), world, rounds=ROUNDS, seed=seed, **post))
    return found


def mean_of(runs, last):
    return float(np.mean([last(run) for run in runs]))


@pytest.mark.parametrize("name", LEARNERS)
def test_a_delay_costs_few_calls_and_what_it_must(name):
    at_once, late = traces(name), traces(name, delay=1000)
    calls = [mean_of(runs, lambda run: run.calls[-1]) for runs in (at_once, late)]
    regret = [mean_of(runs, lambda run: run.regret[-1]) for runs in (at_once, late)]
    assert calls[1] <= 1.5 * calls[0]
    assert regret[1] <= (2.5 if name == "confident" else 3.5) * regret[0]
    reasons = np.concatenate([run.reasons for run in late])
    losses = np.concatenate([run.losses for run in late])
    assert (reasons == "pending").mean() > 0.1
    kept = reasons == name
    # What the rule promises is said only of what the rewards that came have shown.
    assert (losses[kept] > TOLERANCE).mean() <= 0.05
    assert not (np.concatenate([run.reasons for run in at_once]) == "pending").any()


def test_half_of_the_rewards_missing():
    runs = traces("confident", delay=200, missing=0.5)
    skipped = np.concatenate([run.skipped_losses for run in runs])
    assert len(skipped) > 5000
    assert (skipped > TOLERANCE).mean() <= 0.05


def test_without_counting_open_calls_the_same_doubt_is_asked_again(monkeypatch):
    """The control: were open calls not counted, a delay would raise the calls far beyond the limit above."""
    from sparing.online.core import Core

    at_once = traces("confident")
    monkeypatch.setattr(Core, "_impute", lambda self, call: 0.0)
    late = traces("confident", delay=1000)
    assert mean_of(late, lambda run: run.calls[-1]) > 2 * mean_of(at_once, lambda run: run.calls[-1])
