"""Commands on logs that are walked: the same words as on the log in memory, from a folder, a pattern, on an engine, or of a part."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from scanning.tables import raw_table, write
from sparing.cli import app, options
from sparing.policies.files import load_policy

runner = CliRunner()


def run(*words):
    done = runner.invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scanned")
    pq.write_table(raw_table(3000), folder / "one.parquet")
    write(folder / "many", 3000, files=3, group=500)
    return folder


@pytest.mark.parametrize("where", ["many", "many/*.parquet"])
def test_audit_and_evaluate_say_the_same_of_one_file_and_of_many(logs, where):
    for words in (["audit"], ["evaluate", "--policy", "uniform"]):
        one = json.loads(run(*words, logs / "one.parquet", "--json").stdout)
        assert json.loads(run(*words, logs / where, "--json").stdout) == one
        assert (
            json.loads(
                run(*words, logs / "one.parquet", "--json", "--engine", "local", "--workers", 1).stdout
            )
            == one
        )


def test_a_policy_is_learnt_judged_and_planned_with_from_a_folder(logs, tmp_path):
    out = run("learn", logs / "many", "--out", tmp_path / "many.sparing")
    run("learn", logs / "one.parquet", "--out", tmp_path / "one.sparing")
    assert "evaluated on" in out.stdout
    assert str(logs / "many") in out.stdout  # the next command
    assert np.array_equal(
        load_policy(tmp_path / "many.sparing").theta, load_policy(tmp_path / "one.sparing").theta
    )
    judged = run("evaluate", logs / "many", "--policy", tmp_path / "many.sparing", "--json")
    assert json.loads(judged.stdout)["held_out"]
    planned = [
        json.loads(run("plan", logs / name, "--worlds", 19, "--horizon", 50, "--workers", 1, "--json").stdout)
        for name in ("one.parquet", "many")
    ]
    assert planned[0] == planned[1]


def test_an_engine_by_its_name(logs):
    one = run("audit", logs / "one.parquet", "--json").stdout
    assert run("audit", logs / "many", "--engine", "local", "--workers", 2, "--json").stdout == one
    refused = runner.invoke(app, ["audit", str(logs / "many"), "--engine", "processes"])
    assert refused.exit_code != 0
    assert "'local' (threads), or a Dask scheduler: dask://" in str(refused.exception)


def test_a_part_for_methods_that_need_all_rows_at_once(logs, tmp_path):
    refused = runner.invoke(
        app, ["learn", str(logs / "many"), "--method", "poem", "--out", str(tmp_path / "no")]
    )
    assert refused.exit_code != 0
    assert "sample" in str(refused.exception)
    done = run(
        "learn", logs / "many", "--method", "poem", "--sample", 800, "--out", tmp_path / "poem.sparing"
    )
    assert "a random 800 of 3,000 rows" in done.stderr
    assert load_policy(tmp_path / "poem.sparing").trained_on.rows < 800


def test_a_large_file_is_walked_by_itself(logs, monkeypatch):
    seen = []
    monkeypatch.setattr(options, "LARGE", 1)
    monkeypatch.setattr("sparing.log.formats.read_log", lambda *_, **__: seen.append("read"))
    run("audit", logs / "one.parquet")
    assert not seen


def test_what_is_wrong_is_told_in_the_words_of_the_prompt(logs, tmp_path):
    for words, match in (
        (["audit", str(logs / "many"), "--engine", "spark"], "engine='spark'"),
        (["audit", str(tmp_path / "nothing" / "*.parquet")], "no table at"),
        (["learn", str(logs / "many"), "--estimate-support"], "needs all rows in memory"),
        (["audit", str(tmp_path / "nothing.parquet")], "does not exist"),
    ):
        done = runner.invoke(app, words)
        assert done.exit_code != 0
        assert match in str(done.exception), words


def test_another_tools_file_is_scanned(tmp_path):
    lines = [f"{i % 2 + 1}:{-(i % 3)}:0.5 {2 - i % 2} | a:{i % 5} b:1" for i in range(200)]
    (tmp_path / "log.vw").write_text("\n".join(lines) + "\n")
    one = run("audit", tmp_path / "log.vw", "--json").stdout
    assert run("audit", tmp_path / "log.vw", "--engine", "local", "--json").stdout == one


def test_a_folder_is_converted(logs, tmp_path):
    run("convert", logs / "many", tmp_path / "log.csv")
    assert (tmp_path / "log.csv").read_text().count("\n") == 3001
