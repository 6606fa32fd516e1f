"""Building a log: what it keeps, and what it refuses."""

import numpy as np
import pytest

from each import for_each
from sparing.errors import LogError
from sparing.log import Log, Support

CONTEXTS = [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
ACTIONS = ["a", "b", "a"]
REWARDS = [1.0, 0.0, -2.5]
SHARES = np.array([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]])


def make(contexts=CONTEXTS, actions=ACTIONS, rewards=REWARDS, **more):
    return Log.from_arrays(contexts, actions, rewards, **more)


def with_value(values, where, value):
    changed = np.array(values, dtype=float)
    changed[where] = value
    return changed


def test_a_log_keeps_what_it_is_given():
    log = make(propensities=[0.5, 0.75, 1.0], action_names=["b", "a", "c"], feature_names=["age", "size"])
    np.testing.assert_array_equal(log.contexts, CONTEXTS)
    np.testing.assert_array_equal(log.rewards, REWARDS)
    np.testing.assert_array_equal(log.propensities, [0.5, 0.75, 1.0])
    assert log.actions.tolist() == [1, 0, 1]
    assert log.action_names == ("b", "a", "c")
    assert log.feature_names == ("age", "size")
    assert (log.n_rows, len(log), log.n_actions, log.n_features) == (3, 3, 3, 2)
    assert log.counts.tolist() == [1, 2, 0]
    assert log.support.kind == "unknown"
    assert repr(log) == "Log(3 rows, 3 actions, 2 features, propensities, support unknown)"


def test_actions_that_occur_are_the_actions():
    assert make().action_names == ("a", "b")
    assert make(eligible=[["a", "z"], ["b"], ["a"]]).action_names == ("a", "b", "z")
    assert make().feature_names == ("x_0", "x_1")
    assert make().propensities is None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_contexts_are_finite(bad):
    with pytest.raises(LogError, match=rf"context feature 1 at row 2 is {bad}; it must be finite"):
        make(with_value(CONTEXTS, (2, 1), bad))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, None])
def test_rewards_are_finite(bad):
    with pytest.raises(LogError, match=r"reward at row 1 is .*; it must be finite"):
        make(rewards=[1.0, bad, 0.0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, None])
def test_propensities_are_finite(bad):
    with pytest.raises(LogError, match=r"propensity at row 1 is .*; it must be finite"):
        make(propensities=[1.0, bad, 0.5])


@pytest.mark.parametrize("bad", [0.0, -0.0, -0.5, 1.0000001, 2.0])
def test_propensities_are_in_their_range(bad):
    with pytest.raises(LogError, match=rf"propensity {bad} at row 2; must be in \(0, 1\]"):
        make(propensities=[1.0, 0.5, bad])


def test_the_ends_of_the_range_of_propensities():
    np.testing.assert_array_equal(make(propensities=[1.0, 1e-300, 0.5]).propensities, [1.0, 1e-300, 0.5])


@pytest.mark.parametrize("contexts", [[1.0, 2.0, 3.0], 5.0, np.ones((3, 2, 1)), np.ones((3, 0))])
def test_contexts_are_a_matrix_with_features(contexts):
    with pytest.raises(LogError, match=r"expected \(rows, features\)"):
        make(contexts)


@pytest.mark.parametrize("values", [["x", "y", "z"], [[1.0], [2.0, 3.0], [4.0]], [{}, {}, {}]])
@pytest.mark.parametrize("role", ["contexts", "rewards", "propensities", "distribution"])
def test_what_is_not_numbers_is_refused(role, values):
    with pytest.raises(LogError, match="are not all numbers"):
        make(**{role: values})


@for_each(
    ("role", "values", "message"),
    [
        ("actions", ["a", "b"], "2 actions for 3 contexts"),
        ("actions", np.array([["a"], ["b"], ["a"]]), r"actions of shape \(3, 1\)"),
        ("rewards", [1.0, 2.0], r"reward values of shape \(2,\) for 3 contexts"),
        ("rewards", [[1.0], [2.0], [3.0]], r"reward values of shape \(3, 1\)"),
        ("propensities", [1.0], r"propensity values of shape \(1,\)"),
        ("distribution", SHARES[:2], r"distribution of shape \(2, 2\); expected \(3, 2\)"),
        ("distribution", np.full((3, 3), 1 / 3), r"distribution of shape \(3, 3\); expected \(3, 2\)"),
        ("distribution", [0.5, 0.5], r"distribution of shape \(2,\)"),
        ("eligible", [["a", "b"]], "support of 1 rows and 2 actions; expected 3 and 2"),
        ("support", Support.everything(3, 4), "support of 3 rows and 4 actions; expected 3 and 2"),
        ("context_ids", [1, 2], "context ids must be 3 integers or strings; got 2 of them"),
        ("context_ids", [1, 2.5, "a"], "got 2.5 at row 1"),
        ("context_ids", ["a", None, "c"], "got None at row 1"),
        ("feature_names", ["age"], "1 feature names for 2 features"),
        ("feature_names", ["age", "age"], "not all different"),
    ],
)
def test_shapes_fit_together(role, values, message):
    with pytest.raises(LogError, match=message):
        make(**{role: values})


def test_unknown_actions_are_named_with_their_row():
    with pytest.raises(LogError, match="unknown action 'b' at row 1"):
        make(action_names=["a", "c"])
    with pytest.raises(LogError, match="unknown eligible action 'z' at row 1"):
        make(eligible=[["a"], ["b", "a", "z"], ["a"]], action_names=["a", "b"])


def test_indices_are_within_the_actions():
    contexts, rewards = np.array(CONTEXTS), np.array(REWARDS)
    for wrong in ([0, 1, 2], [0, -1, 1]):
        with pytest.raises(LogError, match=r"must be in \[0, 2\)"):
            Log.from_indices(contexts, np.array(wrong), rewards, ("a", "b"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.5, 0.4], "row 1 sums to 0.9; it must sum to 1"),
        ([1.5, -0.5], "row 1 has a negative or non-finite probability"),
        ([np.nan, 1.0], "row 1 has a negative or non-finite probability"),
    ],
)
def test_distributions_are_distributions(row, message):
    with pytest.raises(LogError, match=message):
        make(distribution=with_value(SHARES, 1, row))


def test_a_distribution_implies_the_propensities():
    log = make(distribution=SHARES)
    np.testing.assert_array_equal(log.propensities, [0.5, 0.75, 1.0])
    np.testing.assert_array_equal(log.support.distribution(), SHARES)
    np.testing.assert_array_equal(log.support.mask(), SHARES > 0)
    assert log.support.kind == "exact"


def test_implied_propensities_stay_in_their_range():
    """A sum may be off by 1e-6, a propensity not."""
    log = make(distribution=with_value(SHARES, 2, [1 + 5e-7, 0.0]))
    assert log.propensities.max() == 1.0


@pytest.mark.parametrize("given", [None, [0.5, 0.75, 1.0]])
def test_propensities_outlive_distributions_that_are_too_many_to_keep(monkeypatch, given):
    monkeypatch.setattr("sparing.log.support.DENSE_LIMIT", 0)
    log = make(distribution=SHARES, propensities=given)
    assert log.support.distribution() is None
    np.testing.assert_array_equal(log.propensities, [0.5, 0.75, 1.0])
    with pytest.raises(LogError, match=r"propensity 0.5 at row 1 contradicts the distribution's 0.75"):
        make(distribution=SHARES, propensities=[0.5, 0.5, 1.0])


def test_a_propensity_may_not_contradict_the_distribution():
    with pytest.raises(
        LogError, match=r"propensity 0.7 at row 1 contradicts the distribution's 0.75 .* 2 rows"
    ):
        make(distribution=SHARES, propensities=[0.5, 0.7, 0.9])


def test_single_precision_is_no_contradiction():
    rounded = SHARES[[0, 1, 2], [0, 1, 0]].astype(np.float32) * np.float32(1 - 2**-20)
    np.testing.assert_array_equal(make(distribution=SHARES, propensities=rounded).propensities, rounded)


def test_an_estimated_distribution_implies_and_contradicts_nothing():
    estimated = Support.from_distribution(SHARES, kind="estimated")
    assert make(support=estimated).propensities is None
    log = make(support=estimated, propensities=[0.1, 0.1, 0.1])
    np.testing.assert_array_equal(log.propensities, [0.1, 0.1, 0.1])
    assert log.support.kind == "estimated"


@pytest.mark.parametrize(
    "known",
    [
        {"distribution": [[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]]},
        {"eligible": [["a"], ["a"], ["b"]]},
        {"support": Support.from_mask(np.array([[1, 0], [1, 0], [0, 1]]), kind="estimated")},
    ],
)
def test_a_logged_action_is_within_the_support(known):
    with pytest.raises(LogError, match=r"'b' was logged at row 1 but is outside .* support; 2 rows in all"):
        make(**known)


def test_eligible_sets_are_not_empty():
    with pytest.raises(LogError, match="no supported action at row 1"):
        make(eligible=[["a"], [], ["a"]])


@pytest.mark.parametrize("row", [None, "ab", 3])
def test_eligible_sets_are_sets(row):
    with pytest.raises(LogError, match=r"eligible at row 1 is .*; expected a list of actions"):
        make(eligible=[["a"], row, ["a"]])


def test_a_boolean_matrix_is_no_list_of_labels():
    """Labels 0 and 1 equal False and True: taken as labels, a mask would be a wrong support."""
    with pytest.raises(LogError, match=r"Support.from_mask"):
        make(actions=[0, 1, 0], eligible=np.ones((3, 2), dtype=bool))


def test_eligible_sets_of_any_kind():
    rows = [("b", "a", "b"), {"b"}, np.array(["a"])]
    log = make(eligible=iter(rows))
    np.testing.assert_array_equal(log.support.mask(), [[True, True], [False, True], [True, False]])


@pytest.mark.parametrize(
    "two",
    [
        {"distribution": SHARES, "eligible": [["a"], ["b"], ["a"]]},
        {"distribution": SHARES, "support": Support.everything(3, 2)},
        {"eligible": [["a"], ["b"], ["a"]], "support": Support.everything(3, 2)},
    ],
)
def test_the_support_is_given_once(two):
    with pytest.raises(LogError, match=" and ".join(two)):
        make(**two)


@pytest.mark.parametrize("names", [["a", "b", "a"], [1, True], [2, 2.0]])
def test_action_names_are_different(names):
    with pytest.raises(LogError, match="given twice"):
        make(action_names=names)


def test_equal_labels_are_one_action():
    log = make(actions=[1, True, np.int64(1)])
    assert log.action_names == (1,)
    assert log.counts.tolist() == [3]


@pytest.mark.parametrize("label", [{"a": 1}, {1}])
def test_unhashable_labels_are_refused(label):
    with pytest.raises(LogError, match="not hashable"):
        make(actions=["a", label, "a"])
    with pytest.raises(LogError, match="not hashable"):
        make(action_names=["a", "b", label])


@pytest.mark.parametrize("label", [None, float("nan")])
def test_missing_labels_are_named_with_their_row(label):
    with pytest.raises(LogError, match="the action at row 1 is missing"):
        make(actions=["a", label, "a"])
    with pytest.raises(LogError, match="the eligible action at row 2 is missing"):
        make(eligible=[["a"], ["b"], ["a", label]])
    with pytest.raises(LogError, match="missing"):
        make(action_names=["a", "b", label])


@pytest.mark.parametrize(
    "actions",
    [
        np.array([7, 3, 7]),
        np.array([0.5, -1.0, 0.5]),
        np.array(["b", "a", "b"]),
        np.array(["b", "a", "b"], dtype=object),
        [("a", 1), ("b", 2), ("a", 1)],
        ["a", 1, "a"],
        ("b", "a", "b"),
    ],
)
def test_labels_of_any_type(actions):
    log = make(actions=actions)
    assert [log.action_names[i] for i in log.actions] == list(actions)
    assert all(type(name) in (int, float, str, tuple) for name in log.action_names)
