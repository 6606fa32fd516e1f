"""Request types, and the handler that turns a group of them into events and answers under the writer's lock."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec
import numpy as np

from sparing.errors import SparingError
from sparing.log.labels import shorten
from sparing.service import events, subject_sums
from sparing.service.errors import ServiceError, conflict, not_found, outdated, unprocessable
from sparing.service.events import ChangeEvent, DecisionEvent, Event, OutcomeEvent
from sparing.service.experiment import ExperimentState
from sparing.service.messages import Also, DecideAnswer, DecideRequest, ExplanationAnswer, Label, RewardAnswer
from sparing.service.registry import Experiment, ExperimentRegistry
from sparing.service.store import StoredDecision, WriteBatch


class Decide(NamedTuple):
    experiment: str
    asked: DecideRequest
    decision_id: bytes
    request_hash: bytes | None = None
    subject: bytes | None = None
    active: bool = True


class Reward(NamedTuple):
    """A reward of a decision, by its id or request id."""

    experiment: str
    named: str
    value: float
    action: Label | None = None
    reward_id: str | None = None


class Activate(NamedTuple):
    """A deferred decision counts from now on."""

    experiment: str
    named: str


class ExpirePending(NamedTuple):
    """Close decisions whose reward window has passed."""

    experiment: str


class ChangeSettings(NamedTuple):
    """A change of the experiment; refused if it changed since the event `since`.

    A body that depends on the state is a function of it, called under the writer's lock.
    """

    experiment: str
    kind: str
    body: dict[str, Any] | Callable[[ExperimentState], dict[str, Any]]
    who: str
    since: int | None = None


Request = Decide | Reward | Activate | ExpirePending | ChangeSettings


class TransactionHandler:
    """One transaction: applies events to the states as it records them; `rows` is what must be written."""

    def __init__(self, registry: ExperimentRegistry, rows: WriteBatch, ts: int) -> None:
        self.registry, self.rows, self.ts = registry, rows, max(ts, rows.last_ts)
        self.touched: set[int] = set()
        self._ids: dict[bytes, StoredDecision] = {}
        self._requests: dict[tuple[int, str], StoredDecision] = {}
        self._seqs: dict[int, StoredDecision] = {}
        self._parts: dict[tuple[int, str], OutcomeEvent] = {}

    def load(self, found: list[StoredDecision]) -> None:
        for one in found:
            self._ids[one.decision.decision_id] = self._seqs[one.decision.seq] = one
            if one.decision.request_id is not None:
                self._requests[one.decision.experiment, one.decision.request_id] = one

    def load_parts(self, found: list[OutcomeEvent]) -> None:
        """Know partial rewards by their ids, so that a repeated one counts once."""
        self._parts.update(
            {(one.decision_seq, one.reward_id): one for one in found if one.reward_id is not None}
        )

    def decisions_of(self, works: Iterable[Request]) -> list[int]:
        """Return the decisions among the loaded ones for which rewards with an id have come."""
        named = [work for work in works if type(work) is Reward and work.reward_id is not None]
        found = (
            self._loaded(self.registry.get(work.experiment), work.named)
            for work in named
            if self.registry.has(work.experiment)
        )
        return sorted({one.decision.seq for one in found if one is not None})

    def record(self, experiment: Experiment, event: Event, x: Any = None) -> None:
        """Number an event and apply it; if the learner refuses it, nothing is recorded."""
        event.seq, event.ts = self.rows.last_seq + 1, self.ts
        self.touched.add(experiment.number)
        self.registry.apply(experiment, event, x)
        self.rows.events.append(event)
        self.rows.last_seq, self.rows.last_ts = event.seq, self.ts

    def compare(
        self,
        experiment: Experiment,
        decision: DecisionEvent,
        reward: float | None = None,
        replaced: float | None = None,
    ) -> None:
        """Count a decision, or its reward, for the comparison of policy and holdout."""
        check = experiment.model.options.check
        found = subject_sums.count(decision, experiment.compared_since, check, reward, replaced)
        if found is not None:
            self.rows.compared.append(found)

    def change(self, experiment: Experiment, kind: str, body: dict[str, Any], who: str) -> ChangeEvent:
        event = ChangeEvent(0, experiment.number, 0, kind, msgspec.json.encode(body), who)
        self.record(experiment, event)
        return event

    def run(self, work: Request) -> Any:
        return HANDLERS[type(work)](self, work)

    def decide(self, work: Decide) -> DecideAnswer:
        """Decide, or return the stored decision of the same request."""
        experiment, asked = self.registry.get(work.experiment), work.asked
        model = experiment.model
        given = np.array(asked.context) if isinstance(asked.context, list) else asked.context
        if asked.request_id is not None:
            stored = self._requests.get((experiment.number, asked.request_id))
            if stored is not None:
                if stored.decision.context is None:
                    raise conflict(
                        "erased",
                        f"the decision of request_id {asked.request_id!r} was erased. Use a new one",
                        "request_id",
                    )
                if stored.decision.request_hash != work.request_hash:
                    raise conflict(
                        "request_conflict",
                        f"request_id {asked.request_id!r} was used for another request. Use a new one",
                        "request_id",
                    )
                explained = model.explain_stored(stored.decision, given) if asked.explain else None
                call = self._ids.get(events.shadow_id(model.salt, stored.decision.decision_id))
                return answer(model, stored.decision, explained, None if call is None else call.decision)
            if events.may_be_decision(asked.request_id) and events.id_bytes(asked.request_id) in self._ids:
                raise conflict(
                    "request_conflict",
                    f"request_id {asked.request_id!r} is the id of another decision. Use a new one",
                    "request_id",
                )
        packed = events.pack_context(given)
        if isinstance(given, dict) and len(packed) > model.options.max_context:
            raise ServiceError(
                413,
                "context_too_large",
                f"the context has {len(packed):,} bytes as JSON; the experiment takes {model.options.max_context:,}. Send less, or raise its "
                "option max_context",
                "context",
            )
        try:
            x = model.learner.context(given)
            near = experiment.limited(given, x)
            if near is not given:
                x, packed = model.learner.context(near), events.pack_context(near)
            mask = model.mask(asked.eligible)
            decided = DecisionEvent(
                0,
                experiment.number,
                self.ts,
                work.decision_id,
                asked.request_id,
                work.request_hash,
                work.subject,
                None if asked.context_id is None else msgspec.json.encode(asked.context_id).decode(),
                packed,
                events.pack_mask(mask),
                active=work.active,
                costs=events.pack_costs(model.costs(asked.costs, mask)),
            )
            decided, also = model.decide_all(decided, x)
            explained = model.explain(decided, x, given) if asked.explain else None
            self.record(experiment, decided, x)
            if also is not None:
                self.record(experiment, also, x)
            experiment.model.learner.watch.context(x, self.ts)
        except ServiceError:
            raise
        except SparingError as error:
            raise unprocessable(str(error), "context") from None
        experiment.unseen += isinstance(given, dict) and bool(model.learner.encoder.unseen(given))
        self.compare(experiment, decided)
        for event in (decided, also):
            if event is not None:
                self.rows.count(event, decided=1)
                self.load([StoredDecision(event, None)])
        return answer(model, decided, explained, also)

    def reward(self, work: Reward) -> RewardAnswer:
        """Take a reward; the first one counts."""
        experiment = self.registry.get(work.experiment)
        decision, closed = self._find(experiment, work.named)
        model = experiment.model
        model.check_reward(work.value)
        played = self._played(model, decision, work.action)
        if (
            work.reward_id is not None
            and (part := self._parts.get((decision.seq, work.reward_id))) is not None
        ):
            return _same_part(part, work, played)
        if closed is not None:
            return _again(closed, work.value, played)
        if decision.expires is not None and self.ts > decision.expires:
            due = events.time_text(decision.expires)
            raise conflict("expired", f"the reward window closed at {due}; the reward came too late")
        waiting = model.open.get(decision.seq)
        if waiting is not None and waiting.added and model.options.aggregate == "first":
            first = OutcomeEvent(
                decision.seq, experiment.number, 0, decision.seq, events.REWARD, waiting.parts, played
            )
            return _again(first, work.value, played)
        if waiting is None:
            kind = self._unsolicited_kind(experiment)
        elif model.deferred(waiting) or model.options.aggregate == "sum":
            kind = events.PARTIAL
            model.check_reward(waiting.parts + work.value)
        else:
            kind = events.REWARD
        outcome = _outcome(decision, kind, work.value, played)
        outcome.reward_id = work.reward_id if kind == events.PARTIAL else None
        self._close(experiment, decision, outcome)
        if kind == events.PARTIAL:
            self.load_parts([outcome])
            return RewardAnswer("part", outcome.seq)
        return RewardAnswer("taken" if kind == events.REWARD else "unasked", outcome.seq)

    def _close(self, experiment: Experiment, decision: DecisionEvent, outcome: OutcomeEvent) -> None:
        try:
            self.record(experiment, outcome)
        except SparingError as error:
            raise unprocessable(str(error), "value") from None
        if outcome.kind in events.CLOSING:
            self.load([StoredDecision(decision, outcome)])
        if outcome.kind in events.REWARDED:
            self.rows.count(decision, rewarded=1, value=outcome.value or 0.0)
            self.compare(experiment, decision, outcome.value or 0.0)
        elif outcome.kind == events.EXPIRED:
            self.rows.count(decision, expired=1)

    def activate(self, work: Activate) -> None:
        """Activate a deferred decision with the rewards it has had; repeating it, or too late, changes nothing."""
        experiment = self.registry.get(work.experiment)
        decision, closed = self._find(experiment, work.named)
        waiting = experiment.model.open.get(decision.seq)
        late = decision.expires is not None and self.ts > decision.expires
        if late or closed is not None or waiting is None or not experiment.model.deferred(waiting):
            return
        self._close(experiment, decision, _outcome(decision, events.ACTIVATED))
        if waiting.added and experiment.model.options.aggregate == "first":
            kind = events.REWARD if waiting.asked else self._unsolicited_kind(experiment)
            self._close(experiment, decision, _outcome(decision, kind, waiting.parts))

    @staticmethod
    def _unsolicited_kind(experiment: Experiment) -> str:
        return events.IMPORTED if experiment.model.options.learn_unasked else events.UNSOLICITED

    def sweep(self, work: ExpirePending) -> int:
        """Close decisions whose window has passed; return how many."""
        experiment = self.registry.get(work.experiment)
        model, options = experiment.model, experiment.model.options
        due = [seq for seq in model.expired_pending(self.ts, len(self._seqs)) if seq in self._seqs]
        for seq in due:
            waiting = model.open[seq]
            decision = self._seqs[seq].decision
            outcome = _outcome(decision, events.EXPIRED)
            if model.deferred(waiting):
                outcome.kind = events.VOID
            elif waiting.added:
                outcome.kind, outcome.value = events.REWARD, waiting.parts
            elif options.default_reward is not None:
                outcome.kind, outcome.value = events.DEFAULT, options.default_reward
            try:
                self._close(experiment, decision, outcome)
            except ServiceError:  # one reward that cannot be learnt must not block the others
                self._close(experiment, decision, _outcome(decision, events.EXPIRED))
        return len(due)

    def alter(self, work: ChangeSettings) -> ChangeEvent:
        experiment = self.registry.get(work.experiment)
        if work.since is not None and work.since != experiment.model.config_seq:
            raise outdated(f"the experiment has changed; its ETag is now {experiment.model.config_seq}")
        body = work.body(experiment.model) if callable(work.body) else work.body
        return self.change(experiment, work.kind, body, work.who)

    def _loaded(self, experiment: Experiment, named: str) -> StoredDecision | None:
        identity = events.id_bytes(named)
        found = self._ids.get(identity) if identity is not None else None
        found = found or self._requests.get((experiment.number, named))
        return found if found is not None and found.decision.experiment == experiment.number else None

    def _find(self, experiment: Experiment, named: str) -> StoredDecision:
        found = self._loaded(experiment, named)
        if found is None:
            raise not_found(f"there is no decision {named!r} in {experiment.name}", "unknown_decision")
        return found

    def _played(self, model: ExperimentState, decision: DecisionEvent, label: Label | None) -> int | None:
        """Return the action that was played, if it is not the decided one."""
        number = decision.action if label is None else model.number(label)
        if number is None:
            raise unprocessable(f"unknown action {shorten(label)}", "action", "unknown_action")
        if number == decision.action:
            return None
        if not model.options.allow_mismatch:
            decided = model.labels[decision.action]
            raise conflict(
                "action_mismatch",
                f"the reward is of action {shorten(label)}, but the decision was {decided!r}. Send the reward of the decided action, "
                "or set the option allow_mismatch of the experiment",
                "action",
            )
        return number


HANDLERS: dict[type, Callable[[TransactionHandler, Any], Any]] = {
    Decide: TransactionHandler.decide,
    Reward: TransactionHandler.reward,
    Activate: TransactionHandler.activate,
    ExpirePending: TransactionHandler.sweep,
    ChangeSettings: TransactionHandler.alter,
}


def _outcome(
    decision: DecisionEvent, kind: str, value: float | None = None, played: int | None = None
) -> OutcomeEvent:
    outcome = OutcomeEvent(0, decision.experiment, 0, decision.seq, kind, value, played)
    if kind == events.IMPORTED:
        if decision.context is None:
            raise conflict("erased", "the context of the decision was erased; its reward cannot be learnt")
        outcome.action, outcome.context = decision.action, decision.context
    return outcome


def _same_part(part: OutcomeEvent, work: Reward, played: int | None) -> RewardAnswer:
    if (part.value, part.played) == (work.value, played):
        return RewardAnswer("duplicate", part.seq)
    raise conflict(
        "reward_conflict",
        f"reward_id {work.reward_id!r} was used for the reward {part.value:g} of this decision. Use a new one",
        "reward_id",
    )


def _again(closed: OutcomeEvent, value: float, played: int | None) -> RewardAnswer:
    if closed.kind in (events.REWARD, events.UNSOLICITED, events.IMPORTED, events.CORRECTED):
        if closed.value == value and closed.played == played:
            return RewardAnswer("duplicate", closed.seq)
        raise conflict(
            "already_rewarded", f"the decision already has the reward {closed.value:g}; the first one counts"
        )
    raise conflict("expired", f"the decision is already closed ({closed.kind}); the reward came too late")


def answer(
    model: ExperimentState,
    decided: DecisionEvent,
    explained: ExplanationAnswer | None = None,
    also: DecisionEvent | None = None,
) -> DecideAnswer:
    """Return the answer of a decision, with its shadow call."""
    return DecideAnswer(
        events.id_text(decided.decision_id),
        model.labels[decided.action],
        decided.needs_reward,
        decided.reason,
        decided.play_probability,
        decided.call_probability,
        decided.value,
        decided.low,
        decided.high,
        decided.worth,
        decided.arm,
        decided.model_seq,
        _due(decided),
        explained,
        decided.cost,
        None
        if also is None
        else Also(events.id_text(also.decision_id), model.labels[also.action], also.worth, _due(also)),
    )


def _due(decided: DecisionEvent) -> str | None:
    return None if decided.expires is None else events.time_text(decided.expires)
