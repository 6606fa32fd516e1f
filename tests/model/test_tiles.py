"""The tiled kernel gives the sums written out action by action, however the rows come."""

from itertools import pairwise

import numpy as np
import pytest

from each import for_each
from sparing.log import Log
from sparing.model import statistics
from sparing.model.statistics import Statistics
from sparing.model.tiles import DEPTH, SMALL, TILE, TOGETHER, Tiles, waiting_rows

SUMS = ("counts", "gram", "response", "squares", "largest")


def exact_rows(seed, rows, n_actions, d):
    """Values k/64, so that every sum of products is exact in any order."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-64, 65, size=(rows, d)) / 64
    return x, rng.integers(0, n_actions, rows, dtype=np.int32), rng.integers(-128, 129, rows) / 64


def any_rows(seed, rows, n_actions, d):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, d))
    return x, rng.integers(0, n_actions, rows, dtype=np.int32), rng.normal(size=rows)


def twin(x, actions, rewards, n_actions):
    chosen = [actions == action for action in range(n_actions)]
    return Statistics(
        np.array([rows.sum() for rows in chosen]),
        np.array([x[rows].T @ x[rows] for rows in chosen]),
        np.array([x[rows].T @ rewards[rows] for rows in chosen]),
        np.array([rewards[rows] @ rewards[rows] for rows in chosen]),
        float(np.sqrt((x * x).sum(axis=1).max(initial=0.0))),
    )


def tiled(x, actions, rewards, n_actions, *, cuts=(), columns=True):
    tiles = Tiles(n_actions, x.shape[1])
    ends = [0, *cuts, len(x)]
    for start, end in pairwise(ends):
        rows = slice(start, end)
        contexts = list(np.ascontiguousarray(x[rows].T)) if columns else x[rows]
        tiles.add(contexts, actions[rows], rewards[rows])
    return tiles.sums()[0]


def assert_same(one, other):
    for name in SUMS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("columns", [True, False], ids=["columns", "rows"])
@for_each("d", [1, 3, 4, 7, 8, 9, 31, 32, 33, 65])
def test_equal_the_sums_of_each_action(d, columns):
    rows = exact_rows(d, 3 * DEPTH + TILE + 5, 3, d)
    assert_same(tiled(*rows, 3, columns=columns), twin(*rows, 3))


@pytest.mark.parametrize("n", [0, 1, TILE - 1, TILE, TILE + 1, DEPTH, DEPTH + 1])
def test_any_number_of_rows_of_one_action(n):
    rows = exact_rows(n, n, 1, 5)
    assert_same(tiled(*rows, 1), twin(*rows, 1))


def test_more_actions_than_rows():
    rows = exact_rows(4, 40, 500, 6)
    assert_same(tiled(*rows, 500), twin(*rows, 500))


def test_bits_do_not_depend_on_batches_or_layout():
    rows = any_rows(0, 1500, 4, 11)
    whole = tiled(*rows, 4)
    rng = np.random.default_rng(1)
    for pieces in (1, 3, 40):
        cuts = np.sort(rng.integers(0, 1501, pieces)).tolist()
        assert_same(tiled(*rows, 4, cuts=cuts), whole)
        assert_same(tiled(*rows, 4, cuts=cuts, columns=False), whole)


def test_each_fold_has_the_bits_of_its_own_rows():
    x, actions, rewards = any_rows(3, 2000, 4, 13)
    fold_of = np.random.default_rng(5).integers(0, 3, len(x))
    tiles = Tiles(4, 13, folds=3)
    for rows in (slice(0, 700), slice(700, 2000)):
        tiles.add(x[rows], actions[rows], rewards[rows], fold_of[rows])
    for fold, sums in enumerate(tiles.sums()):
        of = fold_of == fold
        assert_same(sums, tiled(x[of], actions[of], rewards[of], 4))


def test_the_order_of_additions_is_that_of_plain_loops():
    """Saved sums of large logs have these bits: rows in groups of eight, their products added in pairs."""
    x, actions, rewards = any_rows(8, 150, 1, 21)
    gram, response, square, squares = np.zeros((21, 21)), np.zeros(21), 0.0, 0.0
    for start in range(0, 150, DEPTH):
        rows = np.zeros((DEPTH, 21))
        rows[: len(x[start : start + DEPTH])] = x[start : start + DEPTH]
        for group in rows.reshape(-1, TOGETHER, 21):
            parts = [np.outer(row, row) for row in group]
            while len(parts) > 1:
                parts = [one + other for one, other in zip(parts[::2], parts[1::2], strict=True)]
            gram += parts[0]
    for start, (row, reward) in enumerate(zip(x, rewards, strict=True)):
        response += row * reward
        square += reward * reward
        if (start + 1) % DEPTH == 0:
            squares, square = squares + square, 0.0
    sums = tiled(x, actions, rewards, 1)
    np.testing.assert_array_equal(sums.gram[0], gram)
    np.testing.assert_array_equal(sums.response[0], response)
    np.testing.assert_array_equal(sums.squares, [squares + square])


def test_close_to_the_twin_on_any_values():
    """Each entry sums N products of size up to s²; the error stays under N·ε·Σ|products|."""
    x, actions, rewards = any_rows(2, 4000, 3, 17)
    sums, expected = tiled(x, actions, rewards, 3), twin(x, actions, rewards, 3)
    sizes = twin(np.abs(x), actions, np.abs(rewards), 3)
    for name in ("gram", "response", "squares"):
        bound = 4000 * np.finfo(float).eps * getattr(sizes, name)
        assert (np.abs(getattr(sums, name) - getattr(expected, name)) <= bound).all()
    np.testing.assert_array_equal(sums.gram, sums.gram.transpose(0, 2, 1))
    assert sums.largest == pytest.approx(expected.largest, rel=1e-14)


def test_a_finite_row_whose_norm_overflows_is_a_row():
    tiles = Tiles(1, 2)
    tiles.add(np.array([[1e200, 1.0]]), np.zeros(1, np.int32), np.ones(1))
    (sums,) = tiles.sums()
    assert sums.largest == np.inf
    np.testing.assert_array_equal(sums.response, [[1e200, 1.0]])


def test_columns_of_other_layouts_and_types():
    x, actions, rewards = exact_rows(6, 300, 3, 4)
    expected = twin(x, actions, rewards, 3)
    tiles = Tiles(3, 4)
    tiles.add([*x[:, :3].T, x[:, 3].astype(np.float32)], actions.astype(np.int64), rewards[:])
    assert_same(tiles.sums()[0], expected)
    tiles = Tiles(3, 4)
    tiles.add(np.asfortranarray(x), actions, rewards)
    assert_same(tiles.sums()[0], expected)


@for_each("k", [1, 100, 10_000, 100_000])
@for_each("d", [8, 32, 64, 200])
def test_waiting_rows_take_little(k, d):
    depth = waiting_rows(k, d)
    assert TOGETHER <= depth <= DEPTH
    assert depth % TOGETHER == 0
    assert 8 * k * depth * d <= max(SMALL, 8 * k * d * d)


def test_statistics_of_a_large_log_are_those_of_numpy(monkeypatch):
    x, actions, rewards = exact_rows(7, 700, 6, 5)
    log = Log.from_arrays(x, actions, rewards, action_names=range(8))
    plain = Statistics.of(log)
    monkeypatch.setattr(statistics, "COMPILED_CELLS", 0)
    assert_same(Statistics.of(log), plain)
    empty = Log.empty(action_names=range(8), n_features=5)
    assert_same(Statistics.of(empty), Statistics.zero(8, 5))
