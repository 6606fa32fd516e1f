"""Reading a log from any table: which columns play which role."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from each import for_each
from reference.tables import MASK, ROWS, assert_rows, with_columns, write_file
from sparing.errors import LogError
from sparing.log import Log, passes, read_log, write_log


@pytest.mark.parametrize(
    "source",
    [
        pa.table(ROWS),
        pd.DataFrame(ROWS),
        pd.DataFrame({**ROWS, "action": pd.Categorical(ROWS["action"], categories=["z", "b", "a"])}),
        pd.DataFrame(ROWS, index=[5, 1, 3]),
        pl.DataFrame(ROWS),
        pl.DataFrame(ROWS, schema_overrides={"action": pl.Categorical, "x_1": pl.UInt8}),
        pa.RecordBatchReader.from_batches(pa.table(ROWS).schema, pa.table(ROWS).to_batches()),
        pa.concat_tables([pa.table(ROWS).slice(0, 0), pa.table(ROWS).slice(0, 1), pa.table(ROWS).slice(1)]),
        ROWS,
        {**ROWS, "action": np.array(ROWS["action"]), "reward": np.array(ROWS["reward"], dtype=np.float32)},
    ],
    ids=[
        *("arrow", "pandas", "pandas categories", "pandas index", "polars", "polars categories"),
        *("stream", "chunks", "mapping", "arrays"),
    ],
)
def test_any_table_in_memory(source):
    assert_rows(read_log(source))


def test_any_file(tmp_path, ending):
    path = write_file(tmp_path / f"log.{ending}", ROWS)
    assert_rows(read_log(path))
    assert_rows(read_log(str(path)))


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.string_view()])
def test_text_of_every_layout(text):
    whole = pa.table(
        with_columns(
            action=pa.array(["2", "1", "2"], text),
            eligible=None,
            **{"p_1": [0.5, 1.0, 0.0], "p_2": [0.5, 0.0, 1.0], "propensity": [0.5, 1.0, 1.0]},
        )
    )
    log = read_log(whole)
    assert log.action_names == ("1", "2")
    assert log.actions.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    "made",
    [
        lambda values: np.array(values),
        lambda values: pa.array(values, pa.list_(pa.float64())),
        lambda values: pa.array(values, pa.large_list(pa.float32())),
        lambda values: pa.array(values, pa.list_(pa.float64(), 2)),
        lambda values: pa.array(values, pa.list_view(pa.int64())),
        lambda values: [list(map(str, row)) for row in values],
    ],
    ids=["matrix", "lists", "large lists", "fixed size", "views", "texts"],
)
@for_each("name", ["x", "context", "contexts", "features"])
def test_contexts_in_one_list_column(monkeypatch, name, made):
    monkeypatch.setattr(passes, "BATCH_ROWS", 2)
    values = [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]
    rows = {name: made(values), "action": list("ababa"), "reward": [0.0] * 5}
    log = read_log(rows, contexts="features" if name == "features" else None, features="raw")
    np.testing.assert_array_equal(log.contexts, values)
    assert log.feature_names == ("x_0", "x_1")


def test_list_columns_in_files(tmp_path):
    rows = {"context": [[1.0, 2.0], [3.0, 4.0]], "action": ["a", "b"], "reward": [0.0, 1.0]}
    for name in ("log.parquet", "log.arrow"):
        log = read_log(write_file(tmp_path / name, rows))
        np.testing.assert_array_equal(log.contexts, rows["context"])


@for_each(
    ("contexts", "message"),
    [
        ([[1.0, 2.0], [3.0], [4.0, 5.0]], "context at row 1 has length 1; the rows before it have 2"),
        ([[1.0, 2.0], None, [4.0, 5.0]], "context at row 1 is missing"),
        (pa.array([[1.0, 2.0], None, [4.0, 5.0]], pa.list_(pa.float64(), 2)), "context at row 1 is missing"),
        ([[1.0, 2.0], [3.0, None], [4.0, 5.0]], "context feature 1 at row 1 is nan"),
        ([["1", "2"], ["3", "x"], ["4", "5"]], "context at row 1 is 'x', not a number"),
        ([[], [], []], r"context at row 0 is an empty list"),
    ],
)
@pytest.mark.parametrize("rows_at_a_time", [1, 2, 100])
def test_lists_that_are_no_contexts(monkeypatch, rows_at_a_time, contexts, message):
    monkeypatch.setattr(passes, "BATCH_ROWS", rows_at_a_time)
    if rows_at_a_time < 100 and "length" in message:
        message += "|different lengths"
    with pytest.raises(LogError, match=message):
        read_log({"context": contexts, "action": list("aba"), "reward": [0.0, 1.0, 2.0]})


def test_columns_of_any_name():
    renamed = {
        "age": ROWS["x_0"],
        "size": ROWS["x_1"],
        "shown": ROWS["action"],
        "clicked": ROWS["reward"],
        "chance": ROWS["propensity"],
        "slate": ROWS["eligible"],
        "visitor": ROWS["context_id"],
        "x_ignored": ["not", "a", "number"],
        "p_ignored": [7, 8, 9],
    }
    log = read_log(
        renamed,
        contexts=["age", "size"],
        action="shown",
        reward="clicked",
        propensity="chance",
        eligible="slate",
        context_id="visitor",
        features="raw",
    )
    assert log.feature_names == ("age", "size")
    np.testing.assert_array_equal(log.support.mask(), MASK)
    np.testing.assert_array_equal(log.contexts, np.column_stack([ROWS["x_0"], ROWS["x_1"]]))
    np.testing.assert_array_equal(log.propensities, ROWS["propensity"])
    assert log.context_ids.tolist() == ROWS["context_id"]


def test_named_features_keep_their_names():
    log = read_log({"x_age": [1.0], "x_size": [2.0], "action": ["a"], "reward": [0.0]})
    assert log.feature_names == ("age", "size")
    assert read_log({"x_age": [1.0], "action": ["a"], "reward": [0.0]}).feature_names == ("age",)


def test_some_features_of_a_written_log(tmp_path):
    log = Log.from_arrays([[1.0, 2.0, 3.0]], ["a"], [0.0], feature_names=["age", "size", "x_9"])
    write_log(log, tmp_path / "log.parquet")
    some = read_log(tmp_path / "log.parquet", contexts=["x_9", "x_age"])
    assert some.feature_names == ("x_9", "age")
    np.testing.assert_array_equal(some.contexts, [[3.0, 1.0]])


def test_other_roles_are_no_features_and_no_probabilities():
    log = read_log({"x_0": [1.0], "x_act": ["a"], "p_reward": [2.0]}, action="x_act", reward="p_reward")
    assert log.feature_names == ("x_0",)
    assert not log.support.known
    log = read_log({"p_age": [1.0], "action": ["a"], "reward": [2.0]}, contexts="p_age")
    assert not log.support.known


@pytest.mark.parametrize("left_out", ["propensity", "eligible", "context_id"])
def test_optional_columns_may_be_left_out(left_out):
    for log in (read_log(with_columns(**{left_out: None})), read_log(ROWS, **{left_out: None})):
        assert (log.propensities is None) == (left_out == "propensity")
        assert log.support.known == (left_out != "eligible")
        assert (log.context_ids is None) == (left_out == "context_id")


@pytest.mark.parametrize("role", ["action", "reward"])
def test_a_missing_column_is_named_with_what_is_there(tmp_path, ending, role):
    path = write_file(tmp_path / f"log.{ending}", with_columns(**{role: None}))
    there = ", ".join(repr(name) for name in ROWS if name != role)
    message = f"log.{ending} has no {role} column {role!r}; it has {there}. Pass {role}=NAME"
    with pytest.raises(LogError, match=re.escape(message)):
        read_log(path)


@for_each(
    ("options", "message"),
    [
        ({"action": "shown"}, "has no action column 'shown'; it has 'x_0', "),
        ({"reward": "clicked"}, "has no reward column 'clicked'; it has 'x_0', "),
        ({"propensity": "chance"}, "has no propensity column 'chance'; it has 'x_0', "),
        ({"eligible": "slate"}, "has no eligible column 'slate'; it has 'x_0', "),
        ({"context_id": "visitor"}, "has no context id column 'visitor'; it has 'x_0', "),
        ({"distribution": "prob_"}, "has no columns that begin with 'prob_'; it has 'x_0', "),
        ({"contexts": ["x_0", "x_7"]}, r"has no context column 'x_7'; it has 'x_0', "),
        ({"contexts": []}, r"has no context column \(\); it has 'x_0', "),
    ],
)
def test_a_column_that_was_named_must_be_there(options, message):
    with pytest.raises(LogError, match=f"the table {message}"):
        read_log(ROWS, **options)


def test_contexts_as_they_are_must_be_there():
    with pytest.raises(LogError, match=r"no context columns x_0, x_1, … .* it has 'action', 'reward'\. Pass"):
        read_log({"action": ["a"], "reward": [1.0]}, features="raw")


def test_only_the_first_of_many_columns_are_listed():
    many = {f"c{i}": [1.0] for i in range(500)}
    with pytest.raises(LogError, match=r"it has 'c0', .*'c11', …") as caught:
        read_log(many)
    assert "c12" not in str(caught.value)


def test_two_columns_of_one_name(tmp_path):
    doubled = pa.table([pa.array([1.0])] * 4, names=["x_0", "action", "reward", "reward"])
    with pytest.raises(LogError, match="has two columns 'reward'"):
        read_log(doubled)
    (tmp_path / "log.csv").write_text("x_0,action,reward,x_0\n1,a,0,2\n")
    with pytest.raises(LogError, match="has two columns 'x_0'"):
        read_log(tmp_path / "log.csv")


@pytest.mark.parametrize(
    "source",
    [
        with_columns(action=["a", 1, "b"]),
        with_columns(reward=[1.0]),
        pd.DataFrame({**ROWS, "action": ["a", 1, "b"]}),
        pa.chunked_array([[1, 2]]),
    ],
)
def test_what_makes_no_table(source):
    with pytest.raises(LogError, match="does not make a table"):
        read_log(source)


@for_each("source", [None, 5, [ROWS], np.ones((3, 2)), pa.array([1, 2]), object()])
def test_what_is_no_table(source):
    with pytest.raises(LogError, match=r"cannot read a log from .*; expected a path"):
        read_log(source)


def test_column_names_do_not_fit_another_tool(tmp_path):
    (tmp_path / "log.vw").write_text("1:-1:0.5 | a:1\n2:0:0.5 | a:2\n")
    with pytest.raises(LogError, match="names its own columns"):
        read_log(tmp_path / "log.vw", reward="r")
    assert read_log(tmp_path / "log.vw", actions=["x", "y"]).action_names == ("x", "y")


@pytest.mark.parametrize("rows", [1, 5, 6, 23])
def test_columns_become_rows_piece_by_piece(rows, monkeypatch):
    """Pieces of a few rows, the last one shorter: every number stands where it stood."""
    monkeypatch.setattr("sparing.log.arrays.CELLS_PER_TILE", 10)
    contexts = np.random.default_rng(rows).normal(size=(rows, 2))
    table = {"x_0": contexts[:, 0], "x_1": contexts[:, 1], "action": ["a"] * rows, "reward": [0.0] * rows}
    assert np.array_equal(read_log(table, features="raw").contexts, contexts)
