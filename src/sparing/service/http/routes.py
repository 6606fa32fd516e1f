"""The routes: what is asked over HTTP, and who may ask it."""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sparing.service import page
from sparing.service.http import administering, deciding, metrics, personalizer, records
from sparing.service.http.openapi import openapi_document
from sparing.service.http.guard import COOKIE, SESSION
from sparing.service.http.routing import ENDPOINTS, Call, Reply, endpoint, problem, respond
from sparing.service.messages import SessionRequest
from sparing.service.problems import ServiceError, not_found
from sparing.service.serving import Service

DECLARED = (deciding, administering, records, personalizer)
"""Where the other routes are."""


@endpoint("POST", "/session", role=None, status=204)
async def session(service: Service, call: Call, body: SessionRequest) -> Reply:
    """Swap a key for a cookie that may only read: for the page."""
    cookie = (
        f"{COOKIE}={service.guard.session(body.key)}; HttpOnly; SameSite=Strict; Path=/; Max-Age={SESSION}"
    )
    if call.scope.get("scheme") == "https":
        cookie += "; Secure"
    return Reply(204, headers=((b"set-cookie", cookie.encode()),))


@endpoint("DELETE", "/session", role=None, status=204)
async def leave(service: Service, call: Call) -> Reply:
    """Forget the page's cookie."""
    gone = f"{COOKIE}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0"
    return Reply(204, headers=((b"set-cookie", gone.encode()),))


@endpoint("GET", "/metrics", role="read")
async def prometheus(service: Service, call: Call) -> Reply:
    """Numbers for Prometheus."""
    return Reply(200, await metrics.text(service, call.caller.experiment), ((b"content-type", metrics.KIND),))


async def healthz(request: Request) -> Response:
    """The process answers."""
    return Response("ok\n", media_type="text/plain")


async def readyz(request: Request) -> Response:
    """The states are read and the code is compiled."""
    ready = request.app.state.service.ready
    return Response("ready\n" if ready else "starting\n", 200 if ready else 503, media_type="text/plain")


async def document(request: Request) -> Response:
    """The OpenAPI document."""
    return Response(openapi_document(ENDPOINTS), media_type="application/json")


async def page_file(request: Request) -> Response:
    """A file of the page."""
    content, kind = page.read(request.url.path)
    return Response(content, headers={**page.HEADERS, "content-type": kind})


class Fallthrough:
    """What no route has."""

    def __init__(self, served: Sequence[Route]) -> None:
        self._served = served

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer 404, or 405 where the path is known."""
        path, method = scope["path"], scope["method"]
        theirs = path.startswith("/personalizer/")
        found = [one.methods or set() for one in self._served if one.matches(scope)[0].value]
        known = sorted(set[str]().union(*found))
        error = not_found(f"there is nothing at {path}; see /openapi.json")
        if known:
            error = ServiceError(405, "method", f"{method} is not served here; {', '.join(known)} is")
        elif theirs:
            error = personalizer.unserved(path)
        reply = personalizer.microsoft(error) if theirs else problem(error)
        if known:
            reply = reply._replace(headers=(*reply.headers, (b"allow", ", ".join(known).encode())))
        await respond(send, reply, head=method == "HEAD")


def routes() -> Sequence[BaseRoute]:
    """All routes, in the order in which they are tried."""
    often_first = sorted(ENDPOINTS, key=lambda one: one.handler.__module__ != deciding.__name__)
    served = [each.route() for each in often_first]
    served += [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/openapi.json", document),
        *(Route(path, page_file) for path in page.FILES),
    ]
    return [*served, Route("/{path:any}", Fallthrough(served))]
