"""Scores on held-out contexts: the support-aware limit, its coverage, and the choice it makes."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sparing.engines import ProgressCounter
from sparing.errors import SettingError
from sparing.learning import learn
from sparing.learning.request import LearningRequest, TrainingData
from sparing.learning.ridge import (
    choose,
    choose_ridge,
    grid,
    lower_limit,
    support_aware_terms,
)
from sparing.log import Log, Support
from sparing.log.rows import as_rows
from sparing.model.crossfitting import errors_up_to_scale
from sparing.policies.policy import one_hot
from sparing.simulation import LinearWorld, datasets, draw_log
from sparing.simulation.worlds import ClassificationWorld


def make(contexts, actions, rewards, propensities, mask):
    return Log.from_arrays(
        contexts,
        actions,
        rewards,
        propensities=propensities,
        support=Support.from_mask(np.asarray(mask, dtype=bool)),
        action_names=range(np.shape(mask)[1]),
    )


def unknown(log):
    """The same rows by a log that does not say what they could have taken."""
    return replace(log, support=Support.unknown(log.n_rows, log.n_actions))


def test_the_limit_by_hand():
    mask = np.array([[1, 1, 0], [1, 0, 1]], dtype=bool)
    log = make([[0.0], [1.0]], [0, 2], [2.0, -1.0], [0.5, 0.25], mask)
    table = np.array([[0.5, 0.2, 0.3], [0.1, 0.4, 0.5]])
    terms = np.array([0.5 / 0.5 * 2.0 + 0.3 * -4.0, 0.5 / 0.25 * -1.0 + 0.4 * -4.0])
    expected = terms.mean() - stats.norm.ppf(0.975) * terms.std(ddof=1) / np.sqrt(2)
    assert lower_limit(support_aware_terms(table, log, -4.0)) == pytest.approx(expected)
    weights = np.array([1.0, 2.0])
    terms = weights * log.rewards + (1 - weights) * -4.0
    expected = terms.mean() - stats.norm.ppf(0.975) * terms.std(ddof=1) / np.sqrt(2)
    assert lower_limit(support_aware_terms(table, unknown(log), -4.0)) == pytest.approx(expected)


def test_one_row_has_no_limit():
    log = make([[0.0]], [0], [1.0], [1.0], [[True, True]])
    assert lower_limit(support_aware_terms(np.array([[1.0, 0.0]]), unknown(log), 0.0)) == -np.inf


@pytest.mark.parametrize("known", [True, False])
def test_the_limit_is_below_the_true_value_as_often_as_it_says(known):
    """A policy with mass outside the support, true means there above r_min: misses at most 2.5 %."""
    rng = np.random.default_rng(3)
    k, n, runs = 4, 300, 600
    theta = rng.normal(size=(3, k))
    missed = 0
    for _ in range(runs):
        contexts = rng.random((n, 3))
        means = contexts @ theta
        mask = np.ones((n, k), dtype=bool)
        mask[contexts[:, 0] > 0.5, 3] = False
        mu = mask / mask.sum(axis=1, keepdims=True)
        table = np.exp(contexts @ theta[:, ::-1])
        table /= table.sum(axis=1, keepdims=True)
        actions = (mu.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
        rows = np.arange(n)
        log = make(contexts, actions, means[rows, actions] + rng.normal(size=n), mu[rows, actions], mask)
        lowest = np.abs(theta).sum(axis=0).max() * -1.0
        limit = lower_limit(support_aware_terms(table, log if known else unknown(log), lowest))
        missed += limit > (table * means).sum(axis=1).mean()
    assert missed <= stats.binom.ppf(0.9999, runs, 0.025)


def two_sided(seed=0, rows=300):
    """Action 0 pays 1; action 1 pays 3 on half the rows and is unsupported on the others.

    Always action 1 is worth 1.5 + r_min/2: less than action 0 for r_min = −5, more for the 0.7 observed.
    """
    rng = np.random.default_rng(seed)
    mask = np.ones((rows, 2), dtype=bool)
    mask[: rows // 2, 1] = False
    mu = mask / mask.sum(axis=1, keepdims=True)
    actions = np.where(mask[:, 1], rng.integers(0, 2, rows), 0)
    rewards = 1.0 + 2.0 * actions + 0.1 * rng.normal(size=rows)
    return make(rng.random((rows, 2)), actions, rewards, mu[np.arange(rows), actions], mask)


def test_unsupported_mass_is_not_scored_as_zero():
    """Rewards are all about −1 on the support: plain IPS would flee to where it sees nothing."""
    rng = np.random.default_rng(0)
    mask = np.array([[True, False]] * 100)
    log = make(rng.random((100, 2)), np.zeros(100, int), -1 + 0.1 * rng.normal(size=100), np.ones(100), mask)
    stay, flee = one_hot(np.zeros(100, int), 2), one_hot(np.ones(100, int), 2)
    lowest = float(log.rewards.min())
    for seen in (log, unknown(log)):
        assert lower_limit(support_aware_terms(stay, seen, lowest)) > lower_limit(
            support_aware_terms(flee, seen, lowest)
        )


class Always:
    """A policy that takes one action, given by its number, in every context."""

    def __init__(self, action):
        self.action = int(action)

    def probabilities(self, contexts):
        return one_hot(np.full(len(contexts), self.action), 2)


def test_the_best_setting_wins_and_held_out_contexts_are_not_learnt_from():
    log = two_sided()
    material = TrainingData(log)
    seen, reports = [], []

    def fit(part, setting):
        seen.append(set(map(bytes, part.log.contexts)))
        return Always(setting["l2"])

    progress = ProgressCounter(lambda done, total: reports.append((done, total)))
    request = LearningRequest(as_rows(log), folds=4, reward_range=(-5.0, 5.0), progress=progress)
    settings = grid(l2=(None, (1.0, 0.0)))
    chosen, notes = choose(request, material, settings, fit)
    assert chosen == {"l2": 0.0}
    assert "does not show it to be better than the logging policy" in notes[1]
    assert "l2 = 0 of 2 settings" in notes[0]
    assert reports == [(step, 9) for step in range(1, 9)]
    everything = set(map(bytes, log.contexts))
    assert [len(everything - part) for part in seen] == [75] * 8
    assert set.union(*(everything - part for part in seen[:4])) == everything
    chosen, notes = choose(LearningRequest(as_rows(log), folds=4), material, settings, fit)
    assert chosen == {"l2": 1.0}
    assert len(notes) == 1


def test_a_single_setting_or_context_needs_no_fits():
    log = two_sided()

    def never(part, setting):
        raise AssertionError("nothing to choose between")

    material = TrainingData(log)
    assert choose(LearningRequest(as_rows(log)), material, [{"l2": 1.0}], never) == ({"l2": 1.0}, ())
    one = make(np.ones((5, 1)), [0] * 5, [1.0] * 5, [1.0] * 5, [[True, True]] * 5)
    chosen, notes = choose(
        LearningRequest(as_rows(one)), TrainingData(one), grid(l2=(None, (3.0, 4.0))), never
    )
    assert chosen == {"l2": 3.0}
    assert "one context only" in notes[0]


def test_repeats_of_a_context_are_held_out_together():
    rng = np.random.default_rng(0)
    contexts = np.repeat(rng.random((30, 2)), 10, axis=0)
    mask = np.ones((300, 2), dtype=bool)
    log = make(contexts, rng.integers(0, 2, 300), rng.random(300), np.full(300, 0.5), mask)
    sizes = []

    def fit(part, setting):
        sizes.append(len(np.unique(part.log.contexts, axis=0)))
        return Always(0)

    choose(LearningRequest(as_rows(log)), TrainingData(log), grid(l2=(None, (1, 2))), fit)
    assert sizes == [20] * 6


def test_the_ridge_is_the_one_with_the_least_held_out_error():
    """Against refitting by hand, fold by fold, row by row."""
    from sparing.model.crossfitting import Folds

    rng = np.random.default_rng(1)
    contexts, actions = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
    rewards = contexts @ rng.normal(size=4) + 3 * rng.normal(size=60)
    log = make(contexts, actions, rewards, np.full(60, 1 / 3), np.ones((60, 3), dtype=bool))
    ridges = (0.01, 1.0, 10.0, 100.0)
    fold_of = Folds.of(log, 3, 5).assign_folds(log)
    errors = []
    for ridge in ridges:
        error = 0.0
        for i in range(60):
            rows = (fold_of != fold_of[i]) & (actions == actions[i])
            x = contexts[rows]
            theta = np.linalg.solve(x.T @ x + ridge * np.eye(4), x.T @ rewards[rows])
            error += (rewards[i] - contexts[i] @ theta) ** 2
        errors.append(error)
    choice = choose_ridge(LearningRequest(as_rows(log), seed=5, folds=3), ridges)
    assert choice.ridge == ridges[int(np.argmin(errors))]
    assert "by squared error" in choice.notes[0]
    assert int(np.argmin(errors)) > 0


def noisy_classes(seed):
    """Digits, rewards of 0 and 1: half of the time the right class's, else a fair coin."""
    world = ClassificationWorld(datasets.load("digits"), noisy=True, seed=seed)
    return world, draw_log(world, support="per-context", unsupported=0.2, seed=seed)


def test_noise_does_not_cost_the_order_of_the_actions():
    """By squared error the ridge shrinks until most digits look alike; what an argmax sees does not need that."""
    gains = []
    for seed in range(10):
        world, log = noisy_classes(seed)
        plain, ranked = (
            world.error(learn(log, "greedy", score=score)) for score in ("squared-error", "argmax")
        )
        gains.append(plain - ranked)
    assert np.mean(gains) > 2 * np.std(gains, ddof=1) / np.sqrt(len(gains))
    assert np.mean(gains) > 0.05


def test_where_squared_error_is_right_it_is_kept():
    for seed in range(100, 110):
        world = LinearWorld(n_actions=10, n_features=5, noise=1.0, seed=seed)
        log = draw_log(world, rows=1000, unsupported=0.4, seed=seed)
        plain, ranked = (learn(log, "greedy", score=score) for score in ("squared-error", "argmax"))
        np.testing.assert_array_equal(plain.theta, ranked.theta)


def test_the_judgement_is_blind_to_shift_and_scale():
    rng = np.random.default_rng(0)
    rewards, predicted = rng.normal(size=200), rng.normal(size=200)
    errors = errors_up_to_scale(rewards, predicted)
    np.testing.assert_allclose(errors_up_to_scale(rewards, 7 * predicted - 3), errors)
    design = np.column_stack([np.ones(200), predicted])
    residuals = np.linalg.lstsq(design, rewards, rcond=None)[1]
    flat = ((rewards - rewards.mean()) ** 2).sum()
    assert errors.sum() == pytest.approx(float(residuals[0]) if rewards @ predicted > 0 else flat)
    right = predicted @ rewards > rewards.mean() * predicted.sum()
    wrong_way = errors_up_to_scale(rewards, -predicted if right else predicted).sum()
    assert wrong_way == pytest.approx(flat), "a ranking upside down explains nothing"
    assert errors_up_to_scale(rewards, np.ones(200)).sum() == pytest.approx(flat)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"l2": (-1.0, (1,))}, "l2=-1.0; must be a finite number, 0 or more"),
        ({"k": (np.nan, (1,))}, "k=nan"),
        ({"k": ("high", (1,))}, "k='high'"),
        ({"penalty": ([], (1,))}, "one or more numbers"),
        ({"l2": (np.inf, (1,))}, "finite"),
    ],
)
def test_hyper_parameters_out_of_range(options, words):
    with pytest.raises(SettingError, match=words):
        grid(**options)


def test_grids_are_all_combinations_in_order():
    points = grid(k=([-1, 2], ()), l2=(None, (0.1, 0.2)), clip=("inf", ()))
    assert [tuple(point.values()) for point in points] == [
        (-1, 0.1, np.inf),
        (-1, 0.2, np.inf),
        (2, 0.1, np.inf),
        (2, 0.2, np.inf),
    ]
