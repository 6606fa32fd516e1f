"""Formats are told by what files begin with, not by their names alone."""

import json

import pytest

import other_formats
from each import for_each
from sparing.errors import LogError
from sparing.log import Log, conversion, convert, read_log, write_log
from sparing.log.formats import FORMATS, OTHERS, TABLE, detect, format_for_path, matching, named


@pytest.mark.parametrize("support", ["distribution", "unknown"])
@pytest.mark.parametrize("name", [each.name for each in OTHERS])
def test_each_file_is_recognised_as_its_own_format_only(name, support, draw, tmp_path):
    for ending in (*FORMATS[name].endings, ".unheard-of", ""):
        path = tmp_path / f"log{ending}"
        other_formats.write(draw(support=support), path, name)
        assert detect(path) is FORMATS[name]
        head = path.read_bytes()[:4096]
        assert [each.name for each in matching(head, FORMATS.values())] == [name]


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
def test_tables_are_none_of_these(ending, draw, tmp_path):
    path = tmp_path / f"log.{ending}"
    write_log(draw(), path)
    assert detect(path) is TABLE
    path.rename(tmp_path / "log.unheard-of")
    assert detect(tmp_path / "log.unheard-of") is TABLE


@for_each(
    ("text", "name"),
    [
        ("| a b\n\n2:1:0.5 | a\n", "vw"),
        ("1 2:1:0.5 |ns a\n", "vw"),
        ("1:-1:0.5 'tag|ns a\n", "vw"),
        ("\ufeff1:-1:0.5 | a\r\n", "vw"),
        ("0:1:0.5 | a\n| b\n\n| a\n0:1:0.5 | b\n\n", "vw-adf"),
        ("0:1:0.5 | a\r\n| b\r\n\r\n| a\r\n0:1:0.5 | b\r\n", "vw-adf"),
        ("shared |s a\n", "vw-adf"),
        ('{"c": {"_multi": []}}\n', "dsjson"),
        ('  {"reward": 1, "action": 2, "context": null}\n', "coba"),
        ('{"reward": 1, "action": 2, "x_0": 3}\n', "table"),
        ('[ ["a"], null, "a", 1]\n', "river"),
        ("item_id,click,action_prob\n", "open-bandit"),
        ("item_id,click,price\n", "table"),
        ("x_0,action,reward\n1,a|b,2\n", "table"),
        ("| heading | of a table |\n|---|---|\n", "table"),
        ('{"other": 1}\n', "table"),
        ("[1, 2]\n", "table"),
        ("", "table"),
        ("\n\n", "table"),
        ("\x00\x01\x02", "table"),
    ],
)
def test_first_lines(text, name, tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes(text.encode())
    path = path.rename(tmp_path / "log.unheard-of")
    assert detect(path).name == name


def test_a_head_that_ends_within_a_line():
    line = b"1:-1.5:0.25 2 | a:1 b:2\n"
    for cut in range(1, 40):
        assert FORMATS["vw"].sniff((line * 3)[:-cut])


def test_objects_in_memory(draw, tmp_path):
    log = draw()
    for name in ("coba", "river"):
        other_formats.write(log, tmp_path / name, name)
        records = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        assert detect(records) is FORMATS[name]
    assert detect(other_formats.to_feedback(log)) is FORMATS["obp"]
    assert detect([{"c": {}, "_label_cost": 1}]) is FORMATS["dsjson"]
    for other in (
        [{"x_0": 1.0, "action": 1, "reward": 1}],
        {"context": [[1.0]], "action": [1], "reward": [1]},
        [],
        [1, 2],
        3,
        None,
        "no such file",
        {"a": 1},
    ):
        assert detect(other) is TABLE


def test_what_a_path_says_when_writing():
    assert format_for_path("log.vw") is FORMATS["vw"]
    assert format_for_path("LOG.NPZ") is FORMATS["obp"]
    assert format_for_path("log.dsjson") is FORMATS["dsjson"]
    assert format_for_path("log.adf") is FORMATS["vw-adf"]
    assert format_for_path("log.parquet") is format_for_path("log.CSV") is TABLE
    for path in ("log.jsonl", "log"):
        with pytest.raises(LogError, match=f"{path}: unknown ending '.*'; known are .parquet"):
            format_for_path(path)


def test_names():
    assert named("coba") is FORMATS["coba"]
    with pytest.raises(LogError, match="unknown format 'vvw'; known are obp"):
        named("vvw")
    assert all(name == each.name for name, each in FORMATS.items())


def test_any_format_converts_to_any_other(tmp_path):
    """A small log that every format can carry walks through all of them and comes home."""
    log = Log.from_arrays(
        [[0.5, 1.0], [0.25, 0.0], [0.125, -1.0]],
        [1, 2, 1],
        [1.0, 0.0, 1.0],
        distribution=[[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]],
        action_names=[1, 2],
    )
    for first in FORMATS.values():
        for second in map(FORMATS.get, other_formats.WRITTEN):
            one, two = tmp_path / f"one{first.endings[0]}", tmp_path / f"two{second.endings[0]}"
            other_formats.write(log, one, first.name)
            middle, _ = first.read(one)
            if middle.propensities is None and second.name in ("vw", "vw-adf", "dsjson"):
                continue
            second.write(middle, two)
            back, _ = second.read(two)
            assert back.contexts.tolist() == log.contexts.tolist()
            assert back.rewards.tolist() == log.rewards.tolist()
            assert back.actions.tolist() == log.actions.tolist()
            if back.propensities is not None:
                assert back.propensities.tolist() == log.propensities.tolist()


def test_json_of_one_long_line_is_recognised(tmp_path):
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"_label_cost": 1, "c": {"_multi": [{"id": "x" * 200_000}]}}))
    assert detect(path) is FORMATS["dsjson"]


@pytest.mark.parametrize("name", other_formats.ONLY_READ)
def test_a_format_that_is_only_read_is_refused_with_what_to_write(name, draw, tmp_path):
    with pytest.raises(
        LogError, match=rf"{name} is read, not written. Write .parquet or .dsjson.*docs/formats.md"
    ):
        write_log(draw(), tmp_path / "log.jsonl", name)
    with pytest.raises(LogError, match="is read, not written"):
        convert(tmp_path / "nothing.parquet", tmp_path / "log.jsonl", target_format=name)
    assert not list(tmp_path.iterdir())


def test_old_names_work_and_warn(draw, tmp_path):
    path = tmp_path / "log.dsjson"
    with pytest.warns(DeprecationWarning, match="write_log"):
        assert conversion.write_any(draw(), path) == []
    with pytest.warns(DeprecationWarning, match="notes=True"):
        log, notes = conversion.read_any(path, "dsjson")
    assert (log.n_rows, notes) == (60, read_log(path, notes=True)[1])
    with pytest.warns(DeprecationWarning, match=r"sparing\.scan"):
        assert conversion.scan_any(path)[0].n_rows == 60
    with pytest.warns(DeprecationWarning, match=r"sparing\.log\.convert"):
        conversion.convert(path, tmp_path / "log.parquet")
    assert read_log(tmp_path / "log.parquet").n_rows == 60
