"""The routes of Azure Personalizer, so that its clients work here with another address and key.

- **Experiment**: the one of the key, else the only one in the store.
- **Context**: all objects of `contextFeatures` are merged. A value's path is its keys joined by dots, such as `user.age`. The value
  fills the column with the name of the whole path, else of its longest ending (`age`). A value without a column is refused, and so
  is a second value for a column.
- **Actions** are matched by the text of their labels. Their features are ignored: a learner with items already has them.
- **Ranking**: the chosen action comes first, with its probability. The other eligible ones follow in the order of the request and
  share the remaining probability equally. Excluded ones come last, with 0.
- **Rewards** follow the options of the experiment. A late or repeated one is answered like any other (204).
"""

import itertools
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from sparing.log.labels import label_text, shorten, suggest
from sparing.service.errors import ServiceError, not_found, unprocessable
from sparing.service.experiment import ExperimentState
from sparing.service.http.decisions import asked
from sparing.service.http.endpoint import JSON, Call, Reply, endpoint, extra_headers
from sparing.service.messages import DecideAnswer, DecideRequest, Label, RequestKey
from sparing.service.registry import Experiment
from sparing.service.server import Service
from sparing.service.transactions import Activate, Reward

DEEPEST = 8  # levels of nesting in a context
FORGIVEN = ("expired", "already_rewarded")  # not an error for these clients
CODES = {404: "ResourceNotFound", 422: "BadRequest"}  # where Microsoft's code differs from the status phrase
# Path prefixes of azure-cognitiveservices-personalizer and azure-ai-personalizer.
ROOTS = ("/personalizer/v1.0", "/personalizer")


class InnerError(Struct):
    """The code of the problem, as in the rest of this API."""

    code: str


class MicrosoftError(Struct, rename="camel", omit_defaults=True):
    """The problem, and the name of the wrong field (`target`)."""

    code: str
    message: str
    inner_error: InnerError
    target: str | None = None


class ErrorResponse(Struct):
    """Why a request is refused, in Microsoft's shape."""

    error: MicrosoftError


class RankableAction(Struct, forbid_unknown_fields=True):
    """An action that could be shown; its features are ignored."""

    id: RequestKey
    features: list[Any] | None = None


class RankRequest(Struct, rename="camel", forbid_unknown_fields=True):
    """The features of the context, and the actions to choose from."""

    actions: Annotated[list[RankableAction], Meta(min_length=1)]
    context_features: list[dict[str, Any]] | None = None
    excluded_actions: list[str] | None = None
    event_id: RequestKey | None = None
    defer_activation: bool | None = False


class RankedAction(Struct):
    """An action, and the probability that it was chosen."""

    id: str
    probability: Annotated[float, Meta(ge=0, le=1)]


class RankResponse(Struct, rename="camel"):
    """The action to show (`rewardActionId`), and the event that its reward is sent to."""

    ranking: list[RankedAction]
    event_id: str
    reward_action_id: str


class RewardValue(Struct, forbid_unknown_fields=True):
    """The reward of the action that was shown."""

    value: float


def microsoft(error: ServiceError) -> Reply:
    code = CODES.get(error.status) or HTTPStatus(error.status).phrase.replace(" ", "")
    refusal = MicrosoftError(code, error.detail, InnerError(error.code), error.field)
    return Reply(error.status, msgspec.json.encode(ErrorResponse(refusal)), (JSON, *extra_headers(error)))


SETTINGS: dict[str, Any] = {
    "role": "decide",
    "chooses": True,
    "refusal": microsoft,
    "shape": ("application/json", ErrorResponse),
    "query": {"api-version": "Version of the client; every version is served alike."},
}


def unserved(path: str) -> ServiceError:
    return not_found(
        f"unknown path {path}; of Azure Personalizer's routes, rank, events/ID/reward and events/ID/activate are supported. "
        "Rank several slots one by one, each with its own eventId. Change settings with PATCH /v1/EXPERIMENT"
    )


@endpoint("POST", ROOTS[0] + "/rank", status=201, **SETTINGS)
@endpoint("POST", ROOTS[1] + "/rank", status=201, **SETTINGS)
async def rank(service: Service, call: Call, body: RankRequest) -> RankResponse:
    """Choose an action. Repeating an `eventId` returns the stored choice. With `deferActivation` it counts once it is activated."""
    experiment = chosen(service, call)
    model = experiment.model
    labels = _labels(model, body)
    excluded = set(body.excluded_actions or ())
    eligible = [name for name in labels if name not in excluded]
    if not eligible:
        raise unprocessable(
            "every action is excluded. Leave at least one to choose", "excludedActions", "no_action"
        )
    context = _context(model, body.context_features or [])
    request = DecideRequest(context, [labels[name] for name in eligible], request_id=body.event_id)
    work = asked(service, experiment.name, request, active=not body.defer_activation)
    answer: DecideAnswer = await service.writer.submit(work)
    shown = label_text(answer.action)
    event_id = answer.decision_id if body.event_id is None else body.event_id
    return RankResponse(_ranking(shown, answer.play_probability, eligible, labels), event_id, shown)


@endpoint("POST", ROOTS[0] + "/events/{event:any}/reward", status=204, **SETTINGS)
@endpoint("POST", ROOTS[1] + "/events/{event:any}/reward", status=204, **SETTINGS)
async def reward_event(service: Service, call: Call, body: RewardValue) -> Reply:
    """Send the reward of an event. A late or repeated one changes nothing."""
    work = Reward(chosen(service, call).name, call.path["event"], body.value)
    try:
        await service.writer.submit(work)
    except ServiceError as error:
        if error.code not in FORGIVEN:
            raise
    return Reply(204)


@endpoint("POST", ROOTS[0] + "/events/{event:any}/activate", status=204, **SETTINGS)
@endpoint("POST", ROOTS[1] + "/events/{event:any}/activate", status=204, **SETTINGS)
async def activate_event(service: Service, call: Call) -> Reply:
    """Activate a deferred event, whose action was shown."""
    await service.writer.submit(Activate(chosen(service, call).name, call.path["event"]))
    return Reply(204)


def chosen(service: Service, call: Call) -> Experiment:
    """Return the experiment of the key, else the only one in the store."""
    if call.caller.experiment is not None:
        return service.registry.get(call.caller.experiment)
    known = list(service.registry)
    if len(known) == 1:
        return known[0]
    if not known:
        raise not_found(
            "the store has no experiment. Create one with `sparing serve STORE --name NAME --log LOG`",
            "unknown_experiment",
        )
    names = ", ".join(sorted(one.name for one in known)[:8])
    raise unprocessable(
        f"the store has several experiments ({names}), and this path names none. Use a key for one experiment "
        "(`sparing keys add STORE NAME --experiment EXPERIMENT`), or POST /v1/EXPERIMENT/decide",
        code="which_experiment",
    )


def _labels(model: ExperimentState, body: RankRequest) -> dict[str, Label]:
    """Return the labels of the requested actions by their ids, in order."""
    texts: dict[str, list[Label]] = {}
    for label in model.labels:
        texts.setdefault(label_text(label), []).append(label)
    found: dict[str, Label] = {}
    for place, action in enumerate(body.actions):
        field = f"actions[{place}].id"
        fits = texts.get(action.id, [])
        if not fits:
            raise unprocessable(
                f"unknown action {shorten(action.id)}. Omit it, or add it with an admin key: "
                'POST /v1/EXPERIMENT/actions {"add": LABEL}',
                field,
                "unknown_action",
            )
        if len(fits) > 1:
            raise unprocessable(
                f"{len(fits)} actions have the name {shorten(action.id)}. Use POST /v1/EXPERIMENT/decide",
                field,
                "ambiguous_action",
            )
        if action.id in found:
            raise unprocessable(
                f"action {shorten(action.id)} occurs twice; send it once", field, "repeated_action"
            )
        found[action.id] = fits[0]
    return found


def _ranking(
    shown: str, chance: float, eligible: list[str], asked_for: Mapping[str, Label]
) -> list[RankedAction]:
    chance = min(max(chance, 0.0), 1.0)
    others = [name for name in eligible if name != shown]
    ranked = [RankedAction(shown, chance)]
    ranked += [RankedAction(name, (1.0 - chance) / len(others)) for name in others]
    return ranked + [RankedAction(name, 0.0) for name in asked_for if name not in eligible]


def _context(model: ExperimentState, features: list[dict[str, Any]]) -> dict[str, Any]:
    encoder = model.learner.encoder
    known = {*encoder.by_column, *dict(encoder.left_out)}
    found: dict[str, Any] = {}
    came: dict[str, str] = {}
    for path, value in itertools.chain.from_iterable(map(_values, features)):
        whole = ".".join(path)
        endings = (".".join(path[start:]) for start in range(len(path)))
        column = next((ending for ending in endings if ending in known), None)
        if column is None:
            columns = ", ".join(map(shorten, list(encoder.by_column)[:12]))
            near = suggest(path[-1], encoder.by_column)
            guess = "" if near is None else f". Did you mean {shorten(near)}?"
            raise unprocessable(
                f"no column for {shorten(whole)}; must be one of {columns}{guess}",
                "contextFeatures",
                "context",
            )
        if column in found:
            raise unprocessable(
                f"column {shorten(column)} has two values, from {shorten(came[column])} and {shorten(whole)}; send one",
                "contextFeatures",
                "context",
            )
        found[column], came[column] = value, whole
    return found


def _values(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every value that is not an object, with its path of keys."""
    if not isinstance(value, dict):
        yield path, value
        return
    if len(path) >= DEEPEST:
        raise unprocessable(
            f"the features are nested more than {DEEPEST} levels deep", "contextFeatures", "context"
        )
    for key, inner in value.items():
        yield from _values(inner, (*path, key))
