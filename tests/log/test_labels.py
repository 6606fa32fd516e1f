"""Action labels: what may be one, and what survives a file."""

import itertools
import json

import numpy as np
import pytest

from sparing.errors import LogError
from sparing.log import labels

EVERY_KIND = ["a", "", 'é, "q"\n', 0, -3, 2**70, 0.5, 1e300, True, ("a", 1), (1, (2.5, "b")), ()]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.int64(3), 3),
        (np.str_("a"), "a"),
        (np.float64(0.5), 0.5),
        (np.bool_(True), True),
        (["a", np.int8(1)], ("a", 1)),
        (("a", (np.int64(1), [2])), ("a", (1, (2,)))),
    ],
)
def test_plain_takes_numpy_off(given, expected):
    def kinds(value):
        return tuple(map(kinds, value)) if isinstance(value, tuple) else type(value)

    assert labels.normalize_label(given) == expected
    assert kinds(labels.normalize_label(given)) == kinds(expected)


@pytest.mark.parametrize("label", [{"a": 1}, {1, 2}, np.array([1, 2]), ("a", {})])
def test_unhashable_labels_are_refused(label):
    with pytest.raises(LogError, match="not hashable"):
        labels.normalize_label(label)


class Undecided:
    """A value like pandas' NA, which has no answer to whether it equals itself."""

    __hash__ = object.__hash__

    def __ne__(self, other):
        raise TypeError


@pytest.mark.parametrize(
    "label", [None, float("nan"), np.float32("nan"), np.datetime64("NaT"), ("a", None), Undecided()]
)
def test_missing_labels_are_refused(label):
    with pytest.raises(LogError, match="missing"):
        labels.normalize_label(label)


@pytest.mark.parametrize("twice", [["a", "b", "a"], [1, True], [0, 0.0], [1, np.int64(1)], [(1,), [1.0]]])
def test_equal_labels_are_one_label(twice):
    with pytest.raises(LogError, match="given twice"):
        labels.action_names(twice)


def test_no_labels_are_no_actions():
    with pytest.raises(LogError, match="at least one"):
        labels.action_names([])


def test_order_is_sorted_where_labels_compare():
    assert labels.in_order([10, 9, np.int64(10), 2.5]) == (2.5, 9, 10)
    assert labels.in_order(["b", "a", "B"]) == ("B", "a", "b")


def test_order_of_mixed_labels_does_not_depend_on_the_order_given():
    mixed = ["b", 2, (1, "x"), "a", 1, 0.5]
    orders = {labels.in_order(order) for order in itertools.permutations(mixed)}
    assert len(orders) == 1
    assert set(orders.pop()) == set(mixed)


@pytest.mark.parametrize(
    "values",
    [
        np.array([3, 1, 3, 2]),
        np.array([0.5, 0.25, 0.5]),
        np.array(["b", "a", "b"]),
        np.array([True, False]),
        np.array(["b", 1, "b", (1, 2)], dtype=object),
        ["b", 1, ("x", 1), 1, "b"],
        [["x", 1], ["y"], ["x", 1]],
        [],
    ],
)
def test_encoded_labels_decode_to_themselves(values):
    distinct, codes = labels.encode(values)
    assert [labels.normalize_label(distinct[code]) for code in codes] == [
        labels.normalize_label(value) for value in values
    ]
    assert len(set(distinct)) == len(distinct)


def test_positions_look_labels_up():
    index = {"a": 0, 1: 1, (1, 2): 2}
    found = labels.positions(*labels.encode([[1, 2], True, "a", 1.0]), index)
    assert found.tolist() == [2, 1, 0, 1]
    assert labels.positions([], np.empty(0, dtype=int), index).tolist() == []


def test_the_first_unknown_label_is_named_with_its_row():
    distinct, codes = labels.encode(["b", "a", "z", "y", "z"])
    with pytest.raises(LogError, match=r"unknown action 'z' at row 2; known are 'a', 'b'\."):
        labels.positions(distinct, codes, {"a": 0, "b": 1})
    with pytest.raises(LogError, match="unknown eligible action 'z' at row 40"):
        labels.positions(
            distinct, codes, {"a": 0, "b": 1}, what="eligible action", rows=np.array([10, 20, 40, 50, 60])
        )


@pytest.mark.parametrize("absent", [None, float("nan")])
def test_the_first_missing_label_is_named_with_its_row(absent):
    with pytest.raises(LogError, match="the action at row 1 is missing"):
        labels.positions(*labels.encode(["a", absent, "z"]), {"a": 0})


@pytest.mark.parametrize("label", EVERY_KIND)
def test_json_gives_an_equal_label_of_the_same_type_back(label):
    back = labels.from_json(json.loads(json.dumps(labels.to_json(label))))
    assert back == label
    assert type(back) is type(label)


@pytest.mark.parametrize("label", [b"bytes", frozenset("a"), 1j, ("a", b"b")])
def test_labels_that_no_file_can_hold_are_refused(label):
    with pytest.raises(LogError, match="cannot be written"):
        labels.to_json(label)


def test_texts_tell_labels_apart():
    index = labels.labels_by_text(EVERY_KIND)
    assert list(index.values()) == list(range(len(EVERY_KIND)))
    assert index["a"] == 0
    assert index["true"] == EVERY_KIND.index(True)


@pytest.mark.parametrize("alike", [["1", 1], [True, "true"], [0.5, "0.5"], [("a",), '{"tuple": ["a"]}']])
def test_labels_with_one_text_are_refused(alike):
    with pytest.raises(LogError, match="one in a text column"):
        labels.labels_by_text(alike)


def test_labels_that_differ_in_case_or_spaces_only():
    assert labels.near_duplicates(["red", "blue", "Red ", " RED", 1, "1", "red"]) == [
        "red",
        "Red ",
        "red",
        " RED",
    ]
    assert labels.near_duplicates(["a b", "ab", True, None]) == []
