"""The OpenAPI 3.1 document, from the same declarations that serve."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from sparing.service.http.routing import Endpoint, Reply

PROBLEMS = {
    "400": "Not JSON, or a host name that is not served.",
    "401": "A key is needed.",
    "403": "The key may not do this.",
    "404": "There is no such experiment or decision.",
    "405": "Another method is served here.",
    "409": "It contradicts what is stored.",
    "412": "The experiment changed since.",
    "413": "Too large.",
    "415": "The content type must be application/json.",
    "422": "Well-formed, but not what can be used; `field` says where.",
    "503": "Not now; try again after Retry-After seconds.",
}


TYPE = "application/problem+json"


class Problem(msgspec.Struct):
    """Why a request is refused (RFC 9457): `code` is stable, `field` is the place at fault."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    field: str | None = None


def openapi_document(endpoints: Sequence[Endpoint]) -> bytes:
    """The document as JSON."""
    from sparing import __version__

    types = [each for one in endpoints for each in (one.body, one.answer) if _is_message(each)]
    types += [one.shape.message for one in endpoints if one.shape is not None]
    schemas, components = msgspec.json.schema_components(
        [*types, Problem], ref_template="#/components/schemas/{name}"
    )
    named = dict(zip(map(id, [*types, Problem]), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    used: dict[str, int] = {}
    for one in endpoints:
        path = re.sub(r":\w+}", "}", one.path)
        operation = _operation(one, named)
        times = used[operation["operationId"]] = used.get(operation["operationId"], 0) + 1
        operation["operationId"] += "" if times == 1 else f"_{times}"
        paths.setdefault(path, {})[one.method.lower()] = operation
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "sparing",
                "version": __version__,
                "description": "Decide over HTTP; pay for a reward only where it repays itself.",
            },
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            },
            "security": [{"key": []}, {}],
        }
    )


def _is_message(kind: Any) -> bool:
    return kind is not None and kind is not Reply


def _operation(one: Endpoint, named: dict[int, Any]) -> dict[str, Any]:
    first, _, rest = one.doc.partition("\n")
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)", one.path)
    ]
    parameters += [
        {"name": name, "in": "query", "description": said, "schema": {"type": "string"}}
        for name, said in one.query.items()
    ]
    answer: dict[str, Any] = {"description": "Done."}
    if _is_message(one.answer):
        answer["content"] = {"application/json": {"schema": named[id(one.answer)]}}
    kind, message = one.shape or (TYPE, Problem)
    problem = {kind: {"schema": named[id(message)]}}
    responses: dict[str, Any] = {str(one.status): answer}
    responses |= {status: {"description": said, "content": problem} for status, said in PROBLEMS.items()}
    found: dict[str, Any] = {
        "operationId": one.handler.__name__,
        "summary": first,
        "description": rest.strip(),
        "parameters": parameters,
        "responses": responses,
    }
    if one.body is not None:
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": named[id(one.body)]}},
        }
    if one.role is None:
        found["security"] = []
    return found
