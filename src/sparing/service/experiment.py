"""The state of an experiment: a learner, pending decisions and counters, as a fold of events; and who serves each decision.

State(s) = fold(apply, base, events up to s in their order). A decision is a function of the state and of the request.
"""

import hashlib
import heapq
import struct
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from sparing.errors import DecisionError, InputError, SettingError, SparingError
from sparing.log.costs import action_costs
from sparing.log.labels import label_text, shorten
from sparing.online import drift
from sparing.online.decision import Chances, Decision, as_reward
from sparing.online.learner import Learner
from sparing.service import events
from sparing.service.errors import unavailable, unprocessable
from sparing.service.events import ChangeEvent, DecisionEvent, Event, OutcomeEvent
from sparing.service.messages import ExplanationAnswer, Options

SPARE = 100  # closed decisions that may wait in the heap of those that expire

LOGGED, UNIFORM, NAMED = "logged", "uniform", "action:"
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}  # units of durations


def keyed_uniform(salt: bytes, tag: str, who: bytes) -> float:
    """Return a number in [0, 1) that is a function of (salt, tag, who), unpredictable without the salt."""
    digest = hashlib.blake2b(who, digest_size=8, key=salt, person=tag.encode()).digest()
    return (int.from_bytes(digest) >> 11) * 2.0**-53


def half_life_clock(half_life: int | str | None) -> tuple[int, bool]:
    """Return a half-life in rounds, or in microseconds and True; 0 for none."""
    if half_life is None or isinstance(half_life, int):
        return half_life or 0, False
    return round(float(half_life[:-1]) * SECONDS[half_life[-1]] * events.SECOND), True


def action_number(word: str, names: Sequence[Hashable]) -> int:
    """Return the number of the action in `action:LABEL`; −1 for the other variants."""
    if word in (LOGGED, UNIFORM):
        return -1
    if not word.startswith(NAMED):
        raise SettingError(f"{word!r}; must be `logged`, `uniform` or `action:LABEL`")
    label = word.removeprefix(NAMED)
    texts = [label_text(name) for name in names]
    if label not in texts:
        known = ", ".join(texts[:8])
        raise SettingError(f"{word!r} names no action; the first actions are {known}")
    return texts.index(label)


class PendingDecision(NamedTuple):
    """A decision that is not closed: the number of its call in the learner, which imputes a deferred one when it is activated."""

    call: int
    expires: int | None
    asked: bool = True
    parts: float = 0.0
    added: int = 0


class ExperimentState:
    """The state of one experiment after its event number `seq`."""

    def __init__(self, experiment: int, learner: Learner, options: Options, salt: bytes) -> None:
        self.experiment, self.salt = experiment, salt
        self.seq, self.digest = 0, bytes(8)
        self.mode, self.config_seq = "live", 0
        self.rounds = self.calls = 0
        self.period, self.period_calls = 0, 0
        self.open: dict[int, PendingDecision] = {}
        self._expiring: list[tuple[int, int]] = []
        self.learner, self.options, self._learnt = learner, options, learner.sets.digest
        self._apply_options()
        self.played = np.zeros(learner.n_actions, dtype=np.int64)
        self.sync_actions()

    def sync_actions(self) -> None:
        learner = self.learner
        self.labels: list[Any] = [
            name if isinstance(name, str | int | float) else label_text(name) for name in learner.action_names
        ]
        self.numbers = {label: number for number, label in enumerate(self.labels)}
        self.active = learner.active()
        self.played = np.append(self.played, np.zeros(learner.n_actions - len(self.played), dtype=np.int64))
        self._served: dict[str, np.ndarray] = {}

    def _apply_costs(self) -> None:
        """Let the learner have the known costs of the options."""
        given = self.options.costs
        costs = None if given is None else action_costs(given, self.learner.action_names)
        present = self.learner.action_costs
        same = costs is present or (
            costs is not None and present is not None and np.array_equal(costs, present)
        )
        if not same:
            self.learner.set_costs(costs)

    def _apply_options(self) -> None:
        """Let the learner have the known costs and the half-life of the options."""
        self._apply_costs()
        clock, timed = half_life_clock(self.options.half_life)
        arrays = self.learner.sets.arrays
        if (clock, timed) != (arrays.half_life, bool(arrays.timed)):
            drift.set_half_life(self.learner, clock, timed=timed, started=False)

    def costs(self, given: Any, allowed: np.ndarray | None) -> np.ndarray | None:
        """Return the costs (K,) of a request; None if it has none."""
        if given is None:
            return None
        try:
            return self.learner.round_costs(given, self.active if allowed is None else allowed)
        except InputError as error:
            raise unprocessable(str(error), "costs", "costs") from None

    def number(self, label: Any) -> int | None:
        """Return the number of an action by its label; True is not 1 here."""
        number = self.numbers.get(label)
        if number is None or isinstance(label, bool) != isinstance(self.labels[number], bool):
            return None
        return number

    # Deciding, which changes nothing.

    def mask(self, labels: Any) -> np.ndarray | None:
        """Return the actions with these labels, (K,); None means all active ones."""
        if labels is None:
            return None
        mask = np.zeros(len(self.active), dtype=np.bool_)
        for place, label in enumerate(labels):
            number = self.number(label)
            if number is None or not self.active[number]:
                what = "is unknown" if number is None else "is retired"
                raise unprocessable(
                    f"eligible action {shorten(label)} {what}. GET the experiment for its actions",
                    f"eligible[{place}]",
                    "unknown_action",
                )
            mask[number] = True
        return mask

    def decide(self, event: DecisionEvent, x: np.ndarray) -> DecisionEvent:
        """Return the decision that is served, of `decide_all`."""
        return self.decide_all(event, x)[0]

    def decide_all(self, event: DecisionEvent, x: np.ndarray) -> tuple[DecisionEvent, DecisionEvent | None]:
        """Decide in a context (d,) without changing the state: complete an event that has the request only.

        Return it with the event of its shadow call, if it has one.
        """
        if self.mode == "paused":
            raise unavailable("paused", "the experiment is paused. Set its mode to live, shadow or fallback")
        allowed = events.unpack_mask(event.eligible, len(self.active))
        costs, plan, call = events.unpack_costs(event.costs), None, None
        if self.mode == "live":
            plan, call = self._decide_live(event, x, allowed, costs)
        else:
            self._decide_fallback(event, allowed)
        if event.needs_reward and (plan is None or not plan.needs_reward):
            self.learner.check_learnable(event.action, x)
        if plan is None:
            event.value, event.low, event.high = self.learner.value(event.action, x, costs)
            event.worth = None
        else:
            event.value, event.low, event.high, event.worth = plan.value, plan.low, plan.high, plan.worth
        event.cost = self.learner.cost(event.action, costs)
        event.model_seq = self.seq
        window = self.options.reward_window
        due = None if window is None else event.ts + round(window * events.SECOND)
        event.expires = due if event.needs_reward or not event.active else None
        return event, None if call is None else self._shadow_call(event, call, costs, due)

    def _shadow_call(
        self, served: DecisionEvent, call: Decision, costs: np.ndarray | None, due: int | None
    ) -> DecisionEvent:
        """Return the event of a shadow call: a decision of its own, which nobody is served."""
        return msgspec.structs.replace(
            served,
            decision_id=events.shadow_id(self.salt, served.decision_id),
            request_id=None,
            request_hash=None,
            arm=events.ALSO,
            action=call.action,
            needs_reward=True,
            reason=call.reason,
            play_probability=0.0,
            call_probability=0.0,
            value=call.value,
            low=call.low,
            high=call.high,
            worth=call.worth,
            active=True,
            expires=due,
            cost=self.learner.cost(call.action, costs),
            served_id=served.decision_id,
        )

    def explain(self, event: DecisionEvent, x: np.ndarray, given: Any) -> ExplanationAnswer:
        """Explain the estimate of a decision's action in context x (d,), given as the request has it, by the present state."""
        eligible = events.unpack_mask(event.eligible, len(self.active))
        allowed = self.active if eligible is None else eligible & self.active
        costs, known = events.unpack_costs(event.costs), self.learner.action_costs
        if costs is not None:  # actions may have been added since
            later = np.zeros(len(self.active)) if known is None else known
            costs = np.append(costs, later[len(costs) :])
        made = self.learner.explanation(event.action, x, given, allowed=allowed, costs=costs)
        action, against = (
            None if name is None else self.labels[self.learner.index(name)]
            for name in (made.action, made.against)
        )
        found = made.to_dict() | {"action": action, "against": against, "model_seq": self.seq}
        return msgspec.convert(found, ExplanationAnswer)

    def explain_stored(self, event: DecisionEvent, given: Any) -> ExplanationAnswer:
        """Explain a decision that was made before, by the present state."""
        try:
            return self.explain(event, self.learner.context(given), given)
        except SparingError as error:  # another log may have other columns
            raise unprocessable(f"the decision cannot be explained by the present state: {error}") from None

    def _decide_fallback(self, event: DecisionEvent, allowed: np.ndarray | None) -> None:
        chances = self._variant_probabilities(self.options.fallback, allowed)
        event.arm, event.reason = self.mode, events.FALLBACK
        event.action = self._draw(chances, "fallback", event.decision_id)
        event.needs_reward = self.mode == "shadow" and not self.budget_exhausted(event.ts)
        event.play_probability = float(chances[event.action])
        event.call_probability = event.play_probability if event.needs_reward else 0.0

    def _decide_live(
        self, event: DecisionEvent, x: np.ndarray, allowed: np.ndarray | None, costs: np.ndarray | None
    ) -> tuple[Decision | None, Decision | None]:
        """Serve the learner, except for the holdout, uniform exploration, and checks of skipped rounds.

        Return the learner's proposal if it is served, and its shadow call.
        """
        options, who, spent = self.options, event.decision_id, self.budget_exhausted(event.ts)
        apart, mask = options.holdout, self.active if allowed is None else allowed
        explore, check = (0.0, 0.0) if spent else (options.explore, options.check)
        # Of a shadow call no probability is needed; else those of a variant are in closed form.
        shadow = options.asking == "shadow"
        quiet = spent if shadow else bool(apart or explore or spent)
        propose = self.learner.propose_in_shadow if shadow else self.learner.propose
        made = propose(
            x,
            allowed=allowed,
            context_id=None if event.context_id is None else msgspec.json.decode(event.context_id),
            entropy=self.salt + who,
            spot_checks=not quiet,
            costs=costs,
        )
        plan, call = (made, None) if isinstance(made, Decision) else made
        if spent and plan.needs_reward:
            best = self.learner.best(x, allowed, costs)
            value = self.learner.value(best, x, costs)
            plan = Decision(-1, best, False, events.BUDGET, *value, Chances(1.0, 0.0))
        elif spent and call is not None:
            plan, call = plan._replace(reason=events.BUDGET, worth=None), None
        held_out = self._variant_probabilities(options.holdout_policy, allowed) if apart else mask
        event.arm, event.action, served = "policy", plan.action, True
        event.reason, event.needs_reward = plan.reason, plan.needs_reward
        if apart and self._uniform("holdout", self._in_group(event.subject or who)) < apart:
            event.arm, event.action, served = "holdout", self._draw(held_out, "aside", who), False
            event.reason, event.needs_reward = events.BUDGET if spent else events.HOLDOUT, not spent
        elif explore and self._uniform("explore", who) < explore:
            event.action, served = self._draw(mask / mask.sum(), "anyone", who), False
            event.reason, event.needs_reward = events.UNIFORM, True
        elif not plan.needs_reward and check and self._uniform("check", who) < check:
            event.reason, event.needs_reward = events.CHECK, True
        play, chance = self._policy_probability(plan, event.action, x, allowed, check, costs)
        if apart or explore:
            aside, uniform = apart * held_out[event.action], explore / int(mask.sum())
            play = float(aside + (1 - apart) * (uniform + (1 - explore) * play))
            chance = float(aside * (not spent) + (1 - apart) * (uniform + (1 - explore) * chance))
        event.play_probability, event.call_probability = play, chance
        if not served:
            return None, None
        if call is not None and event.needs_reward:  # a check
            repeated = call.action == event.action
            call = None if repeated or self.budget_exhausted(event.ts, 1) else call
        return plan, call

    def _policy_probability(
        self,
        plan: Decision,
        action: int,
        x: np.ndarray,
        allowed: np.ndarray | None,
        check: float,
        costs: np.ndarray | None,
    ) -> Chances:
        """Return the probabilities that the learner with its checks plays an action, and that it calls for it."""
        if action == plan.action:
            play, call = plan.play_probability, plan.call_probability
            return Chances(play, call + (play - call) * check)
        if plan.needs_reward and self.learner.explore == "sampled":
            chance = self.learner.chance(action, x, allowed, costs)
            return Chances(chance, chance)
        return Chances(0.0, 0.0)

    def _in_group(self, who: bytes) -> bytes:
        group = self.options.holdout_group
        return who if group is None else group.encode() + b"\0" + who

    def _uniform(self, tag: str, who: bytes) -> float:
        return keyed_uniform(self.salt, tag, who)

    def _draw(self, chances: np.ndarray, tag: str, who: bytes) -> int:
        """Draw an action under probabilities (K,)."""
        place = int(np.searchsorted(np.cumsum(chances), self._uniform(tag, who), side="right"))
        return min(place, int(np.flatnonzero(chances)[-1]))

    def _variant_probabilities(self, word: str, allowed: np.ndarray | None) -> np.ndarray:
        """Return the probability of each action, (K,), under `logged` (shares of the log's rows), `uniform` or `action:LABEL`.

        Actions that are not allowed have probability 0. If no other is left, the allowed ones are equally likely.
        """
        if allowed is None:
            if word not in self._served:
                self._served[word] = self._variant_probabilities(word, self.active)
            return self._served[word]
        weights = allowed.astype(float)
        if word == LOGGED:
            weights *= self.learner.sets.logged
        elif word != UNIFORM:
            weights *= np.arange(len(allowed)) == action_number(word, self.learner.action_names)
        if not weights.any():
            weights = allowed.astype(float)
        return weights / weights.sum()

    def budget_exhausted(self, ts: int, more: int = 0) -> bool:
        """Whether no call may be made at this time, with so many `more`: the period's budget is used up, or too many are pending."""
        options = self.options
        if options.most_open is not None and len(self.open) + more >= options.most_open:
            return True
        return options.budget_calls is not None and self.calls_in_period(ts) + more >= options.budget_calls

    def calls_in_period(self, ts: int) -> int:
        return self.period_calls if self._period(ts) == self.period else 0

    def _period(self, ts: int) -> int:
        return ts // round(self.options.budget_period * events.SECOND)

    def has_expired(self, ts: int) -> bool:
        """Whether the window of a pending decision has closed by this time."""
        while self._expiring and self._expiring[0][1] not in self.open:
            heapq.heappop(self._expiring)
        return bool(self._expiring) and self._expiring[0][0] <= ts

    def expired_pending(self, ts: int, limit: int) -> list[int]:
        """Return the first `limit` pending decisions whose window has closed by this time, in order of closing.

        Only the expired part of the heap is visited, so the cost does not depend on how many decisions are pending.
        """
        heap, found = self._expiring, list[int]()
        frontier = [(heap[0], 0)] if heap else []
        while frontier and len(found) < limit:
            (expires, seq), place = heapq.heappop(frontier)
            if expires > ts:
                break
            if seq in self.open:
                found.append(seq)
            for child in (2 * place + 1, 2 * place + 2):
                if child < len(heap):
                    heapq.heappush(frontier, (heap[child], child))
        return found

    def context(self, stored: bytes) -> np.ndarray:
        """Return a stored context as the learner sees it, (d,)."""
        return self.learner.context(events.unpack_context(stored))

    # Applying events.

    def apply(self, event: Event, x: np.ndarray | None = None) -> None:
        """Apply an event; `x` (d,) is a decision's context if already decoded. A refused event changes nothing."""
        if isinstance(event, DecisionEvent):  # nothing to learn yet
            number = self._decided(event, x)
        elif isinstance(event, OutcomeEvent):
            number, self._learnt = self._closed(event), self.learner.sets.digest
        else:
            self._changed(event)
            number, self._learnt = 0.0, self.learner.sets.digest
        mark = struct.pack("<q8sdq", event.seq, self.digest, number, self._learnt)
        self.digest = hashlib.blake2b(mark, digest_size=8).digest()
        self.seq = event.seq

    def _decided(self, event: DecisionEvent, x: np.ndarray | None) -> float:
        predicted = None
        if event.needs_reward or not event.active:
            x = self._context_of(event) if x is None else x
            call = self.learner.open_call(event.action, x, deferred=not event.active)
            predicted = self.learner.pending_call(call).predicted
            self.add_pending(event.seq, PendingDecision(call, event.expires, event.needs_reward))
        if event.served_id is None:  # a shadow call is no round
            if self.rounds == self.learner.next_entry:
                self.learner.enter_context(self._context_of(event) if x is None else x, event.seq)
            self.rounds += 1
            self.played[event.action] += 1
        if event.needs_reward:
            self.calls += 1
            period = self._period(event.ts)
            self.period_calls = 1 + (self.period_calls if period == self.period else 0)
            self.period = period
        if self.learner.uses_voi or self.learner.follows_rounds:
            self.learner.set_counters(rounds=self.rounds, calls=self.calls)
        if self.learner.follows_rounds:
            drift.pass_round(self.learner, event.ts)
        return predicted or 0.0

    def _context_of(self, event: DecisionEvent) -> np.ndarray:
        assert event.context is not None, "an erased context is below the floor of replays"
        return self.context(event.context)

    def add_pending(self, seq: int, waiting: PendingDecision) -> None:
        self.open[seq] = waiting
        if waiting.expires is not None:
            if len(self._expiring) > 2 * len(self.open) + SPARE:  # most of them are closed
                self._expiring = [each for each in self._expiring if each[1] in self.open]
                heapq.heapify(self._expiring)
            heapq.heappush(self._expiring, (waiting.expires, seq))

    def deferred(self, waiting: PendingDecision) -> bool:
        """Whether a decision waits to be activated."""
        return not self.learner.pending_call(waiting.call).imputed

    def _closed(self, event: OutcomeEvent) -> float:
        value, learner = event.value or 0.0, self.learner
        if event.kind in (events.UNSOLICITED, events.CORRECTED):  # a base with the correction follows
            return value
        if event.kind == events.IMPORTED:
            assert event.context is not None
            assert event.action is not None
            x, played = self.context(event.context), event.action if event.played is None else event.played
            learner.observe(learner.open_call(played, x), value)
            return value
        waiting = self.open[event.decision_seq]
        if event.kind == events.PARTIAL:
            self.open[event.decision_seq] = waiting._replace(
                parts=waiting.parts + value, added=waiting.added + 1
            )
            return value
        if event.kind == events.ACTIVATED and waiting.asked:
            return learner.impute(waiting.call)
        if event.kind in (events.REWARD, events.DEFAULT) and not self.deferred(waiting):
            self._learn(waiting.call, event.played, value, event.ts if event.kind == events.REWARD else None)
        else:
            learner.cancel_call(waiting.call)
        del self.open[event.decision_seq]
        return value

    def _learn(self, call: int, played: int | None, value: float, ts: int | None) -> None:
        """Learn a reward; `ts` is when it came, None if it stands for one that did not."""
        learner = self.learner
        pending = learner.pending_call(call)
        if played is not None and played != pending.action:
            learner.check_learnable(played, pending.x)
            learner.cancel_call(call)
            call = learner.open_call(played, pending.x)
            pending = learner.pending_call(call)
        if ts is not None:
            action = pending.action
            predicted, _, high = learner.value(action, pending.x)
            learner.watch.reward(action, value, predicted, high, learner.cost(action), ts)
        learner.observe(call, value)

    def _changed(self, event: ChangeEvent) -> None:
        body = event.read()
        if event.kind == events.OPTIONS:
            self.options = msgspec.convert(body, Options)
            self._apply_options()
            self._served = {}
        elif event.kind == events.MODE:
            self.mode = body["mode"]
        elif event.kind == events.ACTION:
            cost = body.get("cost")
            self.learner.add_action(body["label"], body["features"], cost=cost)
            if cost is not None:
                costs = {**(self.options.costs or {}), label_text(self.learner.action_names[-1]): cost}
                self.options = msgspec.structs.replace(self.options, costs=costs)
            self.sync_actions()
        elif event.kind == events.RETIRE:
            self.learner.retire(body["label"])
            self.sync_actions()
        elif event.kind == events.ERASE:
            self.learner.forget_contexts(body.get("sampled", []))
        if event.kind != events.ERASE:  # which changes no setting
            self.config_seq = event.seq

    def check_reward(self, value: float) -> None:
        try:
            as_reward(value, self.learner.reward_range)
        except DecisionError as error:
            raise unprocessable(str(error), "value", "reward") from None
