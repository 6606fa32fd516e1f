"""What a plan answers, from numbers that can be read off."""

import math

import numpy as np
import pytest

from sparing.planning.result import Option, Plan, Summary


def option(name, calls, regret):
    return Option(name, None, "", np.array(calls)[:, None], np.array(regret)[:, None], 1)


def made_up(**asked):
    """Three options whose answers can be read off: none cheap and good at once."""
    options = (
        option("free", [0, 0, 0], [80, 100, 120]),
        option("middling", [40, 50, 60], [10, 50, 90]),
        option("dear", [100, 100, 100], [20, 30, 40]),
        option("foolish", [100, 110, 120], [90, 90, 90]),
    )
    return Plan(200, 3, 0.5, 0.5, (200,), options, 1.0, 1.0, ("assumed",), **asked)


def test_answers_follow_from_means_and_limits():
    plan = made_up()
    assert [option.name for option in plan.frontier] == ["free", "middling", "dear"]
    assert plan.answers == ()
    assert plan.cheapest(50).name == "middling"
    assert plan.cheapest(50, surely=True).name == "dear"
    assert plan.cheapest(100).name == "free"
    assert plan.cheapest(29) is None
    assert plan.cheapest(39, surely=True) is None
    assert plan.best_within(59).name == "free"
    assert plan.best_within(60).name == "middling"
    assert plan.best_within(1000).name == "dear"
    assert made_up(regret=29).answers[0].startswith("Regret of at most 29: none of these reaches it")
    assert "dear" in made_up(regret=29).answers[0]
    assert "none of these reaches it" in made_up(regret=35).answers[1]
    assert len(made_up(regret=120, budget=10).answers) == 2
    asked = made_up(regret=50, budget=60).to_dict()["asked"]
    assert asked["regret"] == {"at_most": 50, "by_mean": "middling", "by_upper_limit": "dear"}
    assert asked["budget"] == {"at_most": 60, "option": "middling"}


def test_a_budget_below_all_options_says_so():
    plan = made_up(budget=5)
    dear = Plan(**{**plan.__dict__, "options": plan.options[1:]})
    assert dear.best_within(5) is None
    assert "none of these stays within it" in dear.answers[0]


def test_summary_is_order_statistics():
    values = np.random.default_rng(0).permutation(np.arange(1.0, 40.0))
    found = Summary.of(values, 2)
    assert (found.mean, found.median, found.low, found.high) == (20, 20, 2, 38)
    assert found.error == pytest.approx(math.sqrt(130 / 39))  # variance of 1..n is n(n+1)/12
