"""Endpoints for experiments: create, import, configure, describe."""

import asyncio
import base64
import binascii
import re
import tempfile
from collections.abc import Hashable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec

from sparing.errors import SettingError, SparingError
from sparing.log.columns import ColumnRoles
from sparing.log.features.files import as_features
from sparing.log.labels import shorten
from sparing.log.log import Log
from sparing.online.learner import Learner
from sparing.service import dashboard, events
from sparing.service.errors import outdated, unprocessable
from sparing.service.events import ChangeEvent
from sparing.service.experiment import ExperimentState
from sparing.service.experiments import check_name, check_options, given_options, make_learner, new_options
from sparing.service.experiments import create as create_experiment
from sparing.service.experiments import import_log as restart_from_log
from sparing.service.http.endpoint import DIGITS, EXPERIMENT, JSON, MAX_LOG_BODY, Call, Reply, endpoint
from sparing.service.messages import (
    About,
    ActionRequest,
    CreateRequest,
    Experiments,
    ImportAnswer,
    ImportRequest,
    Listed,
    LogUpload,
    ModeRequest,
    Options,
    OptionsPatch,
    Overview,
)
from sparing.service.registry import Experiment
from sparing.service.server import Service
from sparing.service.transactions import ChangeSettings

ROLES = tuple(role.name for role in fields(ColumnRoles))


def read_upload(upload: LogUpload, actions: Sequence[Hashable] | None = None) -> Log:
    """Read the log of an upload; `actions` replace those that it lists."""
    try:
        content = base64.b64decode(upload.content, validate=True)
    except (binascii.Error, ValueError):
        raise SettingError("log.content is not valid base64") from None
    for name, column in upload.columns.items():
        if name not in ROLES:
            raise SettingError(f"unknown role {name!r} in log.columns; must be one of {', '.join(ROLES)}")
        if name not in ("contexts", "drop") and not isinstance(column, str):
            raise SettingError(
                f"log.columns.{name} is a list; must be the name of one column (only contexts and drop can be lists)"
            )
    from sparing.log.formats import read_log

    with tempfile.TemporaryDirectory(prefix="sparing-") as folder:
        path = Path(folder) / re.sub(r"^\.*$|[^\w.-]", "_", upload.filename)
        path.write_bytes(content)
        columns: Any = upload.columns
        return read_log(
            path,
            actions=upload.actions if actions is None else actions,
            features=_features(upload),
            items=None if upload.items is None else _table(upload.items),
            delimiter=upload.delimiter,
            decimal=upload.decimal,
            dates=upload.dates,
            encoding=upload.encoding,
            sheet=upload.sheet,
            **columns,
        )


def _features(upload: LogUpload) -> Any:
    try:
        return as_features(upload.features)
    except SparingError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SettingError(
            f"log.features is not valid: {error!r}. Send a feature option, or the JSON that `write_features` writes"
        ) from None


def _table(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    try:
        return pa.Table.from_pylist(rows)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise SettingError(f"log.items is not a table: {error}") from None


@endpoint("GET", "/v1/experiments", role="read")
async def experiments(service: Service, call: Call) -> Experiments:
    """The experiments of this store."""
    only = call.caller.experiment
    return Experiments(
        [Listed(one.name, one.model.mode) for one in service.registry if only in (None, one.name)]
    )


@endpoint("POST", "/v1/experiments", role="admin", status=201, limit=MAX_LOG_BODY)
async def create(service: Service, call: Call, body: CreateRequest) -> Listed:
    """Create an experiment from a log."""
    check_name(body.name)

    def make() -> tuple[Log, Learner]:
        log = read_upload(body.log)
        return log, make_learner(body.learner, log, body.settings)

    log, learner = await asyncio.to_thread(make)
    config = {"learner": body.learner, "settings": body.settings, "columns": body.log.columns}
    made = await create_experiment(
        service.writer, body.name, log, learner, new_options(body.options), config, who=call.caller.name
    )
    return Listed(made.name, made.model.mode)


@endpoint("PATCH", EXPERIMENT, role="admin")
async def configure(service: Service, call: Call, body: OptionsPatch) -> Options:
    """Change options; omitted ones stay. With If-Match, only if the experiment is unchanged since (412)."""
    experiment = service.registry.get(call.path["experiment"])
    said = given_options(body)

    def changed(model: ExperimentState) -> dict[str, Any]:
        """Return the new options; under the lock, so that changes at the same time do not undo each other."""
        now = dict(said)
        if now.get("costs") is not None:  # those that are left out stay
            now["costs"] = {**(model.options.costs or {}), **now["costs"]}
        options = msgspec.structs.replace(model.options, **now)
        check_options(options, model.learner)
        found: dict[str, Any] = msgspec.to_builtins(options)
        return found

    since = call.headers.get(b"if-match")
    work = ChangeSettings(
        experiment.name,
        events.OPTIONS,
        changed,
        call.caller.name,
        None if since is None else _etag(since),
    )
    event: ChangeEvent = await service.writer.submit(work)
    return msgspec.convert(event.read(), Options)


def _etag(text: bytes) -> int:
    number = text.decode("latin-1").strip().strip('"')
    if not DIGITS.fullmatch(number):
        raise outdated("If-Match is not an ETag of this experiment. GET the experiment for its ETag")
    return int(number)


@endpoint("GET", EXPERIMENT, role="read")
async def about(service: Service, call: Call) -> About:
    """Describe an experiment: guarantee, actions, features, options. Use its ETag with If-Match."""
    found = dashboard.about(service.registry.get(call.path["experiment"]))
    etag = (b"etag", f'"{found.config_seq}"'.encode())
    return Reply(200, msgspec.json.encode(found), (JSON, etag))  # type: ignore[return-value]


@endpoint("GET", EXPERIMENT + "/summary", role="read")
async def summary(service: Service, call: Call) -> Overview:
    """All data of the dashboard."""
    return await page_of(service, service.registry.get(call.path["experiment"]))


async def page_of(service: Service, experiment: Experiment) -> Overview:
    """Return the data of an experiment's dashboard, with the problems of this process."""
    return await dashboard.overview(
        service.writer,
        experiment,
        now=service.clock(),
        started=service.started,
        worker=service.worker,
        alarms=service.alarms_of(experiment.name),
    )


@endpoint("POST", EXPERIMENT + "/mode", role="admin")
async def mode(service: Service, call: Call, body: ModeRequest) -> ModeRequest:
    """Set the mode: live, shadow (the fallback serves and is learnt from), fallback (no reward calls), paused."""
    experiment = service.registry.get(call.path["experiment"])
    if body.mode != experiment.model.mode:
        await service.writer.submit(
            ChangeSettings(experiment.name, events.MODE, {"mode": body.mode}, call.caller.name)
        )
    return body


@endpoint("POST", EXPERIMENT + "/actions", role="admin")
async def actions(service: Service, call: Call, body: ActionRequest) -> ActionRequest:
    """Add an action (with its item's features, if the learner has items, and its cost, if costs are known), or retire one."""
    if (body.add is None) == (body.retire is None):
        raise unprocessable("send exactly one of `add` and `retire`")
    experiment = service.registry.get(call.path["experiment"])
    if body.add is not None:
        added = {"label": body.add, "features": body.features}
        added |= {} if body.cost is None else {"cost": body.cost}
        work = ChangeSettings(experiment.name, events.ACTION, added, call.caller.name)
    else:
        number = None if body.retire is None else experiment.model.number(body.retire)
        if number is None:
            raise unprocessable(f"unknown action {shorten(body.retire)}", "retire", "unknown_action")
        label = experiment.model.labels[number]
        work = ChangeSettings(experiment.name, events.RETIRE, {"label": label}, call.caller.name)
    await service.writer.submit(work)
    return body


@endpoint("POST", EXPERIMENT + "/import", role="admin", limit=MAX_LOG_BODY)
async def import_log(service: Service, call: Call, body: ImportRequest) -> ImportAnswer:
    """Restart an experiment from another log, or with other settings; live rewards so far are learnt again on top of it."""
    return await restart_from_log(
        service.writer,
        call.path["experiment"],
        lambda actions: read_upload(body.log, actions),
        body.settings,
        call.caller.name,
        config={"columns": body.log.columns},
    )
