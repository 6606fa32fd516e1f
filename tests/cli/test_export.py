"""`sparing export` writes what `policy.export` gives, of policies and learners, to a file or a pipe."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import sparing
from sparing.cli import app

TABLE = {
    "word": ["a", "b"] * 60,
    "action": ["x", "x", "y", "y"] * 30,
    "reward": [0.1, 0.9, 0.8, 0.3, 0.4, 0.7] * 20,
}


@pytest.fixture
def policy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = sparing.learn(sparing.read_log(TABLE), "greedy", ridge=1.0)
    sparing.save_policy(found, "policy.sparing")
    return found


def run(*words):
    return CliRunner().invoke(app, ["export", *words])


def test_files(policy, tmp_path):
    for words, exported in (
        (["--format", "json"], policy.export("json")),
        (["--format", "onnx"], policy.export("onnx")),
        (
            ["--format", "sql", "--dialect", "sqlite", "--table", "main.visits"],
            policy.export("sql", dialect="sqlite", table=["main", "visits"]),
        ),
    ):
        done = run("policy.sparing", *words, "--out", "written")
        assert done.exit_code == 0, done.output
        assert done.output == "Written: written\n"
        content = (tmp_path / "written").read_bytes()
        assert content == (exported.encode() if isinstance(exported, str) else exported)


def test_a_pipe_gets_every_character(policy):
    words = [sys.executable, "-m", "sparing", "export", "policy.sparing"]
    done = subprocess.run(
        words,
        capture_output=True,
        check=True,
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.decode() == policy.export("json")


def test_a_learner_is_exported_by_its_greedy_policy(policy):
    learner = sparing.linucb(sparing.read_log(TABLE), seed=0)
    learner.save("learner.sparing")
    assert run("learner.sparing").stdout == learner.policy().export("json")


def test_refusals_name_options(policy, monkeypatch, capsys):
    from sparing.cli import main

    for words, told in (
        (["--format", "sql"], "needs a database: --dialect duckdb"),
        (["--format", "onnx"], "--out policy.onnx"),
        (["--format", "pmml"], "--format pmml; must be one of json, sql, onnx"),
    ):
        monkeypatch.setattr(sys, "argv", ["sparing", "export", "policy.sparing", *words])
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code == 2
        assert told in capsys.readouterr().err
