"""The routes: what is asked over HTTP, and who may ask it."""

import asyncio
import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sparing.errors import SparingError
from sparing.log.labels import brief
from sparing.log.log import Log
from sparing.online.learner import Learner
from sparing.service import creating, events, measuring, page, uploads
from sparing.service.book import Experiment
from sparing.service.http import metrics, openapi
from sparing.service.http.guard import COOKIE, SESSION
from sparing.service.http.routing import JSON, LARGEST_LOG, Call, Endpoint, Reply, problem, respond
from sparing.service.ledger import Alter, Decide, Reward
from sparing.service.messages import (
    MOST,
    About,
    ActionRequest,
    CreateRequest,
    DecideAnswer,
    DecideBatch,
    DecideItem,
    DecideItems,
    DecideRequest,
    Experiments,
    Listed,
    ModeRequest,
    Options,
    OptionsPatch,
    Record,
    Records,
    RewardAnswer,
    RewardBatch,
    RewardItem,
    RewardItems,
    RewardRequest,
    SessionRequest,
)
from sparing.service.overview import Overview
from sparing.service.problems import ServiceError, not_found, unfit
from sparing.service.serving import Service
from sparing.service.store import Found

ENDPOINTS: list[Endpoint] = []
EXPERIMENT = "/v1/{experiment}"
DIGITS = re.compile(r"[0-9]{1,19}")


def endpoint(method: str, path: str, **settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Serve a handler under a method and a path."""

    def declare(handler: Callable[..., Any]) -> Callable[..., Any]:
        ENDPOINTS.append(Endpoint(method, path, handler, **settings))
        return handler

    return declare


def asked(service: Service, experiment: str, body: DecideRequest, *, active: bool = True) -> Decide:
    """What the writer is asked for."""
    subject = digest = None
    if body.subject is not None:
        subject = hashlib.blake2b(body.subject.encode(), key=service.store.salt, digest_size=16).digest()
    if body.request_id is not None:
        whole = [body.context, body.eligible, body.context_id, body.subject]
        digest = hashlib.blake2b(msgspec.json.encode(whole, order="sorted"), digest_size=16).digest()
    return Decide(experiment, body, events.new_id(), digest, subject, active)


@endpoint("POST", EXPERIMENT + "/decide", role="write")
async def decide(service: Service, call: Call, body: DecideRequest) -> DecideAnswer:
    """Decide in a context: the action to play, whether its reward is wanted, and why.

    The same `request_id` again gives the stored answer; with another payload it is refused (409).
    """
    answer: DecideAnswer = await service.writer.submit(asked(service, call.path["experiment"], body))
    return answer


@endpoint("POST", EXPERIMENT + "/decisions/{decision:any}/reward", role="write")
async def reward(service: Service, call: Call, body: RewardRequest) -> RewardAnswer:
    """The reward of a decision, named by its decision_id or request_id. The first one counts; the same again is a `duplicate`."""
    path = call.path
    work = Reward(path["experiment"], path["decision"], body.value, body.action)
    answer: RewardAnswer = await service.writer.submit(work)
    return answer


@endpoint("POST", EXPERIMENT + "/decide/batch", role="write")
async def decide_batch(service: Service, call: Call, body: DecideBatch) -> DecideItems:
    """Decide in many contexts, each as if asked alone after the one before it; every item has its own status."""
    works = [asked(service, call.path["experiment"], one) for one in body.decisions]
    return DecideItems([_item(DecideItem, found) for found in await service.writer.submit_all(works)])


@endpoint("POST", EXPERIMENT + "/rewards/batch", role="write")
async def reward_batch(service: Service, call: Call, body: RewardBatch) -> RewardItems:
    """Rewards of many decisions; every item has its own status."""
    name = call.path["experiment"]
    works = [Reward(name, one.decision_id, one.value, one.action) for one in body.rewards]
    return RewardItems([_item(RewardItem, found) for found in await service.writer.submit_all(works)])


def _item(kind: Any, found: Any) -> Any:
    if isinstance(found, ServiceError):
        return kind(found.status, problem=found.document())
    if isinstance(found, BaseException):
        raise found
    return kind(200, answer=found)


@endpoint("GET", "/v1/experiments", role="read")
async def experiments(service: Service, call: Call) -> Experiments:
    """The experiments of this store."""
    only = call.caller.experiment
    return Experiments([Listed(one.name, one.model.mode) for one in service.book if only in (None, one.name)])


@endpoint("POST", "/v1/experiments", role="admin", status=201, limit=LARGEST_LOG)
async def create(service: Service, call: Call, body: CreateRequest) -> Listed:
    """Make an experiment from a log."""
    creating.check_name(body.name)

    def make() -> tuple[Log, Learner]:
        log = uploads.read(body.log)
        return log, creating.make_learner(body.learner, log, body.settings)

    log, learner = await asyncio.to_thread(make)
    config = {"learner": body.learner, "settings": body.settings, "columns": body.log.columns}
    made = await creating.create(
        service.writer, body.name, log, learner, body.options, config, who=call.caller.name
    )
    return Listed(made.name, made.model.mode)


@endpoint("PATCH", EXPERIMENT, role="admin")
async def configure(service: Service, call: Call, body: OptionsPatch) -> Options:
    """Change options; those that are left out stay. With If-Match, only if nothing changed since (412)."""
    experiment = service.book.get(call.path["experiment"])
    said = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not msgspec.UNSET}
    model = experiment.model
    changed = msgspec.structs.replace(model.options, **said)
    try:
        creating.check_options(changed, model.learner)
    except SparingError as error:
        raise unfit(str(error)) from None
    since = call.headers.get(b"if-match")
    work = Alter(
        experiment.name,
        events.OPTIONS,
        msgspec.to_builtins(changed),
        call.caller.name,
        None if since is None else _etag(since),
    )
    await service.writer.submit(work)
    return changed


def _etag(text: bytes) -> int:
    number = text.decode("latin-1").strip().strip('"')
    if not DIGITS.fullmatch(number):
        raise ServiceError(412, "changed", "If-Match is not an ETag of this experiment", "If-Match")
    return int(number)


@endpoint("GET", EXPERIMENT, role="read")
async def about(service: Service, call: Call) -> About:
    """An experiment as it is now: what is promised, actions, features, options. The ETag is for If-Match."""
    found = measuring.about(service.book.get(call.path["experiment"]))
    etag = (b"etag", f'"{found.config_seq}"'.encode())
    return Reply(200, msgspec.json.encode(found), (JSON, etag))  # type: ignore[return-value]


@endpoint("GET", EXPERIMENT + "/summary", role="read")
async def summary(service: Service, call: Call) -> Overview:
    """Everything that the page shows."""
    experiment = service.book.get(call.path["experiment"])
    return await measuring.overview(
        service.writer, experiment, now=service.clock(), started=service.started, worker=service.worker
    )


@endpoint("POST", EXPERIMENT + "/mode", role="admin")
async def mode(service: Service, call: Call, body: ModeRequest) -> ModeRequest:
    """How to serve from now on: live, shadow (the fallback serves, its rewards are learnt), fallback (nothing is asked), paused."""
    experiment = service.book.get(call.path["experiment"])
    if body.mode != experiment.model.mode:
        await service.writer.submit(
            Alter(experiment.name, events.MODE, {"mode": body.mode}, call.caller.name)
        )
    return body


@endpoint("POST", EXPERIMENT + "/actions", role="admin")
async def actions(service: Service, call: Call, body: ActionRequest) -> ActionRequest:
    """Add an action (with its item's features, where the learner has items), or retire one."""
    if (body.add is None) == (body.retire is None):
        raise unfit("say either `add` or `retire`")
    experiment = service.book.get(call.path["experiment"])
    if body.add is not None:
        work = Alter(
            experiment.name, events.ACTION, {"label": body.add, "features": body.features}, call.caller.name
        )
    else:
        number = None if body.retire is None else experiment.model.number(body.retire)
        if number is None:
            raise unfit(f"action {brief(body.retire)} is unknown", "retire", "unknown_action")
        label = experiment.model.labels[number]
        work = Alter(experiment.name, events.RETIRE, {"label": label}, call.caller.name)
    await service.writer.submit(work)
    return body


@endpoint(
    "GET",
    EXPERIMENT + "/decisions",
    role="read",
    query={
        "after": "The `next` of the page before; from the first without it.",
        "limit": "Decisions a page, 1,000 at most.",
    },
)
async def decisions(service: Service, call: Call) -> Records:
    """Stored decisions in their order, and what became of them."""
    experiment = service.book.get(call.path["experiment"])
    after, limit = _whole(call, "after", 0, most=2**62), _whole(call, "limit", 100, least=1, most=MOST)
    found = await service.store.record(experiment.number, "d.seq > $2", after, limit=limit)
    more = found[-1].decision.seq if len(found) == limit and found else None
    return Records([recorded(experiment, one) for one in found], more)


def _whole(call: Call, name: str, default: int, *, least: int = 0, most: int) -> int:
    said = call.query.get(name, str(default))
    if not DIGITS.fullmatch(said) or not least <= int(said) <= most:
        raise unfit(f"{name}={brief(said)}; must be a whole number from {least} to {most}", name)
    return int(said)


@endpoint("GET", EXPERIMENT + "/decisions/{decision:any}", role="read")
async def decision(service: Service, call: Call) -> Record:
    """One decision, by its decision_id or request_id."""
    experiment, named = service.book.get(call.path["experiment"]), call.path["decision"]
    identity = events.id_bytes(named)
    found = []
    if identity is not None:
        found = await service.store.record(experiment.number, "d.decision_id = $2", identity)
    found = found or await service.store.record(experiment.number, "d.request_id = $2", named)
    if not found:
        raise not_found(f"there is no decision {named!r} in {experiment.name}", "unknown_decision")
    return recorded(experiment, found[0])


def recorded(experiment: Experiment, found: Found) -> Record:
    """A stored decision as it is shown."""
    one, closed = found
    return Record(
        events.id_text(one.decision_id),
        one.seq,
        events.time_text(one.ts),
        experiment.model.labels[one.action],
        one.needs_reward,
        one.reason,
        one.arm,
        one.play_probability,
        one.call_probability,
        one.value,
        one.low,
        one.high,
        one.model_seq,
        one.request_id,
        None if one.context_id is None else msgspec.json.decode(one.context_id),
        None if closed is None else closed.value,
        None if closed is None else closed.kind,
    )


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
    return Reply(200, await metrics.text(service), ((b"content-type", metrics.KIND),))


async def healthz(request: Request) -> Response:
    """The process answers."""
    return Response("ok\n", media_type="text/plain")


async def readyz(request: Request) -> Response:
    """The states are read and the code is compiled."""
    ready = request.app.state.service.ready
    return Response("ready\n" if ready else "starting\n", 200 if ready else 503, media_type="text/plain")


async def document(request: Request) -> Response:
    """The OpenAPI document."""
    return Response(openapi.document(ENDPOINTS), media_type="application/json")


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
        from sparing.service.http import personalizer

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
    from sparing.service.http import personalizer  # noqa: F401 - it declares its own

    served = [each.route() for each in ENDPOINTS]
    served += [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/openapi.json", document),
        *(Route(path, page_file) for path in page.FILES),
    ]
    return [*served, Route("/{path:any}", Fallthrough(served))]
