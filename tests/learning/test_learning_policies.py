"""Policies: softmax, pessimistic, by table, uniform, constant; and contexts that do not fit them."""

import numpy as np
import pytest

from each import for_each
from sparing.errors import DecisionError, SettingError, SparingError
from sparing.policies.policy import (
    ConstantPolicy,
    GreedyPolicy,
    PessimisticPolicy,
    SoftmaxPolicy,
    UniformPolicy,
)
from sparing.policies.support import KnownSupport, TablePolicy

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
    actions = policy.indices(contexts, np.random.default_rng(2))
    assert (table[np.arange(40), actions] > 0).all()
    np.testing.assert_array_equal(actions, policy.indices(contexts, np.random.default_rng(2)))
    assert policy.probabilities(np.empty((0, 2))).shape == (0, 3)
    assert isinstance(policy.method, str)
    assert isinstance(policy.notes, tuple)


@pytest.mark.parametrize("name", policies())
@for_each(
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
        policies()[name].indices(np.ones((4, 3)), np.random.default_rng(0))


@pytest.mark.parametrize("name", ["softmax", "table", "uniform"])
def test_random_policies_ask_for_a_generator(name):
    with pytest.raises(SettingError, match="pass rng"):
        policies()[name].indices(np.eye(2))


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
    assert GreedyPolicy(NAMES, theta, np.arange(3), support).indices(x)[0] == 1
    inverse = np.tile(np.eye(2), (3, 1, 1))
    policy = PessimisticPolicy(NAMES, theta, inverse, np.array([0.0, 5.0, 0.0]), np.arange(3), support)
    np.testing.assert_allclose(policy.low(x), [[3.0, -3.0, 1.0]])
    assert policy.indices(x)[0] == 2


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


def test_a_context_outside_the_table_is_left_to_what_stands_in():
    known, table = np.array([[0.0, 1.0], [1.0, 1.0]]), np.array([[0.2, 0.3, 0.5], [0.0, 0.0, 1.0]])
    policy = TablePolicy(NAMES, known, table, ConstantPolicy(NAMES, "b"))
    np.testing.assert_array_equal(
        policy.probabilities([[1.0, 1.0], [5.0, 5.0], [-0.0, 1.0]]), [[0, 0, 1], [0, 1, 0], [0.2, 0.3, 0.5]]
    )
    with pytest.raises(DecisionError, match="row 1 is not in the policy's table"):
        TablePolicy(NAMES, known, table).probabilities([[0.0, 1.0], [5.0, 5.0]])
