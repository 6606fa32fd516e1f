"""Both of Azure Personalizer's clients, as they are, against a running service."""

import time
import uuid

import httpx
import pytest
from azure.ai.personalizer import PersonalizerClient as NewClient
from azure.cognitiveservices.personalizer import PersonalizerClient as OldClient
from azure.cognitiveservices.personalizer.models import RankableAction, RankRequest
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import HttpResponseError
from msrest.authentication import CognitiveServicesCredentials
from msrest.exceptions import HttpOperationError

from service.serving import added_key, columns_log, made, numbers_log, running
from sparing.service import events
from sparing.service.server import ServerSettings, Service

BANNERS = ("red", "green", "blue")
NESTED = [{"user": {"age": 31}}, {"device": "phone"}]
CLICK = "/v1/banners/decisions"


class Old:
    """azure-cognitiveservices-personalizer."""

    error = HttpOperationError

    def __init__(self, url, key="whatever"):
        self.client = OldClient(url, CognitiveServicesCredentials(key))
        self.client.config.retry_policy.retries = 0

    def rank(self, actions=BANNERS, context=NESTED, *, excluded=None, event=None, deferred=False):
        listed = [RankableAction(id=name, features=[{"colour": name}]) for name in actions]
        request = RankRequest(
            actions=listed,
            context_features=context,
            excluded_actions=excluded,
            event_id=event,
            defer_activation=deferred,
        )
        return self.client.rank(request).serialize(keep_readonly=True)

    def reward(self, event, value):
        self.client.events.reward(event, value)

    def activate(self, event):
        self.client.events.activate(event)


class New:
    """azure-ai-personalizer."""

    error = HttpResponseError

    def __init__(self, url, key="whatever"):
        self.client = NewClient(url, AzureKeyCredential(key), retry_total=0)

    def rank(self, actions=BANNERS, context=NESTED, *, excluded=None, event=None, deferred=False):
        request = {
            "actions": [{"id": name, "features": [{"colour": name}]} for name in actions],
            "contextFeatures": context,
            "deferActivation": deferred,
        }
        if excluded is not None:
            request["excludedActions"] = excluded
        if event is not None:
            request["eventId"] = event
        return self.client.rank(request)

    def reward(self, event, value):
        self.client.reward(event, {"value": value})

    def activate(self, event):
        self.client.activate(event)


CLIENTS = pytest.mark.parametrize("client", [Old, New])


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store with one experiment over raw columns."""
    settings = ServerSettings(tmp_path_factory.mktemp("banners") / "store", durability="process")
    with running(made(settings, "banners", columns_log())) as address:
        yield address


def refused(client, call, *args, **settings):
    """What a client raises where it is refused: the status, Microsoft's code, ours, the message and the target."""
    with pytest.raises(client.error) as caught:
        call(*args, **settings)
    response = caught.value.response
    told = response.json()["error"]
    assert set(told) <= {"code", "message", "innerError", "target"}
    assert told["message"] in str(caught.value) or client.error is HttpOperationError
    return response.status_code, told["code"], told["innerError"]["code"], told["message"], told.get("target")


@CLIENTS
def test_rank_then_reward(client, url):
    speaker = client(url)
    ranked = speaker.rank()
    shown, *others = ranked["ranking"]
    assert ranked["rewardActionId"] == shown["id"]
    assert {one["id"] for one in ranked["ranking"]} == set(BANNERS)
    assert sum(one["probability"] for one in ranked["ranking"]) == pytest.approx(1.0)
    assert others[0]["probability"] == others[1]["probability"] <= shown["probability"]
    stored = httpx.get(f"{url}{CLICK}/{ranked['eventId']}").json()
    assert (stored["action"], stored["play_probability"]) == (shown["id"], shown["probability"])
    found = refused(speaker, speaker.reward, ranked["eventId"], 1e40)  # the log has clicks: 0 and 1
    assert (*found[:3], found[4]) == (422, "BadRequest", "reward", "value")
    speaker.reward(ranked["eventId"], 1.0)
    assert httpx.get(f"{url}{CLICK}/{ranked['eventId']}").json()["reward"] == 1.0


@CLIENTS
@pytest.mark.parametrize("event", ["", "ordered-", "with / and ? and % and é "])
def test_the_same_event_gives_the_stored_answer(client, url, event):
    speaker, event = client(url), f"{event}{uuid.uuid4()}"
    ranked = speaker.rank(event=event)
    assert ranked["eventId"] == event
    for _ in range(3):
        assert speaker.rank(event=event) == ranked
    assert refused(speaker, speaker.rank, ["red", "blue"], event=event)[:3] == (
        409,
        "Conflict",
        "request_conflict",
    )
    speaker.reward(event, 1.0)
    speaker.reward(event, 1.0)
    speaker.reward(event, 0.0)  # the first one counts, and nobody is told off
    kept = [
        one for one in httpx.get(f"{url}{CLICK}?limit=1000").json()["decisions"] if one["request_id"] == event
    ]
    assert [one["reward"] for one in kept] == [1.0]


@CLIENTS
def test_excluded_actions_are_ranked_last_and_never_chosen(client, url):
    for _ in range(20):
        ranked = client(url).rank(excluded=["green", "not asked for"])
        assert ranked["rewardActionId"] != "green"
        assert ranked["ranking"][-1] == {"id": "green", "probability": 0.0}
    assert client(url).rank(["red"])["ranking"] == [{"id": "red", "probability": 1.0}]
    status, code, ours, _, target = refused(client, client(url).rank, excluded=list(BANNERS))
    assert (status, code, ours, target) == (422, "BadRequest", "no_action", "excludedActions")


@CLIENTS
def test_a_deferred_event_counts_once_it_is_activated(client, tmp_path):
    settings = made(ServerSettings(tmp_path / "store"), "banners", columns_log())
    service = Service(settings)
    with running(service) as url:
        speaker, model = client(url), service.registry.get("banners").model
        shown, never = (speaker.rank(deferred=True)["eventId"] for _ in range(2))
        before = model.learner.sets.digest
        for event in (shown, shown, never):  # a reward that is sent again counts once here too
            speaker.reward(event, 0.5)
        assert model.learner.sets.digest == before  # nothing is learnt of what nobody has seen
        speaker.activate(shown)
        speaker.activate(shown)
        assert model.learner.sets.digest != before
        kept = {one["decision_id"]: one for one in httpx.get(f"{url}{CLICK}").json()["decisions"]}
        assert kept[shown]["reward"] == 0.5
        assert kept[never]["outcome"] is None
        assert len(model.open) == 1


@CLIENTS
def test_a_deferred_event_that_is_never_activated_ends_void(client, tmp_path):
    now = [events.now()]
    settings = made(
        ServerSettings(tmp_path / "store"), "banners", columns_log(), reward_window=60.0, default_reward=0.0
    )
    with running(Service(settings, clock=lambda: now[0])) as url:
        speaker = client(url)
        late, never = speaker.rank()["eventId"], speaker.rank(deferred=True)["eventId"]
        speaker.reward(never, 1.0)
        now[0] += 61_000_000
        speaker.reward(late, 1.0)  # too late, and no error
        speaker.activate(never)  # too late as well
        speaker.reward(never, 1.0)
        assert outcomes(url) == {late: ("default", 0.0), never: ("void", None)}


def outcomes(url):
    """What became of each decision, once all are closed."""
    for _ in range(200):
        kept = httpx.get(f"{url}{CLICK}").json()["decisions"]
        found = {one["decision_id"]: (one["outcome"], one["reward"]) for one in kept}
        if all(outcome is not None for outcome, _ in found.values()):
            return found
        time.sleep(0.05)
    raise AssertionError(f"not all are closed: {found}")


@CLIENTS
def test_rewards_add_up_where_the_experiment_says_so(client, tmp_path):
    settings = ServerSettings(tmp_path / "store")
    made(settings, "banners", columns_log(), aggregate="sum", reward_window=60.0)
    service = Service(settings)
    with running(service) as url:
        speaker = client(url)
        event = next(one["eventId"] for one in (speaker.rank() for _ in range(50)) if asked_about(url, one))
        for value in (0.25, 0.5):
            speaker.reward(event, value)
        (parts,) = {one.parts for one in service.registry.get("banners").model.open.values() if one.added}
        assert parts == 0.75


def asked_about(url, ranked):
    return httpx.get(f"{url}{CLICK}/{ranked['eventId']}").json()["needs_reward"]


@CLIENTS
@pytest.mark.parametrize(
    "context",
    [
        [{"age": 31, "device": "phone"}],
        [{"age": 31}, {"device": "phone"}],
        [{"user": {"age": 31, "hardware": {"device": "phone"}}}],
        [{}, {"a": {}}, {"user": {"age": 31}, "device": "phone"}],
    ],
)
def test_columns_from_nested_objects(client, url, context):
    event = f"nested-{uuid.uuid4()}"
    ranked = client(url).rank(context=[{"age": 31, "device": "phone"}], event=event)
    assert client(url).rank(context=context, event=event) == ranked  # the same request, said in another way


@CLIENTS
@pytest.mark.parametrize(
    ("context", "says"),
    [
        ([{"age": 31}], "device"),
        ([{"age": 31, "device": "phone", "mood": 1}], "no column for 'mood'"),
        ([{"user": {"Age": 31}, "device": "phone"}], "Did you mean 'age'?"),
        ([{"age": 31, "device": "phone"}, {"user": {"age": 32}}], "two values, from 'age' and 'user.age'"),
        ([{"age": "old", "device": "phone"}], "old"),
        (None, "age"),
    ],
)
def test_contexts_that_do_not_fit(client, url, context, says):
    status, code, _, message, _ = refused(client, client(url).rank, context=context)
    assert (status, code) == (422, "BadRequest")
    assert says in message


@CLIENTS
def test_actions_that_do_not_fit(client, url):
    rank = client(url).rank
    status, code, ours, message, target = refused(client, rank, ["red", "pink"])
    assert (status, code, ours, target) == (422, "BadRequest", "unknown_action", "actions[1].id")
    assert "/actions" in message
    assert refused(client, rank, ["red", "red"])[2] == "repeated_action"
    assert refused(client, rank, [])[0] == 422


@CLIENTS
def test_unknown_events(client, url):
    speaker = client(url)
    for event in ("nobody", str(uuid.uuid4())):
        found = refused(client, speaker.reward, event, 1.0)
        assert found[:3] == (404, "ResourceNotFound", "unknown_decision")
        assert refused(client, speaker.activate, event)[0] == 404


@CLIENTS
def test_the_key_says_which_experiment(client, tmp_path):
    settings = made(made(ServerSettings(tmp_path / "store")), "banners", columns_log())
    keys = {name: added_key(settings, name, experiment=name) for name in ("shop", "banners")}
    every, reader = added_key(settings, "every"), added_key(settings, "reader", "read")
    lost = added_key(settings, "lost", revoked=1)
    with running(settings) as url:
        assert client(url, keys["banners"]).rank()["rewardActionId"] in BANNERS
        numbers = [dict(zip(numbers_log().feature_names, (0.5, 1.0, 0.0), strict=True))]
        ranked = client(url, keys["shop"]).rank(["0", "3"], numbers)
        assert ranked["rewardActionId"] in ("0", "3")  # labels that are numbers, by their text
        status, _, code, message, _ = refused(client, client(url, every).rank)
        assert (status, code) == (422, "which_experiment")
        assert "banners, shop" in message
        assert refused(client, client(url, reader).rank)[:2] == (403, "Forbidden")
        for key in (lost, "wrong"):
            assert refused(client, client(url, key).rank)[:2] == (401, "Unauthorized")


def test_a_store_without_an_experiment(tmp_path):
    with running(ServerSettings(tmp_path / "store")) as url:
        assert refused(New, New(url).rank)[:3] == (404, "ResourceNotFound", "unknown_experiment")


def test_what_is_not_offered_says_so(url):
    for path in ("/personalizer/multislot/rank", "/personalizer/v1.1-preview.1/multislot/rank"):
        answer = httpx.post(url + path, json={})
        assert answer.status_code == 404
        assert "one by one" in answer.json()["error"]["message"]
    answer = httpx.get(url + "/personalizer/rank")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error"]["code"] == "MethodNotAllowed"
    with pytest.raises(HttpResponseError, match="one by one"):
        NewClient(url, AzureKeyCredential("x"), retry_total=0).rank_multi_slot({"actions": [], "slots": []})


def test_deep_contexts_are_refused(url):
    context = 31
    for _ in range(500):
        context = {"age": context}
    answer = httpx.post(
        url + "/personalizer/rank", json={"actions": [{"id": "red"}], "contextFeatures": [context]}
    )
    assert answer.status_code == 422
    assert "deep" in answer.json()["error"]["message"]
