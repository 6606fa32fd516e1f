"""Boosting, stacking, imitation of what paid, and the choice among methods on held-out contexts."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from sparing.errors import LogError, MissingExtraError, SettingError
from sparing.learning import learn
from sparing.learning.automatic import _imitate, evaluated_rows, fit_candidates
from sparing.learning.request import LearningRequest, prepare_training_data
from sparing.learning.ridge import choose_ridge, lower_limit
from sparing.log import Log, Support
from sparing.log.rows import as_rows
from sparing.model import boosting
from sparing.model.crossfitting import reward_parameters, stacking_weights
from sparing.model.statistics import Statistics
from sparing.policies.policy import BoostedPolicy, StackedPolicy, sample, softmax
from sparing.policies.support import KnownSupport

QUICK = {"candidates": ("greedy", "ipw-logistic", "boosted")}


def make(rows=900, *, seed=0, crooked=True, noise=0.3):
    """Four actions, the last never logged; the best one follows the sign of x₀·x₁, or of x₀ where straight."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.uniform(-1, 1, (rows, 2)), np.ones(rows)])
    sign = x[:, 0] * x[:, 1] if crooked else x[:, 0]
    means = np.column_stack([sign, -sign, np.full(rows, 0.1), np.full(rows, 9.0)])
    mu = softmax(np.column_stack([x[:, 0], x[:, 1], 0 * x[:, 0]]))
    mu = np.column_stack([mu, np.zeros(rows)])
    actions = sample(mu, rng)
    rewards = means[np.arange(rows), actions] + noise * rng.normal(size=rows)
    log = Log.from_arrays(x, actions, rewards, distribution=mu, action_names=[0, 1, 2, 3])
    return log, means


def value(policy, log, means):
    return float((policy.probabilities(log.contexts) * means).sum(axis=1).mean())


def test_boosting_sees_what_no_line_can():
    log, _ = make()
    fresh, means = make(seed=9)
    policy = learn(log, "boosted", rounds=20)
    best = means[:, :3].max(axis=1).mean()
    assert value(policy, fresh, means) > 0.8 * best
    assert value(learn(log, "greedy"), fresh, means) < 0.6 * best
    assert (policy.indices(fresh.contexts) < 3).all()


@pytest.mark.parametrize("method", ["boosted", "stacked", "ipw-logistic", "auto"])
def test_an_action_that_was_never_logged_is_never_played(method):
    log, _ = make(300)
    policy = learn(log, method, **({"candidates": ("greedy", "ipw-logistic")} if method == "auto" else {}))
    assert policy.probabilities(np.random.default_rng(1).normal(size=(500, 3)))[:, 3].max() == 0


@pytest.mark.parametrize("method", ["opr-dlm", "caipwl", "opr"])
def test_an_action_that_could_have_been_logged_and_was_not_is_never_played(method):
    """All rewards are below 0, so that an action without any looks good to a rule that has not heard of it."""
    log, _ = make(300)
    rare = log.support.distribution() * (1 - 1e-6) + np.array([0, 0, 0, 1e-6])
    log = Log.from_arrays(
        log.contexts, log.actions, log.rewards - 3, distribution=rare, action_names=[0, 1, 2, 3]
    )
    assert log.support.mask().all()
    policy = learn(log, method)
    assert policy.probabilities(2 * np.random.default_rng(1).normal(size=(500, 3)))[:, 3].max() == 0
    assert "1 action that was never logged is never chosen" in policy.notes


def test_imitation_is_weighted_logistic_regression():
    """Scikit-learn's, with C = 1/l2 and weights that sum to 1, on the actions that were logged."""
    log, _ = make(400)
    weights = np.maximum(log.rewards - 0.05, 0) / log.propensities
    theirs = LogisticRegression(C=1 / 0.01, fit_intercept=False, tol=1e-10, max_iter=2000)
    theirs.fit(log.contexts, log.actions, sample_weight=weights / weights.sum())
    request = LearningRequest(as_rows(log))
    ours = _imitate(prepare_training_data(request, "ipw-logistic", "logged"), 0.05, 0.01)[:3]
    np.testing.assert_allclose(
        softmax(log.contexts @ ours.T), softmax(log.contexts @ theirs.coef_.T), atol=2e-3
    )


def test_imitation_with_rewards_of_two_values_needs_no_baseline():
    log, _ = make(400)
    coin = replace(log, rewards=(log.rewards > 0.1) * 3.0 - 1.0)
    one, other = (learn(coin, "ipw-logistic", l2=1e-3, baseline=level) for level in (-1.0, 1.0))
    np.testing.assert_allclose(one.theta, other.theta, atol=1e-3)
    assert "baseline = -1" in learn(coin, "ipw-logistic").notes[1]
    with pytest.raises(SettingError, match="baseline"):
        learn(coin, "ipw-logistic", baseline=np.nan)


def test_a_judged_row_is_right_on_average_whatever_the_model_says():
    """Σ_a μ(a)·term(a) = Σ_{a supported} π(a)·r(a) + π(unsupported)·c, row by row."""
    rng = np.random.default_rng(0)
    n, k = 6, 4
    mu = rng.dirichlet(np.ones(k), n)
    mu[:, 1] = 0
    mu /= mu.sum(axis=1, keepdims=True)
    pi, fitted, means = rng.dirichlet(np.ones(k), n), rng.normal(size=(n, k)), rng.normal(size=(n, k))
    expected = np.zeros(n)
    for action in (0, 2, 3):
        log = Log.from_indices(
            rng.random((n, 2)),
            np.full(n, action, dtype=np.int32),
            means[:, action],
            tuple(range(k)),
            propensities=mu[:, action],
            support=Support.from_distribution(mu),
        )
        expected += mu[:, action] * evaluated_rows(log, pi, fitted, np.full((n, k), -7.0))
    seen = [0, 2, 3]
    np.testing.assert_allclose(expected, (pi * means)[:, seen].sum(axis=1) - 7.0 * pi[:, 1])


@pytest.mark.parametrize(("crooked", "winner"), [(True, "boosted"), (False, "greedy")])
def test_auto_takes_what_fits_the_world(crooked, winner):
    log, _ = make(crooked=crooked)
    policy = learn(log, "auto", candidates=("greedy", "boosted"))
    assert policy.method == winner
    assert policy.notes[0].startswith(f"{winner} of 2 methods, by the lower limit on held-out contexts")
    alone = learn(log, winner)
    np.testing.assert_array_equal(policy.probabilities(log.contexts), alone.probabilities(log.contexts))


def test_where_the_support_is_unknown_the_weights_tell_the_mass_outside():
    """mean(w·r + (1 − w)·r̄) and its deviation, by hand."""
    log, _ = make(400)
    unknown = Log.from_arrays(log.contexts, log.actions, log.rewards, propensities=log.propensities)
    trial = fit_candidates(LearningRequest(as_rows(unknown)), ("greedy",))
    weights = trial.tables["greedy"][np.arange(400), log.actions] / log.propensities
    rows = weights * log.rewards + (1 - weights) * log.rewards.mean()
    expected = rows.mean() - norm.ppf(0.975) * rows.std(ddof=1) / np.sqrt(400)
    assert lower_limit(trial.terms(trial.tables["greedy"])) == pytest.approx(expected)


def test_a_stack_is_the_sum_of_its_parts():
    """Its weights are the least squares of held-out rewards on both models, none below 0."""
    log, _ = make(500)
    policy = learn(log, "stacked", ridge=1.0, rounds=20)
    linear, trees = learn(log, "greedy", ridge=1.0), learn(log, "boosted", rounds=20)
    model = boosting.boost(log, folds=3, rounds=(20,))
    own = np.arange(500), log.actions
    ridge = choose_ridge(LearningRequest(as_rows(log)), 1.0, crossfitted=True)
    held = ridge.rewards(log)[own], model.held_out(log.contexts)[own]
    columns = np.column_stack([*held, np.ones(500)])
    expected = np.linalg.lstsq(columns, log.rewards, rcond=None)[0][:2]
    if expected.min() < 0:
        alone = np.linalg.lstsq(columns[:, 1:], log.rewards, rcond=None)[0][0]
        expected = np.array([0.0, alone])
    np.testing.assert_allclose(policy.weights, expected, atol=1e-10)
    x = make(seed=4)[0].contexts
    scores = policy.weights[0] * x @ linear.theta.T + policy.weights[1] * trees.trees.rewards(x)
    np.testing.assert_array_equal(policy.indices(x), scores[:, :3].argmax(axis=1))


def test_a_stack_leans_on_the_model_that_fits():
    straight, crooked = (learn(make(crooked=each)[0], "stacked", rounds=40).weights for each in (False, True))
    assert straight[0] > straight[1]
    assert crooked[1] > crooked[0]


def test_stacking_weights_where_no_model_helps_are_equal():
    """Predictions that rise where rewards fall get no weight below 0."""
    rewards = np.arange(6.0)
    np.testing.assert_allclose(stacking_weights(rewards, np.column_stack([rewards, -rewards])), [1, 0])
    np.testing.assert_allclose(stacking_weights(rewards, np.column_stack([-rewards, -2 * rewards])), 0.5)


def test_what_is_judged_of_a_stack_is_what_the_stack_would_do():
    """The table by rewards that have not seen a fold is that of the stacks learnt without it, up to the weights."""
    log, _ = make(300)
    trial = fit_candidates(LearningRequest(as_rows(log)), ("boosted", "stacked"))
    assert trial.model is not None
    weights = learn(log, "stacked").weights
    for fold, trees in enumerate(trial.model.without):
        held, rest = trial.model.fold_of == fold, log.take(trial.model.fold_of != fold)
        ridge = reward_ridge(log)
        parts = {"theta": reward_parameters(Statistics.of(rest), ridge), "weights": weights}
        priority = LearningRequest(as_rows(log)).priority
        mask = KnownSupport.fixed(log.counts > 0, 3)
        stack = StackedPolicy(log.action_names, trees, priority, mask, **parts)
        alone = BoostedPolicy(log.action_names, trees, priority, mask)
        for name, policy in (("stacked", stack), ("boosted", alone)):
            np.testing.assert_array_equal(trial.tables[name][held], policy.probabilities(log.contexts[held]))


def reward_ridge(log):
    return choose_ridge(LearningRequest(as_rows(log))).ridge


@pytest.mark.parametrize(
    "parts", [{"weights": np.ones(3)}, {"theta": np.ones((4, 2))}, {"weights": [np.nan, 1]}]
)
def test_a_stack_of_other_shapes_is_refused(parts):
    policy = learn(make(100)[0], "stacked", rounds=5, ridge=1.0)
    with pytest.raises(SettingError, match=r"expected finite numbers of shape"):
        replace(policy, **parts)


def test_no_policy_is_judged_by_rows_it_learnt_from(monkeypatch):
    """Rewards of one fold have no part in what its policies do there."""
    log, _ = make(240)
    names = ("greedy", "boosted")
    trial = fit_candidates(LearningRequest(as_rows(log)), names)
    assert trial.model is not None
    held = trial.model.fold_of == 0
    other = fit_candidates(
        LearningRequest(as_rows(replace(log, rewards=np.where(held, -log.rewards, log.rewards)))), ("greedy",)
    )
    np.testing.assert_array_equal(trial.tables["greedy"][held], other.tables["greedy"][held])


def test_auto_without_scikit_learn_says_what_it_left_out(monkeypatch):
    def missing(*_, **__):
        raise MissingExtraError("method 'boosted' needs sklearn")

    monkeypatch.setattr(boosting, "require", missing)
    policy = learn(make(300)[0], "auto", **QUICK)
    assert any(note.startswith("boosted was not tried: method 'boosted' needs") for note in policy.notes)
    with pytest.raises(LogError, match="none of the candidates"):
        learn(make(300)[0], "auto", candidates=["boosted"])


def test_auto_where_support_or_propensities_are_unknown():
    log, _ = make(600)
    unknown = Log.from_arrays(log.contexts, log.actions, log.rewards, propensities=log.propensities)
    policy = learn(unknown, "auto", candidates=["caipwl", "greedy", "ipw-logistic"])
    assert any("caipwl was not tried: method 'caipwl' stays on" in note for note in policy.notes)
    bare = Log.from_arrays(log.contexts, log.actions, log.rewards)
    policy = learn(bare, "auto")
    assert policy.method == "boosted"
    assert "no propensities" in policy.notes[0]
    assert learn(Log.from_arrays(*map(np.array, straight())), "auto").method in ("greedy", "posterior")
    with pytest.raises(LogError, match="between greedy, posterior and boosted"):
        learn(bare, "auto", candidates=["pessimistic"])


def straight():
    log, _ = make(600, crooked=False)
    return log.contexts, log.actions, log.rewards


@pytest.mark.parametrize("candidates", ["greedy", (), ("greedy", "auto"), ("greed",)])
def test_auto_refuses_candidates_that_are_none(candidates):
    with pytest.raises(SettingError, match="must be some of greedy"):
        learn(make(50)[0], "auto", candidates=candidates)


@pytest.mark.parametrize("rounds", [0, 2.5, [10, 0]])
def test_rounds_are_whole_numbers(rounds):
    with pytest.raises(SettingError, match="rounds="):
        learn(make(50)[0], "boosted", rounds=rounds)
