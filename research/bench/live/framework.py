"""The two calls that matter, served by FastAPI with pydantic's models, in front of our own writer, store and learner."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import fastapi
import msgspec
from pydantic import BaseModel, ConfigDict

from sparing.service import events
from sparing.service.errors import ServiceError
from sparing.service.messages import DecideRequest
from sparing.service.server import ServerSettings, Service
from sparing.service.transactions import Decide, Reward

Label = bool | int | float | str


class Context(BaseModel):
    """As messages.DecideRequest."""

    model_config = ConfigDict(extra="forbid")
    context: dict[str, Any] | list[float]
    eligible: list[Label] | None = None
    context_id: str | int | None = None
    subject: str | None = None
    request_id: str | None = None


class Answer(BaseModel):
    """As messages.DecideAnswer."""

    decision_id: str
    action: Label
    needs_reward: bool
    reason: str
    play_probability: float
    call_probability: float
    value: float
    low: float
    high: float
    worth: float | None
    arm: str
    model_seq: int
    reward_by: str | None


class Value(BaseModel):
    """As messages.RewardRequest."""

    model_config = ConfigDict(extra="forbid")
    value: float
    action: Label | None = None


class Taken(BaseModel):
    """As messages.RewardAnswer."""

    status: str
    seq: int


def make(folder: Path) -> tuple[Any, Service]:
    """The application, and the service behind it."""
    service = Service(ServerSettings(folder))

    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

    async def decide(experiment: str, body: Context) -> Answer:
        asked = DecideRequest(body.context, body.eligible, body.context_id, body.subject, body.request_id)
        try:
            found = await service.writer.submit(Decide(experiment, asked, events.new_id()))
        except ServiceError as error:
            raise fastapi.HTTPException(error.status, error.detail) from None
        return Answer(**msgspec.structs.asdict(found))

    async def reward(experiment: str, decision: str, body: Value) -> Taken:
        try:
            found = await service.writer.submit(Reward(experiment, decision, body.value, body.action))
        except ServiceError as error:
            raise fastapi.HTTPException(error.status, error.detail) from None
        return Taken(**msgspec.structs.asdict(found))

    app = fastapi.FastAPI(lifespan=lifespan)
    app.post("/v1/{experiment}/decide")(decide)
    app.post("/v1/{experiment}/decisions/{decision}/reward")(reward)
    return app, service
