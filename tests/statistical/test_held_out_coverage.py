"""The interval of a freshly learnt policy, on the rows held out, holds what the policy is truly worth."""

import numpy as np
import pytest

import sparing

LOGS = 40


@pytest.fixture(scope="module")
def readme():
    """The README's setting, seeded anew: whether dr's and ips's intervals hold the truth, held out and in-sample."""
    held, taught = {"dr": [], "ips": []}, {"dr": [], "ips": []}
    for seed in range(LOGS):
        world = sparing.simulation.LinearWorld(n_actions=20, n_features=5, noise=2.0, seed=seed)
        log = sparing.simulation.draw_log(
            world, rows=3000, support="never-logged", unsupported=0.2, seed=seed + 1
        )
        policy = sparing.learn(log, "greedy", ridge=1.0, holdout=0.3, seed=seed)
        contexts = world.contexts(20_000, np.random.default_rng([seed, 5]))
        truth = world.means(contexts)[np.arange(20_000), policy.indices(contexts)].mean()
        teaching = log.take(~policy.trained_on.split.held_out(log))
        for kept, rows, how in ((held, log, "refuse"), (taught, teaching, "allow")):
            for each in sparing.evaluate(rows, policy, methods=["dr", "ips"], training_rows=how).estimates:
                kept[each.method].append(each.low <= truth <= each.high)
    return held, taught


@pytest.mark.parametrize("method", ["dr", "ips"])
def test_held_out_intervals_hold(readme, method):
    assert np.mean(readme[0][method]) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / LOGS)


def test_in_sample_ones_do_not(readme):
    held, taught = readme
    assert np.mean(taught["dr"]) < np.mean(held["dr"])
