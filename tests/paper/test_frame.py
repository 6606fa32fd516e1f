"""The one way to hold results, from numbers worked out by hand; and the one list of learners."""

import math
from dataclasses import asdict

import numpy as np
import pytest

import sparing
from research import learners
from research.learners import IPS, LEARNERS, OFFLINE, ROLES, SCALED
from research.paper import intervals
from research.paper.frame import Frame
from research.paper.report import drawing
from sparing import most_logged
from sparing.report.figures import COLOURS
from sparing.simulation import LinearWorld, draw_log

RUNS = Frame(
    {"name": name, "scale": scale, "seed": seed, "calls": calls, "curve": [calls, 2 * calls]}
    for name, scale, seed, calls in (
        ("a", 1.0, 2, 30),
        ("a", 1.0, 0, 10),
        ("b", None, 0, 1),
        ("a", 1.0, 1, 20),
        ("b", None, 2, 7),
        ("a", 0.5, 0, 5),
    )
)


def test_rows_are_picked_and_grouped_in_the_order_of_their_first():
    assert list(RUNS.by("name", "scale")) == [("a", 1.0), ("b", None), ("a", 0.5)]
    assert RUNS.where(name="a", scale=1.0)["seed"] == [2, 0, 1]
    assert RUNS.where(scale=None)["name"] == ["b", "b"]
    assert RUNS.among("scale", (None, 0.5))["calls"] == [1, 7, 5]
    assert not len(RUNS.where(name="c"))


def test_values_stand_in_the_order_of_the_seeds():
    found = RUNS.where(name="a", scale=1.0)
    assert found.values("calls").tolist() == [10, 20, 30]
    assert found.values("curve").tolist() == [[10, 20], [20, 40], [30, 60]]
    half = 4.302652729911275 * 10 / math.sqrt(3)  # t.975 with 2 degrees of freedom
    assert asdict(found.mean("calls", of=10)) == pytest.approx(
        {"value": 2, "low": 2 - half / 10, "high": 2 + half / 10}
    )


def test_differences_pair_the_seeds_that_both_have():
    """Seeds 0 and 2: 10 − 1 and 30 − 7."""
    gap = RUNS.where(name="a", scale=1.0).less(RUNS.where(name="b"), "calls")
    assert gap.value == (9 + 23) / 2
    half = 12.706204736432095 * math.sqrt(2) * 7 / math.sqrt(2)  # t.975 with 1 degree of freedom
    assert (gap.high - gap.value, gap.value - gap.low) == pytest.approx((half, half))
    assert np.isnan(RUNS.where(scale=0.5).less(RUNS.where(name="b"), "calls").low), "one seed has no interval"


def test_a_table_read_again_has_the_same_rows():
    assert Frame.of(RUNS.columns()).rows == RUNS.rows
    assert Frame().columns() == {}


def test_an_interval_in_a_row_is_read_again():
    found = intervals.mean([1.0, 2.0, 4.0])
    assert intervals.read({**found.named("calls"), "other": 1}, "calls") == found


def test_limits_are_the_value_where_none_are_known():
    table = Frame([{"value": 1.0, "low": None, "high": math.nan}, {"value": 2.0, "low": 1.5, "high": 3.0}])
    value, low, high = drawing.limits(table)
    assert (value.tolist(), low.tolist(), high.tolist()) == ([1, 2], [1, 1.5], [1, 3])


WORLD = LinearWorld(n_actions=4, n_features=2, seed=0)


@pytest.fixture(scope="module")
def log():
    return draw_log(WORLD, rows=200, unsupported=0.25, seed=0)


@pytest.mark.parametrize("name", [name for name, one in LEARNERS.items() if one.algorithm])
def test_every_learner_takes_what_it_needs_and_no_more(name, log):
    settings = {"supported": most_logged(2), "clip": "percentile-ratio", "tolerance": 0.5, "noise": 1.0}
    settings |= {"call_cost": 0.1, "horizon": 100, "calls": None}
    learner = learners.start(name, log, **settings)
    assert learner.algorithm == LEARNERS[name].algorithm
    assert isinstance(learner, sparing.Learner)


def test_the_clip_is_the_settings_unless_the_name_says_another(log):
    def reasons(name, clip):
        learner = learners.start(name, log, clip=clip, supported=most_logged(2), noise=1.0)
        return sparing.simulate(learner, WORLD, rounds=200, stream="in-log", log=log).reasons.tolist()

    unclipped = reasons("eps_moful_ips", "inf")
    assert reasons("eps_moful_ips", "percentile-ratio") != unclipped
    assert reasons("eps_moful_ips_inf", "percentile-ratio") == unclipped


def test_learners_look_apart_and_every_role_is_a_learner():
    looks = [(one.colour, one.marker, one.filled) for one in LEARNERS.values()]
    assert len(set(looks)) == len({one.label for one in LEARNERS.values()}) == len(LEARNERS)
    assert {one.colour for one in LEARNERS.values()} <= {*COLOURS, learners.INDIGO}
    assert {*OFFLINE, *SCALED, *IPS, *ROLES["scale_free"]} <= LEARNERS.keys()
    paper = [LEARNERS[name].colour for name in (*SCALED, *ROLES["scale_free"])]
    assert len(set(paper)) == len(paper), "lines that cross in one figure have colours of their own"
