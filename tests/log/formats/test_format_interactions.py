"""coba's interactions and river's history, in memory and as lines."""

import json

import numpy as np
import pytest

import other_formats
from each import for_each
from sparing.errors import LogError
from sparing.log import Log
from sparing.log.formats import FORMATS


def test_interactions_by_hand():
    log, notes = FORMATS["coba"].read(
        [
            {
                "context": {"age": 3, "from": "CH"},
                "action": "b",
                "reward": 2,
                "probability": 0.25,
                "actions": ["a", "b"],
            },
            {"context": {"age": 4}, "action": "a", "reward": True, "probability": 0.5, "actions": ["a", "c"]},
        ]
    )
    assert log.feature_names == ("age", "from=CH")
    assert log.contexts.tolist() == [[3.0, 1.0], [4.0, 0.0]]
    assert log.action_names == ("a", "b", "c")
    assert log.actions.tolist() == [1, 0]
    assert log.rewards.tolist() == [2.0, 1.0]
    assert log.propensities.tolist() == [0.25, 0.5]
    assert log.support.mask().tolist() == [[True, True, False], [True, False, True]]
    assert notes == []


def test_without_probability_and_actions_nothing_is_made_up():
    log, notes = FORMATS["coba"].read([{"context": [1.0], "action": 3, "reward": 0.0}])
    assert log.propensities is None
    assert log.support.kind == "unknown"
    assert any("no propensities" in note for note in notes)
    assert any("support is unknown" in note for note in notes)


@pytest.mark.parametrize(
    ("context", "features"),
    [
        (None, {"constant": 1.0}),
        (2.5, {"x_0": 2.5}),
        ("CH", {"x_0=CH": 1.0}),
        ((1, "a", 2.0), {"x_0": 1.0, "x_1=a": 1.0, "x_2": 2.0}),
        (np.array([1.5, 2.5]), {"x_0": 1.5, "x_1": 2.5}),
        ({"a": [1, [2, 3]]}, {"a.0": 1.0, "a.1.0": 2.0, "a.1.1": 3.0}),
        ({"a": np.float32(0.5), "b": np.int64(2), "c": np.bool_(True)}, {"a": 0.5, "b": 2.0, "c=true": 1.0}),
    ],
)
def test_contexts_of_any_shape(context, features):
    log, _ = FORMATS["coba"].read([{"context": context, "action": 1, "reward": 1.0}])
    assert dict(zip(log.feature_names, log.contexts[0], strict=True)) == features


def test_actions_of_any_shape():
    rows = [
        {"context": None, "action": [1, [0, 2]], "reward": 1.0, "actions": [[1, [0, 2]], (0, 1)]},
        {"context": None, "action": [0, 1], "reward": 1.0, "actions": [[1, [0, 2]], [0, 1]]},
    ]
    assert FORMATS["coba"].read(rows)[0].action_names in {((0, 1), (1, (0, 2))), ((1, (0, 2)), (0, 1))}
    described, notes = FORMATS["coba"].read([{"context": None, "action": {"b": 1, "a": "x"}, "reward": 1.0}])
    assert described.action_names == ("a=x, b=1",)
    assert any("names only" in note for note in notes)


def test_interactions_of_a_log_keep_tuples_and_ids(tmp_path):
    log = Log.from_arrays(
        [[1.0, 0.0], [0.0, 2.0]],
        [("a", 1), ("b", 2)],
        [1.0, 0.0],
        action_names=[("a", 1), ("b", 2)],
        context_ids=[5, 5],
    )
    other_formats.write(log, tmp_path / "log.jsonl", "coba")
    interactions = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert interactions[1] == {"context": [0.0, 2.0], "action": ["b", 2], "reward": 0.0, "context_id": 5}
    back, _ = FORMATS["coba"].read(tmp_path / "log.jsonl")
    assert back.action_names == log.action_names
    assert back.context_ids.tolist() == [5, 5]
    assert back.contexts.tolist() == log.contexts.tolist()


GOOD = {"context": [1.0, 2.0], "action": "a", "reward": 1.0, "probability": 0.5, "actions": ["a", "b"]}


@for_each(
    ("change", "message"),
    [
        ({"action": "z"}, "row 1: the logged action 'z' is not among the 2 available"),
        ({"action": None}, "row 1: action label None is missing"),
        ({"action": ...}, "row 1: no action or reward"),
        ({"reward": ..., "rewards": [1, 2]}, "row 1: a simulated interaction"),
        ({"reward": "1"}, "row 1: the reward is '1'"),
        ({"reward": float("nan")}, "row 1: the reward is nan"),
        ({"probability": 0}, r"row 1: .* is 0.0; must be in \(0, 1\]"),
        ({"probability": "0.5"}, "row 1: the probability is '0.5'"),
        ({"probability": ...}, "row 1: no probability of the logged action, but there is one at row 0"),
        ({"actions": ...}, "row 1: no set of available actions, but there is one at row 0"),
        ({"actions": "ab"}, "row 1: the available actions are 'ab'"),
        ({"actions": 3}, "row 1: the available actions are 3"),
        ({"context": [1.0]}, "row 1: a context of 1 values, but of 2 at row 0"),
        ({"context": [1.0, float("inf")]}, "row 1: feature 'x_1' is inf"),
        ({"context": [1.0, object()]}, "row 1: feature 'x_1' is <object"),
        ({"context": [1.0, "b"]}, "row 1: feature 'x_1' is 'b', a category, but it is a number at row 0"),
    ],
)
def test_bad_interactions_are_named(change, message):
    bad = {name: value for name, value in {**GOOD, **change}.items() if value is not ...}
    with pytest.raises(LogError, match=message):
        FORMATS["coba"].read([GOOD, bad])


def test_a_context_nested_too_deeply():
    context = [1.0]
    for _ in range(5000):
        context = [context]
    with pytest.raises(LogError, match="row 0: the context is nested too deeply"):
        FORMATS["coba"].read([{**GOOD, "context": context}])


def test_any_walk_over_interactions_will_do():
    log, _ = FORMATS["coba"].read(each for each in [GOOD, GOOD])
    assert log.n_rows == 2


def test_an_action_that_was_not_named():
    with pytest.raises(LogError, match="row 0: unknown action 'b'; the 1 known ones are 'a'"):
        FORMATS["coba"].read([GOOD], actions=["a"])
    log, _ = FORMATS["coba"].read([GOOD], actions=["c", "b", "a"])
    assert log.actions.tolist() == [2]


def test_history_by_hand():
    arms = ["a", "b"]
    log, notes = FORMATS["river"].read([(arms, {"age": 3}, "b", 2.0), (["a", "c"], None, "c", False)])
    assert log.contexts.tolist() == [[3.0], [0.0]]
    assert log.action_names == ("a", "b", "c")
    assert log.rewards.tolist() == [2.0, 0.0]
    assert log.propensities is None
    assert log.support.mask().tolist() == [[True, True, False], [True, False, True]]
    assert any("no propensities" in note for note in notes)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ((["a"], {}, "a"), "row 0: .* expected a list of arms, context, arm and reward"),
        ({"arms": ["a"]}, "row 0: .* expected a list of arms"),
        (("a", {}, "a", 1.0), "row 0: the available actions are 'a'"),
        ((["a"], {}, "b", 1.0), "row 0: the logged action 'b' is not among"),
        ((["a"], {}, "a", None), "row 0: the reward is None"),
    ],
)
def test_bad_steps_are_named(record, message):
    with pytest.raises(LogError, match=message):
        FORMATS["river"].read([record])
