"""Words at the prompt: helps that are whole, tables that fit, commands to copy that run, pages that cannot be drawn."""

import csv
import re
import shlex
import sys

import numpy as np
import pytest
import typer.main
from typer.testing import CliRunner

import sparing
from sparing.cli import app, terminal
from sparing.log import Log
from sparing.simulation import LinearWorld, draw_log

ORDER = [
    "demo",
    "audit",
    "learn",
    "evaluate",
    "ask",
    "plan",
    "serve",
    "convert",
    "export",
    "verify",
    "backup",
    "mcp",
    "keys",
    "warm-up",
]
ROLES = ["--action", "banner", "--reward", "clicked"]
QUICK = ["--horizon", "40", "--worlds", "19", "--workers", "1", "--call-cost", "0.001"]
LONG = [f"a banner whose name has forty letters {i:02}" for i in range(30)]


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)), env={"COLUMNS": "80"})


def commands(command=None, path=()):
    """Every command and its words."""
    command = command or typer.main.get_command(app)
    for name, inside in getattr(command, "commands", {}).items():
        yield (*path, name), inside
        yield from commands(inside, (*path, name))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the examples in the helps name, and a log of many long names."""
    folder = tmp_path_factory.mktemp("manners")
    log = draw_log(LinearWorld(n_actions=4, n_features=2, noise=0.5, seed=0), rows=200, never=[3], seed=0)
    sparing.write_log(log, folder / "log.parquet")
    run("convert", folder / "log.parquet", folder / "decisions.dsjson")
    run("learn", folder / "log.parquet", "--out", folder / "policy.sparing")
    rng = np.random.default_rng(0)
    for name, labels in (("clicks.csv", ["red", "blue"]), ("my long names.csv", LONG)):
        with (folder / name).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["age", "device", "banner", "clicked"])
            for i in range(600):
                age, device = int(rng.integers(18, 80)), str(rng.choice(["phone", "desk"]))
                banner = labels[rng.integers(len(labels)) if i else 0]
                writer.writerow([age, device, banner, int(rng.random() < age / 100)])
    return folder


def test_commands_are_listed_as_they_are_needed():
    text = run("--help").stdout.partition("Commands:")[2]
    assert re.findall(r"^  (\S+)", text, re.MULTILINE) == ORDER


@pytest.mark.parametrize("words", [("--help",), ("keys", "--help")])
def test_short_helps_are_whole_sentences(words):
    lines = run(*words).stdout.partition("Commands:")[2].split("\n")[1:]
    assert all(re.match(r"  [a-z-]+ +[A-Z].*[^.]\.$", line) for line in lines if line)


@pytest.mark.parametrize(
    ("words", "command"),
    list(commands()),
    ids=lambda each: " ".join(each[:2]) if isinstance(each, tuple) else "",
)
def test_every_help_begins_with_one_plain_sentence(words, command):
    first = command.help.split("\n\n")[0]
    assert re.fullmatch(r"[A-Z][^.:;]*\.", first)
    assert (
        command.commands
        if hasattr(command, "commands")
        else "Example: sparing " + " ".join(words) in command.help
    )


@pytest.fixture
def quickly(monkeypatch, folder):
    """Nothing is served, compiled or simulated for long."""
    from sparing.online import warm_up
    from sparing.planning import plan
    from sparing.service import server

    whole = plan.plan
    monkeypatch.chdir(folder)
    monkeypatch.setattr(server, "run", lambda *_, **__: None)
    monkeypatch.setattr(warm_up, "warm_up_all", lambda _: 0)
    monkeypatch.setattr(
        plan,
        "plan",
        lambda log, **given: whole(log, **given | {"horizon": 40, "worlds": 19, "workers": 1}),
    )


EXAMPLES = [
    "serve",
    "keys add",
    "keys list",
    "keys revoke",
    "backup",
    "verify",
    "mcp",
    "audit",
    "learn",
    "evaluate",
    "ask",
    "plan",
    "convert",
    "export",
    "warm-up",
    "demo",
]


def test_examples_run(quickly):
    """In an order in which each finds what it needs."""
    found = {" ".join(words): command for words, command in commands() if not hasattr(command, "commands")}
    assert sorted(found) == sorted(EXAMPLES)
    for name in EXAMPLES:
        words = shlex.split(re.search(r"Example: sparing (.*)", found[name].help, re.DOTALL)[1])
        done = run(*words)
        assert done.exit_code == (3 if "--fail-on" in words else 0), (words, done.output, done.exception)


def width_of(output):
    return max(len(line.rstrip()) for line in output.split("\n"))


def test_what_commands_print_fits_80_columns(quickly, folder):
    """Also with many actions of long names; only commands to copy and paths stay in one piece."""
    log = folder / "my long names.csv"
    run(
        "keys", "add", folder / "wide", LONG[0][:40], "--days", "9", "--experiment", LONG[1].replace(" ", "-")
    )
    given = [log.name, *ROLES, "--actions", ",".join([*LONG, "never tried"])]
    for words in (
        ["audit", *given],
        ["learn", *given, "--out", "wide.sparing"],
        ["evaluate", *given, "--policy", "wide.sparing"],
        ["ask", *given, "--call-cost", "0.001", "--calls", "20"],
        ["plan", *given, *QUICK],
        ["convert", "log.parquet", "again.csv"],
        ["verify", "shop"],
        ["keys", "list", "wide"],
    ):
        done = run(*words)
        assert done.exit_code == 0, done.output
        text = re.sub(r"^Next, .*\n(  .*\n)+", "", done.stdout, flags=re.MULTILINE)
        assert width_of(text) <= 80, words
        assert "…" not in text or words[0] in ("audit", "ask", "verify")


def test_large_numbers_fit_too(quickly, folder):
    log = sparing.read_log(folder / "log.parquet")
    large = Log.from_arrays(log.contexts, log.actions, -1.2345e7 * log.rewards, propensities=log.propensities)
    sparing.write_log(large, folder / "large.parquet")
    for words in (["evaluate", "large.parquet", "--policy", "uniform"], ["plan", "large.parquet", *QUICK]):
        assert width_of(run(*words).stdout) <= 80


def next_command(output):
    """The words of the command that is advised, as a shell reads them."""
    text = re.search(r"^Next, .*:\n((?:  .*\n?)+)", output, re.MULTILINE)[1]
    first, *words = shlex.split(text.replace("\\\n", ""))
    assert first == "sparing"
    return words


def test_what_is_advised_next_runs_as_it_stands(quickly, folder):
    """From a raw log with roles, features and all actions named, through every command to the service."""
    roles = [*ROLES, "--actions", "red,blue,dark green", "--contexts", "age,device"]
    words, seen = ["audit", "clicks.csv", *roles, "--reward-range", "0,1"], []
    while words[0] not in seen:
        seen.append(words[0])
        done = run(*words)
        assert done.exit_code == 0, (words, done.output)
        if words[0] == "plan" or words[0] == "serve":
            break
        words = next_command(done.stdout)
        assert [each for each in roles if each in words] == roles
    assert seen == ["audit", "learn", "evaluate", "plan"]
    world = LinearWorld(n_actions=4, n_features=2, noise=0.05, seed=1)
    sparing.write_log(draw_log(world, rows=400, never=[3], seed=1), folder / "worth asking.parquet")
    done = run("plan", "worth asking.parquet", *QUICK, "--context-id", "")
    words = next_command(done.stdout)
    assert words[words.index("--context-id") + 1] == ""
    assert words[:2] == ["serve", "store"]
    done = run(*words)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("started", "on_path", "called"),
    [
        ("/opt/env/bin/sparing", True, "sparing"),
        ("/opt/my env/bin/sparing", False, "'/opt/my env/bin/sparing'"),
        ("/opt/env/site-packages/sparing/__main__.py", False, f"{shlex.quote(sys.executable)} -m sparing"),
        ("/opt/env/site-packages/sparing/__main__.py", True, "sparing"),
        ("notebook.py", False, "sparing"),
    ],
)
def test_what_is_advised_is_called_as_this_program_was(
    quickly, folder, monkeypatch, started, on_path, called
):
    monkeypatch.setattr(sys, "argv", [started])
    monkeypatch.setattr(terminal.shutil, "which", lambda name: "/opt/env/bin/sparing" if on_path else None)
    shown = run("convert", "decisions.dsjson", "from dsjson.parquet").stdout
    assert f"\n  {called} audit " in shown


def test_a_name_with_a_space_is_advised_as_the_shell_needs_it(quickly, folder):
    done = run("learn", "my long names.csv", *ROLES, "--out", "a policy.sparing")
    words = next_command(done.stdout)
    assert "my long names.csv" in words
    assert run(*words).exit_code == 0


def test_after_a_conversion_the_audit_is_advised(quickly, folder):
    words = next_command(run("convert", "decisions.dsjson", "from dsjson.parquet").stdout)
    assert words == ["audit", "from dsjson.parquet"]
    assert run(*words).exit_code == 0
    assert "Next" not in run("convert", "log.parquet", "out.dsjson").stdout


def test_without_matplotlib_the_table_is_printed_all_the_same(quickly, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = run("plan", "log.parquet", *QUICK, "--out", "none")
    assert done.exit_code == 0, done.output
    assert "learner (* Pareto)" in done.stdout
    assert "pip install 'sparing[report]'" in done.stderr
    assert "sparing[report]" not in done.stdout
    assert not (folder / "none").exists()


def test_an_audit_has_its_page_without_matplotlib(quickly, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run("audit", "log.parquet", "--html", "plain.html", "--fail-on", "rows>0").exit_code == 3
    assert "<h1>" in (folder / "plain.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "titles"),
    [
        (["audit", "log.parquet"], ["reading the log", "auditing"]),
        (
            ["learn", "log.parquet", "--out", "bars.sparing"],
            ["reading the log", "learning greedy", "evaluating it"],
        ),
        (["evaluate", "log.parquet", "--policy", "uniform"], ["reading the log", "evaluating"]),
        (["plan", "log.parquet", *QUICK], ["reading the log", "simulating"]),
        (["convert", "log.parquet", "bars.csv"], ["converting"]),
        (["audit", "log.parquet", "--engine", "local"], ["scanning the log", "auditing"]),
    ],
)
def test_every_long_step_has_a_bar(quickly, monkeypatch, words, titles):
    from sparing.cli import terminal

    seen, bar = [], terminal.progress_bar
    monkeypatch.setattr(terminal, "progress_bar", lambda title: seen.append(title) or bar(title))
    assert run(*words).exit_code == 0
    assert seen == titles
