"""The compiled π⁺ is its plain twin, bit for bit: repeats, ties, every kind of support, every size of context."""

import numpy as np
import pytest

from each import for_each
from reference.pi_plus import pi_plus as plain
from sparing.log import Log
from sparing.policies.pi_plus import pi_plus

FIELDS = ("weights", "thresholds", "offsets", "entry_actions", "entry_mass")


def draw(seed, *, rows, contexts, actions, knowledge="propensities", coarse=False, each_its_own=False):
    """Rewards of both signs, propensities that differ between repeats; `coarse` makes values tie."""
    rng = np.random.default_rng(seed)
    mu = rng.dirichlet(np.ones(actions), size=rows)
    mu[:, : actions // 2] *= rng.random((rows, actions // 2)) < 0.6
    mu[np.arange(rows), rng.integers(actions, size=rows)] += 0.3
    mu /= mu.sum(axis=1, keepdims=True)
    chosen = (mu.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(max=actions - 1)
    chosen = np.where(mu[np.arange(rows), chosen] > 0, chosen, mu.argmax(axis=1))
    rewards = rng.integers(-1, 2, rows).astype(float) if coarse else rng.normal(size=rows)
    known = {"propensities": mu[np.arange(rows), chosen]}
    if coarse:
        known["propensities"] = rng.choice([0.125, 0.25, 0.5, 1.0], rows)
    if knowledge == "distribution":
        known = {"distribution": mu}
    elif knowledge == "eligible":
        known["eligible"] = [np.flatnonzero(row).tolist() for row in mu]
    which = rng.permutation(rows) if each_its_own else rng.integers(contexts, size=rows)
    return Log.from_arrays(which[:, None], chosen, rewards, action_names=range(actions), **known)


def assert_same(log, bound):
    found = pi_plus(log, bound)
    for name, expected in zip(FIELDS, plain(log, bound), strict=True):
        np.testing.assert_array_equal(getattr(found, name), expected, err_msg=name)
        assert getattr(found, name).dtype == expected.dtype


@for_each("bound", [1.0, 1.7, 5.0, float("inf")])
@pytest.mark.parametrize("knowledge", ["distribution", "eligible", "propensities"])
@pytest.mark.parametrize("shape", ["few", "many", "own"])
def test_as_the_plain_twin(shape, knowledge, bound):
    for seed in range(4):
        sizes = {"few": (400, 60, 5), "many": (2000, 3, 70), "own": (300, 300, 6)}[shape]
        rows, contexts, actions = sizes
        log = draw(
            seed,
            rows=rows,
            contexts=contexts,
            actions=actions,
            knowledge=knowledge,
            each_its_own=shape == "own",
        )
        assert_same(log, bound)


@pytest.mark.parametrize("bound", [1.0, 2.0, float("inf")])
@pytest.mark.parametrize(("contexts", "actions"), [(40, 6), (1, 60), (500, 6)])
def test_ties_go_to_the_smaller_action_and_unlogged_ones_come_last(contexts, actions, bound):
    log = draw(3, rows=500, contexts=contexts, actions=actions, coarse=True, each_its_own=contexts == 500)
    assert_same(log, bound)
    found = pi_plus(log, bound)
    value = np.zeros((contexts, actions + 1))  # the last column is UNLOGGED's
    np.add.at(value, (log.groups, log.actions), log.rewards / log.propensities)
    ties = 0
    for group in range(int(log.groups.max()) + 1):
        listed = found.entry_actions[found.offsets[group] : found.offsets[group + 1]]
        ranks = [(-value[group, action], action if action >= 0 else actions) for action in listed]
        assert ranks == sorted(ranks)
        ties += len(listed) - len({worth for worth, _ in ranks})
    assert ties > 0


@pytest.mark.parametrize("actions", [2, 40])
def test_values_past_the_largest_number_are_ordered_too(actions):
    """Σ r/μ may overflow to ±inf, and their sum to no number, which comes last."""
    rewards = np.tile([1e50, -1e50, 1.0, -1e50], actions)[: 2 * actions]
    log = Log.from_arrays(
        np.zeros((2 * actions, 1)),
        np.tile(np.arange(actions), 2),
        rewards,
        propensities=np.full(2 * actions, 1e-209 / actions),
        action_names=range(actions),
    )
    with np.errstate(all="ignore"):
        expected = plain(log, 3.0)
        found = pi_plus(log, 3.0)
    np.testing.assert_array_equal(found.entry_actions, expected[3])
    np.testing.assert_array_equal(found.weights, expected[0])
