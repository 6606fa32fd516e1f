"""Ratios and their ranges, from numbers worked out by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest

from research.bench.measuring import (
    COST,
    FASTER,
    BenchmarkResult,
    Failure,
    Measurement,
    Outcome,
    describe_machine,
    ratio,
)
from research.bench.parts.batch import extrapolated
from sparing.errors import FileError, SettingError


def measured(*rounds: float, name: str = "ours") -> Measurement:
    return Measurement("step", "2 × 2", name, "cold", "step", 10, rounds)


def test_ratio_of_the_minima_and_range_over_rounds():
    found = ratio(measured(2.0, 4.0, 5.0), measured(30.0, 20.0, 50.0, name="other"))
    assert found.value == 20 / 2
    assert (found.low, found.high) == (20 / 4, 30 / 2)
    assert (found.ours, found.other) == ("ours", "other")


def test_cost_is_the_other_way_round():
    ours, other = measured(6.0, 9.0), measured(3.0, 2.0, name="other")
    assert ratio(ours, other, of=COST).value == 6 / 2
    assert ratio(ours, other, of=COST).high == 9 / 2
    assert ratio(ours, other, of=FASTER).value == pytest.approx(1 / ratio(ours, other, of=COST).value)


def test_a_line_through_two_numbers_of_resamples():
    """fixed + B·slope, exactly: 0.3 + 0.04·B at B = 1, 100 and 1000."""
    one, more = measured(0.34, 1.5), measured(4.3, 10.41)
    assert extrapolated(one, more, 100).rounds == pytest.approx((40.3, 1.41 + 90.0))


@pytest.mark.parametrize("of", [FASTER, COST])
def test_the_value_lies_in_the_range(of):
    """min p / min q is between the least and the largest p_i/q_i, whatever the rounds."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        p, q = rng.exponential(size=(2, rng.integers(1, 8))) + 1e-3
        found = ratio(measured(*p), measured(*q), of=of)
        assert found.low <= found.value * (1 + 1e-12)
        assert found.value <= found.high * (1 + 1e-12)


@pytest.mark.parametrize(
    ("of", "target", "met"),
    [(FASTER, 10, True), (FASTER, 10.1, False), (COST, 0.1, True), (COST, 0.09, False)],
)
def test_targets(of, target, met):
    found = ratio(measured(2.0), measured(20.0), of=of, target=target)
    assert found.met is met
    assert replace(found, target=None).met is None


def test_minimum_and_quartiles():
    rounds = measured(5.0, 1.0, 2.0, 4.0, 3.0)
    assert rounds.minimum == 1
    assert rounds.quartiles == (2, 3, 4)


def test_rounds_must_pair_up():
    with pytest.raises(SettingError, match="3 rounds and 2"):
        ratio(measured(1, 2, 3), measured(1, 2))


def test_json_round_trip():
    ours, other = measured(1.0, 2.0), measured(3.0, 9.0, name="other")
    outcome = Outcome((ours, other), (ratio(ours, other, target=2),), (Failure("step", "x", "why"),))
    result = BenchmarkResult(describe_machine(), {"parts": ["step"]}, (), outcome, 1.5)
    text = json.dumps(result.to_dict())
    again = BenchmarkResult.from_dict(json.loads(text))
    assert again == result
    assert json.dumps(again.to_dict()) == text
    with pytest.raises(FileError, match="version 99"):
        BenchmarkResult.from_dict({**result.to_dict(), "version": 99})
