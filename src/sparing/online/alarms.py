"""Alarms that may be looked at at any time: rewards, or contexts, are no longer as they were.

An alarm is a bet against the null hypothesis that nothing changes. A bet's capital, 1 at the start, is multiplied at each observation
by exp(λξ − ψ(λ)ξ²) with ψ(λ) = −log(1 − λ) − λ, which does not grow on average if ξ ≥ −1 has a mean of at most 0 given the past (Fan,
Grama and Liu 2015). So it exceeds 1/α with a probability of at most α, however often one looks (Ville). Changes begin at any time:
the j-th block of observations starts a bet of its own with capital w_j, Σ w_j ≤ 1. They are kept as one number, since
M ← (M + w_j)·factor is their sum.
"""

import math
import operator
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import types

from sparing.native.compile import Entry, compiled, compiled_inner
from sparing.online.confidence_sets import ConfidenceSets
from sparing.online.decision import Decision
from sparing.online.engine import state

LEVEL = 0.05
"""Probability of any false alarm of rewards, and of any of contexts."""

REFERENCE, SHRINKAGE = 100, 50
"""Rewards of an action that the later ones are compared with, and rewards as predicted that are added to them."""

CLIP = 4.0
"""Standardised residuals and columns are clipped to ± this."""

TOLERANCE, VARIANCE_RATIO, VARIANCE_ERROR = 0.25, 1.5, 3.0
"""Change of the mean residual, in deviations, and ratio of the variances, that are no alarm: models are never quite right.

The variance to exceed is that of the first rewards with so many standard errors added.
"""

COLUMN_TOLERANCE, COLUMN_ERROR = 0.1, 3.0
"""Distance of a column's mean from the log's, in deviations, that is no alarm; deviations of the log's mean added to it."""

BLOCK = 8
"""Observations from one possible beginning of a change to the next."""

SMALL, LARGE, SPREAD = 0.3, 0.7, 0.1
"""λ of the bets on a higher or lower mean, and on a larger variance."""

SMALLEST_SHARE = 0.05
"""Least variance of a reward at an end of its range, as a share of the squared range: predictions may be near the end."""

FADING = 1.2
ALL_WEIGHTS = 5.592  # Σ_j j^−1.2
LOG_OF_WEIGHTS = math.log(ALL_WEIGHTS)

PREDICTED = operator.itemgetter(*(Decision._fields.index(name) for name in ("id", "value", "high", "cost")))
NOBODY = (-1, 0.0, 0.0, None)  # a decision that is none
NOTES = 6  # kept of a reward: what `PREDICTED` gives of its decision, its action's index, and itself
MANY = 1024  # observations kept until they are counted together

HIGHER, LOWER, NOISIER = range(3)
CHANGES = ("higher", "lower", "noisier")
BETS = ((HIGHER, SMALL), (HIGHER, LARGE), (LOWER, SMALL), (LOWER, LARGE), (NOISIER, SPREAD))
N_BETS = len(BETS)
LAMBDAS = np.array([bet for _, bet in BETS])
PSIS = np.array([math.log1p(-bet) + bet for _, bet in BETS])  # −ψ(λ)
SIDES = np.array([(1.0, -1.0, 0.0)[side] for side, _ in BETS])

SEEN, MEAN, SQUARE, FOURTH, BLOCKS, IN_BLOCK, SUM, SUM2, OVER, OVER2, CAPITAL = range(11)
LARGEST = CAPITAL + N_BETS  # capital of the single beginning that has most, by which a change is dated
COLUMNS = LARGEST + N_BETS
BLOCK_BEGAN, BEGAN, RAISED, SINCE = 0, 1, 1 + N_BETS, 1 + 2 * N_BETS
MARKS = 1 + 3 * N_BETS


class Alarm(NamedTuple):
    """A change that was found.

    Attributes
    ----------
    about : str
        `rewards` or `contexts`.
    name : hashable
        Label of the action; of contexts, the name of the feature. None for the rewards of all actions together.
    change : str
        `higher` or `lower`: the mean; `noisier`: rewards scatter more around their predictions.
    since : int
        When it began, as far as it can be told: the id of a decision, or in the service a time in microseconds.
    raised : int
        When it was found, likewise.
    """

    about: str
    name: Hashable
    change: str
    since: int
    raised: int


@compiled_inner
def observe(row: np.ndarray, marks: np.ndarray, value: float, mark: int, limit: float) -> None:
    """Count one standardised residual; `limit` is the log of the capital that raises an alarm."""
    value = min(max(value, -CLIP), CLIP)
    row[SEEN] += 1
    if row[SEEN] <= REFERENCE:
        row[MEAN] += value
        row[SQUARE] += value * value
        row[FOURTH] += value * value * value * value
        if row[SEEN] == REFERENCE:
            row[MEAN] = min(max(row[MEAN] / (REFERENCE + SHRINKAGE), -1.0), 1.0)
            square = row[SQUARE] / REFERENCE
            error = math.sqrt(max(row[FOURTH] / REFERENCE - square * square, 0.0) / REFERENCE)
            row[SQUARE] = (row[SQUARE] + SHRINKAGE) / (REFERENCE + SHRINKAGE) + VARIANCE_ERROR * error
        return
    if row[IN_BLOCK] == 0:
        marks[BLOCK_BEGAN] = mark
    distance = value - row[MEAN]
    row[IN_BLOCK] += 1
    row[SUM] += distance
    row[SUM2] += distance * distance
    over = value * value / (VARIANCE_RATIO * row[SQUARE]) - 1.0
    row[OVER] += over
    row[OVER2] += over * over
    if row[IN_BLOCK] == BLOCK:
        bet_on_block(row, marks, mark, TOLERANCE, True, limit)


@compiled_inner
def observe_column(
    row: np.ndarray, marks: np.ndarray, values: np.ndarray, when: np.ndarray, tolerance: float, limit: float
) -> None:
    """Count standardised values (n,) of a column, whose mean is 0 if nothing changes."""
    # The sums of a block are kept in variables: in the row each value would wait until the one before is stored.
    inside, total, squares = row[IN_BLOCK], row[SUM], row[SUM2]
    row[SEEN] += len(values)
    for i in range(len(values)):
        value = min(max(values[i], -CLIP), CLIP)
        if inside == 0:
            marks[BLOCK_BEGAN] = when[i]
        inside += 1
        total += value
        squares += value * value
        if inside == BLOCK:
            row[SUM], row[SUM2] = total, squares
            bet_on_block(row, marks, when[i], tolerance, False, limit)
            inside = total = squares = 0.0
    row[IN_BLOCK], row[SUM], row[SUM2] = inside, total, squares


@compiled_inner
def bet_on_block(
    row: np.ndarray, marks: np.ndarray, mark: int, tolerance: float, noisier: bool, limit: float
) -> None:
    """Update the capital of each bet by a whole block, of which the last value came at `mark`, and begin the next one."""
    most = CLIP + 1.0 + tolerance
    row[BLOCKS] += 1
    weight = -FADING * math.log(row[BLOCKS]) - LOG_OF_WEIGHTS
    for bet in range(N_BETS):
        side, rate = SIDES[bet], LAMBDAS[bet]
        if side == 0.0:
            if not noisier:
                continue
            total, squares = row[OVER], row[OVER2]
        else:
            total = (side * row[SUM] - BLOCK * tolerance) / most
            squares = row[SUM2] - 2 * side * tolerance * row[SUM] + BLOCK * tolerance * tolerance
            squares /= most * most
        before, largest = -math.inf, -math.inf
        if row[BLOCKS] > 1:
            before, largest = row[CAPITAL + bet], row[LARGEST + bet]
        if weight >= largest:
            largest, marks[BEGAN + bet] = weight, marks[BLOCK_BEGAN]
        high, low = max(before, weight), min(before, weight)
        before = high + math.log1p(math.exp(low - high))
        gain = rate * total + PSIS[bet] * squares
        row[CAPITAL + bet], row[LARGEST + bet] = before + gain, largest + gain
        if row[CAPITAL + bet] >= limit and marks[RAISED + bet] < 0:
            marks[RAISED + bet], marks[SINCE + bet] = mark, marks[BEGAN + bet]
    row[IN_BLOCK] = row[SUM] = row[SUM2] = row[OVER] = row[OVER2] = 0.0


@compiled
def count_rewards(
    rows: np.ndarray, marks: np.ndarray, actions: np.ndarray, values: np.ndarray, when: np.ndarray
) -> None:
    """Count standardised residuals of actions, and of all together in the last row."""
    last = len(rows) - 1
    limit = math.log(len(rows) * N_BETS / LEVEL)
    for i in range(len(actions)):
        for row in (actions[i], last):
            observe(rows[row], marks[row], values[i], when[i], limit)


@compiled
def count_contexts(
    rows: np.ndarray,
    marks: np.ndarray,
    mean: np.ndarray,
    scale: np.ndarray,
    contexts: np.ndarray,
    when: np.ndarray,
    tolerance: float,
) -> None:
    """Count contexts (n, d); columns with scale 0 are constant in the log, and left out."""
    limit = math.log(max(len(rows), 1) * (N_BETS - 1) / LEVEL)
    values = np.empty(len(contexts))
    for j in range(len(mean)):
        if scale[j] > 0:
            for i in range(len(contexts)):
                values[i] = (contexts[i, j] - mean[j]) / scale[j]
            observe_column(rows[j], marks[j], values, when, tolerance, limit)


REALS, REAL_ROWS = (types.Array(types.float64, n, "C") for n in (1, 2))
WHOLES, WHOLE_ROWS = (types.Array(types.int64, n, "C") for n in (1, 2))
COUNT_REWARDS = Entry(count_rewards, REAL_ROWS, WHOLE_ROWS, WHOLES, REALS, WHOLES)
COUNT_CONTEXTS = Entry(count_contexts, REAL_ROWS, WHOLE_ROWS, REALS, REALS, REAL_ROWS, WHOLES, types.float64)


def _fresh(units: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((units, COLUMNS)), np.full((units, MARKS), -1, dtype=np.int64)


class Watch:
    """What alarms of a learner are raised from. Observations are counted together, in order, when there are `MANY` or someone looks.

    mean and scale (d,) are those of the contexts of the log's `rows` rows; None if they are not known. `noise` is σ, and `unit`
    how many deviations, beside the noise, half an interval of a prediction has.
    """

    def __init__(
        self,
        n_actions: int,
        noise: float,
        unit: float,
        reward_range: tuple[float, float] | None,
        mean: np.ndarray | None = None,
        scale: np.ndarray | None = None,
        rows: int = 0,
    ) -> None:
        self.noise, self.unit, self.reward_range = noise, unit, reward_range
        self.rewards, self.reward_marks = _fresh(n_actions + 1)
        d = 0 if mean is None else len(mean)
        self.contexts, self.context_marks = _fresh(d)
        self.mean = np.zeros(0) if mean is None else mean
        self.scale = np.zeros(0) if scale is None else scale
        self.log_rows, self.sees_contexts = rows, d > 0
        # Numbers one after the other, and arrays: nothing that the garbage collector would have to visit.
        self.notes: list[Any] = []
        self.pending_contexts: list[Any] = []
        self.pending_moments: list[int] = []

    @classmethod
    def of(cls, sets: ConfidenceSets, reward_range: tuple[float, float] | None) -> "Watch":
        """Return the watch of sets that have only a log's rows; contexts are watched if their first feature is a constant 1."""
        a = sets.arrays
        noise, unit = sets.assumptions.noise, 1.0
        if a.kind == state.CONSTANT:
            noise, unit = a.sigma or noise, sets.half_widths
        total, rows = sets.constant_sums()
        if not rows or sets.live.any() or not math.isclose(total[0], rows, rel_tol=1e-9):
            return cls(sets.shape[0], noise, unit, reward_range)
        mean = total / rows
        variance = np.maximum(sets.sums_of_squares() / rows - mean**2, 0.0)
        constant = variance <= 1e-9 * (mean**2 + variance)
        scale = np.where(constant, 0.0, np.sqrt(variance))
        return cls(sets.shape[0], noise, unit, reward_range, mean, scale, int(rows))

    @property
    def begun(self) -> bool:
        """Whether anything was observed."""
        self.flush()
        return bool(self.rewards.any() or self.contexts.any())

    def add_actions(self, n_actions: int) -> None:
        """Make room for actions that were added; the rewards of all together stay in the last row."""
        self.flush()
        new = n_actions + 1 - len(self.rewards)
        if new > 0:
            rows, marks = _fresh(new)
            self.rewards = np.concatenate([self.rewards[:-1], rows, self.rewards[-1:]])
            self.reward_marks = np.concatenate([self.reward_marks[:-1], marks, self.reward_marks[-1:]])

    def flush(self) -> None:
        """Count what is kept."""
        if self.notes:
            taken, self.notes = self.notes, []
            when, values, highs, costs, actions, rewards = (taken[i::NOTES] for i in range(NOTES))
            value, high, reward = (np.fromiter(one, np.float64) for one in (values, highs, rewards))
            mean = value + np.array([cost or 0.0 for cost in costs]) if any(costs) else value
            COUNT_REWARDS.call(
                self.rewards,
                self.reward_marks,
                np.fromiter(actions, np.int64),
                self._standardised(reward, mean, high - value),
                np.fromiter(when, np.int64),
            )
        if self.pending_contexts:
            contexts, moments = self.pending_contexts, self.pending_moments
            self.pending_contexts, self.pending_moments = [], []
            COUNT_CONTEXTS.call(
                self.contexts,
                self.context_marks,
                self.mean,
                self.scale,
                np.frombuffer(b"".join(contexts)).reshape(-1, len(self.mean)),
                np.array(moments, dtype=np.int64),
                COLUMN_TOLERANCE + COLUMN_ERROR / math.sqrt(self.log_rows),
            )

    def _standardised(self, rewards: np.ndarray, mean: np.ndarray, half: np.ndarray) -> np.ndarray:
        """Return (r − m)/sqrt(σ² + s²); at an end of a known range σ² is that of a reward that is only at the ends."""
        variance = np.full(len(rewards), self.noise**2)
        if self.reward_range is not None:
            low, high = self.reward_range
            least = SMALLEST_SHARE * (high - low) ** 2
            ends = np.maximum((mean - low) * (high - mean), least)
            variance = np.where((rewards == low) | (rewards == high), ends, variance)
        found: np.ndarray = (rewards - mean) / np.sqrt(variance + (half / self.unit) ** 2)
        return found

    def reward(
        self, action: int, reward: float, value: float, high: float, cost: float | None, when: int
    ) -> None:
        """Note a reward of an action (index), and what was predicted: the value less cost, and the interval's upper limit."""
        self.notes += (when, value, high, cost, action, reward)
        if len(self.notes) >= NOTES * MANY:
            self.flush()

    def context(self, x: np.ndarray, when: int) -> None:
        """Note a context (d,), which must not be changed later, if those of the log are known."""
        if self.sees_contexts:
            self.pending_contexts.append(x)
            self.pending_moments.append(when)
            if len(self.pending_contexts) >= MANY:
                self.flush()

    def alarms(self, actions: tuple[Hashable, ...], features: tuple[str, ...]) -> list[Alarm]:
        """Return the alarms so far, in the order in which they were raised."""
        self.flush()
        found = []
        for about, marks, names in (
            ("rewards", self.reward_marks, (*actions, None)),
            ("contexts", self.context_marks, features),
        ):
            for unit, bet in np.argwhere(marks[:, RAISED : RAISED + N_BETS] >= 0).tolist():
                since, raised = (int(marks[unit, place + bet]) for place in (SINCE, RAISED))
                found.append(Alarm(about, names[unit], CHANGES[BETS[bet][0]], since, raised))
        found.sort(key=lambda one: one.raised)
        first: dict[tuple[str, Hashable, str], Alarm] = {}
        for one in found:
            first.setdefault((one.about, one.name, one.change), one)
        return list(first.values())

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays to save."""
        self.flush()
        return {
            "rewards": self.rewards,
            "reward_marks": self.reward_marks,
            "contexts": self.contexts,
            "context_marks": self.context_marks,
            "mean": self.mean,
            "scale": self.scale,
            "log_rows": np.array(self.log_rows),
            "noise": np.array([self.noise, self.unit]),
        }

    @classmethod
    def restored(
        cls,
        arrays: Mapping[str, Any],
        n_actions: int,
        d: int,
        reward_range: tuple[float, float] | None,
    ) -> "Watch":
        """Return what `state` saved; refuse arrays that do not fit the learner."""
        noise, unit = map(float, arrays["noise"])
        if not (0 < noise < math.inf and 0 < unit < math.inf):
            raise ValueError(f"alarms for a noise of {noise}")
        known = arrays["mean"], arrays["scale"], int(arrays["log_rows"])
        made = cls(n_actions, noise, unit, reward_range, *known)
        if len(made.mean) not in (0, d) or made.log_rows < 0:
            raise ValueError("alarms of other contexts")
        for name in ("rewards", "reward_marks", "contexts", "context_marks", "scale"):
            present, given = getattr(made, name), arrays[name]
            if given.shape != present.shape or given.dtype != present.dtype or np.isnan(given).any():
                raise ValueError(f"alarms of shape {given.shape}; expected {present.shape}")
            setattr(made, name, np.ascontiguousarray(given))
        return made
