"""The one learner: confidence sets, skip rules in order, an explorer, and the list of pending decisions."""

import copy
import hashlib
import os
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.errors import DecisionError
from sparing.log.costs import CostsOption, action_costs
from sparing.log.features.encoder import Encoder
from sparing.log.limits import LARGEST
from sparing.log.log import Log
from sparing.model.confidence import Assumptions
from sparing.model.prior import Prior
from sparing.online import drift
from sparing.online.alarms import NOBODY, PREDICTED, Alarm, Watch
from sparing.online.confidence_sets import ConfidenceSets
from sparing.online.core import ARRAY, CALLS, DOUBLE, Chosen, Context, Core, PendingCall, new
from sparing.online.decision import (
    Chances,
    Decision,
    Decisions,
    as_reward,
    check_sizes,
    decide_many,
    label_index,
)
from sparing.online.engine import runs
from sparing.online.engine.choice import UNSURE
from sparing.online.engine.state import NoiseMonitor
from sparing.online.explanation import Explanation
from sparing.online.explanation import explain as explain_estimate
from sparing.online.rules import SkipRule
from sparing.policies.policy import GreedyPolicy
from sparing.report.notebook import card

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALSO = "also"  # the reason of a served decision that has a shadow call


class Learner(Core):
    """Decides rounds, and learns from the rewards of those that it calls.

    `decide` proposes the action with the highest upper confidence bound. The first skip rule that applies answers without a
    reward call; if none applies, the action is played and `update` adds its reward. Rewards may arrive late and in any order.
    Until then a call is imputed with its prediction, so that the same uncertainty is not paid for twice.

    Any number of threads may use one learner: `propose` and `decide_many` run in parallel, changes wait for their turn. Use
    either `decide`, `update` and `forget`, or the core's `propose`, `begin`, `finish` and `cancel`.

    Attributes
    ----------
    algorithm : str
        Name of the algorithm.
    action_names : tuple
        Labels of the actions.
    rounds, calls : int
        Decisions and reward calls so far.
    open : dict
        Pending decisions by id.
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
        watch: Watch | None = None,
        **settings: Any,
    ) -> None:
        """Create a learner; functions such as `sparing.moful` compute these values from a log.

        Parameters
        ----------
        algorithm, guarantee : str
            Its name, and what it guarantees without the result of the linearity test.
        action_names : sequence of labels
            One for each action, (K,).
        sets : ConfidenceSets
            Confidence sets of the actions' parameters, (K, d).
        rules : sequence of SkipRule
            Rules that may skip a call; the first that applies decides.
        key : int
            Seed of the random numbers of all rounds, from 0 to 2⁶³ − 1.
        fit : Log or str
            Log to test for linearity at the first use of `fit`, or the result of that test.
        prior, item_encoder, watch : Prior, Encoder, Watch, optional
            Prior that the log gives, encoder of item features, which `add_action` and `refresh` use, and what alarms come from.
        **settings
            Keywords of the core: `explore`, `optimism`, `spot_check`, `reward_range`, `encoder` and `costs` (K,).
        """
        super().__init__(action_names, sets, rules, key=key, **settings)
        self.algorithm, self._guarantee, self.prior = algorithm, guarantee, prior
        self._fit, self.item_encoder = fit, item_encoder
        self.open: dict[int, Decision] = {}  # decision i has the call ~i: others have no negative numbers
        self._deferred: int | None = None  # the newest decision's call, while it is not imputed
        self.watch = Watch.of(sets, self.reward_range) if watch is None else watch

    @property
    def fit(self) -> str:
        """Result of a test whether the log's rewards are linear in the features; computed at the first use."""
        if not isinstance(self._fit, str):
            from sparing.model.linearity import fit_sentence

            self._fit = fit_sentence(self._fit)
        return self._fit

    @property
    def guarantee(self) -> str:
        """What the learner guarantees, under which conditions, and the result of the linearity test."""
        return "; ".join(part for part in (self._guarantee, drift.condition(self), self.fit) if part)

    @property
    def promise(self) -> str:
        """Deprecated: use `guarantee`."""
        warnings.warn("Learner.promise is deprecated; use guarantee", DeprecationWarning, stacklevel=2)
        return self._guarantee

    @property
    def weighs(self) -> bool:
        """Deprecated: whether the learner compares the value of a call with its cost."""
        warnings.warn("Learner.weighs is deprecated; it is internal", DeprecationWarning, stacklevel=2)
        return self.uses_voi

    def __getstate__(self) -> dict[str, Any]:
        # Copies hold the result of the test, not the rows.
        _ = self.fit
        return super().__getstate__()

    def index(self, name: Hashable) -> int:
        """Return the index of an action.

        Parameters
        ----------
        name : hashable
            Label of the action.

        Raises
        ------
        DecisionError
            If the label is unknown.
        """
        return label_index(name, self._index)

    @property
    def costs(self) -> dict[Hashable, float] | None:
        """Known cost of playing each action, in units of the reward; None if none is known."""
        known = self.action_costs
        return None if known is None else dict(zip(self.action_names, known.tolist(), strict=True))

    def set_costs(self, costs: CostsOption) -> None:
        """Change the known costs. The next decision takes them into account; no reward is needed.

        Rewards are learnt before cost, and reward − cost is compared. So estimates stay right when prices change.

        Parameters
        ----------
        costs : mapping, sequence of K numbers or None
            Cost of playing each action, in units of the reward. A mapping may leave out actions whose cost stays. None removes
            all costs.

        Raises
        ------
        SettingError
            If a label is unknown, a cost is not finite, or an action has no cost. Nothing is changed.
        """
        checked = None if costs is None else action_costs(costs, self.action_names, known=self.action_costs)
        with self._lock.writing:
            self.apply_costs(checked)

    def round_costs(self, costs: Any, allowed: np.ndarray) -> np.ndarray:
        """Check the costs of a round, and return those of all actions, (K,).

        Parameters
        ----------
        costs : mapping or sequence of K numbers
            As in `decide`.
        allowed : array of bool of shape (K,)
            Actions that must have a cost; if it is empty, all active ones.
        """
        self._check_takes_costs()
        needed = allowed if len(allowed) else self.active()
        return action_costs(
            costs, self.action_names, known=self.action_costs, needed=needed, error=DecisionError
        )

    def add_action(
        self,
        name: Hashable,
        features: Mapping[str, Any] | Sequence[float] | None = None,
        *,
        cost: float | None = None,
    ) -> None:
        """Add an action. It is the last in ties.

        It starts at the prior's prediction: Ŵz_a with covariance S + C_a (`confident`), or in a set around Ŵz_a with its own share
        of δ (`certified` and `warm_started` with growing=True).

        Parameters
        ----------
        name : hashable
            Label of the action.
        features : mapping or sequence of float, optional
            Its item features, if the learner was made with `items`: by column, or as encoded numbers (q,).
        cost : float, optional
            Known cost of playing it, if the learner has costs.

        Raises
        ------
        SettingError
            If the algorithm cannot take more actions, or the features do not fit.
        """
        from sparing.online import action_changes

        known = self.item_encoder
        numbers: Any = known.encode(features) if known and isinstance(features, Mapping) else features
        with self._lock.writing:
            action_changes.add(self, name, numbers, cost)

    def retire(self, name: Hashable) -> None:
        """Stop playing an action. Its rows are kept, and rewards of its pending calls still count.

        Parameters
        ----------
        name : hashable
            Label of the action.

        Raises
        ------
        DecisionError
            If it is unknown, retired already, or the last active action.
        """
        from sparing.online import action_changes

        with self._lock.writing:
            action_changes.retire(self, name)

    def refresh(self) -> None:
        """Estimate the prior again from all rows so far, logged and live, and start every action from it."""
        from sparing.online import action_changes

        with self._lock.writing:
            action_changes.refresh(self)

    @property
    def monitor(self) -> NoiseMonitor | None:
        """Noise of live rewards compared with the assumed noise; None if the learner does not monitor it."""
        return self.sets.monitor

    @property
    def shift(self) -> drift.ShiftEstimate | None:
        """Shift between log and live, as far as live rewards show it; None if the learner assumes that there is none."""
        return drift.shift_of(self.sets)

    @property
    def half_life(self) -> int | None:
        """Rounds in which a row loses half of its weight; None if it keeps it, or if it loses it by time."""
        a = self.sets.arrays
        return None if a.timed or not a.half_life else int(a.half_life)

    def set_half_life(self, rounds: int | None) -> None:
        """Forget from now on: every row loses half of its weight in so many rounds.

        Estimates tend to the prior, and uncertainty to that before the log. For `confident`, `economical`, `linucb` and `lints`;
        confidence sets with a proof assume that rewards never change.

        Parameters
        ----------
        rounds : int or None
            Half-life, at least 20 rounds; None stops forgetting. What is forgotten stays so.

        Raises
        ------
        SettingError
            If it is too short, or the algorithm has confidence sets with a proof.
        """
        checked = drift.resolve_half_life(rounds)
        drift.check_forgets(self)
        with self._lock.writing:
            drift.set_half_life(self, checked)

    @property
    def alarms(self) -> list[Alarm]:
        """Changes of rewards or contexts that were found; look as often as you like. False ones: at most 5 % ever, of each."""
        with self._lock.writing:
            return self.watch.alarms(self.action_names, tuple(self.encoder.names))

    @property
    def assumptions(self) -> Assumptions:
        """Noise, bounds and radius, and which of them are estimated."""
        return self.sets.assumptions

    def decide(
        self,
        x: Context,
        *,
        eligible: Iterable[Hashable] | None = None,
        context_id: Hashable | None = None,
        costs: CostsOption = None,
        explain: bool = False,
    ) -> Decision:
        """Choose an action.

        Parameters
        ----------
        x : mapping, sequence of float or array of shape (d,)
            The context: raw columns by name (also a pandas row), or encoded numbers.
        eligible : iterable of hashable, optional
            Labels of the actions that may be played; by default all active ones.
        context_id : hashable, optional
            Id of the logged context, for logs that have ids.
        costs : mapping or sequence of K numbers, optional
            Known costs of playing the actions in this round, instead of the learner's. A mapping may leave out actions whose
            cost is the learner's.
        explain : bool
            Whether to keep an explanation, for a `Decision.explain` after later rewards.

        Returns
        -------
        Decision
            If its `needs_reward` is true, pass the reward to `update`, or call `forget`.

        Raises
        ------
        DecisionError
            If the context or the labels are invalid. The learner is unchanged.
        """
        unseen: tuple[str, ...] = ()
        if type(x) is ARRAY and x.dtype is DOUBLE and x.shape == self._shape:
            context = x.copy()  # as `context`, without the cost of a call
        elif type(x) is dict or isinstance(x, Mapping):
            context, unseen = self.encoder.encode_with_unseen(x)
            if context.shape != self._shape:
                context = self.context(context)
        else:
            context = self.context(x)
        allowed = self._active_mask if eligible is None else self._eligible(eligible)
        priced = None if costs is None else self.round_costs(costs, allowed)
        lock = self._lock
        with lock.write_lock:
            if lock.readers:
                lock.wait_for_readers()
            if self._deferred is not None:
                self._impute_deferred()
            number = self.rounds
            if self.moving and number >= self.next_tick:
                drift.tick(self, number, x=context)
            share, key = self.spot_check, -1
            if not self._plain:
                key = runs.STREAM_KEY.call(self.key, number)
            elif share:
                key = runs.CHECK_KEY.call(self.key, number, share)
            quick, worth = UNSURE, None
            if allowed is self._fast and priced is None and key < 0 and not self._imputed:
                # As `_choose`, without the cost of a call; what it would refuse or check is left to it.
                sets = self.sets
                bounds = sets.bounds
                decide = self._entry[bounds].call
                action, quick, mean, spread = decide(sets.writer, context, allowed, bounds)
            if quick == UNSURE or action < 0:
                choice = self._choose(context, allowed, context_id, key, share, priced)
                if number < self.check_to:
                    choice = self._requested(context, choice)
                action, reason, mean, spread, chances, worth = choice
                called = reason in CALLS
            else:
                reason, called, chances = self._outcomes[quick]
            half, cost = self.half_widths * spread, None  # as `interval`, without the cost of a call
            if priced is not None:  # as `cost`
                cost = float(priced[action])
            elif self.cost_list is not None:
                cost = self.cost_list[action]
            estimates = self._estimates or self._present()
            source: tuple[Any, ...] = (estimates, estimates.changes, x, allowed, priced)
            if explain:
                source += (explain_estimate(estimates, context, x, action, None, allowed, priced),)
            name, low, high = self.action_names[action], mean - half, mean + half
            answer = number, name, called, reason, mean, low, high, chances, worth, unseen, cost, source
            decision: Decision = new(Decision, answer)
            self.rounds = number + 1
            if called:
                self.calls += 1
                # The reward often comes next: a pending copy that it would remove at once is not worth making.
                if self._imputed and action in self._imputed:
                    self._open(~number, action, context, impute=True)
                else:  # as `_open`, without the cost of a call
                    self._deferred = ~number
                    self._pending[~number] = action, context, None
                self.open[number] = decision
            watch = self.watch
            if watch.sees_contexts:  # as `Watch.context`, without the cost of a call
                watch.pending_contexts.append(context)
                watch.pending_moments.append(number)
            if not number & 1023:
                watch.flush()
            if self.uses_voi:
                self._sync_budget()
                if number == self.next_entry:
                    self.enter_context(context)
            return decision

    def decide_in_shadow(
        self,
        x: Context,
        *,
        eligible: Iterable[Hashable] | None = None,
        context_id: Hashable | None = None,
        costs: CostsOption = None,
    ) -> tuple[Decision, Decision | None]:
        """Choose the action with the best mean, and the action whose reward is worth buying without serving it to anybody.

        The second one is a shadow call: run its action in the same context, show the result to nobody, and have it judged.
        `economical` makes one where the expected gain in future rounds exceeds the price. What the action would lose in this round
        does not count, since nobody is served it. Other learners make one in every round in which `decide` would need a reward.

        Parameters
        ----------
        x, eligible, context_id, costs
            As in `decide`.

        Returns
        -------
        decision : Decision
            The action to serve. It needs no reward. If there is a shadow call, its reason is `also`; else why no reward is bought.
        also : Decision or None
            The shadow call. Pass its reward to `update`, or call `forget`. Its probabilities are those of choosing it for the call.

        Raises
        ------
        DecisionError
            If the context or the labels are invalid. The learner is unchanged.

        Examples
        --------
        >>> import sparing
        >>> world = sparing.simulation.LinearWorld(n_actions=4, n_features=3, noise=0.5, seed=0)
        >>> log = sparing.simulation.draw_log(world, rows=500, never=[3], seed=1)
        >>> learner = sparing.economical(log, call_cost=0.01, horizon=20_000)
        >>> decision, also = learner.decide_in_shadow([0.5, 0.2, 0.9])
        >>> if also is not None:
        ...     learner.update(also, 0.3)
        """
        context = self.context(x)
        unseen = self.encoder.unseen(x) if isinstance(x, Mapping) else ()
        allowed = self._active_mask if eligible is None else self._eligible(eligible)
        priced = None if costs is None else self.round_costs(costs, allowed)
        with self._lock.writing:
            self._impute_deferred()
            number = self.rounds
            if self.moving and number >= self.next_tick:
                drift.tick(self, number, x=context)
            key = runs.STREAM_KEY.call(self.key, number)
            made = self._choose_in_shadow(context, allowed, context_id, key, self.spot_check, priced)
            estimates = self._estimates or self._present()
            source = estimates, estimates.changes, x, allowed, priced
            served, also = (
                None
                if each is None
                else self._proposal(each, priced)._replace(
                    id=number, action=self.action_names[each[0]], unseen=unseen, source=source
                )
                for each in made
            )
            if made[1] is not None and also is not None:
                self._open(~number, made[1][0], context, impute=True)
                self.open[number] = also
                self.calls += 1
            self.rounds = number + 1
            self.watch.context(context, number)
            if self.uses_voi:
                self._sync_budget()
                if number == self.next_entry:
                    self.enter_context(context)
        assert served is not None
        return served, also

    def propose_in_shadow(
        self,
        x: Context,
        *,
        allowed: np.ndarray | None = None,
        context_id: Hashable | None = None,
        entropy: bytes = b"",
        spot_checks: bool = True,
        costs: np.ndarray | None = None,
    ) -> tuple[Decision, Decision | None]:
        """Propose what to serve, and the call of its shadow, by the state and the arguments alone: nothing changes.

        Parameters
        ----------
        x : mapping, sequence of float or array of shape (d,)
            The context, as in `decide`.
        allowed : array of bool of shape (K,), optional
            Actions that may be played; by default all active ones.
        context_id : hashable, optional
            Id of the logged context, for logs that have ids.
        entropy : bytes
            What gives the round's random numbers.
        spot_checks : bool
            Whether a round may be a spot check.
        costs : array of shape (K,), optional
            Known costs of playing the actions in this round, instead of the learner's.

        Returns
        -------
        decision : Decision
            The best mean, with id −1 and the action's index.
        also : Decision or None
            The shadow call, as in `decide_in_shadow`.
        """
        context, mask = self.context(x), self._mask(allowed)
        key = int.from_bytes(hashlib.blake2b(entropy, digest_size=8).digest()) >> 1
        share = self.spot_check if spot_checks else 0.0
        with self._lock:
            served, call = self._choose_in_shadow(context, mask, context_id, key, share, costs)
            return self._proposal(served, costs), None if call is None else self._proposal(call, costs)

    def _choose_in_shadow(
        self,
        x: np.ndarray,
        allowed: np.ndarray,
        context_id: Hashable | None,
        key: int,
        spot_check: float,
        costs: np.ndarray | None,
    ) -> tuple[Chosen, Chosen | None]:
        """The best mean, which is served, and the call of its shadow; the caller holds the lock."""
        plan = self._requested(x, self._choose(x, allowed[:], context_id, key, spot_check, costs, True))
        _, reason, _, _, _, worth = plan
        bounds, observed = self.sets.bounds, self._views(costs)[0]
        best, mean, spread = runs.CHOOSE_BEST[bounds].call(observed, x, allowed, bounds)
        called = reason in CALLS
        served = best, ALSO if called else reason, mean, spread, Chances(1.0, 0.0), worth
        return served, plan if called else None

    def explain(
        self,
        x: Context,
        action: Hashable | None = None,
        *,
        against: Hashable | None = None,
        eligible: Iterable[Hashable] | None = None,
        costs: CostsOption = None,
    ) -> Explanation:
        """Explain an estimate by the learner's present state, without deciding.

        Parameters
        ----------
        x : mapping, sequence of float or array of shape (d,)
            The context, as in `decide`.
        action : hashable, optional
            Label of the action to explain; by default the eligible one with the highest estimate.
        against : hashable, optional
            Label of the action to compare with; by default the eligible one with the highest estimate of the others.
        eligible : iterable of hashable, optional
            Labels of the actions that may be played; by default all active ones.
        costs : mapping or sequence of K numbers, optional
            Known costs of playing the actions, as in `decide`.

        Returns
        -------
        Explanation

        Raises
        ------
        DecisionError
            If the context or the labels are invalid.
        """
        context = self.context(x)
        check_sizes(context)
        allowed = self._active_mask if eligible is None else self._eligible(eligible)
        chosen = -1 if action is None else self.index(action)
        priced = None if costs is None else self.round_costs(costs, allowed)
        return self.explanation(chosen, context, x, allowed=allowed, against=against, costs=priced)

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
        """Return the answers that `decide` would give now, without spot checks.

        Nothing is learnt, counted or left open: for scoring with a learner that has finished learning. Each answer is that
        of the next round, so rewards that would be requested do not add up to the calls of a run.

        Parameters
        ----------
        contexts : frame, list of mappings, or array of shape (n, d)
            Raw columns, or encoded contexts.
        context_ids : sequence of length n, optional
            Ids of logged contexts.
        threads : int, optional
            Number of threads; by default one per core.
        """
        if self._deferred is not None:
            with self._lock.writing:
                self._impute_deferred()
        with self._lock:
            return decide_many(self, contexts, context_ids, threads)

    def update(self, decision: Decision | int, reward: float) -> None:
        """Learn from the reward of a decision.

        Parameters
        ----------
        decision : Decision or int
            A pending decision, or its id.
        reward : float
            Its reward, within `reward_range`.

        Raises
        ------
        DecisionError
            If the decision is not pending or the reward is invalid. Nothing is learnt.
        """
        lock = self._lock
        with lock.write_lock:
            if lock.readers:
                lock.wait_for_readers()
            predicted = PREDICTED(decision) if type(decision) is Decision else NOBODY
            if self.open.get(predicted[0], NOBODY) is not decision:
                predicted = PREDICTED(self.open[self._pending_number(decision)])
            number = predicted[0]
            call, value = ~number, reward
            if (
                type(reward) is not float
                or self.reward_range is not None
                or not -LARGEST <= reward <= LARGEST
            ):
                value = as_reward(reward, self.reward_range)
            if call != self._deferred:
                self._impute_deferred()
            action = self._observe(call, value)
            self._deferred = None
            notes = self.watch.notes  # as `Watch.reward`, without the cost of a call
            notes += predicted
            notes += (action, value)
            del self.open[number]

    def forget(self, decision: Decision | int) -> None:
        """Close a decision whose reward will not arrive. Nothing is learnt from it.

        Parameters
        ----------
        decision : Decision or int
            A pending decision, or its id.

        Raises
        ------
        DecisionError
            If the decision is not pending.
        """
        with self._lock.writing:
            number = self._pending_number(decision)
            if ~number != self._deferred:
                self._impute_deferred()
            self._cancel(~number)
            self._deferred = None
            del self.open[number]

    def _restore(self, pending: Sequence[tuple[Decision, PendingCall]]) -> None:
        """Take over the pending decisions of a saved learner."""
        self.open = {decision.id: decision for decision, _ in pending}
        calls = self.match_calls(call for _, call in pending)
        own = {call: ~decision.id for (decision, _), call in zip(pending, calls, strict=True)}
        self._pending = {own.get(call, call): waiting for call, waiting in self._pending.items()}
        deferred = [call for call, (_, _, predicted) in self._pending.items() if predicted is None]
        if len(self.open) != len(pending) or len(deferred) > 1:
            raise ValueError("open decisions that stand twice, or two that nothing happened since")
        self._deferred = deferred[0] if deferred else None

    def warm_up(self) -> None:
        """Compile everything that a round can need, so that no round waits for it."""
        from sparing.online.warm_up import warm_up

        warm_up(self)

    def policy(self) -> GreedyPolicy:
        """Return the greedy policy of the present estimates, argmax_a x·θ̂_a − cost_a."""
        left = np.flatnonzero(self.active())
        names, order = [self.action_names[action] for action in left], self.priority[left].argsort().argsort()
        costs = None if self.action_costs is None else self.action_costs[left]
        return GreedyPolicy(tuple(names), self.sets.theta[left], order, encoder=self.encoder, costs=costs)

    def copy(self) -> "Learner":
        """Return an independent copy, pending decisions included."""
        with self._lock:
            return copy.deepcopy(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner as arrays and JSON; `sparing.load` continues from it bit for bit.

        Parameters
        ----------
        path : str or path
        """
        from sparing.online.files import save

        with self._lock:
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
            if len(self._active_mask) and not self._active_mask[position]:
                raise DecisionError(f"eligible action {label!r} is retired and never eligible again")
            mask[position] = True
        if not mask.any():
            raise DecisionError("eligible is empty; name at least one action, or leave it out to allow all")
        return mask

    def _pending_number(self, decision: Decision | int) -> int:
        number = decision.id if isinstance(decision, Decision) else decision
        pending = self.open.get(number) if isinstance(number, int | np.integer) else None
        if isinstance(decision, Decision) and not decision.needs_reward:
            raise DecisionError(
                f"decision {number} was skipped ({decision.reason}) and needs no reward; nothing was learnt"
            )
        if pending is None:
            if isinstance(number, int | np.integer) and 0 <= number < self.rounds:
                raise DecisionError(
                    f"decision {number} is closed: it has had its reward, was forgotten, or needed none"
                )
            raise DecisionError(f"decision {number!r} is unknown; this learner has made {self.rounds}")
        if isinstance(decision, Decision) and decision != pending:
            raise DecisionError(f"decision {number} was made by another learner; nothing was learnt")
        return pending.id

    def __repr__(self) -> str:
        return (
            f"Learner({self.algorithm}, {self.n_actions} actions, {self.n_features} features, "
            f"{self.calls} calls in {self.rounds} rounds, {len(self.open)} open)"
        )

    def plot(self, axes: "Axes | None" = None, *, x: Context | None = None) -> "Axes":
        """Draw the estimate of each active action in one context, with its interval, the best first.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            By default those of a new figure.
        x : mapping, sequence of float or array of shape (d,), optional
            The context, as in `decide`; by default the average one of all rows.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from sparing.online.figure import plot

        return plot(self, axes, x)

    def _repr_html_(self) -> str:
        counts = f"{self.calls:,} calls in {self.rounds:,} rounds, {len(self.open):,} open"
        sizes = f"{self.n_actions:,} actions, {self.n_features:,} features"
        return card(f"Learner: {self.algorithm}, {sizes}", said=[counts], notes=[self.guarantee])
