"""dsjson, read: labels in both styles, numbering, distributions, contexts."""

import json

import numpy as np
import pytest
from dsjson_events import event, multi

import other_formats
from sparing.errors import LogError
from sparing.log import Log
from sparing.log.formats import FORMATS


def read(*events, **options):
    return FORMATS["dsjson"].read(list(events), **options)


def test_an_event_by_hand():
    log, notes = read(event())
    assert log.contexts.tolist() == [[31.0]]
    assert log.feature_names == ("user.age",)
    assert log.action_names == ("A", "B", "C")
    assert log.actions.tolist() == [1]
    assert log.rewards.tolist() == [1.0]
    assert log.propensities.tolist() == [0.5]
    assert log.support.kind == "exact"
    assert log.support.distribution().tolist() == [[0.375, 0.5, 0.125]]
    assert log.context_ids is None
    assert any("i.id" in note for note in notes)
    assert any("context_id='EventId'" in note for note in notes)


def test_a_file_is_what_its_events_are(tmp_path):
    events = [event(), event(_label_cost=2, _labelIndex=0, _label_Action=1, _label_probability=0.375)]
    path = tmp_path / "log.dsjson"
    path.write_text("\n\n".join(map(json.dumps, events)))
    log, _ = FORMATS["dsjson"].read(path)
    listed, _ = read(*events)
    assert log.actions.tolist() == listed.actions.tolist() == [1, 0]
    assert log.rewards.tolist() == [1.0, -2.0]


def test_actions_that_a_does_not_name_have_no_probability():
    log, _ = read(event(a=[2, 1], p=[0.75, 0.25], _label_probability=0.75))
    assert log.support.distribution().tolist() == [[0.25, 0.75, 0.0]]
    assert log.support.mask().tolist() == [[True, True, False]]


def test_without_p_the_actions_are_the_set():
    log, _ = read(event(p=...))
    assert log.support.probabilities is None
    assert log.support.mask().tolist() == [[True, True, True]]
    assert log.propensities.tolist() == [0.5]
    mixed, notes = read(event(), event(p=...), event(a=[2, 1], p=[0.5, 0.5]))
    assert mixed.support.probabilities is None
    assert mixed.support.mask()[2].tolist() == [True, True, False]
    assert any("no full distribution" in note for note in notes)


def test_the_propensity_comes_from_p_where_the_label_has_none():
    log, _ = read(event(_label_probability=...))
    assert log.propensities.tolist() == [0.5]


@pytest.mark.parametrize(
    "label",
    [
        {"_labelIndex": 1},
        {"_label_Action": 2},
        {
            "_label": {"Action": 2, "Cost": -1.0, "Probability": 0.5},
            "_label_cost": ...,
            "_label_probability": ...,
        },
        {},
    ],
)
def test_styles_of_label(label):
    """The last has neither action nor index: the action taken is the first of a."""
    log, _ = read(event(**{"_labelIndex": ..., "_label_Action": ..., **label}))
    assert log.actions.tolist() == [1]
    assert log.rewards.tolist() == [1.0]


def test_numbers_from_zero_are_told_by_the_whole_file():
    """The first event does not tell; the second has a 0."""
    first = event(a=[1], p=[1.0], _label_Action=..., _labelIndex=..., _label_probability=1.0)
    second = event(a=[0, 1, 2], p=[0.5, 0.25, 0.25], _label_Action=..., _labelIndex=0)
    log, notes = read(first, second)
    assert log.actions.tolist() == [1, 0]
    assert log.support.distribution()[0].tolist() == [0.0, 1.0, 0.0]
    assert any("a is numbered from 0 (row 1" in note for note in notes)
    alone, notes = read(first)
    assert alone.actions.tolist() == [0]
    assert not any("numbered from 0" in note for note in notes)


def test_an_action_numbered_from_zero_beside_a_numbered_from_one():
    log, notes = read(event(_labelIndex=..., _label_Action=0, _label_probability=0.375))
    assert log.actions.tolist() == [0]
    assert any("_label_Action is numbered from 0" in note for note in notes)


def test_what_would_be_wrong_if_numbers_began_at_one_is_right_from_zero():
    """The first event's numbers fit only from 0, which the second tells; what is skipped is counted once."""
    first = event(a=[1, 2], p=[0.75, 0.25], _label_Action=1, _labelIndex=1, _label_probability=0.75)
    second = event(a=[0, 1, 2], _label_Action=0, _labelIndex=0)
    log, notes = read(first, event(_skipLearn=True), second)
    assert log.actions.tolist() == [1, 0]
    assert log.support.distribution().tolist() == [[0.0, 0.75, 0.25], [0.5, 0.375, 0.125]]
    assert any("1 events marked _skipLearn" in note for note in notes)
    with pytest.raises(LogError, match=r"row 0: .*_labelIndex 1 .* _label_Action 1"):
        read(first)


def test_lines_without_label_and_lines_not_to_learn_from():
    log, notes = read(
        event(), event(_label_cost=...), {"RewardValue": 1.0, "EventId": "x"}, event(_skipLearn=True)
    )
    assert log.n_rows == 1
    assert any("2 lines without a label" in note for note in notes)
    assert any("1 events marked _skipLearn" in note for note in notes)


def test_events_dropped_at_one_rate_are_noted():
    """Equal weights 1/(1 − pdrop) leave every average as it is."""
    log, notes = read(event(pdrop=0.5), event(pdrop=0.5))
    assert log.n_rows == 2
    assert any("0.5 were dropped (pdrop)" in note for note in notes)


def test_events_dropped_at_different_rates_are_refused_or_ignored_on_demand():
    events = [event(pdrop=0.5), event(pdrop=0.0)]
    with pytest.raises(LogError, match=r"row 1: pdrop is 0\.0, but 0\.5 at row 0.*pdrop='ignore'"):
        read(*events)
    log, notes = FORMATS["dsjson"].read(events, pdrop="ignore")
    assert log.n_rows == 2
    assert any("rates up to 0.5" in note and "no weights" in note for note in notes)


@pytest.mark.parametrize("share", [1.0, -0.5, 2])
def test_a_logged_event_was_not_dropped(share):
    with pytest.raises(LogError, match=r"row 0: pdrop is .*must be in \[0, 1\)"):
        read(event(pdrop=share))


@pytest.mark.parametrize(
    "line", ["[CHECKPOINT INFO LINE] 2021-02-04", "[1, 2]", "1:0:0.5 | a", "[" * 100_000]
)
def test_lines_that_are_no_objects_are_skipped_and_counted(line, tmp_path):
    """Vowpal Wabbit reads on behind them, so must we."""
    path = tmp_path / "log.dsjson"
    path.write_text("\n".join([line, json.dumps(event()), line, json.dumps(event())]) + "\n")
    log, notes = other_formats.read(path)
    assert log.n_rows == 2
    assert "2 lines that are not JSON objects were skipped." in notes


def test_continuous_actions_are_named():
    with pytest.raises(LogError, match=r"row 0: an action out of a continuous range \(_label_ca\)"):
        read({"_label_ca": {"action": 185.1, "cost": 0.6, "pdf_value": 6e-05}, "c": {"x": 1}})


def test_rounded_distributions_are_scaled():
    """Seven probabilities of 1/7 printed with six digits sum to 1 − 10⁻⁶."""
    actions = [{"id": f"a{i}"} for i in range(7)]
    rounded = event(
        a=list(range(1, 8)),
        p=[0.142857] * 7,
        c=multi(*actions),
        _labelIndex=0,
        _label_Action=1,
        _label_probability=0.142857,
    )
    log, notes = read(rounded)
    np.testing.assert_allclose(log.support.distribution(), 1 / 7, rtol=1e-15)
    assert any("scaled" in note for note in notes)


def test_one_action_in_two_slots():
    """Its probability is the sum: whichever slot was drawn, it was that action."""
    context = multi({"id": "A"}, {"id": "B"}, {"id": "A"})
    log, notes = read(event(c=context, a=[3, 1, 2], p=[0.5, 0.25, 0.25], _labelIndex=2, _label_Action=3))
    assert log.action_names == ("A", "B")
    assert log.support.distribution().tolist() == [[0.75, 0.25]]
    assert log.propensities.tolist() == [0.75]
    assert any("two places" in note for note in notes)
    with pytest.raises(LogError, match="row 0: the logged action 'A' is available twice"):
        read(event(c=context, p=..., _labelIndex=2, _label_Action=3))


def test_contexts_become_features_of_one_level():
    context = {
        "age": 31,
        "user": {"vip": True, "country": "CH", "scores": [0.5, 2], "gone": None, "_hidden": 9},
        "FromUrl": [{"time": "noon"}, {"time": "noon", "visits": 3.5}],
        "_ua": "left out",
    }
    log, _ = read(event(c=multi({"id": "A"}, {"id": "B"}, {"id": "C"}, **context)))
    assert dict(zip(log.feature_names, log.contexts[0], strict=True)) == {
        "age": 31.0,
        "user.vip=true": 1.0,
        "user.country=CH": 1.0,
        "user.scores.0": 0.5,
        "user.scores.1": 2.0,
        "FromUrl.time=noon": 2.0,
        "user.gone is missing": 1.0,
        "FromUrl.visits": 3.5,
    }


def test_fields_can_be_left_out():
    log, _ = read(
        event(c=multi({"id": "A"}, {"id": "B"}, {"id": "C"}, user={"id": "u1", "age": 3})), ignore=["user.id"]
    )
    assert log.feature_names == ("user.age",)


@pytest.mark.parametrize(
    ("actions", "action_id", "names"),
    [
        ([{"i": {"id": "x"}}, {"i": {"id": "y"}}], "auto", ("x", "y")),
        ([{"_tag": "x", "j": 1}, {"_tag": "y", "j": 1}], "auto", ("x", "y")),
        ([{"id": 7}, {"id": 8}], "auto", (7, 8)),
        ([{"id": "7"}, {"id": "8"}], "auto", (7, 8)),
        ([{"t": {"topic": "sky"}}, {"t": {"topic": "sea"}}], "auto", ("t.topic=sea", "t.topic=sky")),
        ([{"v": 2}, {"v": 3, "w": "a"}], "auto", ("v:2.0", "v:3.0, w=a")),
        ([{"i": {"id": "x"}, "k": "one"}, {"i": {"id": "x"}, "k": "two"}], "k", ("one", "two")),
        ([{}, {}], "position", (1, 2)),
    ],
)
def test_what_tells_an_action(actions, action_id, names):
    taken = event(c=multi(*actions), a=[2, 1], p=[0.5, 0.5])
    log, _ = read(taken, action_id=action_id)
    assert log.action_names == names
    assert log.support.distribution().tolist() == [[0.5, 0.5]]


def test_context_ids():
    log, _ = read(event(ContextId="u1"), event(ContextId="u1"))
    assert log.context_ids.tolist() == ["u1", "u1"]
    log, _ = read(event(), event(EventId="e2"), context_id="EventId")
    assert log.context_ids.tolist() == ["e1", "e2"]
    inside = event(c=multi({"id": "A"}, {"id": "B"}, {"id": "C"}, user={"id": 5}))
    assert read(inside, context_id="c.user.id")[0].context_ids.tolist() == [5]
    assert read(event(), context_id="EventId.user")[0].context_ids is None
    with pytest.raises(LogError, match="row 1: no context id, but there is one at row 0"):
        read(event(ContextId="u1"), event())
    with pytest.raises(LogError, match=r"row 0: context id 1\.5"):
        read(event(ContextId=1.5))


def test_names_that_the_format_hides_are_replaced(tmp_path):
    log = Log.from_arrays([[1.0, 2.0]], [1], [1.0], propensities=[1.0], feature_names=["_age", "b"])
    notes = FORMATS["dsjson"].write(log, tmp_path / "log.dsjson")
    assert any("x_0, x_1, … because '_age'" in note for note in notes)
    assert FORMATS["dsjson"].read(tmp_path / "log.dsjson")[0].contexts.tolist() == [[1.0, 2.0]]
