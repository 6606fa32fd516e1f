"""Calls that are made again, batches, and changes that are refused."""

import base64

import httpx
import pytest

from each import for_each
from service.serving import PLAIN, RAW, columns_log, made, posted, refused, running
from sparing.service.server import ServerSettings

JSON = {"Content-Type": "application/json"}
SHOP, BANNERS = "/v1/shop/decide", "/v1/banners/decide"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    settings = ServerSettings(tmp_path_factory.mktemp("http") / "store", durability="process")
    with running(made(made(settings), "banners", columns_log())) as address:
        yield address


@pytest.fixture
def http(url):
    with httpx.Client(base_url=url, timeout=60.0) as client:
        yield client


def decide(http, raw, path=SHOP):
    return posted(http, raw, path)


def test_the_same_request_gives_the_same_answer(http):
    body = {"context": PLAIN, "eligible": [0, 1], "request_id": "once"}
    first = decide(http, body)
    assert [decide(http, body).content for _ in range(3)] == [first.content] * 3
    for change in ({"eligible": [1, 0]}, {"context": [0, 0, 0]}, {"subject": "s"}, {"context_id": 1}):
        refused(decide(http, {**body, **change}), 409, "request_conflict", "request_id")
    assert (
        decide(http, {"context": RAW, "request_id": "once"}, BANNERS).status_code == 200
    )  # another experiment's


def test_the_first_reward_counts(http):
    decided = decide(http, {"context": PLAIN, "request_id": "rewarded"}).json()
    path = f"/v1/shop/decisions/{decided['decision_id']}/reward"
    first = http.post(path, json={"value": 0.5})
    assert first.json()["status"] in ("taken", "unasked")
    for where in (path, "/v1/shop/decisions/rewarded/reward"):
        assert http.post(where, json={"value": 0.5}).json() == {
            "status": "duplicate",
            "seq": first.json()["seq"],
        }
        refused(http.post(where, json={"value": 0.25}), 409, "already_rewarded")
    other = next(label for label in range(6) if label != decided["action"])
    refused(http.post(path, json={"value": 0.5, "action": other}), 409, "action_mismatch", "action")
    refused(http.post(path.replace("shop", "banners"), json={"value": 0.5}), 404, "unknown_decision")


def test_batches(http):
    items = [{"context": PLAIN, "request_id": f"batch-{place}"} for place in range(1000)]
    items[7] = {"context": [1.0]}
    items[8] = {"context": PLAIN, "eligible": [99]}
    items[9] = {"context": PLAIN, "request_id": "batch-0"}  # the same again
    items[10] = {"context": [0, 0, 0], "request_id": "batch-0"}  # another one
    answer = http.post("/v1/shop/decide/batch", json={"decisions": items})
    assert answer.status_code == 200
    found = answer.json()["items"]
    assert [one["status"] for one in found[7:11]] == [422, 422, 200, 409]
    assert {one["status"] for place, one in enumerate(found) if not 7 <= place <= 10} == {200}
    assert found[8]["problem"]["field"] == "eligible[0]"
    assert found[9]["answer"] == found[0]["answer"]
    again = http.post("/v1/shop/decide/batch", json={"decisions": items[11:]}).json()["items"]
    assert again == found[11:]
    rewards = [{"decision_id": f"batch-{place}", "value": 0.5} for place in range(1000)]
    rewards[1] = {"decision_id": "nobody", "value": 0.5}
    rewards[2] = {"decision_id": "batch-0", "value": 0.25}
    told = http.post("/v1/shop/rewards/batch", json={"rewards": rewards}).json()["items"]
    assert [one["status"] for one in told[:4]] == [200, 404, 409, 200]
    assert [told[place]["status"] for place in (7, 8, 9, 10)] == [404] * 4
    for name, item in (("decide", items[0]), ("rewards", rewards[0])):
        kind = "decisions" if name == "decide" else name
        refused(http.post(f"/v1/shop/{name}/batch", json={kind: [item] * 1001}), 422, "invalid", kind)
        refused(http.post(f"/v1/shop/{name}/batch", json={kind: []}), 422, "invalid", kind)
    bad = http.post("/v1/shop/decide/batch", json={"decisions": [{"context": PLAIN}, {"context": "x"}]})
    refused(bad, 422, "invalid", "decisions[1].context")


@for_each(
    "change",
    [
        {"reward_window": 1e300},
        {"reward_window": 0},
        {"reward_window": -1},
        {"budget_period": 1e-9},
        {"budget_period": 1e300},
        {"reward_window": 60, "default_reward": 1e60},
        {"holdout": 1.5},
        {"holdout": "0.5"},
        {"budget_calls": -1},
        {"budget_calls": 1.5},
        {"budget_calls": 10**30},
        {"most_open": 10**30},
        {"holdout_policy": "nobody"},
        {"fallback": "action:99"},
        {"fallback": None},
        {"aggregate": "mean"},
        {"aggregate": "sum", "reward_window": None},
        {"unit": "x" * 17},
        {"nothing": 1},
    ],
)
def test_options_that_do_not_fit(http, change):
    answer = http.patch("/v1/shop", json=change)
    assert answer.status_code == 422, answer.text
    assert decide(http, {"context": PLAIN}).status_code == 200


@pytest.mark.parametrize("match", ["x", '"x"', '"' + "9" * 5000 + '"', "*", "", "²"])
def test_if_match_that_does_not(http, match):
    headers = {"If-Match": match.encode()}
    refused(http.patch("/v1/shop", json={}, headers=headers), 412, "changed", "If-Match")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"add": "a", "retire": "b"},
        {"retire": "nobody"},
        {"retire": True},
        {"add": 0},
        {"add": "new", "features": [1.0]},
        {"add": "new", "features": {"a": 1}},
    ],
)
def test_actions_that_do_not_fit(http, body):
    assert http.post("/v1/shop/actions", json=body).status_code == 422


ROWS = "".join(f"{20 + i % 50},{'ab'[i % 2]},{['red', 'green', 'blue'][i % 3]},{i % 2}\n" for i in range(60))
LOG = {
    "content": base64.b64encode(f"age,device,banner,clicked\n{ROWS}".encode()).decode(),
    "filename": "log.csv",
    "columns": {"action": "banner", "reward": "clicked"},
}
UNMADE = [
    {"name": "a/b"},
    {"name": "new\n"},
    {"name": "experiments"},
    {"log": {"content": "no base64!"}},
    {"log": {"content": "é"}},
    {"log": {"content": "AAAA"}},
    {"log": {"content": ""}},
    {"log": {"filename": ".."}},
    {"log": {"filename": "."}},
    {"log": {"filename": "../../x.parquet"}},
    {"log": {"filename": "\x00"}},
    {"log": {"columns": {"action": "nobody"}}},
    {"log": {"columns": {**LOG["columns"], "contexts": ["age", "age"]}}},
    {"log": {"columns": {**LOG["columns"], "propensity": ["age"]}}},
    {"log": {"columns": {**LOG["columns"], "colour": "age"}}},
    {"log": {"items": [{"banner": "red", "size": 10**30}]}},
    {"log": {"items": [{"banner": "red", "size": 1}, {"banner": "green", "size": "x"}]}},
    {"log": {"actions": ["red"]}},
    {"log": {"features": {"age": 5}}},
    {"log": {"features": {"age": {}}}},
    {"log": {"features": {"age": {"kind": "vector", "size": "x"}}}},
    {"log": {"features": {"age": {"kind": "vector", "size": -1, "keep": []}}}},
    {"log": {"features": {"age": {"kind": []}}}},
    {"log": {"features": {"version": 1}}},
    {"log": {"features": {"version": 1, "columns": [{}]}}},
    {"log": {"features": {"columns": {"age": "number"}, "kernel": "x"}}},
    {"log": {"features": {"columns": {"age": "number"}, "kernel": -1}}},
    {"log": {"features": {"columns": {"age": "number"}, "constant": []}}},
    {"learner": "__class__"},
    {"settings": {"log": 1}},
    {"settings": {"nothing": 1}},
    {"settings": {"tolerance": [1]}},
    {"settings": {"ridge": "1"}},
    {"settings": {"reward_range": "ab"}},
    {"learner": "eps_moful", "settings": {"supported": {"certified_within": []}}},
    {"learner": "eps_moful", "settings": {"supported": {"top": 1.5}}},
    {"learner": "economical", "settings": {"call_cost": 0.1, "horizon": 10**30}},
    {"options": {"default_reward": 1.0}},
    {"options": {"default_reward": 2.0, "reward_window": 1.0}, "settings": {"reward_range": [0, 1]}},
]


@for_each("change", UNMADE, ids=str)
def test_experiments_that_cannot_be_made(http, change):
    body = {"name": "new", "learner": "confident", **change, "log": {**LOG, **change.get("log", {})}}
    before = http.get("/v1/experiments").json()
    answer = http.post("/v1/experiments", json=body)
    assert answer.status_code == 422, answer.text
    assert http.get("/v1/experiments").json() == before


def test_an_experiment_that_can_be_made(http):
    body = {"name": "made", "learner": "confident", "log": LOG}
    assert http.post("/v1/experiments", json=body).status_code == 201
    refused(http.post("/v1/experiments", json=body), 409, "exists", "name")
    assert decide(http, {"context": {"age": 30, "device": "a"}}, "/v1/made/decide").status_code == 200
