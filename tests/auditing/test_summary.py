"""The audit: what it counts, what it says, and what it leaves unsaid."""

import json

import numpy as np
import pytest

import sparing
from sparing.auditing import audit
from sparing.log import Log, Support

CONTEXTS = [[0.0, 1.0], [0.0, 1.0], [-0.0, 1.0], [2.0, 3.0]]
ACTIONS = ["a", "b", "a", "a"]
REWARDS = [1.0, -2.0, 0.5, 4.5]
NAMES = ["a", "b", "c", "d", "e"]


def test_a_log_with_known_support():
    """The rows leave out 3, 2, 3 and 4 of 5 actions: 60 % on average."""
    eligible = [["a", "b"], ["a", "b", "c"], ["a", "b"], ["a"]]
    propensities = [0.5, 0.25, 0.5, 1.0]
    log = Log.from_arrays(
        CONTEXTS, ACTIONS, REWARDS, eligible=eligible, propensities=propensities, action_names=NAMES
    )
    found = audit(log)
    assert found.to_dict() == {
        "rows": 4,
        "actions": 5,
        "features": 2,
        "distinct_contexts": 2,
        "counts": {"a": 3, "b": 1, "c": 0, "d": 0, "e": 0},
        "never_logged": ("c", "d", "e"),
        "elbow": None,
        "support": "exact",
        "unsupported_share": pytest.approx(0.6),
        "propensity_range": (0.25, 1.0),
        "reward_mean": 1.0,
        "reward_range": (-2.0, 4.5),
    }
    text = str(found)
    assert "4 rows, 5 actions, 2 features, 2 distinct contexts" in text
    assert "rows per action: 0 to 3; no elbow" in text
    assert "never tried: 3 actions (c, d, e)" in text
    assert "support: exact; a row could not have taken 60% of the actions, on average" in text
    assert "propensities: 0.25 to 1" in text
    assert "rewards: mean 1, from -2 to 4.5" in text


def test_a_log_with_unknown_support_says_how_to_know_it():
    found = audit(Log.from_arrays(CONTEXTS, ACTIONS, REWARDS))
    assert found.support == "unknown"
    assert found.unsupported_share is None
    assert found.propensity_range is None
    assert found.never_logged == ()
    text = str(found)
    assert "support: unknown (log eligible sets or full distributions to know it)" in text
    assert "propensities: none logged" in text
    assert "every action was tried" in text
    assert "%" not in text


def test_estimated_support_is_called_so():
    support = Support.from_mask(np.array([[True, False], [True, True]]), kind="estimated")
    found = audit(Log.from_arrays(np.eye(2), [0, 1], [1.0, 2.0], support=support))
    assert found.unsupported_share == 0.25
    assert "support: estimated; a row could not have taken 25%" in str(found)


def test_context_ids_tell_contexts_apart():
    found = audit(Log.from_arrays(CONTEXTS, ACTIONS, REWARDS, context_ids=[1, 2, 3, 1]))
    assert found.distinct_contexts == 3


@pytest.mark.parametrize(("never", "shown"), [(1, "1 action (b0)"), (10, "b9)"), (11, "b9, …)")])
def test_never_tried_actions_are_named_up_to_ten(never, shown):
    names = ["a", *(f"b{i}" for i in range(never))]
    found = audit(Log.from_arrays([[1.0]], ["a"], [1.0], action_names=names))
    assert len(found.never_logged) == never
    assert f"never tried: {never} action" in str(found)
    assert shown in str(found)


def test_an_elbow_is_named():
    actions = ["a"] * 100 + ["b"] * 90 + ["c"] * 5
    found = audit(Log.from_arrays(np.ones((195, 1)), actions, np.ones(195)))
    assert found.elbow == 2
    assert "rows per action: 5 to 100; they fall fast after 2 actions" in str(found)


@pytest.mark.parametrize(
    ("log", "support"),
    [
        (Log.empty(action_names=["a", "b"], n_features=3), "unknown"),
        (
            Log.from_arrays(
                np.ones((1, 3)), ["a"], [1.0], distribution=[[0.5, 0.5]], action_names=["a", "b"]
            ).take([]),
            "exact",
        ),
    ],
    ids=["cold", "taken"],
)
def test_an_empty_log_claims_nothing(log, support):
    found = audit(log)
    assert (found.rows, found.actions, found.features, found.distinct_contexts) == (0, 2, 3, 0)
    assert found.never_logged == ("a", "b")
    assert found.support == support
    for unknown in ("elbow", "unsupported_share", "propensity_range", "reward_mean", "reward_range"):
        assert getattr(found, unknown) is None
    text = str(found)
    assert "0 rows, 2 actions" in text
    assert "never tried: 2 actions (a, b)" in text
    assert "propensities: none logged" in text
    assert "rewards: none logged" in text
    assert "%" not in text


@pytest.mark.parametrize("names", [["a", "b"], [1, 2], [0.5, 1.5], [("x", 1), ("x", 2)]])
def test_the_audit_is_json_whatever_the_labels(names):
    log = Log.from_arrays([[1.0]], [names[0]], [1.0], action_names=names)
    values = json.loads(json.dumps(audit(log).to_dict()))
    assert list(values["counts"].values()) == [1, 0]
    assert list(values["counts"]) == [str(name) for name in names]
    assert [str(name) for name in values["never_logged"]] == [str(names[1])]


def test_the_counts_of_the_audit_keep_the_labels():
    names = [("x", 1), ("x", 2)]
    found = sparing.audit(Log.from_arrays([[1.0]], [names[0]], [1.0], action_names=names))
    assert found.counts == {("x", 1): 1, ("x", 2): 0}
    assert found.never_logged == (("x", 2),)
    assert all(type(count) is int for count in found.counts.values())
