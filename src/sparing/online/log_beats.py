"""The skip rule `log-beats`: even the upper confidence bound does not exceed the logged reward of this context.

The logged reward is one noisy `sample`, as in the paper, or a lower confidence `limit` of the logged action's mean.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sparing.errors import DecisionError, LogError, SettingError
from sparing.hashing import ContextIndex, distinct
from sparing.log import Log
from sparing.model.confidence import ConfidenceEllipsoids
from sparing.online.engine import choice, random_stream
from sparing.policies.pi_plus import UNLOGGED, PiPlus, pi_plus
from sparing.validation import one_of

if TYPE_CHECKING:
    from sparing.online.start import LearnerStart

NOWHERE = (math.nan, 0, 1.0)
"""Threshold, answer and probability for a context that is not in the log."""

BEATS = ("sample", "limit")

TABLE = ("keys", "thresholds", "answers", "groups")
POLICY = ("policy_offsets", "policy_actions", "policy_mass")
# Arrays on disk.


@dataclass
class LoggedContexts:
    """Distinct contexts of the log by one kind of key: threshold, answer and π⁺ context of each.

    keys (m, d) contexts or (m,) ids; thresholds (m,) are means over a context's rows, never the maximum
    (winner's curse); answers (m,) the logged action, of several the one with the best mean reward.
    """

    keys: np.ndarray
    thresholds: np.ndarray
    answers: np.ndarray
    groups: np.ndarray
    index: ContextIndex = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.index = ContextIndex(self.keys)

    @classmethod
    def of(cls, keys: np.ndarray, log: Log, plus: PiPlus, priority: np.ndarray) -> "LoggedContexts":
        """Group the log's rows by key; keys (n, d) contexts or (n,) ids."""
        first, slot = distinct(keys)
        m, k = len(first), log.n_actions
        thresholds = np.bincount(slot, plus.thresholds, m) / np.bincount(slot, minlength=m)
        pairs, pair = np.unique(slot * k + log.actions, return_inverse=True)
        means = np.bincount(pair, log.rewards) / np.bincount(pair)
        order = np.lexsort((priority[pairs % k], -means, pairs // k))
        leading = order[np.searchsorted((pairs // k)[order], np.arange(m))]
        answers = (pairs % k)[leading].astype(np.int64)
        return cls(keys[first], thresholds, answers, plus.groups[first])

    @classmethod
    def of_limits(cls, log: Log, sets: ConfidenceEllipsoids, priority: np.ndarray) -> "LoggedContexts":
        """The highest L_a(x) of the actions logged at x, and its action; the sets are fitted to the log.

        They hold for all actions and contexts at once, so the maximum has no winner's curse.
        """
        first, slot = distinct(log.contexts)
        lows = sets.own_lows(log.contexts, log.actions)
        order = np.lexsort((priority[log.actions], -lows, slot))
        best = order[np.searchsorted(slot[order], np.arange(len(first)))]
        return cls(log.contexts[first], lows[best], log.actions[best].astype(np.int64), slot[first])


@dataclass
class LogBeats:
    """`log-beats`: x is in the log and best(x) ≤ threshold(x) → answer from the log.

    best(x) is the leader's upper bound; with `beats="limit"` that of the best action except the answer. `policy` is None to answer
    with the context's logged action, or π⁺ as rows of a sparse table (offsets, actions, mass) to draw the answer from.
    """

    by_context: LoggedContexts
    by_id: LoggedContexts | None
    policy: tuple[np.ndarray, np.ndarray, np.ndarray] | None
    beats: str = "sample"
    name: ClassVar[str] = "log-beats"
    code: ClassVar[int] = choice.LOG_BEATS

    @classmethod
    def of(cls, log: Log, start: "LearnerStart", beats: str, clip: float | str, answer: str) -> "LogBeats":
        """Build the rule from a log, with π⁺ for samples and confidence sets of the log's sums for limits.

        A limit refers to x itself, so that contexts are then matched by their features and never by an id.
        """
        priority = start.priority
        one_of("beats", beats, BEATS)
        one_of("answer", answer, ("logged", "policy"))
        if beats == "limit":
            if answer != "logged" or clip != "percentile-ratio":
                raise SettingError(
                    f"answer={answer!r} and clip={clip!r} with beats='limit'; a limit speaks of the logged action and "
                    "has no weights. Leave out answer and clip"
                )
            limits = LoggedContexts.of_limits(
                log, ConfidenceEllipsoids(start.sums, start.assumptions), priority
            )
            return cls(limits, None, None, beats)
        plus = pi_plus(log, clip)
        by_id = None if log.context_ids is None else LoggedContexts.of(log.context_ids, log, plus, priority)
        policy = spread_unlogged(log, plus) if answer == "policy" else None
        return cls(LoggedContexts.of(log.contexts, log, plus, priority), by_id, policy)

    @property
    def tolerance(self) -> float:
        """Distinguishes limits (0: how far rivals may exceed one) from samples (−∞) in compiled code."""
        return 0.0 if self.beats == "limit" else -math.inf

    def find(
        self, x: np.ndarray, context_id: Hashable | None, allowed: np.ndarray, key: int
    ) -> tuple[float, int, float]:
        """Threshold and answer of a context, and the answer's probability, among the `allowed` (K,), or all if it is empty.

        The threshold is NaN if the context is not in the log or has no answer; nothing is below NaN.
        """
        memory, slot = self._find(x, context_id)
        if slot is None:
            return NOWHERE
        threshold = float(memory.thresholds[slot])
        if self.policy is None:
            return threshold, int(memory.answers[slot]), 1.0
        actions, weights = self._weights(int(memory.groups[slot]), allowed)
        sums = np.cumsum(weights)
        if not len(sums) or sums[-1] <= 0:
            return NOWHERE
        place = np.searchsorted(
            sums, random_stream.uniform(key, random_stream.ANSWER) * sums[-1], side="right"
        )
        place = min(place, np.flatnonzero(weights)[-1])
        return threshold, int(actions[place]), float(weights[place] / sums[-1])

    def _find(self, x: np.ndarray, context_id: Hashable | None) -> tuple[LoggedContexts, int | None]:
        if context_id is not None and self.by_id is not None:
            try:
                return self.by_id, self.by_id.index.place(context_id)
            except TypeError:
                raise DecisionError(
                    f"context_id={context_id!r}; must be one of the log's ids, a number or a string"
                ) from None
        return self.by_context, self.by_context.index.place(x)

    def _weights(self, group: int, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """π⁺ in one context: its actions, and their mass, 0 for those that may not be played."""
        assert self.policy is not None
        offsets, actions, mass = self.policy
        entries = slice(offsets[group], offsets[group + 1])
        listed, weights = actions[entries], mass[entries]
        return listed, np.where(allowed[listed], weights, 0.0) if len(allowed) else weights

    def header(self) -> dict[str, Any]:
        # Files of samples have no field here.
        return {} if self.beats == "sample" else {"beats": self.beats}

    def arrays(self) -> dict[str, np.ndarray]:
        saved: dict[str, np.ndarray] = {}
        for kind, memory in (("context", self.by_context), ("id", self.by_id)):
            if memory is not None:
                saved |= {f"{kind}_{name}": getattr(memory, name) for name in TABLE}
        return saved | dict(zip(POLICY, self.policy or (), strict=False))

    @classmethod
    def from_saved(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> "LogBeats":
        by_context, by_id = (
            LoggedContexts(*(arrays[f"{kind}_{name}"] for name in TABLE))
            if f"{kind}_keys" in arrays
            else None
            for kind in ("context", "id")
        )
        beats = header.get("beats", "sample")
        if beats not in BEATS or by_context is None:
            raise ValueError(f"the log beats by {beats!r}, or it has no contexts")
        offsets, actions, mass = (arrays.get(name) for name in POLICY)
        policy = None if offsets is None or actions is None or mass is None else (offsets, actions, mass)
        return cls(by_context, by_id, policy, beats)


def spread_unlogged(log: Log, plus: PiPlus) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """π⁺ with each context's unlogged mass spread over its supported unlogged actions by their caps."""
    if not log.support.known:
        raise LogError(
            "answer='policy' spreads mass over the supported actions, and this log's support is unknown. "
            "Log eligible sets or full distributions, or use answer='logged'"
        )
    order = np.argsort(plus.groups, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(plus.groups))])
    offsets, actions, mass = [0], [], []
    for group in range(len(bounds) - 1):
        entries = slice(plus.offsets[group], plus.offsets[group + 1])
        listed, weights = plus.entry_actions[entries], plus.entry_mass[entries]
        logged = listed != UNLOGGED
        if not logged.all():
            rows = order[bounds[group] : bounds[group + 1]]
            known = log.support.distribution(rows)
            caps = (log.support.mask(rows) if known is None else known).sum(axis=0).astype(float)
            caps[listed[logged]] = 0
            others = np.flatnonzero(caps)
            listed = np.concatenate([listed[logged], others])
            weights = np.concatenate([weights[logged], weights[~logged][0] * caps[others] / caps.sum()])
        actions.append(listed)
        mass.append(weights)
        offsets.append(offsets[-1] + len(listed))
    return np.array(offsets), np.concatenate(actions), np.concatenate(mass)
