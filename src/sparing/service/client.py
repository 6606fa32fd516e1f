"""A typed client of the service: retries are safe, and a fallback action answers when the service does not."""

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

import msgspec

from sparing.errors import SparingError, require
from sparing.service.errors import ServiceError
from sparing.service.messages import (
    MAX_BATCH,
    About,
    Also,
    AskQueue,
    CorrectRequest,
    DecideAnswer,
    DecideBatch,
    DecideItems,
    DecideRequest,
    Label,
    QueuedAsk,
    Record,
    Records,
    RewardAnswer,
    RewardBatch,
    Rewarded,
    RewardItems,
    RewardRequest,
)

if TYPE_CHECKING:
    import httpx

RETRY_STATUSES = frozenset({429, 502, 503, 504})
DEFAULT_TIMEOUT = 10.0  # seconds of a try, except for single decisions
PAUSE = 0.02  # seconds before the second try, doubled before each further one
MIN_TIMEOUT = 0.001

Context = Mapping[str, Any] | Sequence[float]
Answer = TypeVar("Answer")


class ServiceProblem(ServiceError):  # noqa: N818 - RFC 9457 calls it a problem
    """The service refused a request.

    Attributes
    ----------
    status : int
        HTTP status code.
    code : str
        Stable code of the reason, such as ``unknown_action``.
    detail : str
        A sentence that explains it.
    field : str or None
        Name of the wrong field of the request.
    """


class UnreachableError(SparingError):
    """The service did not answer in time, after all retries."""


class Client:
    """A client of one experiment; threads may share it and its connections.

    A decision is tried 1 + `retries` times under one request_id, so it is made once even if answers are lost. A reward is sent again
    under one reward_id, so it counts once. Every method raises ServiceProblem if the service refuses the request, and UnreachableError if
    it does not answer in time.

    Parameters
    ----------
    url : str
        Address of the service, such as http://127.0.0.1:8321.
    experiment : str
        Name of the experiment.
    key : str, optional
        API key with the role `decide`; `about`, `decisions` and `queue` need `read` or `write`, `correct` needs `admin`.
    timeout : float
        Seconds that one try of a decision may take; no try starts after `timeout` times the number of tries.
    fallback : label, optional
        Action to play if the service does not answer in time; without one, an error is raised.
    retries : int
        Further tries after the first one.
    transport : httpx.BaseTransport, optional
        Transport of the HTTP client, for tests.

    Examples
    --------
    >>> with Client("http://127.0.0.1:8321", "banners", fallback="plain") as client:
    ...     answer = client.decide({"country": "NZ", "age": 31})
    ...     if answer.needs_reward:
    ...         client.reward(answer, 1.0)
    ...     if answer.also is not None:  # with the option asking="shadow": run this action too, and show it to nobody
    ...         client.reward(answer.also, 1.0)
    """

    def __init__(
        self,
        url: str,
        experiment: str,
        key: str | None = None,
        timeout: float = 0.2,
        fallback: Label | None = None,
        retries: int = 2,
        *,
        transport: "httpx.BaseTransport | None" = None,
    ) -> None:
        http = require("httpx", extra="service", purpose="the service's client")
        self._failed: type[Exception] = http.TransportError
        self.timeout, self.fallback, self.tries = timeout, fallback, 1 + retries
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        self._base = f"{url.rstrip('/')}/v1/{quote(experiment, safe='')}"
        self._http: httpx.Client = http.Client(headers=headers, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def decide(
        self,
        context: Context,
        *,
        eligible: Sequence[Label] | None = None,
        context_id: str | int | None = None,
        subject: str | None = None,
        request_id: str | None = None,
        timeout: float | None = None,
        fallback: Label | None = None,
        explain: bool = False,
        costs: Mapping[str, float] | None = None,
    ) -> DecideAnswer:
        """Decide in one context.

        Parameters
        ----------
        context : mapping or sequence of float
            Raw columns by name, or the numbers of an encoded context.
        eligible : sequence of labels, optional
            Actions to choose from; by default all active ones.
        context_id : str or int, optional
            Id of a context that occurs again.
        subject : str, optional
            Who is served: a subject stays in the holdout or out of it.
        request_id : str, optional
            Repeating one returns the stored decision; by default a new one.
        timeout, fallback : optional
            Override those of the client.
        explain : bool
            Whether the answer has an `explanation`: what each raw column contributed to the estimate.
        costs : mapping, optional
            Known costs of playing the actions in this round, by label; others have those of the experiment.

        Returns
        -------
        DecideAnswer
            The fallback, if there is one, instead of an UnreachableError.
        """
        listed = None if eligible is None else list(eligible)
        priced = None if costs is None else {str(name): float(cost) for name, cost in costs.items()}
        asked = _request(context, listed, context_id, subject, request_id, explain, priced)
        within = self.timeout if timeout is None else timeout
        own = self.fallback if fallback is None else fallback
        try:
            return self._call("POST", "/decide", asked, DecideAnswer, within)
        except (UnreachableError, ServiceProblem) as error:
            if own is None or (isinstance(error, ServiceProblem) and error.status not in RETRY_STATUSES):
                raise
            nan, who = float("nan"), "fallback"
            return DecideAnswer("", own, False, who, 1.0, 0.0, nan, nan, nan, None, who, 0, None)

    def decide_many(
        self, requests: Iterable[Context | DecideRequest], *, timeout: float = DEFAULT_TIMEOUT
    ) -> list[DecideAnswer | ServiceProblem]:
        """Decide in many contexts.

        Parameters
        ----------
        requests : iterable of contexts or DecideRequest
            Each context is a mapping of raw columns, or a sequence of float.
        timeout : float
            Seconds that one try of up to 1,000 decisions may take.

        Returns
        -------
        list of DecideAnswer or ServiceProblem
            In the order of the requests, with a ServiceProblem for each refused one.
        """
        asked = list(map(_request, requests))
        return self._batches("/decide/batch", DecideBatch, asked, DecideItems, timeout)

    def reward(
        self,
        decision: DecideAnswer | Also | str,
        value: float,
        action: Label | None = None,
        *,
        reward_id: str | None = None,
    ) -> RewardAnswer | None:
        """Send the reward of a decision, or of a shadow call.

        Parameters
        ----------
        decision : DecideAnswer, Also or str
            The answer, or its `also`, or its decision_id or request_id.
        value : float
            The reward.
        action : label, optional
            The action that was played, if it is not the decided one.
        reward_id : str, optional
            Of a partial reward (`aggregate=sum`): repeating one counts once; by default a new one for each call.

        Returns
        -------
        RewardAnswer or None
            None for an answer of the client's own fallback, which takes no reward.
        """
        if not isinstance(decision, str) and not decision.decision_id:
            return None
        body = RewardRequest(value, action, reward_id or str(uuid.uuid4()))
        return self._call("POST", _reward_path(decision), body, RewardAnswer)

    def reward_many(
        self, rewards: Iterable[tuple[DecideAnswer | Also | str, float]]
    ) -> list[RewardAnswer | ServiceProblem | None]:
        """Send the rewards of many decisions.

        Parameters
        ----------
        rewards : iterable of (DecideAnswer, Also or str, float)
            Each decision, as in `reward`, with its reward.

        Returns
        -------
        list of RewardAnswer, ServiceProblem or None
            In the order of the rewards: a ServiceProblem for each refused one, None for each fallback.
        """
        listed = [(_id_of(one), value) for one, value in rewards]
        sent = [Rewarded(named, value, None, str(uuid.uuid4())) for named, value in listed if named]
        items = iter(self._batches("/rewards/batch", RewardBatch, sent, RewardItems, DEFAULT_TIMEOUT))
        return [next(items) if named else None for named, _ in listed]

    def correct(
        self, decision: DecideAnswer | Also | str, value: float, *, timeout: float = 60.0
    ) -> RewardAnswer:
        """Replace the mistaken reward of a decision. The learner is rebuilt; needs a key with the role `admin`.

        Parameters
        ----------
        decision : DecideAnswer, Also or str
            The answer, or its `also`, or its decision_id or request_id.
        value : float
            The right reward.
        timeout : float
            Seconds that one try may take: every event since the log, or since the last erasure, is replayed.

        Returns
        -------
        RewardAnswer
            Its status is `corrected`, or `duplicate` if the decision has this reward already.
        """
        path = f"{_reward_path(decision)}/correct"
        return self._call("POST", path, CorrectRequest(value), RewardAnswer, timeout)

    def about(self) -> About:
        """Return the present settings and counts of the experiment.

        Returns
        -------
        About
        """
        return self._call("GET", "", None, About)

    def decisions(self, after: int = 0) -> Iterator[Record]:
        """Iterate over the stored decisions and their outcomes, in order.

        Parameters
        ----------
        after : int
            Number of the event to start after; 0 starts at the first decision.

        Yields
        ------
        Record
        """
        more: int | None = after
        while more is not None:
            page = self._call("GET", f"/decisions?after={more}&limit={MAX_BATCH}", None, Records)
            yield from page.decisions
            more = page.next

    def queue(self, after: int = 0) -> Iterator[QueuedAsk]:
        """Iterate over the rewards that are waited for, the oldest first: of served decisions, and of shadow calls.

        Parameters
        ----------
        after : int
            Number of the event to start after; 0 starts at the oldest.

        Yields
        ------
        QueuedAsk
            Its decision_id, context and action.
        """
        more: int | None = after
        while more is not None:
            page = self._call("GET", f"/queue?after={more}&limit={MAX_BATCH}", None, AskQueue)
            yield from page.asks
            more = page.next

    def _batches(
        self, path: str, kind: Any, listed: list[Any], answer: type[Any], timeout: float
    ) -> list[Any]:
        """Send a list in batches; return an answer, or a ServiceProblem, for each item."""
        found: list[Any] = []
        for start in range(0, len(listed), MAX_BATCH):
            items = self._call("POST", path, kind(listed[start : start + MAX_BATCH]), answer, timeout).items
            found += [one.answer or _problem(one.status, one.problem) for one in items]
        return found

    def _call(
        self, method: str, path: str, body: Any, kind: type[Answer], timeout: float = DEFAULT_TIMEOUT
    ) -> Answer:
        """Send a request, and retry while that may help and there is time."""
        content = None if body is None else msgspec.json.encode(body, enc_hook=_plain)
        end = time.monotonic() + timeout * self.tries
        for number in range(self.tries):
            within = max(min(timeout, end - time.monotonic()), MIN_TIMEOUT)
            try:
                response = self._http.request(method, self._base + path, content=content, timeout=within)
                if response.status_code not in RETRY_STATUSES:
                    return _read(response, kind)
                error: SparingError = _refused(response)
            except self._failed as failure:
                why = f"{type(failure).__name__}: {failure}".rstrip(": ")
                error = UnreachableError(
                    f"no answer from {self._base} after {number + 1} tries of {timeout:g} s ({why}). Check that the "
                    "service runs there, pass a longer timeout=, or pass fallback=ACTION"
                )
            pause = min(PAUSE * 2**number, timeout)
            if number + 1 < self.tries and time.monotonic() + pause < end:
                time.sleep(pause)
                continue
            break
        raise error


def _id_of(decision: DecideAnswer | Also | str) -> str:
    return decision if isinstance(decision, str) else decision.decision_id


def _reward_path(decision: DecideAnswer | Also | str) -> str:
    return f"/decisions/{quote(_id_of(decision), safe='').replace('.', '%2E')}/reward"


def _request(context: Any, *others: Any) -> DecideRequest:
    asked = context if isinstance(context, DecideRequest) else DecideRequest(context, *others)
    if asked.request_id is None:
        asked = msgspec.structs.replace(asked, request_id=str(uuid.uuid4()))
    return asked


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot encode {type(value).__name__} as JSON")


def _read(response: "httpx.Response", kind: type[Answer]) -> Answer:
    if not response.is_success:
        raise _refused(response)
    try:
        return msgspec.json.decode(response.content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ServiceProblem(
            response.status_code, "answer", f"not an answer of a sparing service: {error}"
        ) from None


def _refused(response: "httpx.Response") -> ServiceProblem:
    try:
        problem = msgspec.json.decode(response.content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        problem = {"code": "http", "detail": f"{response.status_code} {response.text[:200]}".strip()}
    return _problem(response.status_code, problem)


def _problem(status: int, problem: dict[str, Any] | None) -> ServiceProblem:
    given = {"code": "http", "detail": f"status {status}", **(problem or {})}
    field = given.get("field")
    return ServiceProblem(
        status, str(given["code"]), str(given["detail"]), None if field is None else str(field)
    )
