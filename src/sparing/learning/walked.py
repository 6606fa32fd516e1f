"""Regression on a log of several blocks, in memory or not: by sums alone, so that the rows are walked, never held.

The ridge is chosen as on a short log, on held-out folds of contexts: a first walk sums each fold, a second the errors of every
ridge on it, and a third, where two ridges compete, how sure the one is to be better than the other.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sparing.errors import SettingError
from sparing.evaluation.facts import FoldSums, others
from sparing.learning.choosing import RIDGES, Setting, chosen_by, grid, said
from sparing.learning.material import ROUNDING, Request, never
from sparing.log import Log
from sparing.log.rows import Rewards, Rows
from sparing.log.walking import Statistic, Together, Total
from sparing.model.assumptions import Assumptions
from sparing.model.crossfitting import block_folds, reward_parameters
from sparing.model.ellipsoids import Ellipsoids
from sparing.model.statistics import Statistics
from sparing.model.streaming import Sums
from sparing.policies.fingerprint import Sketch, Split
from sparing.policies.policy import GreedyPolicy, PessimisticPolicy, SupportModel
from sparing.policies.tables import KnownSupport, support_model
from sparing.validation import one_of


def greedy(
    rows: Rows, split: Split | None, request: Request, *, ridge: Any = None, score: str = "argmax"
) -> GreedyPolicy:
    """argmax_a x·θ̂_a, with the ridge that is given or chosen; `request` has the log's header."""
    settings = grid(ridge=(ridge, RIDGES))
    one_of("score", score, ("argmax", "squared-error"))
    request.progress.total = 2 + (len(settings) > 1)
    folds = request.folds if len(settings) > 1 else 1
    light = rows.lean()
    wanted = Together(FoldSums(light, folds, request.seed), Sketch(rows.action_names), Total(Rewards.of))
    parts, taught, rewards = light.fold(wanted)
    request.progress.step()
    sums = sum(parts[1:], parts[0])
    model, notes = _allowed(rows, request, sums.counts)
    chosen: Setting = settings[0]
    how: tuple[str, ...] = ()
    if len(settings) > 1:
        middle = rewards.total / rows.n_rows
        chosen, how = _chosen_ridge(light, request, settings, parts, middle, to_rank=score == "argmax")
        request.progress.step()
    theta, priority = reward_parameters(sums, chosen["ridge"]), request.priority
    policy = GreedyPolicy(rows.action_names, theta, priority, model, "greedy", notes + how)
    return replace(policy, taught=taught.split_by(split))


def pessimistic(rows: Rows, split: Split | None, request: Request, **assumptions: Any) -> PessimisticPolicy:
    """argmax_a of the lower confidence limits; `request` has the log's header."""
    request.progress.total = 2
    light = rows.narrowed()
    sums, taught = light.fold(Together(Sums(light), Sketch(rows.action_names)))
    request.progress.step()
    policy = lower_limits(request, *_allowed(rows, request, sums.counts), sums, assumptions)
    return replace(policy, taught=taught.split_by(split))


def lower_limits(
    request: Request,
    model: SupportModel | None,
    notes: tuple[str, ...],
    sums: Statistics,
    assumptions: dict[str, Any],
) -> PessimisticPolicy:
    """The pessimistic policy of a log's sums."""
    resolved = Assumptions.resolve(sums, **assumptions)
    sets = Ellipsoids(sums, resolved)
    return PessimisticPolicy(
        request.log.action_names,
        sets.theta,
        sets.inverse,
        sets.radius,
        request.priority,
        model,
        notes=(*notes, str(resolved)),
    )


class _Models(NamedTuple):
    """Parameters by setting and held-out fold, (settings, folds, K, d), and the seed that made the folds."""

    theta: np.ndarray
    seed: int

    def predicted(self, block: Log) -> np.ndarray:
        """Each row's reward, as models predict it that have not seen its context, (settings, n)."""
        fold_of = block_folds(block, self.theta.shape[1], self.seed, whole=False)
        each = (theta[fold_of, block.actions] for theta in self.theta)
        return np.array([np.einsum("nd,nd->n", theta, block.contexts) for theta in each])


def _errors(models: _Models, middle: float, block: Log, first_row: int) -> np.ndarray:
    """For each setting (settings, 6): Σ(r − p)², and of p and r less a `middle`: Σp, Σr, Σp², Σpr, Σr²."""
    r = block.rewards - middle
    return np.array(
        [
            [((r - p) ** 2).sum(), p.sum(), r.sum(), (p * p).sum(), (p * r).sum(), (r * r).sum()]
            for p in models.predicted(block) - middle
        ]
    )


class _Line(NamedTuple):
    """r ≈ α + β·p with the α and the β ≥ 0 of least squares, and Σ(r − α − β·p)²."""

    shift: float
    scale: float
    error: float

    @classmethod
    def of(cls, sums: np.ndarray, rows: int, middle: float) -> "_Line":
        """By a setting's sums (6,)."""
        _, p, r, pp, pr, rr = map(float, sums)
        square, joint = pp - p * p / rows, pr - p * r / rows
        scale = max(joint / square, 0.0) if square > ROUNDING * pp else 0.0
        shift = r / rows + middle - scale * (p / rows + middle)
        return cls(shift, scale, rr - r * r / rows - 2 * scale * joint + scale * scale * square)

    def errors(self, rewards: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """(r − α − β·p)², (n,)."""
        errors: np.ndarray = (rewards - self.shift - self.scale * predicted) ** 2
        return errors


class _Gain(Statistic[Log, tuple[int, float, float]]):
    """How much smaller the second model's errors are than the first's: rows, mean, and squares around it."""

    def __init__(self, models: _Models, lines: tuple[_Line, _Line]) -> None:
        self.models, self.lines = models, lines

    def zero(self) -> tuple[int, float, float]:
        return 0, 0.0, 0.0

    def update(self, state: tuple[int, float, float], block: Log, first_row: int) -> tuple[int, float, float]:
        both = zip(self.lines, self.models.predicted(block), strict=True)
        one, other = (line.errors(block.rewards, p) for line, p in both)
        gain = one - other
        mean = float(gain.mean())
        return self.merge(state, (block.n_rows, mean, float(((gain - mean) ** 2).sum())))

    def merge(
        self, one: tuple[int, float, float], other: tuple[int, float, float]
    ) -> tuple[int, float, float]:
        rows, apart = one[0] + other[0], other[1] - one[1]
        if not rows:
            return one
        mean = one[1] + apart * other[0] / rows
        return rows, mean, one[2] + other[2] + apart**2 * one[0] * other[0] / rows


def _chosen_ridge(
    rows: Rows,
    request: Request,
    settings: Sequence[Setting],
    parts: Sequence[Statistics],
    middle: float,
    *,
    to_rank: bool,
) -> tuple[Setting, tuple[str, ...]]:
    """As `choose_ridge` has it, by sums of each fold, the mean reward being about `middle`."""
    if sum(part.n_rows > 0 for part in parts) < 2:
        return settings[0], (
            f"all contexts are in one fold, none to hold out: {said(settings[0])} taken unseen",
        )
    theta = [[reward_parameters(sums, setting["ridge"]) for sums in others(parts)] for setting in settings]
    models = _Models(np.array(theta), request.seed)
    sums = rows.fold(Total(partial(_errors, models, middle)))
    best, how = int(np.argmin(sums[:, 0])), "squared error"
    lines = [_Line.of(each, rows.n_rows, middle) for each in sums]
    first = int(np.argmin([line.error for line in lines]))
    if to_rank and first != best:
        both = _Models(models.theta[[best, first]], models.seed)
        many, mean, squares = rows.fold(_Gain(both, (lines[best], lines[first])))
        if mean > np.sqrt(squares / (many - 1) / many):
            best, how = first, "squared error up to shift and scale"
    return settings[best], (chosen_by(settings, best, how),)


def _allowed(rows: Rows, request: Request, counts: np.ndarray) -> tuple[SupportModel, tuple[str, ...]]:
    """What the policy may take: the given support, which must hold all that was logged, else what was logged; and a note."""
    if request.support is None:
        return KnownSupport.fixed(counts > 0, rows.n_features), never(counts)
    model, outside, found = support_model(rows.header, request.support), 0, None
    for _, block in rows.narrowed().blocks():
        left = np.flatnonzero(~model(block.contexts)[np.arange(block.n_rows), block.actions])
        outside += len(left)
        found = block.actions[left[0]] if found is None and len(left) else found
    if found is not None:
        raise SettingError(
            f"support= leaves out action {rows.action_names[found]!r} where it was logged; {outside} rows in all. Every logged "
            "action is supported in its context"
        )
    return model, ()
