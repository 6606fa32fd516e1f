"""A log without context columns: a context-free bandit, whose only feature is a constant, at every door."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import sparing
from sparing.cli import app
from sparing.errors import LogError
from sparing.policies.policy import UniformPolicy

ROWS, RATES = 2000, {"control": 0.10, "new": 0.16}


def table(propensity=False):
    rng = np.random.default_rng(0)
    actions = rng.choice(list(RATES), ROWS, p=[0.4, 0.6])
    rewards = (rng.random(ROWS) < [RATES[name] for name in actions]).astype(float)
    more = {"propensity": np.where(actions == "new", 0.6, 0.4)} if propensity else {}
    return {"action": actions, "reward": rewards, **more}


def means(given):
    return {name: given["reward"][given["action"] == name].mean() for name in RATES}


@pytest.fixture(params=[False, True], ids=["read", "scanned"])
def opened(request):
    return sparing.scan if request.param else sparing.read_log


def test_its_only_feature_is_a_constant(opened, tmp_path):
    log = opened(table())
    assert log.encoder.names == ("constant",)
    assert "context-free" in log.encoder.described()
    found = log if isinstance(log, sparing.Log) else log.read()
    np.testing.assert_array_equal(found.contexts, np.ones((ROWS, 1)))
    np.testing.assert_array_equal(log.encoder.encode({}), [1.0])
    sparing.write_log(log, tmp_path / "log.parquet")
    assert sparing.read_log(tmp_path / "log.parquet").encoder.names == ("constant",)


def test_features_as_they_are_need_a_column():
    with pytest.raises(LogError, match="leave features out"):
        sparing.read_log(table(), features="raw")


def test_policies_are_the_best_mean(opened):
    given = table()
    for method in ("greedy", "posterior", "pessimistic"):
        policy = sparing.learn(opened(given), method)
        assert policy.action_names[policy.indices(np.ones((1, 1)))[0]] == "new"
    theta = sparing.learn(opened(given), "greedy", ridge=1e-9).theta
    np.testing.assert_allclose(theta[:, 0], list(means(given).values()), rtol=1e-6)


def test_ips_is_the_weighted_mean(opened):
    given = table(propensity=True)
    found = sparing.evaluate(opened(given), UniformPolicy(tuple(RATES)), methods=["ips", "dm"])
    by_name = {each.method: each.value for each in found.estimates}
    assert by_name["ips"] == pytest.approx((0.5 * given["reward"] / given["propensity"]).mean())
    assert by_name["dm"] == pytest.approx(np.mean(list(means(given).values())), rel=0.01)


def test_the_support_is_estimated_from_shares():
    log = sparing.read_log(table())
    found, estimate = sparing.estimate_support(log)
    assert found.support.mask().all()
    assert estimate.undecided_share == 0
    shares = log.counts / ROWS
    np.testing.assert_allclose(found.propensities, shares[log.actions], rtol=0.1)
    assert 0 < estimate.propensities.relative_error < 0.1
    assert sparing.audit(log).support == "estimated"


def test_learners_and_the_plan_take_it(opened):
    log = opened(table())
    learner = sparing.economical(log, call_cost=0.01, horizon=100)
    assert learner.decide({}).action == "new"
    assert sparing.confident(log, tolerance=0.02).decide([1.0]).action == "new"
    assert sparing.plan(log, call_cost=0.01, horizon=50, worlds=20).to_dict()


def test_the_commands_say_so(tmp_path):
    given = table()
    lines = ["action,reward", *(f"{a},{r:g}" for a, r in zip(given["action"], given["reward"], strict=True))]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    out = ["--out", str(tmp_path / "policy.sparing"), "--json"]
    found = CliRunner().invoke(app, ["learn", str(tmp_path / "log.csv"), *out])
    assert found.exit_code == 0
    assert "context-free" in found.stderr
    assert json.loads(found.stdout)["shares"]["new"] == 1


def test_the_service_takes_an_empty_context(tmp_path):
    import httpx

    from service.serving import made, running
    from sparing.service.server import ServerSettings

    settings = made(
        ServerSettings(tmp_path / "store"),
        "test",
        sparing.read_log(table()),
        "economical",
        {"call_cost": 1e-6, "horizon": 5000},
    )
    with running(settings) as address, httpx.Client(base_url=address) as http:
        answer = http.post("/v1/test/decide", json={"context": {}})
        assert answer.status_code == 200, answer.text
        assert answer.json()["action"] in RATES
        path = f"/v1/test/decisions/{answer.json()['decision_id']}/reward"
        told = http.post(path, json={"value": 1.0})
        assert told.status_code == 200, told.text
        assert http.get("/").status_code == 200
        refused = http.post("/v1/test/decide", json={"context": {"age": 3}})
        assert refused.status_code == 422
