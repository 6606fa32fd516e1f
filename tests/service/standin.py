"""A stand-in for the service: the page's files, canned overviews, keys and modes, on a free port of this machine."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import uvicorn
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sparing.service import page
from sparing.service.messages import Overview, Record

KEY = "a-key-that-reads"
ADMIN = "a-key-that-rules"


@dataclass
class Standin:
    """What is answered, and what was asked for; `down` answers nobody."""

    overviews: dict[str, Overview] = field(default_factory=dict)
    locked: bool = False
    guarded: bool = False
    down: bool = False
    modes: list[tuple[str, dict[str, Any], str | None]] = field(default_factory=list)
    explained: list[tuple[str, str]] = field(default_factory=list)
    record: Record | None = None
    summaries: int = 0
    address: str = ""

    def show(self, *overviews: Overview) -> None:
        """Begin again with these experiments."""
        self.overviews = {overview.name: overview for overview in overviews}
        self.locked = self.guarded = self.down = False
        self.modes, self.explained, self.record, self.summaries = [], [], None, 0

    def app(self) -> Starlette:
        """The routes that the page asks for."""
        routes = [Route(path, self.file) for path in page.FILES]
        routes += [
            Route("/v1/experiments", self.guard(self.experiments)),
            Route("/v1/{name}/summary", self.guard(self.summary)),
            Route("/v1/{name}/mode", self.mode, methods=["POST"]),
            Route("/v1/{name}/export", self.guard(self.export)),
            Route("/v1/{name}/decisions/{decision}", self.guard(self.decision)),
            Route("/session", self.session, methods=["POST", "DELETE"]),
        ]
        return Starlette(routes=routes)

    def guard(self, answer: Callable[[Request], Response]) -> Callable[[Request], Any]:
        async def guarded(request: Request) -> Response:
            if self.down:
                return problem(503, "unavailable", "The store is away.")
            if self.locked and request.cookies.get("session") != "reads":
                return problem(401, "unauthorized", "A key is needed.")
            return answer(request)

        return guarded

    async def file(self, request: Request) -> Response:
        content, kind = page.read(request.url.path)
        return Response(content, headers={**page.HEADERS, "Content-Type": kind})

    def experiments(self, request: Request) -> Response:
        found = [{"name": overview.name, "mode": overview.mode} for overview in self.overviews.values()]
        return JSONResponse({"experiments": found})

    def summary(self, request: Request) -> Response:
        self.summaries += 1
        overview = self.overviews.get(request.path_params["name"])
        if overview is None:
            return problem(404, "no-experiment", "There is no such experiment.")
        return Response(msgspec.json.encode(overview), media_type="application/json")

    def export(self, request: Request) -> Response:
        return Response(b"rows", media_type="application/octet-stream")

    def decision(self, request: Request) -> Response:
        self.explained.append((request.path_params["decision"], request.url.query))
        if self.record is None:
            return problem(409, "erased", "The context of the decision was erased.")
        return Response(msgspec.json.encode(self.record), media_type="application/json")

    async def mode(self, request: Request) -> Response:
        key = request.headers.get("authorization")
        name, message = request.path_params["name"], await request.json()
        self.modes.append((name, message, key))
        if self.guarded and key != f"Bearer {ADMIN}":
            return problem(403, "forbidden", "This needs an admin key.")
        self.overviews[name] = replace(self.overviews[name], mode=message["mode"])
        return JSONResponse({"mode": message["mode"]})

    async def session(self, request: Request) -> Response:
        answer = Response(status_code=204)
        if request.method == "DELETE":
            answer.delete_cookie("session")
        elif (await request.json())["key"] != KEY:
            return problem(401, "unauthorized", "No such key.")
        else:
            answer.set_cookie("session", "reads", httponly=True, samesite="strict")
        return answer


def problem(status: int, code: str, detail: str) -> Response:
    """An error as the service words it."""
    content = {"status": status, "code": code, "title": code, "detail": detail}
    return JSONResponse(content, status_code=status, media_type="application/problem+json")


@contextmanager
def served() -> Iterator[Standin]:
    """A stand-in that answers at `address` until it is left."""
    standin = Standin()
    config = uvicorn.Config(
        standin.app(), host="127.0.0.1", port=0, log_level="error", ws="none", lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    standin.address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    try:
        yield standin
    finally:
        server.should_exit = True
        thread.join(timeout=10)
