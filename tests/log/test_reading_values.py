"""Reading numbers and labels, and what is said of those that do not fit."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from each import for_each
from reference.tables import ROWS, with_columns, write_csv, write_file
from sparing.errors import LogError
from sparing.log import passes, read_log


@pytest.mark.parametrize("role", ["x_1", "reward", "propensity"])
def test_text_in_a_number_column_is_named_with_its_row_and_value(monkeypatch, tmp_path, ending, role):
    monkeypatch.setattr(passes, "BATCH_ROWS", 2)
    path = write_file(tmp_path / f"log.{ending}", with_columns(**{role: ["0.5", "1", "tall"]}))
    with pytest.raises(LogError, match=f"{role} at row 2 is 'tall', not a number"):
        read_log(path)


@pytest.mark.parametrize("value", ["x", "1,", "0x10", "1 2", "NA", "--1", "1e"])
def test_what_is_no_number(value):
    with pytest.raises(LogError, match=f"reward at row 1 is '{value}', not a number"):
        read_log(with_columns(reward=["+1", value, "3"]))


@pytest.mark.parametrize(("text", "number"), [("+1", 1.0), (" 2 ", 2.0), ("1e3", 1e3), ("-.5", -0.5)])
def test_what_is_a_number(tmp_path, text, number):
    rows = with_columns(reward=["0", text, "3"])
    assert read_log(rows).rewards.tolist() == [0.0, number, 3.0]
    assert read_log(write_csv(tmp_path / "log.csv", rows)).rewards.tolist() == [0.0, number, 3.0]


@pytest.mark.parametrize(
    "values",
    [
        [datetime.date(2024, 1, 1)] * 3,
        [{"a": 1}] * 3,
        [[1.0]] * 3,
    ],
)
def test_columns_that_hold_no_numbers(values):
    with pytest.raises(LogError, match=r"reward at row 0 is .*, not a number"):
        read_log(with_columns(reward=values))


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 0, 1], pa.int8()),
        pa.array([True, False, True]),
        pa.array([1, 0, 1], pa.decimal128(5, 2)),
        pa.array(["1", "0", "1"]).dictionary_encode(),
        pa.array([1, 0, 1], pa.uint64()),
        pa.array([1.0, 0.0, 1.0], pa.float16()),
    ],
    ids=str,
)
def test_numbers_of_every_type(values):
    assert read_log(with_columns(reward=values)).rewards.tolist() == [1.0, 0.0, 1.0]


def test_integers_beyond_53_bits_are_rounded_not_refused():
    assert read_log(with_columns(reward=[2**53 + 1, 0, 1])).rewards[0] == 2.0**53


@for_each(
    ("role", "message"),
    [
        ("x_0", "context feature 0 at row 1 is nan"),
        ("reward", "reward at row 1 is nan"),
        ("propensity", "propensity at row 1 is nan"),
        ("action", "the action at row 1 is missing"),
        ("context_id", "context_id at row 1 is missing"),
    ],
)
@pytest.mark.parametrize("rows_at_a_time", [1, 100])
def test_missing_values_are_named_with_their_row(
    monkeypatch, tmp_path, ending, role, message, rows_at_a_time
):
    monkeypatch.setattr(passes, "BATCH_ROWS", rows_at_a_time)
    values = [ROWS[role][0], None, ROWS[role][2]]
    path = write_file(tmp_path / f"log.{ending}", with_columns(**{role: values}))
    with pytest.raises(LogError, match=message):
        read_log(path)


def test_a_number_that_is_none_is_no_label():
    with pytest.raises(LogError, match="the action at row 1 is missing"):
        read_log(with_columns(action=[0.5, float("nan"), 0.5], eligible=None))
    with pytest.raises(LogError, match="the action at row 1 is missing"):
        read_log(with_columns(action=pa.array([0.5, float("nan"), 0.5]), eligible=None), actions=[0.5])


def test_a_column_of_nothing():
    with pytest.raises(LogError, match="no rows with an action"):
        read_log(with_columns(action=pa.nulls(3), eligible=None))


def test_unknown_actions_are_named_with_their_row(monkeypatch, tmp_path, ending):
    monkeypatch.setattr(passes, "BATCH_ROWS", 2)
    path = write_file(tmp_path / f"log.{ending}", with_columns(action=["b", "b", "z"], eligible=None))
    with pytest.raises(LogError, match="unknown action 'z' at row 2; known are 'a', 'b'"):
        read_log(path, actions=["a", "b"])


@pytest.mark.parametrize("labels", [[[1], [2], [1]], [{"a": 1}] * 3])
def test_nested_labels_are_refused(labels):
    with pytest.raises(LogError, match=r"action holds .*; expected action labels that are text or numbers"):
        read_log(with_columns(action=labels, eligible=None))
    with pytest.raises(LogError, match=r"action holds .*; expected action labels that are text or numbers"):
        read_log(with_columns(action=labels, eligible=None), actions=[1, 2])


@pytest.mark.filterwarnings("ignore::sparing.errors.LogWarning")
@pytest.mark.parametrize(("kind", "far"), [("int8", 100), ("int16", 20_000), ("int32", 20_000)])
def test_labels_in_narrow_whole_numbers_are_themselves(kind, far):
    """Differences of labels need more room than the labels."""
    given = np.arange(-far, far + 1, dtype=kind)
    log = read_log({"x_0": np.zeros(len(given)), "action": pa.array(given), "reward": np.zeros(len(given))})
    assert np.array_equal(np.array(log.action_names)[log.actions], given)


def test_an_action_that_the_column_could_not_hold():
    table = {"x_0": [0.0, 1.0], "action": pa.array([1, 2], pa.int8()), "reward": [0.0, 1.0]}
    log = read_log(table, actions=[-1000, 1, 2])
    assert log.actions.tolist() == [1, 2]
