"""`evaluate` of a log of several blocks: a few passes over its rows, and never a number for each of them all at once."""

from dataclasses import dataclass

import numpy as np

from sparing.errors import SparingError
from sparing.evaluation.caution import Lack
from sparing.evaluation.estimators import Parts
from sparing.evaluation.figures import Figures, Material, Steps, reward_bounds
from sparing.evaluation.ingredients import Settings
from sparing.evaluation.intervals import Limits, Recipe, Summed, resampled
from sparing.evaluation.passes import (
    Centre,
    Level,
    LevelsGathered,
    Spread,
    SpreadGathered,
    columns_of,
    terms_of,
)
from sparing.evaluation.whole import Gathered
from sparing.log.moments import Powers
from sparing.log.rows import AnyLog, Rows, rewards_of
from sparing.policies.policy import Policy

LACKS = ("lack", "whole lack")
"""Rows whose mean is held against its standard error."""

PASSES = 3
"""Over all rows: what is of the whole log, the estimators' means, their deviations."""

Columns = tuple[int, int | None, int | None]
"""The places of a statistic's columns among all that are resampled."""


class WalkedLimits(Limits):
    """Limits of statistics whose rows were resampled as they were walked."""

    def __init__(self, interval: str, confidence: float, rng: np.random.Generator, spread: Spread) -> None:
        super().__init__(interval, confidence, rng)
        self._spread = spread

    def _recipe(self, terms: Summed) -> Recipe:
        base, above, below = terms.columns
        return base, 0.0 if above is None else above, 1.0 if below is None else below, terms.factor

    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        sums, taken = self._spread.sums, self._spread.taken
        if not self._recipes:
            return super()._sums()
        if self.interval == "block-bootstrap":
            sums, taken = resampled(np.vstack([sums, taken]), self._rng)
        return sums, np.maximum(taken, 1)


class Walked(Material):
    """A log of several blocks: walked for what is of the whole log, for the estimators' means, and for their deviations.

    `everything` are the rows of which some judge the policy: the rewards of all of them say how large rewards are.
    """

    def __init__(
        self,
        rows: Rows,
        policy: Policy,
        given: Settings,
        everything: AnyLog,
        reward_range: tuple[float, float] | None,
        steps: Steps,
    ) -> None:
        steps.total += PASSES
        self.gathered = gathered = Gathered.of(rows, policy, given)
        steps.step()
        rewards = gathered.rewards if everything is rows else rewards_of(everything)
        self.log, self.given = rows.header, given
        self.range_known = reward_range is not None or rewards.binary
        self.reward_range = reward_bounds(rewards, reward_range, given.interval)
        self.logged_mean = gathered.rewards.total / gathered.facts.rows
        shared = gathered.shared(self.reward_range, steps.fold)
        levels = rows.fold(LevelsGathered(policy, shared, given.methods))
        steps.step()
        usable = {method: level for method, level in levels.items() if isinstance(level, Level)}
        centres = {method: _centres(level) for method, level in usable.items()}
        sure = {method: found for method, found in centres.items() if np.isfinite(found["plain"].value)}
        lacks = {method: _lacks(usable[method]) for method in sure}
        spread = SpreadGathered(policy, shared, sure, lacks, given.interval)
        self.spread = rows.fold(spread) if sure else spread.zero()
        steps.step()
        self.levels, self.centres = levels, centres
        self.places = _places({method: usable[method] for method in sure})

    @property
    def untried(self) -> float:
        """Of all rows."""
        return self.gathered.untried

    @property
    def linear_notes(self) -> tuple[str, ...]:
        """By a sample of the rows."""
        return self.gathered.linear_notes

    def figures(self, method: str) -> Figures:
        """By the sums of a method's rows."""
        level = self.levels[method]
        if isinstance(level, SparingError):
            raise level
        names = (*self.centres[method], *level.powers)
        spread = {name: self.spread.powers.get((method, name), Powers()) for name in names}
        return _figures(
            level.parts, Sums(level.powers, self.centres[method], spread, self.places.get(method, {}))
        )

    def limits(self, confidence: float) -> Limits:
        """By the sums of resamples."""
        return WalkedLimits(self.given.interval, confidence, self.luck, self.spread)


def _centres(level: Level) -> dict[str, Centre]:
    return {name: Centre.of(name, terms, level.powers) for name, terms in terms_of(level.parts)}


def _lacks(level: Level) -> dict[str, float]:
    names = [name for name in level.powers if name.removeprefix("check ") in LACKS]
    return {name: level.powers[name].mean for name in names}


def _places(usable: dict[str, Level]) -> dict[str, dict[str, Columns]]:
    """The places of every statistic's columns, in the order in which `SpreadGathered` lists them."""
    places: dict[str, dict[str, Columns]] = {}
    count = 0
    for method, level in usable.items():
        places[method] = {}
        for name, terms in terms_of(level.parts):
            many = len(list(columns_of(terms)))
            places[method][name] = (count, count + 1, count + 2) if many > 1 else (count, None, None)
            count += many
    return places


@dataclass(frozen=True, eq=False)
class Sums:
    """What was summed of one method's rows: powers of them, its statistics' centres, powers of deviations, places; all by name."""

    powers: dict[str, Powers]
    centres: dict[str, Centre]
    deviations: dict[str, Powers]
    places: dict[str, Columns]


def _figures(parts: Parts, sums: Sums, prefix: str = "") -> Figures:
    """The figures of an estimator without rows."""

    def told(name: str) -> Summed:
        terms, deviations = statistics[name], sums.deviations[prefix + name]
        return Summed(
            sums.powers[f"{prefix}{name} base"].rows,
            sums.centres[prefix + name].value,
            deviations.variance,
            deviations.freedom,
            terms.factor,
            terms.span,
            sums.places.get(prefix + name, (0, None, None)),
        )

    def lack(name: str) -> Lack:
        found, deviations = sums.powers[prefix + name], sums.deviations[prefix + name]
        if found.rows < 2:
            return Lack(0.0, 0.0)
        return Lack(found.mean, float(np.sqrt(deviations.variance / found.rows)))

    statistics, powers = dict(terms_of(parts)), sums.powers
    bounded = "low" in statistics
    return Figures(
        told("plain"),
        told("low") if bounded else None,
        told("high") if bounded else None,
        None if parts.ends is None else (told("least"), told("most")),
        None if parts.missing is None else powers[f"{prefix}missing"].mean,
        None if parts.clipped is None else powers[f"{prefix}clipped"].mean,
        powers[f"{prefix}weights"].effective,
        (powers[f"{prefix}whole"].effective, lack("whole lack")) if f"{prefix}whole lack" in powers else None,
        None if parts.lack is None else lack("lack"),
        None if parts.check is None else _figures(parts.check, sums, f"{prefix}check "),
        parts.notes,
        parts.filled,
        parts.model,
        parts.fit,
    )
