"""One table of many files: folders, patterns, partitions, a real S3 server; and what does not go together."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pytest

import sparing
from sparing.errors import LogError
from sparing.log.tables import is_file, open_table


def table(start, stop):
    rows = np.arange(start, stop)
    return pa.table({"x_0": rows / 64, "action": rows % 3, "reward": (rows % 5) / 4})


def numbers(source, **options):
    return [
        value
        for _, batch in source.blocks(["x_0"], **options)
        for value in (np.asarray(batch.column(0)) * 64).tolist()
    ]


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "logs"
    for place, (start, stop) in enumerate([(0, 10), (10, 11), (11, 40)]):
        (root / f"part={place}").mkdir(parents=True)
        pq.write_table(table(start, stop), root / f"part={place}" / "rows.parquet", row_group_size=4)
    (root / "_SUCCESS").touch()
    (root / ".hidden.parquet").touch()
    return root


def test_a_folder_is_its_files_in_order_with_what_their_folders_say(folder):
    source = open_table(folder)
    assert numbers(source) == list(range(40))
    assert source.schema.field("part").type == pa.int64()
    parts = [
        value
        for _, batch in source.blocks(["part", "x_0"], step=7)
        for value in batch.column("part").to_pylist()
    ]
    assert parts == [0] * 10 + [1] + [2] * 29
    assert [batch.num_rows for _, batch in source.blocks(["part"], step=7)] == [7] * 5 + [5]


@pytest.mark.parametrize(("start", "stop"), [(0, 40), (8, 16), (10, 11), (12, 40)])
def test_a_part_of_a_folder_knows_only_its_files_also_after_a_journey(folder, start, stop):
    part, first = open_table(folder).part(start, stop)
    part = pickle.loads(pickle.dumps(part))
    assert numbers(part, start=start - first, stop=stop - first) == list(range(start, stop))
    assert len(part.files) == sum(low < stop and high > start for low, high in [(0, 10), (10, 11), (11, 40)])


@pytest.mark.parametrize(
    ("pattern", "rows"),
    [
        ("part=*/rows.parquet", 40),
        ("part=[01]/*.parquet", 11),
        ("**/*.parquet", 40),
        ("part=?/r*", 40),
        ("*.parquet", None),
    ],
)
def test_patterns(folder, pattern, rows):
    if rows is None:
        with pytest.raises(LogError, match="no table at"):
            open_table(f"{folder}/{pattern}")
    else:
        assert numbers(open_table(f"{folder}/{pattern}")) == list(range(rows))


def test_a_name_with_a_wildcard_in_it_is_a_file_if_there_is_one(tmp_path):
    pq.write_table(table(0, 3), tmp_path / "a[1].parquet")
    assert numbers(open_table(tmp_path / "a[1].parquet")) == [0, 1, 2]
    assert is_file(str(tmp_path / "nothing.parquet"))
    assert not is_file("s3://bucket/x.parquet")


def test_a_scan_of_a_folder_is_that_of_one_file(folder, tmp_path):
    pq.write_table(table(0, 40), tmp_path / "one.parquet")
    one = sparing.scan(tmp_path / "one.parquet", contexts=["x_0"], features="raw").summary()
    for many in (folder, f"file://{folder}", f"file://{folder}/**/*.parquet"):
        found = sparing.scan(many, contexts=["x_0"], features="raw").summary()
        assert np.array_equal(found.statistics.gram, one.statistics.gram)
        assert np.array_equal(found.context_sample, one.context_sample)
    assert "part" in sparing.scan(folder, features="auto").encoder.by_column


def test_text_files_one_after_the_other(tmp_path):
    for place, (start, stop) in enumerate([(0, 5), (5, 9)]):
        pc.write_csv(table(start, stop), tmp_path / f"{place}.csv")
    log = sparing.scan(tmp_path, contexts=["x_0"], features="raw")
    assert log.n_rows == 9
    assert np.array_equal(log.read().contexts[:, 0] * 64, np.arange(9))


@pytest.mark.parametrize(
    ("other", "match"),
    [
        (
            table(0, 2).rename_columns(["x_1", "action", "reward"]),
            "differ in the column 'x_1': double and nothing",
        ),
        (
            table(0, 2).set_column(1, "action", pa.array(["a", "b"])),
            "differ in the column 'action': string and int64",
        ),
        (table(0, 2).select(["action", "x_0", "reward"]), "same columns in another order"),
    ],
)
def test_files_that_do_not_go_together(folder, other, match):
    (folder / "part=9").mkdir()
    pq.write_table(other, folder / "part=9" / "rows.parquet")
    with pytest.raises(LogError, match=match):
        open_table(folder)


def test_two_logs_are_not_one(tmp_path):
    for name, actions in (("a", [0, 1]), ("b", [0, 2])):
        log = sparing.Log.from_arrays(np.eye(2), actions, [0.0, 1.0])
        sparing.write_log(log, tmp_path / f"{name}.parquet")
    with pytest.raises(LogError, match="different actions or features; they are two logs"):
        open_table(tmp_path)


def test_an_empty_folder_and_a_damaged_file(tmp_path):
    with pytest.raises(LogError, match=r"no table at .*logs/\*\.parquet"):
        open_table(tmp_path)
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no table PAR1")
    with pytest.raises(LogError, match="cannot be read as parquet"):
        open_table(tmp_path)


def test_a_file_that_changes_during_a_scan_is_reported(folder):
    log = sparing.scan(folder, contexts=["x_0"], features="raw")
    pq.write_table(table(0, 8), folder / "part=0" / "rows.parquet", row_group_size=4)
    with pytest.raises(LogError, match="changed since it was opened"):
        sparing.LogSummary.of(log)


@pytest.fixture(scope="module")
def bucket():
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    query = f"endpoint_override={host}:{port}&scheme=http&region=us-east-1"
    files, _ = fs.FileSystem.from_uri(f"s3://key:secret@bucket?{query}&allow_bucket_creation=true")
    files.create_dir("bucket")
    for place, (start, stop) in enumerate([(0, 10), (10, 40)]):
        with files.open_output_stream(f"bucket/logs/{place}.parquet") as file:
            pq.write_table(table(start, stop), file, row_group_size=4)
    with files.open_output_stream("bucket/text/rows.csv") as file:
        pc.write_csv(table(0, 40), file)
    with (
        files.open_output_stream("bucket/arrow/rows.arrow") as file,
        pa.ipc.new_file(file, table(0, 1).schema) as writer,
    ):
        writer.write_table(table(0, 40), max_chunksize=9)
    yield lambda path: f"s3://key:secret@bucket/{path}?{query}"
    server.stop()


@pytest.mark.parametrize("path", ["logs", "logs/*.parquet", "text/rows.csv", "arrow/rows.arrow"])
def test_an_object_store(bucket, tmp_path, path):
    pq.write_table(table(0, 40), tmp_path / "one.parquet")
    one = sparing.scan(tmp_path / "one.parquet", contexts=["x_0"], features="raw").summary()
    found = sparing.scan(
        bucket(path), contexts=["x_0"], features="raw", engine=sparing.engines.local(2)
    ).summary()
    assert np.array_equal(found.statistics.gram, one.statistics.gram)
    assert found.action_names == one.action_names


def test_an_object_store_that_does_not_have_it(bucket):
    for path, match in (("nothing/*.parquet", "no table at"), ("nothing.parquet", "cannot be")):
        with pytest.raises(LogError, match=match) as error:
            sparing.scan(bucket(path))
        assert "secret" not in str(error.value)


@pytest.mark.parametrize("address", ["http://example.org/y.csv", "HTTPS://example.org/logs/*.parquet"])
def test_a_web_address_is_rejected_with_advice(address):
    with pytest.raises(LogError, match=r"example\.org.* Download it and name the file"):
        open_table(address)
