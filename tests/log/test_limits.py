"""A log has stated limits, and says so before memory is taken or a sum overflows."""

import json
import resource

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import other_formats
import sparing
from sparing.errors import LogError
from sparing.log import Log, read_log
from sparing.log.formats import FORMATS
from sparing.log.limits import LARGEST, MAX_ACTIONS

MEGABYTES = 400
"""What reading a few lines may take at most, on top of what is there."""

HEADER = "item_id,position,click,propensity_score,user_feature_0\n"


@pytest.fixture
def little_memory():
    """Check that a test took little memory: the high-water mark of the process barely rises."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEGABYTES * 1024


@pytest.mark.usefixtures("little_memory")
class TestOneNumber:
    """One large number in a small file is an id, or a mistake."""

    def test_in_vw_text(self, tmp_path):
        (tmp_path / "log.vw").write_text("30000000:1:0.5 | a\n2:0:0.5 | b\n")
        log, notes = FORMATS["vw"].read(tmp_path / "log.vw")
        assert log.action_names == (2, 30000000)
        assert log.actions.tolist() == [1, 0]
        assert any("reach 30000000, but only 2 occur" in note for note in notes)

    def test_in_open_bandit(self, tmp_path):
        (tmp_path / "log.csv").write_text(HEADER + "20000000,1,1,0.5,1\n3,1,0,0.5,2\n")
        log, _ = FORMATS["open-bandit"].read(tmp_path / "log.csv")
        assert log.action_names == (3, 20000000)
        assert log.actions.tolist() == [1, 0]

    @pytest.mark.parametrize("actions", [{"n_actions": 2**40}, {"action": [2**40, 0]}])
    def test_in_obp(self, actions):
        feedback = {"context": [[1.0], [2.0]], "action": [0, 1], "reward": [0.0, 1.0], **actions}
        with pytest.raises(LogError, match=r"makes 1,099,5.*actions; a log may have 1,000,000"):
            FORMATS["obp"].read(feedback)

    def test_in_vw_text_that_lists_actions(self, tmp_path):
        (tmp_path / "log.vw").write_text("9000:1:0.5 1 | a\n" + "2:0:0.5 | b\n" * 2000)
        log, _ = FORMATS["vw"].read(tmp_path / "log.vw")
        assert log.n_actions == 9000
        assert log.support.sizes.tolist() == [2, *[9000] * 2000]


def test_numbers_up_to_a_few_thousand_count_all_actions(tmp_path):
    """A --cb file for K actions need not show them all."""
    (tmp_path / "log.vw").write_text("5000:1:0.5 | a\n")
    assert FORMATS["vw"].read(tmp_path / "log.vw")[0].n_actions == 5000


def test_a_list_of_too_many_actions_is_refused_before_it_is_made():
    with pytest.raises(LogError, match=r"1,099,511,627,776 actions; a log may have 1,000,000"):
        Log.empty(action_names=range(2**40), n_features=1)
    assert Log.empty(action_names=range(MAX_ACTIONS), n_features=1).n_actions == MAX_ACTIONS


def test_too_many_labels_in_a_table_are_refused():
    table = {
        "x_0": np.zeros(MAX_ACTIONS + 1),
        "action": np.arange(MAX_ACTIONS + 1),
        "reward": np.zeros(MAX_ACTIONS + 1),
    }
    with pytest.raises(LogError, match="makes 1,000,001 actions"):
        read_log(table)


@pytest.fixture
def columns():
    rng = np.random.default_rng(4)
    return {
        "x_age": rng.normal(size=50),
        "x_rank": rng.normal(size=50),
        "action": rng.integers(0, 2, 50),
        "reward": rng.normal(size=50),
        "propensity": np.full(50, 0.5),
    }


@pytest.mark.parametrize("value", [1e200, -1e101, 1e308])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x_rank", r"context feature 1 \(rank\) at row 17 is "),
        ("reward", r"reward at row 17 is .*; it must be "),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_one_cell_too_large_is_named_by_row_and_column(columns, name, message, value, ending, tmp_path):
    columns[name][17] = value
    path = tmp_path / f"log.{ending}"
    if ending == "csv":
        lines = [
            ",".join(columns),
            *(",".join(map(repr, row)) for row in zip(*(c.tolist() for c in columns.values()), strict=True)),
        ]
        path.write_text("\n".join(lines) + "\n")
    else:
        pq.write_table(pa.table(columns), path)
    for read in (sparing.read_log, lambda path: sparing.scan(path).summary()):
        with pytest.raises(LogError, match=message + r".*at most 1e\+50 in size"):
            read(path)


def test_cells_as_large_as_they_may_be_are_audited(columns):
    columns["x_rank"][17] = LARGEST
    columns["reward"][3] = -LARGEST
    text = json.dumps(sparing.audit(sparing.read_log(columns)).to_dict(), default=str)
    assert "Infinity" not in text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.vw", "1:0:0.5 | a:1\n2:1:0.5 | a:1e200\n"),
        ("log.vw", "1:0:0.5 | a:1\n2:1e200:0.5 | a:1\n"),
        ("log.jsonl", '{"context":1,"action":1,"reward":0}\n{"context":1e200,"action":1,"reward":0}\n'),
        ("log.jsonl", '{"context":1,"action":1,"reward":0}\n{"context":1,"action":1,"reward":-1e200}\n'),
    ],
)
def test_a_line_with_a_number_too_large_is_named(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(LogError, match=r"line 2: .*1e\+?200.*at most 1e\+50 in size"):
        other_formats.read(tmp_path / name)


class TestLabels:
    """Labels that could be neither printed nor written."""

    @pytest.mark.parametrize("name", ["log.csv", "log.vw", "log.dsjson"])
    def test_thousands_of_digits(self, name, tmp_path):
        digits = "7" * 5000
        text = {
            "log.csv": f"x_0,action,reward\n1,{digits},0\n",
            "log.vw": f"{digits}:1:0.5 | a\n",
            "log.dsjson": json.dumps({"_label_cost": 1, "_labelIndex": 0, "c": {"_multi": [{"id": digits}]}}),
        }[name]
        (tmp_path / name).write_text(text)
        if name == "log.vw":
            with pytest.raises(LogError, match="line 1: label"):
                read_log(tmp_path / name)
        else:
            assert read_log(tmp_path / name).action_names == (digits,)

    def test_thousands_of_digits_in_memory(self):
        with pytest.raises(LogError, match="more than 100 digits"):
            Log.from_arrays([[1.0]], [10**5000], [0.0])

    def test_nested_deeply(self, tmp_path):
        deep = "[" * 90 + "1" + "]" * 90
        (tmp_path / "log.jsonl").write_text(f'{{"context":1,"action":{deep},"reward":0}}\n')
        with pytest.raises(LogError, match="line 1: an action is nested more than 16 deep"):
            read_log(tmp_path / "log.jsonl")
        label = 1
        for _ in range(600):
            label = (label,)
        with pytest.raises(LogError, match="nested more than 16 deep"):
            Log.from_arrays([[1.0]], [label], [0.0])

    @pytest.mark.parametrize(
        "parts",
        [
            {"actions": ["\ud800"]},
            {"actions": [("a", "\udfff")]},
            {"feature_names": ["\ud800"]},
            {"context_ids": ["\ud800"]},
            {"context_ids": np.array(["\udc00"])},
        ],
    )
    def test_half_a_surrogate_pair(self, parts):
        with pytest.raises(LogError, match="half of a surrogate pair"):
            Log.from_arrays(**{"contexts": [[1.0]], "actions": ["a"], "rewards": [0.0]} | parts)
