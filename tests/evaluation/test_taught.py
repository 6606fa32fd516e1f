"""Policies are not evaluated on their training rows: held-out rows are used, or the log is refused, or estimates are marked."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import sparing
from sparing.cli import app
from sparing.errors import SettingError

WORLD = sparing.simulation.LinearWorld(n_actions=10, n_features=4, noise=3.0, seed=0)


def drawn(rows=1500, seed=1, **options):
    return sparing.simulation.draw_log(WORLD, rows=rows, seed=seed, **options)


def test_held_out_rows_judge():
    log = drawn()
    policy = sparing.learn(log, "greedy", holdout=0.3, seed=2)
    found = sparing.evaluate(log, policy, methods=["ips", "dr"], reward_range=(-4, 4))
    alone = sparing.evaluate(policy.held_out(log), policy, methods=["ips", "dr"], reward_range=(-4, 4))
    assert found.held_out
    assert (found.rows, found.rows_given) == (policy.held_out(log).n_rows, 1500)
    for one, other in zip(found.estimates, alone.estimates, strict=True):
        assert (one.value, one.low, one.support_high) == (other.value, other.low, other.support_high)
        assert "held out" in one.notes[0]
        assert not one.in_sample
    assert not alone.held_out
    assert not any("held out" in note for note in alone.notes)
    assert f"{found.rows:,} of 1,500 rows, held out" in str(found)


def test_a_log_that_has_grown_is_judged_by_its_held_out_contexts():
    log, more = drawn(), drawn(seed=7)
    policy = sparing.learn(log, "greedy", holdout=0.3)
    both = sparing.Log.from_arrays(
        np.concatenate([log.contexts, more.contexts]),
        np.concatenate([log.actions, more.actions]),
        np.concatenate([log.rewards, more.rewards]),
        propensities=np.concatenate([log.propensities, more.propensities]),
        action_names=log.action_names,
        context_ids=np.concatenate([log.context_ids, more.context_ids]),
    )
    found = sparing.evaluate(both, policy, methods=["ips"])
    assert found.rows == policy.held_out(log).n_rows + policy.held_out(more).n_rows
    from dataclasses import replace

    with pytest.raises(SettingError, match="held out by their ids"):
        sparing.evaluate(replace(both, context_ids=None), policy, methods=["ips"])


def test_without_a_holdout_the_rows_are_refused_or_marked():
    log = drawn()
    policy = sparing.learn(log, "greedy")
    for rows in (log, log.take(slice(0, 700))):
        with pytest.raises(SettingError, match=r"holdout=0\.3.*another log.*training_rows='allow'"):
            sparing.evaluate(rows, policy)
    found = sparing.evaluate(log, policy, methods=["ips", "dm"], training_rows="allow")
    assert all(each.in_sample for each in found.estimates)
    assert all(each["in_sample"] for each in found.to_dict()["estimates"])
    assert str(found).count("IN-SAMPLE") == 2
    assert found.rows == 1500
    other = sparing.evaluate(drawn(seed=9), policy, methods=["ips"])
    assert not other.estimates[0].in_sample
    assert not other.notes
    with pytest.raises(SettingError, match="training_rows='perhaps'"):
        sparing.evaluate(log, policy, training_rows="perhaps")


def test_what_cannot_be_told_is_said():
    log = drawn()
    table = np.full((1500, 10), 0.1)
    hand_made = sparing.warm_started(log).policy()
    for policy in (table, hand_made):
        found = sparing.evaluate(log, policy, methods=["ips"])
        assert "is unknown whether" in found.notes[0]
    from sparing.policies.policy import ConstantPolicy, UniformPolicy

    for policy in (UniformPolicy(log.action_names), ConstantPolicy(log.action_names, 3)):
        assert not sparing.evaluate(log, policy, methods=["ips"]).notes


def test_in_sample_flatters_and_held_out_rows_do_not():
    """IPS of the best of many actions, learnt from few rows: the mean over logs against the truth."""
    contexts = WORLD.contexts(100_000, np.random.default_rng(5))
    means = WORLD.means(contexts)
    excess = {"allow": [], "refuse": []}
    for seed in range(40):
        log = drawn(rows=300, seed=seed, unsupported=0.0)
        for how, policy in (
            ("allow", sparing.learn(log, "greedy", ridge=0.1)),
            ("refuse", sparing.learn(log, "greedy", ridge=0.1, holdout=0.5, seed=seed)),
        ):
            truth = means[np.arange(len(means)), policy.indices(contexts)].mean()
            value = sparing.evaluate(log, policy, methods=["ips"], training_rows=how)["ips"].value
            excess[how].append(value - truth)
    errors = {how: np.std(each, ddof=1) / np.sqrt(40) for how, each in excess.items()}
    assert np.mean(excess["allow"]) > 4 * errors["allow"]
    assert abs(np.mean(excess["refuse"])) < 3.3 * errors["refuse"]


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = drawn()
    sparing.write_log(log, "log.parquet")
    shown = run("learn", "log.parquet", "--reward-range", "-4,4")
    assert shown.exit_code == 0, shown.output
    policy = sparing.load_policy("policy.sparing")
    held = policy.held_out(log).n_rows
    assert f"evaluated on the {held:,} held out" in shown.stdout
    assert "  sparing evaluate log.parquet --policy policy.sparing --reward-range -4,4" in shown.stdout
    told = json.loads(run("learn", "log.parquet", "--reward-range", "-4,4", "--json").stdout)
    (estimate,) = told["held_out"]["estimates"]
    expected = sparing.evaluate(log, policy, methods=["dr"], reward_range=(-4, 4))["dr"]
    assert (estimate["method"], estimate["value"], estimate["low"]) == ("dr", expected.value, expected.low)
    assert (told["rows_taught"], told["held_out"]["rows"]) == (1500 - held, held)
    found = json.loads(
        run("evaluate", "log.parquet", "--policy", "policy.sparing", "--methods", "dr", "--json").stdout
    )
    assert (found["rows"], found["rows_given"], found["held_out"]) == (held, 1500, True)


def test_the_commands_without_a_holdout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sparing.write_log(drawn(), "log.parquet")
    shown = run("learn", "log.parquet", "--holdout", "0")
    assert "  sparing evaluate ANOTHER_LOG" in shown.stdout
    assert "none is left to evaluate it" in shown.stdout
    refused = run("evaluate", "log.parquet", "--policy", "policy.sparing", "--methods", "dr")
    assert isinstance(refused.exception, SettingError)
    allowed = run(
        "evaluate", "log.parquet", "--policy", "policy.sparing", "--methods", "dr", "--training-rows", "allow"
    )
    assert "IN-SAMPLE" in allowed.stdout
    old = run("evaluate", "log.parquet", "--policy", "policy.sparing", "--methods", "dr", "--taught", "allow")
    assert old.stdout == allowed.stdout
    assert "--training-rows" in old.stderr
    assert "--taught" not in run("evaluate", "--help").stdout


def test_without_propensities_the_held_out_estimate_is_dms(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = drawn()
    bare = sparing.Log.from_arrays(
        log.contexts, log.actions, log.rewards, feature_names=["a b", "c", "d", "e"]
    )
    sparing.write_log(bare, "log.parquet")
    shown = run("learn", "log.parquet", "--contexts", "x_a b,x_c", "--json")
    assert shown.exit_code == 0, shown.output
    assert [each["method"] for each in json.loads(shown.stdout)["held_out"]["estimates"]] == ["dm"]
    shown = run("learn", "log.parquet", "--contexts", "x_a b,x_c")
    assert "  sparing evaluate log.parquet --contexts 'x_a b,x_c' \\" in shown.stdout
