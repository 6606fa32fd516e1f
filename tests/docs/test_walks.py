"""The walks in docs/architecture.md are those that commands and decisions take, and they are short."""

import csv
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import sparing
from reference.walks import compiled_from, walk
from sparing.simulation import LinearWorld, draw_log

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
MOST = {"sparing audit": 48, "decide": 14, "sparing evaluate": 45, "sparing convert": 29}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A log as people have it: a CSV file with propensities."""
    log = draw_log(LinearWorld(n_actions=6, n_features=3, noise=0.5, seed=0), rows=800, seed=1)
    path = tmp_path_factory.mktemp("walks") / "log.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["action", "reward", "propensity", "x_0", "x_1", "x_2"])
        columns = (log.actions, log.rewards, log.propensities, log.contexts)
        for action, reward, propensity, x in zip(*columns, strict=True):
            writer.writerow([f"a{action}", reward, propensity, *x])
    return path


def command(monkeypatch, *words):
    """What runs a command as people do."""
    from sparing.cli import main

    def run():
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code in (0, None)

    monkeypatch.setattr(sys, "argv", ["sparing", *map(str, words)])
    return run


def decision():
    """One round of the recommended learner: what Python does, and the kernels it calls."""
    from sparing.online.engine import choice, random_stream, updates

    log = draw_log(LinearWorld(n_actions=6, n_features=3, noise=0.5, seed=0), rows=300, seed=1)
    learner = sparing.confident(log, tolerance=0.01, seed=0)
    contexts = np.random.default_rng(0).random((60, 3))

    def rounds():
        for x in contexts:
            made = learner.decide(x)
            if made.needs_reward:
                learner.update(made, 0.5)

    learner.warm_up()  # what is compiled is compiled
    kernels = (
        choice.choose_confident,
        random_stream.spot_check_kind,
        random_stream.stream_key,
        updates.add_observation,
    )
    visited = walk(rounds)
    assert learner.calls
    return sorted({*visited, *compiled_from(kernels)})


def documented(name):
    """The list under a walk's name in the page."""
    found = re.search(rf"^- `{re.escape(name)}`[^:]*: (.*)$", PAGE.read_text(encoding="utf-8"), re.M)
    return re.findall(r"`([^`]+)`", found.group(1)) if found else []


@pytest.mark.parametrize("name", MOST)
def test_a_walk_is_short_and_stands_in_the_page(name, table, monkeypatch, tmp_path, capsys):
    words = {
        "sparing audit": ["audit", table],
        "sparing evaluate": ["evaluate", table, "--policy", "uniform"],
        "sparing convert": ["convert", table, tmp_path / "log.parquet"],
    }
    visited = decision() if name == "decide" else walk(command(monkeypatch, *words[name]))
    assert len(visited) <= MOST[name], visited
    assert documented(name) == visited
