"""Typed endpoints: one declaration gives decoding, encoding, problem details and the OpenAPI document."""

import asyncio
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sparing.errors import SparingError
from sparing.log import labels
from sparing.log.labels import RepeatedKeyError
from sparing.service.errors import (
    RETRY_AFTER,
    Problem,
    ServiceError,
    not_found,
    print_traceback,
    unavailable,
    validation_detail,
)

if TYPE_CHECKING:
    from sparing.service.http.auth import Caller
    from sparing.service.server import Service

MAX_BODY = 16 * 2**20  # bytes, except for logs
MAX_LOG_BODY = 512 * 2**20
MAX_SESSION_BODY = 4 * 2**10
DECODED_HERE = 256 * 2**10  # bytes; larger bodies are decoded in a thread, so that other requests do not wait
LONGEST = 18  # digits of a content length
DIGITS = re.compile(r"[0-9]{1,19}")
# Written by some JSON encoders, but not JSON.
NOT_FINITE = re.compile(rb"[:,\[]\s*-?(NaN|Infinity)\b")

ESCAPED_COLON = b"\\u003"
JSON = (b"content-type", b"application/json")
PROBLEM = (b"content-type", b"application/problem+json")
Header = tuple[bytes, bytes]

PROBLEMS = {
    "400": "The body is not JSON, or the host name is not allowed.",
    "401": "The key is missing or invalid.",
    "403": "The key does not permit this request.",
    "404": "There is no such experiment or decision.",
    "405": "This path does not support the method.",
    "409": "The request contradicts a stored decision or reward.",
    "412": "The experiment has changed.",
    "413": "The request is too large.",
    "415": "The content type must be application/json.",
    "422": "A value is not allowed; `field` is its name.",
    "503": "The service is unavailable; try again after Retry-After seconds.",
}


class PathSegment(Convertor[str]):
    """The rest of a path, line breaks included: `{name:any}`. Starlette's `path` stops at a line break."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("any", PathSegment())


class Call(NamedTuple):
    """A request: path and query parameters, caller and headers."""

    path: dict[str, str]
    query: dict[str, str]
    caller: "Caller"
    headers: dict[bytes, bytes]
    scope: Scope


class Reply(NamedTuple):
    """An answer with its own status, body and headers."""

    status: int
    body: bytes = b""
    headers: tuple[Header, ...] = ()


def extra_headers(error: ServiceError) -> list[Header]:
    extra = {503: (b"retry-after", str(RETRY_AFTER).encode()), 401: (b"www-authenticate", b"Bearer")}
    return [extra[error.status]] if error.status in extra else []


def problem(error: ServiceError) -> Reply:
    return Reply(error.status, msgspec.json.encode(error.document()), (PROBLEM, *extra_headers(error)))


@dataclass(eq=False)
class Endpoint:
    """A handler behind a method and a path: `handler(service, call, body)`, or `handler(service, call)` without a body.

    `refusal` makes problems of the content type and message type `shape`. With `chooses` the key, not the path, selects the
    experiment.
    """

    method: str
    path: str
    handler: Callable[..., Awaitable[Any]]
    role: str | None
    status: int = 200
    query: dict[str, str] = field(default_factory=dict)
    limit: int = MAX_BODY
    refusal: Callable[[ServiceError], Reply] = problem
    shape: tuple[str, type] = (PROBLEM[1].decode(), Problem)
    chooses: bool = False

    def __post_init__(self) -> None:
        hints = get_type_hints(self.handler, include_extras=True)
        self.body, self.answer = hints.get("body"), hints.get("return")
        self.doc = inspect.getdoc(self.handler) or ""
        self._decoder = msgspec.json.Decoder(self.body) if self.body else None
        self._encode = msgspec.json.Encoder().encode

    def route(self) -> Route:
        return Route(self.path, self, methods=[self.method])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            reply = await self._reply(scope, receive)
        except ServiceError as error:
            reply = self.refusal(error)
        except SparingError as error:
            reply = self.refusal(ServiceError(422, "invalid", str(error)))
        except Exception:
            print_traceback()
            reply = self.refusal(
                ServiceError(500, "internal", "internal error; the server log has the details")
            )
        await respond(send, reply, head=scope["method"] == "HEAD")

    async def _reply(self, scope: Scope, receive: Receive) -> Reply:
        service: Service = scope["app"].service
        headers: dict[bytes, bytes] = dict(scope["headers"])
        path: dict[str, str] = scope["path_params"]
        if "\0" in scope["path"]:
            raise not_found("a path cannot contain NUL")
        caller = service.guard.admit(headers, self.role, path.get("experiment"), chooses=self.chooses)
        if self.role is not None and not service.ready:
            raise unavailable("starting", "the service is starting. Try again")
        if caller.experiment is not None and not service.registry.has(caller.experiment):
            # The registry's own message lists the other experiments, which this key may not know.
            raise not_found(f"there is no experiment {caller.experiment!r}", "unknown_experiment")
        query = _query(scope["query_string"], self.query)
        call = Call(path, query, caller, headers, scope)
        if self._decoder is None:
            found = await self.handler(service, call)
        else:
            _check_type(headers)
            raw = await _body(receive, headers, self.limit)
            if len(raw) > DECODED_HERE:
                body = await asyncio.to_thread(_decoded, self._decoder, raw)
            else:
                body = _decoded(self._decoder, raw)
            found = await self.handler(service, call, body)
        if isinstance(found, Reply):
            return found
        return Reply(self.status, self._encode(found), (JSON,))


ENDPOINTS: list[Endpoint] = []  # in the order in which routes are tried
EXPERIMENT = "/v1/{experiment}"


def endpoint(method: str, path: str, **settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:

    def declare(handler: Callable[..., Any]) -> Callable[..., Any]:
        ENDPOINTS.append(Endpoint(method, path, handler, **settings))
        return handler

    return declare


async def respond(send: Send, reply: Reply, *, head: bool = False) -> None:
    length = (b"content-length", str(len(reply.body)).encode())
    headers = [*reply.headers, length] if reply.status != 204 else list(reply.headers)
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else reply.body})


def _query(text: bytes, known: dict[str, str]) -> dict[str, str]:
    if not text:
        return {}
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        raise ServiceError(400, "query", "the query string is malformed") from None
    given: dict[str, str] = {}
    for name, value in pairs:
        if name in given:
            raise ServiceError(
                422, "repeated_parameter", f"query parameter {name!r} occurs twice; send it once", name
            )
        given[name] = value
        if name not in known:
            listed = ", ".join(known) or "none"
            raise ServiceError(
                422, "unknown_parameter", f"unknown query parameter {name!r}; allowed: {listed}", name
            )
    return given


def _check_type(headers: dict[bytes, bytes]) -> None:
    said = headers.get(b"content-type", b"")
    kind = said if said == JSON[1] else said.partition(b";")[0].strip().lower()
    if kind != JSON[1]:
        shown = kind.decode("latin-1") or "nothing"
        raise ServiceError(
            415, "content_type", f"content type {shown}; must be application/json", "Content-Type"
        )


async def _body(receive: Receive, headers: dict[bytes, bytes], limit: int) -> bytes:
    said = headers.get(b"content-length", b"0")
    if said.isdigit() and (len(said) > LONGEST or int(said) > limit):
        raise _too_large(limit)
    body: bytes = b""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ServiceError(400, "disconnected", "the request body is incomplete")
        body = message.get("body", b"")
        size += len(body)
        if size > limit:
            raise _too_large(limit)
        parts.append(body)
        if not message.get("more_body"):
            return body if len(parts) == 1 else b"".join(parts)


def _too_large(limit: int) -> ServiceError:
    if limit < 2**20:
        return ServiceError(413, "too_large", f"the request exceeds {limit // 2**10} KiB")
    return ServiceError(
        413,
        "too_large",
        f"the request exceeds {limit // 2**20} MiB. Send less at once, or import the log with `sparing serve --log`",
    )


def _decoded(decoder: msgspec.json.Decoder[Any], raw: bytes) -> Any:
    try:
        _check_keys(raw)
        return decoder.decode(raw)
    except RepeatedKeyError as error:
        raise ServiceError(422, "repeated_field", str(error), labels.truncate(error.key)) from None
    except msgspec.ValidationError as error:
        detail, field = validation_detail(error, decoder.type)
        raise ServiceError(422, "invalid", f"{detail}; see /openapi.json", field) from None
    except (msgspec.DecodeError, RecursionError) as error:
        detail = "it is empty" if not raw else str(error).removeprefix("JSON is malformed: ")
        if NOT_FINITE.search(raw):
            detail += ". JSON has no NaN or Infinity; send null for a missing value"
        raise ServiceError(400, "json", f"the body is not JSON: {detail}") from None
    except UnicodeDecodeError:
        raise ServiceError(400, "json", "the body is not JSON: it is not UTF-8") from None


def _check_keys(raw: bytes) -> None:
    """Refuse a body in which an object has a repeated key; msgspec would take the last one silently.

    Counting colons is cheap: decoding and encoding again loses the colon of a repeated key. Escaped colons need the full check.
    """
    colons = raw.count(b":")
    if colons < 2:
        return
    try:
        written = msgspec.json.encode(msgspec.json.decode(raw))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return  # typed decoding gives the better message
    if written.count(b":") != colons or ESCAPED_COLON in raw:
        json.loads(raw, object_pairs_hook=labels.reject_repeated_keys, parse_int=float)


def openapi_document(endpoints: Sequence[Endpoint]) -> bytes:
    from sparing import __version__

    types = [each for one in endpoints for each in (one.body, one.answer) if _is_message(each)]
    types += [one.shape[1] for one in endpoints if one.shape[1] is not Problem] + [Problem]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    named = dict(zip(map(id, types), schemas, strict=True))
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
                "description": "Decisions over HTTP, with a reward call only if its value exceeds its cost.",
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
    kind, message = one.shape
    content = {kind: {"schema": named[id(message)]}}
    responses: dict[str, Any] = {str(one.status): answer}
    responses |= {status: {"description": said, "content": content} for status, said in PROBLEMS.items()}
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
