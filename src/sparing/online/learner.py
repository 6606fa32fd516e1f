"""The one learner: confidence sets, skip rules in order, a way to explore, and a ledger of open decisions."""

import copy
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sparing.errors import DecisionError, LogError
from sparing.log.features.encoder import Encoder
from sparing.log.labels import normalize_label
from sparing.log.limits import LARGEST
from sparing.log.log import Log
from sparing.model.confidence import Assumptions
from sparing.model.prior import Prior
from sparing.online.confidence_sets import NO_BUDGET, ConfidenceSets
from sparing.online.core import EXPLORE, SPOT_CHECK, Context, Core, PendingCall, new
from sparing.online.decision import EVERYONE, Decision, Decisions, OpenDecision, as_reward, decide_many
from sparing.online.engine import random_stream, runs
from sparing.online.engine.state import NoiseMonitor
from sparing.online.rules import SkipRule
from sparing.policies.policy import GreedyPolicy
from sparing.report.notebook import card


class Learner(Core):
    """decide(x): propose the action with the highest top; the first skip rule that fires answers without
    a reward call; if none fires, play, and learn from the reward that `update` brings.

    Rewards may come late and in any order; until they do, a call counts with what it predicts, so that
    the same doubt is not asked about twice. `algorithm` names the composition, `guarantee` says what is
    promised and on which conditions. Any number of threads may use one learner: those that only look
    (`propose`, `decide_many`) do so side by side, a change waits for its turn.

    `decide`, `update` and `forget` are the core's `propose`, `begin`, `finish` and `cancel` with a ledger of open
    decisions; use the one or the other.
    """

    def __init__(
        self,
        algorithm: str,
        action_names: Sequence[Hashable],
        sets: ConfidenceSets,
        rules: Sequence[SkipRule],
        *,
        key: int,
        guarantee: str = "",
        fit: Log | str = "",
        prior: Prior | None = None,
        item_encoder: Encoder | None = None,
        **settings: Any,
    ) -> None:
        """`fit` is a log to test for linearity, or what such a test has said. Besides: explore, optimism, spot_check, reward_range and encoder, as the core takes them."""
        self.rounds = self.calls = 0
        super().__init__(action_names, sets, rules, **settings)
        self.algorithm, self.promise, self.key, self.prior = algorithm, guarantee, key, prior
        self._fit = fit
        self.item_encoder = item_encoder
        self.open: dict[int, OpenDecision] = {}
        self._deferred: int | None = None  # the newest decision's call, while it is not imputed

    @property
    def fit(self) -> str:
        """Whether the log's rewards are linear in the features, as far as a test can tell: computed when first asked for."""
        if not isinstance(self._fit, str):
            from sparing.model.linearity import fit_sentence

            self._fit = fit_sentence(self._fit)
        return self._fit

    @property
    def guarantee(self) -> str:
        """What is promised, on which conditions, and what the log says of them."""
        return "; ".join(part for part in (self.promise, self.fit) if part)

    def __getstate__(self) -> dict[str, Any]:
        """Copies know the test's result, not the rows."""
        _ = self.fit
        return super().__getstate__()

    def rename(self, action_names: Sequence[Hashable]) -> None:
        """Take note of the actions that there are, and of the sets, after either changed."""
        super().rename(action_names)
        self._index = {name: i for i, name in enumerate(self.action_names)}
        self._keep_time()

    def _keep_time(self) -> None:
        """Tell a rule that weighs calls how many rounds and calls are left."""
        if self.weighs:
            rule: Any = self.rules[-1]
            numbers = self.sets.arrays.numbers
            numbers["left"] = rule.left(self.rounds)
            numbers["purse"] = NO_BUDGET if rule.calls is None else rule.calls - self.calls

    def set_time(self, *, rounds: int, calls: int) -> None:
        """Go on as one that has made so many decisions, and asked for so many rewards."""
        self.rounds, self.calls = rounds, calls
        self._keep_time()

    def index(self, name: Hashable) -> int:
        """The place of an action, by its label."""
        try:
            position = self._index.get(normalize_label(name))
        except LogError:
            position = None
        if position is None:
            known = ", ".join(repr(name) for name in self.action_names[:5])
            raise DecisionError(
                f"action {name!r} is unknown; the {self.n_actions} known ones begin with {known}"
            )
        return position

    def add_action(self, name: Hashable, features: Mapping[str, Any] | Sequence[float] | None = None) -> None:
        """One more action from now on; `features` are its item's, where the learner was made with `items`: its row of
        the item table by column, or the encoded numbers.

        It starts where the prior expects it: at Ŵz_a with covariance S + C_a (`confident`), or in a set around Ŵz_a with its
        own share of δ (`certified`, `warm_started`, made with growing=True). It is the last in ties.
        """
        from sparing.online import action_changes

        known = self.item_encoder
        numbers: Any = known.encode(features) if known and isinstance(features, Mapping) else features
        with self._turns.door:
            self._turns.wait()
            action_changes.add(self, name, numbers)

    def retire(self, name: Hashable) -> None:
        """Never play an action again; what was learnt of it is kept, and rewards of its open calls still count."""
        from sparing.online import action_changes

        with self._turns.door:
            self._turns.wait()
            action_changes.retire(self, name)

    def refresh(self) -> None:
        """Relearn the prior, and so where every action starts, from all rows so far, logged and live."""
        from sparing.online import action_changes

        with self._turns.door:
            self._turns.wait()
            action_changes.refresh(self)

    @property
    def monitor(self) -> NoiseMonitor | None:
        """How noisy live rewards have been, for a learner that watches them."""
        return self.sets.monitor

    @property
    def assumptions(self) -> Assumptions:
        """Noise, bounds and radius, with what was estimated."""
        return self.sets.assumptions

    def decide(
        self,
        x: Context,
        *,
        eligible: Iterable[Hashable] | None = None,
        context_id: Hashable | None = None,
    ) -> Decision:
        """Choose an action for context x, among `eligible` labels if given.

        x is a mapping of the log's raw columns (or a pandas row), or the numbers of an encoded context (d,).
        `context_id` says which logged context this is, for logs that carry ids.
        """
        context = self.context(x)
        allowed = self._everyone if eligible is None else self._eligible(eligible)
        turns = self._turns
        with turns.door:
            if turns.inside:
                turns.wait()
            if self._deferred is not None:
                self._impute_deferred()
            number = self.rounds
            share = self.spot_check
            if not self._plain:
                key = runs.KEY_OF.call(self.key, number)
            else:
                key = runs.CHECK_KEY.call(self.key, number, share) if share else -1
            choice = self._choose(context, allowed, context_id, key, share)
            action, reason, mean, spread, chances, worth = choice
            # Equal, not identical: a learner that was pickled has strings of its own.
            called = reason == EXPLORE or reason == SPOT_CHECK
            name, low, high = self.action_names[action], mean - spread, mean + spread
            answer = number, name, called, reason, mean, low, high, chances, worth
            decision: Decision = new(Decision, answer)
            self.rounds = number + 1
            if called:
                self.calls += 1
            if self.weighs:
                self._keep_time()
            if called:
                # The reward often comes next: a pending copy that it would remove at once is not worth making.
                impute = action in self._imputed
                call = self._open(action, context, impute)
                self.open[number] = new(OpenDecision, (decision, call))
                self._deferred = None if impute else call
            return decision

    def _impute_deferred(self) -> None:
        if self._deferred is not None:
            self._impute(self._deferred)
            self._deferred = None

    def decide_many(
        self,
        contexts: Any,
        *,
        context_ids: Sequence[Hashable] | np.ndarray | None = None,
        threads: int | None = None,
    ) -> Decisions:
        """What `decide` would answer to each of these contexts now, spot checks left out.

        They are a frame of the log's raw columns, a list of mappings, or encoded contexts (n, d).
        Nothing is learnt, counted or left open: for scoring with a learner that has finished learning.
        """
        if self._deferred is not None:
            with self._turns.door:
                self._turns.wait()
                self._impute_deferred()
        with self._turns.looking():
            return decide_many(self, contexts, context_ids, threads)

    def preview(self, x: np.ndarray, context_id: Hashable | None, number: int) -> Decision:
        """What `decide` would answer to a context (d,) if it were round `number`, spot checks left out."""
        return self._proposal(
            self._choose(x, self._everyone, context_id, random_stream.stream_key(self.key, number), 0.0)
        )

    def update(self, decision: Decision | int, reward: float) -> None:
        """Learn from the reward of a decision (or of its id) that needed one."""
        turns = self._turns
        with turns.door:
            if turns.inside:
                turns.wait()
            pending = self.open.get(decision.id) if type(decision) is Decision else None
            if pending is None or pending[0] is not decision:
                pending = self._opened(decision)
            made, call = pending
            value = reward
            if (
                type(reward) is not float
                or self.reward_range is not None
                or not -LARGEST <= reward <= LARGEST
            ):
                value = as_reward(reward, self.reward_range)
            if call != self._deferred:
                self._impute_deferred()
            self._observe(call, value)
            self._deferred = None
            del self.open[made[0]]

    def forget(self, decision: Decision | int) -> None:
        """Close a decision whose reward will never come; nothing is learnt from it."""
        with self._turns.door:
            self._turns.wait()
            made, call = self._opened(decision)
            if call != self._deferred:
                self._impute_deferred()
            self._cancel(call)
            self._deferred = None
            del self.open[made.id]

    def log_answers(self, contexts: np.ndarray, ids: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """What the log earned (NaN where it was not) and answers in the next rounds' contexts (n, d): (n,) each."""
        if self._beats is None:
            return np.full(len(contexts), np.nan), np.zeros(len(contexts), dtype=np.int64)
        names = [None] * len(contexts) if ids is None else ids.tolist()
        found = [
            self._beats.find(x, name, EVERYONE, random_stream.stream_key(self.key, self.rounds + i))
            for i, (x, name) in enumerate(zip(contexts, names, strict=True))
        ]
        return np.array([one[0] for one in found]), np.array([one[1] for one in found], dtype=np.int64)

    def count(self, *, rounds: int, calls: int) -> None:
        """Take note of rounds that compiled code has decided and learnt from."""
        self.set_time(rounds=self.rounds + rounds, calls=self.calls + calls)

    def reseed(self, seed: int | Sequence[int]) -> None:
        """Break ties and draw luck as another seed would."""
        priority, self.key = random_stream.tie_order_and_key(seed, self.n_actions)
        self.sets.prioritise(priority)

    def restore(self, pending: Sequence[tuple[Decision, PendingCall]]) -> None:
        """Take over the open decisions of a saved learner."""
        calls = self.match_calls(call for _, call in pending)
        self.open = {one.id: OpenDecision(one, call) for (one, _), call in zip(pending, calls, strict=True)}
        deferred = [call for call in calls if not self._pending[call].imputed]
        if len(self.open) != len(pending) or len(deferred) > 1:
            raise ValueError("open decisions that stand twice, or two that nothing happened since")
        self._deferred = deferred[0] if deferred else None

    def warm_up(self) -> None:
        """Compile everything that a round can need, so that none has to wait for it."""
        from sparing.online.warm_up import warm_up

        warm_up(self)

    def policy(self) -> GreedyPolicy:
        """What has been learnt so far: argmax_a x·θ̂_a."""
        left = np.flatnonzero(self.active())
        names, order = [self.action_names[action] for action in left], self.priority[left].argsort().argsort()
        return GreedyPolicy(tuple(names), self.sets.theta[left], order, encoder=self.encoder)

    def copy(self) -> "Learner":
        """An independent copy, open decisions included."""
        with self._turns.looking():
            return copy.deepcopy(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner as arrays and JSON; `sparing.load` goes on from it bit for bit."""
        from sparing.online.files import save

        with self._turns.looking():
            save(self, path)

    def _eligible(self, labels: Iterable[Hashable]) -> np.ndarray:
        mask = np.zeros(self.n_actions, dtype=np.bool_)
        if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
            raise DecisionError(f"eligible={labels!r}; must be a list of action labels, such as [{labels!r}]")
        for label in labels:
            if isinstance(label, bool | np.bool_) and not isinstance(self.action_names[0], bool):
                raise DecisionError(
                    "eligible holds truth values; expected the labels of the actions, not a mask. "
                    "Pass [name for name, allowed in zip(learner.action_names, mask) if allowed]"
                )
            position = self.index(label)
            if len(self._everyone) and not self._everyone[position]:
                raise DecisionError(f"eligible action {label!r} is retired and never eligible again")
            mask[position] = True
        if not mask.any():
            raise DecisionError("eligible is empty; name at least one action, or leave it out to allow all")
        return mask

    def _opened(self, decision: Decision | int) -> OpenDecision:
        number = decision.id if isinstance(decision, Decision) else decision
        pending = self.open.get(number) if isinstance(number, int | np.integer) else None
        if pending is None:
            if isinstance(decision, Decision) and not decision.needs_reward:
                raise DecisionError(
                    f"decision {number} was skipped ({decision.reason}) and needs no reward; nothing was learnt"
                )
            if isinstance(number, int | np.integer) and 0 <= number < self.rounds:
                raise DecisionError(
                    f"decision {number} is closed: it has had its reward, was forgotten, or needed none"
                )
            raise DecisionError(f"decision {number!r} is unknown; this learner has made {self.rounds}")
        if isinstance(decision, Decision) and decision != pending[0]:
            raise DecisionError(f"decision {number} was made by another learner; nothing was learnt")
        return pending

    def __repr__(self) -> str:
        return (
            f"Learner({self.algorithm}, {self.n_actions} actions, {self.n_features} features, "
            f"{self.calls} calls in {self.rounds} rounds, {len(self.open)} open)"
        )

    def _repr_html_(self) -> str:
        told = f"{self.calls:,} calls in {self.rounds:,} rounds, {len(self.open):,} open"
        sizes = f"{self.n_actions:,} actions, {self.n_features:,} features"
        return card(f"Learner: {self.algorithm}, {sizes}", said=[told], notes=[self.guarantee])
