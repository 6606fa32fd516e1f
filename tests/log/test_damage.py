"""Our own files, damaged: what is read is what was written, or nothing."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from sparing.errors import LogError
from sparing.log import Log, passes, read_log, tables, write_log


@pytest.fixture
def log():
    rng = np.random.default_rng(11)
    share = rng.dirichlet(np.ones(3), size=40)
    actions = (share.cumsum(axis=1) > rng.random((40, 1))).argmax(axis=1)
    return Log.from_arrays(
        rng.normal(size=(40, 3)),
        np.array(["left", "middle", "right"])[actions],
        rng.normal(size=40),
        distribution=share,
        action_names=["left", "middle", "right"],
        feature_names=["age", "height", "weight"],
        context_ids=np.arange(40),
    )


def equal(one, other):
    return (
        one.contexts.tobytes() == other.contexts.tobytes()
        and one.rewards.tobytes() == other.rewards.tobytes()
        and one.propensities.tobytes() == other.propensities.tobytes()
        and one.actions.tolist() == other.actions.tolist()
        and one.action_names == other.action_names
        and one.feature_names == other.feature_names
        and one.support.distribution().tobytes() == other.support.distribution().tobytes()
        and one.context_ids.tolist() == other.context_ids.tolist()
    )


@pytest.mark.parametrize("column", ["x_height", "propensity", "p_middle", "context_id"])
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_lost_column_is_refused(log, column, ending, tmp_path):
    """A flipped bit in a column's name, wherever the name stands but in our notes."""
    path = tmp_path / f"log.{ending}"
    write_log(log, path)
    schema = pq.read_schema(path) if ending == "parquet" else pa.ipc.open_file(str(path)).schema
    rows = pq.read_table(path) if ending == "parquet" else pa.ipc.open_file(str(path)).read_all()
    names = [name if name != column else name[:-1] + chr(ord(name[-1]) ^ 1) for name in schema.names]
    renamed = rows.rename_columns(names).replace_schema_metadata(schema.metadata)
    pq.write_table(renamed, path) if ending == "parquet" else feather.write_feather(renamed, path)
    with pytest.raises(LogError, match=f"no column '{column}', which its metadata lists"):
        read_log(path)


def test_a_column_that_was_dropped_on_purpose_can_be_left_out(log, tmp_path):
    write_log(log, tmp_path / "log.parquet")
    rows = pq.read_table(tmp_path / "log.parquet").drop_columns(["x_age", "context_id"])
    with pytest.raises(LogError, match="no column 'x_age'"):
        read_log(rows)
    back = read_log(rows, contexts=["x_height", "x_weight"], context_id=None)
    assert back.feature_names == ("height", "weight")
    assert back.context_ids is None


@pytest.mark.parametrize(("ending", "what"), [("parquet", "file"), ("arrow", "notes")])
def test_a_flipped_bit_changes_nothing_unseen(log, ending, what, tmp_path):
    """Two hundred flips, over the whole file or within our notes alone (which Parquet keeps twice)."""
    path = tmp_path / f"log.{ending}"
    write_log(log, path)
    good = path.read_bytes()
    first = good.rindex(b'{"actions"') if what == "notes" else 0
    last = good.index(b"}", good.index(b'"check"', first)) if what == "notes" else len(good)
    rng = np.random.default_rng(5)
    refused = 0
    for place, bit in zip(rng.integers(first, last, 200), rng.integers(0, 8, 200), strict=True):
        damaged = bytearray(good)
        damaged[place] ^= 1 << bit
        path.write_bytes(damaged)
        try:
            back = read_log(path)
        except LogError:
            refused += 1
        else:
            assert equal(back, log), f"byte {place}, bit {bit}"
    assert refused > 50


def test_a_parquet_file_that_lost_rows_by_a_flipped_bit(log, tmp_path):
    """The footer says twice how many rows there are: in all (the first 40 in it) and in each part (the last)."""
    path = tmp_path / "log.parquet"
    write_log(log, path)
    good = path.read_bytes()
    forty, eight = b"\x16\x50", b"\x16\x10"  # whole numbers as Thrift writes them
    place = good.rindex(forty)
    path.write_bytes(good[:place] + eight + good[place + 2 :])
    with pytest.raises(LogError, match="40 rows, but 8 in its parts"):
        read_log(path)


def test_checksums_of_older_arrow_files_are_passed_over(log, tmp_path):
    """Files of 0.1 have them in the metadata of each batch."""
    write_log(log, tmp_path / "log.arrow")
    rows = pa.ipc.open_file(str(tmp_path / "log.arrow")).read_all()
    checksums = {b"sparing": b'{"batch": 0, "of": 1, "sums": []}'}
    with pa.ipc.new_file(tmp_path / "old.arrow", rows.schema) as target:
        target.write_batch(rows.to_batches()[0], custom_metadata=checksums)
    assert equal(read_log(tmp_path / "old.arrow"), log)


def test_notes_of_older_files_are_still_read(log, tmp_path):
    write_log(log, tmp_path / "log.parquet")
    rows = pq.read_table(tmp_path / "log.parquet")
    notes = json.loads(rows.schema.metadata[tables.METADATA])
    older = {name: notes[name] for name in ("actions", "features")}
    pq.write_table(
        rows.replace_schema_metadata({tables.METADATA: json.dumps(older)}), tmp_path / "old.parquet"
    )
    assert equal(read_log(tmp_path / "old.parquet"), log)


def test_wide_logs_are_written_in_batches_of_bounded_size(monkeypatch, tmp_path):
    """The features count, however few the actions."""
    monkeypatch.setattr(passes, "BATCH_CELLS", 1000)
    log = Log.from_arrays(np.zeros((50, 100)), [0, 1] * 25, np.zeros(50), distribution=np.full((50, 2), 0.5))
    write_log(log, tmp_path / "log.arrow")
    with pa.ipc.open_file(tmp_path / "log.arrow") as file:
        sizes = [file.get_batch(i).num_rows for i in range(file.num_record_batches)]
    assert sum(sizes) == 50
    assert max(sizes) <= 10


def test_names_in_messages_are_short():
    columns = {"x" * 10_000: [1.0], "reward": [1.0]}
    with pytest.raises(LogError, match=re.escape("'" + "x" * 79 + "…")):
        read_log(columns)
