"""Policies on disk: what comes back is what was saved, bit for bit, or an error."""

from dataclasses import fields

import numpy as np
import pytest

from each import for_each
from sparing import archive
from sparing.errors import FileError, SettingError
from sparing.learning import METHODS, learn
from sparing.policies.files import KIND, VERSION, load_policy, save_policy
from sparing.policies.policy import ConstantPolicy, SoftmaxPolicy, UniformPolicy
from sparing.simulation import LinearWorld
from sparing.simulation.logging_policies import draw_log, logging_policy

FIXED = {
    "greedy": {"ridge": 1.0},
    "opr": {"k": 0.0, "l2": 1e-3},
    "opr-dlm": {"epsilon": 1.0},
    "poem": {"clip": np.inf, "penalty": 0.5, "l2": 1e-3},
    "norm-poem": {"clip": np.inf, "penalty": 0.5, "l2": 1e-3},
    "extrapolation": {"l2": 1e-3},
    "caipwl": {"l2": 1e-3},
    "ipw-logistic": {"l2": 1e-3},
    "boosted": {"rounds": 20},
    "stacked": {"rounds": 20, "ridge": 1.0},
    "auto": {"candidates": ("greedy", "ipw-logistic")},
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
    with pytest.raises(FileError, match="contains a sparing learner; expected a sparing policy"):
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
    with pytest.raises(FileError, match="does not contain a complete policy"):
        load_policy(tmp_path / "policy")


def without(header, name):
    del header[name]


FORGERIES = {
    "a name twice": lambda h, a: h["action_names"].__setitem__(0, h["action_names"][1]),
    "a name that is missing": lambda h, a: h["action_names"].__setitem__(0, None),
    "notes that are no texts": lambda h, a: h["notes"].append(3),
    "a method that is no text": lambda h, a: h.update(method=None),
    "no method": lambda h, a: without(h, "method"),
    "theta of times": lambda h, a: a.update(theta=a["theta"].astype("<m8[s]")),
    "theta of texts": lambda h, a: a.update(theta=a["theta"].astype("<U5")),
    "theta that overflows": lambda h, a: a.update(theta=np.full_like(a["theta"], -1e308)),
    "theta of more features": lambda h, a: a.update(theta=np.pad(a["theta"], ((0, 0), (0, 1)))),
    "sets of another type": lambda h, a: a.update({"support/sets": a["support/sets"].astype(float)}),
    "sets of more actions": lambda h, a: a.update({"support/elsewhere": np.ones(6, dtype=bool)}),
    "sets of no action": lambda h, a: a["support/sets"].__setitem__(0, 0),
    "a context twice": lambda h, a: a["support/contexts"].__setitem__(0, a["support/contexts"][1]),
    "contexts that are not numbers": lambda h, a: a["support/contexts"].__setitem__(0, np.nan),
    "contexts of another type": lambda h, a: a.update(
        {"support/contexts": a["support/contexts"].astype("f4")}
    ),
    "contexts of complex numbers": lambda h, a: a.update({"support/contexts": a["support/contexts"] + 0j}),
    "a temperature that overflows": lambda h, a: h.update(temperature=5e-324),
    "a temperature beyond floats": lambda h, a: h.update(temperature=10**400),
}


@for_each("forgery", FORGERIES)
def test_a_forged_policy_is_refused(forgery, tmp_path):
    """Its checksum fits; what it would do does not."""
    path = tmp_path / "policy"
    save_policy(learn(LOG, "opr", **FIXED["opr"]), path)
    header, arrays = archive.read(path, KIND, VERSION)
    FORGERIES[forgery](header["policy"], arrays)
    archive.write(path, KIND, VERSION, header, arrays)
    with pytest.raises(FileError, match="does not contain a complete policy"):
        load_policy(path)


@pytest.mark.parametrize("array", ["inverse", "radius", "priority"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_forged_limits_are_refused(array, number, tmp_path):
    path = tmp_path / "policy"
    save_policy(learn(LOG, "pessimistic"), path)
    header, arrays = archive.read(path, KIND, VERSION)
    arrays[array] = arrays[array].astype(float)
    arrays[array].flat[0] = number
    archive.write(path, KIND, VERSION, header, arrays)
    with pytest.raises(FileError, match="does not contain a complete policy"):
        load_policy(path)


@pytest.mark.parametrize("change", ["names", "features"])
def test_a_policy_for_other_contexts_must_fit(change, tmp_path):
    path = tmp_path / "policy"
    save_policy(learn(LOG, "pi-plus"), path)
    header, arrays = archive.read(path, KIND, VERSION)
    if change == "names":
        header["policy"]["otherwise"]["action_names"].reverse()
    else:
        for name in ("otherwise/theta", "otherwise/support/contexts"):
            arrays[name] = np.pad(arrays[name], ((0, 0), (0, 1)))
    archive.write(path, KIND, VERSION, header, arrays)
    with pytest.raises(FileError, match="other actions or features"):
        load_policy(path)


def test_policies_in_policies_without_end(tmp_path):
    inner = {"kind": "TablePolicy", "action_names": ["a"], "method": "x", "notes": []}
    header = inner
    for _ in range(900):
        header = {**inner, "otherwise": header}
    archive.write(tmp_path / "policy", KIND, VERSION, {"policy": header}, {})
    with pytest.raises(FileError):
        load_policy(tmp_path / "policy")


def test_what_would_not_load_is_not_saved(tmp_path):
    from sparing.policies.policy import GreedyPolicy

    policy = GreedyPolicy(("a", "b"), np.full((2, 1), 1e200), np.arange(2))
    with pytest.raises(SettingError, match="none beyond 1e"):
        save_policy(policy, tmp_path / "policy")
    assert not (tmp_path / "policy").exists()
