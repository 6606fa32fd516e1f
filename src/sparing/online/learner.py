"""The one learner: confidence sets, skip rules in order, and a way to explore."""

import copy
import math
import os
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from sparing.errors import DecisionError, LogError
from sparing.log.labels import plain
from sparing.offline.assumptions import Assumptions
from sparing.offline.policy import GreedyPolicy
from sparing.online import kernels
from sparing.online.batch import Decisions, decide_many
from sparing.online.decision import Decision, OpenDecision
from sparing.online.engine import running, sampling
from sparing.online.engine.learning import absorb
from sparing.online.engine.running import LARGEST
from sparing.online.explore import EXPLORERS, REACH, Rival, chance_against, chance_of_best
from sparing.online.monitor import NoiseMonitor
from sparing.online.planning import REASONS, compiled_plan, log_memory
from sparing.online.rules import SkipRule, View
from sparing.online.sets import ConfidenceSets

EXPLORE = "explore"
SPOT_CHECK = "spot-check"
EVERYONE = np.empty(0, dtype=np.bool_)
"""Stands for a mask that leaves nobody out."""

NOWHERE = (math.nan, 0)
"""The threshold and the answer of a context that is not in the log."""

DOUBLE = np.dtype(np.float64)
_new: Any = tuple.__new__  # a named tuple's own constructor costs twice as much
NUMBERS = "biufO"
"""NumPy's kinds of arrays that a context may come as; text is not read as numbers."""


class Learner:
    """decide(x): propose the action with the highest top; the first skip rule that fires answers without
    a reward call; if none fires, play, and learn from the reward that `update` brings.

    Rewards may come late and in any order. `algorithm` names the composition, `guarantee` says what is
    promised and on which conditions.
    """

    def __init__(
        self,
        algorithm: str,
        action_names: Sequence[Hashable],
        sets: ConfidenceSets,
        rules: Sequence[SkipRule],
        *,
        priority: np.ndarray,
        rng: np.random.Generator,
        explore: str = "leader",
        optimism: float = 1.0,
        spot_check: float = 0.0,
        monitor: NoiseMonitor | None = None,
        reward_range: tuple[float, float] | None = None,
        guarantee: str = "",
    ) -> None:
        self.algorithm, self.guarantee = algorithm, guarantee
        self.action_names = tuple(action_names)
        self.sets, self.rules = sets, tuple(rules)
        self.priority, self.rng = priority, rng
        self.explore, self.optimism = explore, optimism
        self.spot_check, self.monitor, self.reward_range = spot_check, monitor, reward_range
        self.rounds = 0
        self.calls = 0
        self.open: dict[int, OpenDecision] = {}
        self._explorer = EXPLORERS[explore]
        self._index = {name: i for i, name in enumerate(self.action_names)}
        sets.prioritise(priority)
        self._shape = (self.n_features,)
        self._random = explore == "sampled" or spot_check > 0
        self.plan = compiled_plan(self)
        if self.plan is not None:
            sets.arrays.plan[:] = self.plan
        self._beats = log_memory(self)

    @property
    def n_actions(self) -> int:
        """Actions, K."""
        return len(self.action_names)

    @property
    def n_features(self) -> int:
        """Length of a context, d."""
        return self.sets.shape[1]

    @property
    def assumptions(self) -> Assumptions:
        """Noise, bounds and radius, with what was estimated."""
        return self.sets.assumptions

    def decide(
        self,
        x: Sequence[float] | np.ndarray,
        *,
        eligible: Iterable[Hashable] | None = None,
        context_id: Hashable | None = None,
    ) -> Decision:
        """Choose an action for context x (d,), among `eligible` labels if given.

        `context_id` says which logged context this is, for logs that carry ids.
        """
        if type(x) is np.ndarray and x.dtype is DOUBLE and x.shape == self._shape:
            context = x.copy()
        else:
            context = self._context(x)
        allowed = EVERYONE if eligible is None else self._eligible(eligible)
        if self.plan is None:
            return self._decide_by_view(context, allowed, context_id)
        if self._beats is None and eligible is None:
            action, code, mean, spread = running.decide_freely(self.sets.table, context)
        else:
            threshold, logged = NOWHERE if self._beats is None else self._beats.find(context, context_id)
            action, code, mean, spread = running.decide(self.sets.table, context, allowed, threshold, logged)
        if action < 0:
            raise self._unfit(context, -1 - action)
        if self._random:
            return self._draw(context, allowed, action, code, mean, spread)
        if code:
            return self._finish(context, action, REASONS[code], mean, spread, None)
        # As _finish does, without the call: this is the round that a learner without luck plays most.
        number = self.rounds
        self.rounds = number + 1
        self.calls += 1
        decision: Decision = _new(
            Decision,
            (number, self.action_names[action], True, EXPLORE, mean, mean - spread, mean + spread, 1.0),
        )
        self.open[number] = decision, action, context
        return decision

    def _draw(
        self, x: np.ndarray, eligible: np.ndarray, planned: int, code: int, mean: float, spread: float
    ) -> Decision:
        """Let luck have its say in a round for which an action is planned, and record the chance it had."""
        spot_check = self.spot_check > 0 and self.rng.random() < self.spot_check
        if code and not spot_check:
            return self._finish(x, planned, REASONS[code], mean, spread, None)
        action, table = planned, self.sets.table
        if spot_check or self.explore == "sampled":
            action = sampling.sampled(table, x, self.rng.standard_normal(self.n_actions), eligible)
            mean, spread = sampling.value(table, x, action)
        chance = self._chance(x, eligible, action, mean, spread)
        if self.explore == "sampled":
            again = 0.0 if spot_check and code else chance
        else:
            again = float(not code and planned == action)
        propensity = (1 - self.spot_check) * again + self.spot_check * chance
        return self._finish(x, action, SPOT_CHECK if spot_check else EXPLORE, mean, spread, propensity)

    def _chance(self, x: np.ndarray, eligible: np.ndarray, action: int, mean: float, spread: float) -> float:
        """P(action is the best of one posterior draw), from the rivals that can change it."""
        room, table = len(self.sets.arrays.theta), self.sets.table
        who, means, spreads = np.empty(room, dtype=np.int64), np.empty(room), np.empty(room)
        found, rivals, blanks, first = sampling.rivals(table, x, action, REACH, eligible, who, means, spreads)
        if not rivals:
            return 1.0
        own = Rival(mean, spread, int(self.priority[action]))
        alike = None
        if blanks:
            alike = blanks, Rival(*sampling.value(table, x, first), int(self.priority[first]))
        return chance_against(own, means[:found], spreads[:found], self.priority[who[:found]], alike=alike)

    def _decide_by_view(self, x: np.ndarray, eligible: np.ndarray, context_id: Hashable | None) -> Decision:
        """Choose with all actions in sight: what rules written in Python need."""
        self._check(x)  # before any luck is drawn
        spot_check = self.spot_check > 0 and self.rng.random() < self.spot_check
        view = self._view(x, eligible, context_id)
        if spot_check:
            action, reason = EXPLORERS["sampled"](view, self.rng), SPOT_CHECK
        else:
            action, reason = self._answered(view) or (self._explorer(view, self.rng), EXPLORE)
        called = reason in (EXPLORE, SPOT_CHECK)
        propensity = self._propensity(view, action, reason) if called else None
        return self._finish(
            x, action, reason, float(view.mean[action]), float(view.spread[action]), propensity
        )

    def _finish(
        self, x: np.ndarray, action: int, reason: str, mean: float, spread: float, propensity: float | None
    ) -> Decision:
        """Count the round; one with a propensity is a call, and stays open until its reward comes."""
        number = self.rounds
        called = propensity is not None
        label = self.action_names[action]
        decision: Decision = _new(
            Decision, (number, label, called, reason, mean, mean - spread, mean + spread, propensity)
        )
        self.rounds = number + 1
        if called:
            self.calls += 1
            self.open[number] = decision, action, x
        return decision

    def _view(self, x: np.ndarray, eligible: np.ndarray, context_id: Hashable | None) -> View:
        mean, spread = self.sets.evaluate(x)
        top = mean + self.optimism * spread
        allowed = eligible if len(eligible) else np.ones(self.n_actions, dtype=np.bool_)
        leader = kernels.best(top, allowed, self.priority, -1)
        return View(x, context_id, mean, spread, top, allowed, self.priority, leader)

    def _answered(self, view: View) -> tuple[int, str] | None:
        """The first skip rule's answer and name, if any fires."""
        for rule in self.rules:
            answer = rule.answer(view)
            if answer is not None:
                return answer, rule.name
        return None

    def _propensity(self, view: View, action: int, reason: str) -> float:
        """Chance of a call on this action here, over the learner's own randomness.

        A skipped round plays its answer but brings no reward, so it does not count: over the rounds
        with a call, 1{called on a}/propensity has mean 1 for every action that a call can reach.
        """
        if not self._random:
            return 1.0
        chance = chance_of_best(view, action)
        if reason == SPOT_CHECK and self._answered(view) is not None:
            planned = 0.0
        elif self.explore == "sampled":
            planned = chance
        else:
            planned = float(self._explorer(view, self.rng) == action)
        return (1 - self.spot_check) * planned + self.spot_check * chance

    def decide_many(
        self,
        contexts: np.ndarray,
        *,
        context_ids: Sequence[Hashable] | np.ndarray | None = None,
        threads: int | None = None,
    ) -> Decisions:
        """What `decide` would answer to each of these contexts (n, d) now, spot checks left out.

        Nothing is learnt, counted or left open: for scoring with a learner that has finished learning.
        """
        return decide_many(self, contexts, context_ids, threads)

    def update(self, decision: Decision | int, reward: float) -> None:
        """Learn from the reward of a decision (or of its id) that needed one."""
        waiting = self.open.get(decision.id) if type(decision) is Decision else None
        if waiting is None or waiting[0] is not decision:
            waiting = self._waiting(decision)
        made, action, x = waiting
        plain_number = (
            isinstance(reward, float) and self.reward_range is None and -LARGEST <= reward <= LARGEST
        )
        value = float(reward) if plain_number else self._reward(reward)
        del self.open[made.id]
        if self.monitor is not None:
            mean, width = running.predict(self.sets.table, action, x)
            self.monitor.observe(value, mean, width)
            self.sets.scale_constant(self.monitor.noise * self.monitor.inflation)
        sets = self.sets
        if absorb(sets.table, action, x, value):
            sets.make_room()

    def forget(self, decision: Decision | int) -> None:
        """Close a decision whose reward will never come; nothing is learnt from it."""
        del self.open[self._waiting(decision)[0].id]

    def log_answers(self, contexts: np.ndarray, ids: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """What the log earned (NaN where it was not) and did in each of these contexts (n, d): (n,) each."""
        if self._beats is None:
            return np.full(len(contexts), math.nan), np.zeros(len(contexts), dtype=np.int64)
        names = [None] * len(contexts) if ids is None else ids.tolist()
        found = [self._beats.find(x, name) for x, name in zip(contexts, names, strict=True)]
        thresholds = np.array([threshold for threshold, _ in found])
        return thresholds, np.array([action for _, action in found], dtype=np.int64)

    def count(self, *, rounds: int, calls: int) -> None:
        """Take note of rounds that compiled code has decided and learnt from."""
        self.rounds += rounds
        self.calls += calls

    def policy(self) -> GreedyPolicy:
        """What has been learnt so far: argmax_a x·θ̂_a."""
        return GreedyPolicy(self.action_names, self.sets.theta, self.priority.copy())

    def copy(self) -> "Learner":
        """An independent copy, random streams and open decisions included."""
        return copy.deepcopy(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner as arrays and JSON; `sparing.load` goes on from it bit for bit."""
        from sparing.online.saving import save

        save(self, path)

    def _context(self, x: Sequence[float] | np.ndarray) -> np.ndarray:
        try:
            given = np.asarray(x)
            context = given.astype(np.float64) if given.dtype.kind in NUMBERS else None
        except (TypeError, ValueError, OverflowError):
            context = None
        if context is None:
            raise DecisionError(f"context {x!r} is not a list of numbers")
        if context.shape != (self.n_features,):
            raise DecisionError(f"context of shape {context.shape}; expected ({self.n_features},)")
        return np.ascontiguousarray(context)

    def _check(self, x: np.ndarray) -> None:
        large = np.flatnonzero(~(np.abs(x) <= LARGEST))
        if len(large):
            raise self._unfit(x, int(large[0]))

    def _unfit(self, x: np.ndarray, feature: int) -> DecisionError:
        return DecisionError(
            f"context feature {feature} is {x[feature]}; every feature must be finite, and at most "
            f"{LARGEST:g} in size. Fill it in, or scale the features"
        )

    def _eligible(self, labels: Iterable[Hashable]) -> np.ndarray:
        mask = np.zeros(self.n_actions, dtype=np.bool_)
        if not isinstance(labels, Iterable):
            raise DecisionError(f"eligible={labels!r}; must be a list of action labels")
        for label in labels:
            if isinstance(label, bool | np.bool_) and not isinstance(self.action_names[0], bool):
                raise DecisionError(
                    "eligible holds truth values; expected the labels of the actions, not a mask. "
                    "Pass [name for name, allowed in zip(learner.action_names, mask) if allowed]"
                )
            try:
                position = self._index.get(plain(label))
            except LogError:
                position = None
            if position is None:
                known = ", ".join(repr(name) for name in self.action_names[:5])
                raise DecisionError(
                    f"eligible action {label!r} is unknown; the {self.n_actions} known ones begin with {known}"
                )
            mask[position] = True
        if not mask.any():
            raise DecisionError("eligible is empty; name at least one action, or leave it out to allow all")
        return mask

    def _waiting(self, decision: Decision | int) -> OpenDecision:
        number = decision.id if isinstance(decision, Decision) else decision
        waiting = self.open.get(number) if isinstance(number, int | np.integer) else None
        if waiting is None:
            if isinstance(decision, Decision) and not decision.needs_reward:
                raise DecisionError(
                    f"decision {number} was skipped ({decision.reason}) and needs no reward; nothing was learnt"
                )
            if isinstance(number, int | np.integer) and 0 <= number < self.rounds:
                raise DecisionError(
                    f"decision {number} is closed: it has had its reward, was forgotten, or needed none"
                )
            raise DecisionError(f"decision {number!r} is unknown; this learner has made {self.rounds}")
        if isinstance(decision, Decision) and decision != waiting[0]:
            raise DecisionError(f"decision {number} was made by another learner; nothing was learnt")
        return waiting

    def _reward(self, reward: Any) -> float:
        try:
            value = math.nan if isinstance(reward, str | bytes) else float(reward)
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if not abs(value) <= LARGEST:
            raise DecisionError(
                f"reward {reward!r}; must be a finite number, at most {LARGEST:g} in size. Nothing was learnt"
            )
        if self.reward_range is not None and not self.reward_range[0] <= value <= self.reward_range[1]:
            raise DecisionError(
                f"reward {value} is outside reward_range={self.reward_range}; nothing was learnt"
            )
        return value

    def __repr__(self) -> str:
        return (
            f"Learner({self.algorithm}, {self.n_actions} actions, {self.n_features} features, "
            f"{self.calls} calls in {self.rounds} rounds, {len(self.open)} open)"
        )
