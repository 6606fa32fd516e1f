"""Many contexts at once, learning nothing: what a learner would answer if it were asked now."""

import os
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.errors import DecisionError
from sparing.log.limits import LARGEST
from sparing.online.engine import choosing, running
from sparing.online.rules import REASONS
from sparing.report.notebook import frame

if TYPE_CHECKING:
    import pandas

    from sparing.online.learner import Learner

PART = 4096
"""Contexts that one thread takes at a time."""


@dataclass(frozen=True, eq=False)
class Decisions:
    """Answers side by side: actions (n,) as indices, needs_reward, reasons, values, lows and highs, (n,) each.

    worths (n,) are those of `Decision`, where the learner knows what a call costs.
    """

    action_names: tuple[Hashable, ...]
    actions: np.ndarray
    needs_reward: np.ndarray
    reasons: np.ndarray
    values: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    worths: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.actions)

    def labels(self) -> list[Hashable]:
        """The actions by their names."""
        return [self.action_names[action] for action in self.actions]

    def to_frame(self) -> "pandas.DataFrame":
        """The answers as a pandas frame, a row a context: `action` by its label, `needs_reward`, `reason`, `value`, `low`, `high`, `worth`.

        `worth` is there where the learner knows what a call costs.
        """
        columns: dict[str, Any] = {
            "action": self.labels(),
            "needs_reward": self.needs_reward,
            "reason": self.reasons,
        }
        columns |= {"value": self.values, "low": self.lows, "high": self.highs}
        return frame(columns if self.worths is None else columns | {"worth": self.worths})

    def __repr__(self) -> str:
        asked = int(self.needs_reward.sum())
        return f"Decisions({len(self)} contexts, {asked} would ask for a reward)"


def decide_many(
    learner: "Learner", contexts: np.ndarray, ids: Sequence[Hashable] | np.ndarray | None, threads: int | None
) -> Decisions:
    """The answers of a learner to contexts (n, d), each as if it were the next."""
    rows = _checked(learner, contexts)
    named = None if ids is None else np.asarray(ids)
    if named is not None and named.shape != (len(rows),):
        raise DecisionError(
            f"context_ids of shape {named.shape}; expected one for each of {len(rows)} contexts"
        )
    if threads is not None and threads < 1:
        raise DecisionError(f"threads={threads}; must be 1 or more, or None for one a core")
    if learner.explore == "sampled" or not learner.compiled:
        return _one_by_one(learner, rows, named)
    thresholds, answers = learner.log_answers(rows, named)
    n = len(rows)
    actions, codes = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    means, spreads, worths = np.empty(n), np.empty(n), np.empty(n)

    def work(start: int) -> None:
        desk, part = learner.sets.desk, slice(start, start + PART)
        running.decide_rows(
            desk.settled,
            desk.ahead,
            rows[part],
            thresholds[part],
            answers[part],
            actions[part],
            codes[part],
            means[part],
            spreads[part],
            worths[part],
            learner.sets.bounds,
        )

    workers = min(threads or os.cpu_count() or 1, -(-n // PART))
    if workers > 1:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, range(0, n, PART)))
    else:
        for start in range(0, n, PART):
            work(start)
    reasons = np.array(REASONS)[codes]
    return Decisions(
        learner.action_names,
        actions,
        codes == choosing.EXPLORE,
        reasons,
        means,
        means - spreads,
        means + spreads,
        worths if learner.weighs else None,
    )


def _checked(learner: "Learner", contexts: Any) -> np.ndarray:
    named = None if isinstance(contexts, np.ndarray) else learner.encoder.named_rows(contexts)
    given = np.asarray(contexts) if named is None else named
    if given.dtype.kind in "biuf" and given.ndim == 2:
        given = learner.encoder.completed(given)
    if given.dtype.kind not in "biuf" or given.ndim != 2 or given.shape[1] != learner.n_features:
        raise DecisionError(
            f"contexts of shape {given.shape} and type {given.dtype}; expected numbers (n, {learner.n_features})"
        )
    # A copy that may be written to where the caller's may not: compiled code tells the two apart.
    rows = np.require(given, dtype=np.float64, requirements=["C", "W", "A"])
    unfit = ~(np.abs(rows) <= LARGEST)
    if unfit.any():
        row, feature = (int(i) for i in np.argwhere(unfit)[0])
        raise DecisionError(
            f"feature {feature} of context {row} is {rows[row, feature]}; every feature must be finite, and at "
            f"most {LARGEST:g} in size. Fill it in, or scale the features"
        )
    return rows


def _one_by_one(learner: "Learner", rows: np.ndarray, ids: np.ndarray | None) -> Decisions:
    """For rules in Python and learners that sample: with the luck that the next rounds would have."""
    names = [None] * len(rows) if ids is None else ids.tolist()
    made = [
        learner.preview(x, context_id=name, number=learner.rounds + i)
        for i, (x, name) in enumerate(zip(rows, names, strict=True))
    ]
    kinds: tuple[Any, ...] = (np.int64, np.bool_, "U12", np.float64, np.float64, np.float64)
    columns: Any = (np.array([one[i] for one in made], dtype=kind) for i, kind in enumerate(kinds, start=1))
    return Decisions(learner.action_names, *columns)
