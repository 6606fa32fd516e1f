"""dsjson that does not fit is refused, with its place."""

import json

import pytest
from dsjson_events import event, multi

from each import for_each
from sparing.errors import LogError
from sparing.log.formats import FORMATS


def read(*events, **options):
    return FORMATS["dsjson"].read(list(events), **options)


@for_each(
    ("fields", "message"),
    [
        ({"a": [0, 1, 3], "_label_Action": ...}, "a is numbered from 0 at row 0 .* but from 1 at row 0"),
        ({"a": [2, 1, 4], "p": [0.5, 0.25, 0.25]}, "row 0: a names action 4; expected 1 to 3"),
        ({"a": [2, 2, 1]}, "row 0: a names an action twice"),
        ({"a": "2"}, "row 0: a is '2'"),
        ({"a": [2.0]}, r"row 0: a is \[2.0\]"),
        ({"p": [0.5, 0.5]}, "row 0: p does not fit a"),
        ({"p": [0.5, 0.25, "x"]}, "row 0: a probability in p is 'x'"),
        ({"p": [0.5, 0.25, 0.125]}, "row 0: the distribution sums to 0.875"),
        ({"p": [0.5, 1.5, -1.0]}, "row 0: the distribution has the probability 1.5"),
        ({"_label_probability": 0.25}, "row 0: the logged action's probability 0.25 contradicts .* 0.5"),
        ({"_label_probability": 0, "p": ...}, r"row 0: .* is 0.0; must be in \(0, 1\]"),
        ({"p": [0.0, 0.5, 0.5], "_label_probability": ...}, r"row 0: .* is 0.0; must be in \(0, 1\]"),
        ({"_label_cost": "free"}, "row 0: the label's cost is 'free'"),
        ({"_label_cost": True}, "row 0: the label's cost is True"),
        ({"_label_Action": 3}, "row 0: .*_labelIndex 1 .* _label_Action 3 .* do not name one of the 3"),
        (
            {"_labelIndex": 7, "_label_Action": ...},
            "row 0: .*_labelIndex 7 .* do not name one of the 3 actions",
        ),
        ({"_labelIndex": "1"}, "row 0: _labelIndex is '1'"),
        (
            {"_label_Action": 9, "_labelIndex": ...},
            "row 0: .*_label_Action 9 .* do not name one of the 3 actions",
        ),
        ({"a": ..., "_label_Action": ..., "_labelIndex": ...}, "row 0: the label names no action"),
        ({"c": {"user": {}}}, "row 0: no list of actions"),
        ({"c": 3}, "row 0: no list of actions"),
        ({"c": multi("A", "B")}, "row 0: action 1 of _multi is 'A'"),
        ({"c": multi({"id": "A"}, {"id": "B"}, {"x": 1})}, "row 0: action 3 has None in the field 'id'"),
        ({"c": multi({"v": 1}, {}, {"v": 2})}, "row 0: action 2 has no features to identify it"),
        ({"_outcomes": []}, "row 0: several decisions in one event"),
        ({"pdrop": "x"}, "row 0: pdrop is 'x'"),
    ],
)
def test_bad_events_are_named(fields, message):
    with pytest.raises(LogError, match=message):
        read(event(**fields))


def test_a_field_of_two_kinds():
    actions = event()["c"]["_multi"]
    text = event(c=multi(*actions, user={"age": "old"}))
    with pytest.raises(
        LogError, match=r"row 1: feature 'user\.age' is 'old', a category, but it is a number at row 0"
    ):
        read(event(), text)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"_label_cost":-1.0,"_label_prob', "line 2 is not whole JSON"),
        ('{"_label_cost":NaN}', "line 2 is not whole JSON .NaN is not a number"),
        ('{"c":' * 600 + "1" + "}" * 600, "line 2 is not whole JSON .nested more than 100 deep"),
        ('{"c":' * 100_000, "line 2 is not whole JSON .nested more than 100 deep"),
        ('{"c":"\\ud800"}', "line 2 is not whole JSON .half of a surrogate pair"),
    ],
)
def test_bad_lines_are_named(line, message, tmp_path):
    path = tmp_path / "log.dsjson"
    path.write_text(json.dumps(event()) + "\n" + line + "\n")
    with pytest.raises(LogError, match=message):
        FORMATS["dsjson"].read(path)


def test_numbers_too_large_are_refused(tmp_path):
    path = tmp_path / "log.dsjson"
    for number in ("1e999", "1" + "0" * 400):
        path.write_text(json.dumps(event()).replace("31", number))
        with pytest.raises(LogError, match=r"line 1: feature .user\.age. is .*finite number"):
            FORMATS["dsjson"].read(path)


def test_no_events(tmp_path):
    (tmp_path / "log.dsjson").write_text("")
    with pytest.raises(LogError, match="no labelled event"):
        FORMATS["dsjson"].read(tmp_path / "log.dsjson")
    with pytest.raises(LogError, match="cannot read int"):
        FORMATS["dsjson"].read(3)
