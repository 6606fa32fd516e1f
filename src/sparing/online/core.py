"""The core of a learner: chooses actions, keeps pending calls and learns from rewards, by action index."""

import hashlib
import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from sparing.errors import DecisionError, SettingError
from sparing.interval import interval
from sparing.log.features.encoder import Encoder
from sparing.log.labels import feature_names
from sparing.online import rules as ruling
from sparing.online.confidence_sets import NO_BUDGET, ConfidenceSets, ranked
from sparing.online.decision import (
    EVERYONE,
    REACH,
    Challenger,
    Chances,
    Decision,
    SampledChances,
    as_context,
    as_index,
    as_mask,
    as_reward,
    check_sizes,
    unfit,
)
from sparing.online.engine import choice, random_stream, runs
from sparing.online.engine.state import NEVER, SetsStruct
from sparing.online.explanation import Explanation, explain
from sparing.online.locks import ReadWriteLock
from sparing.online.log_beats import LogBeats
from sparing.online.rules import REASONS, RoundView, SkipRule

EXPLORE, SPOT_CHECK, PENDING, NOT_WORTH, SPENT = (
    REASONS[code]
    for code in (choice.EXPLORE, choice.SPOT_CHECK, choice.PENDING, choice.NOT_WORTH, choice.SPENT)
)
CALLS = (EXPLORE, SPOT_CHECK)
ARRAY, DOUBLE = np.ndarray, np.dtype(np.float64)  # by these names, since finding them in a module takes time
new: Any = tuple.__new__
# A named tuple's own constructor costs twice as much.

Context = Mapping[str, Any] | Sequence[float] | np.ndarray
"""Raw columns by name (also a pandas row, or a frame of one row), or a context's numbers."""

Chosen = tuple[int, str, float, float, Chances | SampledChances, float | None]
"""Action, reason, mean and half-width, probabilities, and the value of the call if it is known."""


class Estimates:
    """What decisions of a learner are explained by; `changes` counts what it has learnt since.

    It does not refer to the learner, which refers to its open decisions, and they to this.
    """

    __slots__ = ("changes", "costs", "encoder", "index", "lock", "names", "sets")

    def __init__(
        self,
        sets: ConfidenceSets,
        encoder: Encoder,
        names: tuple[Hashable, ...],
        index: dict[Hashable, int],
        costs: np.ndarray | None,
        lock: ReadWriteLock,
    ) -> None:
        self.sets, self.encoder, self.names, self.index = sets, encoder, names, index
        self.costs, self.lock, self.changes = costs, lock, 0


class PendingCall(NamedTuple):
    """A reward call of an action (index) in context x (d,) whose reward has not arrived.

    `predicted` stands for the reward in the pending view; None while the call is not imputed.
    """

    action: int
    x: np.ndarray
    predicted: float | None = None

    @property
    def imputed(self) -> bool:
        """Whether the pending view contains the call."""
        return self.predicted is not None


class Core:
    """Confidence sets, skip rules and an explorer; actions are indices, and every pending call has a number.

    `propose` chooses and changes nothing. `open_call` starts a reward call, `observe` learns from its reward, and
    `cancel_call` withdraws it. `begin`, `finish` and `cancel` do the same for callers that keep the prediction
    instead of the call's number. The state is a function of the rewards and their order alone.
    """

    def __init__(
        self,
        action_names: Sequence[Hashable],
        sets: ConfidenceSets,
        rules: Sequence[SkipRule],
        *,
        key: int,
        explore: str = "leader",
        optimism: float = 1.0,
        spot_check: float = 0.0,
        reward_range: tuple[float, float] | None = None,
        encoder: Encoder | None = None,
        costs: np.ndarray | None = None,
    ) -> None:
        self.encoder = encoder or Encoder.raw(feature_names(None, sets.shape[1]))
        self.sets, self.rules, self.key = sets, tuple(rules), key
        self.rounds = self.calls = self.next_entry = 0
        self.check_to = sets.arrays.check_to
        self.plan_tick(sets.arrays.next_tick)
        self.follows_rounds = self.moving
        self._shape = (self.n_features,)
        self.explore, self.optimism = explore, optimism
        self.spot_check, self.reward_range = spot_check, reward_range
        self._pending: dict[int, tuple[int, np.ndarray, float | None]] = {}  # as `PendingCall`
        self._imputed: dict[int, int] = {}  # imputed calls of each action that has any
        self._next_call = 0
        self._as_recorded = False
        self._estimates: Estimates | None = None
        self._budget: tuple[Any, ...] = (None,) * 5
        self._custom: list[Any] = [rule for rule in rules if ruling.is_custom(rule)]
        self._log_rule = next((rule for rule in rules if isinstance(rule, LogBeats)), None)
        self.uses_voi = any(isinstance(rule, ruling.EconomicalRule) for rule in rules)
        # Random in spot checks only.
        self._plain = explore != "sampled" and not self._custom and self._log_rule is None
        self.action_costs: np.ndarray | None = None
        self.cost_list: list[float] | None = None
        self.set_actions(action_names)
        if costs is not None:
            self.apply_costs(costs)
        self._renew_own()
        self.find_next_entry()

    def set_actions(self, action_names: Sequence[Hashable]) -> None:
        """Take over the labels of the actions, the sets and the rules, after any of them changed."""
        self.action_names = tuple(action_names)
        self.forget_estimates()
        self._index = {name: i for i, name in enumerate(self.action_names)}
        self.plan = ruling.compile_rules(self.rules, self.explore, self.optimism, self.spot_check)
        self.sets.apply_rules(self.plan)
        self._sync_budget()
        self.half_widths = self.sets.half_widths
        self._active_mask = self.sets.arrays.active
        many = bool(self.active().sum() > 1)
        # The mask of rounds that one compiled call decides, and of those among them that compare no cost with a call's value.
        self._one_call = self._active_mask if self._plain else None
        self._fast = None if self.uses_voi else self._one_call
        called, skipped = (self._planned_chances(called, many, self.spot_check) for called in (True, False))
        known = ((word, word in CALLS, called if word == EXPLORE else skipped) for word in REASONS[:-1])
        self._outcomes = (*known, (SPENT, False, Chances(1.0, 0.0)))

    def plan_tick(self, number: int) -> None:
        """Set the next round before which something fades or is reviewed (`drift`), and whether anything is."""
        self.next_tick, self.moving = number, number != NEVER

    def apply_costs(self, costs: np.ndarray | None) -> None:
        """Set the known cost of playing each action, (K,), in units of the reward; None if none is known.

        Rewards are learnt before cost. Whatever compares actions compares reward − cost.
        """
        if costs is not None:
            self._check_takes_costs()
        self.action_costs = None if costs is None else np.array(costs, dtype=np.float64)
        # Quicker to read one by one.
        self.cost_list = None if self.action_costs is None else self.action_costs.tolist()
        self.sets.set_costs(self.action_costs, own_slots=self.uses_voi and costs is not None)
        self.set_actions(self.action_names)

    def _check_takes_costs(self) -> None:
        if self._log_rule is not None:
            raise SettingError(
                "costs with eps_moful_ips: it compares with logged rewards of several actions. Subtract the costs from the rewards, or "
                "use another learner"
            )

    def _views(self, costs: np.ndarray | None) -> tuple[SetsStruct, SetsStruct]:
        """The observed and the pending view, with the costs (K,) of a round if they are given."""
        scratch = self.sets.scratch
        return (scratch.observed, scratch.pending) if costs is None else self.sets.repriced(costs)

    def cost(self, action: int, costs: np.ndarray | None = None) -> float | None:
        """Known cost of playing an action (index), of `costs` (K,) if those of the round are given; None if none is known."""
        if costs is not None:
            return float(costs[action])
        return None if self.cost_list is None else self.cost_list[action]

    def explanation(
        self,
        action: int,
        x: np.ndarray,
        given: Any = None,
        *,
        allowed: np.ndarray | None = None,
        against: Hashable | None = None,
        costs: np.ndarray | None = None,
    ) -> Explanation:
        """Explain the estimate of an action (index) in context x (d,), whose raw columns are in `given`; the best one for −1.

        `costs` (K,) are those of the round, if they are not the learner's.
        """
        mask = EVERYONE if allowed is None else allowed
        with self._lock:
            estimates = self._estimates or self._present()
            mask = mask if len(mask) else self._active_mask
            return explain(estimates, x, given, action, against, mask, costs)

    def _present(self) -> Estimates:
        """The present estimates. The caller holds the lock."""
        self._estimates = Estimates(
            self.sets, self.encoder, self.action_names, self._index, self.action_costs, self._lock
        )
        return self._estimates

    def forget_estimates(self) -> None:
        # Decisions are explained by the estimates that they were made from, or not at all.
        if self._estimates is not None:
            self._estimates.changes += 1
            self._estimates = None

    def _sync_budget(self) -> None:
        # The value of a call depends on the rounds and calls that are left.
        if self.uses_voi:
            rule: Any = self.rules[-1]
            numbers = self.sets.arrays.numbers
            if (
                numbers is not self._budget[0]
            ):  # to find a field by its name takes longer than a small decision
                names = "rounds_to_come", "rounds_kept", "rounds_left", "calls_left"
                self._budget = numbers, *(numbers[name] for name in names)
            _, to_come, kept, left, calls_left = self._budget
            to_come[0] = rule.rounds_left(self.rounds)
            left[0] = min(to_come[0], kept[0])
            calls_left[0] = NO_BUDGET if rule.calls is None else rule.calls - self.calls

    def set_counters(self, *, rounds: int, calls: int) -> None:
        """Continue with these numbers of decisions and reward calls."""
        before, self.rounds, self.calls = self.rounds, rounds, calls
        self._sync_budget()
        if (
            self.uses_voi and not before <= rounds <= self.next_entry
        ):  # the contexts of these rounds are not known
            a = self.sets.arrays
            a.sampled_from += 0 if a.sampled_from == NEVER else rounds - before
            self.find_next_entry()

    def add_counts(self, *, rounds: int, calls: int) -> None:
        """Count rounds that compiled code has decided and learnt from."""
        self.forget_estimates()
        self.next_entry = self.sets.arrays.next_entry
        self.set_counters(rounds=self.rounds + rounds, calls=self.calls + calls)

    def reseed(self, seed: int | Sequence[int]) -> None:
        """Break ties and draw random numbers as with another seed."""
        priority, self.key = random_stream.tie_order_and_key(seed, self.n_actions)
        self.sets.prioritise(priority)
        self.find_next_entry()

    def find_next_entry(self) -> None:
        """Find the next round whose context enters the sample of contexts that stand for future ones."""
        if self.uses_voi:
            runs.FIND_NEXT_ENTRY.call(self.sets.scratch.observed, self.key, self.rounds)
        self.next_entry = self.sets.arrays.next_entry

    def enter_context(self, x: np.ndarray, identity: int = 0) -> None:
        """Let the context (d,) of this round, which must be `next_entry`, stand for future ones.

        `forget_contexts` withdraws it by its identity, if that is not 0.
        """
        table = self.sets.scratch.observed
        self.next_entry = runs.ENTER_CONTEXT.call(table, x, self.key, self.next_entry, identity)

    def sampled(self) -> list[int]:
        """Return the identities of the live contexts that stand for future ones."""
        found = self.sets.arrays.sample_ids
        return [int(identity) for identity in found if identity > 0]

    def forget_contexts(self, identities: Collection[int]) -> None:
        """Withdraw live contexts from the sample, which then has logged ones in their places."""
        with self._lock.writing:
            if self.uses_voi:
                self.sets.forget_contexts(identities)

    def active(self) -> np.ndarray:
        """Which actions are not retired, (K,)."""
        return self._active_mask.copy() if len(self._active_mask) else np.ones(self.n_actions, dtype=np.bool_)

    def _renew_own(self) -> None:
        # Not part of a copy.
        self._estimates = None
        self._budget = (None,) * 5
        self._entry = runs.entry_of(self.plan)
        self._lock = ReadWriteLock()

    @property
    def n_actions(self) -> int:
        return len(self.action_names)

    @property
    def n_features(self) -> int:
        return self.sets.shape[1]

    @property
    def compiled(self) -> bool:
        """Whether whole runs can be played in compiled code: no rule is written in Python."""
        return not self._custom

    @property
    def priority(self) -> np.ndarray:
        """Order of ties, (K,): the smaller number wins."""
        return self.sets.arrays.priority

    def context(self, x: Context) -> np.ndarray:
        """A copy of a context (d,) from raw columns by name, or from d numbers."""
        if type(x) is np.ndarray and x.dtype is DOUBLE and x.shape == self._shape:
            return x.copy()
        encoded = None if isinstance(x, np.ndarray | list | tuple) else self.encoder.named(x)
        if encoded is not None and encoded.shape == self._shape:
            return encoded
        numbers: Any = x if encoded is None else encoded
        return as_context(numbers, self.n_features, self.encoder)

    def propose(
        self,
        x: Context,
        *,
        allowed: np.ndarray | None = None,
        context_id: Hashable | None = None,
        entropy: bytes = b"",
        spot_checks: bool = True,
        costs: np.ndarray | None = None,
    ) -> Decision:
        """The decision for a context, by the learner's state and the arguments alone: nothing changes.

        Only actions in `allowed` (K,) may be played, and `entropy` gives the round's random numbers. `costs` (K,) are those of
        this round, if they are not the learner's. The decision's id is −1, and its action is an index.
        """
        context, mask = self.context(x), self._mask(allowed)
        key = int.from_bytes(hashlib.blake2b(entropy, digest_size=8).digest()) >> 1
        with self._lock:
            share = self.spot_check if spot_checks else 0.0
            chosen = self._requested(context, self._choose(context, mask, context_id, key, share, costs))
            return self._proposal(chosen, costs)

    def peek(self, x: np.ndarray, context_id: Hashable | None, number: int) -> Decision:
        """The answer of `decide` to a context (d,) in round `number`, without spot checks."""
        key = random_stream.stream_key(self.key, number)
        return self._proposal(self._choose(x, self._active_mask, context_id, key, 0.0))

    def log_answers(self, contexts: np.ndarray, ids: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Logged reward (NaN for contexts not in the log) and answer for the next rounds' contexts (n, d): (n,) each."""
        if self._log_rule is None:
            return np.full(len(contexts), np.nan), np.zeros(len(contexts), dtype=np.int64)
        names = [None] * len(contexts) if ids is None else ids.tolist()
        found = [
            self._log_rule.find(x, name, EVERYONE, random_stream.stream_key(self.key, self.rounds + i))
            for i, (x, name) in enumerate(zip(contexts, names, strict=True))
        ]
        return np.array([one[0] for one in found]), np.array([one[1] for one in found], dtype=np.int64)

    @contextmanager
    def intervals_of_0_2(self) -> Iterator[None]:
        """Decide with the intervals of releases before 0.3, to compare recorded decisions.

        They were one half-width to each side, and those of calls counted pending calls as if their rewards were known.
        """
        self.half_widths, self._as_recorded = 1.0, True
        try:
            yield
        finally:
            self.half_widths, self._as_recorded = self.sets.half_widths, False

    @property
    def level(self) -> float | None:
        """Probability of the intervals of decisions: 0.95 for posteriors, 1 − δ for confidence sets.

        None if `radius_scale` is below 1: the sets are then smaller than what is proved.
        """
        return self.sets.level

    def best(self, x: np.ndarray, allowed: np.ndarray | None = None, costs: np.ndarray | None = None) -> int:
        """The action (index) with the highest mean of reward − cost in context x (d,)."""
        mask, known = self._mask(allowed), self.action_costs if costs is None else costs
        with self._lock:
            mean, _ = self.sets.evaluate(x)
        priority = self.priority if costs is None else ranked(self.sets.ties, costs)[0]
        mean = mean if known is None else mean - known
        mean[~(mask if len(mask) else self.active())] = -np.inf
        return int(np.lexsort((priority, -mean))[0])

    def value(
        self, action: int, x: np.ndarray, costs: np.ndarray | None = None
    ) -> tuple[float, float, float]:
        """Mean of reward − cost of an action (index) in context x (d,), and the limits of its interval."""
        with self._lock:
            mean, spread = runs.VALUE.call(self._views(costs)[0], x, as_index(action, self.n_actions))
        return float(mean), *interval(float(mean), float(spread), self.half_widths)

    def chance(
        self,
        action: int,
        x: np.ndarray,
        allowed: np.ndarray | None = None,
        costs: np.ndarray | None = None,
    ) -> float:
        """Probability that a posterior sample favours an action (index) in context x (d,)."""
        mask = self._mask(allowed)
        with self._lock:
            table = self._views(costs)[bool(self._imputed)]
            mean, spread = runs.VALUE.call(table, x, action)
            return self._sampled_chances(table, x, mask, action, mean, spread, costs).play

    def check_learnable(self, action: int, x: np.ndarray) -> None:
        """Raise a DecisionError if a reward of this action in context x (d,) could not be learnt exactly."""
        with self._lock:
            self._check_numerically_learnable(x, action)

    def _mask(self, allowed: np.ndarray | None) -> np.ndarray:
        if allowed is None:
            return self._active_mask
        mask, active = as_mask(allowed, self.n_actions), self.active()
        if (mask & ~active).any():
            name = self.action_names[int(np.argmax(mask & ~active))]
            raise DecisionError(f"allowed marks action {name!r}, which is retired and never eligible again")
        return mask

    def _proposal(self, chosen: Chosen, costs: np.ndarray | None = None) -> Decision:
        action, reason, mean, spread, chances, worth = chosen
        limits, cost = interval(mean, spread, self.half_widths), self.cost(action, costs)
        return Decision(-1, action, reason in CALLS, reason, mean, *limits, chances, worth, cost=cost)

    def open_call(self, action: int, x: Context, *, deferred: bool = False) -> int:
        """Start a reward call, and return its number.

        Until its reward arrives, the call counts with its prediction; a `deferred` one only after `impute`.
        """
        context, index = self.context(x), as_index(action, self.n_actions)
        if not deferred:
            check_sizes(context)
        with self._lock.writing:
            self._next_call += 1
            return self._open(self._next_call - 1, index, context, impute=not deferred)

    def impute(self, call: int) -> float:
        """Let a deferred call count with its prediction, which is returned."""
        with self._lock.writing:
            check_sizes(self.pending_call(call).x)
            return self._impute(call)

    def observe(self, call: int, reward: float) -> None:
        """Learn from the reward of a pending call."""
        value = as_reward(reward, self.reward_range)
        with self._lock.writing:
            self.pending_call(call)
            self._observe(call, value)

    def cancel_call(self, call: int) -> None:
        """Withdraw a pending call: nothing is learnt from it."""
        with self._lock.writing:
            self.pending_call(call)
            self._cancel(call)

    def pending_call(self, call: int) -> PendingCall:
        """The pending call of this number."""
        if call not in self._pending:
            raise DecisionError(f"call {call!r} is not pending: it is closed, or was never opened")
        pending: PendingCall = new(PendingCall, self._pending[call])
        return pending

    def pending_calls(self) -> list[tuple[int, np.ndarray, float]]:
        """Action (by its index), context and prediction of every imputed call.

        They come action after action, each in the order of imputation: a pending view that is rebuilt from them,
        after a refresh or from a file, has the same bits.
        """
        of_action: dict[int, list[tuple[int, np.ndarray, float]]] = {action: [] for action in self._imputed}
        for action, x, predicted in self._pending.values():
            if predicted is not None:
                of_action[action].append((action, x, predicted))
        return [call for calls in of_action.values() for call in calls]

    def begin(self, action: int, x: Context) -> float:
        """Start a reward call on an action (index), and return its prediction."""
        prediction = self._pending[self.open_call(action, x)][2]
        assert prediction is not None
        return prediction

    def finish(self, action: int, x: Context, reward: float, predicted: float) -> None:
        """Learn from the reward of a call that `begin` started; searches all pending calls, unlike `observe`."""
        context, index = self.context(x), as_index(action, self.n_actions)
        value = as_reward(reward, self.reward_range)
        with self._lock.writing:
            self._observe(self._find(index, context, predicted), value)

    def cancel(self, action: int, x: Context, predicted: float) -> None:
        """Withdraw a call that `begin` started; searches all pending calls, unlike `cancel_call`."""
        context, index = self.context(x), as_index(action, self.n_actions)
        with self._lock.writing:
            self._cancel(self._find(index, context, predicted))

    def _find(self, action: int, x: np.ndarray, predicted: float) -> int:
        for call, (its_action, its_x, its_prediction) in self._pending.items():
            if (its_action, its_prediction) == (action, predicted) and np.array_equal(its_x, x):
                return call
        raise DecisionError(
            f"action {action} has no open call in this context that predicted {predicted!r}; begin(action, x) opens "
            "one, and returns what it predicts. Nothing was changed"
        )

    def digest(self) -> str:
        """Sixteen hexadecimal digits that depend on every reward learnt since the start, and on their order."""
        return f"{self.sets.digest & (2**64 - 1):016x}"

    def _open(self, call: int, action: int, x: np.ndarray, *, impute: bool) -> int:
        self._pending[call] = action, x, None
        if impute:
            try:
                self._impute(call)
            except DecisionError:
                del self._pending[call]
                raise
        return call

    def _impute(self, call: int) -> float:
        action, x, _ = self._pending[call]
        predicted = self.sets.open_call(action, x)
        if math.isnan(predicted):
            raise self._not_learnable(x, action)
        self._imputed[action] = self._imputed.get(action, 0) + 1
        # At the end: an action's pending copy may be rebuilt from its calls, in the order of imputation.
        del self._pending[call]
        self._pending[call] = action, x, predicted
        return predicted

    def _observe(self, call: int, reward: float) -> int:
        """Learn from the reward of a pending call, and return its action (index)."""
        action, x, predicted = self._pending[call]
        if self._estimates is not None:
            self._estimates.changes += 1
        moving = self.moving
        if moving and not self.sets.arrays.timed:  # what is due before the next round comes later
            self.sets.arrays.clock = min(self.rounds, self.next_tick - 1)
        sets = self.sets
        slot = runs.ADD_OBSERVATION.call(sets.writer, action, x, reward)
        # Nearly every row of a small problem is added by now.
        if (sets.bounds is not None or slot < 1) and not sets.add_observation(action, x, reward, slot):
            raise self._not_learnable(x, action)
        if moving:
            self.plan_tick(self.sets.arrays.next_tick)
        if predicted is None:
            del self._pending[call]
        else:
            self._cancel(call, reward)
        return action

    def _cancel(self, call: int, reward: float | None = None) -> None:
        """Withdraw a call, or replace its prediction by the reward, which is learnt already."""
        action, x, predicted = self._pending.pop(call)
        if predicted is not None:
            self._imputed[action] -= 1
            if not self._imputed[action]:
                del self._imputed[action]
            self.sets.close_call(action, x, predicted, self._imputed_of(action), reward)

    def _imputed_of(self, action: int) -> Iterator[tuple[np.ndarray, float]]:
        """Context and prediction of an action's imputed calls; nothing is searched before the first is needed."""
        for its_action, x, predicted in self._pending.values():
            if its_action == action and predicted is not None:
                yield x, predicted

    def restore_pending(self, calls: Iterable[PendingCall]) -> None:
        """Take over the imputed calls of a saved learner, whose sets contain them."""
        for pending in calls:
            self._pending[self._next_call] = pending.action, pending.x, pending.predicted
            self._next_call += 1
            self._imputed[pending.action] = self._imputed.get(pending.action, 0) + 1
        found = np.array([self._imputed.get(action, 0) for action in range(self.n_actions)])
        if not np.array_equal(np.where(self.sets.frozen, 0, found), self.sets.waiting):
            raise ValueError("the open calls are not those that the sets know of")

    def match_calls(self, calls: Iterable[PendingCall]) -> list[int]:
        """The numbers of saved calls: the imputed ones are among those of `restore_pending`, the others are added."""
        numbers: dict[tuple[int, bytes, float | None], list[int]] = {}
        wanted, found = list(calls), []
        for call, (action, x, predicted) in self._pending.items() if wanted else ():
            numbers.setdefault((action, x.tobytes(), predicted), []).append(call)
        for pending in wanted:
            if pending.imputed:
                key = pending.action, pending.x.tobytes(), pending.predicted
                if not numbers.get(key):
                    raise ValueError("an open decision that is not among the open calls")
                found.append(numbers[key].pop(0))
            else:
                self._pending[self._next_call] = pending.action, pending.x, pending.predicted
                found.append(self._next_call)
                self._next_call += 1
        return found

    def _choose(
        self,
        x: np.ndarray,
        allowed: np.ndarray,
        context_id: Hashable | None,
        key: int,
        spot_check: float,
        costs: np.ndarray | None = None,
        shadow: bool = False,
    ) -> Chosen:
        """Choose now. The observed view may skip; otherwise the pending view chooses the call, or skips because pending
        rewards will decide (`pending`).

        `key` is that of the round's random stream; −1 if there is no spot check and nothing else is random. `costs` (K,) are
        those of this round, if they are not the learner's. In the `shadow` nobody is served the action of a call; `allowed` is
        then not the learner's own array.
        """
        sets = self.sets
        if (
            allowed is self._one_call
            and costs is None
            and not self._imputed
            and spot_check == self.spot_check
            and (
                not spot_check
                or key < 0
                or runs.SPOT_CHECK_KIND.call(key, spot_check, True) == random_stream.NO_CHECK
            )
        ):  # nearly every round: one compiled call, and probabilities that are known beforehand
            bounds, worth = sets.bounds, None
            decide = self._entry[bounds].call
            if self.uses_voi:
                action, code, mean, spread, worth = decide(sets.scratch.observed, x, allowed, bounds)
            else:
                action, code, mean, spread = decide(sets.scratch.observed, x, allowed, bounds)
            if action < 0:
                raise unfit(x, -1 - action)
            if code == choice.UNSURE:
                self._check_numerically_learnable(x, action)
            reason, _, chances = self._outcomes[code]
            return action, reason, mean, spread, chances, worth
        scratch, drawn = sets.scratch, 1.0
        observed, pending = self._views(costs)
        if self._log_rule is not None:
            found = self._log_rule.find(x, context_id, allowed, key)
            scratch.work.threshold, scratch.work.answer, drawn = found
        seen, table = (x, allowed, context_id, key, drawn, costs, shadow), observed
        action, reason, mean, spread, chance, unsure, worth = self._planned(table, *seen)
        if self._imputed and reason == EXPLORE:
            table = pending
            action, reason, mean, spread, chance, unsure, worth = self._planned(table, *seen)
            reason = reason if reason == EXPLORE else PENDING
        if reason == SPENT:
            spot_check = 0.0
        if reason == EXPLORE and self.explore == "sampled":
            drawn_action = self._sample(table, x, allowed, key, costs)
            return self._shown(x, table, observed, self._checked(x, drawn_action))
        others = (int(allowed.sum()) if len(allowed) else len(self.action_names)) > 1
        chances = self._planned_chances(reason == EXPLORE, others, spot_check)
        if chance < 1:
            chances = Chances(chance, 0.0)
        check = random_stream.NO_CHECK
        if spot_check and key >= 0:
            check = runs.SPOT_CHECK_KIND.call(key, spot_check, others)
        if check == random_stream.NO_CHECK:
            chosen = action, reason, mean, spread, chances, worth
            return self._shown(x, table, observed, self._checked(x, chosen) if unsure else chosen)
        if check == random_stream.CHECK_OTHER:
            other = runs.RANDOM_OTHER_ACTION[self.sets.bounds].call
            action, share = other(table, x, allowed, action, key, self.sets.bounds)
            mean, spread = runs.VALUE.call(table, x, action)
            chances = Chances(*2 * (spot_check * random_stream.OTHER_ACTION_SHARE * share,))
        chosen = action, SPOT_CHECK, mean, spread, chances, worth
        return self._shown(x, table, observed, self._checked(x, chosen))

    def _shown(self, x: np.ndarray, table: SetsStruct, observed: SetsStruct, chosen: Chosen) -> Chosen:
        """With the mean and half-width of the observed view: rewards that have not arrived do not narrow an interval."""
        if table is observed or self._as_recorded:
            return chosen
        action, reason, _, _, *rest = chosen
        return action, reason, *runs.VALUE.call(observed, x, action), *rest

    def _planned(
        self,
        table: SetsStruct,
        x: np.ndarray,
        allowed: np.ndarray,
        context_id: Hashable | None,
        key: int,
        drawn: float,
        costs: np.ndarray | None,
        shadow: bool,
    ) -> tuple[int, str, float, float, float, bool, float | None]:
        """The answer of one view before spot checks: action, reason, mean, half-width, its probability, whether a call
        needs an exact check, and the value of the call if it is known.
        """
        if self._custom:
            check_sizes(x)
            known = self.action_costs if costs is None else costs
            mean, spread = self.sets.evaluate(x, pending=table is self._views(costs)[1])
            mean = mean if known is None else mean - known
            eligible = allowed if len(allowed) else self.active()
            top = mean + self.sets.arrays.coefficient[eligible.sum() - 1] * spread
            view = RoundView(x, context_id, mean, spread, top, eligible, self.priority, key)
            for rule in self._custom:
                answer = rule.answer(view)
                if answer is not None:
                    chance = rule.chance(view, answer) if hasattr(rule, "chance") else 1.0
                    return answer, rule.name, float(mean[answer]), float(spread[answer]), chance, False, None
        bounds, entry = self.sets.bounds, runs.CHOOSE_IN_SHADOW if shadow and self.uses_voi else self._entry
        action, code, mean, spread, *worth = entry[bounds].call(table, x, allowed, bounds)
        if action < 0:
            raise unfit(x, -1 - action)
        chance = drawn if code == choice.LOG_BEATS else 1.0
        return action, REASONS[code], mean, spread, chance, code == choice.UNSURE, worth[0] if worth else None

    @staticmethod
    def _planned_chances(called: bool, others: bool, spot_check: float) -> Chances:
        """Probabilities of the planned action; a spot check repeats it except for a fixed share."""
        apart = random_stream.OTHER_ACTION_SHARE if others else 0.0
        kept = 1 - spot_check * apart
        return Chances(kept, kept if called else spot_check * (1 - apart))

    def _requested(self, x: np.ndarray, chosen: Chosen) -> Chosen:
        """The same action, with a reward call where a review of the shift between log and live asked for one."""
        action, reason, mean, spread, chances, worth = chosen
        if self.rounds >= self.check_to or reason != NOT_WORTH:
            return chosen
        return self._checked(x, (action, SPOT_CHECK, mean, spread, Chances(*2 * (chances.play,)), worth))

    def _checked(self, x: np.ndarray, chosen: Chosen) -> Chosen:
        # A call must be learnable exactly.
        if chosen[1] in CALLS:
            self._check_numerically_learnable(x, chosen[0])
        return chosen

    def _check_numerically_learnable(self, x: np.ndarray, action: int) -> None:
        if not self.sets.learnable(action, x):
            raise self._not_learnable(x, action)

    def _sample(
        self, table: SetsStruct, x: np.ndarray, allowed: np.ndarray, key: int, costs: np.ndarray | None
    ) -> Chosen:
        """The action that one posterior sample favours."""
        normals = np.empty(self.n_actions)
        random_stream.normals(key, normals)
        bounds = self.sets.bounds
        action = runs.SAMPLE[bounds].call(table, x, normals, allowed, bounds)
        mean, spread = runs.VALUE.call(table, x, action)
        chances = self._sampled_chances(table, x, allowed, action, mean, spread, costs)
        return action, EXPLORE, mean, spread, chances, None

    def _sampled_chances(
        self,
        table: SetsStruct,
        x: np.ndarray,
        allowed: np.ndarray,
        action: int,
        mean: float,
        spread: float,
        costs: np.ndarray | None,
    ) -> SampledChances:
        """The rivals that can change which action a posterior sample favours; the probability is computed when it is read."""
        capacity = len(self.sets.arrays.theta) + self.n_actions
        priority = self.priority if costs is None else ranked(self.sets.ties, costs)[0]
        who, means, spreads = np.empty(capacity, dtype=np.int64), np.empty(capacity), np.empty(capacity)
        bounds = self.sets.bounds
        found, blanks, first = runs.RIVALS[bounds].call(
            table, x, action, REACH, allowed, who, means, spreads, bounds
        )
        own, alike = Challenger(mean, spread, int(priority[action])), None
        if blanks:
            other_mean, other_spread = runs.VALUE.call(table, x, first)
            alike = blanks, Challenger(other_mean, other_spread, int(priority[first]))
        return SampledChances(own, means[:found], spreads[:found], priority[who[:found]], alike)

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("_lock", "_entry", "_estimates", "_budget")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._renew_own()

    def _not_learnable(self, x: np.ndarray, action: int) -> DecisionError:
        largest = int(np.argmax(np.abs(x)))
        return DecisionError(
            f"a reward in this context cannot be learnt exactly: with ridge={self.sets.ridge:g}, feature "
            f"{largest} = {x[largest]:g} makes the matrix of action {self.action_names[action]!r} singular in double precision. Scale the features to "
            "sizes around 1, or pass a larger ridge"
        )
