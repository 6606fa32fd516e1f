"""`evaluate` with each interval: the methods agree about the same rows, and draws are the seed's alone."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import sparing
from sparing.cli import app
from sparing.errors import SettingError
from sparing.evaluation import passes, rows

ROWS = 3000


@pytest.fixture(scope="module")
def log():
    world = sparing.simulation.LinearWorld(n_actions=5, n_features=3, noise=0.5, seed=4)
    return sparing.simulation.draw_log(world, rows=ROWS, never=[1], seed=3)


class Asked:
    """Half on one action, the rest on all; counts how often it is asked."""

    def __init__(self, names):
        self.action_names = tuple(reversed(names))
        self.rows = 0

    def probabilities(self, contexts):
        self.rows += len(contexts)
        chances = np.full((len(contexts), 5), 0.1)
        chances[np.arange(len(contexts)), (contexts[:, 0] > 0) * 3] += 0.5
        return chances


@pytest.mark.parametrize("interval", ["bootstrap", "block-bootstrap"])
def test_resampled_limits_agree_with_the_closed_form(log, interval):
    """1,000 resamples leave about 5 % error in a quantile's distance, 1,024 blocks 2 %."""
    policy = Asked(log.action_names)
    options = {"reward_range": (-4, 4), "clip": 3}
    normal = sparing.evaluate(log, policy, **options)
    resampled = sparing.evaluate(log, policy, interval=interval, **options)
    assert len(resampled.estimates) == len(normal.estimates) >= 8
    for exact, drawn in zip(normal.estimates, resampled.estimates, strict=True):
        assert (drawn.method, drawn.value, drawn.interval) == (exact.method, exact.value, interval)
        width = exact.high - exact.low
        assert abs(drawn.low - exact.low) < 0.15 * width
        assert abs(drawn.high - exact.high) < 0.15 * width
        wide = exact.support_high - exact.support_low
        assert abs(drawn.support_low - exact.support_low) < 0.15 * wide
        assert abs(drawn.support_high - exact.support_high) < 0.15 * wide


@pytest.mark.parametrize("interval", ["bootstrap", "block-bootstrap"])
def test_a_method_has_the_same_limits_alone_and_among_others(log, interval):
    policy = Asked(log.action_names)
    together = sparing.evaluate(log, policy, interval=interval, seed=2)
    for method in ("ips", "snips", "sndr"):
        alone = sparing.evaluate(log, policy, methods=[method], interval=interval, seed=2)
        assert alone[method] == together[method]
    other = sparing.evaluate(log, policy, methods=["ips"], interval=interval, seed=3)
    assert other["ips"].low != together["ips"].low


def test_a_policy_is_asked_once_for_each_row_and_again_only_where_it_is_too_large_to_keep(log, monkeypatch):
    kept, again = Asked(log.action_names), Asked(log.action_names)
    found = sparing.evaluate(log, kept)
    assert kept.rows == ROWS
    monkeypatch.setattr(rows, "MAX_CACHED_CELLS", 0)
    monkeypatch.setattr(passes, "MAX_CACHED_CELLS", 0)
    assert sparing.evaluate(log, again) == found
    assert again.rows > ROWS
    place = [log.action_names.index(name) for name in kept.action_names]
    table = np.empty((ROWS, 5))
    table[:, place] = kept.probabilities(log.contexts)
    assert sparing.evaluate(log, table) == found


def test_unknown_intervals_are_refused(log):
    with pytest.raises(SettingError, match="block-bootstrap"):
        sparing.evaluate(log, Asked(log.action_names), interval="jackknife")


@pytest.mark.parametrize("interval", ["bootstrap", "block-bootstrap"])
def test_on_the_command_line(log, interval, tmp_path):
    path = tmp_path / "log.parquet"
    sparing.write_log(log, path)
    command = ["evaluate", str(path), "--policy", "uniform", "--interval", interval, "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {estimate["interval"] for estimate in found["estimates"]} == {interval}
