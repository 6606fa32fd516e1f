"""Tables that only look like logs: what is not plainly a number, a header or a row is refused by name."""

import datetime
import gzip
import json
import time

import numpy as np
import pyarrow as pa
import pytest

import other_formats
import sparing
from each import for_each
from sparing.errors import LogError
from sparing.log import Log, read_log, write_log


@pytest.fixture
def csv_file(tmp_path):
    def write(text, name="log.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@for_each("cell", ["1_0", "１０", "٣", "0x10", "1e", "1 0", "--1", "1,"])
def test_only_plain_digits_are_numbers(cell, csv_file):
    with pytest.raises(LogError, match=r"x_0 at row 1 is "):
        read_log(csv_file(f'x_0,action,reward\n1,a,0\n"{cell}",a,0\n'))


@for_each("cell", ["+1", " 1 ", "1.", ".5", "1E3", "-0"])
def test_other_ways_to_write_a_number_are_read(cell, csv_file):
    log = read_log(csv_file(f'x_0,action,reward\n1,a,0\n"{cell}",a,0\n'))
    assert log.contexts[1, 0] == float(cell)


@pytest.mark.parametrize("cell", ["1_0", "１０"])
def test_only_plain_digits_are_numbers_in_vw_text(cell, csv_file):
    with pytest.raises(LogError, match="line 1: feature 'a' is "):
        read_log(csv_file(f"1:0:0.5 | a:{cell}\n", "log.vw"))


@for_each("values", [[1 + 2j, 0], np.array([1j, 2]), np.array([1, 2], dtype=complex)])
@for_each("part", ["contexts", "rewards", "propensities"])
def test_complex_numbers_are_no_numbers(values, part):
    parts = {"contexts": [[1.0], [2.0]], "rewards": [0.0, 1.0], "propensities": [0.5, 0.5]}
    parts[part] = [[value] for value in values] if part == "contexts" else values
    with pytest.raises(LogError, match=f"{part} are not all numbers"):
        Log.from_arrays(actions=["a", "b"], **parts)


@for_each(
    "rewards",
    [
        np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"),
        np.array([1, 2], dtype="timedelta64[s]"),
        [datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)] * 2,
        ["1_0", "2"],
        [b"1", b"2"],
        [1.0, "2"],
    ],
)
def test_dates_durations_and_texts_are_no_rewards(rewards):
    with pytest.raises(LogError, match="rewards are not all numbers"):
        Log.from_arrays([[1.0], [2.0]], ["a", "b"], rewards)


@for_each(
    "values",
    [
        pa.array([1, 2], pa.timestamp("ns")),
        pa.array([1, 2], pa.date32()),
        pa.array([1, 2], pa.duration("s")),
        pa.array([1, 2], pa.time64("us")),
        pa.array([b"1", b"2"], pa.binary()),
    ],
)
@for_each("column", ["x_0", "reward"])
def test_dates_in_a_table_are_no_numbers(column, values):
    table = pa.table({"x_0": [1.0, 2.0], "action": ["a", "b"], "reward": [0.0, 1.0]})
    place = table.schema.get_field_index(column)
    with pytest.raises(LogError, match=f"{column} at row 0 is .*, not a number"):
        read_log(table.set_column(place, column, values))


def test_superscripts_are_no_numbers(csv_file):
    log = read_log(csv_file("x_²,x_1,action,reward\n1,2,a,0\n"))
    assert log.feature_names == ("²", "x_1")


def test_features_with_very_long_numbers(csv_file):
    long = "9" * 5000
    log = read_log(csv_file(f"x_{long},x_1,action,reward\n1,2,a,0\n"))
    assert log.contexts.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    "text",
    [
        "x_0,action,reward," + "y" * 200_000 + "\n1,a,0,1\n",
        'x_0,action,"reward\n1,a,0\n',
        'x_0,action,"reward\n' + "1,a,0\n" * 50_000,
        b"x_0,action,reward,\0\n1,a,0,1\n",
    ],
)
def test_headers_that_are_none(text, csv_file):
    with pytest.raises(LogError, match=r"cannot be read as csv|bytes 0"):
        read_log(csv_file(text))


def test_the_same_headers_of_an_open_bandit_file(csv_file):
    header = "item_id,position,click,propensity_score,user_feature_0"
    for text in (header + "," + "y" * 200_000, header + ',"cut'):
        with pytest.raises(LogError, match="damaged"):
            other_formats.read(csv_file(text + "\n1,1,0,0.5,a\n"), "open-bandit")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_of_a_csv(end, csv_file):
    lines = ["x_0,action,reward", "1,a,0", "2,b,1"]
    log = read_log(csv_file(end.join(lines) + end))
    assert log.contexts.tolist() == [[1.0], [2.0]]
    header = "item_id,position,click,propensity_score,user_feature_0"
    log = read_log(csv_file(end.join([header, "1,1,0,0.5,2.5", "0,1,1,0.5,3.5"]) + end))
    assert log.actions.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("name", "text"),
    [("log.vw", "1:0:0.5 | a\r2:0:0.5 | b\r"), ("log.jsonl", '[["a"],{},"a",1]\r[["a"],{},"a",1]\r')],
)
def test_carriage_returns_alone_do_not_end_a_line_of_text(name, text, csv_file):
    """Vowpal Wabbit would take the second label for features of the first line."""
    with pytest.raises(LogError, match="line 1: a carriage return within the line"):
        other_formats.read(csv_file(text, name))


@pytest.mark.parametrize("cell", ["[" * 600 + "]" * 600, "[" * 2000, '["\\ud800"]', "[" + "7" * 5000 + "]"])
def test_eligible_sets_that_are_no_lists_of_labels(cell, csv_file):
    with pytest.raises(LogError, match="eligible at row 0 is "):
        read_log(
            csv_file(
                "x_0;action;reward;eligible\n1;a;0;".replace(";", ",") + '"' + cell.replace('"', '""') + '"\n'
            )
        )


@pytest.mark.parametrize("depth", [600, 1000, 2000])
@pytest.mark.parametrize("key", ["context", "action", "actions", "context_id"])
def test_deep_json_is_refused(depth, key, csv_file):
    record = {"context": 1, "action": "a", "reward": 0, "actions": ["a"], key: None}
    line = json.dumps(record).replace("null", "[" * depth + "]" * depth)
    with pytest.raises(LogError, match=r"line 1 is not whole JSON .*nested more than 100 deep"):
        other_formats.read(csv_file(line + "\n", "log.jsonl"), "coba")


def test_many_equal_columns_are_reported_in_linear_time(csv_file):
    """A search behind every name took more than 90 s for 100,000 of them."""
    names = [f"x_{i}" for i in range(100_000)]
    started = time.perf_counter()
    with pytest.raises(LogError, match="two columns 'x_99999'"):
        read_log(csv_file(",".join([*names, "action", "reward", "x_99999"]) + "\n"))
    assert time.perf_counter() - started < 10


def test_many_features_are_written_in_linear_time(tmp_path):
    """A search behind every column took 25 s for 40,000 of them; the file itself takes about one."""
    log = Log.from_arrays(np.ones((2, 40_000)), ["a", "b"], [0.0, 1.0])
    started = time.perf_counter()
    write_log(log, tmp_path / "log.parquet")
    assert time.perf_counter() - started < 12


LINES = {
    "log.csv": "x_0,action,reward\n1,a,0\n2,b,1\n",
    "bandit.csv": "item_id,position,click,propensity_score,user_feature_0\n1,1,0,0.5,2.5\n0,1,1,0.5,3.5\n",
    "log.vw": "1:0:0.5 | a:1\n2:1:0.5 | a:2\n",
    "log.adf": "shared | a:1\n0:0:0.5 | x\n| y\n\n",
    "log.dsjson": '{"_label_cost":1,"_label_probability":0.5,"_labelIndex":0,"c":{"u":1,"_multi":[{"id":"x"}]}}\n',
    "log.json": '{"_label_cost":1,"_label_probability":0.5,"_labelIndex":0,"u":1,"_multi":[{"id":"x"}]}\n',
    "coba.jsonl": '{"context":1,"action":"a","reward":0}\n',
    "river.jsonl": '[["a","b"],{"u":1},"a",1]\n',
}


class TestPacked:
    """Files packed by gzip are read as what is in them."""

    @pytest.mark.parametrize("name", LINES)
    def test_they_read_as_if_unpacked(self, name, csv_file):
        log, notes = other_formats.read(csv_file(LINES[name], name))
        packed, packed_notes = other_formats.read(csv_file(gzip.compress(LINES[name].encode()), f"{name}.gz"))
        assert packed_notes == notes
        assert packed.contexts.tolist() == log.contexts.tolist()
        assert packed.action_names == log.action_names

    @pytest.mark.parametrize("name", LINES)
    def test_cut_off_they_are_refused(self, name, csv_file):
        packed = gzip.compress(LINES[name].encode())
        for cut in (packed[:-9], packed[:15], packed[:25] + b"\xff\xff" + packed[27:]):
            with pytest.raises(LogError):
                other_formats.read(csv_file(cut, f"{name}.gz"))

    def test_they_are_summed(self, csv_file):
        path = csv_file(gzip.compress(LINES["log.csv"].encode()), "log.csv.gz")
        assert sparing.scan(path).summary().action_names == ("a", "b")

    @pytest.mark.parametrize("name", ["log.parquet.gz", "log.arrow.gz"])
    def test_packed_tables_are_to_be_unpacked(self, name, csv_file):
        with pytest.raises(LogError, match=r"compressed by gzip.*Decompress it first"):
            read_log(csv_file(gzip.compress(b"x"), name))

    def test_they_are_not_written(self, tmp_path):
        log = Log.from_arrays([[1.0]], ["a"], [0.0], propensities=[0.5])
        for name in ("log.csv.gz", "log.vw.gz"):
            with pytest.raises(LogError, match="unknown ending"):
                write_log(log, tmp_path / name)
        assert not list(tmp_path.iterdir())
