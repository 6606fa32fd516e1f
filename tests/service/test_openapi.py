"""The document says what is served, and what is served is as the document says, whatever is sent."""

import json
import os
import re

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR
from starlette.routing import Route

from service.serving import PLAIN, RAW, columns_log, faults, made, running
from sparing.service.http.app import ENDPOINTS, routes
from sparing.service.http.endpoint import openapi_document
from sparing.service.server import ServerSettings

SERVED = [route for route in routes() if isinstance(route, Route)]
DOCUMENT = json.loads(openapi_document(ENDPOINTS))
UNDOCUMENTED = {"/healthz", "/readyz", "/openapi.json", "/{path:any}"}
"""Served beside the API, with the files of the page."""

EXAMPLES = round(12 * float(os.environ.get("SPARING_FUZZ", "1")))
"""Of requests that fit, and of those that do not, for each operation."""

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
FUZZ = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = {found.ok().label: found.ok() for found in SCHEMA.get_all_operations()}
CONTEXTS = st.sampled_from([PLAIN, RAW, [0, 0, 0], [1e50, -1e50, 1e-300], {"age": None, "device": "x"}])
LABELS = st.lists(st.sampled_from(["red", "green", "blue"]), min_size=1, unique=True)
EXPERIMENTS = st.sampled_from(["shop", "shop", "banners", None])


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    """A service with two experiments, and one with one, for routes that name none."""
    two, one = (
        ServerSettings(tmp_path_factory.mktemp("fuzz") / "store", durability="process") for _ in range(2)
    )
    made(made(two), "banners", columns_log())
    made(one, "banners", columns_log())
    with running(two) as several, running(one) as single:
        yield several, single
    for known in (two, one):
        assert faults(known) == []  # after all that, every decision still follows from the store


def cases():
    """Every operation with requests that fit and, where there is something to get wrong, with others."""
    for label, operation in OPERATIONS.items():
        yield pytest.param(operation, schemathesis.GenerationMode.POSITIVE, id=f"{label} fitting")
        if operation.body or operation.query:
            yield pytest.param(operation, schemathesis.GenerationMode.NEGATIVE, id=f"{label} unfit")


def test_the_document_is_valid():
    OPENAPI_31_VALIDATOR.validate(DOCUMENT)
    SCHEMA.validate()
    for pointer in re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(DOCUMENT)):
        place = DOCUMENT
        for step in pointer.split("/"):
            place = place[step]
    ids = [one["operationId"] for path in DOCUMENT["paths"].values() for one in path.values()]
    assert len(set(ids)) == len(ids)
    for path, methods in DOCUMENT["paths"].items():
        for operation in methods.values():
            assert operation["summary"]
            named = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))


def test_every_route_is_in_the_document_and_every_documented_one_is_served(services):
    told = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    served = {
        (method, re.sub(r":\w+}", "}", route.path))
        for route in SERVED
        if route.path not in UNDOCUMENTED and hasattr(route.endpoint, "handler")
        for method in route.methods - {"HEAD"}
    }
    assert told == served
    apart = {route.path for route in SERVED if not hasattr(route.endpoint, "handler")}
    assert {path for path in apart if not path.endswith((".js", ".css", "/"))} <= UNDOCUMENTED
    assert httpx.get(services[0] + "/openapi.json").json() == DOCUMENT


@pytest.mark.parametrize(("operation", "mode"), list(cases()))
def test_answers_are_as_documented(services, operation, mode):
    url = services["/personalizer/" in operation.label]
    for name in ("shop", "banners"):
        httpx.post(f"{url}/v1/{name}/mode", json={"mode": "live"})  # where one is paused 503 is right
    seen = set()

    @FUZZ
    @given(operation.as_strategy(generation_mode=mode), EXPERIMENTS, CONTEXTS, LABELS)
    def ask(case, experiment, context, labels):
        if experiment is not None and "experiment" in (case.path_parameters or {}):
            case.path_parameters["experiment"] = experiment
        if mode.is_positive and isinstance(case.body, dict):
            make_use(case.body, context, labels)
        seen.add(case.call_and_validate(base_url=url, checks=CHECKS, timeout=30).status_code)

    ask()
    assert max(seen) < 500
    if mode.is_positive and operation.label.endswith(("/decide", "/rank", "/batch", "/mode")):
        assert seen & {200, 201}, seen


def make_use(body, context, labels):
    """Make a request that fits the document fit the experiments too, so that some come through to the rules."""
    for one in [body, *body.get("decisions", [])]:
        if isinstance(one, dict) and "context" in one:
            one["context"] = context
            one.pop("eligible", None)
    if "actions" in body:
        body["actions"] = [{"id": label} for label in labels]
        body["contextFeatures"] = [context if isinstance(context, dict) else RAW]
