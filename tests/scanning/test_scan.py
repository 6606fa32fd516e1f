"""A scanned log is the log that is read: its encoder, its labels, its rows, its samples, its errors."""

import os
import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparing
from scanning.tables import raw_table, write
from sparing.errors import LogError, SettingError
from sparing.log import passes, tables
from sparing.log.log import group_hashes
from sparing.log.passes import Statistic, SumOf
from sparing.log.rows import as_rows


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(passes, "BATCH_ROWS", 64)
    monkeypatch.setattr(passes, "CHUNK_ROWS", 128)


def same(one, other):
    assert one.action_names == other.action_names
    assert one.encoder.digest == other.encoder.digest
    for name in ("contexts", "actions", "rewards", "propensities", "context_ids"):
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None and b is None) or np.array_equal(a, b), name
    assert one.support.kind == other.support.kind
    if one.support.known:
        assert np.array_equal(one.support.mask(), other.support.mask())


@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("group", [37, 10_000])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_scan_has_the_rows_that_are_read(tmp_path, small_blocks, files, group, workers):
    path = write(tmp_path / "log.parquet", 3000, files=files, group=group)
    log = sparing.read_log(raw_table(3000))
    scanned = sparing.scan(path, workers=workers)
    assert scanned.encoder.digest == log.encoder.digest
    same(scanned.read(), log)
    starts = [first for first, _ in scanned.blocks()]
    assert starts == list(range(0, 3000, 64))
    assert scanned.n_rows == len(scanned) == 3000
    assert repr(scanned) == repr(log).replace("Log", "Scan")


@pytest.mark.parametrize("kind", ["distribution", "eligible"])
@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_supports_ids_and_items_come_along(tmp_path, small_blocks, kind, ending):
    rng = np.random.default_rng(0)
    chances = rng.choice([0.0, 0.5, 1.0], (700, 3)) + np.eye(3)[rng.integers(0, 3, 700)]
    chances /= chances.sum(axis=1, keepdims=True)
    actions = np.array([rng.choice(3, p=row) for row in chances])
    sets = [[a for a in range(3) if row[a] > 0] for row in chances]
    about = (
        {"distribution": chances}
        if kind == "distribution"
        else {"eligible": sets, "propensities": np.full(700, 0.5)}
    )
    log = sparing.Log.from_arrays(
        rng.integers(0, 9, (700, 2)) / 8,
        actions,
        rng.integers(0, 2, 700),
        context_ids=np.arange(700) % 90,
        **about,
    )
    path = tmp_path / f"log.{ending}"
    sparing.write_log(log, path)
    scanned = sparing.scan(path)
    same(scanned.read(), sparing.read_log(path))
    header = scanned.header
    assert header.n_rows == 0
    assert header.support.kind == "exact"
    assert (header.support.probabilities is None) == (kind == "eligible")
    items = pa.table({"action": [0, 1, 2, 7], "size": [1.0, 2.0, 3.0, 4.0]})
    if kind == "eligible" and ending == "parquet":
        found = sparing.scan(path, items=items)
        assert found.action_names == (0, 1, 2, 7)
        assert np.array_equal(found.items.features, sparing.read_log(path, items=items).items.features)


def test_a_sample_is_uniform_and_the_same_wherever_the_rows_lie(tmp_path, small_blocks):
    path = write(tmp_path / "logs", 20_000, files=4, group=333)
    log, scanned = sparing.read_log(raw_table(20_000)), sparing.scan(path)
    for seed in (0, 5):
        few = scanned.sample(500, seed)
        assert few.n_rows == 500
        same(few, as_rows(log).sample(500, seed))
    # Of each of 20 parts about 25 rows of 500: χ² with 19 degrees of freedom.
    number = {key: row for row, key in enumerate(group_hashes(log).tolist())}
    assert len(number) > 18_000
    places = np.array([number[key] for key in group_hashes(few).tolist()]) // 1000
    counts = np.bincount(places, minlength=20)
    assert ((counts - 25) ** 2 / 25).sum() < 45
    assert scanned.sample(10**6).n_rows == 20_000


@pytest.mark.parametrize("workers", [1, 3])
def test_an_error_names_the_row_in_the_whole_log(tmp_path, small_blocks, workers):
    table = raw_table(2000)
    bad = np.array(table["propensity"]).copy()
    bad[[1500, 1900]] = [2.0, -1.0]
    pq.write_table(
        table.set_column(6, "propensity", pa.array(bad)), tmp_path / "log.parquet", row_group_size=100
    )
    with pytest.raises(LogError, match=r"propensity 2.0 at row 1500; must be in \(0, 1\]"):
        sparing.scan(tmp_path / "log.parquet", workers=workers).sample(10)


def test_progress_is_reported_for_every_pass(tmp_path, small_blocks):
    seen = []
    path = write(tmp_path / "log.parquet", 3000, group=100)
    scanned = sparing.scan(path, workers=2, progress=lambda *at: seen.append(at))
    first = list(seen)
    assert first[-1][0] == first[-1][1]
    sparing.LogSummary.of(scanned)
    assert len(seen) > len(first) > 1


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_progress_of_one_thread_rises_to_its_end(tmp_path, small_blocks, ending):
    path, seen = tmp_path / f"log.{ending}", []
    sparing.write_log(sparing.read_log(raw_table(3000)), path)
    scanned = sparing.scan(path, workers=1)
    sparing.LogSummary.of(scanned.on("local", workers=1, progress=lambda *at: seen.append(at)))
    assert len(seen) > 1
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert {total for _, total in seen} == {seen[-1][0]}


@pytest.mark.parametrize("rows", [3000, 3001])
def test_one_thread_reads_no_row_twice(tmp_path, small_blocks, monkeypatch, rows):
    read, whole = [], tables._Parquet.batches

    def counted(*arguments):
        for batch in whole(*arguments):
            read.append(batch.num_rows)
            yield batch

    path = write(tmp_path / "log.parquet", rows, group=700)
    monkeypatch.setattr(tables._Parquet, "batches", counted)
    for workers, once in ((1, True), (2, False)):
        scanned = sparing.scan(path, workers=workers).select(ids=False, support=False)
        read.clear()
        scanned.fold(SumOf(lambda block, first_row: block.n_rows))
        assert (sum(read) == rows) == once


def test_other_tools_files_are_scanned(tmp_path):
    (tmp_path / "log.vw").write_text("1:-1:0.5 | a:1 b:2\n2:0:0.5 | a:0.5 b:1\n")
    items = {"action": [1, 2, 3], "x_size": [1.0, 2.0, 3.0]}
    rows = sparing.scan(tmp_path / "log.vw", items=items)
    assert rows.action_names == (1, 2, 3)
    assert rows.items.features.shape[0] == rows.read().items.features.shape[0] == 3
    assert sparing.scan(
        tmp_path / "log.vw", actions=["x", "y"], context_id="tag"
    ).read().actions.tolist() == [0, 1]
    with pytest.raises(LogError, match="no 'position'; known are"):
        sparing.scan(tmp_path / "log.vw", position=1)


def test_what_is_not_scanned_is_refused(tmp_path):
    (tmp_path / "log.vw").write_text("1:-1:0.5 | a:1 b:2\n")
    for source in (raw_table(10), tmp_path / "log.vw"):
        with pytest.raises(SettingError, match="engine='spark'"):
            sparing.scan(source, engine="spark")
    with pytest.raises(LogError, match="no rows"):
        sparing.scan(raw_table(10).slice(0, 0))


class Deadly(Statistic):
    """Counts rows; the process that meets a row for the first time is killed."""

    def __init__(self, mark, row):
        self.mark, self.row = mark, row

    def zero(self):
        return 0

    def update(self, state, block, first_row):
        if first_row == self.row and not os.path.exists(self.mark):  # noqa: PTH110
            open(self.mark, "w").close()  # noqa: PTH123
            os.kill(os.getpid(), signal.SIGKILL)
        return state + block.n_rows

    def merge(self, one, other):
        return one + other


def test_a_worker_killed_in_the_middle_of_a_scan(tmp_path, client):
    path = write(tmp_path / "logs", 600_000, files=3)
    scanned = sparing.scan(path, engine=client)
    assert scanned.fold(Deadly(str(tmp_path / "mark"), 262_144)) == 600_000
    assert (tmp_path / "mark").exists()
