"""Reading the support: probability columns, and columns of sets."""

import numpy as np
import pyarrow as pa
import pytest

from each import for_each
from reference.tables import MASK, ROWS, SHARES, assert_rows, with_columns, write_csv, write_file
from sparing.errors import LogError
from sparing.log import passes, read_log, tables


def test_distributions(tmp_path, ending):
    rows = with_columns(eligible=None, propensity=None, **SHARES)
    log = read_log(write_file(tmp_path / f"log.{ending}", rows))
    np.testing.assert_array_equal(log.support.distribution(), np.column_stack(list(SHARES.values())))
    np.testing.assert_array_equal(log.propensities, [0.5, 0.25, 1.0])
    assert log.action_names == ("a", "b", "c")


def test_propensities_outlive_distributions_that_are_too_many_to_keep(monkeypatch, tmp_path):
    monkeypatch.setattr("sparing.log.support.DENSE_LIMIT", 0)
    log = read_log(with_columns(eligible=None, propensity=None, **SHARES))
    assert log.support.distribution() is None
    np.testing.assert_array_equal(log.propensities, [0.5, 0.25, 1.0])
    np.testing.assert_array_equal(log.support.mask(), MASK)


def test_probability_columns_in_another_order_than_the_actions():
    log = read_log(with_columns(eligible=None, **SHARES), actions=["c", "a", "b"])
    np.testing.assert_array_equal(
        log.support.distribution(), np.column_stack([SHARES["p_c"], SHARES["p_a"], SHARES["p_b"]])
    )
    assert [log.action_names[i] for i in log.actions] == ROWS["action"]


@pytest.mark.parametrize(
    ("actions", "texts"),
    [
        ([2, 1, 2], ["1", "2", "3"]),
        ([2.0, 1.0, 2.0], ["1", "2", "3"]),
        ([0.5, -1.0, 0.5], ["-1.0", "0.5", "2.5"]),
        (["2", "1", "2"], ["1", "2", "3"]),
    ],
)
def test_probability_columns_are_named_after_labels_of_any_type(actions, texts):
    shares = {f"prob_{text}": values for text, values in zip(texts, SHARES.values(), strict=True)}
    log = read_log(with_columns(action=actions, eligible=None, **shares), distribution="prob_")
    assert [log.action_names[i] for i in log.actions] == actions
    np.testing.assert_array_equal(log.support.distribution(), np.column_stack(list(SHARES.values())))


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"p_a": None}, {"actions": list("abc")}, "2 probability columns for 3 actions; none for 'a'"),
        ({"p_a": None}, {}, "the distribution at row 0 sums to 0.5; it must sum to 1"),
        ({"p_c": None}, {}, "the distribution at row 1 sums to 0.25; it must sum to 1"),
        ({}, {"actions": list("ab")}, "3 probability columns for 2 actions"),
        ({"action": [1, 2, 1]}, {}, r"end in \['a', 'b', 'c'\], not in actions, which are int64"),
        ({"p_a": [0.5, "x", 0.0]}, {}, "p_a at row 1 is 'x', not a number"),
        ({"p_a": [0.5, None, 0.0]}, {}, "the distribution at row 1 has a negative or non-finite"),
        ({"propensity": [0.5, 0.3, 1.0]}, {}, "propensity 0.3 at row 1 contradicts the distribution's 0.25"),
    ],
)
def test_probability_columns_that_do_not_fit(changes, options, message):
    rows = with_columns(eligible=None, **{**SHARES, **changes})
    rows["p_a"] = [None if v is None else str(v) for v in rows["p_a"]] if "p_a" in rows else None
    with pytest.raises(LogError, match=message):
        read_log({name: values for name, values in rows.items() if values is not None}, **options)


def test_exact_goes_before_estimated_and_distributions_before_sets():
    everything = with_columns(**SHARES, estimated_eligible=[["a", "b", "c"]] * 3, estimated_p_a=[1.0] * 3)
    log = read_log(everything)
    assert log.support.kind == "exact"
    assert log.support.distribution() is not None
    assert read_log(everything, distribution=None).support.distribution() is None
    assert_rows(read_log(everything, distribution=None))
    estimated = {name: v for name, v in everything.items() if not name.startswith(("p_", "elig"))}
    log = read_log(estimated, distribution=None)
    assert log.support.kind == "estimated"
    assert log.support.mask().all()
    log = read_log(everything, distribution=None, eligible="estimated_eligible")
    assert log.support.kind == "estimated"


@pytest.mark.parametrize("rows_at_a_time", [1, 2, 100])
@pytest.mark.parametrize("cells", [1, 10**6])
def test_sets_agree_with_a_plain_loop(monkeypatch, tmp_path, ending, rows_at_a_time, cells):
    monkeypatch.setattr(passes, "BATCH_ROWS", rows_at_a_time)
    monkeypatch.setattr(tables, "CSV_BLOCK", 200 * rows_at_a_time)
    monkeypatch.setattr("sparing.log.passes.CELLS", cells)
    rng = np.random.default_rng(0)
    sets = [rng.choice(13, size=rng.integers(1, 9)).tolist() for _ in range(40)]
    rows = {"x_0": [0.0] * 40, "action": [s[0] for s in sets], "reward": [0.0] * 40, "eligible": sets}
    log = read_log(write_file(tmp_path / f"log.{ending}", rows), actions=range(13))
    expected = np.array([[a in s for a in range(13)] for s in sets])
    np.testing.assert_array_equal(log.support.mask(), expected)


@pytest.mark.parametrize("layout", [pa.list_, pa.large_list, pa.list_view])
def test_sets_of_every_layout(layout):
    sets = pa.array([["a", "b"], ["a", "c"], ["b"]], layout(pa.string()))
    assert_rows(read_log(pa.table(with_columns(eligible=sets)).slice(0)))
    dictionary = pa.array(["b", "c", "a"]).dictionary_encode()
    coded = pa.ListArray.from_arrays([0, 2, 4, 5], dictionary.take(pa.array([2, 0, 2, 1, 0])))
    assert_rows(read_log(pa.table(with_columns(eligible=coded))))


@for_each(
    ("eligible", "message"),
    [
        ([["a", "b"], None, ["b"]], "eligible at row 1 is missing"),
        ([["a", "b"], ["a", None], ["b"]], "the eligible action at row 1 is missing"),
        ([["a", "b"], [], ["b"]], "no supported action at row 1"),
        ([["a", "b"], ["b"], ["b"]], "action 'a' was logged at row 1 but is outside"),
        ([["a", "b"], ["b", "a", "z"], ["b"]], "unknown eligible action 'z' at row 1"),
        (["[]", "x", "[]"], r"eligible at row 1 is 'x'; expected a JSON list|no supported action at row 0"),
        ([1, 2, 3], "eligible is a column of int64; expected lists"),
    ],
)
@for_each("rows_at_a_time", [1, 100])
def test_sets_that_do_not_fit_are_named_with_their_row(monkeypatch, rows_at_a_time, eligible, message):
    monkeypatch.setattr(passes, "BATCH_ROWS", rows_at_a_time)
    with pytest.raises(LogError, match=message):
        read_log(with_columns(eligible=eligible), actions=["a", "b"])


@pytest.mark.parametrize("cell", ["x", "", "{}", '{"a": 1}', '"a"', "[", "3", '[{"b": 1}]', "null"])
def test_a_set_in_a_text_file_is_a_json_list(tmp_path, cell):
    path = write_csv(tmp_path / "log.csv", with_columns(eligible=[["a", "b"], ["a"], ["b"]]))
    quoted = '"' + cell.replace('"', '""') + '"'
    path.write_text(path.read_text().replace('"[""a""]"', quoted if cell else ""))
    with pytest.raises(LogError, match=r"eligible at row 1 is .*; expected a JSON list such as"):
        read_log(path)


@pytest.mark.parametrize("actions", [None, ["0.5", "1.5"], [0.5, 1.5]])
def test_numbers_in_json_lists_are_the_labels_of_the_same_text(tmp_path, actions):
    rows = with_columns(action=[0.5, 1.5, 0.5], eligible=[[0.5, 1.5], ["1.5"], [0.5]])
    log = read_log(write_csv(tmp_path / "log.csv", rows), actions=actions)
    assert log.action_names == tuple(actions or ["0.5", "1.5"])
    np.testing.assert_array_equal(log.support.mask(), [[True, True], [False, True], [True, False]])


@pytest.mark.parametrize("actions", [None, [1, 2]])
def test_json_lists_in_a_column_of_a_binary_file(tmp_path, actions):
    rows = with_columns(action=[1, 2, 1], eligible=["[1, 2]", "[2]", '["1"]' if actions else "[1]"])
    if actions:
        with pytest.raises(LogError, match="unknown eligible action '1' at row 2"):
            read_log(rows, actions=actions)
    else:
        assert read_log(rows).support.mask().tolist() == [[True, True], [False, True], [True, False]]
