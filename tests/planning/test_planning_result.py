"""What a plan answers, from numbers that can be read off."""

import math

import numpy as np
import pytest

from sparing.planning.result import Option, Plan, WorldSummary, rows
from sparing.planning.strata import Strata

ALIKE = Strata(np.arange(3), np.full(3, 10**9), 3, 1)
"""Three equal strata of so many worlds that their number does not matter."""


def option(name, calls, regret, price=None):
    return Option(name, price, None, "", np.array(calls)[:, None], np.array(regret)[:, None], ALIKE)


def made_up(**asked):
    """Options whose answers can be read off: none cheap and good at once."""
    options = (
        option("free", [0, 0, 0], [80, 100, 120]),
        option("middling", [40, 50, 60], [10, 50, 90]),
        option("dear", [100, 100, 100], [20, 30, 40]),
        option("foolish", [100, 110, 120], [90, 90, 90]),
    )
    return Plan(200, 3, 0.5, 0.5, (200,), options, 1.0, 1.0, ("assumed",), **asked)


def offered(*offers, **said):
    """The offline policy with regret 500, 510, 520, and economical at some prices: (price, calls, regret)."""
    alone = option("offline policy", [0, 0, 0], [500, 510, 520])
    options = (alone, *(option("economical", calls, regret, price) for price, calls, regret in offers))
    return Plan(1000, 3, 0.5, 0.5, (1000,), options, 1.0, 1.0, ("assumed",), **said)


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


def test_a_budget_below_all_options_is_the_log_alone():
    assert made_up(budget=5).best_within(5).name == "free"
    assert made_up(budget=5).best_within(-1) is None


def test_the_sentence_says_what_to_request_and_what_that_brings():
    """Gains 300, 310, 320 with 36, 40, 44 calls at .5: spend 20, net 282, 290, 298."""
    plan = offered((0.5, [36, 40, 44], [200, 200, 200]), call_cost=0.5)
    assert plan.sentence == (
        "Request about 40 rewards (36–44) in 1,000 rounds. Expected regret against the best policy of these features: 200, and 510 without live rewards. "
        "Net of 20 for the calls, the gain is 290, between 282 and 298 in 50% of cases."
    )
    assert str(plan).startswith(plan.sentence)
    assert plan.chosen is plan.options[1]
    kept = offered((0.5, [36, 40, 44], [200, 200, 200]), call_cost=0.5, budget=50).sentence
    assert kept.startswith("Request about 40 of at most 50 rewards (36–44) in 1,000 rounds. ")
    last = offered((0.5, [36, 40, 44], [200, 200, 200]), budget=50)
    assert last.sentence == (
        "Request about 40 of at most 50 rewards (36–44) in 1,000 rounds. Expected regret against the best policy of these features: 200, and 510 without live rewards. "
        "The gain is 310, between 300 and 320 in 50% of cases. At 0.5 a call, the budget lasts; calls pay while a reward costs less "
        "than 7.8."
    )
    assert last.spend(last.options[1]) is last.net(last.options[1]) is None
    usual = Plan(**{**plan.__dict__, "coverage": 0.9, "warnings": ("Beware.",)})
    assert usual.sentence.endswith("between 282 and 298 in nine of ten cases.")
    assert str(usual).splitlines()[1] == usual.to_dict()["warnings"][0] == "Beware."


def test_no_standard_error_of_the_simulation_is_shown_as_if_it_were_an_interval():
    plan = offered((0.5, [36, 40, 44], [200, 200, 200]), (9.0, [40, 40, 40], [200, 500, 700]))
    assert "±" not in str(plan) + plan._repr_html_()
    losing = next(row for row in rows(plan) if "at 9" in row[0])
    assert "-540 to -60" in losing  # a gain of 300, 10 and −180, 40 calls at 9


def test_the_sentence_requests_none_where_calls_do_not_repay_themselves():
    dear = offered((10.0, [36, 40, 44], [200, 200, 200]), call_cost=10.0)
    assert dear.chosen is dear.alone
    assert dear.sentence == (
        "Request none: 40 calls, at 10 each, are expected to gain 310 (300–320) over the offline policy, and to cost 400."
    )
    same = [500, 510, 520]
    silent = offered((2000.0, [0, 0, 0], same), call_cost=2000.0)
    assert silent.sentence == (
        "Request none: at 2,000 each, no reward is expected to repay itself in 1,000 rounds."
    )
    assert offered((1.0, [0, 0, 0], same), budget=0).sentence == "Request none: the budget is 0 calls."
    vain = offered((1.0, [4, 5, 6], same), budget=9).sentence
    assert vain.startswith("Request none: 5 calls, whatever they cost, are expected to gain 0")


def test_without_a_price_the_sentence_goes_through_some():
    plan = offered((0.1, [40, 40, 40], [200, 200, 200]), (9.0, [40, 40, 40], [200, 200, 200]))
    assert plan.chosen is None
    assert plan.sentence.endswith("at 0.1 each, about 40 for a gain of 310 (300–320); at 9 each, none.")
    assert plan.spend(plan.options[2]).mean == 360
    assert made_up().sentence == ("Pareto-optimal, by mean calls and mean regret: free; middling; dear.")


def test_a_learner_that_nets_clearly_more_is_named():
    plan = offered((0.5, [36, 40, 44], [200, 200, 200]), call_cost=0.5)
    rival = option("rival", [20, 20, 20], [100, 110, 120])
    better = Plan(**{**plan.__dict__, "options": (*plan.options, rival)})
    assert better.answers == ("In the same simulations rival nets 100 more.",)  # 108, 100 and 92
    assert plan.answers == ()


def test_summary_is_order_statistics():
    values = np.random.default_rng(0).permutation(np.arange(1.0, 40.0))
    found = WorldSummary.of(values, Strata(np.arange(39), np.full(39, 10**9), 39, 2))
    assert (found.mean, found.median, found.low, found.high) == (20, 20, 2, 38)
    assert found.error == pytest.approx(math.sqrt(130 / 39), rel=0.2)  # variance of 1..n is n(n+1)/12
