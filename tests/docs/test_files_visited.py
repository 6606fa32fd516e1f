"""docs/architecture.md lists the files that commands and decisions visit, and they are few."""

import csv
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import sparing
from reference.files_visited import compiled_from, files_visited
from sparing.simulation import LinearWorld, draw_log

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
MOST = {"sparing audit": 33, "decide": 10, "sparing evaluate": 32, "sparing convert": 20}

REWRITE = "REWRITE_OUTPUTS"
"""Set this in the environment to write the lists into the page."""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A CSV file with propensities."""
    log = draw_log(LinearWorld(n_actions=6, n_features=3, noise=0.5, seed=0), rows=800, seed=1)
    path = tmp_path_factory.mktemp("visited") / "log.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["action", "reward", "propensity", "x_0", "x_1", "x_2"])
        columns = (log.actions, log.rewards, log.propensities, log.contexts)
        for action, reward, propensity, x in zip(*columns, strict=True):
            writer.writerow([f"a{action}", reward, propensity, *x])
    return path


def command(monkeypatch, *words):
    """A call that runs a command of the command line."""
    from sparing.cli import main

    def run():
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code in (0, None)

    monkeypatch.setattr(sys, "argv", ["sparing", *map(str, words)])
    return run


def decision():
    """Files of one round of a learner: those of Python, and those of the kernels that it calls."""
    from sparing.online.engine import choice, random_stream, updates

    log = draw_log(LinearWorld(n_actions=6, n_features=3, noise=0.5, seed=0), rows=300, seed=1)
    learner = sparing.confident(log, tolerance=0.01, seed=0)
    contexts = np.random.default_rng(0).random((60, 3))

    def rounds():
        for x in contexts:
            made = learner.decide(x)
            if made.needs_reward:
                learner.update(made, 0.5)

    learner.warm_up()  # compile outside the trace
    kernels = (
        choice.choose_confident,
        random_stream.spot_check_kind,
        random_stream.stream_key,
        updates.add_observation,
    )
    visited = files_visited(rounds)
    assert learner.calls
    return sorted({*visited, *compiled_from(kernels)})


def listed(name):
    """The line of the page, as a pattern with the number and the list of files."""
    return re.compile(rf"^- `{re.escape(name)}` \((\d+)\): (.*)$", re.MULTILINE)


@pytest.mark.parametrize("name", MOST)
def test_files_visited_are_few_and_listed(name, table, monkeypatch, tmp_path, capsys):
    words = {
        "sparing audit": ["audit", table],
        "sparing evaluate": ["evaluate", table, "--policy", "uniform"],
        "sparing convert": ["convert", table, tmp_path / "log.parquet"],
    }
    visited = decision() if name == "decide" else files_visited(command(monkeypatch, *words[name]))
    assert len(visited) <= MOST[name], visited
    text, pattern = PAGE.read_text(encoding="utf-8"), listed(name)
    if os.environ.get(REWRITE):
        line = f"- `{name}` ({len(visited)}): " + ", ".join(f"`{file}`" for file in visited)
        text = pattern.sub(line, text)
        PAGE.write_text(text, encoding="utf-8")
    found = pattern.search(text)
    assert found, f"{PAGE.name} has no list for {name}"
    assert re.findall(r"`([^`]+)`", found[2]) == visited, f"{REWRITE}=1 writes the list again"
    assert int(found[1]) == len(visited)
