"""Labels and paths are what others wrote: they are shown as they are, steer no terminal and stop no command."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sparing
from each import for_each
from sparing import simulation
from sparing.cli import main, terminal

LABELS = [
    "[/x]",
    "[red]bad",
    "{0}",
    "\x1b[31mred\x1b[0m",
    "a\nb\rc",
    "\x9b31m",
    "\u202elive",
    "é",
    "\x07\x00",
]
ODD_NAMES = ["[/x]{0}", "[red]\x1b[31m\x9bé", os.fsdecode(b"\xff")]
PLAN = ["plan", "LOG", "--horizon", "15", "--worlds", "20", "--learners", "moful", "--workers", "1"]
COMMANDS = {
    "audit": ["audit", "LOG", "--html", "OUT.html", "--policy", "uniform"],
    "learn": ["learn", "LOG", "--option", "ridge=1", "--out", "OUT"],
    "evaluate": ["evaluate", "LOG", "--policy", "uniform", "--methods", "ips"],
    "plan": PLAN,
    "convert": ["convert", "LOG", "OUT.csv"],
}


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """A log's file whose labels are hostile, as bytes."""
    world = simulation.LinearWorld(n_actions=len(LABELS), n_features=2, noise=0.5, seed=1)
    log = simulation.draw_log(world, rows=200, support="never-logged", unsupported=0.3, seed=2)
    hostile = sparing.Log.from_arrays(
        log.contexts,
        [LABELS[a] for a in log.actions],
        log.rewards,
        propensities=log.propensities,
        support=log.support,
        action_names=LABELS,
    )
    path = tmp_path_factory.mktemp("hostile") / "log.parquet"
    sparing.write_log(hostile, path)
    return path.read_bytes()


@pytest.fixture
def run(monkeypatch):
    """Run a command in this process, its streams of an encoding: (code, stdout, stderr)."""

    def running(words, encoding="utf-8"):
        streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="") for _ in range(2)]
        monkeypatch.setattr(sys, "argv", ["sparing", *map(str, words)])
        monkeypatch.setattr(sys, "stdout", streams[0])
        monkeypatch.setattr(sys, "stderr", streams[1])
        with pytest.raises(SystemExit) as left:
            main()
        for stream in streams:
            stream.flush()
        monkeypatch.undo()
        return (left.value.code or 0, *(stream.buffer.getvalue().decode(encoding) for stream in streams))

    return running


def placed(words, log, out):
    return [str(log) if word == "LOG" else word.replace("OUT", str(out)) for word in words]


def check_harmless(text):
    steering = {character for character in text if not character.isprintable()} - {"\n"}
    assert not steering, steering


@for_each("command", COMMANDS)
@for_each("encoding", ["utf-8", "ascii"])
@for_each("as_json", [False, True])
def test_hostile_labels(command, encoding, as_json, content, run, tmp_path):
    log = tmp_path / "log.parquet"
    log.write_bytes(content)
    words = placed(COMMANDS[command], log, tmp_path / "out") + ["--json"] * as_json
    code, out, err = run(words, encoding)
    assert code == 0, err
    check_harmless(out + err)
    if as_json:
        values = json.loads(out)
        if command == "learn":
            assert set(values["shares"]) == set(LABELS), "machines get the labels as they are"
    elif command == "learn":
        for shown in (
            "[/x]",
            "[red]bad",
            "{0}",
            r"\x1b[31mred\x1b[0m",
            r"a\nb\rc",
            r"\x9b31m",
            r"\u202elive",
        ):
            assert f"\n{shown} " in out
        assert ("\n\\xe9 " if encoding == "ascii" else "\né ") in out


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ODD_NAMES)
def test_hostile_paths(command, name, content, run, tmp_path):
    folder = tmp_path / f"f{name}"
    folder.mkdir(parents=True)
    log = folder / "log.parquet"
    log.write_bytes(content)
    code, out, err = run(placed(COMMANDS[command], log, folder / "out"))
    check_harmless(out + err)
    shown = terminal.shown(log)
    if name == ODD_NAMES[-1]:
        assert (code, err) == (
            2,
            f"sparing: the name of {shown} is not UTF-8, which tables need. Rename the file\n",
        )
        return
    assert code == 0, err
    if command == "convert":
        assert f"Written: {folder.parent}/{terminal.shown(folder.name)}/out.csv" in out
    if command == "evaluate":
        assert shown.replace("/", "")[-30:] in out.replace("\n", "").replace(" ", "").replace("/", "")


def test_an_output_may_have_any_name(content, run, tmp_path):
    log = tmp_path / "log.parquet"
    log.write_bytes(content)
    for name in ODD_NAMES:
        page, policy = (tmp_path / f"{ending}{name.replace('/', '')}" for ending in ("page", "policy"))
        code, out, err = run(["audit", log, "--html", page])
        assert code == 0, err
        check_harmless(out + err)
        assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
        assert run(["learn", log, "--option", "ridge=1", "--out", policy])[0] == 0
        assert sparing.load_policy(policy).action_names == tuple(LABELS)


def test_errors_are_shown_as_harmlessly(run, tmp_path):
    for name in ODD_NAMES:
        missing = tmp_path / f"no{name}" / "log.parquet"
        code, out, err = run(["audit", missing], "ascii")
        assert code == 2
        assert err.count("\n") == 1
        check_harmless(out + err)


@pytest.mark.parametrize("title", ["[/x]", "{0}", "\x1b[31m"])
def test_a_progress_bar_has_any_title(title, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with terminal.progress_bar(title) as progress:
        progress(1, 2)
    assert "\x1b[31m" not in stream.getvalue()
    assert terminal.shown(title) in stream.getvalue()


def test_help_on_a_terminal_that_has_ascii_only():
    """The help texts have Greek letters; the whole process, so that nothing is replaced by a test's stream."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-m", "sparing", "audit", "--help"],
        capture_output=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_no_command_prints_past_the_terminal():
    """Every line for people goes through `terminal`."""
    folder = Path(terminal.__file__).parent
    for path in folder.glob("*.py"):
        if path.name != "terminal.py":
            lines = path.read_text(encoding="utf-8").splitlines()
            assert [line for line in lines if line.strip().startswith("print(")] in (
                [],
                ["        print(__version__)"],
            )
