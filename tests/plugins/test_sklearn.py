"""The estimator in scikit-learn: its own checks, routed metadata, and scores that are the library's."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

import sparing
from sparing.errors import SettingError
from sparing.sklearn import PolicyClassifier

EXPECTED_FAILURES = {}
"""Checks that cannot hold, with the reason."""


@parametrize_with_checks(
    [PolicyClassifier(demonstrations=True)], expected_failed_checks=lambda _: EXPECTED_FAILURES
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture
def routing():
    sklearn.set_config(enable_metadata_routing=True)
    yield
    sklearn.set_config(enable_metadata_routing=False)


def logged(n=3000, seed=0):
    """Contexts, actions, rewards and propensities: a call pays x₀·x₁, a mail 0.1."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(n, 2))
    propensity = np.where(contexts[:, 0] > 0, 0.7, 0.3)
    calls = rng.random(n) < propensity
    means = np.column_stack([contexts[:, 0] * contexts[:, 1], np.full(n, 0.1)])
    reward = np.where(calls, means[:, 0], means[:, 1]) + 0.1 * rng.normal(size=n)
    actions = np.where(calls, "call", "mail")
    return contexts, actions, reward, np.where(calls, propensity, 1 - propensity), means


def with_product(contexts):
    return np.column_stack([contexts, contexts.prod(axis=1)])


def test_it_is_the_librarys_policy():
    contexts, actions, reward, propensity, _ = logged()
    made = PolicyClassifier("greedy").fit(contexts, actions, reward=reward, propensity=propensity)
    x = np.column_stack([np.ones(len(contexts)), (contexts - contexts.mean(axis=0)) / contexts.std(axis=0)])
    log = sparing.Log.from_arrays(x, actions, reward, propensities=propensity)
    own = sparing.learn(log, "greedy")
    assert made.predict(contexts).tolist() == own.actions(x).tolist()
    assert np.array_equal(made.predict_proba(contexts), own.probabilities(x))


def test_the_score_is_the_doubly_robust_value():
    """It is that of `evaluate`, and estimates what the policy truly earns."""
    contexts, actions, reward, propensity, _ = logged()
    made = PolicyClassifier().fit(with_product(contexts), actions, reward=reward, propensity=propensity)
    contexts, actions, reward, propensity, means = logged(20_000, seed=1)
    contexts = with_product(contexts)
    played = made.predict_proba(contexts)
    true = (played * means).sum(axis=1).mean()
    score = made.score(contexts, actions, reward=reward, propensity=propensity)
    errors = reward / propensity  # a bound on the spread of a term
    assert abs(score - true) < 5 * errors.std() / np.sqrt(len(errors))
    assert abs(reward.mean() - true) > 0.05  # the control: the logged mean is another value
    log = sparing.Log.from_arrays(
        made._contexts(contexts), (actions == "mail").astype(int), reward, propensities=propensity
    )
    assert score == sparing.evaluate(log, played, methods=["dr"])["dr"].value


def test_a_search_finds_the_product(routing):
    """Only with products of the features can the policy be good; the search scores by dr on rows held out."""
    contexts, actions, reward, propensity, _ = logged()
    policy = PolicyClassifier().set_fit_request(reward=True, propensity=True)
    policy.set_score_request(reward=True, propensity=True)
    search = GridSearchCV(
        make_pipeline(PolynomialFeatures(include_bias=False), policy),
        {"polynomialfeatures__degree": [1, 2]},
        cv=3,
    )
    search.fit(contexts, actions, reward=reward, propensity=propensity)
    assert search.best_params_ == {"polynomialfeatures__degree": 2}
    assert search.predict([[1.5, 1.5], [1.5, -1.5]]).tolist() == ["call", "mail"]
    first, second = search.cv_results_["mean_test_score"]
    assert second > first + 0.1
    scores = cross_val_score(
        clone(search.best_estimator_),
        contexts,
        actions,
        cv=3,
        params={"reward": reward, "propensity": propensity},
    )
    assert np.allclose(scores.mean(), second)


@pytest.mark.filterwarnings("ignore::sparing.errors.LogWarning")
def test_a_frame_is_encoded_as_a_log():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"country": rng.choice(["NZ", "CH"], 400), "age": rng.choice([np.nan, 25.0, 40.0], 400)}
    )
    actions, reward = rng.choice([1, 2], 400), rng.random(400)
    reward[(actions == 1) == (frame["country"] == "NZ")] += 2
    made = PolicyClassifier().fit(frame, actions, reward=reward, propensity=np.full(400, 0.5))
    assert made.feature_names_in_.tolist() == ["country", "age"]
    some = frame.head(50)
    assert made.predict(some).tolist() == np.where(some["country"] == "NZ", 1, 2).tolist()
    assert made.score(frame, actions, reward=reward, propensity=np.full(400, 0.5)) > reward.mean() + 0.5
    with pytest.raises(ValueError, match="country"):
        made.predict(some[["age", "country"]].rename(columns={"country": "land"}))


def test_never_logged_actions_and_stochastic_policies():
    contexts, actions, reward, propensity, _ = logged(300)
    made = PolicyClassifier("poem", actions=["call", "mail", "visit"])
    made.fit(contexts, actions, reward=reward, propensity=propensity)
    chances = made.predict_proba(contexts)
    assert made.classes_.tolist() == ["call", "mail", "visit"]
    assert np.allclose(chances.sum(axis=1), 1)
    assert made.predict(contexts).tolist() == made.classes_[chances.argmax(axis=1)].tolist()


def test_mistakes_are_refused():
    contexts, actions, reward, propensity, _ = logged(200)
    with pytest.raises(SettingError, match="without rewards"):
        PolicyClassifier().fit(contexts, actions)
    with pytest.raises(SettingError, match="expected one for each of 200"):
        PolicyClassifier().fit(contexts, actions, reward=reward[:50])
    made = PolicyClassifier().fit(contexts, actions, reward=reward)
    with pytest.raises(SettingError, match="propensity="):
        made.score(contexts, actions, reward=reward)
    with pytest.raises(SettingError, match="'visit' is unknown"):
        made.score(contexts, np.full(200, "visit"), reward=reward, propensity=propensity)
