"""Pieces of an experiment: kept one by one, resumed by the same code only, recomputed when damaged."""

import json
import math

import pytest

import pretended
from research.paper import running
from research.paper.experiment import digest, settled
from research.paper.running import Pieces
from sparing.errors import FileError, StoppedError


@pytest.fixture
def done(tmp_path, monkeypatch):
    """Which seeds were run, in the order of their names."""
    folder = tmp_path / "done"
    folder.mkdir()
    monkeypatch.setenv("PRETENDED_DONE", str(folder))
    return lambda: sorted(int(path.name.partition("-")[0]) for path in folder.iterdir())


def pieces(out, **changes):
    return Pieces(pretended.experiment(), pretended.Setting(**changes), out)


def plain(pairs):
    """NaN is not equal to itself; its name is."""
    return json.dumps(pairs)


def test_what_was_kept_is_not_run_again_and_is_the_same(tmp_path, done):
    first = pieces(tmp_path).run(workers=1)
    assert done() == [0, 1, 2, 3, 4, 5]
    assert plain(pieces(tmp_path).run(workers=1)) == plain(first)
    assert done() == [0, 1, 2, 3, 4, 5]
    assert [unit["seed"] for unit, _ in first] == [0, 1, 2, 3, 4, 5]
    assert first[0][1]["value"] == pretended.run({"seed": 0, "scale": 1.0})["value"]
    assert math.isnan(first[0][1]["lost"])


def test_two_processes_keep_the_same_as_one(tmp_path):
    alone = pieces(tmp_path / "1").run(workers=1)
    assert plain(pieces(tmp_path / "2").run(workers=2)) == plain(alone)
    for path in (tmp_path / "1" / running.UNITS / "fig1").iterdir():
        assert path.read_bytes() == (tmp_path / "2" / running.UNITS / "fig1" / path.name).read_bytes()


def test_an_interruption_keeps_what_is_finished_and_says_so(tmp_path, done, monkeypatch):
    monkeypatch.setenv("PRETENDED_STOP", "4")
    with pytest.raises(
        StoppedError, match=r"interrupted; 4 of 6 pieces of fig1 are kept in .*; run the same"
    ) as told:
        pieces(tmp_path).run(workers=1)
    assert str(tmp_path) in str(told.value)
    monkeypatch.delenv("PRETENDED_STOP")
    heard = []
    again = pieces(tmp_path).run(workers=1, progress=lambda *told: heard.append(told))
    assert done() == [0, 1, 2, 3, 4, 5], "each exactly once"
    assert heard == [(4, 6), (5, 6), (6, 6)]
    assert plain(again) == plain(pieces(tmp_path / "whole").run(workers=1))


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"value": ', '"value": 1'),
        lambda text: text.replace('"seed": 2', '"seed": 3'),
        lambda text: "[1, 2]",
        lambda text: "\x00\xff",
    ],
)
def test_a_damaged_piece_is_run_again(tmp_path, done, damage):
    whole = pieces(tmp_path)
    first = whole.run(workers=1)
    (path,) = (p for p in whole.folder.iterdir() if '"seed": 2,' in p.read_text())
    path.write_text(damage(path.read_text()))
    assert len(pieces(tmp_path).kept()) == 5
    assert plain(pieces(tmp_path).run(workers=1)) == plain(first)
    assert done() == [0, 1, 2, 2, 3, 4, 5]


def test_other_code_other_settings_and_other_versions_are_not_resumed(tmp_path, monkeypatch):
    pieces(tmp_path).run(workers=1)
    assert len(pieces(tmp_path).kept()) == 6
    assert not pieces(tmp_path, scale=2.0).kept()
    assert len(pieces(tmp_path, seeds=(4, 5, 6)).kept()) == 2
    assert not Pieces(pretended.experiment("fig2"), pretended.Setting(), tmp_path).kept()
    with monkeypatch.context() as other:
        other.setattr(running, "fingerprint", lambda: "other code")
        assert not pieces(tmp_path).kept()
    with monkeypatch.context() as other:
        other.setattr("sparing.__version__", "99")
        assert not pieces(tmp_path).kept()
    assert len(pieces(tmp_path).kept()) == 6


def test_the_fingerprint_sees_what_results_depend_on_and_no_more(tmp_path, monkeypatch):
    def changed(path, content):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
        running.fingerprint.cache_clear()
        return running.fingerprint()

    monkeypatch.setattr("sparing.__file__", str(tmp_path / "__init__.py"))
    try:
        empty = changed("__init__.py", "")
        first = changed("online/sets.py", "a = 1")
        assert len({empty, first, changed("online/sets.py", "a = 2"), changed("online/more.py", "")}) == 4
        before = running.fingerprint()
        assert changed("report/html.py", "b = 1") == changed("cli/audit.py", "b = 2") == before
        assert changed("online/sets.txt", "no code") == before
    finally:
        running.fingerprint.cache_clear()


def test_the_fingerprint_sees_the_experiments_and_the_learners_but_not_the_figures(tmp_path, monkeypatch):
    for path in ("research/learners.py", "research/paper/running.py", "research/paper/report/page.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    monkeypatch.setattr(running, "__file__", str(tmp_path / "research" / "paper" / "running.py"))

    def changed(path):
        (tmp_path / "research" / path).write_text(f"changed = {path!r}")
        running.fingerprint.cache_clear()
        return running.fingerprint()

    try:
        running.fingerprint.cache_clear()
        before = running.fingerprint()
        assert changed("paper/report/page.py") == before
        assert len({before, changed("learners.py"), changed("paper/fig1.py")}) == 3
    finally:
        running.fingerprint.cache_clear()


def test_a_folder_that_cannot_be_written_is_told_before_any_work(tmp_path, done):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot create the folder"):
        pieces(tmp_path / "file").run(workers=1)
    assert done() == []


def test_settled_values_are_strict_json_with_twelve_digits():
    found = settled({"a": (1, 1 / 3), 2: float("nan"), "c": [float("inf"), -float("inf"), True, None, "x"]})
    assert found == {"a": [1, 0.333333333333], "2": None, "c": ["inf", "-inf", True, None, "x"]}
    assert settled(1e-300 / 3) == pytest.approx(1e-300 / 3, rel=1e-11)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_a_digest_knows_values_not_their_order():
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert len({digest(value) for value in (1, 1.5, "1", [1], {"1": 1}, None)}) == 6
