"""Experiments: made, looked at, changed."""

import asyncio

import msgspec

from sparing.errors import SparingError
from sparing.log.labels import brief
from sparing.log.log import Log
from sparing.online.learner import Learner
from sparing.service import events, measuring, uploads
from sparing.service.creating import check_name, check_options, make_learner
from sparing.service.creating import create as create_experiment
from sparing.service.importing import import_log as restart_from_log
from sparing.service.http.routing import DIGITS, EXPERIMENT, JSON, LARGEST_LOG, Call, Reply, endpoint
from sparing.service.ledger import Alter
from sparing.service.messages import (
    About,
    ActionRequest,
    CreateRequest,
    Experiments,
    ImportAnswer,
    ImportRequest,
    Listed,
    ModeRequest,
    Options,
    OptionsPatch,
)
from sparing.service.overview import Overview
from sparing.service.problems import ServiceError, unfit
from sparing.service.serving import Service


@endpoint("GET", "/v1/experiments", role="read")
async def experiments(service: Service, call: Call) -> Experiments:
    """The experiments of this store."""
    only = call.caller.experiment
    return Experiments([Listed(one.name, one.model.mode) for one in service.book if only in (None, one.name)])


@endpoint("POST", "/v1/experiments", role="admin", status=201, limit=LARGEST_LOG)
async def create(service: Service, call: Call, body: CreateRequest) -> Listed:
    """Make an experiment from a log."""
    check_name(body.name)

    def make() -> tuple[Log, Learner]:
        log = uploads.read_upload(body.log)
        return log, make_learner(body.learner, log, body.settings)

    log, learner = await asyncio.to_thread(make)
    config = {"learner": body.learner, "settings": body.settings, "columns": body.log.columns}
    made = await create_experiment(
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
        check_options(changed, model.learner)
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
        service.writer,
        experiment,
        now=service.clock(),
        started=service.started,
        worker=service.worker,
        alarm=service.alarms.get(experiment.name),
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


@endpoint("POST", EXPERIMENT + "/import", role="admin", limit=LARGEST_LOG)
async def import_log(service: Service, call: Call, body: ImportRequest) -> ImportAnswer:
    """Begin an experiment again from another log, or with other settings of its learner; live rewards so far are learnt on top of it."""
    return await restart_from_log(
        service.writer,
        call.path["experiment"],
        lambda actions: uploads.read_upload(body.log, actions),
        body.settings,
        call.caller.name,
        config={"columns": body.log.columns},
    )
