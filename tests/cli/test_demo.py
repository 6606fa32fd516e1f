"""`sparing demo` on the data set that needs no network, and the command line around it."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import sparing
from reference.accessibility import assert_readable
from reference.browser import assert_self_contained
from sparing.cli import app, main


def run(*words: str):
    return CliRunner().invoke(app, list(words))


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    words = ["demo", "--data", "digits", "--seeds", "2", "--out", str(folder), "--json"]
    result = run(*words)
    assert result.exit_code == 0, result.output
    return folder, json.loads(result.stdout), words


def test_json_holds_every_learner_and_adds_up(shown):
    _, result, _ = shown
    by_name = {row["name"]: row for row in result["learners"]}
    assert len(by_name) == 6
    assert by_name["the log alone"]["calls"] == [0, 0]
    assert by_name["mOFUL, cold"]["calls"] == [result["rounds"]] * 2
    assert all(0 <= error <= 1 for row in by_name.values() for error in row["final_error"])
    assert result["rounds"] == round(1797 * 0.85) - round(1797 * 0.6)


def test_asking_pays_where_the_log_is_blind(shown):
    _, result, _ = shown
    by_name = {row["name"]: row for row in result["learners"]}
    alone = by_name["the log alone"]
    assert min(alone["final_error"]) > 0.25  # three of ten classes were never logged
    for name in ("confident", "economical", "economical, kernel"):
        assert max(by_name[name]["final_error"]) < min(alone["final_error"])
        assert max(by_name[name]["calls"]) < result["rounds"]


def test_same_seeds_same_numbers(shown, tmp_path):
    _, result, words = shown
    again = run(*words[:-2], str(tmp_path), "--json")
    assert json.loads(again.stdout) == result


def test_page_is_self_contained(shown):
    folder, _, _ = shown
    html = (folder / "demo.html").read_text(encoding="utf-8")
    assert_self_contained(html)
    assert "Computed now" in html
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in folder.iterdir()) == ["demo.html", "demo.png"]


def test_everyone_can_read_the_page_on_every_screen(shown, chromium):
    assert_readable(chromium, shown[0] / "demo.html")


def test_table_for_people(tmp_path):
    result = run("demo", "--data", "digits", "--seeds", "1", "--never", "1, 2", "--out", str(tmp_path))
    assert result.exit_code == 0
    assert "never tried: 2 actions (1, 2)" in result.stdout
    assert "confident" in result.stdout
    assert str(tmp_path / "demo.html") in result.stdout.replace("\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--never", "1,x"], "has the classes"),
        (["--never", "0,1,2,3,4,5,6,7"], "at least three must be logged"),
        (["--tolerance", "-1"], "--tolerance -1.0"),
        (["--data", "nosuch"], "nosuch"),
    ],
)
def test_bad_input_is_one_line_and_code_2(words, message, tmp_path, monkeypatch, capsys):
    out = ["--data", "digits", "--out", str(tmp_path / "o")]
    monkeypatch.setattr("sys.argv", ["sparing", "demo", *out, *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "sparing", "--help"], capture_output=True, text=True, check=True
    )
    assert "demo" in done.stdout


def test_help_shows_an_example():
    for command in app.registered_commands:
        result = run(str(command.name), "--help")
        assert result.exit_code == 0
        assert f"Example: sparing {command.name}" in result.stdout


def test_version():
    assert run("--version").stdout.strip() == sparing.__version__
