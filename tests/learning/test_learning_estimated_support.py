"""A log without propensities: what a method needs is estimated and said, or refused where that is switched off."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import sparing
from sparing.cli import app
from sparing.errors import LogError

SENTENCE = "No propensities logged; support was estimated from the rows."


def table(rows=1400, seed=0):
    """Clicks on three banners; c, the best one, is never shown to those of 50 and older: half of the rows."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 80, rows)
    actions = np.where(age < 50, rng.integers(0, 3, rows), rng.integers(0, 2, rows))
    rewards = (rng.random(rows) < 0.2 + 0.2 * actions).astype(int)
    return {"age": age.tolist(), "action": ["abc"[action] for action in actions], "reward": rewards.tolist()}


@pytest.mark.parametrize("method", ["opr", "ipw-logistic"])
def test_what_a_method_needs_is_estimated_and_said(method):
    log = sparing.read_log(table())
    policy = sparing.learn(log, method)
    assert policy.notes[0] == SENTENCE
    by_hand = sparing.learn(sparing.estimate_support(log)[0], method)
    np.testing.assert_array_equal(policy.probabilities(log.contexts), by_hand.probabilities(log.contexts))
    assert policy.notes[1:] == by_hand.notes
    with pytest.raises(LogError, match="divides by propensities"):
        sparing.learn(log, method, estimate_support=False)
    with pytest.raises(LogError, match="divides by propensities"):  # too few rows to estimate anything
        sparing.learn(sparing.read_log(table(rows=100)), method)


def test_logged_propensities_stay():
    rng, known = np.random.default_rng(1), table()
    known["propensity"] = np.where(np.array(known["age"]) < 50, 1 / 3, 1 / 2)
    log = sparing.read_log(known)
    policy = sparing.learn(log, "opr", seed=int(rng.integers(9)))
    assert policy.notes[0] == "No support logged; it was estimated from the rows."
    assert not any("estimated from the rows" in note for note in sparing.learn(log, "poem").notes)


def test_a_method_that_needs_none_is_as_before():
    log = sparing.read_log(table())
    policy, plain = sparing.learn(log, "greedy"), sparing.learn(log, "greedy", estimate_support=False)
    np.testing.assert_array_equal(policy.theta, plain.theta)
    assert policy.notes == plain.notes


def command(folder, *words):
    import csv

    found = table(rows=4000)
    with (folder / "log.csv").open("w", newline="") as file:
        csv.writer(file).writerows([list(found), *zip(*found.values(), strict=True)])
    done = CliRunner().invoke(
        app, ["learn", str(folder / "log.csv"), "--out", str(folder / "p.sparing"), *words]
    )
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_knows_how_much_is_supported(tmp_path):
    """Greedy plays c everywhere, also where it was never shown: half of its mass is unsupported."""
    told = command(tmp_path)
    assert SENTENCE in " ".join(told.split())
    assert "NOT KNOWN" not in told
    off = command(tmp_path, "--no-estimate-support")
    assert SENTENCE not in " ".join(off.split())
    assert "NOT KNOWN" in off
    found = json.loads(command(tmp_path, "--json"))
    (estimate,) = found["held_out"]["estimates"]
    assert found["held_out"]["support"] == "estimated"
    assert estimate["unsupported_mass"] == pytest.approx(0.5, abs=0.06)
    assert estimate["flagged"]
    assert SENTENCE in found["notes"]
    (plain,) = json.loads(command(tmp_path, "--json", "--no-estimate-support"))["held_out"]["estimates"]
    assert (plain["method"], plain["value"]) == (estimate["method"], estimate["value"])
    assert plain["unsupported_mass"] is None
