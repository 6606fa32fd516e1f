"""Stored decisions: listed, exported, erased."""

import asyncio
import shutil
import tempfile
from pathlib import Path

import msgspec

from sparing.errors import LogError
from sparing.log.labels import brief
from sparing.service import erasing, events
from sparing.service import export as exports
from sparing.service.book import Experiment
from sparing.service.http.deciding import hashed_subject
from sparing.service.http.routing import DIGITS, EXPERIMENT, Call, Reply, endpoint
from sparing.service.messages import MOST, Erased, EraseRequest, Record, Records
from sparing.service.problems import not_found, unfit
from sparing.service.serving import Service
from sparing.service.store import Found


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


@endpoint(
    "GET",
    EXPERIMENT + "/export",
    role="read",
    query={"format": f"One of {', '.join(exports.FORMATS)}; parquet by default."},
)
async def export(service: Service, call: Call) -> Reply:
    """The decisions that have a reward and a context, as a log in a table, with both probabilities."""
    name, form = call.path["experiment"], call.query.get("format", "parquet")
    service.book.get(name)
    try:
        ending = exports.check_format(form)
    except LogError as error:
        raise unfit(str(error), "format") from None
    folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="sparing-")
    try:
        path = Path(folder) / f"{name}{ending}"
        address = service.settings.address
        await asyncio.to_thread(exports.export, service.store.folder, name, form, path, address=address)
    except BaseException:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        raise
    headers = (
        (b"content-type", b"application/octet-stream"),
        (b"content-disposition", f'attachment; filename="{path.name}"'.encode()),
    )
    return Reply(200, headers=headers, file=path)


@endpoint("POST", EXPERIMENT + "/erase", role="admin")
async def erase(service: Service, call: Call, body: EraseRequest) -> Erased:
    """Erase the contexts of a decision, of a context id or of a subject from everywhere in the store; what was learnt stays learnt."""
    return await erasing.erase(
        service.writer,
        call.path["experiment"],
        decision_id=body.decision_id,
        context_id=body.context_id,
        subject=hashed_subject(service, body.subject),
        who=call.caller.name,
    )
