"""Known costs offline: logs carry them, and `evaluate`, `learn` and `plan` compare reward − cost."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import sparing
from sparing.cli import app
from sparing.errors import LogError, SettingError

COSTS = {"large": 0.3, "new": 0.05, "small": 0.01}
K = tuple(COSTS)


def drawn(n=900, seed=0, *, support=None):
    """A table of rounds of three actions, with every probability and costs by row."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    p = rng.dirichlet(np.ones(3), n) * 0.7 + 0.1
    if support is not None:
        p[x[:, 0] > 0.5, support] = 0.0
        p /= p.sum(axis=1, keepdims=True)
    a = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    means = np.stack([0.5 + 0.4 * x[:, 0], 0.3 + 0.4 * x[:, 1], 0.5 - 0.2 * x[:, 0]], axis=1)
    r = means[np.arange(n), a] + 0.1 * rng.standard_normal(n)
    by_row = rng.random((n, 3)) * 0.4
    table = {"x_0": x[:, 0], "x_1": x[:, 1], "action": np.array(K)[a], "reward": r}
    table |= {f"p_{name}": p[:, i] for i, name in enumerate(K)}
    table |= {f"price {name}": by_row[:, i] for i, name in enumerate(K)}
    return table, means, by_row


def test_logs_carry_costs(tmp_path):
    table, _, by_row = drawn()
    rowwise = sparing.read_log(table, costs="price ")
    assert np.array_equal(rowwise.costs, by_row)
    assert rowwise.feature_names == ("x_0", "x_1")
    plain = {name: column for name, column in table.items() if not name.startswith("price")}
    fixed = sparing.read_log(plain, costs=COSTS)
    assert fixed.costs.tolist() == list(COSTS.values())
    for log in (rowwise, fixed):
        half = log.take(np.arange(log.n_rows) % 2 == 0)
        assert np.array_equal(half.logged_costs, log.logged_costs[::2])
        assert np.array_equal(half.net().rewards, (log.rewards - log.logged_costs)[::2])
        for name in ("log.parquet", "log.arrow"):
            sparing.write_log(log, tmp_path / name)
            for again in (sparing.read_log(tmp_path / name), sparing.scan(tmp_path / name).read()):
                assert np.array_equal(again.costs, log.costs)
        (lost,) = [s for s in sparing.write_log(log, tmp_path / "log.csv") if "costs" in s]
        assert "costs=" in lost
        assert any("costs are lost" in s for s in sparing.write_log(log, tmp_path / "log.dsjson"))
    assert np.array_equal(sparing.read_log(tmp_path / "log.csv", costs=COSTS).costs, fixed.costs)
    arrays = {"contexts": [[1.0]] * 2, "actions": ["a", "b"], "rewards": [0.0, 1.0]}
    assert sparing.Log.from_arrays(**arrays, costs={"a": 1, "b": 0}).costs.tolist() == [1.0, 0.0]
    assert sparing.Log.from_arrays(**arrays, costs=[[1, 2], [3, 4]]).logged_costs.tolist() == [1.0, 4.0]


def test_wrong_costs_of_a_log_are_named():
    table, _, _ = drawn(50)
    for costs, said in [
        ("fee ", "no columns that begin with costs='fee '"),
        ({"large": 1.0}, "leaves out 2 of 3 actions: 'new', 'small'"),
        ({**COSTS, "huge": 1.0}, "huge"),
        ({**COSTS, "new": np.nan}, "cost of action"),
    ]:
        with pytest.raises(LogError, match=said):
            sparing.read_log(table, costs=costs)
    del table["price new"]
    with pytest.raises(LogError, match="none for 'new'"):
        sparing.read_log(table, costs="price ")
    table["price new"] = np.full(50, np.nan)
    with pytest.raises(LogError, match="cost of action 'new' at row 0"):
        sparing.read_log(table, costs="price ")


@pytest.mark.parametrize("by_row", [False, True])
def test_every_estimate_is_of_reward_less_cost(by_row):
    """Each lies the policy's cost below the estimate of the reward; one cost for all moves its interval and no more."""
    table, _, prices = drawn(support=1)
    gross = sparing.read_log(table, costs=None, drop=[f"price {name}" for name in K])
    log = sparing.read_log(table, costs="price ")
    costs = prices if by_row else np.broadcast_to(list(COSTS.values()), prices.shape)
    rng = np.random.default_rng(3)
    policy = rng.dirichlet(np.ones(3), log.n_rows)
    options = {"interval": "bootstrap"} if by_row else {}
    before = sparing.evaluate(gross, policy, **options)
    after = (
        sparing.evaluate(log, policy, **options)
        if by_row
        else sparing.evaluate(gross, policy, costs=COSTS, **options)
    )
    spent = float((policy * costs).sum(axis=1).mean())
    assert after.policy_cost == pytest.approx(spent)
    logged = costs[np.arange(log.n_rows), log.actions]
    assert after.logged_mean == pytest.approx((log.rewards - logged).mean())
    assert before.policy_cost is None
    for one, other in zip(before.estimates, after.estimates, strict=True):
        assert other.value == pytest.approx(one.value - spent, abs=1e-12)
        assert other.low < other.value < other.high
        assert other.support_low <= other.low
        assert other.support_high >= other.high
    # A constant cost moves every interval and changes no width.
    flat = sparing.evaluate(gross, policy, costs=dict.fromkeys(K, 0.1))
    for one, other in zip(sparing.evaluate(gross, policy).estimates, flat.estimates, strict=True):
        ends = one.value, one.low, one.high, one.support_low, one.support_high
        moved = other.value, other.low, other.high, other.support_low, other.support_high
        assert moved == pytest.approx([end - 0.1 for end in ends], abs=1e-9)


def test_models_of_net_rewards_give_the_same():
    """With a constant feature and hardly any ridge, the model of net rewards is that of rewards less costs."""
    table, _, _ = drawn()
    table |= {"x_2": np.ones(len(table["reward"]))}
    log = sparing.read_log(table, costs=COSTS, drop=[f"price {name}" for name in K])
    policy = np.random.default_rng(4).dirichlet(np.ones(3), log.n_rows)
    settings = {"methods": ["dm", "dr", "sndr", "aipw"], "ridge": 1e-9}
    apart, inside = (sparing.evaluate(each, policy, **settings) for each in (log, log.net()))
    assert apart.logged_mean == pytest.approx(inside.logged_mean)
    for one, other in zip(apart.estimates, inside.estimates, strict=True):
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high), abs=1e-6)
    x = np.column_stack([table["x_0"], table["x_1"], table["x_2"]])
    for method in ("greedy", "pessimistic"):
        options = {"ridge": 1e-9} | ({"noise": 0.1, "theta_bound": 0.0} if method == "pessimistic" else {})
        apart, inside = (sparing.learn(each, method, **options) for each in (log, log.net()))
        assert np.array_equal(apart.actions(x), inside.actions(x))


def test_intervals_of_reward_less_cost_cover():
    """95 % intervals of 40 logs, costs by row: at least 95 % less 4 standard errors."""
    _, means, prices = drawn(20_000, 99)
    truth = float((means - prices).max(axis=1).mean())
    inside = 0
    for seed in range(40):
        table, own, price = drawn(400, seed)
        policy = np.eye(3)[(own - price).argmax(axis=1)]
        found = sparing.evaluate(sparing.read_log(table, costs="price "), policy, methods=["dr"])["dr"]
        inside += found.low <= truth <= found.high
    assert inside >= 33


def test_a_scan_gives_the_bits_of_the_log_in_memory(tmp_path):
    table, _, _ = drawn()
    log = sparing.read_log(table, costs="price ")
    sparing.write_log(log, tmp_path / "log.parquet")
    scan = sparing.scan(tmp_path / "log.parquet")
    policy = sparing.learn(log, "greedy", ridge=1.0)
    again = sparing.learn(scan, "greedy", ridge=1.0)
    assert np.array_equal(policy.costs, again.costs)
    assert np.array_equal(policy.theta, again.theta)
    one, other = (sparing.evaluate(each, policy, training_rows="allow") for each in (log, scan))
    assert one.to_dict() == other.to_dict()
    assert sparing.economical(scan, call_cost=0.1).costs == sparing.economical(log, call_cost=0.1).costs


@pytest.mark.parametrize("method", ["greedy", "posterior", "pessimistic", "opr", "boosted"])
def test_policies_are_learnt_for_reward_less_cost(method):
    """Where a dear action earns most, the policy avoids it; net value is above that of ignoring costs."""
    table, _, _ = drawn(1200)
    log = sparing.read_log(table, drop=[f"price {name}" for name in K])
    blind, priced = (sparing.learn(log, method, costs=costs) for costs in (None, COSTS))
    _, means, _ = drawn(4000, 7)
    x = drawn(4000, 7)[0]
    contexts = np.column_stack([x["x_0"], x["x_1"]])
    net = means - np.array(list(COSTS.values()))
    value = [float((policy.probabilities(contexts) * net).sum(axis=1).mean()) for policy in (blind, priced)]
    assert value[1] > value[0] + 0.005
    assert value[1] > 0.9 * net.max(axis=1).mean()


def test_plans_count_costs():
    table, _, _ = drawn(300)
    log = sparing.read_log(table, drop=[f"price {name}" for name in K])
    settings = {"call_cost": 0.01, "horizon": 200, "worlds": 4, "confidence": 0.5, "learners": ["economical"]}
    free, same = sparing.plan(log, **settings), sparing.plan(log, costs=dict.fromkeys(K, 0.2), **settings)
    assert same.to_dict()["costs"] == dict.fromkeys(K, 0.2)
    assert "costs" not in free.to_dict()
    for one, other in zip(free.options, same.options, strict=True):
        assert one.regret == pytest.approx(other.regret, abs=1e-9)  # the same cost for all changes nothing
        assert np.array_equal(one.calls, other.calls)
    dear = sparing.plan(log, costs={"large": 5.0, "new": 0.0, "small": 5.0}, **settings)
    assert dear.alone.regret.max() == 0  # only one action can be best


def test_commands_take_costs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table, _, _ = drawn(400)
    sparing.write_log(sparing.read_log(table, drop=[f"price {name}" for name in K]), "log.csv")
    run = CliRunner()

    def answer(*words):
        found = run.invoke(app, list(words))
        assert found.exit_code == 0, found.output
        return json.loads(found.stdout)

    costs = "small=0.01,large=0.3,new=0.05"
    learnt = answer("learn", "log.csv", "--costs", costs, "--json")
    assert learnt["held_out"]["policy_cost"] < 0.3
    found = answer("evaluate", "log.csv", "--policy", "action:large", "--costs", costs, "--json")
    assert found["policy_cost"] == pytest.approx(0.3)
    planned = ("plan", "log.csv", "--call-cost", "0.05", "--horizon", "100", "--worlds", "20", "--json")
    assert answer(*planned, "--costs", costs)["costs"]["large"] == 0.3
    for wrong in ("small=cheap", "small=1,small=2", "=1"):
        refused = run.invoke(app, ["learn", "log.csv", "--costs", wrong])
        assert refused.exit_code != 0
        assert "ACTION=COST" in str(refused.exception)
    assert "leaves out" in str(run.invoke(app, ["learn", "log.csv", "--costs", "small=1"]).exception)


def test_bernstein_is_refused():
    table, _, _ = drawn(100)
    log = sparing.read_log(table, costs="price ")
    with pytest.raises(SettingError, match="bernstein"):
        sparing.evaluate(log, np.full((100, 3), 1 / 3), interval="bernstein", reward_range=(-1, 2))
