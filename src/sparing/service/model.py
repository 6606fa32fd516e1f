"""An experiment's state: a learner, what is open, what was counted; and what one event after another makes of it.

State(s) = fold(apply, base, events up to s in their order). A decision is a function of the state and of what was asked.
"""

import hashlib
import heapq
import struct
from collections.abc import Hashable
from typing import Any, NamedTuple

import msgspec
import numpy as np

from sparing.errors import DecisionError
from sparing.log.labels import as_text, brief
from sparing.online.decision import Chances, Decision, as_reward
from sparing.online.learner import Learner
from sparing.service import arms, events
from sparing.service.events import Change, Decided, Event, Outcome
from sparing.service.messages import Options
from sparing.service.problems import unavailable, unfit


class Asked(NamedTuple):
    """A context to decide in, as a request says it and as the learner sees it."""

    decision_id: bytes
    ts: int
    x: np.ndarray
    context: bytes
    allowed: np.ndarray | None = None
    context_id: Hashable | None = None
    subject: bytes | None = None
    request_id: str | None = None
    request_hash: bytes | None = None
    active: bool = True


class Waiting(NamedTuple):
    """A decision that is not closed: the number of its call in the learner, which imputes a deferred one when it is activated."""

    call: int
    expires: int | None
    asked: bool = True
    parts: float = 0.0
    added: int = 0


class Served(NamedTuple):
    """An arm's answer and its chances."""

    arm: str
    action: int
    reason: str
    asked: bool
    chances: Chances
    plan: Decision | None = None
    """What the learner proposed, where that is what is served."""


class Model:
    """One experiment's state after its event number `seq`."""

    def __init__(self, experiment: int, learner: Learner, options: Options, salt: bytes) -> None:
        self.experiment, self.salt = experiment, salt
        self.seq, self.digest = 0, bytes(8)
        self.mode, self.config_seq = "live", 0
        self.rounds = self.calls = 0
        self.period, self.period_calls = 0, 0
        self.open: dict[int, Waiting] = {}
        self._expiring: list[tuple[int, int]] = []
        self.adopt(learner, options)

    def adopt(self, learner: Learner, options: Options) -> None:
        """Go on with this learner and these options."""
        self.learner, self.options, self._learnt = learner, options, learner.sets.digest
        self.played = np.zeros(learner.n_actions, dtype=np.int64)
        self.know_actions()

    def know_actions(self) -> None:
        """Take note of the actions after they changed."""
        learner = self.learner
        self.labels: list[Any] = [
            name if isinstance(name, str | int | float) else as_text(name) for name in learner.action_names
        ]
        self.numbers = {label: number for number, label in enumerate(self.labels)}
        self.active = learner.active()
        self.played = np.append(self.played, np.zeros(learner.n_actions - len(self.played), dtype=np.int64))
        self._served: dict[str, np.ndarray] = {}

    def number(self, label: Any) -> int | None:
        """An action by its label; true is not 1 here."""
        number = self.numbers.get(label)
        if number is None or isinstance(label, bool) != isinstance(self.labels[number], bool):
            return None
        return number

    # What to do: changes nothing.

    def mask(self, labels: Any) -> np.ndarray | None:
        """The actions that these labels name, (K,); all that are active without any."""
        if labels is None:
            return None
        mask = np.zeros(len(self.active), dtype=np.bool_)
        for place, label in enumerate(labels):
            number = self.number(label)
            if number is None or not self.active[number]:
                what = "is unknown" if number is None else "is retired, and never eligible again"
                raise unfit(
                    f"eligible action {brief(label)} {what}; GET the experiment for the list",
                    f"eligible[{place}]",
                    "unknown_action",
                )
            mask[number] = True
        return mask

    def decide(self, asked: Asked) -> Decided:
        """What to do in a context; its `seq` is given when it is stored."""
        if self.mode == "paused":
            raise unavailable("paused", "the experiment is paused; set its mode to live, shadow or fallback")
        served = self._live(asked) if self.mode == "live" else self._beside(asked)
        arm, action, reason, needs_reward, chances, plan = served
        if needs_reward and (plan is None or not plan.needs_reward):
            self.learner.must_learn(action, asked.x)
        if plan is None:
            mean, spread = self.learner.value(action, asked.x)
            told: tuple[float, float, float, float | None] = mean, mean - spread, mean + spread, None
        else:
            told = plan.value, plan.low, plan.high, plan.worth
        window = self.options.reward_window
        closes = window is not None and (needs_reward or not asked.active)
        return Decided(
            0,
            self.experiment,
            asked.ts,
            asked.decision_id,
            asked.request_id,
            asked.request_hash,
            asked.subject,
            None if asked.context_id is None else msgspec.json.encode(asked.context_id).decode(),
            asked.context,
            None if asked.allowed is None else np.packbits(asked.allowed).tobytes(),
            arm,
            action,
            needs_reward,
            reason,
            chances.play,
            chances.call,
            *told,
            self.seq,
            asked.active,
            asked.ts + round((window or 0.0) * events.SECOND) if closes else None,
        )

    def _beside(self, asked: Asked) -> Served:
        """The fallback serves; in shadow its rewards are learnt."""
        chances = self._shares(self.options.fallback, asked.allowed)
        action = arms.drawn(chances, self._luck("fallback", asked.decision_id))
        asks = self.mode == "shadow" and not self.spent(asked.ts)
        share = float(chances[action])
        return Served(self.mode, action, events.FALLBACK, asks, Chances(share, share if asks else 0.0))

    def _live(self, asked: Asked) -> Served:
        """The learner serves, but for the arms: a holdout, anyone, a check of what it would not ask about."""
        options, x, allowed, spent = self.options, asked.x, asked.allowed, self.spent(asked.ts)
        apart, explore = options.holdout, 0.0 if spent else options.explore
        quiet = bool(apart or explore or spent)  # an arm's chances are told in closed form
        plan = self.learner.propose(
            x,
            allowed=allowed,
            context_id=asked.context_id,
            luck=self.salt + asked.decision_id,
            spot_checks=not quiet,
        )
        if spent and plan.needs_reward:
            plan = self._unasked(x, allowed)
        served = self._arm(asked, plan, apart, explore, spent)
        if not apart and not explore:
            return served
        action = served.action
        own = self._own(plan, action, x, allowed, 0.0 if spent else options.check)
        aside = self._shares(options.holdout_policy, allowed)[action] if apart else 0.0
        anyone = explore / self._choices(allowed)
        play = apart * aside + (1 - apart) * (anyone + (1 - explore) * own.play)
        call = apart * aside * (not spent) + (1 - apart) * (anyone + (1 - explore) * own.call)
        return served._replace(chances=Chances(float(play), float(call)))

    def _unasked(self, x: np.ndarray, allowed: np.ndarray | None) -> Decision:
        """What is played where a reward would be asked for, and none may be: the best mean."""
        best = self.learner.best(x, allowed)
        mean, spread = self.learner.value(best, x)
        return Decision(-1, best, False, events.BUDGET, mean, mean - spread, mean + spread, Chances(1.0, 0.0))

    def _arm(self, asked: Asked, plan: Decision, apart: float, explore: float, spent: bool) -> Served:
        """Who serves: the holdout, anyone, or the plan, perhaps with a check; with the plan's own chances."""
        who = asked.subject or asked.decision_id
        if apart and self._luck("holdout", who) < apart:
            chances = self._shares(self.options.holdout_policy, asked.allowed)
            action = arms.drawn(chances, self._luck("aside", asked.decision_id))
            reason = events.BUDGET if spent else events.HOLDOUT
            return Served("holdout", action, reason, not spent, Chances(0.0, 0.0))
        if explore and self._luck("explore", asked.decision_id) < explore:
            mask = self.active if asked.allowed is None else asked.allowed
            action = arms.drawn(mask / mask.sum(), self._luck("anyone", asked.decision_id))
            return Served("policy", action, events.UNIFORM, True, Chances(0.0, 0.0))
        check = 0.0 if spent else self.options.check
        own = self._own(plan, plan.action, asked.x, asked.allowed, check)
        if not plan.needs_reward and check and self._luck("check", asked.decision_id) < check:
            return Served("policy", plan.action, events.CHECK, True, own, plan)
        return Served("policy", plan.action, plan.reason, plan.needs_reward, own, plan)

    def _own(
        self, plan: Decision, action: int, x: np.ndarray, allowed: np.ndarray | None, check: float
    ) -> Chances:
        """How likely the learner itself, with its checks, plays an action, and plays and asks about it."""
        if action == plan.action:
            play, call = plan.play_probability, plan.call_probability
            return Chances(play, call + (play - call) * check)
        if plan.needs_reward and self.learner.explore == "sampled":
            chance = self.learner.chance(action, x, allowed)
            return Chances(chance, chance)
        return Chances(0.0, 0.0)

    def _luck(self, tag: str, who: bytes) -> float:
        return arms.luck(self.salt, tag, who)

    def _choices(self, allowed: np.ndarray | None) -> int:
        return int((self.active if allowed is None else allowed).sum())

    def _shares(self, word: str, allowed: np.ndarray | None) -> np.ndarray:
        """Who serves beside the learner, (K,)."""
        if allowed is not None:
            return arms.shares(word, allowed, self.learner.sets.logged, self.learner.action_names)
        if word not in self._served:
            logged, names = self.learner.sets.logged, self.learner.action_names
            self._served[word] = arms.shares(word, self.active, logged, names)
        return self._served[word]

    def spent(self, ts: int) -> bool:
        """Whether no reward may be asked for at this time: the period's budget is used up, or too much is open."""
        options = self.options
        if options.most_open is not None and len(self.open) >= options.most_open:
            return True
        return options.budget_calls is not None and self.called(ts) >= options.budget_calls

    def called(self, ts: int) -> int:
        """Calls in the budget's period that a time falls in."""
        return self.period_calls if self._period(ts) == self.period else 0

    def _period(self, ts: int) -> int:
        return ts // round(self.options.budget_period * events.SECOND)

    def overdue(self, ts: int) -> bool:
        """Whether the window of an open decision has closed by a time."""
        while self._expiring and self._expiring[0][1] not in self.open:
            heapq.heappop(self._expiring)
        return bool(self._expiring) and self._expiring[0][0] <= ts

    def due(self, ts: int) -> list[int]:
        """The open decisions whose window has closed by a time, in the order in which they close."""
        return [seq for expires, seq in sorted(self._expiring) if expires <= ts and seq in self.open]

    def context(self, stored: bytes) -> np.ndarray:
        """A stored context as the learner sees it, (d,)."""
        return self.learner.context(events.unpacked(stored))

    # What happens: one event after another.

    def apply(self, event: Event, x: np.ndarray | None = None) -> None:
        """Take an event in; `x` (d,) is a decision's context where it is at hand. What is refused changes nothing."""
        if isinstance(event, Decided):  # which teaches nothing yet
            number = self._decided(event, x)
        elif isinstance(event, Outcome):
            number, self._learnt = self._closed(event), self.learner.sets.digest
        else:
            self._changed(event)
            number, self._learnt = 0.0, self.learner.sets.digest
        mark = struct.pack("<q8sdq", event.seq, self.digest, number, self._learnt)
        self.digest = hashlib.blake2b(mark, digest_size=8).digest()
        self.seq = event.seq

    def _decided(self, event: Decided, x: np.ndarray | None) -> float:
        predicted = None
        if event.needs_reward or not event.active:
            if x is None:
                assert event.context is not None, "an erased context lies below the replay's floor"
                x = self.context(event.context)
            call = self.learner.open_call(event.action, x, deferred=not event.active)
            predicted = self.learner.pending_call(call).predicted
            self.wait(event.seq, Waiting(call, event.expires, event.needs_reward))
        self.rounds += 1
        self.played[event.action] += 1
        if event.needs_reward:
            self.calls += 1
            period = self._period(event.ts)
            self.period_calls = 1 + (self.period_calls if period == self.period else 0)
            self.period = period
        if self.learner.weighs:
            self.learner.set_time(rounds=self.rounds, calls=self.calls)
        return predicted or 0.0

    def wait(self, seq: int, waiting: Waiting) -> None:
        """Take note of a decision that is not closed."""
        self.open[seq] = waiting
        if waiting.expires is not None:
            heapq.heappush(self._expiring, (waiting.expires, seq))

    def deferred(self, waiting: Waiting) -> bool:
        """Whether a decision waits to be activated."""
        return not self.learner.pending_call(waiting.call).imputed

    def _closed(self, event: Outcome) -> float:
        value, learner = event.value or 0.0, self.learner
        if event.kind == events.UNASKED:
            return value
        if event.kind == events.LEARNT:
            assert event.context is not None
            assert event.action is not None
            x, played = self.context(event.context), event.action if event.played is None else event.played
            learner.observe(learner.open_call(played, x), value)
            return value
        waiting = self.open[event.decision_seq]
        if event.kind == events.PART:
            self.open[event.decision_seq] = waiting._replace(
                parts=waiting.parts + value, added=waiting.added + 1
            )
            return value
        if event.kind == events.ACTIVATED and waiting.asked:
            return learner.impute(waiting.call)
        if event.kind in (events.REWARD, events.DEFAULT) and not self.deferred(waiting):
            self._learn(waiting.call, event.played, value)
        else:
            learner.cancel_call(waiting.call)
        del self.open[event.decision_seq]
        return value

    def _learn(self, call: int, played: int | None, value: float) -> None:
        learner = self.learner
        pending = learner.pending_call(call)
        if played is not None and played != pending.action:
            learner.must_learn(played, pending.x)
            learner.cancel_call(call)
            call = learner.open_call(played, pending.x)
        learner.observe(call, value)

    def _changed(self, event: Change) -> None:
        body = event.read()
        if event.kind == events.OPTIONS:
            self.options = msgspec.convert(body, Options)
            self._served = {}
        elif event.kind == events.MODE:
            self.mode = body["mode"]
        elif event.kind == events.ACTION:
            self.learner.add_action(body["label"], body["features"])
            self.know_actions()
        elif event.kind == events.RETIRE:
            self.learner.retire(body["label"])
            self.know_actions()
        if event.kind != events.ERASE:  # which changes no setting
            self.config_seq = event.seq

    def check_reward(self, value: float) -> None:
        """Refuse a reward that the learner would refuse."""
        try:
            as_reward(value, self.learner.reward_range)
        except DecisionError as error:
            raise unfit(str(error), "value", "reward") from None
