"""What an evaluation says is what it knows."""

import numpy as np
import pytest

import sparing
from sparing.errors import LogError, SettingError
from sparing.evaluation import evaluate
from sparing.log import Log
from sparing.policies.policy import ConstantPolicy, UniformPolicy


def logged(n=2000, **given):
    """A log of two actions, and a third that was never tried."""
    rng = np.random.default_rng(0)
    contexts = np.column_stack([np.ones(n), rng.normal(size=n)])
    rewards = rng.normal(1.0, 0.5, n)
    return Log.from_arrays(
        contexts,
        np.array(["red", "blue"])[rng.integers(0, 2, n)],
        rewards,
        action_names=["red", "blue", "gold"],
        **given,
    )


def test_a_policy_that_never_plays_what_was_logged_has_no_value():
    log = logged(propensities=np.full(2000, 0.5))
    found = evaluate(log, ConstantPolicy(log.action_names, "gold"))
    assert {each.method for each in found.estimates} == {"dm", "ips", "clipped", "dr", "mlips", "aipw"}
    for each in found.estimates:
        assert each.unknown
        assert each.refused
        assert each.cells[1].startswith("unknown")
        assert str(each).startswith(f"{each.method}: unknown, no interval")
        assert f"{each.method} unknown" in repr(found)
    assert "never plays what was logged" in str(found)
    told = evaluate(log, UniformPolicy(log.action_names), methods=["ips"])["ips"]
    assert not told.unknown
    assert f"ips: {told.value:.4g}, 95 % interval [" in str(told)


def test_unknown_support_is_not_called_none_and_rows_are_whole_numbers():
    log = logged()
    found = evaluate(log, ConstantPolicy(log.action_names, "red"), methods=["dm"])
    text = str(found["dm"])
    assert "NOT KNOWN HOW MUCH OF IT THE LOG SUPPORTS" in text
    assert "NOT SUPPORTED" not in text
    assert "effective rows 2,000" in text


def test_methods_that_lack_the_same_share_a_line():
    log = logged()
    lines = evaluate(log, ConstantPolicy(log.action_names, "red")).unusable_lines
    assert lines[0].startswith("ips, clipped, snips, dr, sndr, aipw: not usable, the log has no propensities")
    assert len(lines) == 2
    assert lines[1].startswith("cab: ")


def test_a_range_that_holds_no_reward_is_refused():
    log = logged()
    for work in (
        lambda given: evaluate(log, UniformPolicy(log.action_names), **given),
        lambda given: sparing.audit(log, **given),
    ):
        with pytest.raises(
            SettingError, match=r"reward_range=\(50, 60\), but all rewards of the log lie from -?\d"
        ):
            work({"reward_range": (50, 60)})


@pytest.mark.parametrize("clip", ["nix", 0.5, float("nan")])
def test_a_wrong_clip_is_refused_where_no_method_clips(clip):
    log = logged()
    with pytest.raises(SettingError, match="clip="):
        evaluate(log, UniformPolicy(log.action_names), methods=["dm"], clip=clip)


@pytest.mark.parametrize("work", [sparing.audit, lambda table: sparing.learn(table, "greedy"), sparing.plan])
def test_a_table_is_no_log(work):
    with pytest.raises(
        (LogError, SettingError), match=r"got a dict; expected a Log. Read one with sparing.read_log"
    ):
        work({"a": [1]})


@pytest.mark.parametrize("walked", [False, True])
def test_an_action_without_a_row_has_no_value_where_nothing_was_said_of_support(monkeypatch, walked):
    if walked:
        monkeypatch.setattr("sparing.log.passes.BATCH_ROWS", 256)
        monkeypatch.setattr("sparing.log.passes.CHUNK_ROWS", 512)
    log = logged()
    found = evaluate(log, ConstantPolicy(log.action_names, "gold"))
    assert {each.method for each in found.estimates} == {"dm", "mlips"}
    for each in found.estimates:
        assert each.unknown, each
        assert each.refused
        assert each.cells[1].startswith("unknown")
    part = evaluate(log, UniformPolicy(log.action_names), methods=["dm"])["dm"]
    assert not part.unknown
    assert (
        "33.3% of the policy's probability is on actions that have no row: no estimate here includes their rewards"
        in part.notes
    )
