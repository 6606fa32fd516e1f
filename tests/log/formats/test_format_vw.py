"""Vowpal Wabbit's text, read: --cb lines and --cb_adf blocks."""

import numpy as np
import pytest

from each import for_each
from sparing.errors import LogError
from sparing.log import Log
from sparing.log.formats import FORMATS
from sparing.log.formats.vw_text import escape, split, unescape


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "log.vw"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def test_a_line_by_hand(file):
    log, notes = FORMATS["vw"].read(file("2:-1.5:0.25 | age:31 height:1.7\n1:0.5:1 | height:2\n"))
    assert log.feature_names == ("age", "height")
    assert log.contexts.tolist() == [[31.0, 1.7], [0.0, 2.0]]
    assert log.action_names == (1, 2)
    assert log.actions.tolist() == [1, 0]
    assert log.rewards.tolist() == [1.5, -0.5]
    assert log.propensities.tolist() == [0.25, 1.0]
    assert log.support.kind == "unknown"
    assert any("constant" in note for note in notes)


def test_namespaces_weights_plain_features_and_repeats(file):
    log, _ = FORMATS["vw"].read(file("1:0:0.5 'tag |geo:2 lat:3 |user vip vip age:4 | x\n"))
    assert dict(zip(log.feature_names, log.contexts[0], strict=True)) == {
        "geo^lat": 6.0,
        "user^vip": 2.0,
        "user^age": 4.0,
        "x": 1.0,
    }


def test_unlabelled_lines_are_skipped_and_counted(file):
    log, notes = FORMATS["vw"].read(file("| a\n\n1:1:0.5 | a\n2:1:0.5 | b\n3 | a\n'only |b\n"))
    assert log.n_rows == 2
    assert any("3 unlabelled lines" in note for note in notes)


def test_actions_name_the_numbers(file):
    log, _ = FORMATS["vw"].read(file("2:0:0.5 | a\n"), actions=["red", "green", "blue"])
    assert log.action_names == ("red", "green", "blue")
    assert log.actions.tolist() == [1]


def test_listed_actions_are_the_ones_that_were_available(file):
    log, notes = FORMATS["vw"].read(file("1 2:0:0.5 | a\n3:1:0.5 | a\n"))
    assert log.support.mask().tolist() == [[True, True, False], [True, True, True]]
    assert any("taken to have had all" in note for note in notes)


def test_features_fix_the_columns(file):
    log, notes = FORMATS["vw"].read(file("1:0:0.5 | a:1 b:2\n"), features=["b", "c"])
    assert log.feature_names == ("b", "c")
    assert log.contexts.tolist() == [[2.0, 0.0]]
    assert any("1 features of the file" in note for note in notes)


def test_no_features_become_a_constant(file):
    log, notes = FORMATS["vw"].read(file("1:0:0.5 |\n2:1:0.5 |\n"))
    assert log.feature_names == ("constant",)
    assert log.contexts.tolist() == [[1.0], [1.0]]
    assert any("constant" in note and "stands for it" in note for note in notes)


def test_a_byte_order_mark_and_other_line_ends(file):
    log, _ = FORMATS["vw"].read(file(b"\xef\xbb\xbf1:0:0.5 | a:2\r\n1:1:0.5 | a:3"))
    assert log.contexts.tolist() == [[2.0], [3.0]]


@for_each(
    ("text", "message"),
    [
        ("1:0:0.5 | a\n1:0:0.5\n", "line 2: no bar"),
        ("1:0:0.5| a\n", "line 1: no blank between the label"),
        ("1:0:0.5 | a\n0:0:0.5 | a\n", "line 2: action 0; Vowpal Wabbit numbers actions from 1"),
        ("1:nan:0.5 | a\n", "line 1: the cost is 'nan'"),
        ("1:0:0 | a\n", r"line 1: the probability of the logged action is 0.0; must be in \(0, 1\]"),
        ("1:0:1.5 | a\n", r"must be in \(0, 1\]"),
        ("1:0:x | a\n", "line 1: the probability is 'x'"),
        ("1:0:0.5 | a:inf\n", "line 1: feature 'a' is 'inf'"),
        ("1:0:0.5 | a:\n", "line 1: feature 'a' is ''"),
        ("1:0:0.5 | a:1_0\n", "line 1: feature 'a' is '1_0'"),
        ("1:0:0.5 | :x\n", "line 1: feature '0' is 'x'"),
        ("1:0:0.5 |n:x a\n", "weight of namespace 'n'"),
        ("1.5:0:0.5 | a\n", "line 1: label '1.5:0:0.5'"),
        ("1:0:0.5:2 | a\n", "line 1: label"),
        ("1:0:0.5 2:1:0.5 | a\n", "line 1: 2 labels with a cost"),
        (
            "1:0:0.5 | a\n1:0 | a\n",
            "line 2: no probability of the logged action, but there is one at .*line 1",
        ),
        ("shared | a\n0:0:0.5 | b\n", "--cb_adf"),
        ("| a\n", "no labelled event"),
        ("", "no labelled event"),
        (b"1:0:0.5 | a\n1:0:0.5 | \xff\n", "line 2: byte 10 is not UTF-8"),
    ],
)
def test_bad_lines_are_named(text, message, file):
    with pytest.raises(LogError, match=message):
        FORMATS["vw"].read(file(text))


def test_an_action_beyond_the_named_ones(file):
    with pytest.raises(LogError, match="line 1: unknown action 3"):
        FORMATS["vw"].read(file("3:0:0.5 | a\n"), actions=["x", "y"])


def test_other_mistakes(file, tmp_path):
    path = file("1:0:0.5 'u|a b\n1:0:0.5 |a b\n")
    with pytest.raises(LogError, match="does not exist"):
        FORMATS["vw"].read(tmp_path / "none.vw")
    with pytest.raises(LogError, match="can only be 'tag'"):
        FORMATS["vw"].read(path, context_id="user")
    with pytest.raises(LogError, match="line 2: no context id"):
        FORMATS["vw"].read(path, context_id="tag")
    with pytest.raises(LogError, match="twice"):
        FORMATS["vw"].read(path, features=["b", "b"])
    with pytest.raises(LogError, match="more than 1 features; 'c' alone has 2"):
        FORMATS["vw"].read(file("1:0:0.5 | c=1 c=2\n"), max_features=1)


@pytest.mark.parametrize("text", ["a b", "a:b|c", "100%", "%3A", "%253A", "tab\tend\r\n", "plain", ""])
def test_escapes_undo_each_other(text):
    written = escape(text)
    assert unescape(written) == text
    assert not set(written) & set(" \t\r\n:|")


def test_white_space_beyond_blanks_is_part_of_a_name():
    line = split("1:0:0.5 | a\u00a0b:1 c\x1fd", "here")
    assert line.features() == {"a\u00a0b": 1.0, "c\x1fd": 1.0}


def test_a_row_with_a_single_available_action_cannot_be_told(tmp_path):
    log = Log.from_arrays([[1.0], [2.0]], [1, 2], [0.0, 1.0], propensities=[1.0, 0.5], eligible=[[1], [1, 2]])
    notes = FORMATS["vw"].write(log, tmp_path / "log.vw")
    assert any("single action" in note for note in notes)
    back, _ = FORMATS["vw"].read(tmp_path / "log.vw")
    assert back.support.kind == "unknown"


BLOCKS = """shared |user age:3
|action red
0:-1:0.25 |action blue

shared |user age:4 vip
0:0.5:0.5 |action red
|action green

"""


def test_blocks_by_hand(file):
    log, notes = FORMATS["vw-adf"].read(file(BLOCKS))
    assert log.feature_names == ("user^age", "user^vip")
    assert log.contexts.tolist() == [[3.0, 0.0], [4.0, 1.0]]
    assert log.action_names == ("blue", "green", "red")
    assert [log.action_names[a] for a in log.actions] == ["blue", "red"]
    assert log.rewards.tolist() == [1.0, -0.5]
    assert log.propensities.tolist() == [0.25, 0.5]
    assert log.support.kind == "exact"
    assert log.support.mask().tolist() == [[True, False, True], [False, True, True]]
    assert not any("names only" in note for note in notes)


def test_actions_with_features_are_told_by_their_lines(file):
    log, notes = FORMATS["vw-adf"].read(file("0:1:0.5 | a:1 b:0.5\n| a:2\n\n| a:1  b:0.5\n0:0:0.5 | a:2\n"))
    assert log.action_names == ("| a:1 b:0.5", "| a:2")
    assert log.feature_names == ("constant",)
    assert any("names only" in note for note in notes)


def test_actions_by_an_id_or_by_position(file):
    path = file(
        "shared | s\n0:1:0.5 |i id=7 price:3\n|i id=8\n\nshared | s\n0:1:0.5 |i id=7 price:4\n|i id=8\n"
    )
    log, notes = FORMATS["vw-adf"].read(path, action_id="id")
    assert log.action_names == (7, 8)
    assert any("names only" in note for note in notes)
    assert FORMATS["vw-adf"].read(path, action_id="position")[0].action_names == (1, 2)
    assert FORMATS["vw-adf"].read(path)[0].n_actions == 3
    with pytest.raises(LogError, match="line 2: no feature sku=… to identify the action"):
        FORMATS["vw-adf"].read(path, action_id="sku")


def test_tags_are_context_ids_where_asked_for(file):
    path = file("shared 'u%201 | s\n0:1:1 | a\n\n\n\nshared 'u2| s\n0:1:1 | a\n")
    log, notes = FORMATS["vw-adf"].read(path)
    assert log.context_ids is None
    assert any("The tags of 2 events were left out" in note for note in notes)
    assert FORMATS["vw-adf"].read(path, context_id="tag")[0].context_ids.tolist() == ["u 1", "u2"]


def test_unlabelled_blocks_are_skipped_and_counted(file):
    log, notes = FORMATS["vw-adf"].read(file("shared | s\n| a\n| b\n\n" + BLOCKS))
    assert log.n_rows == 2
    assert any("1 events without a label" in note for note in notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shared | s\n0:1:0.5 | a\nshared | s\n", "line 3: a shared line inside an event"),
        ("shared | s\n\n", "line 1: a shared line without a line for any action"),
        ("shared | s\n0:1:0.5 | a\n0:1:0.5 | b\n", "line 3: a second label in one event"),
        ("shared | s\n0:1:0.5 | a\n| a\n", "line 2: the logged action .* is available twice"),
        ("shared | s\n0:1:2 | a\n| b\n", r"line 2: .* must be in \(0, 1\]"),
        ("shared | s:x\n0:1:1 | a\n", "line 1: feature 's' is 'x'"),
        ("shared | s\nx | a\n", "line 2: label 'x'"),
        ("shared | s\n| a\n", "no labelled event"),
    ],
)
def test_bad_blocks_are_named(text, message, file):
    with pytest.raises(LogError, match=message):
        FORMATS["vw-adf"].read(file(text))


def test_an_action_beyond_the_last_logged_one_is_noted(tmp_path):
    log = Log.from_arrays([[1.0]], [1], [1.0], propensities=[1.0], action_names=[1, 2])
    assert any("last action" in note for note in FORMATS["vw"].write(log, tmp_path / "log.vw"))
    assert FORMATS["vw"].read(tmp_path / "log.vw", actions=[1, 2])[0].n_actions == 2


def test_labels_that_are_not_text_are_noted(tmp_path):
    log = Log.from_arrays([[1.0]], ["1"], [1.0], distribution=[[1.0, 0.0]], action_names=["1", "2"])
    notes = FORMATS["vw-adf"].write(log, tmp_path / "log.adf")
    assert any("'1' reads back as 1" in note for note in notes)
    back, _ = FORMATS["vw-adf"].read(tmp_path / "log.adf", actions=["1", "2"])
    assert back.action_names == ("1", "2")
    tuples = Log.from_arrays(
        np.ones((1, 1)), [("a", 1)], [1.0], propensities=[1.0], action_names=[("a", 1), ("b", 2)]
    )
    FORMATS["vw-adf"].write(tuples, tmp_path / "log.adf")
    back, _ = FORMATS["vw-adf"].read(tmp_path / "log.adf", actions=tuples.action_names)
    assert back.action_names == tuples.action_names
