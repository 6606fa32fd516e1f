"""Boosted trees as arrays: equal to scikit-learn's own predictions, whole, and cross-fitted."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from sparing.errors import MissingExtraError, SettingError
from sparing.log import Log
from sparing.model import boosting
from sparing.model.boosting import SHRINKAGE, Trees, boost, grow


def make(rows: int = 400, *, binary: bool = False, seed: int = 0) -> Log:
    """Two actions whose better one is a matter of a product; a third that nobody tries. Coarse features tie."""
    rng = np.random.default_rng(seed)
    contexts = rng.integers(-8, 9, (rows, 3)) / 4.0
    actions = rng.integers(0, 2, rows)
    means = np.where(actions == 0, contexts[:, 0] * contexts[:, 1], 0.2)
    rewards = (rng.random(rows) < 1 / (1 + np.exp(-2 * means))) if binary else means + rng.normal(size=rows)
    return Log.from_arrays(
        contexts,
        actions,
        rewards.astype(float),
        distribution=np.tile([0.5, 0.5, 0.0], (rows, 1)),
        action_names=[0, 1, 2],
    )


def walked(trees: Trees, x: np.ndarray) -> np.ndarray:
    """The scores of one context, by the words of the docstring."""
    scores = trees.base.copy()
    for root, owner in zip(trees.roots, trees.owners, strict=True):
        node = root
        while trees.right[node]:
            node = node + 1 if x[trees.features[node]] <= trees.thresholds[node] else trees.right[node]
        scores[owner] += trees.values[node]
    return scores


@pytest.mark.parametrize("binary", [False, True])
def test_scores_are_those_of_scikit_learn(binary):
    log = make(600, binary=binary)
    trees = grow(log, 30, binary=binary)
    edges = np.tile(trees.thresholds[trees.right > 0][:, None], (1, 3))  # a context on the edge goes left
    x = np.vstack([log.contexts, np.random.default_rng(1).normal(size=(500, 3)) * 3, edges])
    for action in (0, 1):
        rows = log.actions == action
        kind = HistGradientBoostingClassifier if binary else HistGradientBoostingRegressor
        settings = {"max_iter": 30, "max_leaf_nodes": 15, "early_stopping": False, "random_state": 0}
        model = kind(**settings, min_samples_leaf=min(20, rows.sum() // 20))
        with threadpool_limits(limits=1, user_api="openmp"):
            model.fit(log.contexts[rows], log.rewards[rows].astype(int) if binary else log.rewards[rows])
        theirs = model.decision_function(x) if binary else model.predict(x)
        first = np.log(log.rewards[rows].mean() / (1 - log.rewards[rows].mean())) if binary else None
        start = first if binary else log.rewards[rows].mean()
        ours = trees.scores(x)[:, action] - trees.base[action] + start
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_scores_are_walks_and_an_action_without_rows_has_the_mean_of_the_others():
    trees = grow(make(), 7, binary=False)
    x = np.random.default_rng(2).normal(size=(40, 3))
    expected = np.array([walked(trees, row) for row in x])
    expected[:, 2] = expected[:, :2].mean(axis=1)
    np.testing.assert_allclose(trees.scores(x), expected, atol=1e-12)
    assert trees.rows[2] == 0


def test_rewards_of_log_odds_are_chances():
    trees = grow(make(binary=True), 7, binary=True)
    x = make().contexts[:20]
    np.testing.assert_allclose(trees.rewards(x), 1 / (1 + np.exp(-trees.scores(x))))


def test_a_lucky_row_does_not_lead():
    """Actions with too few rows for a split have their mean, drawn towards the mean of all rows."""
    rewards = np.array([1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    log = Log.from_arrays(np.ones((7, 1)), [0] + [1] * 6, rewards, propensities=np.full(7, 0.5))
    base = grow(log, 5, binary=False).base
    np.testing.assert_allclose(base[0], (1 + SHRINKAGE * 2 / 7) / (1 + SHRINKAGE))
    np.testing.assert_allclose(base[1], (1 + SHRINKAGE * 2 / 7) / (6 + SHRINKAGE))


def test_fewer_rounds_are_the_first_trees():
    log = make(binary=True)
    cut = boosting._first(grow(log, 20, binary=True), 6)
    np.testing.assert_array_equal(cut.scores(log.contexts), grow(log, 6, binary=True).scores(log.contexts))


def test_no_row_is_predicted_by_trees_that_saw_its_context():
    log = make(300)
    model = boost(log, folds=3, rounds=(8,))
    held = model.fold_of == 1
    changed = replace(log, rewards=np.where(held, -5.0, log.rewards))
    again = boost(changed, folds=3, rounds=(8,))
    np.testing.assert_array_equal(model.held_out(log.contexts)[held], again.held_out(log.contexts)[held])
    assert (model.held_out(log.contexts)[~held] != again.held_out(log.contexts)[~held]).any()
    np.testing.assert_array_equal(
        model.held_out(log.contexts, slice(30, 60)), model.held_out(log.contexts)[30:60]
    )
    for group in np.unique(log.groups):
        assert len(set(model.fold_of[log.groups == group])) == 1


def test_the_rounds_chosen_have_the_least_loss():
    log = make(400)
    tried = {rounds: boost(log, folds=3, rounds=(rounds,)).loss for rounds in (2, 10, 40)}
    assert boost(log, folds=3, rounds=(2, 10, 40)).rounds == min(tried, key=lambda rounds: tried[rounds])


def test_a_log_of_one_context_has_nothing_to_split():
    log = Log.from_arrays(np.ones((40, 1)), [0, 1] * 20, [0.0, 1.0] * 20, propensities=np.full(40, 0.5))
    scores = boost(log).trees.scores(np.ones((1, 1)))
    assert scores[0, 1] > scores[0, 0]


def test_trees_that_never_end_or_leave_their_arrays_are_refused():
    good = grow(make(), 3, binary=False)
    inner = int(np.flatnonzero(good.right)[1])  # not the first, for which right = 0 is a leaf

    def changed(name: str, place: int, value: float) -> dict[str, np.ndarray]:
        array = getattr(good, name).copy()
        array[place] = value
        return {name: array}

    for change in (
        changed("right", inner, inner),
        changed("right", inner, inner + 1),
        changed("right", inner, len(good.right)),
        changed("right", inner, -1),
        changed("right", -1, 1),
        changed("features", inner, 3),
        changed("features", inner, -1),
        changed("roots", 0, len(good.right)),
        changed("owners", 0, 3),
        changed("values", 0, np.nan),
        {"values": good.values[:-1]},
        {"rows": good.rows.astype(float)},
    ):
        with pytest.raises(SettingError):
            replace(good, **change)


def test_an_unknown_layout_of_scikit_learns_trees_is_told():
    class Other:
        _predictors = ((object(),),)

    with pytest.raises(MissingExtraError, match=r"unknown form.*linear method"):
        boosting._nodes(Other())
