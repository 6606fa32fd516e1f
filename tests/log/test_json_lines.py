"""JSON lines of one's own are a table: nested fields are columns by their paths."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

import sparing
from sparing.errors import LogError
from sparing.log.formats import to_write

N = 120
ROLES = {"action": "model", "reward": "quality", "actions": ["haiku", "mini", "opus"]}


def rows():
    rng = np.random.default_rng(0)
    for i in range(N):
        prompt = {
            "lang": str(rng.choice(["de", "en"])),
            "tokens": int(rng.integers(10, 900)),
            "tags": {"code": bool(i % 2)},
        }
        if i % 5:
            prompt["age"] = float(i)
        row = {
            "id": f"q{i}",
            "prompt": prompt,
            "embedding": rng.normal(size=3).tolist(),
            "model": ["haiku", "mini"][i % 2],
        }
        yield {**row, "quality": round(float(rng.random()), 3)}


def written(path, lines):
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("name", ["log.jsonl", "log.ndjson", "log.jsonl.gz"])
def test_it_is_read_as_the_frame_that_pandas_makes(tmp_path, name):
    one = sparing.read_log(written(tmp_path / name, rows()), **ROLES)
    frame = pd.json_normalize(list(rows()))
    two = sparing.read_log(frame[[*one.encoder.by_column, "id", "model", "quality"]], **ROLES)
    assert np.array_equal(one.contexts, two.contexts)
    assert np.array_equal(one.rewards, two.rewards)
    assert one.action_names == two.action_names
    kinds = one.encoder.described()
    assert "prompt.lang: category of 2 values" in kinds
    assert "prompt.tags.code: bool" in kinds
    assert "prompt.age: number, some missing" in kinds
    assert "embedding: vector of 3" in kinds
    assert "id: left out" in kinds


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([{"a": 1}, [2]], r"log\.jsonl, line 2: \[2\]; expected an object a line"),
        ([{"a.b": 1, "a": {"b": 2}}], r"line 1 names 'a\.b' twice"),
        ([{"a": 1}, {"a": "x"}], r"'a' does not make a column"),
        ([{"model": "haiku", "a": 1}], "no reward column 'quality'"),
    ],
)
def test_what_makes_no_table(tmp_path, lines, said):
    with pytest.raises(LogError, match=said):
        sparing.read_log(written(tmp_path / "log.jsonl", lines), **ROLES)


def test_a_line_that_is_cut_off_is_told(tmp_path):
    path = written(tmp_path / "log.jsonl", rows())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(LogError, match=f"line {N} is not whole JSON"):
        sparing.read_log(path, **ROLES)


def test_it_is_not_written(tmp_path):
    log = sparing.read_log(written(tmp_path / "log.jsonl", rows()), **ROLES)
    for write in (lambda: sparing.write_log(log, tmp_path / "out.jsonl"), lambda: to_write("out.jsonl")):
        with pytest.raises(LogError, match=r"\.parquet, \.pq, \.csv"):
            write()
    assert not (tmp_path / "out.jsonl").exists()
