"""What a log of several blocks tells as a whole: one pass over its rows, and what follows from it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from sparing.errors import SettingError, SparingError
from sparing.evaluation.block import Shared
from sparing.evaluation.facts import Facts, FoldSums, band_worth, others
from sparing.evaluation.ingredients import Ingredients, Settings
from sparing.log import Log
from sparing.log.rows import Rewards, Rows, Sample
from sparing.log.walking import Statistic, Together, Total
from sparing.model.crossfitting import PropensityFit, block_folds, fit_propensities
from sparing.model.ellipsoids import Ellipsoids
from sparing.model.linearity import linear_notes
from sparing.model.statistics import Statistics, ridge_regression, times_inverse
from sparing.model.streaming import Sums
from sparing.policies.pi_plus import clip_constant
from sparing.policies.policy import Policy
from sparing.validation import integer

MODELLED = ("dm", "dr", "sndr", "cab")
"""Methods in which the reward model of all rows speaks."""

SAMPLE_ROWS, SAMPLE_CELLS = 2**18, 2**25
"""Of a sample, to which propensities are fitted and at which the linear model is looked: rows, and numbers a table at most."""

Value = TypeVar("Value")


@dataclass(eq=False)
class Gathered:
    """What the first pass gathers: sums of rows, and where a method needs them per-action sums, those of folds, a sample."""

    rows: Rows
    policy: Policy
    given: Settings
    facts: Facts
    rewards: Rewards
    sums: Statistics | None
    fold_sums: tuple[Statistics, ...] | None
    sample: Log | None

    @classmethod
    def of(cls, rows: Rows, policy: Policy, given: Settings) -> "Gathered":
        """Walk the rows once."""
        asked = set(given.methods)
        wanted: dict[str, Statistic[Log, Any]] = {
            "facts": Total(
                partial(
                    Facts.of, policy=policy, quantiles=given.clip == "percentile-ratio", pulls="dm" in asked
                )
            ),
            "rewards": Total(Rewards.of),
        }
        if asked & set(MODELLED) or given.band == "model":
            wanted["sums"] = Sums(rows)
        if "aipw" in asked and given.folds >= 2:
            wanted["fold_sums"] = FoldSums(rows, given.folds, given.seed)
        if asked & {*MODELLED, "aipw", "mlips"}:
            wide = max(rows.n_actions, rows.n_features)
            size = min(SAMPLE_ROWS, max(1, SAMPLE_CELLS // wide))
            wanted["sample"] = Sample(rows.header, rows.n_rows, size, given.seed)
        told: tuple[Any, ...] = rows.fold(Together(*wanted.values()))
        found = dict(zip(wanted, told, strict=True))
        sample = found.get("sample")
        return cls(
            rows,
            policy,
            given,
            found["facts"],
            found["rewards"],
            found.get("sums"),
            found.get("fold_sums"),
            None if sample is None else sample.log(),
        )

    @property
    def log(self) -> Log:
        """The log without its rows."""
        return self.rows.header

    @property
    def folds(self) -> int:
        """Parts of the contexts in cross-fitting."""
        return self.given.folds

    @property
    def untried(self) -> float:
        """The policy's mass on actions that the support allows, or is not known to forbid, but that have no row at all."""
        return float(self.facts.supported[self.facts.counts == 0].sum()) / self.facts.rows

    @cached_property
    def linear_notes(self) -> tuple[str, ...]:
        """What speaks against a linear reward model, by a sample of the rows."""
        assert self.sample is not None
        return tuple(linear_notes(self.sample, Statistics.of(self.sample), self.given.ridge))

    def shared(
        self, reward_range: tuple[float, float], progress: Callable[[int, int], None] | None
    ) -> Shared:
        """What every block must know; `progress` is told of the folds of fitted propensities."""
        given, asked = self.given, set(self.given.methods)
        shared = Shared(
            reward_range,
            given,
            cap=None if self.log.propensities is None else self._cap(),
            fold_theta=_tried(self._fold_theta) if "aipw" in asked else None,
            ellipsoids=_tried(self._ellipsoids) if given.band == "model" else None,
            fit=_tried(lambda: self._fit(progress)) if "mlips" in asked else None,
        )
        missing = self.facts.missing / self.facts.rows
        low, high = (missing * end for end in reward_range)
        shared.means.update(missing=missing, low=low, high=high)
        return self._with_band(self._with_model(shared))

    def _with_model(self, shared: Shared) -> Shared:
        """The reward model, and how far each row moves it."""
        if self.sums is None:
            return shared
        ridge, names = self.given.ridge, {False: "influence", True: "influence inside"}
        theta = ridge_regression(self.sums, ridge)
        for within, pull in zip(names, self.facts.pulls, strict=False):
            lever = times_inverse(self.sums, ridge, pull)
            shared.levers[within] = lever
            # Σ x_i·e_i over an action's rows is λ·θ̂_a: the mean needs no rows.
            shared.means[names[within]] = float((ridge * lever * theta).sum()) / self.facts.rows
        return replace(shared, theta=theta)

    def _with_band(self, shared: Shared) -> Shared:
        """Where the band is the model's, another pass tells what the unsupported mass may be worth."""
        known = isinstance(shared.ellipsoids, Ellipsoids) and self.log.support.known
        if known and "snips" in self.given.methods:
            low, high = self.rows.fold(Total(partial(band_worth, self.policy, shared))) / self.facts.rows
            shared.means.update(low=float(low), high=float(high))
        return shared

    def _cap(self) -> float:
        if self.given.clip != "percentile-ratio":
            return clip_constant(self.log, self.given.clip)
        low, high = self.facts.propensities.quantiles(np.array([0.1, 0.9]))
        return float(high / low)

    def _ellipsoids(self) -> Ellipsoids:
        assert self.sums is not None
        return self.given.ellipsoids(self.sums)

    def _fold_theta(self) -> np.ndarray:
        integer("folds", self.folds, least=2)
        assert self.fold_sums is not None
        _check_folds(np.array([sums.n_rows for sums in self.fold_sums]))
        return np.array([ridge_regression(sums, self.given.ridge) for sums in others(self.fold_sums)])

    def _fit(self, progress: Callable[[int, int], None] | None) -> tuple[PropensityFit, tuple[float, float]]:
        assert self.sample is not None
        sample, folds, seed = self.sample, self.folds, self.given.seed
        integer("folds", folds, least=2)
        _check_folds(np.bincount(block_folds(sample, folds, seed, whole=False), minlength=folds))
        fit = fit_propensities(sample, folds=folds, seed=seed, progress=progress, tried=self.facts.counts > 0)
        target = Ingredients(sample, self.policy, (0.0, 0.0)).target
        error = fit.error_of(target * sample.rewards)
        return fit.of_rows(self.log, np.empty(0, dtype=np.int64)), error


def _tried(make: Callable[[], Value]) -> Value | SparingError:
    """What is made, or the error that stands in its place."""
    try:
        return make()
    except SparingError as error:
        return error


def _check_folds(rows: np.ndarray) -> None:
    """Refuse folds of so many rows, (F,), where one has them all: no model could be learnt without it."""
    if rows.max() == rows.sum():
        raise SettingError(
            f"all contexts fall into one of {len(rows)} folds: they are too few to be parted. Give another seed=..., or use a "
            "method that is not cross-fitted"
        )
