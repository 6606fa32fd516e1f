"""A plan in the user's units: what a reward costs, how many may be asked for, and what that gains."""

import json
import math

import numpy as np
import pytest

from sparing import Log, economical
from sparing.model.statistics import Statistics
from sparing.online import start
from sparing.planning.plan import PRICES, TOLERANCES, plan
from sparing.planning.worlds import Worlds
from sparing.simulation import LinearWorld, draw_log
from sparing.simulation.simulate import play

BELIEFS = {"noise": 1.0, "prior_scale": 0.8, "prior_mean": np.array([0.3, 0.3, 0.3])}
QUICK = {"worlds": 19, "workers": 1, "radius_scale": 0.2}
COST, HORIZON = 0.25, 400


@pytest.fixture(scope="module")
def log():
    luck = np.random.default_rng(77).standard_normal((5, 3))
    world = LinearWorld(theta=0.3 + 0.8 * luck, noise=1.0)
    return draw_log(world, rows=80, never=[0, 1], seed=1)


@pytest.fixture(scope="module")
def priced(log):
    return plan(log, horizon=HORIZON, call_cost=COST, tolerances=[0.2], **QUICK, **BELIEFS)


def test_a_price_that_nothing_repays_asks_for_none(log):
    found = plan(log, horizon=HORIZON, call_cost=1e6, learners="economical", **QUICK, **BELIEFS)
    alone, dear = found.options
    assert (dear.calls == 0).all()
    np.testing.assert_array_equal(dear.regret, alone.regret)  # ties too are broken alike
    assert found.chosen is alone
    assert found.sentence == (
        "Request none: at 1,000,000 each, no reward is expected to repay itself in 400 rounds."
    )


def test_gain_and_net_are_those_of_the_same_worlds(priced):
    for option in priced.options:
        more = priced.alone.regret[:, -1] - option.regret[:, -1]
        gain, net, spend = priced.gain(option), priced.net(option), priced.spend(option)
        assert gain.mean == pytest.approx(option.strata.mean(more))
        assert gain.error == pytest.approx(option.strata.error(more))
        assert spend.mean == pytest.approx(COST * option.calls_at().mean)
        assert spend.high == pytest.approx(COST * option.calls_at().high)
        left = more - COST * option.calls[:, -1]
        assert net.mean == pytest.approx(gain.mean - spend.mean)
        assert net.error == pytest.approx(option.strata.error(left))
    asked = priced.options[1]
    apart = math.hypot(asked.regret_at().error, priced.alone.regret_at().error)
    assert priced.gain(asked).error != pytest.approx(apart, rel=1e-3)


def test_a_plan_plays_economical_as_it_would_go_live(log, priced):
    """The same worlds, drawn and played one by one."""
    start = economical(log, call_cost=COST, horizon=HORIZON, **BELIEFS)
    assert priced.options[1].price == COST
    for place, number in enumerate(priced.alone.strata.numbers.tolist()):
        possible = Worlds(start.prior, Statistics.of(log), log.contexts, 0.0, seed=0)
        learner = start.copy()
        learner.reseed([0, 3, number])
        trace = play(learner, possible.stream(number, HORIZON))
        assert trace.calls[-1] == priced.options[1].calls[place, -1]
        assert trace.regret[-1] == pytest.approx(priced.options[1].regret[place, -1])


def test_in_worlds_of_its_own_posterior_asking_is_no_worse_than_not_asking(log):
    """Regret + price × calls against the offline policy's regret, one-sided: the difference is within 3 standard errors."""
    for cost in (0.05, 1.0):
        found = plan(
            log, horizon=600, call_cost=cost, learners="economical", **{**QUICK, "worlds": 60}, **BELIEFS
        )
        net = found.net(found.options[1])
        assert net.mean > -3 * net.error
        assert (net.mean > 0) == (found.chosen is found.options[1])


def test_a_budget_lasts_at_its_price(log):
    budget = 30
    found = plan(log, horizon=HORIZON, budget=budget, learners="economical", **QUICK, **BELIEFS)
    option = found.options[1]
    assert (option.calls <= budget).all()
    learner = economical(log, call_cost=option.price, horizon=HORIZON, **BELIEFS)
    assert start.budget_lasts(learner, option.price, budget)
    assert not start.budget_lasts(
        learner, option.price / start.CLOSE, budget
    )  # it is the smallest such price
    assert f"At {option.price:.3g} a call, the budget lasts" in found.sentence
    assert found.to_dict()["options"][1]["spend"] is None
    both = plan(log, horizon=HORIZON, budget=5, call_cost=0.01, learners="economical", **QUICK, **BELIEFS)
    assert (both.options[1].calls <= 5).all()
    assert both.options[1].price == both.call_cost == 0.01


@pytest.mark.parametrize("said", [{"call_cost": COST}, {"budget": 30}])
def test_in_other_units_the_same_calls_and_the_gain_in_those_units(log, said):
    """8 is a power of two: nothing is rounded differently."""
    scaled = Log.from_arrays(
        log.contexts, log.actions, 8 * log.rewards, propensities=log.propensities, action_names=range(5)
    )
    believed = {name: 8 * value for name, value in BELIEFS.items()}
    dearer = {name: 8 * value if name == "call_cost" else value for name, value in said.items()}
    given = {"horizon": HORIZON, "learners": "economical", **QUICK}
    one, other = plan(log, **given, **said, **BELIEFS), plan(scaled, **given, **dearer, **believed)
    np.testing.assert_array_equal(one.options[1].calls, other.options[1].calls)
    np.testing.assert_allclose(8 * one.options[1].regret, other.options[1].regret)
    assert other.options[1].price == pytest.approx(8 * one.options[1].price)
    assert other.gain(other.options[1]).mean == pytest.approx(8 * one.gain(one.options[1]).mean)
    if "call_cost" in said:
        assert other.spend(other.options[1]).mean == pytest.approx(8 * one.spend(one.options[1]).mean)


def test_with_nothing_said_prices_and_tolerances_are_shares_of_the_noise(log):
    found = plan(log, **QUICK, **{**BELIEFS, "noise": 3.0})
    assert found.horizon == log.n_rows
    by_name = {name: [o for o in found.options if o.name == name] for name in ("economical", "confident")}
    assert [o.price for o in by_name["economical"]] == pytest.approx([3 * price for price in PRICES])
    assert [o.tolerance for o in by_name["confident"]] == pytest.approx([3 * each for each in TOLERANCES])
    calls = [o.calls_at().mean for o in by_name["economical"]]
    assert calls[0] > calls[-1]
    for option in by_name["economical"]:  # spent at the price it is tried at
        assert found.spend(option).mean == pytest.approx(option.price * option.calls_at().mean)
    assert found.net(by_name["confident"][0]) is None


@pytest.mark.parametrize("said", [{"call_cost": 0.0}, {"budget": 10}, {}])
def test_where_there_is_nothing_to_choose_nothing_is_asked_for(said):
    x = np.random.default_rng(0).random((50, 2))
    found = plan(Log.from_arrays(x, [0] * 50, x.sum(axis=1)), noise=1.0, **said, **QUICK)
    assert all((option.calls == 0).all() for option in found.options if option.name == "economical")
    assert found.chosen is (found.alone if said else None)


def test_machines_get_all_of_it(priced):
    result = json.loads(json.dumps(priced.to_dict(), allow_nan=False))
    assert result["sentence"] == priced.sentence
    assert result["chosen"] == priced.chosen.label
    assert (result["call_cost"], result["budget"], result["horizon"]) == (COST, None, HORIZON)
    asked = result["options"][1]
    assert asked["learner"] == "economical"
    assert asked["price"] == COST
    assert asked["net"]["mean"] == pytest.approx(asked["gain"]["mean"] - asked["spend"]["mean"])


def test_the_table_fits_a_terminal_and_leads_with_the_sentence(priced):
    lines = str(priced).split("\n")
    assert lines[0] == priced.sentence
    rows = [
        line
        for line in lines
        if line.startswith(("learner", "offline policy", "economical at", "confident,"))
    ]
    assert len(rows) == 4
    assert max(map(len, rows)) <= 80
