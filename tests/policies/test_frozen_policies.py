"""Policy files of release 0.1 (frozen/) load, and their policies do what they did."""

from pathlib import Path

import numpy as np
import pytest

import sparing
from sparing.errors import SettingError
from sparing.log import Log
from sparing.log.rows import InMemoryRows, Rows
from sparing.policies.files import load_policy, save_policy

FROZEN = Path(__file__).parent / "frozen"
EXPECTED = np.load(FROZEN / "expected.npz")
CLASSES = {
    "greedy": "GreedyPolicy",
    "pessimistic": "PessimisticPolicy",
    "pi-plus": "TablePolicy",
    "opr": "SoftmaxPolicy",
    "boosted": "BoostedPolicy",
    "stacked": "StackedPolicy",
    "votes": "VotingPolicy",
    "uniform": "UniformPolicy",
    "constant": "ConstantPolicy",
    "row": "GreedyPolicy",
    "place": "GreedyPolicy",
}


@pytest.mark.parametrize("name", CLASSES)
def test_it_loads_and_does_the_same(name, tmp_path):
    policy = load_policy(FROZEN / f"{name}.sparing")
    assert type(policy).__name__ == CLASSES[name]
    found = policy.probabilities(EXPECTED["contexts"])
    np.testing.assert_array_equal(found, EXPECTED[f"{name}/probabilities"])
    save_policy(policy, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (FROZEN / f"{name}.sparing").read_bytes()


def few(sign=1):
    contexts, actions, rewards = (EXPECTED[f"few/{name}"] for name in ("contexts", "actions", "rewards"))
    return Log.from_arrays(contexts, actions, sign * rewards, action_names=[0, 1, 2])


def test_a_given_ridge_gives_the_same_parameters():
    """From the rows that the old split by place left to learn from."""
    policy = sparing.learn(few(), "greedy", ridge=1.0, holdout=0.3, seed=1)
    old = load_policy(FROZEN / "place.sparing")
    np.testing.assert_allclose(policy.theta, old.theta, rtol=1e-12)
    np.testing.assert_array_equal(policy.priority, old.priority)
    np.testing.assert_array_equal(policy.trained_on.sketch, old.trained_on.sketch)


@pytest.mark.parametrize("by", ["row", "place"])
def test_its_single_rows_that_were_held_out_are_found(by):
    """By their values only in memory; and in no other log."""
    log = few()
    policy = load_policy(FROZEN / f"{by}.sparing")
    for each in (log, InMemoryRows(log)):
        held = policy.held_out(each)
        held = held.read() if isinstance(held, Rows) else held
        np.testing.assert_array_equal(held.rewards, EXPECTED[f"{by}/held_out"])
    with pytest.raises(SettingError, match="that very log"):
        policy.held_out(few(-1))
