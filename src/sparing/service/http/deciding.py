"""Decisions and their rewards, one by one and many at once."""

import hashlib
from typing import Any

import msgspec
from starlette.types import Scope

from sparing.service import events
from sparing.service.http.routing import ENDPOINTS, EXPERIMENT, Call, Endpoint, endpoint
from sparing.service.ledger import Decide, Reward
from sparing.service.messages import (
    DecideAnswer,
    DecideBatch,
    DecideItem,
    DecideItems,
    DecideRequest,
    RewardAnswer,
    RewardBatch,
    RewardItem,
    RewardItems,
    RewardRequest,
)
from sparing.service.problems import ServiceError
from sparing.service.serving import Service


def asked(service: Service, experiment: str, body: DecideRequest, *, active: bool = True) -> Decide:
    """What the writer is asked for."""
    digest = None
    if body.request_id is not None:
        whole = [body.context, body.eligible, body.context_id, body.subject]
        told = msgspec.json.encode(whole, order="sorted")
        digest = hashlib.blake2b(told, digest_size=16, key=service.store.salt).digest()
    return Decide(experiment, body, events.new_id(), digest, hashed_subject(service, body.subject), active)


def hashed_subject(service: Service, subject: str | None) -> bytes | None:
    """A subject as it is stored: nobody without the store's salt can tell who it is."""
    if subject is None:
        return None
    return hashlib.blake2b(subject.encode(), key=service.store.salt, digest_size=16).digest()


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


def often(scope: Scope) -> Endpoint | None:
    """The endpoint of a decision or of a reward, of which there are more than of all others; None for any other request."""
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
