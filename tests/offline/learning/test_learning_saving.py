"""Policies on disk: what comes back is what was saved, bit for bit, or an error."""

from dataclasses import fields

import numpy as np
import pytest

from sparing import archive
from sparing.errors import FileError, SettingError
from sparing.offline.learning import METHODS, SoftmaxPolicy, learn, load_policy, save_policy
from sparing.offline.learning.saving import KIND, VERSION
from sparing.offline.policy import ConstantPolicy, UniformPolicy
from sparing.simulation import LinearWorld
from sparing.simulation.logging import draw_log, logging_policy

FIXED = {
    "greedy": {"ridge": 1.0},
    "opr": {"k": 0.0, "l2": 1e-3},
    "opr-dlm": {"epsilon": 1.0},
    "poem": {"clip": np.inf, "penalty": 0.5, "l2": 1e-3},
    "norm-poem": {"clip": np.inf, "penalty": 0.5, "l2": 1e-3},
    "extrapolation": {"l2": 1e-3},
    "caipwl": {"l2": 1e-3},
}
WORLD = LinearWorld(n_actions=5, n_features=3, noise=1.0, seed=0)
MU = logging_policy("per-context", WORLD, unsupported=0.4, seed=0)
LOG = draw_log(WORLD, rows=120, policy=MU, seed=0)
FRESH = WORLD.contexts(60, np.random.default_rng(5))


def same(one, other):
    """Equal in every field, arrays bit for bit."""
    if type(one) is not type(other):
        return False
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes():
                return False
        elif hasattr(a, "__dataclass_fields__"):
            if not same(a, b):
                return False
        elif a != b:
            return False
    return True


@pytest.mark.parametrize("method", METHODS)
def test_a_learnt_policy_comes_back_bit_for_bit(method, tmp_path):
    policy = learn(LOG, method, **FIXED.get(method, {}))
    save_policy(policy, tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    assert same(policy, loaded)
    for contexts in (LOG.contexts, FRESH):
        np.testing.assert_array_equal(loaded.probabilities(contexts), policy.probabilities(contexts))
    save_policy(loaded, tmp_path / "again")
    assert (tmp_path / "policy").read_bytes() == (tmp_path / "again").read_bytes()


@pytest.mark.parametrize(
    "policy", [UniformPolicy((1, "b", (2, "c"))), ConstantPolicy((1, "b", (2, "c")), (2, "c"))]
)
def test_plain_policies_and_labels_of_all_kinds(policy, tmp_path):
    save_policy(policy, tmp_path / "policy")
    assert same(policy, load_policy(tmp_path / "policy"))


@pytest.mark.parametrize("method", ["opr", "pi-plus"])
def test_a_support_function_is_not_saved_and_asked_for_again(method, tmp_path):
    path = tmp_path / "policy"
    policy = learn(LOG, method, support=MU, **FIXED.get(method, {}))
    with pytest.raises(SettingError, match=r"function of yours.*omit_support=True"):
        save_policy(policy, path)
    assert not path.exists()
    save_policy(policy, path, omit_support=True)
    with pytest.raises(FileError, match="Pass it again"):
        load_policy(path)
    with pytest.raises(SettingError, match="function of contexts"):
        load_policy(path, support=3)
    for support in (MU, lambda contexts: MU.probabilities(contexts) > 0):
        loaded = load_policy(path, support=support)
        np.testing.assert_array_equal(loaded.probabilities(FRESH), policy.probabilities(FRESH))


def test_a_support_for_a_policy_that_needs_none(tmp_path):
    save_policy(UniformPolicy((0, 1)), tmp_path / "policy")
    with pytest.raises(SettingError, match="leave it out"):
        load_policy(tmp_path / "policy", support=MU)


def test_other_policies_cannot_be_saved(tmp_path):
    with pytest.raises(SettingError, match="LoggingPolicy cannot be saved"):
        save_policy(MU, tmp_path / "policy")


def test_damaged_and_foreign_files(tmp_path):
    path = tmp_path / "policy"
    save_policy(SoftmaxPolicy(("a", "b"), np.eye(2)), path)
    whole = path.read_bytes()
    for damaged in (whole[:100], whole[:-30], b"", whole.replace(b"theta", b"thetb")):
        path.write_bytes(damaged)
        with pytest.raises(FileError):
            load_policy(path)
    with pytest.raises(FileError, match="does not exist"):
        load_policy(tmp_path / "nothing")
    archive.write(path, "sparing learner", 1, {}, {})
    with pytest.raises(FileError, match="holds a sparing learner; expected a sparing policy"):
        load_policy(path)
    archive.write(path, KIND, VERSION + 1, {}, {})
    with pytest.raises(FileError, match="format version"):
        load_policy(path)


@pytest.mark.parametrize(
    ("changes", "arrays"),
    [
        ({}, {}),
        ({}, {"theta": np.zeros((3, 2))}),
        ({}, {"theta": np.full((2, 2), np.nan)}),
        ({"temperature": -1.0}, {"theta": np.eye(2)}),
        ({"kind": "OtherPolicy"}, {"theta": np.eye(2)}),
        ({"support": "known"}, {"theta": np.eye(2)}),
        ({"notes": None}, {"theta": np.eye(2)}),
        ({"action_names": None}, {"theta": np.eye(2)}),
    ],
)
def test_whole_archives_that_hold_no_policy(changes, arrays, tmp_path):
    header = {
        "kind": "SoftmaxPolicy",
        "action_names": ["a", "b"],
        "method": "x",
        "notes": [],
        "temperature": 1.0,
    }
    archive.write(tmp_path / "policy", KIND, VERSION, {"policy": {**header, **changes}}, arrays)
    with pytest.raises(FileError, match="does not hold a whole policy"):
        load_policy(tmp_path / "policy")
