"""Policies: the greedy one and its ties, and drawing from distributions."""

import numpy as np
import pytest
from scipy import stats

import sparing
from sparing.errors import SettingError
from sparing.policies.policy import GreedyPolicy, sample

LARGEST_DRAW = 1 - 2**-53
"""The largest number that a generator's `random` gives."""


def greedy(theta, priority):
    theta = np.asarray(theta, dtype=float)
    return GreedyPolicy(tuple(f"a{i}" for i in range(len(theta))), theta, np.asarray(priority))


class Draws:
    """A generator that always draws one number."""

    def __init__(self, value):
        self.value = value

    def random(self, size):
        return np.full(size, self.value)


def test_the_best_estimate_wins_whatever_the_priority():
    rng = np.random.default_rng(0)
    theta, contexts = rng.normal(size=(7, 3)), rng.normal(size=(50, 3))
    expected = [max(range(7), key=lambda a, x=x: sum(x * theta[a])) for x in contexts]
    for seed in range(5):
        policy = greedy(theta, np.random.default_rng(seed).permutation(7))
        np.testing.assert_array_equal(policy.indices(contexts), expected)


def test_ties_go_to_the_smallest_priority_number():
    policy = greedy([[1, 0], [0, 1], [1, 0], [0, 1]], priority=[3, 2, 1, 0])
    np.testing.assert_array_equal(policy.indices([[1, 0], [0, 1], [1, 1], [0, 0]]), [2, 3, 3, 3])


def test_equal_parameters_tie_for_any_number_of_actions_and_features():
    """Never-logged actions share the prior's mean: rounding must not choose between them."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n_actions, d, rows = rng.integers(2, 40), rng.integers(1, 40), rng.integers(1, 50)
        policy = greedy(np.tile(rng.normal(size=d), (n_actions, 1)), rng.permutation(n_actions))
        chosen = policy.indices(rng.normal(size=(rows, d)))
        np.testing.assert_array_equal(chosen, policy.priority.argmin())


def test_each_action_is_first_for_some_priority():
    chosen = {
        int(greedy(np.zeros((4, 2)), np.random.default_rng(seed).permutation(4)).indices([[1, 1]])[0])
        for seed in range(60)
    }
    assert chosen == {0, 1, 2, 3}


def test_probabilities_put_all_mass_on_the_action_taken():
    rng = np.random.default_rng(1)
    policy = greedy(rng.normal(size=(5, 3)), rng.permutation(5))
    contexts = rng.normal(size=(40, 3))
    table = policy.probabilities(contexts)
    assert table.shape == (40, 5)
    np.testing.assert_array_equal(table.sum(axis=1), 1)
    np.testing.assert_array_equal(table[np.arange(40), policy.indices(contexts)], 1)
    np.testing.assert_array_equal(sample(table, np.random.default_rng(0)), policy.indices(contexts))


def test_no_contexts_give_no_actions():
    policy = greedy(np.eye(3), [0, 1, 2])
    assert policy.indices(np.empty((0, 3))).shape == (0,)
    assert policy.probabilities(np.empty((0, 3))).shape == (0, 3)


def test_draws_follow_the_distribution():
    probabilities = np.array([0.0, 0.05, 0.5, 0.0, 0.25, 0.2, 0.0])
    rows = 20_000
    drawn = sample(np.tile(probabilities, (rows, 1)), np.random.default_rng(5))
    counts = np.bincount(drawn, minlength=7)
    assert not counts[probabilities == 0].any()
    low, high = stats.binom.ppf([[1e-4], [1 - 1e-4]], rows, probabilities)
    assert ((low <= counts) & (counts <= high)).all()


def test_each_row_is_drawn_from_its_own_distribution():
    rng = np.random.default_rng(6)
    kinds = rng.dirichlet(np.ones(4), size=3)
    which = np.arange(30_000) % 3
    drawn = sample(kinds[which], rng)
    for kind in range(3):
        counts = np.bincount(drawn[which == kind], minlength=4)
        low, high = stats.binom.ppf([[1e-4], [1 - 1e-4]], 10_000, kinds[kind])
        assert ((low <= counts) & (counts <= high)).all()


@pytest.mark.parametrize("draw", [0.0, LARGEST_DRAW])
def test_the_extreme_draws_stay_on_actions_with_mass(draw):
    tables = np.random.default_rng(7).dirichlet(np.ones(6), size=500)
    tables[:, [0, 5]] = 0
    tables /= tables.sum(axis=1, keepdims=True)
    drawn = sample(tables, Draws(draw))
    np.testing.assert_array_equal(drawn, 1 if draw == 0 else 4)


def test_one_seed_gives_one_sequence():
    tables = np.random.default_rng(8).dirichlet(np.ones(5), size=100)
    one, other = (sample(tables, np.random.default_rng(9)) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    assert (one != sample(tables, np.random.default_rng(10))).any()


def test_a_policy_without_names_of_its_actions_is_refused():
    class Nameless:
        def probabilities(self, contexts):
            return np.full((len(contexts), 2), 0.5)

    log = sparing.Log.from_arrays(np.ones((3, 1)), [0, 1, 0], [1.0, 0.0, 1.0])
    with pytest.raises(SettingError, match="without action_names"):
        sparing.evaluate(log, Nameless(), methods=["dm"])
