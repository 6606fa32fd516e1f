"""What the log cannot see: how `auto` counts it, and which actions a new context is likely to support."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from sparing.errors import FileError, SettingError
from sparing.learning import learn
from sparing.learning.automatic import (
    CandidateSet,
    _held_out,
    _likely_support,
    evaluated_rows,
    fit_candidates,
    is_informative,
    is_linear,
    support_aware_rewards,
)
from sparing.learning.request import LearningRequest
from sparing.learning.ridge import lower_limit
from sparing.log import Log
from sparing.log.rows import as_rows
from sparing.policies.files import load_policy, save_policy
from sparing.policies.policy import sample
from sparing.policies.support import KnownSupport
from sparing.simulation import LinearWorld, draw_log

LINEAR = ("greedy", "pessimistic", "ipw-logistic")


def sharp(rows=3000, *, seed=0, sharpness=4.0, k=8, d=5):
    """A linear world, and a logger with blurred knowledge of it that never plays the half of the actions it likes least."""
    rng = np.random.default_rng(seed)
    theta = 0.6 * rng.normal(size=(k, d))
    blurred = theta + 0.6 * rng.normal(size=(k, d))

    def draw(rows):
        x = rng.uniform(-1, 1, (rows, d))
        x[:, -1] = 1
        return x

    x = draw(rows)
    scores = sharpness * x @ blurred.T
    scores[(-scores).argsort(axis=1).argsort(axis=1) >= k // 2] = -np.inf
    mu = softmax(scores, axis=1)
    actions = sample(mu, rng)
    rewards = (x @ theta.T)[np.arange(rows), actions] + rng.normal(size=rows)
    fresh = draw(20_000)
    worth = lambda policy: (fresh @ theta.T)[np.arange(len(fresh)), policy.indices(fresh)].mean()  # noqa: E731
    return Log.from_arrays(x, actions, rewards, distribution=mu, action_names=range(k)), worth


def half_planes(rows=4000, *, seed=0, k=6, d=4):
    """A log whose actions are supported in half-spaces of their own; and the half-spaces."""
    rng = np.random.default_rng(seed)
    x, lines = rng.normal(size=(rows, d)), rng.normal(size=(k, d))
    mask = x @ lines.T >= -0.5
    mask[:, 0] = True
    mu = mask / mask.sum(axis=1, keepdims=True)
    actions = sample(mu, rng)
    log = Log.from_arrays(x, actions, rng.normal(size=rows), distribution=mu, action_names=range(k))
    return log, lambda x: np.column_stack([np.ones(len(x), dtype=bool), x @ lines[1:].T >= -0.5])


def table_of(log, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(log.n_actions), log.n_rows)


def test_a_logger_that_knows_is_told_from_one_that_does_not():
    log, _ = sharp()
    truth = np.random.default_rng(0)
    theta = 0.6 * truth.normal(size=(8, 5))
    fitted = log.contexts @ theta.T
    assert is_informative(log, fitted)
    told = [is_informative(*_blind(seed)) for seed in range(200)]
    assert np.sum(told) <= 2  # three standard errors to one side: 0.3 of 200 expected


def _blind(seed):
    """A logger that plays what it may at random, and any model of the rewards."""
    world = LinearWorld(n_actions=6, n_features=3, seed=seed)
    log = draw_log(world, rows=300, support="region", unsupported=0.4, seed=seed)
    return log, world.means(log.contexts)


def test_what_is_not_believed_is_no_better_than_the_least_the_logger_does():
    """Whatever a model says of actions outside the support."""
    log, _ = sharp(500)
    rng, mask = np.random.default_rng(1), log.support.mask()
    fitted = 0.1 * rng.normal(size=mask.shape)
    least = [min(row[here]) for row, here in zip(fitted, mask, strict=True)]
    for lifted in (0.0, 100.0):
        wild = np.where(mask, fitted, fitted + lifted)
        for table in (table_of(log), table_of(log, 1)):
            outside = support_aware_rewards(log, table, wild, trusted=False)
            np.testing.assert_allclose(outside, np.tile(np.array(least)[:, None], 8))
            assert lower_limit(
                CandidateSet(log, {}, wild, None, trusted=False).terms(table)
            ) == pytest.approx(lower_limit(CandidateSet(log, {}, fitted, None, trusted=False).terms(table)))


def test_a_model_that_is_believed_speaks_less_what_it_promised_too_much():
    log, means = _blind(3)
    own, table = (np.arange(log.n_rows), log.actions), table_of(log)
    weights = table[own] / log.propensities
    short = np.average(log.rewards - means[own], weights=weights)
    lowest, highest = log.rewards.min(), log.rewards.max()
    as_it_is = support_aware_rewards(log, table, means, trusted=True)
    np.testing.assert_allclose(as_it_is, np.clip(means + min(short, 0), lowest, highest), atol=1e-12)
    too_much = support_aware_rewards(
        log, table, means + 5, trusted=True
    )  # it is found out, and counts the same
    np.testing.assert_allclose(too_much, np.clip(means + short, lowest, highest), atol=1e-12)
    too_little = support_aware_rewards(log, table, means - 5, trusted=True)
    np.testing.assert_allclose(too_little, np.clip(means - 5, lowest, highest), atol=1e-12)


@pytest.mark.parametrize(("bent", "trusted"), [(False, True), (True, False)])
def test_beyond_the_support_of_a_logger_that_knows_a_model_is_trusted_if_it_fits(bent, trusted):
    """One that does not know is no reason to doubt it."""
    log, _ = sharp(2000, sharpness=2.0)
    if bent:
        log = replace(log, rewards=log.rewards + 3 * np.abs(log.contexts[:, 0]) * (log.actions % 2))
    assert is_linear(log) is not bent
    trial = fit_candidates(LearningRequest(as_rows(log)), ("greedy",))
    assert is_informative(log, trial.fitted)
    assert trial.trusted is trusted
    blind, _ = _blind(1)
    assert fit_candidates(LearningRequest(as_rows(blind)), ("greedy",)).trusted
    assert not is_linear(log.take(np.arange(2000) < 10))  # too few to tell


def test_counting_is_right_on_average_where_the_model_is():
    """The mean of the judged rows is the policy's value, also outside the support, where rewards are as the model says."""
    found = []
    for seed in range(40):
        log, means = _blind(seed)
        table = table_of(log, seed)
        wide = means.clip(log.rewards.min(), log.rewards.max())
        rows = evaluated_rows(log, table, means, wide)
        found.append((rows.mean() - (table * means).sum(axis=1).mean()) / (rows.std() / np.sqrt(len(rows))))
    assert abs(np.mean(found)) < 3 * 1.3 / np.sqrt(40)


def test_new_contexts_support_what_the_logs_own_teach():
    log, truth = half_planes()
    fresh = np.random.default_rng(5).normal(size=(4000, 4))
    model = KnownSupport.fixed(log.counts > 0, 4).with_learned_lines(log)
    assert (model(fresh) == truth(fresh)).mean() > 0.97
    whole = KnownSupport.of(log).with_learned_lines(log)
    np.testing.assert_array_equal(whole(log.contexts), log.support.mask())  # those of the log are known
    np.testing.assert_array_equal(whole(fresh), model(fresh))


def test_where_sets_follow_nothing_all_is_supported():
    """Each context has a random third of the actions: nothing can be told of new ones, and nothing is."""
    rng = np.random.default_rng(0)
    x, mask = rng.normal(size=(3000, 4)), rng.random((3000, 6)) < 1 / 3
    mask[~mask.any(axis=1), 0] = True
    mu = mask / mask.sum(axis=1, keepdims=True)
    log = Log.from_arrays(x, sample(mu, rng), rng.normal(size=3000), distribution=mu, action_names=range(6))
    assert KnownSupport.of(log).with_learned_lines(log)(rng.normal(size=(2000, 4))).mean() > 0.999


def test_a_set_is_never_empty_and_never_has_what_was_not_logged():
    log, _ = half_planes()
    model = KnownSupport.fixed(np.array([False, True, True, True, True, False]), 4).with_learned_lines(log)
    far = 50 * np.random.default_rng(1).normal(size=(3000, 4))
    found = model(far)
    assert found.any(axis=1).all()
    assert not found[:, [0, 5]].any()
    lonely = model.lines[:, :-1] @ far.T + model.lines[:, -1:]
    nearest = np.where(model.elsewhere[:, None], lonely, -np.inf).argmax(axis=0)
    alone = found.sum(axis=1) == 1
    assert alone.any()
    np.testing.assert_array_equal(found[alone].argmax(axis=1), nearest[alone])


def test_auto_stays_on_the_support_where_no_line_fits():
    """A logger that knows when action 1 does harm, and never plays it there: the line through what it did see says nothing of it."""
    rng = np.random.default_rng(0)

    def means(x):
        return np.column_stack([0.5 + 0.4 * np.sin(6 * x[:, 1]), np.where(x[:, 0] > 0, 1.0, -9.0)])

    x, fresh = (np.column_stack([rng.uniform(-1, 1, (rows, 2)), np.ones(rows)]) for rows in (3000, 5000))
    mu = np.where(x[:, :1] > 0.2, [0.2, 0.8], [1.0, 0.0])
    actions = sample(mu, rng)
    rewards = means(x)[np.arange(3000), actions] + 0.3 * rng.normal(size=3000)
    log = Log.from_arrays(x, actions, rewards, distribution=mu, action_names=range(2))

    def worth(policy):
        return means(fresh)[np.arange(5000), policy.indices(fresh)].mean()

    policy = learn(log, "auto", candidates=("greedy",))
    assert policy.notes[0].startswith("greedy on the support of 1 method,")
    assert (
        policy.notes[1]
        == "what the logger never does in a context counted as the least of what it does there"
    )
    assert worth(learn(log, "greedy")) < -3
    assert worth(policy) > 0.6


def test_no_single_row_decides():
    """A reward of a million at a propensity of 1e-6 moves the limit by no more than √n rows would."""
    log, means = _blind(5)
    table = np.zeros_like(means)
    table[:, log.actions[0]] = 1.0
    rare = log.propensities.copy()
    rare[0] = 1e-6
    limit = {
        p: lower_limit(CandidateSet(replace(log, propensities=q), {}, means, None).terms(table))
        for p, q in (("as it is", log.propensities), ("rare", rare))
    }
    residual = abs(log.rewards[0] - means[0, log.actions[0]])
    assert abs(limit["rare"] - limit["as it is"]) < 4 * residual * np.sqrt(log.n_rows) / log.n_rows


def test_auto_follows_the_model_where_the_support_says_nothing():
    """A linear world, each action logged in a half-space: greedy is right beyond it, and staying within costs a third."""
    for seed in range(3):
        world = LinearWorld(n_actions=8, n_features=5, noise=1.0, seed=seed)
        log = draw_log(world, rows=3000, support="region", unsupported=0.4, seed=seed)
        policy = learn(log, "auto", candidates=LINEAR, seed=seed)
        assert policy.method in ("greedy", "pessimistic")
        assert policy.support.lines.size == 0  # free to leave the support
        assert "counted as the reward model predicts" in policy.notes[1]


def test_a_policy_that_is_kept_to_the_support_is_saved_with_it(tmp_path):
    log, _ = sharp(1500)
    policy = replace(
        learn(log, "greedy"),
        support=KnownSupport.fixed(log.counts > 0, log.n_features).with_learned_lines(log),
    )
    save_policy(policy, tmp_path / "kept.policy")
    again, fresh = load_policy(tmp_path / "kept.policy"), np.random.default_rng(2).normal(size=(500, 5))
    np.testing.assert_array_equal(again.indices(fresh), policy.indices(fresh))
    free = replace(policy, support=None)
    assert (free.indices(fresh) != policy.indices(fresh)).any()
    assert (tmp_path / "kept.policy").stat().st_size < 20_000  # not the log's contexts


def test_lines_of_another_size_are_refused(tmp_path):
    with pytest.raises(SettingError, match="lines of shape"):
        replace(KnownSupport.fixed(np.ones(3, dtype=bool), 2), lines=np.zeros((3, 2)))
    log, _ = sharp(800)
    kept = KnownSupport.fixed(log.counts > 0, log.n_features).with_learned_lines(log)
    kept.lines[0, 0] = np.nan
    with pytest.raises((SettingError, FileError), match="lines"):
        save_policy(replace(learn(log, "greedy"), support=kept), tmp_path / "wrong.policy")


def test_a_context_has_no_part_in_what_it_is_taken_to_support():
    """Random sets of few rows with many features: learnt by heart they would be right nearly everywhere."""
    rng = np.random.default_rng(0)
    x, mask = rng.normal(size=(90, 40)), rng.random((90, 4)) < 0.5
    mask[:, 0] = True
    mu = mask / mask.sum(axis=1, keepdims=True)
    log = Log.from_arrays(x, sample(mu, rng), rng.normal(size=90), distribution=mu, action_names=range(4))
    by_heart = KnownSupport.fixed(log.counts > 0, 40).with_learned_lines(log)(x)
    assert (by_heart == mask)[:, 1:].mean() > 0.7
    apart = _held_out(LearningRequest(as_rows(log)), log, _likely_support) > 0
    assert (apart == mask)[:, 1:].mean() < 0.6  # half of them by chance
