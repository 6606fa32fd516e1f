"""`python -m research reproduce` around a small experiment: what is written, resumed, merged, refused and interrupted."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import pretended
from reference.browser import assert_self_contained
from research.__main__ import app, main
from research.paper.experiment import CLAIMS, settled

SCRIPT = """
import pretended
from research.__main__ import main
from research.paper import running

if __name__ == "__main__":
    running.fingerprint = lambda: "the same code, whoever edits it meanwhile"
    pretended.install()
    main()
"""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A small experiment stands in for fig1 and fig2."""
    pretended.install(lambda name, module: monkeypatch.setitem(sys.modules, name, module))


def run(*words):
    return CliRunner().invoke(app, ["reproduce", *map(str, words)])


def files(folder):
    """Every file but the kept pieces, by its path."""
    there = (path for path in folder.rglob("*") if path.is_file() and ".units" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in there}


def test_what_is_written(tmp_path):
    result = run("fig1", "--out", tmp_path / "o", "--workers", 1)
    assert result.exit_code == 0, result.output
    assert re.search(r"C1 +Fig. 1 +holds", result.stdout)
    assert "python -m research reproduce fig2" in result.stdout
    there = files(tmp_path / "o")
    assert sorted(there) == [
        "REPRODUCTION.md",
        "does-not-hold.svg",
        "fig1/results.json",
        "fig1/values.parquet",
        "fig1/values_1.svg",
        "fig1/values_key.svg",
        "holds-only-when.svg",
        "holds.svg",
        "reproduction.html",
        "results.json",
    ]
    values = parquet.read_table(tmp_path / "o" / "fig1" / "values.parquet").to_pydict()
    assert values["seed"] == [0, 1, 2, 3, 4, 5]
    assert values["value"] == [
        settled(pretended.run({"seed": seed, "scale": 1.0})["value"]) for seed in range(6)
    ]
    assert there["fig1/values_1.svg"].startswith(b"<svg")


def test_results_are_complete_and_strict(tmp_path):
    run("fig1", "--out", tmp_path, "--workers", 1)
    text = (tmp_path / "results.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    found = json.loads(text)
    assert set(found) == {"version", "libraries", "experiments"}
    assert set(found["libraries"]) == {"python", "numpy", "scipy", "numba"}
    entry = found["experiments"]["fig1"]
    assert entry["setting"]["seeds"] == entry["seeds"] == [0, 1, 2, 3, 4, 5]
    assert entry["setting"]["scale"] == 1.0
    assert entry["numbers"]["endless"] == "inf"
    assert entry["full"] is True
    sample = pretended.run(entry["sample"]["unit"])
    assert entry["sample"]["result"]["value"] == pytest.approx(sample["value"], rel=1e-11)


def test_the_page_shows_claims_figures_and_settings_and_asks_for_nothing(tmp_path):
    run("fig1", "--out", tmp_path, "--workers", 1)
    html = (tmp_path / "reproduction.html").read_text(encoding="utf-8")
    assert_self_contained(html)
    assert html.count("<svg") == 2, "the panel and its key"
    assert "values at scale 1" in html
    assert all(re.search(rf"\b{claim}\b", html) for claim in CLAIMS)
    assert "1 holds; 9 are not run yet." in html
    markdown = (tmp_path / "REPRODUCTION.md").read_text(encoding="utf-8")
    assert "| seeds | 0 to 5 |" in markdown
    assert "| steps | 1, 2, 3, 4 |" in markdown
    assert "| words | a, b, c, d |" in markdown
    rows = [line for line in markdown.splitlines() if re.search(r"^\| .*\*\* \[?C\d+\b", line)]
    assert len(rows) == 10
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows), "a bar in a text is no border"
    for target in re.findall(r"\]\(([^)#]+)\)", markdown):
        assert (tmp_path / target).is_file(), target


@pytest.mark.thorough
def test_runs_are_identical_whatever_the_workers_and_interruptions(tmp_path, monkeypatch):
    run("fig1", "fig2", "--out", tmp_path / "a", "--workers", 1)
    run("fig1", "fig2", "--out", tmp_path / "b", "--workers", 2)
    monkeypatch.setenv("PRETENDED_STOP", "3")
    assert run("fig1", "fig2", "--out", tmp_path / "c", "--workers", 1).exit_code != 0
    monkeypatch.delenv("PRETENDED_STOP")
    run("fig1", "fig2", "--out", tmp_path / "c", "--workers", 1)
    assert files(tmp_path / "a") == files(tmp_path / "b") == files(tmp_path / "c")


def test_one_after_the_other_is_as_both_at_once(tmp_path):
    run("fig2", "--out", tmp_path / "a", "--workers", 1)
    assert list(json.loads((tmp_path / "a" / "results.json").read_text())["experiments"]) == ["fig2"]
    run("fig1", "--out", tmp_path / "a", "--workers", 1)
    run("fig1", "fig2", "--out", tmp_path / "b", "--workers", 1)
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_results_of_another_version_are_left_out_and_named(tmp_path):
    run("fig2", "--out", tmp_path, "--workers", 1)
    path = tmp_path / "fig2" / "results.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": "0.0.0"}))
    result = run("fig1", "--out", tmp_path, "--workers", 1)
    assert "of other versions: fig2" in result.stderr
    assert list(json.loads((tmp_path / "results.json").read_text())["experiments"]) == ["fig1"]
    run("fig2", "--out", tmp_path, "--workers", 1)
    assert list(json.loads((tmp_path / "results.json").read_text())["experiments"]) == ["fig1", "fig2"]


def test_files_of_an_earlier_run_that_are_no_more_go(tmp_path, monkeypatch):
    run("fig1", "--out", tmp_path, "--workers", 1)
    (tmp_path / "fig1" / "mine.txt").write_text("keep me")

    def renamed(setting, analysis):
        return {"other": pretended.draw(setting, analysis)["values"]}

    monkeypatch.setattr(sys.modules["research.paper.report.fig1"], "draw", renamed)
    run("fig1", "--out", tmp_path, "--workers", 1)
    assert sorted(path.name for path in (tmp_path / "fig1").iterdir()) == [
        "mine.txt",
        "other_1.svg",
        "other_key.svg",
        "results.json",
        "values.parquet",
    ]


def test_what_is_kept_can_be_drawn_again_without_running(tmp_path, monkeypatch):
    run("fig1", "--quick", "--out", tmp_path, "--workers", 1)
    before = files(tmp_path)
    for name in ("REPRODUCTION.md", "reproduction.html", "fig1/values_1.svg"):
        (tmp_path / name).unlink()
    monkeypatch.setattr(pretended, "run", None)
    monkeypatch.setattr("research.paper.report.page.__version__", "9.9.9")
    result = run("--render", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "fig1: drawn again" in result.stderr
    assert "fig2: no results in" in result.stderr
    assert files(tmp_path) == before, "of whatever version: nothing is computed"


def test_results_of_a_setting_that_is_no_more_are_not_drawn(tmp_path, monkeypatch, capsys):
    run("fig1", "--out", tmp_path, "--workers", 1)
    path = tmp_path / "fig1" / "results.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"setting_sha256": "another"}))
    code, told = outcome(monkeypatch, capsys, "fig1", "--render", "--out", tmp_path)
    assert code == 2
    assert "fig1 are of a setting that this code does not have; run them again" in told


def test_json_quick_and_seeds(tmp_path):
    result = run("fig1", "--quick", "--json", "--out", tmp_path, "--workers", 1)
    printed = json.loads(result.stdout)
    assert printed == json.loads((tmp_path / "results.json").read_text())
    entry = printed["experiments"]["fig1"]
    assert entry["seeds"] == [0, 1, 2]
    assert entry["full"] is False
    result = run("fig1", "--seeds", 5, "--json", "--out", tmp_path, "--workers", 1)
    assert json.loads(result.stdout)["experiments"]["fig1"]["seeds"] == [0, 1, 2, 3, 4]
    assert "3 of 5 pieces are there from an earlier run" in result.stderr


def outcome(monkeypatch, capsys, *words):
    """Exit code and error text of the command as people run it."""
    monkeypatch.setattr("sys.argv", ["research", "reproduce", *map(str, words)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fig9"], "no experiment is called 'fig9'; there are fig1, fig2"),
        (["fig1", "--workers", "0"], "--workers 0; must be a whole number, 1 or more"),
        (["fig1", "--out", "/dev/null/x"], "cannot create the folder /dev/null/x: /dev/null is a file"),
        (["fig1", "--out", "/proc/nothing"], "cannot create the folder /proc/nothing"),
    ],
)
def test_bad_input_is_one_line_and_code_2(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, told = outcome(monkeypatch, capsys, *words)
    assert code == 2
    assert message in told
    assert told.count("\n") == 1


def test_missing_data_stop_one_experiment_only(tmp_path, monkeypatch, capsys):
    run("fig2", "--out", tmp_path, "--workers", 1)
    monkeypatch.setenv("PRETENDED_MISSING", "5")
    code, told = outcome(monkeypatch, capsys, "fig1", "fig2", "--out", tmp_path, "--workers", 1)
    assert code == 2
    assert "fig1: the data set nowhere could not be had" in told
    assert list(json.loads((tmp_path / "results.json").read_text())["experiments"]) == ["fig2"]
    monkeypatch.delenv("PRETENDED_MISSING")
    assert "5 of 6 pieces are there" in run("fig1", "--out", tmp_path, "--workers", 1).stderr


def test_ctrl_c_ends_all_processes_quietly_and_can_go_on(tmp_path):
    script, out, done = tmp_path / "script.py", tmp_path / "o", tmp_path / "done"
    script.write_text(SCRIPT)
    done.mkdir()
    tests = Path(pretended.__file__).parents[1]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tests), *filter(None, sys.path)]),
        "PRETENDED_DONE": str(done),
        "PRETENDED_SECONDS": "0.4",
    }
    command = [sys.executable, str(script), "reproduce", "fig1", "--out", str(out), "--workers", "2"]
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 60
        while not list((out / ".units" / "fig1").glob("*.json")) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process gets it
        _, told = process.communicate(timeout=60)
    kept = len(list((out / ".units" / "fig1").glob("*.json")))
    assert process.returncode == 130
    assert told == (
        f"sparing: interrupted; {kept} of 6 pieces of fig1 are kept in {out / '.units' / 'fig1'}; "
        "run the same command again to go on\n"
    )
    assert 0 < kept < 6
    assert not list(out.rglob("*.part"))
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert f"{kept} of 6 pieces are there from an earlier run" in again.stderr
    assert len(json.loads((out / "results.json").read_text())["experiments"]["fig1"]["seeds"]) == 6
