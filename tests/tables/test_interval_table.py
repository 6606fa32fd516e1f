"""Every interval that is shown holds its stated level: the committed table, and what is quick enough to measure here."""

import json
from pathlib import Path

import numpy as np
import pytest

from research.tables import intervals
from sparing.interval import deviations
from sparing.service import comparison

ROWS = json.loads((Path(__file__).parents[2] / "docs/tables/intervals.json").read_text(encoding="utf-8"))[
    "rows"
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["interval"])
def test_measured_intervals_hold_their_level(row):
    held = np.array(row["held"])
    assert len(held) >= 200
    error = max(held.std(ddof=1), 0.05) / np.sqrt(len(held))
    assert held.mean() >= row["level"] - 3 * error


def shares(kind, seeds):
    found = [each for seed in seeds for each in intervals.run({"kind": kind, "seed": seed})["rows"]]
    names = dict.fromkeys(each["interval"] for each in found)
    return {name: np.mean([each["held"] for each in found if each["interval"] == name]) for name in names}


@pytest.mark.thorough
def test_the_service_compares_with_intervals_that_hold(monkeypatch):
    """At every look of 200 other histories; intervals for one look, the control, do not hold."""
    for held in shares("service", range(1000, 1200)).values():
        assert held >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 200)
    monkeypatch.setattr(comparison, "watched_deviations", lambda freedom, _: deviations(freedom=freedom))
    for held in shares("service", range(1000, 1060)).values():
        assert held < 0.85


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["evaluation", "unseen values", "audit"])
def test_intervals_hold_in_other_worlds(kind):
    for name, held in shares(kind, range(3000, 3200)).items():
        assert held >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 200), name
