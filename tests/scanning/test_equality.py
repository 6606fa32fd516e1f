"""Audit, sums, evaluation, learning and learners give the same bits in memory and on every engine, and after a killed worker."""

import os
import signal
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparing
from scanning.tables import raw_table, write
from sparing.model import statistics
from sparing.policies.policy import UniformPolicy

ROWS = 200_000


def everything(log):
    """All that is asked of a log, as plain values."""
    policy = sparing.learn(log, "greedy", holdout=0.25)
    learner = sparing.confident(log, tolerance=0.05)
    uniform = UniformPolicy(log.action_names)
    summary = sparing.LogSummary.of(log)
    return {
        "audit": sparing.audit(log, policy=uniform).to_dict(),
        "sums": {
            name: getattr(summary.statistics, name)
            for name in ("counts", "gram", "response", "squares", "largest")
        },
        "reservoir": summary.context_sample,
        "evaluate": sparing.evaluate(log, uniform, methods=["ips", "snips", "dr", "aipw"]).to_dict(),
        "resampled": sparing.evaluate(log, uniform, methods=["snips"], interval="block-bootstrap").to_dict(),
        "judged": sparing.evaluate(log, policy, methods=["dr"]).to_dict(),
        "greedy": {"theta": policy.theta, "notes": policy.notes, "sketch": policy.trained_on.sketch},
        "confident": {"theta": learner.sets.theta, "promise": learner._guarantee},
    }


def same(one, other, where=""):
    assert type(one) is type(other), where
    if isinstance(one, dict):
        assert list(one) == list(other), where
        for key in one:
            same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for place, pair in enumerate(zip(one, other, strict=True)):
            same(*pair, f"{where}[{place}]")
    elif isinstance(one, np.ndarray):
        assert np.array_equal(one, other), where
    else:
        assert one == other or one != one, where  # NaN is itself


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write(tmp_path_factory.mktemp("equal") / "logs", ROWS, files=3, group=30_000)


@pytest.fixture(scope="module")
def in_memory():
    return everything(sparing.read_log(raw_table(ROWS)))


@pytest.fixture(params=["one thread", "two threads", "dask"])
def engine(request):
    if request.param == "dask":
        return sparing.engines.dask(request.getfixturevalue("client"))
    return {
        "one thread": sparing.engines.local(1),
        "two threads": sparing.engines.local(2),
    }[request.param]


def test_the_same_bits(path, in_memory, engine):
    same(everything(sparing.scan(path, engine=engine)), in_memory)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A file of more texts than a chunk has rows, and than the sample to which directions are fitted; and its log."""
    rng, rows = np.random.default_rng(5), 132_000
    words = np.array([f"{start}{end}" for start in "bdfgk" for end in ("al", "em", "ix", "on", "ut")])
    lines = [" ".join(line) for line in words[rng.integers(0, len(words), (rows, 4))].tolist()]
    table = pa.table({"prompt": lines, "action": rng.integers(0, 2, rows), "reward": rng.random(rows)})
    path = tmp_path_factory.mktemp("texts") / "log.parquet"
    pq.write_table(table, path, row_group_size=30_000)
    return path, sparing.read_log(table, features=sparing.features(prompt="text"))


def test_the_same_directions_of_texts(texts, engine):
    path, log = texts
    scanned = sparing.scan(path, engine=engine, features=sparing.features(prompt="text"))
    assert scanned.encoder.digest == log.encoder.digest
    got, expected = (sparing.LogSummary.of(each) for each in (scanned, log))
    same(got.statistics.counts, expected.statistics.counts)
    same(got.context_sample, expected.context_sample)


def test_the_same_sums_of_columns_that_are_not_turned_into_rows(tmp_path, monkeypatch, engine):
    """The log in memory has rows; numbers of any size, and row groups that end nowhere near leaves."""
    monkeypatch.setattr(statistics, "COMPILED_CELLS", 0)
    rng = np.random.default_rng(3)
    columns = {f"x_{j}": rng.normal(size=ROWS) * 10.0**j for j in range(7)}
    columns["x_5"] = columns["x_5"].astype(np.float32)
    columns["x_6"] = rng.integers(-9, 10, ROWS)
    table = pa.table({**columns, "action": rng.integers(0, 5, ROWS), "reward": rng.normal(size=ROWS)})
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=30_000)
    got = sparing.LogSummary.of(sparing.scan(tmp_path / "log.parquet", engine=engine))
    expected = sparing.LogSummary.of(sparing.read_log(table))
    same(vars(got.statistics), vars(expected.statistics))
    same(got.context_sample, expected.context_sample)


def test_the_same_bits_while_dask_workers_are_killed(path, in_memory, client):
    """One of the two workers is killed, and again when another has come in its place, as long as there is work."""
    done, killed = threading.Event(), []

    def kill():
        while not done.wait(0.4):
            try:
                pids = client.run(os.getpid)
            except OSError:  # the scheduler has not yet noticed that the last victim is gone
                continue
            if len(pids) == 2 and len(killed) < 4:
                victim = sorted(pids.values())[len(killed) % 2]
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        found = everything(sparing.scan(path, engine=client))
    finally:
        done.set()
        killer.join()
    assert killed
    same(found, in_memory)
    client.wait_for_workers(2, timeout=60)


def test_words_of_a_dictionary_count_in_the_order_of_their_rows(tmp_path):
    """Ties for the last of 64 places, and sums of numbers as text, are as in memory, whatever a file's dictionary has first."""
    rng = np.random.default_rng(4)
    n = 80 * 30
    columns = {
        "word": np.array([f"w{i:02}" for i in range(80)])[rng.permutation(np.arange(n) % 80)],
        "price": np.array([f"{i / 7:.3f}" for i in range(300)])[rng.permutation(np.arange(n) % 300)],
        "action": np.array(["b", "a"])[rng.integers(0, 2, n)],
    }
    reward = pa.array(rng.normal(size=n))
    plain = pa.table({**columns, "reward": reward})
    coded = {
        name: pa.DictionaryArray.from_arrays(
            np.searchsorted(words, values).astype(np.int32), pa.array(words, pa.string())
        )
        for name, values in columns.items()
        for words in [np.unique(np.append(values, ["", "0", "never"]))]
    }
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({**coded, "reward": reward}), path, store_schema=False)
    assert pq.read_schema(path).field("word").type == pa.string()
    scanned, known = sparing.scan(path), sparing.read_log(plain)
    assert scanned.header.encoder.header() == known.encoder.header()
    assert {column.kind for column in known.encoder.columns} == {"category", "number"}
    np.testing.assert_array_equal(next(iter(scanned.blocks()))[1].contexts, known.contexts)
