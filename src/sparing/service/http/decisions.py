"""Endpoints for decisions and rewards, and for stored decisions: list, export, erase."""

import asyncio
import hashlib
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from starlette.types import Scope

from sparing.errors import LogError
from sparing.log.labels import shorten
from sparing.service import corrections, dashboard, erasure, events
from sparing.service import export as exports
from sparing.service.errors import ServiceError, conflict, unprocessable
from sparing.service.http.endpoint import DIGITS, ENDPOINTS, EXPERIMENT, Call, Endpoint, Reply, endpoint
from sparing.service.messages import (
    MAX_BATCH,
    AskQueue,
    CorrectRequest,
    DecideAnswer,
    DecideBatch,
    DecideItem,
    DecideItems,
    DecideRequest,
    Erased,
    EraseRequest,
    Record,
    Records,
    RewardAnswer,
    RewardBatch,
    RewardItem,
    RewardItems,
    RewardRequest,
)
from sparing.service.server import Service
from sparing.service.transactions import Decide, Reward


def asked(service: Service, experiment: str, body: DecideRequest, *, active: bool = True) -> Decide:
    digest = None
    if body.request_id is not None:
        whole: list[Any] = [body.context, body.eligible, body.context_id, body.subject]
        if body.costs is not None:
            whole.append(body.costs)
        payload = msgspec.json.encode(whole, order="sorted")
        digest = hashlib.blake2b(payload, digest_size=16, key=service.store.salt).digest()
    return Decide(experiment, body, events.new_id(), digest, hashed_subject(service, body.subject), active)


def hashed_subject(service: Service, subject: str | None) -> bytes | None:
    """Return the keyed hash of a subject that is stored."""
    if subject is None:
        return None
    return hashlib.blake2b(subject.encode(), key=service.store.salt, digest_size=16).digest()


@endpoint("POST", EXPERIMENT + "/decide", role="decide")
async def decide(service: Service, call: Call, body: DecideRequest) -> DecideAnswer:
    """Decide in a context: the action to play, whether its reward is needed, and why.

    Repeating a `request_id` returns the stored answer; with another payload it is refused (409). `explain` adds what each column
    contributed to the estimate. It is not stored: a repeated request is explained by the present state (`model_seq`).
    """
    answer: DecideAnswer = await service.writer.submit(asked(service, call.path["experiment"], body))
    return answer


@endpoint("POST", EXPERIMENT + "/decisions/{decision:any}/reward", role="decide")
async def reward(service: Service, call: Call, body: RewardRequest) -> RewardAnswer:
    """Send the reward of a decision, by its decision_id or request_id. The first reward counts; the same one again is a `duplicate`."""
    path = call.path
    work = Reward(path["experiment"], path["decision"], body.value, body.action, body.reward_id)
    answer: RewardAnswer = await service.writer.submit(work)
    return answer


@endpoint("POST", EXPERIMENT + "/decisions/{decision:any}/reward/correct", role="admin")
async def correct(service: Service, call: Call, body: CorrectRequest) -> RewardAnswer:
    """Replace the mistaken reward of a decision: the learner is rebuilt as if it had been the right one. Repeating it is a `duplicate`."""
    path = call.path
    return await corrections.correct(
        service.writer, path["experiment"], path["decision"], body.value, who=call.caller.name
    )


@endpoint("POST", EXPERIMENT + "/decide/batch", role="decide")
async def decide_batch(service: Service, call: Call, body: DecideBatch) -> DecideItems:
    """Decide in many contexts, in order; every item has its own status."""
    works = [asked(service, call.path["experiment"], one) for one in body.decisions]
    return DecideItems([_item(DecideItem, found) for found in await service.writer.submit_all(works)])


@endpoint("POST", EXPERIMENT + "/rewards/batch", role="decide")
async def reward_batch(service: Service, call: Call, body: RewardBatch) -> RewardItems:
    """Send rewards of many decisions; every item has its own status."""
    name = call.path["experiment"]
    works = [Reward(name, one.decision_id, one.value, one.action, one.reward_id) for one in body.rewards]
    return RewardItems([_item(RewardItem, found) for found in await service.writer.submit_all(works)])


def _item(kind: Any, found: Any) -> Any:
    if isinstance(found, ServiceError):
        return kind(found.status, problem=found.document())
    if isinstance(found, BaseException):
        raise found
    return kind(200, answer=found)


def fast_path(scope: Scope) -> Endpoint | None:
    """Return the endpoint of a decision or reward, the most frequent requests, without searching the routes; else None."""
    if scope["method"] != "POST":
        return None
    parts = scope["path"].split("/")
    match parts:
        case ["", "v1", experiment, "decide"] if experiment:
            scope["path_params"] = {"experiment": experiment}
            return DECIDE
        case ["", "v1", experiment, "decisions", decision, "reward"] if experiment and decision:
            scope["path_params"] = {"experiment": experiment, "decision": decision}
            return REWARD
    return None


DECIDE, REWARD = (one for one in ENDPOINTS if one.handler in (decide, reward))


@endpoint(
    "GET",
    EXPERIMENT + "/decisions",
    role="read",
    query={
        "after": "The `next` of the previous page; by default the first page.",
        "limit": "Decisions per page, at most 1,000.",
    },
)
async def decisions(service: Service, call: Call) -> Records:
    """Stored decisions in order, with their outcomes."""
    experiment = service.registry.get(call.path["experiment"])
    after, limit = _window(call)
    found = await service.store.record(experiment.number, "d.seq > $2", after, limit=limit)
    more = found[-1].decision.seq if len(found) == limit and found else None
    return Records([dashboard.recorded(experiment, one) for one in found], more)


@endpoint(
    "GET",
    EXPERIMENT + "/queue",
    role="read",
    query={
        "after": "The `next` of the previous page; by default the first page.",
        "limit": "Rewards per page, at most 1,000.",
    },
)
async def queue(service: Service, call: Call) -> AskQueue:
    """Rewards that are waited for, of served decisions and of shadow calls, the oldest first: for people or judges."""
    experiment = service.registry.get(call.path["experiment"])
    return await dashboard.queue(service.store, experiment, *_window(call))


def _window(call: Call) -> tuple[int, int]:
    """Return the query parameters `after` and `limit` of a page."""
    return _whole(call, "after", 0, most=2**62), _whole(call, "limit", 100, least=1, most=MAX_BATCH)


def _whole(call: Call, name: str, default: int, *, least: int = 0, most: int) -> int:
    said = call.query.get(name, str(default))
    if not DIGITS.fullmatch(said) or not least <= int(said) <= most:
        raise unprocessable(f"{name}={shorten(said)}; must be a whole number from {least} to {most}", name)
    return int(said)


@endpoint(
    "GET",
    EXPERIMENT + "/decisions/{decision:any}",
    role="read",
    query={"explain": "`true` adds what each column contributed to the estimate, by the present state."},
)
async def decision(service: Service, call: Call) -> Record:
    """One decision, by its decision_id or request_id."""
    experiment = service.registry.get(call.path["experiment"])
    wanted = call.query.get("explain", "false")
    if wanted not in ("true", "false"):
        raise unprocessable(f"explain={shorten(wanted)}; must be true or false", "explain")
    found = await corrections.find_decision(service.store, experiment, call.path["decision"])
    record = dashboard.recorded(experiment, found)
    if wanted == "true":
        context = found.decision.context
        if context is None:
            raise conflict("erased", "the context of the decision was erased; it cannot be explained")
        record.explanation = experiment.model.explain_stored(found.decision, events.unpack_context(context))
    return record


@endpoint(
    "GET",
    EXPERIMENT + "/export",
    role="read",
    query={
        "format": f"One of {', '.join(exports.FORMATS)}; parquet by default.",
        "rows": "`served`, the default, or `all`: with shadow calls, which have no propensity, so the log has none.",
    },
)
async def export(service: Service, call: Call) -> Reply:
    """The decisions that have a reward and a context, as a log in a table, with both probabilities."""
    name = call.path["experiment"]
    form, rows = call.query.get("format", "parquet"), call.query.get("rows", "served")
    service.registry.get(name)
    try:
        ending = exports.check_format(form)
    except LogError as error:
        raise unprocessable(str(error), "format") from None
    try:
        exports.check_rows(rows)
    except LogError as error:
        raise unprocessable(str(error), "rows") from None

    def write() -> bytes:
        with tempfile.TemporaryDirectory(prefix="sparing-") as folder:
            path = Path(folder) / f"{name}{ending}"
            exports.export(service.store.folder, name, form, path, rows=rows, address=service.store.address)
            return path.read_bytes()

    headers = (
        (b"content-type", b"application/octet-stream"),
        (b"content-disposition", f'attachment; filename="{name}{ending}"'.encode()),
    )
    return Reply(200, await asyncio.to_thread(write), headers)


@endpoint("POST", EXPERIMENT + "/erase", role="admin")
async def erase(service: Service, call: Call, body: EraseRequest) -> Erased:
    """Erase the contexts of a decision, a context id or a subject from the store. The learner's statistics stay."""
    return await erasure.erase(
        service.writer,
        call.path["experiment"],
        decision_id=body.decision_id,
        context_id=body.context_id,
        subject=hashed_subject(service, body.subject),
        who=call.caller.name,
    )
