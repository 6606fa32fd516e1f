"""Explanations over HTTP: of the state at the decision, or of the present one; not stored, and gone with the context."""

import math

import httpx
import pytest

from service.serving import PLAIN, RAW, added_key, columns_log, faults, made, posted, refused, running
from sparing.service import Client
from sparing.service.messages import DecideRequest
from sparing.service.server import ServerSettings

ODD = {"age": 300, "device": "<b>watch</b>"}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    known = ServerSettings(tmp_path_factory.mktemp("explaining") / "store", durability="process")
    return made(made(known), "banners", columns_log(), learner="linucb")


@pytest.fixture(scope="module")
def shop(settings):
    with running(settings) as url, Client(url, "banners", timeout=10.0) as client:
        yield client


def sums(made):
    parts = [made.base, *(each.amount for each in made.contributions)]
    gaps = [made.base_gap, *(each.gap for each in made.contributions)]
    for these, total in ((parts, made.estimate), (gaps, made.gap)):
        assert abs(math.fsum(these) - total) <= 2.0**-52 * max(map(abs, (*these, total)))
    return True


def test_a_decision_is_explained_by_the_state_it_was_made_in(shop, settings):
    for context in (RAW, ODD, {"age": None, "device": "phone"}):
        found = shop.decide(context, explain=True)
        why = found.explanation
        assert (why.action, why.estimate, why.model_seq) == (found.action, found.value, found.model_seq)
        assert why.rows >= 200
        assert sums(why)
        shop.reward(found, 1.0)
    notes = {
        each.column: (each.value, each.note)
        for each in shop.decide(ODD, explain=True).explanation.contributions
    }
    assert notes["device"] == ("<b>watch</b>", "not in the log")
    assert notes["age"][1].startswith("beyond the log")
    assert shop.decide(RAW).explanation is None
    alone = shop.decide(RAW, eligible=["blue"], explain=True).explanation
    assert (alone.action, alone.against, alone.gap) == ("blue", None, None)
    many = shop.decide_many([DecideRequest(RAW, explain=True), RAW])
    assert [one.explanation is None for one in many] == [False, True]
    assert sums(many[0].explanation)


def test_an_answer_without_it_has_no_such_field(shop):
    plain = posted(shop._http, {"context": RAW}, f"{shop._base}/decide").json()
    assert "explanation" not in plain
    refused(
        posted(shop._http, {"context": RAW, "explain": "yes"}, f"{shop._base}/decide"),
        422,
        "invalid",
        "explain",
    )


def test_numbers_without_names_are_explained_too(shop):
    with Client(shop._base.rpartition("/v1")[0], "shop", timeout=10.0) as client:
        why = client.decide(PLAIN, explain=True).explanation
        assert sums(why)
        assert sorted(each.value for each in why.contributions) == sorted(PLAIN)
        assert why.rows == 0


def test_a_repeated_request_and_a_stored_decision_are_explained_by_the_present_state(shop):
    first = shop.decide(RAW, request_id="visit-1", explain=True)
    shop.reward(first, 1.0)
    again = shop.decide(RAW, request_id="visit-1", explain=True)
    assert (again.decision_id, again.value) == (first.decision_id, first.value)
    assert again.explanation.model_seq > first.explanation.model_seq
    assert again.explanation.estimate > first.explanation.estimate
    path = f"{shop._base}/decisions/visit-1"
    stored = shop._http.get(path, params={"explain": "true"}).json()
    assert stored["value"] == first.value
    assert stored["explanation"]["estimate"] == again.explanation.estimate
    assert stored["explanation"]["contributions"][0]["value"] in RAW.values()
    assert "explanation" not in shop._http.get(path).json()
    refused(shop._http.get(path, params={"explain": "1"}), 422, "invalid", "explain")


def test_what_is_erased_is_not_explained_and_nothing_was_stored(settings, shop):
    secret = shop.decide({"age": 33.125, "device": "zebra-7731"}, explain=True, request_id="secret")
    assert secret.explanation is not None
    erase = posted(shop._http, {"decision_id": secret.decision_id}, f"{shop._base}/erase")
    assert erase.status_code == 200
    refused(shop._http.get(f"{shop._base}/decisions/secret", params={"explain": "true"}), 409, "erased")
    held = b"".join(path.read_bytes() for path in settings.folder.rglob("*") if path.is_file())
    assert b"zebra-7731" not in held


def test_reading_needs_a_key_that_reads_this_experiment(tmp_path):
    known = made(made(ServerSettings(tmp_path / "store", durability="process")), "banners", columns_log())
    keys = {
        "read": added_key(known, "one", "read"),
        "foreign": added_key(known, "two", "admin", "banners"),
        "write": added_key(known, "three"),
        "": "x",
    }
    with running(known) as url:
        with Client(url, "shop", key=keys["write"], timeout=10.0) as client:
            path = f"{url}/v1/shop/decisions/{client.decide(PLAIN).decision_id}?explain=true"
        asked = {
            name: httpx.get(path, headers={"Authorization": f"Bearer {key}"}) for name, key in keys.items()
        }
        assert {name: one.status_code for name, one in asked.items()} == {
            "read": 200,
            "foreign": 403,
            "write": 200,
            "": 401,
        }
    assert faults(known) == []


def test_costs_of_a_request_are_a_line(shop):
    found = shop.decide(RAW, costs={"red": 0.25, "green": 0.5, "blue": 0.125}, explain=True)
    why = found.explanation
    (line,) = (each for each in why.contributions if each.kind == "cost")
    assert (why.estimate, line.value, line.amount) == (found.value, found.cost, -found.cost)
    assert line.gap == {"red": 0.25, "green": 0.5, "blue": 0.125}[why.against] - found.cost
    assert sums(why)
