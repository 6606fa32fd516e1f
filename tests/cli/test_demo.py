"""`sparing demo`: the made-up desk, the data set that needs no network, and the command line around it."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sparing
from reference.accessibility import assert_readable
from reference.browser import assert_self_contained
from sparing.cli import app, main

README = Path(__file__).parents[2] / "README.md"


def run(*words: str):
    return CliRunner().invoke(app, list(words))


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """What people see, and the folder, whose name is foreign text."""
    folder = tmp_path_factory.mktemp("the <b>desk")
    result = run("demo", "--seeds", "1", "--out", str(folder))
    assert result.exit_code == 0, result.output
    return folder, result


def test_the_desk_is_told_from_raw_rows_to_money(desk):
    folder, result = desk
    text = result.stdout
    assert "simulated" in text
    assert "premium  handler    saved" in text
    assert "action new-llm never tried" in text
    assert "where premium is false: action agent never tried" in text
    assert "economical had" in text
    assert "The truth: an answer solves a ticket with a logistic probability" in " ".join(text.split())
    assert sorted(path.name for path in folder.iterdir()) == ["demo.html", "demo.png", "tickets.csv"]


def test_the_readme_shows_what_the_demo_prints(tmp_path):
    printed = run("demo", "--out", str(tmp_path)).stdout
    shown = re.search(r"```text\n(Live: .*?)```", README.read_text(encoding="utf-8"), re.DOTALL)[1]
    assert [line.rstrip() for line in shown.splitlines()] == [
        line.rstrip() for line in printed[printed.index("Live: ") :].splitlines()[: len(shown.splitlines())]
    ]


def test_what_comes_next_runs_as_printed(monkeypatch, tmp_path):
    """Also on a narrow terminal, where sentences are wrapped."""
    monkeypatch.setenv("COLUMNS", "80")
    result = run("demo", "--seeds", "1", "--out", str(tmp_path))
    after = result.stdout.partition("Next:\n")[2].strip().split("\n")
    audited, planned = (shlex.split(line.partition("sparing ")[2]) for line in after)
    assert planned[planned.index("--costs") + 1].split(",")[3] == "agent=4"
    done = run(*audited)
    assert done.exit_code == 0, done.output
    assert "never tried: 1 action (new-llm)" in done.stdout
    small = "--worlds=3 --confidence=0.5 --horizon=300 --workers=1 --learners=economical"
    planned = run(*planned, *shlex.split(small))
    assert planned.exit_code == 0, planned.output
    assert "economical at 0.8" in planned.stdout


def test_the_desk_page_is_self_contained_and_escaped(desk):
    folder, _ = desk
    html = (folder / "demo.html").read_text(encoding="utf-8")
    assert_self_contained(html)
    assert "<b>desk" not in html
    assert "&lt;b&gt;desk" in html


def test_the_desk_as_json_adds_up(tmp_path):
    words = ["demo", "--seeds", "1", "--call-cost", "0.5", "--json", "--out", str(tmp_path)]
    result = json.loads(run(*words).stdout)
    assert result["never_tried"] == ["new-llm"]
    assert len(result["learners"]) == 6
    for learner in result["learners"]:
        (reviews,), (paid,), (earned,), (net,) = (
            learner[name] for name in ("reviews", "paid", "earned", "net")
        )
        assert paid == pytest.approx(0.5 * reviews)
        assert net == pytest.approx(earned - paid)


def test_without_matplotlib_the_same_is_printed_and_the_extra_named(desk, tmp_path, monkeypatch):
    _, before = desk
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("demo", "--seeds", "1", "--out", str(tmp_path))
    assert result.exit_code == 0
    first, again = (text.partition("\nLog:") for text in (before.stdout, result.stdout))
    assert "economical had" in again[0]
    assert again[0] == first[0]
    assert "pip install 'sparing[" in again[2]
    assert [path.name for path in tmp_path.iterdir()] == ["tickets.csv"]


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
    assert by_name["offline policy"]["calls"] == [0, 0]
    assert by_name["mOFUL, cold"]["calls"] == [result["rounds"]] * 2
    assert all(0 <= error <= 1 for row in by_name.values() for error in row["final_error"])
    assert result["rounds"] == round(1797 * 0.85) - round(1797 * 0.6)


def test_asking_pays_where_the_log_is_blind(shown):
    _, result, _ = shown
    by_name = {row["name"]: row for row in result["learners"]}
    alone = by_name["offline policy"]
    assert min(alone["final_error"]) > 0.25  # three of ten classes were never logged
    for name in ("confident", "economical", "economical, kernel"):
        assert max(by_name[name]["final_error"]) < min(alone["final_error"])
        assert max(by_name[name]["calls"]) < result["rounds"]


def test_same_seeds_same_numbers(shown, tmp_path):
    _, result, _ = shown
    again = json.loads(
        run("demo", "--data", "digits", "--seeds", "1", "--out", str(tmp_path), "--json").stdout
    )
    assert again["learners"] == [
        {name: value[:1] if isinstance(value, list) else value for name, value in row.items()}
        for row in result["learners"]
    ]


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
    refused(["demo", *out, *words], message, monkeypatch, capsys)
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--never", "1"], "with --data"),
        (["--call-cost", "-1"], "--call-cost -1"),
        (["--call-cost", "nan"], "--call-cost nan"),
        (["--tolerance", "-1"], "--tolerance -1.0"),
    ],
)
def test_the_desk_refuses_bad_settings(words, message, tmp_path, monkeypatch, capsys):
    refused(["demo", "--out", str(tmp_path / "o"), *words], message, monkeypatch, capsys)
    assert not (tmp_path / "o").exists()


def refused(words, message, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["sparing", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


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
