"""Direct loss minimisation: the compiled loop against a plain one, and its invariances."""

import time

import numpy as np
import pytest

from sparing.errors import SettingError
from sparing.learning import learn, objectives
from sparing.policies.pi_plus import compiled_on_use
from sparing.simulation import LinearWorld
from sparing.simulation.logging_policies import draw_log

descend = compiled_on_use(objectives.descend)


def plain(contexts, mask, costs, order, priority, epsilon, epsilon_decay, eta, eta_decay):
    """The same by the book: keep θ of every step and take the mean."""
    theta = np.zeros((costs.shape[1], contexts.shape[1]))
    kept = []
    for t, row in enumerate(order, start=1):
        x, wide = contexts[row], epsilon / t**epsilon_decay
        allowed = [a for a in sorted(range(len(theta)), key=lambda a: priority[a]) if mask[row, a]]
        leader = max(allowed, key=lambda a: theta[a] @ x)
        better = max(allowed, key=lambda a: theta[a] @ x - wide * costs[row, a])
        step = eta / t**eta_decay / wide
        theta[better] += step * x
        theta[leader] -= step * x
        kept.append(theta.copy())
    return np.mean(kept, axis=0)


def case(seed, rows=80, k=5, d=3):
    rng = np.random.default_rng(seed)
    mask = rng.random((rows, k)) < 0.6
    mask[np.arange(rows), rng.integers(0, k, rows)] = True
    order = np.concatenate([rng.permutation(rows) for _ in range(3)])
    return rng.normal(size=(rows, d)), mask, rng.normal(size=(rows, k)), order, rng.permutation(k)


@pytest.mark.parametrize("seed", range(5))
def test_the_compiled_loop_is_the_plain_one(seed):
    given = case(seed)
    for schedule in ((0.5, 0.1, 1.0, 0.3), (3.0, 0.0, 0.2, 0.0)):
        np.testing.assert_allclose(descend(*given, *schedule), plain(*given, *schedule), atol=1e-9)


def test_costs_outside_the_support_are_never_looked_at():
    contexts, mask, costs, order, priority = case(9)
    tempting = np.where(mask, costs, -1e300)
    schedule = (0.5, 0.1, 1.0, 0.3)
    np.testing.assert_array_equal(
        descend(contexts, mask, tempting, order, priority, *schedule),
        descend(contexts, mask, costs, order, priority, *schedule),
    )


def test_one_supported_action_teaches_nothing():
    contexts, mask, costs, order, priority = case(10)
    mask[:] = False
    mask[:, 2] = True
    assert not descend(contexts, mask, costs, order, priority, 0.5, 0.1, 1.0, 0.3).any()


def test_only_epsilon_squared_over_eta_matters():
    """θ·ε/η follows one path for a given ε²/η; a power of two keeps the rounding."""
    given = case(11)
    theta = descend(*given, 0.5, 0.1, 1.0, 0.3)
    scaled = descend(*given, 1.0, 0.1, 4.0, 0.3)
    np.testing.assert_allclose(scaled * 1.0 / 4.0, theta * 0.5 / 1.0, rtol=1e-12)


@pytest.fixture(scope="module")
def log():
    world = LinearWorld(n_actions=5, n_features=3, noise=1.0, seed=0)
    return draw_log(world, rows=1500, support="region", unsupported=0.3, seed=0)


@pytest.mark.parametrize("completion", ["dr", "ips"])
def test_both_completions_learn(log, completion):
    world = LinearWorld(n_actions=5, n_features=3, noise=1.0, seed=0)
    policy = learn(log, "opr-dlm", completion=completion)
    means = world.means(log.contexts)
    logged = (log.support.distribution() * means).sum(axis=1).mean()
    assert (policy.probabilities(log.contexts) * means).sum(axis=1).mean() > logged + 0.3


def test_a_hundred_thousand_rows_take_seconds():
    world = LinearWorld(n_actions=10, n_features=5, noise=1.0, seed=0)
    log = draw_log(world, rows=100_000, support="never-logged", unsupported=0.3, seed=0)
    learn(log.take(slice(0, 100)), "opr-dlm", epsilon=1.0)
    start = time.process_time()
    learn(log, "opr-dlm", epsilon=1.0, epochs=5)
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"completion": "dm"}, "must be one of dr, ips"),
        ({"epochs": 0}, "1 or more"),
        ({"epochs": 1.5}, "whole number"),
        ({"eta": 0.0}, "eta=0.0"),
        ({"epsilon": 0.0}, "epsilon=0.0"),
        ({"epsilon": np.nan}, "epsilon=nan"),
        ({"eta_decay": -1.0}, "eta_decay=-1.0"),
        ({"epsilon_decay": np.inf}, "epsilon_decay=inf"),
    ],
)
def test_settings_out_of_range(log, options, words):
    with pytest.raises(SettingError, match=words):
        learn(log, "opr-dlm", **options)
