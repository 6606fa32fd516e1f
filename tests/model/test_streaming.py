"""A summary read in pieces is the summary of the log read as a whole."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparing
from each import for_each
from reference.cases import make_rounds, parameters, run
from sparing.errors import LogError, SettingError
from sparing.log import Log, passes
from sparing.model import statistics, tiles
from sparing.model.statistics import LogSummary, Statistics

SUMS = ("counts", "gram", "response", "squares", "largest")
LABELS = np.array(["b", "a", "d", "c", "e"])
OTHER = ["side", "age", "size", "action", "reward"]
LISTS = pa.array([[0.5, 0.25]] * 450)


def exact_table(seed, rows, d=3, labels=LABELS):
    """Values k/64, so that every sum of products is exact in any order."""
    rng = np.random.default_rng(seed)
    columns = {f"x_{i}": rng.integers(-64, 65, rows) / 64 for i in range(d)}
    columns["action"] = labels[rng.integers(0, len(labels), rows)]
    return pa.table({**columns, "reward": rng.integers(-128, 129, rows) / 64})


def replaced(table, name, values):
    return table.set_column(table.schema.get_field_index(name), name, values)


def write(table, path, group=None):
    pq.write_table(table, path, row_group_size=group)
    return path


def assert_same(one, other):
    assert one.action_names == other.action_names
    for name in SUMS:
        got, expected = getattr(one.statistics, name), getattr(other.statistics, name)
        np.testing.assert_array_equal(got, expected, err_msg=name)


def whole(source, **options):
    return LogSummary.of(sparing.read_log(source, **options))


@pytest.fixture
def small_shards(monkeypatch):
    """Cut even small files into leaves, and leaves into blocks."""
    monkeypatch.setattr(passes, "CHUNK_ROWS", 100)
    monkeypatch.setattr(passes, "BATCH_ROWS", 37)


@pytest.fixture
def by_columns(monkeypatch):
    """Of every block that the compiled kernel gets, whether its contexts are columns; it gets those of short logs too."""
    told = []

    class Watched(tiles.Tiles):
        def add(self, contexts, *others):
            told.append(not isinstance(contexts, np.ndarray))
            return super().add(contexts, *others)

    monkeypatch.setattr(statistics, "COMPILED_CELLS", 0)
    monkeypatch.setattr(tiles, "Tiles", Watched)
    return told


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda table: table, True),
        (lambda table: table.append_column("propensity", pa.array([0.5] * 450)), True),
        (lambda table: replaced(table, "x_0", table["x_0"].cast(pa.float32())), True),
        (
            lambda table: replaced(table, "x_0", pa.array(["left", "right"] * 225)).rename_columns(OTHER),
            False,
        ),
        (lambda table: table.append_column("x", LISTS).drop_columns(["x_0", "x_1", "x_2"]), False),
    ],
    ids=["floats", "and propensities", "single precision", "words", "lists"],
)
def test_columns_of_numbers_are_not_turned_into_rows(tmp_path, small_shards, by_columns, change, expected):
    path = write(change(exact_table(0, 450)), tmp_path / "log.parquet", 70)
    summary = sparing.scan(path).summary()
    assert set(by_columns) == {expected}
    by_columns.clear()
    log = whole(path)
    assert set(by_columns) == {False}
    assert_same(summary, log)
    np.testing.assert_array_equal(summary.context_sample, log.context_sample)


def test_features_that_are_left_out_are_zero(tmp_path, small_shards, by_columns):
    path = write(exact_table(0, 450), tmp_path / "log.parquet", 70)
    got = Statistics.of(sparing.scan(path).select(features=[0, 2]))
    assert set(by_columns) == {False}
    kept = np.array([1.0, 0.0, 1.0])
    np.testing.assert_array_equal(got.gram, whole(path).statistics.gram * np.outer(kept, kept))


@pytest.mark.parametrize("threads", [1, 3])
@for_each("batch", [1, 64, 10_000])
@pytest.mark.parametrize("group", [7, 100, 10_000])
def test_equals_the_whole_log(tmp_path, monkeypatch, group, batch, threads):
    monkeypatch.setattr(passes, "CHUNK_ROWS", 100)
    monkeypatch.setattr(passes, "BATCH_ROWS", batch)
    path = write(exact_table(0, 450), tmp_path / "log.parquet", group)
    assert_same(sparing.scan(path, workers=threads).summary(), whole(path))


def test_any_number_of_threads_gives_the_same_bits(tmp_path, small_shards):
    rng = np.random.default_rng(1)
    names = [*(f"x_{i}" for i in range(9)), "reward"]
    table = pa.table({**{name: rng.normal(size=5000) for name in names}, "action": rng.integers(0, 4, 5000)})
    path = write(table, tmp_path / "log.parquet", 90)
    one = sparing.scan(path, workers=1).summary()
    for threads in (2, 3, 7, None):
        assert_same(sparing.scan(path, workers=threads).summary(), one)
    for name in SUMS:
        expected = getattr(whole(path).statistics, name)
        np.testing.assert_allclose(getattr(one.statistics, name), expected, rtol=1e-12, atol=1e-10)


def test_actions_that_are_missing_in_some_row_groups(tmp_path, small_shards):
    path = write(exact_table(2, 900).sort_by("action"), tmp_path / "log.parquet", 50)
    assert_same(sparing.scan(path).summary(), whole(path))


@pytest.mark.parametrize("labels", [np.array([30, -1, 7]), np.array([0.5, 2.0]), np.array(["ä", "10", "9"])])
def test_labels_of_any_kind_in_the_order_of_the_log(tmp_path, small_shards, labels):
    path = write(exact_table(3, 400, labels=labels), tmp_path / "log.parquet", 60)
    assert_same(sparing.scan(path).summary(), whole(path))


def test_known_actions_keep_their_order(tmp_path):
    path = write(exact_table(4, 200), tmp_path / "log.parquet")
    names = ["e", "z", "a", "b", "c", "d"]
    summary = sparing.scan(path, actions=names).summary()
    assert summary.action_names == tuple(names)
    assert summary.statistics.counts[1] == 0
    assert_same(summary, whole(path, actions=names))


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_files_that_write_log_wrote(tmp_path, small_shards, ending):
    rng = np.random.default_rng(5)
    x, actions = rng.integers(-64, 65, (300, 2)) / 64, rng.integers(0, 3, 300)
    labels = [("a", 1), "b", 2.5]
    log = Log.from_arrays(
        x, [labels[a] for a in actions], x[:, 0], distribution=np.full((300, 3), 1 / 3), action_names=labels
    )
    sparing.write_log(log, tmp_path / f"log.{ending}")
    summary = sparing.scan(tmp_path / f"log.{ending}").summary()
    assert_same(summary, whole(tmp_path / f"log.{ending}"))
    for name in SUMS:
        np.testing.assert_array_equal(getattr(summary.statistics, name), getattr(Statistics.of(log), name))


def test_tables_in_memory_and_columns_of_other_types():
    table = exact_table(6, 150)
    assert_same(sparing.scan(table).summary(), whole(table))
    table = replaced(table, "action", table["action"].dictionary_encode())
    table = replaced(table, "x_0", table["x_0"].cast(pa.float32()))
    table = replaced(table, "x_1", pa.array(range(150)))
    assert_same(sparing.scan(table).summary(), whole(table))


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float64(), 4), pa.list_(pa.float64()), pa.list_(pa.float32(), 4)]
)
def test_contexts_in_one_list_column(tmp_path, small_shards, kind):
    x = np.random.default_rng(7).integers(-64, 65, (400, 4)) / 64
    table = exact_table(7, 400, d=0).append_column("context", pa.array(x.tolist(), kind))
    path = write(table, tmp_path / "log.parquet", 80)
    assert_same(sparing.scan(path).summary(), whole(path))


def test_lists_of_another_length_are_told(tmp_path, small_shards):
    lists = [[1.0, 2.0]] * 250 + [[1.0]] * 50
    table = exact_table(8, 300, d=0).append_column("x", pa.array(lists))
    path = write(table, tmp_path / "log.parquet", 50)
    with pytest.raises(LogError, match="x at row 250 has length 1; the rows before it have 2"):
        sparing.scan(path).summary()
    with pytest.raises(LogError, match="a feature or more"):
        sparing.scan(
            {"x": pa.array([[], []], pa.list_(pa.float64())), "action": [1, 2], "reward": [0, 1]}
        ).summary()


def test_a_single_row(tmp_path):
    path = write(
        pa.table({"x_0": [3.0], "x_1": [4.0], "action": ["b"], "reward": [2.0]}), tmp_path / "a.parquet"
    )
    summary = sparing.scan(path, actions=["a", "b"]).summary()
    np.testing.assert_array_equal(summary.statistics.gram[1], [[9, 12], [12, 16]])
    np.testing.assert_array_equal(summary.statistics.response, [[0, 0], [6, 8]])
    assert summary.statistics.largest == 5
    assert repr(summary) == "Summary(1 rows, 2 actions, 2 features)"


@pytest.mark.parametrize("actions", [None, ["a"]])
@pytest.mark.parametrize("d", [0, 2])
def test_no_rows(tmp_path, actions, d):
    table = exact_table(0, 0, d=d)
    if not d:
        table = table.append_column("x", pa.array([], pa.list_(pa.float64())))
    path = write(table, tmp_path / "log.parquet")
    with pytest.raises(LogError, match="no rows"):
        sparing.scan(path, actions=actions).summary()


def spoilt(name, value, row=433):
    table = exact_table(9, 500)
    values = table[name].to_pylist()
    values[row] = value
    return replaced(table, name, pa.array(values, table.schema.field(name).type))


@for_each(
    ("table", "options"),
    [
        (spoilt("x_1", float("nan")), {}),
        (spoilt("x_2", float("-inf")), {}),
        (spoilt("x_0", None), {}),
        (spoilt("x_0", 1e60), {}),
        (spoilt("reward", float("nan")), {}),
        (spoilt("reward", None), {}),
        (spoilt("action", None), {}),
        (spoilt("action", "new"), {"actions": LABELS.tolist()}),
        (exact_table(9, 500), {"action": "arm"}),
        (exact_table(9, 500), {"reward": "gain"}),
        (exact_table(9, 500), {"contexts": ["x_0", "y"]}),
        (exact_table(9, 500), {"contexts": ["x_0", "action"]}),
    ],
)
@pytest.mark.parametrize("cells", [0, statistics.COMPILED_CELLS], ids=["columns", "rows"])
def test_errors_are_those_of_read_log(tmp_path, small_shards, monkeypatch, cells, table, options):
    monkeypatch.setattr(statistics, "COMPILED_CELLS", cells)
    path = write(table, tmp_path / "log.parquet", 60)
    with pytest.raises(LogError) as expected:
        sparing.read_log(path, **options)
    with pytest.raises(LogError) as got:
        sparing.scan(path, **options).summary()
    assert str(got.value) == str(expected.value)


def test_a_written_log_names_its_encoded_features(tmp_path, by_columns):
    """The encoder that it carries knows them, wherever the columns are taken as they stand."""
    raw = {"age": [20.0, 30.0, 40.0] * 30, "device": ["phone", "desktop"] * 45}
    log = sparing.read_log({**raw, "action": [1, 2] * 45, "reward": [0.5] * 90}, features="auto")
    path = tmp_path / "log.parquet"
    sparing.write_log(log, path)
    summary = sparing.scan(path).summary()
    assert by_columns == [True]
    assert_same(summary, whole(path))
    table = pq.read_table(path)
    column = table.schema.names[1]
    write(replaced(table, column, pa.array([0.5] * 77 + [np.nan] * 13)), path)
    with pytest.raises(
        LogError, match=re.escape(f"context feature 1 ({log.feature_names[1]}) at row 77 is nan")
    ):
        sparing.scan(path).summary()


def test_the_first_of_several_bad_rows_is_told(tmp_path, small_shards):
    table = spoilt("x_1", float("nan"), row=120)
    table = replaced(table, "x_2", pa.array([0.0] * 480 + [np.inf] * 20))
    path = write(table, tmp_path / "log.parquet", 50)
    for threads in (1, 4):
        with pytest.raises(LogError, match="context feature 1 at row 120 is nan"):
            sparing.scan(path, workers=threads).summary()


def test_a_damaged_page_is_found(tmp_path):
    log = Log.from_arrays(np.random.default_rng(0).normal(size=(5000, 2)), [1, 2] * 2500, [0.0] * 5000)
    path = tmp_path / "log.parquet"
    sparing.write_log(log, path)
    data = bytearray(path.read_bytes())
    data[len(data) // 4] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(LogError, match="truncated or damaged"):
        sparing.scan(path).summary()


def test_the_old_name_of_a_summary_warns_and_still_works():
    with pytest.warns(DeprecationWarning, match=r"use scan\(source, \.\.\.\)\.summary\(\)"):
        assert_same(sparing.summarise(exact_table(0, 5), threads=1), whole(exact_table(0, 5)))
    with pytest.warns(DeprecationWarning, match="summarise"), pytest.raises(SettingError, match="threads"):
        sparing.summarise(exact_table(0, 5), threads=1.5)


def test_other_formats_are_summarised_as_they_are_read(tmp_path):
    path = tmp_path / "log.vw"
    path.write_text("1:-1:0.5 | a:1 b:2\n2:0:0.5 | a:0.5 b:1\n")
    assert_same(sparing.scan(path).summary(), whole(path))


def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch):
    """What Arrow holds while a file is read is about the same for four times the rows."""
    monkeypatch.setattr(passes, "BATCH_ROWS", 4096)
    monkeypatch.setattr(statistics, "COMPILED_CELLS", 0)
    held = []

    class Watched(tiles.Tiles):
        def add(self, *rows):
            held.append(pa.total_allocated_bytes())
            return super().add(*rows)

    monkeypatch.setattr(tiles, "Tiles", Watched)
    peaks, sizes = [], []
    for rows in (100_000, 400_000):
        path = tmp_path / "log.parquet"
        with pq.ParquetWriter(path, exact_table(0, 1, d=6).schema, use_dictionary=False) as writer:
            for seed in range(rows // 20_000):
                writer.write_table(exact_table(seed, 20_000, d=6))
        sizes.append(path.stat().st_size)
        before = pa.total_allocated_bytes()
        held.clear()
        sparing.scan(path, workers=1).summary()
        peaks.append(max(held) - before)
    assert sizes[1] > 3.9 * sizes[0]
    assert peaks[1] < 1.5 * peaks[0]


THETA = parameters(30)
GIVEN = {"noise": 0.5, "theta_bound": 2.0, "context_bound": 1.75, "seed": 4, "radius_scale": 0.2}
LEARNERS = {
    "warm_started": lambda log: sparing.warm_started(log, **GIVEN),
    "certified": lambda log: sparing.certified(log, tolerance=0.1, **GIVEN),
    "estimated": lambda log: sparing.certified(log, tolerance=0.1),
    "confident": lambda log: sparing.confident(log, tolerance=0.05, spot_check=0.1, seed=4),
    "economical": lambda log: sparing.economical(log, call_cost=0.001, seed=4),
    "linucb": lambda log: sparing.linucb(log, **GIVEN),
    "lints": lambda log: sparing.lints(log, **GIVEN),
    "moful": lambda log: sparing.moful(log, **GIVEN),
}


@pytest.fixture
def logged(tmp_path):
    """A file of 600 rounds of a linear world."""
    rng = np.random.default_rng(31)
    x, actions = rng.random((600, 3)), rng.integers(0, len(THETA), 600)
    rewards = (x * THETA[actions]).sum(axis=1) + 0.5 * rng.standard_normal(600)
    table = pa.table({**{f"x_{i}": x[:, i] for i in range(3)}, "action": actions, "reward": rewards})
    return write(table, tmp_path / "log.parquet", 100)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_from_a_summary_decides_like_one_from_the_log(logged, small_shards, name):
    summary = sparing.scan(logged).summary()
    gram = summary.statistics.gram.copy()
    one, other = LEARNERS[name](summary), LEARNERS[name](sparing.read_log(logged))
    np.testing.assert_allclose(one.sets.gram, other.sets.gram, rtol=1e-12)
    np.testing.assert_allclose(one.sets.response, other.sets.response, rtol=1e-12, atol=1e-12)
    rounds = make_rounds(32, THETA, 80)
    for got, expected in zip(run(one, rounds), run(other, rounds), strict=True):
        assert (got.action, got.needs_reward, got.reason) == (
            expected.action,
            expected.needs_reward,
            expected.reason,
        )
    np.testing.assert_array_equal(summary.statistics.gram, gram)


@pytest.mark.parametrize("name", ["eps_moful", "eps_moful_ips"])
def test_learners_that_need_rows_say_so(logged, name):
    with pytest.raises(SettingError, match=f"{name} needs the log's rows"):
        getattr(sparing, name)(sparing.scan(logged).summary(), supported=sparing.most_logged(2))


def test_a_summary_needs_a_name_for_each_action():
    with pytest.raises(LogError, match="2 action names for statistics of 3 actions"):
        LogSummary(Statistics.zero(3, 2), ("a", "b"))
