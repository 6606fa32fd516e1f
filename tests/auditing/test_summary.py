"""The audit: what it counts, what it says, and what it leaves unsaid."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import sparing
from each import for_each
from sparing.auditing import audit, text
from sparing.errors import SettingError
from sparing.log import Log, Support
from sparing.model.confidence import Assumptions, ConfidenceEllipsoids
from sparing.model.statistics import Statistics
from sparing.policies.policy import UniformPolicy
from sparing.simulation import LinearWorld, draw_log

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
    values = found.to_dict()
    assert values["counts"] == {"a": 3, "b": 1, "c": 0, "d": 0, "e": 0}
    assert values["never_logged"] == ["c", "d", "e"]
    assert (values["support"], values["verdict"], values["elbow"]) == ("exact", "deficient", None)
    assert values["unsupported_sizes"] == {2: 1, 3: 2, 4: 1}
    assert values["rewards"] == {"mean": 1.0, "range": (-2.0, 4.5)}
    expected = {
        "rows": 4,
        "actions": 5,
        "features": 2,
        "distinct_contexts": 2,
        "smallest_count": 0,
        "largest_count": 3,
        "never_logged": 3,
        "unsupported_share": pytest.approx(0.6),
        "estimated_unsupported_share": None,
        "smallest_propensity": 0.25,
        "effective_sample_size": pytest.approx(81 / 25),
    }
    assert {name: values["metrics"][name] for name in expected} == expected
    by_name = {action.name: action for action in found.per_action}
    assert (by_name["b"].rows, by_name["b"].share, by_name["b"].supported) == (1, 0.25, 0.75)
    assert (by_name["c"].ineligible, by_name["c"].zero) == (0.75, None)
    text = str(found)
    assert "4 rows, 5 actions, 2 features, 2 distinct contexts" in text
    assert "rows per action: 0 to 3; they fall nowhere fast" in text
    assert "never tried: 3 actions (c, d, e)" in text
    assert "support: exact; a row could not have taken 60% of the actions, on average" in text
    assert "propensities: 0.25 to 1" in text
    assert "rewards: mean 1, from -2 to 4.5" in text


def test_a_log_with_unknown_support_says_how_to_know_it():
    found = audit(Log.from_arrays(CONTEXTS, ACTIONS, REWARDS))
    assert found.support == "unknown"
    assert found.unsupported_share is None
    assert found.overlap is None
    assert found.never_logged == ()
    assert found.verdict == "unknown"
    text = str(found)
    assert "support: unknown (log eligible sets or full distributions to know it)" in text
    assert "propensities: none logged" in text
    assert "every action was tried" in text
    assert "4 rows are too few to estimate the support" in text


def test_estimated_support_is_called_so():
    support = Support.from_mask(np.array([[True, False], [True, True]]), kind="estimated")
    found = audit(Log.from_arrays(np.eye(2), [0, 1], [1.0, 2.0], support=support))
    assert (found.unsupported_share, found.estimated_unsupported_share) == (None, 0.25)
    assert "support: estimated; similar contexts lack 25% of the actions" in str(found)
    assert found.per_action[1].supported == 0.5
    assert (found.per_action[1].zero, found.per_action[1].ineligible) == (None, None)


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
    for unknown in ("elbow", "unsupported_share", "overlap", "reward_mean", "reward_range", "assumptions"):
        assert getattr(found, unknown) is None
    text = str(found)
    assert "0 rows, 2 actions" in text
    assert "never tried: 2 actions (a, b)" in text
    assert "propensities: none logged" in text
    assert "rewards: none logged" in text
    assert "%" not in text
    assert found.verdict == "deficient"
    assert found.gap_map.gaps == ()
    assert found.headline == "The log has no rows: nothing is known of any action."


@pytest.mark.parametrize("names", [["a", "b"], [1, 2], [0.5, 1.5], [("x", 1), ("x", 2)]])
def test_the_audit_is_json_whatever_the_labels(names):
    log = Log.from_arrays([[1.0]], [names[0]], [1.0], action_names=names)
    values = json.loads(json.dumps(audit(log).to_dict(), allow_nan=False))
    assert list(values["counts"].values()) == [1, 0]
    assert list(values["counts"]) == [str(name) for name in names]
    assert [str(name) for name in values["never_logged"]] == [str(names[1])]


def test_the_counts_of_the_audit_keep_the_labels():
    names = [("x", 1), ("x", 2)]
    found = sparing.audit(Log.from_arrays([[1.0]], [names[0]], [1.0], action_names=names))
    assert found.counts == {("x", 1): 1, ("x", 2): 0}
    assert found.never_logged == (("x", 2),)
    assert all(type(count) is int for count in found.counts.values())


def test_zero_and_rare_are_told_apart():
    """Two rows give b probability 0, one gives it 0.005: zero in half of the rows, rare in a quarter."""
    chances = [[1.0, 0.0], [1.0, 0.0], [0.995, 0.005], [0.5, 0.5]]
    log = Log.from_arrays(CONTEXTS, list("aaab"), REWARDS, distribution=chances, action_names=list("ab"))
    a, b = audit(log).per_action
    assert (b.zero, b.rare, b.supported, b.ineligible) == (0.5, 0.25, 0.5, None)
    assert (a.zero, a.rare) == (0.0, 0.0)
    assert audit(log, rare=0.6).per_action[0].rare == 0.25
    assert audit(log).metrics["rare_share"] == 0.125


def test_without_distributions_rare_goes_by_the_share_of_supported_rows():
    names = ["a", "b"]
    eligible = [names] * 150 + [["a"]] * 50
    log = Log.from_arrays(np.ones((200, 1)), ["b"] + ["a"] * 199, np.ones(200), eligible=eligible)
    assert audit(log).per_action[1].rare == 0.75
    assert audit(log, rare=0.005).per_action[1].rare == 0.0


def test_certified_errors_and_the_certified_set():
    log = draw_log(LinearWorld(n_actions=4, n_features=2, noise=0.1, seed=0), rows=4000, never=[3], seed=0)
    found = audit(log, error=0.5, noise=0.1, theta_bound=3.0, context_bound=2**0.5)
    sums = Statistics.of(log)
    assumptions = Assumptions.resolve(sums, noise=0.1, theta_bound=3.0, context_bound=2**0.5)
    expected = ConfidenceEllipsoids(sums, assumptions).errors
    assert [action.certified_error for action in found.per_action] == pytest.approx(expected.tolist())
    assert found.certified == (0, 1, 2)
    assert found.metrics["certified_actions"] == 3
    assert found.metrics["largest_certified_error"] == pytest.approx(expected.max())
    assert found.assumptions.estimated == ()
    assert "certified: 0, 1, 2 within 0.5" in str(found)
    guessed = audit(log)
    assert guessed.assumptions.estimated == ("noise", "theta_bound", "context_bound")
    assert "conditional on estimated" in str(guessed)


def test_a_scale_below_one_narrows_upsides_and_not_certified_errors():
    log = draw_log(LinearWorld(n_actions=5, n_features=2, seed=0), rows=500, never=[4], seed=0)
    plain, scaled = (audit(log, radius_scale=scale, reward_range=(-99, 99)) for scale in (1.0, 0.2))
    assert scaled.gap_map.gaps[0].upside < plain.gap_map.gaps[0].upside
    assert scaled.metrics["largest_certified_error"] == plain.metrics["largest_certified_error"]
    assert "without a guarantee" in text.upside(scaled)
    assert "with probability 95%" in text.upside(plain)


def test_a_full_log_is_called_full():
    log = draw_log(LinearWorld(n_actions=3, n_features=2, seed=0), rows=300, unsupported=0.0, seed=0)
    found = audit(log)
    assert (found.verdict, found.unsupported_share) == ("full", 0.0)
    assert found.headline == "Every action could have been logged in every row."


@for_each(
    "settings",
    [
        {"error": 0.0},
        {"rare": 1.0},
        {"confidence": 0.0},
        {"reward_range": (1.0, 0.0)},
        {"reward_range": (0.0, float("inf"))},
        {"gaps": -1},
        {"ridge": 0.0},
        {"delta": 2.0},
        {"noise": float("nan")},
        {"radius_scale": -1.0},
    ],
)
@for_each("rows", [0, 4])
def test_bad_settings_are_refused_whatever_the_log(settings, rows):
    log = Log.from_arrays(CONTEXTS, ACTIONS, REWARDS, action_names=NAMES).take(range(rows))
    with pytest.raises(SettingError, match=next(iter(settings))):
        audit(log, **settings)


def test_metrics_are_numbers_or_none():
    log = draw_log(LinearWorld(n_actions=5, n_features=2, seed=0), rows=700, support="region", seed=0)
    plain = audit(log).metrics
    with_policy = audit(log, policy=UniformPolicy(log.action_names)).metrics
    assert set(with_policy) - set(plain) == {
        "policy_unsupported_mass",
        "policy_estimated_unsupported_mass",
        "policy_implied_unsupported_mass",
        "policy_never_logged_mass",
        "policy_effective_sample_size",
    }
    for value in with_policy.values():
        assert value is None or (isinstance(value, int | float) and np.isfinite(value))


@pytest.mark.parametrize("place", [0, 2, -1])
def test_one_error_that_is_not_a_number_makes_the_extremes_unknown(place):
    """Python's min and max would give another action's error, and a gate on it would pass."""
    world = LinearWorld(n_actions=4, n_features=2, noise=0.5, seed=0)
    found = sparing.audit(draw_log(world, rows=200, unsupported=0.0, seed=0))
    actions = list(found.per_action)
    actions[place] = replace(actions[place], certified_error=math.nan)
    metrics = replace(found, per_action=tuple(actions)).metrics
    assert math.isnan(metrics["smallest_certified_error"])
    assert math.isnan(metrics["largest_certified_error"])
