"""Policies: softmax, pessimistic, by table, uniform, constant; and contexts that do not fit them."""

import numpy as np
import pytest

from sparing.errors import DecisionError, LogError, SettingError, SparingError
from sparing.log import Log
from sparing.policies.policy import (
    ConstantPolicy,
    GreedyPolicy,
    PessimisticPolicy,
    SoftmaxPolicy,
    UniformPolicy,
)
from sparing.policies.tables import KnownSupport, TablePolicy, policy_from_table

NAMES = ("a", "b", "c")


def policies():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(3, 2))
    return {
        "greedy": GreedyPolicy(NAMES, theta, np.arange(3)),
        "softmax": SoftmaxPolicy(NAMES, theta),
        "pessimistic": PessimisticPolicy(
            NAMES, theta, np.tile(np.eye(2), (3, 1, 1)), np.ones(3), np.arange(3)
        ),
        "table": TablePolicy(NAMES, np.eye(2), np.full((2, 3), 1 / 3), UniformPolicy(NAMES)),
        "uniform": UniformPolicy(NAMES),
        "constant": ConstantPolicy(NAMES, "b"),
    }


@pytest.mark.parametrize("name", policies())
def test_the_contract(name):
    policy = policies()[name]
    contexts = np.random.default_rng(1).normal(size=(40, 2))
    table = policy.probabilities(contexts)
    assert table.shape == (40, 3)
    assert (table >= 0).all()
    np.testing.assert_allclose(table.sum(axis=1), 1)
    actions = policy.actions(contexts, np.random.default_rng(2))
    assert (table[np.arange(40), actions] > 0).all()
    np.testing.assert_array_equal(actions, policy.actions(contexts, np.random.default_rng(2)))
    assert policy.probabilities(np.empty((0, 2))).shape == (0, 3)
    assert isinstance(policy.method, str)
    assert isinstance(policy.notes, tuple)


@pytest.mark.parametrize("name", policies())
@pytest.mark.parametrize(
    ("contexts", "words"),
    [
        ([1.0, 2.0], r"shape \(2,\).*x\[None, :\]"),
        ([[1.0, np.nan]], "feature 1 at row 0 is nan"),
        ([[1.0, 2.0], [np.inf, 0.0]], "feature 0 at row 1 is inf"),
        ([["x", "y"]], "not all numbers"),
    ],
)
def test_contexts_that_are_none(name, contexts, words):
    with pytest.raises(DecisionError, match=words):
        policies()[name].probabilities(contexts)


@pytest.mark.parametrize("name", ["greedy", "softmax", "pessimistic", "table"])
def test_contexts_of_another_width(name):
    with pytest.raises(DecisionError, match=r"shape \(4, 3\); expected \(n, 2\)"):
        policies()[name].actions(np.ones((4, 3)), np.random.default_rng(0))


@pytest.mark.parametrize("name", ["softmax", "table", "uniform"])
def test_random_policies_ask_for_a_generator(name):
    with pytest.raises(SettingError, match="pass rng"):
        policies()[name].actions(np.eye(2))


def test_softmax_is_the_formula_and_cools_to_greed():
    theta = np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0]])
    x = np.array([[0.3, 0.7]])
    scores = np.exp(np.array([0.3, 1.4, 0.4]) / 0.5)
    np.testing.assert_allclose(SoftmaxPolicy(NAMES, theta, 0.5).probabilities(x)[0], scores / scores.sum())
    cold = SoftmaxPolicy(NAMES, theta, 1e-6)
    contexts = np.random.default_rng(0).normal(size=(50, 2))
    greedy = GreedyPolicy(NAMES, theta, np.arange(3))
    np.testing.assert_allclose(cold.probabilities(contexts), greedy.probabilities(contexts), atol=1e-9)
    hot = SoftmaxPolicy(NAMES, theta, 1e9)
    np.testing.assert_allclose(hot.probabilities(contexts), 1 / 3, atol=1e-6)


def test_a_support_limits_the_argmax():
    theta = np.array([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
    support = KnownSupport.fixed(np.array([False, True, True]), 2)
    x = np.array([[1.0, 0.0]])
    assert GreedyPolicy(NAMES, theta, np.arange(3), support).actions(x)[0] == 1
    inverse = np.tile(np.eye(2), (3, 1, 1))
    policy = PessimisticPolicy(NAMES, theta, inverse, np.array([0.0, 5.0, 0.0]), np.arange(3), support)
    np.testing.assert_allclose(policy.low(x), [[3.0, -3.0, 1.0]])
    assert policy.actions(x)[0] == 2


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: ConstantPolicy(NAMES, "d"), "unknown action 'd'"),
        (lambda: SoftmaxPolicy(NAMES, np.zeros((2, 2))), "theta of shape"),
        (lambda: SoftmaxPolicy(NAMES, np.full((3, 2), np.nan)), "finite"),
        (lambda: SoftmaxPolicy(NAMES, np.zeros((3, 2)), 0.0), "temperature=0.0"),
        (lambda: GreedyPolicy(NAMES, np.zeros(3), np.arange(3)), "theta of shape"),
        (lambda: GreedyPolicy(NAMES, np.zeros((3, 2)), np.arange(2)), "priority of shape"),
        (
            lambda: PessimisticPolicy(NAMES, np.zeros((3, 2)), np.zeros((3, 2)), np.ones(3), np.arange(3)),
            r"inverse of shape \(3, 2\)",
        ),
        (lambda: TablePolicy(NAMES, np.eye(2), np.full((2, 2), 0.5)), "table of shape"),
        (lambda: TablePolicy(NAMES, np.eye(2), np.full((2, 3), 0.5)), "sums to 1.5"),
        (lambda: TablePolicy(NAMES, np.ones((2, 1)), np.eye(3)[:2]).probabilities([[1.0]]), "listed twice"),
    ],
)
def test_policies_that_are_none(build, words):
    with pytest.raises(SparingError, match=words):
        build()


def visited(ids, contexts):
    n = len(ids)
    return Log.from_arrays(contexts, ["a"] * n, np.zeros(n), action_names=NAMES, context_ids=ids)


def test_a_policy_of_ones_own_by_context_id():
    log = visited([7, 8, 7, 9], [[0.0, 1.0], [1.0, 1.0], [0.0, 2.0], [5.0, 5.0]])
    policy = policy_from_table(log, {7: [0.2, 0.3, 0.5], 8: {"c": 1.0}}, otherwise=ConstantPolicy(NAMES, "b"))
    np.testing.assert_array_equal(
        policy.probabilities(log.contexts), [[0.2, 0.3, 0.5], [0, 0, 1], [0.2, 0.3, 0.5], [0, 1, 0]]
    )
    np.testing.assert_array_equal(policy.probabilities([[-3.0, 0.0]]), [[0, 1, 0]])
    strings = visited(["u1", "u2"], [[0.0, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(
        policy_from_table(strings, {"u1": [1, 0, 0]}).probabilities([[0.0, 1.0]]), [[1, 0, 0]]
    )


def test_a_context_outside_the_table_is_an_error_unless_something_stands_in():
    log = visited([1, 2], [[0.0], [1.0]])
    with pytest.raises(DecisionError, match="row 1 is not in the policy's table"):
        policy_from_table(log, {1: [1, 0, 0]}).probabilities([[0.0], [1.0]])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({3: [1, 0, 0]}, "names contexts that the log has not"),
        ({}, "is empty"),
        ({1: [1, 0]}, "expected 3 probabilities"),
        ({1: {"d": 1.0}}, "unknown action 'd'"),
        ({1: [0.5, 0.2, 0.2]}, "sums to 0.9"),
        ({1: [np.nan, 0.5, 0.5]}, "non-finite"),
        ({1: [1, 0, 0], 2: [0, 1, 0]}, "features of another id"),
    ],
)
def test_tables_that_do_not_fit(table, words):
    log = visited([1, 2], [[0.0], [0.0]])
    with pytest.raises(SparingError, match=words):
        policy_from_table(log, table)


def test_a_table_needs_ids():
    log = Log.from_arrays([[0.0]], ["a"], [1.0], action_names=NAMES)
    with pytest.raises(LogError, match="no context ids"):
        policy_from_table(log, {0: [1, 0, 0]})
