"""Bad input by hand: every refusal has its status, its code and its place; nothing is a mistake of the service (5xx)."""

import json
import socket

import httpx
import pytest

from each import for_each
from service.serving import PLAIN, RAW, columns_log, made, posted, refused, running
from sparing.service.http.endpoint import MAX_BODY
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


DEEP = b"[" * 100_000
NOT_JSON = {
    "empty": b"",
    "blank": b"  ",
    "no JSON": b"context=1",
    "two values": b'{"context":[1,2,3]} {}',
    "bad UTF-8": b'{"context":{"age":"\xff\xfe"}}',
    "bad UTF-8 in a key": b'{"\xff":1}',
    "a surrogate as UTF-8": b'{"context":{"age":"\xed\xa0\x80"}}',
    "half a surrogate pair": b'{"context":{"age":"\\ud800"}}',
    "the other half": b'{"context":[0,0,0],"request_id":"a\\udc00"}',
    "a byte order mark": b'\xef\xbb\xbf{"context":[0,0,0]}',
    "UTF-16": '{"context":[0,0,0]}'.encode("utf-16"),
    "NaN": b'{"context":[NaN,0,0]}',
    "Infinity": b'{"context":{"age":Infinity}}',
    "-Infinity": b'{"context":[-Infinity,0,0]}',
    "a comma too many": b'{"context":[0,0,0],}',
    "a leading zero": b'{"context":[01,0,0]}',
    "deep": b'{"context":{"age":' + DEEP,
    "deep and whole": b'{"context":{"age":' + DEEP + b"]" * 100_000 + b"}}",
    "deep objects": b'{"context":' + b'{"a":' * 100_000,
    "a raw NUL": b'{"context":{"age":"\x00"}}',
}


@for_each("raw", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_not_json(http, raw):
    refused(decide(http, raw), 400, "json")


UNFIT = {
    "nested where numbers go": (b'{"context":' + DEEP, "context[0]"),
    "1e400": (b'{"context":[1e400,0,0]}', "context[0]"),
    "1e400 by name": (b'{"context":{"age":1e400}}', "context[...]"),
    "a huge integer": (b'{"context":[' + b"9" * 5000 + b",0,0]}", "context[0]"),
    "a huge integer by name": (b'{"context":{"age":' + b"9" * 5000 + b"}}", "context[...]"),
    "text for a number": (b'{"context":["1.5",0,0]}', "context[0]"),
    "a boolean for a number": (b'{"context":[true,0,0]}', "context[0]"),
    "null for a number": (b'{"context":[null,0,0]}', "context[0]"),
    "no context": (b"{}", None),
    "a context that is a number": (b'{"context":1}', "context"),
    "a list for an object": (b"[]", None),
    "an unknown field": (b'{"context":[0,0,0],"colour":1}', None),
    "no eligible action": (b'{"context":[0,0,0],"eligible":[]}', "eligible"),
    "an object that is eligible": (b'{"context":[0,0,0],"eligible":[{}]}', "eligible[0]"),
    "null that is eligible": (b'{"context":[0,0,0],"eligible":[0,null]}', "eligible[1]"),
    "an empty request_id": (b'{"context":[0,0,0],"request_id":""}', "request_id"),
    "a long request_id": (json.dumps({"context": PLAIN, "request_id": "x" * 257}).encode(), "request_id"),
    "NUL in a request_id": (b'{"context":[0,0,0],"request_id":"a\\u0000"}', "request_id"),
    "NUL in a subject": (b'{"context":[0,0,0],"subject":"\\u0000"}', "subject"),
    "a number as request_id": (b'{"context":[0,0,0],"request_id":1}', "request_id"),
    "a fraction as context_id": (b'{"context":[0,0,0],"context_id":1.5}', "context_id"),
    "too few numbers": (b'{"context":[0,0]}', "context"),
    "no numbers": (b'{"context":[]}', "context"),
    "a number too large": (b'{"context":[1e300,0,0]}', "context"),
    "numbers under unknown names": (b'{"context":{"a":1,"b":2,"c":3}}', "context"),
}


@for_each(("raw", "field"), UNFIT.values(), ids=UNFIT)
def test_what_does_not_fit(http, raw, field):
    refused(decide(http, raw), 422, "invalid", field)


@for_each(
    ("context", "says"),
    [
        ({"age": 31}, "no column 'device'"),
        ({**RAW, "mood": "good"}, "unknown column 'mood'"),
        ({"AGE": 31, "device": "phone"}, "no column 'age' and unknown column 'AGE'"),
        ({**RAW, "age": [31]}, "31"),
        ({**RAW, "age": {"years": 31}}, "31"),
        ({**RAW, "age": "old"}, "old"),
        ({**RAW, "age": 10**60}, "at most 1e+50"),
        ({**RAW, "device": [["x"]]}, "x"),
        ({}, "no column 'age', 'device'"),
        (PLAIN[:2], "shape"),
    ],
)
def test_contexts_by_name_that_do_not_fit(http, context, says):
    assert says in refused(decide(http, {"context": context}, BANNERS), 422, "invalid", "context")


def test_deep_values_within_the_limit(http):
    for depth in (50, 400, 900):
        raw = b'{"context":{"device":"phone","age":' + b"[" * depth + b"]" * depth + b"}}"
        answer = decide(http, raw, BANNERS)
        assert answer.status_code in (400, 422), answer.text
        assert len(answer.content) < 2000


@for_each("label", [99, -1, "0", "", "a\x00b", "é", 1.5, True, 10**40, "x" * 100_000])
def test_unknown_eligible_actions(http, label):
    answer = decide(http, {"context": PLAIN, "eligible": [0, label]})
    refused(answer, 422, "unknown_action", "eligible[1]")
    assert len(answer.content) < 2000


def test_odd_things_that_do_fit(http):
    for body in (
        {"context": PLAIN, "eligible": [2, 2, 2.0]},
        {"context": [1, 0, -0.0]},
        {"context": PLAIN, "context_id": 2**70},
        {"context": PLAIN, "context_id": "\x7f\u2028é😀"},
        {"context": PLAIN, "request_id": "\n\t 😀 \u202e", "subject": "é"},
        {"context": PLAIN, "eligible": None, "context_id": None, "subject": None, "request_id": None},
    ):
        answer = decide(http, body)
        assert answer.status_code == 200, body
        kept = http.get(f"/v1/shop/decisions/{answer.json()['decision_id']}").json()
        assert kept["context_id"] == body.get("context_id")
        assert kept["request_id"] == body.get("request_id")
    for context in (
        {**RAW, "device": None},
        {"age": None, "device": "never seen"},
        {**RAW, "device": "\x00é"},
    ):
        assert decide(http, {"context": context}, BANNERS).status_code == 200, context


def test_a_field_that_stands_twice(http):
    answer = decide(http, b'{"context":[9,9],"context":[0,0,0]}')
    assert "'context' stands twice" in refused(answer, 422, "repeated_field", "context")


@for_each("kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""])
def test_the_content_type(http, kind):
    headers = {} if kind is None else {"Content-Type": kind}
    refused(
        http.post(SHOP, content=b'{"context":[0,0,0]}', headers=headers), 415, "content_type", "Content-Type"
    )


def test_content_types_with_a_parameter(http):
    for kind in ("application/json; charset=utf-8", "Application/JSON"):
        answer = http.post(SHOP, content=b'{"context":[0,0,0]}', headers={"Content-Type": kind})
        assert answer.status_code == 200


def test_a_body_that_is_too_large(http):
    large = b" " * (MAX_BODY + 1)
    refused(decide(http, large), 413, "too_large")
    pieces = (large[: 2**20] for _ in range(17))  # of a length that is not told before
    refused(http.post(SHOP, content=pieces, headers=JSON), 413, "too_large")


def test_a_length_that_is_no_length(url):
    host, port = url.removeprefix("http://").split(":")
    for length in (b"9" * 5000, b"-1", b"1e3", b"x"):
        with socket.create_connection((host, int(port)), timeout=10) as raw:
            head = b"POST /v1/shop/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            raw.sendall(head + b"Content-Length: " + length + b"\r\n\r\n")
            assert raw.recv(4096).split()[1] in (b"400", b"413")


def test_unknown_experiments_and_paths(http):
    assert "banners, shop" in refused(
        decide(http, {"context": PLAIN}, "/v1/nobody/decide"), 404, "unknown_experiment"
    )
    for path in (
        "/v1/a%2Fb/decide",
        "/v1/../decide",
        "/v1/%2e%2e/decide",
        "/v1/shop/decide/",
        "/v1//decide",
        "/v1/shop%0A/decide",
    ):
        answer = decide(http, {"context": PLAIN}, path)
        assert answer.status_code == 404, path
        assert answer.headers["content-type"] == "application/problem+json"
    for path in (
        "/nothing",
        "/v1",
        "/v1/shop/nothing",
        "/%00",
        "/%ff%fe",
        "/a%0Ab",
        "/..%2f..%2fetc/passwd",
    ):
        refused(http.get(path), 404, "not_found")


@for_each("named", ["nobody", "%ff", "..%2F..", "%2e%2e", "%ED%A0%80", "x" * 5000, "a%0Ab"])
def test_unknown_decisions(http, named):
    path = f"/v1/shop/decisions/{named}"
    refused(http.post(path + "/reward", json={"value": 1.0}), 404, "unknown_decision")
    if "%2e" not in named:
        refused(http.get(path), 404, "unknown_decision")


def test_nul_in_a_path(http):
    for named in ("%00", "a%00b"):
        refused(http.get(f"/v1/shop/decisions/{named}"), 404, "not_found")
        refused(http.get(f"/v1/{named}/decisions"), 404, "not_found")


@for_each(
    ("method", "path", "allowed"),
    [
        ("GET", SHOP, "POST"),
        ("PUT", SHOP, "POST"),
        ("OPTIONS", SHOP, "POST"),
        ("DELETE", "/v1/shop/decisions", "GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
        ("POST", "/openapi.json", "GET, HEAD"),
        ("GET", "/session", "DELETE, POST"),
        ("TRACE", "/v1/shop/mode", "POST"),
    ],
)
def test_other_methods(http, method, path, allowed):
    answer = http.request(method, path)
    assert answer.headers["allow"] == allowed
    refused(answer, 405, "method")


def test_head_has_no_body(http):
    for path in ("/v1/experiments", "/v1/shop/decisions", "/healthz", "/openapi.json"):
        shown, told = http.get(path), http.head(path)
        assert told.status_code == shown.status_code == 200
        assert told.content == b""
        assert told.headers["content-length"] == shown.headers["content-length"]
    for path, status in (("/nothing", 404), (SHOP, 405), ("/v1/nobody/decisions", 404)):
        answer = http.head(path)
        assert (answer.status_code, answer.content) == (status, b"")
    assert http.get("/healthz").status_code == 200  # the connection is still in step


@for_each(
    ("query", "status", "code", "field"),
    [
        ("colour=red", 422, "unknown_parameter", "colour"),
        ("after=1&limit=5&x", 422, "unknown_parameter", "x"),
        ("after=1&after=2", 422, "repeated_parameter", "after"),
        ("after=-1", 422, "invalid", "after"),
        ("after=1.5", 422, "invalid", "after"),
        ("after=", 422, "invalid", "after"),
        ("after=%F0%9D%9F%99", 422, "invalid", "after"),
        ("after=" + "9" * 5000, 422, "invalid", "after"),
        ("limit=1001", 422, "invalid", "limit"),
        ("limit=1_0", 422, "invalid", "limit"),
        ("limit=0", 422, "invalid", "limit"),
        ("after=%ff", 400, "query", None),
        ("after=%00", 422, "invalid", "after"),
    ],
)
def test_query_parameters(http, query, status, code, field):
    refused(http.get(f"/v1/shop/decisions?{query}"), status, code, field)


def test_a_query_that_is_not_ascii(url):
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall(b"GET /v1/shop/decisions?after=\xff HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert raw.recv(4096).split()[1] == b"400"


@for_each(
    ("body", "status", "field"),
    [
        (b'{"value":"1.5"}', 422, "value"),
        (b'{"value":true}', 422, "value"),
        (b'{"value":null}', 422, "value"),
        (b'{"value":1e400}', 422, "value"),
        (b'{"value":NaN}', 400, None),
        (b"{}", 422, None),
        (b'{"value":1,"note":""}', 422, None),
        (b'{"value":1,"action":[]}', 422, "action"),
        (b'{"value":1,"action":"nobody"}', 422, "action"),
        (b'{"value":1e60}', 422, "value"),
    ],
)
def test_rewards_that_do_not_fit(http, body, status, field):
    decided = decide(http, {"context": PLAIN}).json()["decision_id"]
    answer = http.post(f"/v1/shop/decisions/{decided}/reward", content=body, headers=JSON)
    assert answer.status_code == status, answer.text
    assert answer.json().get("field") == field
