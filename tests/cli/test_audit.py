"""`sparing audit` at the prompt: tables, JSON, the page, gates and their exit codes, column names."""

import json
import os
import sys
import threading

import numpy as np
import pytest
from typer.testing import CliRunner

import sparing
from sparing.cli import app, main
from sparing.log import Log
from sparing.simulation import LinearWorld, draw_log


def run(*words):
    return CliRunner().invoke(app, ["audit", *map(str, words)])


@pytest.fixture
def plain(monkeypatch, capsys):
    """Run the command as the shell does, errors turned into codes: (code, what it said on stderr)."""

    def plainly(*words):
        monkeypatch.setattr(sys, "argv", ["sparing", "audit", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code, capsys.readouterr().err

    return plainly


@pytest.fixture(scope="module")
def world():
    return LinearWorld(n_actions=6, n_features=3, noise=0.5, seed=0)


@pytest.fixture(scope="module")
def log(world):
    return draw_log(world, rows=1200, never=[1, 4], seed=0)


@pytest.fixture(scope="module")
def file(log, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    sparing.write_log(log, path)
    return path


@pytest.fixture(scope="module")
def bare(log, tmp_path_factory):
    path = tmp_path_factory.mktemp("bare") / "bare.parquet"
    sparing.write_log(
        Log.from_arrays(log.contexts, log.actions, log.rewards, action_names=log.action_names), path
    )
    return path


def test_tables_for_people(file, log):
    result = run(file)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(str(sparing.audit(log)))
    assert "a row could not have taken 33% of the actions" in result.stdout
    assert "S1: everywhere" in result.stdout
    assert "Assumed: noise" in result.stdout


def test_json_is_the_librarys_audit(file, log):
    result = run(file, "--json")
    assert result.exit_code == 0, result.output
    expected = json.loads(json.dumps(sparing.audit(log).to_dict()))
    assert json.loads(result.stdout) == expected
    assert expected["metrics"]["unsupported_share"] == pytest.approx(1 / 3)


def test_settings_reach_the_audit(file, log):
    words = ["--error", 3, "--rare", 0.3, "--noise", 0.5, "--ridge", 2, "--delta", 0.1, "--radius-scale", 0.5]
    result = run(file, "--json", *words, "--seed", 3, "--reward-range=-1,1", "--gaps", 0)
    found = sparing.audit(
        log,
        error=3,
        rare=0.3,
        noise=0.5,
        ridge=2,
        delta=0.1,
        radius_scale=0.5,
        seed=3,
        reward_range=(-1, 1),
        gaps=0,
    )
    assert json.loads(result.stdout) == json.loads(json.dumps(found.to_dict()))


def test_a_policy_file(file, log, tmp_path, plain):
    learner = sparing.warm_started(log)
    learner.save(tmp_path / "learner.sparing")
    values = json.loads(run(file, "--json", "--policy", tmp_path / "learner.sparing").stdout)
    chances = learner.policy().probabilities(log.contexts)
    mass = (chances * ~log.support.mask()).sum(axis=1).mean()
    assert values["metrics"]["policy_unsupported_mass"] == pytest.approx(mass)
    assert values["policy"]["bias"][0] == pytest.approx(-mass * log.rewards.max())
    played = json.loads(run(file, "--json", "--policy", "action:4").stdout)
    assert played["metrics"]["policy_unsupported_mass"] == 1.0
    code, said = plain(file, "--policy", file)
    assert code == 2
    assert "not a sparing file" in said


def test_page(file, tmp_path):
    result = run(file, "--html", tmp_path / "audit.html")
    assert result.exit_code == 0
    html = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert "sparing audit: log.parquet" in html
    assert [path.name for path in tmp_path.iterdir()] == ["audit.html"]


def test_gates_shut_with_code_3_and_say_which(file, tmp_path):
    words = ["--fail-on", "unsupported_share>0.2", "--fail-on", "never_logged>=2", "--fail-on", "rows<10"]
    result = run(file, "--html", tmp_path / "audit.html", *words)
    assert result.exit_code == 3
    assert "failed on unsupported_share > 0.2: unsupported_share is 0.333333" in result.stderr
    assert "failed on never_logged >= 2: never_logged is 2" in result.stderr
    assert "rows" not in result.stderr.replace("failed on", "")
    assert (tmp_path / "audit.html").exists()
    assert "6 actions" in result.stdout


@pytest.mark.parametrize("gate", ["unsupported_share>0.5", "unsupported_share<0.2", "smallest_count<0"])
def test_open_gates_leave_with_code_0(file, gate):
    assert run(file, "--fail-on", gate).exit_code == 0


def test_what_is_not_known_does_not_pass(bare):
    result = run(bare, "--fail-on", "unsupported_share>0.99", "--json")
    assert result.exit_code == 3
    assert "is not known for this log" in result.stderr
    assert json.loads(result.stdout)["support"] == "estimated"
    assert run(bare, "--fail-on", "estimated_unsupported_share>0.99").exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fail-on", "health<1"], "unknown metric 'health': known are rows, actions"),
        (["--fail-on", "policy_unsupported_mass>0"], "unknown metric 'policy_unsupported_mass'"),
        (["--fail-on", "unsupported_share"], "METRIC OP NUMBER"),
        (["--rare", "2"], "--rare 2.0"),
        (["--action", "deed"], "no action column 'deed'"),
        (["--html", "no/such/folder/a.html"], "does not exist"),
        (["--policy", "nothing.sparing"], "--policy nothing.sparing; expected"),
        (["--reward-range", "1"], "--reward-range 1.0; must be two finite numbers"),
    ],
)
def test_bad_input_is_one_line_and_code_2(file, words, message, plain):
    code, said = plain(file, *words)
    assert code == 2
    assert message in said
    assert len(said.strip().splitlines()) == 1


def test_a_log_that_is_not_there(plain):
    code, said = plain("nothing.parquet")
    assert code == 2
    assert "nothing.parquet does not exist" in said


def test_columns_and_actions_can_be_named(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["age,income,deed,gain,chance,visitor"]
    for row in range(40):
        age, income = rng.random(2).round(3)
        lines.append(f"{age},{income},{row % 2},{row},0.5,v{row % 4}")
    (tmp_path / "log.csv").write_text("\n".join(lines))
    words = ["--contexts", "age, income", "--action", "deed", "--reward", "gain", "--propensity", "chance"]
    result = run(tmp_path / "log.csv", *words, "--context-id", "visitor", "--actions", "0,1,2", "--json")
    assert result.exit_code == 0, result.output
    values = json.loads(result.stdout)
    assert values["never_logged"] == [2]
    assert values["metrics"]["distinct_contexts"] == 4
    assert values["metrics"]["smallest_propensity"] == 0.5
    assert values["rewards"]["range"] == [0, 39]


@pytest.mark.parametrize("labels", [[0, 1], ["0", "1"]])
def test_typed_labels_take_the_type_of_the_column(labels, tmp_path):
    table = {"x_0": [0.1, 0.2], "action": labels, "reward": [1.0, 2.0]}
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    result = run(tmp_path / "log.parquet", "--actions", "0,1,2", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["never_logged"] == [type(labels[0])(2)]


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def test_what_is_not_a_number_fails_the_gate_and_is_null(file, monkeypatch):
    """Sums that overflow make metrics NaN; a comparison with NaN is false, and would open the gate."""
    from sparing.auditing import Audit

    numbers = Audit.metrics.fget
    odd = {"largest_upside": np.float64("nan"), "percentile_ratio": float("inf")}
    monkeypatch.setattr(Audit, "metrics", property(lambda audit: numbers(audit) | odd))
    for gate in ("largest_upside>5", "largest_upside<=5"):
        result = run(file, "--json", "--fail-on", gate)
        assert result.exit_code == 3
        assert "largest_upside is not known for this log" in result.stderr
    metrics = json.loads(result.stdout, parse_constant=refuse)["metrics"]
    assert metrics["largest_upside"] is metrics["percentile_ratio"] is None
    assert metrics["unsupported_share"] == pytest.approx(1 / 3)


def test_a_page_into_a_pipe(file, tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")), daemon=True)
    reader.start()
    assert run(file, "--html", pipe).exit_code == 0
    reader.join(10)
    assert read[0].startswith("<!doctype html>")
    assert read[0].endswith("</html>\n")
    assert list(tmp_path.iterdir()) == [pipe]
    assert pipe.is_fifo()
