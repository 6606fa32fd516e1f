"""The reproduction that is kept in docs is that of today's settings and of today's code."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

from research.paper import experiment as experiments
from research.paper.experiment import digest, settled
from research.paper.report.folder import files

FOLDER = Path(__file__).parents[2] / "docs" / "reproduction"


@pytest.fixture(scope="module")
def committed():
    return json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))["experiments"]


def same(found, kept, where="result", rel=1e-9):
    """Whole numbers and words exactly, other numbers to 1e-9 of their size.

    Policy restriction is found by an optimiser whose path depends on the machine's linear algebra: 2 %.
    """
    assert type(found) is type(kept), where
    if isinstance(found, dict):
        assert found.keys() == kept.keys(), where
        for name in found:
            same(found[name], kept[name], f"{where}.{name}", 0.02 if found.get("algorithm") == "opr" else rel)
    elif isinstance(found, list):
        assert len(found) == len(kept), where
        for number, (one, other) in enumerate(zip(found, kept, strict=True)):
            same(one, other, f"{where}[{number}]", rel)
    elif isinstance(found, float):
        assert found == pytest.approx(kept, rel=rel, abs=1e-12), where
    else:
        assert found == kept, where


@pytest.mark.parametrize("name", experiments.NAMES)
def test_committed_settings_are_the_full_ones(committed, name):
    experiment = experiments.load(name)
    values = settled(asdict(experiment.full))
    assert committed[name]["setting"] == values
    assert committed[name]["setting_sha256"] == digest(values)
    assert committed[name]["full"] is True
    assert committed[name]["pieces"] == len(experiment.units(experiment.full))


@pytest.mark.parametrize("name", experiments.NAMES)
def test_a_piece_run_again_gives_the_committed_numbers(committed, name):
    experiment, sample = experiments.load(name), committed[name]["sample"]
    assert settled(experiment.units(experiment.full)[0]) == sample["unit"]
    with threadpool_limits(1):  # as in the processes that ran it
        found = experiment.run(sample["unit"])
    same(settled(found), sample["result"])


def test_every_claim_is_judged_and_every_file_is_there(committed):
    judged = {verdict["claim"] for entry in committed.values() for verdict in entry["verdicts"]}
    assert judged >= experiments.CLAIMS.keys()
    for name, entry in committed.items():
        there = {path.name for path in (FOLDER / name).iterdir()}
        assert there == files(entry) | {"results.json"}
    assert not [path for kind in ("csv", "png") for path in FOLDER.rglob(f"*.{kind}")], "one format of each"
    assert (FOLDER / "REPRODUCTION.md").is_file()
    assert (FOLDER / "reproduction.html").is_file()
