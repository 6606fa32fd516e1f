"""`sparing learn`, `sparing evaluate` and `sparing convert`, as a person and as a script use them."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import sparing
from each import for_each
from sparing import simulation
from sparing.cli import app, main


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def world():
    return simulation.LinearWorld(n_actions=5, n_features=3, noise=0.5, seed=1)


@pytest.fixture
def path(tmp_path, world):
    log = simulation.draw_log(world, rows=600, support="never-logged", unsupported=0.2, seed=2)
    sparing.write_log(log, tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


def test_learn_then_evaluate(path, tmp_path):
    saved = tmp_path / "greedy.sparing"
    learnt = run("learn", path, "--method", "greedy", "--out", saved, "--json")
    assert learnt.exit_code == 0, learnt.output
    assert sum(json.loads(learnt.stdout)["shares"].values()) == pytest.approx(1)
    found = run(
        "evaluate", path, "--policy", saved, "--methods", "ips,dr", "--reward-range", "-3,3", "--json"
    )
    assert found.exit_code == 0, found.output
    log, policy = sparing.read_log(path), sparing.load_policy(saved)
    expected = sparing.evaluate(log, policy, methods=["ips", "dr"], reward_range=(-3, 3))
    values = {e["method"]: e["value"] for e in json.loads(found.stdout)["estimates"]}
    assert values == {e.method: e.value for e in expected.estimates}


def test_evaluate_shouts_where_the_log_is_blind(path):
    log = sparing.read_log(path)
    never = log.action_names[int(np.flatnonzero(log.counts == 0)[0])]
    shown = run(
        "evaluate", path, "--policy", f"action:{never}", "--reward-range", "-3,3", "--methods", "ips,dm"
    )
    assert shown.exit_code == 0, shown.output
    assert "NOT SUPPORTED: the policy plays actions outside" in shown.stdout
    failed = run("evaluate", path, "--policy", "uniform", "--methods", "ips", "--fail-above", "0.1")
    assert failed.exit_code == 3
    passed = run("evaluate", path, "--policy", "uniform", "--methods", "ips", "--fail-above", "0.3")
    assert passed.exit_code == 0


def test_evaluate_a_saved_learner(path, tmp_path):
    learner = sparing.warm_started(sparing.read_log(path))
    learner.save(tmp_path / "learner.sparing")
    found = run("evaluate", path, "--policy", tmp_path / "learner.sparing", "--methods", "dm", "--json")
    expected = sparing.evaluate(sparing.read_log(path), learner.policy(), methods=["dm"])["dm"].value
    assert json.loads(found.stdout)["estimates"][0]["value"] == expected


def test_learn_says_what_it_chose(path, tmp_path):
    shown = run(
        "learn", path, "--method", "pessimistic", "--option", "radius-scale=0.5", "--out", tmp_path / "p"
    )
    assert shown.exit_code == 0, shown.output
    assert "share of play" in shown.stdout
    assert "  sparing evaluate" in shown.stdout
    assert (tmp_path / "p").exists()


def test_convert_there_and_back(path, tmp_path):
    there = run("convert", path, tmp_path / "log.dsjson", "--json")
    assert there.exit_code == 0, there.output
    back = run("convert", tmp_path / "log.dsjson", tmp_path / "back.parquet")
    assert back.exit_code == 0
    assert "assumed: Rewards are minus the costs" in back.stdout
    first, second = sparing.read_log(path), sparing.read_log(tmp_path / "back.parquet")
    assert np.array_equal(first.rewards, second.rewards)
    assert np.array_equal(first.propensities, second.propensities)
    names = [str(first.action_names[a]) for a in first.actions]
    assert names == [str(second.action_names[a]) for a in second.actions]
    assert np.array_equal(first.contexts, second.contexts[:, np.argsort(second.feature_names)])


def test_csv_says_what_it_cannot_carry(tmp_path):
    log = sparing.Log.from_arrays(np.ones((2, 1)), ["1", "2"], [0, 1], action_names=["1", "2", "3"])
    sparing.write_log(log, tmp_path / "log.parquet")
    shown = run("convert", tmp_path / "log.parquet", tmp_path / "log.csv")
    assert shown.stdout.count("not carried:") == 2


@for_each(
    ("words", "message"),
    [
        (["evaluate", "LOG", "--policy", "nosuch"], "expected `uniform`"),
        (["evaluate", "LOG", "--policy", "action:x"], "unknown action 'x'"),
        (["evaluate", "LOG", "--policy", "LOG"], "not a sparing file"),
        (["evaluate", "LOG", "--policy", "uniform", "--reward-range", "1"], "must be two finite numbers"),
        (["evaluate", "LOG", "--policy", "uniform", "--methods", "magic"], "known are dm"),
        (["evaluate", "nosuch.parquet", "--policy", "uniform"], "does not exist"),
        (["learn", "LOG", "--method", "magic"], "must be one of greedy"),
        (["learn", "LOG", "--option", "ridge"], "expected NAME=VALUE"),
        (["learn", "LOG", "--option", "colour=1"], "has no option 'colour'"),
        (["evaluate", "LOG", "--policy", "uniform", "--clip", "nope"], "--clip nope"),
        (["plan", "LOG", "--horizon", "10", "--out", "log.parquet/sub"], "is a file"),
        (["demo", "--data", "digits", "--out", "log.parquet"], "is a file"),
        (["convert", "LOG", "out.xyz"], "unknown ending"),
        (["convert", "LOG", "out.vw", "--to", "magic"], "unknown format 'magic'"),
    ],
)
def test_bad_input_is_one_line_and_code_2(words, message, path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["sparing", *[str(path) if word == "LOG" else word for word in words]])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.parquet"]


def test_support_can_be_estimated_on_the_way(world, tmp_path):
    log = simulation.draw_log(world, rows=3000, support="never-logged", unsupported=0.2, seed=2)
    bare = sparing.Log.from_arrays(log.contexts, log.actions, log.rewards, action_names=log.action_names)
    sparing.write_log(bare, tmp_path / "bare.parquet")
    words = ["evaluate", tmp_path / "bare.parquet", "--policy", "uniform", "--methods", "ips", "--json"]
    assert "propensities" in str(run(*words).exception)
    found = json.loads(run(*words, "--estimate-support").stdout)
    assert found["support"] == "estimated"
    assert "estimated" in " ".join(found["estimates"][0]["notes"])
    assert found["estimates"][0]["unsupported_mass"] == pytest.approx(0.2, abs=0.02)


def test_an_interrupted_command_says_so(monkeypatch, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("sparing.cli.options.GivenLog.open", interrupt)
    monkeypatch.setattr("sys.argv", ["sparing", "learn", "log.parquet"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_mass_that_is_not_a_number_fails_and_is_null(path, monkeypatch):
    from dataclasses import replace

    from sparing import evaluation

    real = evaluation.evaluate

    def odd(*arguments, **options):
        found = real(*arguments, **options)
        estimates = [replace(each, value=np.inf, unsupported_mass=np.nan) for each in found.estimates]
        return replace(found, estimates=tuple(estimates))

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    monkeypatch.setattr(evaluation, "evaluate", odd)
    failed = run("evaluate", path, "--policy", "uniform", "--methods", "ips", "--fail-above", "0.9", "--json")
    assert failed.exit_code == 3
    estimate = json.loads(failed.stdout, parse_constant=refuse)["estimates"][0]
    assert estimate["value"] is estimate["unsupported_mass"] is None


def test_evaluate_says_what_must_not_be_overlooked(tmp_path):
    rng = np.random.default_rng(0)
    actions = np.repeat([0, 1], [20, 380])
    log = sparing.Log.from_arrays(
        rng.random((400, 2)),
        actions,
        rng.integers(0, 2, 400),
        propensities=np.where(actions == 0, 0.05, 0.95),
    )
    sparing.write_log(log, tmp_path / "log.parquet")
    words = ["evaluate", tmp_path / "log.parquet", "--policy", "action:0", "--clip", "5"]
    shown = run(*words, "--methods", "ips,clipped,dr")
    assert shown.exit_code == 0, shown.output
    assert "FEW ROWS: ips, clipped, dr rest on few effective rows (~)" in shown.stdout
    assert "CLIPPED: weights were clipped" in shown.stdout
    assert "clipped (75.0%)" in shown.stdout
    assert "all rewards are 0 or 1" in shown.stdout
    assert (
        "NOT KNOWN" in shown.stdout
    )  # dr cannot bound what it leaves out, and no mass of 0 % is shouted about
    assert "NOT SUPPORTED" not in shown.stdout
    few = sparing.Log.from_arrays(
        log.contexts[15:], actions[15:], log.rewards[15:], propensities=log.propensities[15:]
    )
    sparing.write_log(few, tmp_path / "few.parquet")
    words[1] = tmp_path / "few.parquet"
    assert "none" in run(*words, "--methods", "snips").stdout
    found = json.loads(run(*words, "--methods", "snips", "--json").stdout)["estimates"][0]
    assert (found["refused"], found["low"], found["high"]) == (True, 0.0, 1.0)


def test_learn_lists_what_is_played(tmp_path):
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 40, 800)
    rewards = rng.normal(size=800) * 0.01 + (actions == 7)
    log = sparing.Log.from_arrays(np.ones((800, 1)), actions, rewards, action_names=range(40))
    sparing.write_log(log, tmp_path / "log.parquet")
    done = run("learn", tmp_path / "log.parquet", "--out", tmp_path / "p.sparing")
    assert "the 1 that it plays, of 40 actions" in done.stdout
    assert " 0.0%" not in done.stdout
    wrong = run("learn", tmp_path / "log.parquet", "--holdout", "30", "--out", tmp_path / "p.sparing")
    assert "must be in (0, 1), such as 0.3; 0 holds nothing out" in str(wrong.exception)


def test_no_workers_are_one_a_core_in_every_command(path):
    short = ["--horizon", "5", "--worlds", "19", "--learners", "moful", "--json"]
    some, none = (run("plan", path, *short, "--workers", count) for count in (1, 0))
    assert none.exit_code == 0, none.exception
    assert none.stdout == some.stdout
