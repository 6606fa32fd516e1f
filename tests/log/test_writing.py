"""What `write_log` writes, `read_log` reads back, whatever the format, the support and the labels."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from each import for_each
from sparing.errors import FileError, LogError
from sparing.log import Log, Support, passes, read_log, tables, write_log, writer

LABELS = {
    "str": ["b", "a", 'odd, "one"\nwith é', "", "never"],
    "int": [7, -1, 0, 300, 12],
    "huge int": [2**70, 1, 2, 3, 4],
    "float": [0.5, -1.0, 1e-300, 3.0, 2.5],
    "bool": [True, False],
    "tuple": [("a", 1), ("a", 2), ("b", (0.5, True)), (), ("never",)],
    "mixed": ["b", 1, 1.5, ("c", 2), False],
}
PREFIXES = [1, 1.5, "1.5.2", "1.", "a.b"]
ENDINGS = ["parquet", "arrow", "csv"]
SUPPORTS = ["distribution", "eligible", "estimated distribution", "estimated eligible", "none"]


def random_log(names, support, *, rows=50, seed=0, **more):
    """Rows with a few distinct distributions; the last action, of several, is never logged."""
    rng = np.random.default_rng(seed)
    k = len(names)
    shares = rng.dirichlet(np.ones(k), size=6) * (rng.random((6, k)) < 0.6)
    shares[:, 0] += 0.1
    shares[:, 1:][:, -1:] = 0
    shares = (shares / shares.sum(axis=1, keepdims=True))[rng.integers(6, size=rows)]
    actions = np.array([rng.choice(k, p=row) for row in shares], dtype=np.int32)
    kind = "estimated" if support.startswith("estimated") else "exact"
    if support == "none":
        known = Support.unknown(rows, k)
    elif support.endswith("distribution"):
        known = Support.from_distribution(shares, kind=kind)
    else:
        known = Support.from_mask(shares > 0, kind=kind)
    return Log.from_indices(
        rng.standard_normal((rows, 3)) * 10.0 ** rng.integers(-300, 49, size=(rows, 3)),
        actions,
        rng.standard_normal(rows),
        tuple(names),
        support=known,
        **more,
    )


def assert_same(found, log):
    for name in ("contexts", "actions", "rewards", "propensities", "context_ids"):
        old, new = getattr(log, name), getattr(found, name)
        assert (old is None) == (new is None), name
        if old is not None:
            np.testing.assert_array_equal(new, old, strict=name != "actions", err_msg=name)
    assert found.action_names == log.action_names
    assert [type(name) for name in found.action_names] == [type(name) for name in log.action_names]
    assert found.feature_names == log.feature_names
    assert found.support.kind == log.support.kind
    if log.support.known:
        np.testing.assert_array_equal(found.support.mask(), log.support.mask())
    assert (found.support.distribution() is None) == (log.support.distribution() is None)
    if log.support.distribution() is not None:
        np.testing.assert_array_equal(found.support.distribution(), log.support.distribution())


def round_trip(log, path, **options):
    write_log(log, path)
    return read_log(path, **options)


@for_each("labels", LABELS)
@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_round_trip_changes_nothing(tmp_path, ending, support, labels):
    """A text file needs the labels that are not whole numbers; the others need nothing."""
    log = random_log(LABELS[labels], support)
    options = {"actions": LABELS[labels]} if ending == "csv" else {}
    assert_same(round_trip(log, tmp_path / f"log.{ending}", **options), log)


@for_each("ids", [[5, 3], ["u", 'é, "v"\n'], np.array([2**64 - 1, 0], dtype=np.uint64)])
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_ids_propensities_and_feature_names_are_kept(tmp_path, ending, ids):
    ids = np.array(ids)[np.arange(50) % 2]
    log = random_log(
        ["a", "b", "c"],
        "eligible",
        propensities=np.linspace(0.1, 1, 50),
        context_ids=ids,
        feature_names=["age", "x_size", "é, .\n"],
    )
    assert_same(round_trip(log, tmp_path / f"log.{ending}"), log)


def test_csv_keeps_ids_as_texts(tmp_path):
    ids = np.arange(50) % 7
    names = ["age", 'size, "in" m', "of\ntwo lines"]
    log = random_log(
        ["a", "b"], "none", propensities=np.linspace(0.1, 1, 50), context_ids=ids, feature_names=names
    )
    found = round_trip(log, tmp_path / "log.csv")
    assert found.context_ids.tolist() == list(map(str, ids))
    np.testing.assert_array_equal(found.groups, log.groups)
    np.testing.assert_array_equal(found.propensities, log.propensities)
    assert found.feature_names == tuple(names)


@pytest.mark.parametrize("support", SUPPORTS)
def test_csv_reads_whole_numbers_back_as_numbers(tmp_path, support):
    log = random_log([-1, 0, 7, 12, 300], support)
    found = round_trip(log, tmp_path / "log.csv")
    assert all(type(name) is int for name in found.action_names)
    assert [found.action_names[i] for i in found.actions] == [log.action_names[i] for i in log.actions]
    if support.endswith("distribution"):
        assert_same(found, log)


@pytest.mark.parametrize("support", ["eligible", "distribution", "none"])
def test_csv_reads_other_labels_back_as_their_texts(tmp_path, support):
    log = random_log([0.5, ("a", 1), True], support)
    found = round_trip(log, tmp_path / "log.csv")
    texts = ["0.5", '{"tuple": ["a", 1]}', "true"]
    assert [found.action_names[i] for i in found.actions] == [texts[i] for i in log.actions]


@pytest.mark.parametrize("support", ["distribution", "eligible"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_column_names_may_be_each_others_beginnings(tmp_path, ending, support):
    """Parquet takes a dot in a column's name for a path."""
    log = random_log(PREFIXES, support, feature_names=["a", "a.b", "a.b.c"])
    assert_same(round_trip(log, tmp_path / f"log.{ending}", actions=PREFIXES), log)


@for_each("names", [["x_1", "x_0", "x_2"], ["x_10", "x_9", "a"], ["x_10", "x_2", "x_1"]])
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_features_stay_in_their_order(tmp_path, ending, names):
    log = random_log(["a", "b"], "none", feature_names=names)
    assert_same(round_trip(log, tmp_path / f"log.{ending}"), log)


def test_many_features_are_in_the_order_of_their_numbers(tmp_path):
    contexts = np.random.default_rng(0).random((5, 12))
    log = Log.from_arrays(contexts, ["a"] * 5, np.zeros(5))
    np.testing.assert_array_equal(round_trip(log, tmp_path / "log.csv").contexts, contexts)


@for_each("support", SUPPORTS)
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("limit", ["BATCH_ROWS", "BATCH_CELLS"])
def test_batches_do_not_matter(monkeypatch, tmp_path, ending, support, limit):
    log = random_log(["a", "b", "c", "d", "e"], support, rows=1000, context_ids=np.arange(1000) // 2)
    monkeypatch.setattr(passes, limit, 64)
    monkeypatch.setattr(tables, "CSV_BLOCK", 2000)
    path = tmp_path / f"log.{ending}"
    found = round_trip(log, path, actions=log.action_names)
    if ending == "parquet":
        assert pq.ParquetFile(path).num_row_groups >= 1000 / 64
    if ending == "csv":
        assert found.context_ids.tolist() == list(map(str, log.context_ids))
        found = Log.from_indices(
            *(found.contexts, found.actions, found.rewards, found.action_names),
            propensities=found.propensities,
            support=found.support,
            context_ids=log.context_ids,
        )
    assert_same(found, log)


def test_an_estimated_support_says_so_in_its_columns(tmp_path):
    for support, column in (("estimated eligible", "estimated_eligible"), ("eligible", "eligible")):
        write_log(random_log(["a", "b"], support), tmp_path / "log.parquet")
        assert column in pq.read_schema(tmp_path / "log.parquet").names
    for support, prefix in (("estimated distribution", "estimated_p_"), ("distribution", "p_")):
        write_log(random_log(["a", "b"], support), tmp_path / "log.parquet")
        assert {f"{prefix}a", f"{prefix}b"} <= set(pq.read_schema(tmp_path / "log.parquet").names)


def test_other_tools_find_plain_columns(tmp_path):
    log = Log.from_arrays([[0.5, 1.0]], [3], [2.0], eligible=[[1, 3]], propensities=[0.25])
    write_log(log, tmp_path / "log.parquet")
    row = {"x_0": 0.5, "x_1": 1.0, "action": 3, "reward": 2.0, "propensity": 0.25, "eligible": [1, 3]}
    assert pq.read_table(tmp_path / "log.parquet").to_pylist() == [row]
    write_log(log, tmp_path / "log.csv")
    with (tmp_path / "log.csv").open(newline="") as file:
        (text,) = csv.DictReader(file)
    assert text == {**{name: f"{value:g}" for name, value in list(row.items())[:5]}, "eligible": '["1", "3"]'}


def test_an_empty_log_is_written_and_not_mistaken_for_one_with_rows(tmp_path):
    for ending in ("parquet", "arrow", "csv"):
        path = tmp_path / f"log.{ending}"
        write_log(Log.empty(action_names=["a"], n_features=2), path)
        with pytest.raises(LogError, match=r"has no rows.*Log\.empty"):
            read_log(path)


@for_each(
    ("names", "message"),
    [
        ([b"a", "b"], "cannot be written"),
        (["1", 1], "one in a text column"),
        ([True, "true"], "one in a text column"),
    ],
)
@pytest.mark.parametrize("ending", ENDINGS)
def test_labels_that_a_file_cannot_hold_leave_no_file(tmp_path, ending, names, message):
    with pytest.raises(LogError, match=message):
        write_log(random_log(names, "none"), tmp_path / f"log.{ending}")
    assert list(tmp_path.iterdir()) == []


def test_features_that_a_file_cannot_tell_apart(tmp_path):
    log = random_log(["a", "b"], "none", feature_names=["age", "x_age", "c"])
    with pytest.raises(LogError, match="differ only in a prefix x_"):
        write_log(log, tmp_path / "log.parquet")


def test_an_unknown_ending(tmp_path):
    with pytest.raises(LogError, match=r"unknown ending '\.xlsx'; known are \.parquet, .*\.csv"):
        write_log(random_log(["a", "b"], "none"), tmp_path / "log.xlsx")


@pytest.mark.parametrize("name", ["log.pq", "log.feather", "log.ipc", "LOG.PARQUET", "two.dots.arrow"])
def test_other_endings_of_the_same_formats(tmp_path, name):
    log = random_log(["a", "b"], "eligible")
    assert_same(round_trip(log, tmp_path / name), log)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_missing_folder(tmp_path, ending):
    with pytest.raises(FileError, match=r"does not exist\. Create it first"):
        write_log(random_log(["a", "b"], "none"), tmp_path / "absent" / f"log.{ending}")


@pytest.mark.parametrize("interruption", [RuntimeError, KeyboardInterrupt, pa.ArrowInvalid])
@pytest.mark.parametrize("ending", ENDINGS)
def test_an_interrupted_write_leaves_the_old_file(monkeypatch, tmp_path, ending, interruption):
    path = tmp_path / f"log.{ending}"
    write_log(random_log(["a", "b"], "none"), path)
    before, batches = path.read_bytes(), writer._batches

    def half(log, schema):
        yield from list(batches(log, schema))[:1]
        raise interruption("in the middle")

    monkeypatch.setattr(writer, "_batches", half)
    with pytest.raises(interruption):
        write_log(random_log(["a", "b"], "eligible", rows=80, seed=1), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
