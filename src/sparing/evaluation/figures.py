"""What an estimator's rows tell, in a few numbers: all that its estimate is made of. And where they come from."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sparing.errors import SettingError
from sparing.evaluation.caution import Lack
from sparing.evaluation.estimators import ESTIMATORS, Parts
from sparing.evaluation.ingredients import Ingredients, Settings
from sparing.evaluation.intervals import Limits, Summed, Terms
from sparing.log import Log
from sparing.log.rows import Rewards
from sparing.model.crossfitting import effective_sample_size
from sparing.validation import check_reward_range, reward_range

Told = Terms | Summed
"""A statistic, with its rows or without."""


@dataclass(frozen=True, eq=False)
class Figures:
    """What `Parts` tell of all rows of a log: the statistics, the masses' means, the weights' effective sample size.

    whole: the effective sample size of the weights before clipping, and what those are short of.
    """

    plain: Told
    low: Told | None
    high: Told | None
    ends: tuple[Told, Told] | None
    missing: float | None
    clipped: float | None
    effective: float
    whole: tuple[float, Lack] | None
    lack: Lack | None
    check: "Figures | None"
    notes: tuple[str, ...]
    filled: bool
    model: bool
    fit: tuple[float, float]

    @classmethod
    def of(cls, parts: Parts) -> "Figures":
        """Those of a log whose rows are all here."""
        whole = None
        if parts.whole is not None and parts.missing is not None:
            whole = effective_sample_size(parts.whole), Lack.of(1 - parts.missing - parts.whole)
        return cls(
            parts.plain,
            parts.low,
            parts.high,
            parts.ends,
            None if parts.missing is None else float(parts.missing.mean()),
            None if parts.clipped is None else float(parts.clipped.mean()),
            effective_sample_size(parts.weights),
            whole,
            None if parts.lack is None else Lack.of(parts.lack),
            None if parts.check is None else cls.of(parts.check),
            parts.notes,
            parts.filled,
            parts.model,
            parts.fit,
        )


class Material(ABC):
    """A log and a policy, as estimates are made of them.

    `log` is the log, or where that is walked its header. range_known is False where the reward range is that of the rewards seen; untried is the
    policy's mass on actions that the support allows, or is not known to forbid, but that have no row; linear_notes say what speaks against a linear reward model.
    """

    log: Log
    given: Settings
    reward_range: tuple[float, float]
    range_known: bool
    logged_mean: float

    @property
    @abstractmethod
    def untried(self) -> float:
        """See above."""

    @property
    @abstractmethod
    def linear_notes(self) -> tuple[str, ...]:
        """See above."""

    @abstractmethod
    def figures(self, method: str) -> Figures:
        """What a method's rows tell; raises why it cannot be used."""

    @abstractmethod
    def limits(self, confidence: float) -> Limits:
        """What makes limits of the figures' statistics."""

    @property
    def luck(self) -> np.random.Generator:
        """Of resamples."""
        return np.random.default_rng([self.given.seed, 21])


class AtOnce(Material):
    """A log whose rows are all looked at at once."""

    def __init__(self, of: Ingredients) -> None:
        self.of, self.log, self.given = of, of.log, of.given
        self.reward_range, self.range_known = of.reward_range, of.range_known
        self.logged_mean = float(of.log.rewards.mean())

    @property
    def untried(self) -> float:
        """Of all rows."""
        return self.of.untried

    @property
    def linear_notes(self) -> tuple[str, ...]:
        """By all rows."""
        return self.of.linear_notes

    def figures(self, method: str) -> Figures:
        """By the method's rows."""
        return Figures.of(ESTIMATORS[method](self.of))

    def limits(self, confidence: float) -> Limits:
        """By the rows."""
        return Limits(self.given.interval, confidence, self.luck)


def reward_bounds(rewards: Rewards, given: tuple[float, float] | None, interval: str) -> tuple[float, float]:
    """Bounds on mean rewards: as given, 0 and 1 where no other rewards occur, else the range seen."""
    low, high = reward_range(given) or ((0.0, 1.0) if rewards.binary else (rewards.low, rewards.high))
    check_reward_range((low, high), rewards.low, rewards.high)
    if interval == "bernstein" and (rewards.low < low or rewards.high > high):
        raise SettingError(
            f"interval='bernstein' needs every reward inside reward_range={given}; the log has "
            f"{rewards.low:.4g} to {rewards.high:.4g}"
        )
    return low, high


@dataclass
class Steps:
    """Tells a caller's function how many of all steps are done: methods, folds of fitted propensities, passes over a long log."""

    report: Callable[[int, int], None] | None
    total: int
    done: int = 0

    def step(self) -> None:
        """One more is done."""
        self.done += 1
        if self.report is not None:
            self.report(min(self.done, self.total), self.total)

    def fold(self, done: int, folds: int) -> None:
        """One more fold is fitted."""
        self.step()
