"""JSON lines of one's own are a table: nested fields are columns by their paths."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

import sparing
from sparing.errors import LogError
from sparing.log.formats import format_for_path

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
        ([[{"a": 1}]], r"line 1: .*; expected an object a line, .* is turned by: jq -c '\.\[\]' OLD > NEW"),
        ([{"a.b": 1, "a": {"b": 2}}], r"line 1 names 'a\.b' twice"),
        ([{"model": "haiku", "a": 1}], "no reward column 'quality'"),
    ],
)
def test_what_makes_no_table(tmp_path, lines, said):
    with pytest.raises(LogError, match=said):
        sparing.read_log(written(tmp_path / "log.jsonl", lines), **ROLES)


def test_a_line_that_is_cut_off_is_reported(tmp_path):
    path = written(tmp_path / "log.jsonl", rows())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(LogError, match=f"line {N} is not whole JSON"):
        sparing.read_log(path, **ROLES)


def test_a_list_over_many_lines_is_rejected_with_advice(tmp_path):
    (tmp_path / "log.jsonl").write_text(json.dumps(list(rows()), indent=1))
    with pytest.raises(LogError, match=r"line 1 is not whole JSON .* is turned by: jq -c '\.\[\]' OLD > NEW"):
        sparing.read_log(tmp_path / "log.jsonl", **ROLES)


def test_a_field_twice_in_a_line_is_reported(tmp_path):
    path = written(tmp_path / "log.jsonl", rows())
    path.write_text(path.read_text().replace('"quality"', '"quality": 1, "quality"', 1))
    with pytest.raises(
        LogError, match=r"log\.jsonl, line 1: 'quality' stands twice in one object; name each field"
    ):
        sparing.read_log(path, **ROLES)


def test_it_is_not_written(tmp_path):
    log = sparing.read_log(written(tmp_path / "log.jsonl", rows()), **ROLES)
    for write in (
        lambda: sparing.write_log(log, tmp_path / "out.jsonl"),
        lambda: format_for_path("out.jsonl"),
    ):
        with pytest.raises(LogError, match=r"\.parquet, \.pq, \.csv"):
            write()
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.filterwarnings("ignore::sparing.errors.LogWarning")
def test_whole_numbers_beyond_64_bits_are_read(tmp_path):
    lines = [
        {**row, "id": 2**63 + i * 10**6, "size": [2**70, 0.5][i % 2], "model": 10**20 + i % 2}
        for i, row in enumerate(rows())
    ]
    names = [str(10**20), str(10**20 + 1)]
    log = sparing.read_log(written(tmp_path / "log.jsonl", lines), action="model", reward="quality")
    assert log.action_names == tuple(names)
    assert [log.action_names[a] for a in log.actions] == [names[i % 2] for i in range(N)]
    assert "id: number" in log.encoder.described()
    assert "size: number" in log.encoder.described()


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (
            {3: "x", 9: 1},
            r"log\.jsonl, line 13: 'odd' is 1, a number, but it is 'x', a text, at line 7; expected",
        ),
        (
            {0: True, 1: 0},
            r"line 5: 'odd' is 0, a number, but it is True, a truth value, at line 4; expected",
        ),
        ({0: [1.0], 1: 0}, r"line 5: 'odd' is 0, a number, but it is \[1\.0\], a list, at line 4; expected"),
        ({0: [1.0, "x"]}, r"log\.jsonl: 'odd' does not make a column: .*\. Make it one kind"),
    ],
)
def test_a_field_of_several_kinds_is_reported_with_its_lines_where_it_is_used(tmp_path, odd, said):
    lines = [{**row, "odd": odd.get(i)} for i, row in enumerate(rows())]
    path = written(tmp_path / "log.jsonl", lines)
    path.write_bytes(b"\n\n\n" + path.read_bytes())
    for roles in (ROLES, {**ROLES, "reward": "odd"}, {**ROLES, "contexts": ["odd"]}):
        with pytest.raises(LogError, match=said) as error:
            sparing.read_log(path, **roles)
        assert "contexts=[...]" in str(error.value)
    log = sparing.read_log(path, **ROLES, contexts=["prompt.lang", "embedding"])
    assert log.n_rows == N


def test_lists_of_anything_but_numbers_are_left_out(tmp_path):
    tags = ([], ["a"], ["a", "b"], None)
    lines = [{**row, "tags": tags[i % 4], "none": [], "parts": [{"x": 1}]} for i, row in enumerate(rows())]
    log = sparing.read_log(written(tmp_path / "log.jsonl", lines), **ROLES)
    kinds = log.encoder.described()
    assert all(f"{name}: left out, a column of list<" in kinds for name in ("tags", "none", "parts"))


def test_vectors_of_several_lengths_are_rejected_with_advice(tmp_path):
    lines = [{**row, "embedding": [1.0] * (2 + (i > 4))} for i, row in enumerate(rows())]
    with pytest.raises(
        LogError, match=r"embedding at row 5 is .*; expected a list of 2 finite numbers.*contexts="
    ):
        sparing.read_log(written(tmp_path / "log.jsonl", lines), **ROLES)


def test_what_json_does_not_have_is_rejected_with_advice_on_null(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"model": "mini", "quality": NaN}\n')
    with pytest.raises(LogError, match=r"line 1 is not whole JSON .NaN is not a number; write null"):
        sparing.read_log(path, **ROLES)
