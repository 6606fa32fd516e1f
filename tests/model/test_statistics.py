"""Statistics are a monoid and equal the sums written out row by row."""

import numpy as np
import pytest

from sparing.errors import LogError
from sparing.log import Log
from sparing.model.statistics import Statistics

N_ACTIONS, N_FEATURES = 5, 3


def draw(seed, rows, n_actions=N_ACTIONS, d=N_FEATURES):
    """A log whose values are k/64, so that every sum of products is exact in any order."""
    rng = np.random.default_rng(seed)
    return Log.from_arrays(
        rng.integers(-64, 65, size=(rows, d)) / 64,
        rng.integers(0, n_actions, size=rows),
        rng.integers(-128, 129, size=rows) / 64,
        action_names=list(range(n_actions)),
    )


def joined(*logs):
    return Log.from_arrays(
        np.concatenate([log.contexts for log in logs]),
        np.concatenate([log.actions for log in logs]),
        np.concatenate([log.rewards for log in logs]),
        action_names=logs[0].action_names,
    )


def assert_same(one, other):
    for name in ("counts", "gram", "response", "squares"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.largest == other.largest


def brute_force(log):
    k, d = log.n_actions, log.n_features
    counts, gram, response, squares = np.zeros(k), np.zeros((k, d, d)), np.zeros((k, d)), np.zeros(k)
    largest = 0.0
    for x, a, r in zip(log.contexts, log.actions, log.rewards, strict=True):
        counts[a] += 1
        squares[a] += r * r
        for i in range(d):
            response[a, i] += x[i] * r
            for j in range(d):
                gram[a, i, j] += x[i] * x[j]
        largest = max(largest, float(np.sqrt((x * x).sum())))
    return Statistics(counts, gram, response, squares, largest)


@pytest.mark.parametrize("seed", range(10))
def test_equal_the_sums_row_by_row(seed):
    log = draw(seed, rows=60)
    assert_same(Statistics.of(log), brute_force(log))


def test_close_to_the_sums_row_by_row_on_any_values():
    rng = np.random.default_rng(3)
    log = Log.from_arrays(rng.normal(size=(200, 4)), rng.integers(0, 6, 200), rng.normal(size=200) * 1e3)
    sums, expected = Statistics.of(log), brute_force(log)
    for name in ("counts", "gram", "response", "squares", "largest"):
        np.testing.assert_allclose(getattr(sums, name), getattr(expected, name), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_a_sum_is_the_statistics_of_both_logs(seed):
    first, second = draw(2 * seed, rows=40), draw(2 * seed + 1, rows=7)
    assert_same(Statistics.of(first) + Statistics.of(second), Statistics.of(joined(first, second)))


def test_every_split_of_a_log_adds_up_to_it():
    log = draw(5, rows=30)
    whole = Statistics.of(log)
    for cut in range(log.n_rows + 1):
        assert_same(Statistics.of(log.take(slice(0, cut))) + Statistics.of(log.take(slice(cut, None))), whole)


def test_the_order_of_rows_does_not_matter():
    log = draw(6, rows=50)
    shuffled = log.take(np.random.default_rng(0).permutation(log.n_rows))
    assert_same(Statistics.of(shuffled), Statistics.of(log))


def test_addition_is_associative_and_commutative():
    for seed in range(20):
        a, b, c = (Statistics.of(draw(100 + 3 * seed + i, rows=5 + i)) for i in range(3))
        assert_same((a + b) + c, a + (b + c))
        assert_same(a + b, b + a)


def test_zero_is_neutral_and_the_statistics_of_an_empty_log():
    zero = Statistics.zero(N_ACTIONS, N_FEATURES)
    sums = Statistics.of(draw(1, rows=20))
    assert_same(zero + sums, sums)
    assert_same(sums + zero, sums)
    assert_same(Statistics.of(Log.empty(action_names=range(N_ACTIONS), n_features=N_FEATURES)), zero)
    assert zero.n_rows == 0


def test_addition_leaves_its_terms_as_they_were():
    first, second = draw(8, rows=10), draw(9, rows=10)
    a, b = Statistics.of(first), Statistics.of(second)
    a + b
    assert_same(a, Statistics.of(first))
    assert_same(b, Statistics.of(second))


def test_never_logged_actions_have_zero_sums_of_their_own():
    log = Log.from_arrays([[3.0, 4.0]], ["b"], [2.0], action_names=["a", "b", "c"])
    sums = Statistics.of(log)
    np.testing.assert_array_equal(sums.counts, [0, 1, 0])
    np.testing.assert_array_equal(sums.gram[1], [[9, 12], [12, 16]])
    np.testing.assert_array_equal(sums.response, [[0, 0], [6, 8], [0, 0]])
    np.testing.assert_array_equal(sums.squares, [0, 4, 0])
    assert sums.largest == 5
    assert not sums.gram[[0, 2]].any()
    assert (sums.n_actions, sums.n_features, sums.n_rows) == (3, 2, 1)


@pytest.mark.parametrize("shape", [(N_ACTIONS + 1, N_FEATURES), (N_ACTIONS, N_FEATURES + 1)])
def test_statistics_of_other_actions_or_features_cannot_be_added(shape):
    with pytest.raises(LogError, match="same actions and features"):
        Statistics.zero(N_ACTIONS, N_FEATURES) + Statistics.zero(*shape)
