"""An index is no column: what pandas calls one is left out and told, unless it is named."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sparing
from sparing.errors import DecisionError

N = 200
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "user": RNG.integers(0, 1000, N),
        "region": RNG.choice(["x", "y"], N),
        "age": RNG.random(N),
        "action": RNG.choice(["a", "b"], N),
        "reward": RNG.random(N),
    }
)
INDEX = "left out, the index of a frame (name it in contexts to take it)"


def as_frame(frame, folder):
    return frame


def as_parquet(frame, folder):
    frame.to_parquet(folder / "log.parquet")
    return folder / "log.parquet"


def as_arrow(frame, folder):
    table = pa.Table.from_pandas(frame)
    with pa.OSFile(str(folder / "log.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write(table)
    return folder / "log.arrow"


@pytest.mark.filterwarnings("ignore::sparing.errors.LogWarning")
@pytest.mark.parametrize("kept", [as_frame, as_parquet, as_arrow])
@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["user"], f"region: category of 2 values; age: number; user: {INDEX}"),
        (["user", "region"], f"age: number; user: {INDEX}; region: {INDEX}"),
        (["action"], "user: number; region: category of 2 values; age: number"),
    ],
)
def test_a_named_index_is_no_feature_and_told(kept, names, said, tmp_path):
    log = sparing.read_log(kept(FRAME.set_index(names), tmp_path))
    assert log.encoder.described() == said
    live = FRAME.drop(columns=["action", "reward"]).set_index(sorted({*names} - {"action"}) or ["age"])
    if "action" not in names:
        assert np.array_equal(log.encoder.encode_table(live), log.contexts)


@pytest.mark.filterwarnings("ignore::sparing.errors.LogWarning")
def test_an_index_that_is_named_is_taken():
    frame = FRAME.set_index("user")
    assert (
        sparing.read_log(frame, contexts=["user", "age"]).encoder.described() == "user: number; age: number"
    )
    chosen = sparing.features("auto", user="category")
    assert "user: category" in sparing.read_log(frame, features=chosen).encoder.described()
    assert sparing.read_log(frame, context_id="user", features="auto").n_features == 4


@pytest.mark.filterwarnings("ignore::sparing.errors.LogWarning")
@pytest.mark.parametrize("names", [["region"], ["user", "region"]])
def test_a_column_that_has_become_the_index_is_told(names):
    learner = sparing.confident(sparing.read_log(FRAME))
    live = FRAME.drop(columns=["action", "reward"]).set_index(names)
    for call, rows in ((learner.decide_many, live), (learner.decide, live[:1])):
        with pytest.raises(
            DecisionError, match=r"no column .*'region'; .* index, .*'region': pass frame\.reset_index\(\)"
        ):
            call(rows)
    learner.decide_many(live.reset_index())
    with pytest.raises(DecisionError, match=r"no column 'age'; .* Give each by its name"):
        learner.decide_many(live.reset_index().drop(columns="age"))


@pytest.mark.parametrize("head", ["", "Unnamed: 0"])
def test_row_numbers_in_text_are_no_feature(head, tmp_path):
    FRAME[["age", "action", "reward"]].to_csv(tmp_path / "log.csv", index_label=head)
    log = sparing.read_log(tmp_path / "log.csv")
    shown = head or "''"
    assert log.encoder.described() == f"age: number; {shown}: left out, a column without a name"
    log.encoder.encode({"age": 0.5, head: 7})


@pytest.mark.parametrize(
    "notes", ["[]", "{", json.dumps({"index_columns": 3}), json.dumps({"index_columns": [{}, 5]})]
)
def test_notes_of_other_kinds_are_not_looked_at(notes):
    table = pa.table({name: FRAME[name].to_numpy() for name in ("age", "action", "reward")})
    log = sparing.read_log(table.replace_schema_metadata({"pandas": notes}))
    assert log.encoder.described() == "age: number"
