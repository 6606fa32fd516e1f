"""Votes: who has how many, what they decide, and how they are kept."""

from dataclasses import fields, replace
from math import comb

import numpy as np
import pytest

from sparing import archive
from sparing.errors import FileError, SettingError
from sparing.evaluation.intervals import Terms
from sparing.learning import learn
from sparing.learning.automatic import LEAST_VOTE, _votes
from sparing.policies.files import KIND, VERSION, load_policy, save_policy
from sparing.policies.policy import ConstantPolicy, GreedyPolicy, SoftmaxPolicy, UniformPolicy, VotingPolicy
from sparing.policies.support import TablePolicy
from sparing.simulation import LinearWorld
from sparing.simulation.logging_policies import draw_log

NAMES = ("a", "b", "c")
EVEN = np.arange(3)


def constant(action):
    return ConstantPolicy(NAMES, action)


def voting(*actions, weights, priority=EVEN):
    return VotingPolicy(NAMES, tuple(map(constant, actions)), np.array(weights, dtype=float), priority)


@pytest.mark.parametrize(
    ("actions", "weights", "winner"),
    [
        ("abb", (1.0, 0.4, 0.5), 0),
        ("abb", (1.0, 0.6, 0.5), 1),
        ("abc", (1.0, 0.9, 0.9), 0),
        ("cb", (1.0, 1.0), 1),
    ],
)
def test_the_action_with_the_most_votes_is_played(actions, weights, winner):
    policy = voting(*actions, weights=weights)
    np.testing.assert_array_equal(policy.indices(np.zeros((4, 2))), winner)
    np.testing.assert_array_equal(policy.probabilities(np.zeros((4, 2))), np.eye(3)[[winner] * 4])


def test_ties_go_by_priority():
    assert voting("c", "b", weights=(1, 1), priority=np.array([0, 2, 1])).indices(np.zeros((1, 2))) == 2


def test_a_random_policy_votes_with_its_chances():
    """½·(1, 0, 0) + (⅓, ⅓, ⅓) is led by a; ¼ of e₁ and of the softmax (.2, .3, .5) by c."""
    theta = np.log(np.array([[0.2], [0.3], [0.5]]))
    drawn = SoftmaxPolicy(NAMES, theta)
    first = VotingPolicy(NAMES, (constant("a"), UniformPolicy(NAMES)), np.array([0.5, 1.0]), EVEN)
    second = VotingPolicy(NAMES, (constant("a"), drawn), np.array([0.25, 1.0]), EVEN)
    assert first.indices(np.ones((1, 1))) == 0
    assert second.indices(np.ones((1, 1))) == 2


def test_policies_that_err_apart_err_less_together():
    """Condorcet: of m policies, each right with chance p by itself, the majority is with Σ_{j>m/2} C(m, j)·p^j·(1 − p)^(m−j)."""
    rng, rows, right = np.random.default_rng(3), 20_000, 0.7
    contexts = np.arange(rows, dtype=float)[:, None]
    for many in (3, 5):
        members = tuple(
            TablePolicy(("no", "yes"), contexts, np.eye(2)[(rng.random(rows) < right).astype(int)])
            for _ in range(many)
        )
        policy = VotingPolicy(("no", "yes"), members, np.ones(many), np.arange(2))
        expected = sum(
            comb(many, j) * right**j * (1 - right) ** (many - j) for j in range(many // 2 + 1, many + 1)
        )
        error = np.sqrt(expected * (1 - expected) / rows)
        assert abs(policy.indices(contexts).mean() - expected) < 4 * error
        assert expected > right + 20 * error


@pytest.mark.parametrize(
    "parts",
    [
        {"weights": np.array([1.0])},
        {"weights": np.array([1.0, 0.0])},
        {"weights": np.array([1.0, np.nan])},
        {"weights": np.array([1.0, np.inf])},
        {"members": (), "weights": np.array([])},
        {"members": (constant("a"), ConstantPolicy(("a", "b"), "a"))},
        {"priority": np.arange(2)},
    ],
)
def test_a_vote_that_does_not_fit_is_refused(parts):
    with pytest.raises(SettingError, match=r"expected|must have the same"):
        replace(voting("a", "b", weights=(1, 1)), **parts)


def rows(*behind, spread=1.0, n=400):
    """Terms whose mean lies so many standard errors behind the first ones'."""
    wave = np.resize([1.0, -1.0], n)
    wave *= spread / wave.std(ddof=1)
    error = spread / np.sqrt(n)
    base = np.zeros(n)
    found = {"best": Terms(base)}
    return found | {f"{lag:g}": Terms(base - lag * error + wave) for lag in behind}


def test_a_vote_falls_with_the_standard_errors_that_a_candidate_lies_behind():
    found = _votes(rows(0.5, 2.0, 1.0))
    assert list(found) == ["best", "0.5", "1", "2"]
    np.testing.assert_allclose(list(found.values()), np.exp([0, -0.5, -1, -2]))
    assert _votes(rows(0.5, 2.0, 1.0, spread=1e-3)) == pytest.approx(found)  # whatever the unit


def test_who_is_surely_behind_has_no_vote():
    limit = -np.log(LEAST_VOTE)
    assert list(_votes(rows(0.1, 0.2, limit - 0.01))) == ["best", "0.1", "0.2", f"{limit - 0.01:g}"]
    assert list(_votes(rows(0.1, 0.2, limit + 0.01))) == ["best", "0.1", "0.2"]


def test_a_leader_that_all_others_cannot_outvote_is_alone():
    assert _votes(rows(0.7, 0.8)).keys() == {"best"}  # .497 + .449 < 1
    assert len(_votes(rows(0.5, 0.8))) == 3  # .607 + .449 > 1
    assert _votes(rows()) == {"best": 1.0}


def test_a_candidate_that_does_the_same_has_a_whole_vote_and_one_that_is_worse_in_each_row_none():
    base = np.random.default_rng(0).normal(size=50)
    judged = {
        "one": Terms(base),
        "two": Terms(base.copy()),
        "three": Terms(base.copy()),
        "low": Terms(base - 1),
    }
    assert _votes(judged) == {"one": 1.0, "two": 1.0, "three": 1.0}


@pytest.fixture(scope="module")
def log():
    world = LinearWorld(n_actions=4, n_features=3, noise=2.0, seed=1)
    return draw_log(world, rows=150, support="per-context", unsupported=0.3, seed=2)


METHODS = ("greedy", "pessimistic", "caipwl", "opr-dlm")


def test_auto_lets_those_vote_that_the_log_cannot_tell_apart(log):
    policy = learn(log, "auto", candidates=METHODS)
    assert isinstance(policy, VotingPolicy)
    assert policy.method == "auto"
    assert policy.notes[1].startswith("the log does not separate it from some of the others, so they vote: ")
    assert policy.weights[0] == 1
    assert policy.weights.sum() > 2
    votes = sum(
        w * m.probabilities(log.contexts) for w, m in zip(policy.weights, policy.members, strict=True)
    )
    np.testing.assert_array_equal(
        votes[np.arange(log.n_rows), policy.indices(log.contexts)], votes.max(axis=1)
    )


def same(one, other):
    if isinstance(one, tuple) and not isinstance(one, str):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if hasattr(one, "__dataclass_fields__"):
        names = [field.name for field in fields(one)]
        return type(one) is type(other) and all(same(getattr(one, n), getattr(other, n)) for n in names)
    return bool(one == other)


def test_a_vote_comes_back_bit_for_bit(log, tmp_path):
    policy = learn(log, "auto", candidates=METHODS, holdout=0.2)
    save_policy(policy, tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    assert same(policy, loaded)
    fresh = np.random.default_rng(2).normal(size=(80, 3))
    np.testing.assert_array_equal(loaded.indices(fresh), policy.indices(fresh))
    assert loaded.held_out(log).n_rows == policy.held_out(log).n_rows


def test_a_member_with_a_support_of_ones_own_is_asked_for_again(log, tmp_path):
    def support(contexts):
        return np.ones((len(contexts), 4), dtype=bool)

    greedy = learn(log, "greedy")
    own = replace(greedy, support=support)
    policy = VotingPolicy(log.action_names, (greedy, own), np.array([1.0, 0.5]), np.arange(4))
    with pytest.raises(SettingError, match="omit_support=True"):
        save_policy(policy, tmp_path / "policy")
    save_policy(policy, tmp_path / "policy", omit_support=True)
    with pytest.raises(FileError, match="Pass it again"):
        load_policy(tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy", support=support)
    np.testing.assert_array_equal(loaded.indices(log.contexts), policy.indices(log.contexts))


def test_a_file_whose_members_do_not_fit_is_refused(tmp_path):
    members = [GreedyPolicy(NAMES, np.ones((3, d)), EVEN) for d in (2, 3)]
    policy = VotingPolicy(NAMES, tuple(members), np.ones(2), EVEN)
    save_policy(policy, tmp_path / "policy")
    with pytest.raises(FileError):
        load_policy(tmp_path / "policy")
    save_policy(VotingPolicy(NAMES, (members[0],), np.ones(1), EVEN), tmp_path / "one")
    header, arrays = archive.read(tmp_path / "one", KIND, VERSION)
    for weights in (np.zeros(1), np.ones(2)):
        archive.write(tmp_path / "bad", KIND, VERSION, header, arrays | {"weights": weights})
        with pytest.raises(FileError):
            load_policy(tmp_path / "bad")
