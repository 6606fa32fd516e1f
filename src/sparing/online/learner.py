"""The one learner: confidence sets, skip rules in order, and a way to explore."""

import copy
import os
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from sparing.errors import DecisionError, LogError
from sparing.log.labels import plain
from sparing.offline.assumptions import Assumptions
from sparing.offline.policy import GreedyPolicy
from sparing.online import kernels
from sparing.online.decision import Decision, OpenDecision
from sparing.online.explore import EXPLORERS, chance_of_best
from sparing.online.monitor import NoiseMonitor
from sparing.online.rules import SkipRule, View
from sparing.online.sets import ConfidenceSets

EXPLORE = "explore"
SPOT_CHECK = "spot-check"
LARGEST = 1e100
"""The largest feature or reward taken in: squares and sums of larger ones overflow."""

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
        self._everyone = np.ones(len(self.action_names), dtype=np.bool_)

    @property
    def n_actions(self) -> int:
        """Actions, K."""
        return len(self.action_names)

    @property
    def n_features(self) -> int:
        """Length of a context, d."""
        return int(self.sets.response.shape[1])

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
        context = self._context(x)
        allowed = self._everyone if eligible is None else self._eligible(eligible)
        view = self._view(context, allowed, context_id)
        action, reason = self._choose(view)
        needs_reward = reason in (EXPLORE, SPOT_CHECK)
        value, spread = float(view.mean[action]), float(view.spread[action])
        decision = Decision(
            id=self.rounds,
            action=self.action_names[action],
            needs_reward=needs_reward,
            reason=reason,
            value=value,
            low=value - spread,
            high=value + spread,
            propensity=self._propensity(view, action, reason) if needs_reward else None,
        )
        self.rounds += 1
        if needs_reward:
            self.calls += 1
            self.open[decision.id] = OpenDecision(decision, action, context)
        return decision

    def _view(self, x: np.ndarray, eligible: np.ndarray, context_id: Hashable | None) -> View:
        mean, spread = self.sets.evaluate(x)
        top = mean + self.optimism * spread
        leader = kernels.best(top, eligible, self.priority, -1)
        return View(x, context_id, mean, spread, top, eligible, self.priority, leader)

    def _choose(self, view: View) -> tuple[int, str]:
        if self.spot_check and self.rng.random() < self.spot_check:
            return EXPLORERS["sampled"](view, self.rng), SPOT_CHECK
        return self._answered(view) or (self._explorer(view, self.rng), EXPLORE)

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
        if self.explore != "sampled" and not self.spot_check:
            return 1.0
        chance = chance_of_best(view, action)
        if reason == SPOT_CHECK and self._answered(view) is not None:
            planned = 0.0
        elif self.explore == "sampled":
            planned = chance
        else:
            planned = float(self._explorer(view, self.rng) == action)
        return (1 - self.spot_check) * planned + self.spot_check * chance

    def update(self, decision: Decision | int, reward: float) -> None:
        """Learn from the reward of a decision (or of its id) that needed one."""
        waiting = self._waiting(decision)
        value = self._reward(reward)
        del self.open[waiting.decision.id]
        if self.monitor is not None:
            theta, inverse = self.sets.theta[waiting.action], self.sets.inverse[waiting.action]
            width = float(np.sqrt(max(waiting.x @ inverse @ waiting.x, 0.0)))
            self.monitor.observe(value, float(waiting.x @ theta), width)
            self.sets.scale_constant(self.monitor.noise * self.monitor.inflation)
        self.sets.absorb(waiting.action, waiting.x, value)

    def forget(self, decision: Decision | int) -> None:
        """Close a decision whose reward will never come; nothing is learnt from it."""
        del self.open[self._waiting(decision).decision.id]

    def policy(self) -> GreedyPolicy:
        """What has been learnt so far: argmax_a x·θ̂_a."""
        return GreedyPolicy(self.action_names, self.sets.theta.copy(), self.priority.copy())

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
        fits = np.abs(context) <= LARGEST
        if not fits.all():
            where = int(np.flatnonzero(~fits)[0])
            raise DecisionError(
                f"context feature {where} is {context[where]}; every feature must be finite, and at most "
                f"{LARGEST:g} in size. Fill it in, or scale the features"
            )
        return context

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
        if isinstance(decision, Decision) and decision != waiting.decision:
            raise DecisionError(f"decision {number} was made by another learner; nothing was learnt")
        return waiting

    def _reward(self, reward: Any) -> float:
        try:
            value = np.nan if isinstance(reward, str | bytes) else float(reward)
        except (TypeError, ValueError, OverflowError):
            value = np.nan
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
