"""Row quantities: the numbers of each row of a block that the estimators are made of."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from sparing.errors import LogError, SparingError
from sparing.log import Log
from sparing.model.boosting import Boosted
from sparing.model.confidence import ConfidenceEllipsoids
from sparing.model.crossfitting import Folds, PropensityFit, out_of_fold
from sparing.policies.policy import Policy, policy_blocks

MAX_CACHED_CELLS = 2**25  # numbers that are kept rather than computed again: a quarter of a gigabyte
LEAST_PROPENSITY = 1e-6  # of fitted propensities, which are divided by

T = TypeVar("T")


@dataclass(frozen=True)
class EvaluationSettings:
    """The options of `evaluate` that its passes need."""

    methods: tuple[str, ...] = ()
    interval: str = "normal"
    band: str = "range"
    clip: float | str = "percentile-ratio"
    ridge: float = 1.0
    folds: int = 5
    seed: int = 0
    noise: float | None = None
    theta_bound: float | None = None
    delta: float = 0.05
    reward_model: str = "linear"
    costs: np.ndarray | None = None  # of each action, (K,), in the place of the log's


@dataclass(frozen=True, eq=False)
class GlobalQuantities:
    """Quantities of all rows that the rows of a block need.

    A quantity that could not be computed is an error, which is raised when it is asked for: a method that cannot be used
    must not stop the others.

    clip_threshold: M. theta (K, d): the reward model; fold_theta (F, K, d): those fitted without a fold's rows; boosted: the
    trees of each fold. influence_vectors: V_a⁻¹ Σ_i π(a|x_i)·x_i, (K, d), of all pairs (False) and of supported pairs
    (True). propensity_fit: the fitted propensities' models, and the standard error and the lift that they bring to `mlips`.
    means: over all rows, by name.
    """

    reward_range: tuple[float, float]
    settings: EvaluationSettings
    clip_threshold: float | SparingError | None = None
    theta: np.ndarray | None = None
    folds: Folds | SparingError | None = None
    fold_theta: np.ndarray | SparingError | None = None
    boosted: Boosted | SparingError | None = None
    influence_vectors: dict[bool, np.ndarray] = field(default_factory=dict)
    ellipsoids: ConfidenceEllipsoids | SparingError | None = None
    propensity_fit: tuple[PropensityFit, tuple[float, float]] | SparingError | None = None
    means: dict[str, float] = field(default_factory=dict)


def value_or_raise(value: T | SparingError | None) -> T:
    """The value; raises the error that is in its place."""
    if isinstance(value, SparingError):
        raise value
    assert value is not None
    return value


@dataclass(eq=False)
class RowQuantities:
    """Lazily computed quantities of a policy on a block's rows; all (n,) unless stated otherwise.

    `first_row` is the number of the block's first row in the log; a policy that is a table has a row for each of the log's.
    """

    log: Log
    policy: Policy | np.ndarray
    shared: GlobalQuantities
    first_row: int = 0
    terms: dict[str, Any] = field(default_factory=dict, init=False)
    _chances: list[tuple[slice, np.ndarray]] | None = field(default=None, init=False)

    def clear(self) -> None:
        """Forget the rows: predictions refer to this object, which would else stay until Python collects cycles."""
        vars(self).clear()

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Row slices and the policy's probabilities there, (rows, K), checked the first time.

        They are kept if there are at most `MAX_CACHED_CELLS`; a larger policy is asked again.
        """
        if self._chances is not None:
            yield from self._chances
            return
        log, policy, kept = self.log, self.policy, []
        if isinstance(policy, np.ndarray):
            policy = policy[self.first_row : self.first_row + log.n_rows]
        small = log.n_rows * log.n_actions <= MAX_CACHED_CELLS
        for rows, chances in policy_blocks(log, policy, first_row=self.first_row):
            if small:
                kept.append((rows, chances))
            yield rows, chances
        if small:
            self._chances = kept

    @property
    def settings(self) -> EvaluationSettings:
        return self.shared.settings

    @property
    def reward_range(self) -> tuple[float, float]:
        return self.shared.reward_range

    @property
    def clip_threshold(self) -> float:
        """M."""
        return value_or_raise(self.shared.clip_threshold)

    @cached_property
    def target(self) -> np.ndarray:
        """π(a_i|x_i)."""
        picked = np.empty(self.log.n_rows)
        for rows, chances in self.blocks():
            picked[rows] = chances[np.arange(len(chances)), self.log.actions[rows]]
        return picked

    @cached_property
    def costs(self) -> np.ndarray | None:
        """Known costs of the actions, (K,) or (n, K); None if none is known."""
        return self.log.costs if self.settings.costs is None else self.settings.costs

    @cached_property
    def policy_costs(self) -> np.ndarray | None:
        """Σ_a π(a|x_i)·cost_i(a), which is known, whatever the rewards are; None if no costs are known."""
        costs = self.costs
        if costs is None:
            return None
        total = np.empty(self.log.n_rows)
        for rows, chances in self.blocks():
            each = np.broadcast_to(costs if costs.ndim == 1 else costs[rows], chances.shape)
            total[rows] = np.einsum("ik,ik->i", chances, each)
        return total

    @cached_property
    def weights(self) -> np.ndarray:
        """w_i = π(a_i|x_i)/μ(a_i|x_i)."""
        if self.log.propensities is None:
            raise LogError("the log has no propensities; use dm or mlips, or log them")
        return self.target / self.log.propensities

    @cached_property
    def fold_of(self) -> np.ndarray:
        return value_or_raise(self.shared.folds).assign_folds(self.log)

    @cached_property
    def fitted_weights(self) -> np.ndarray:
        """w_i with a fitted propensity in the place of the logged one (MLIPS)."""
        fit = value_or_raise(self.shared.propensity_fit)[0].of_rows(self.log, self.fold_of)
        return self.target / np.maximum(fit.logged, LEAST_PROPENSITY)

    @cached_property
    def model(self) -> "RewardPredictions":
        """The reward model fitted to all rows; a boosted one is always cross-fitted, since it memorises its rows."""
        if self.settings.reward_model == "boosted":
            return self.cross_fitted
        theta = value_or_raise(self.shared.theta)
        return RewardPredictions(self, lambda rows: self.log.contexts[rows] @ theta.T)

    @cached_property
    def cross_fitted(self) -> "RewardPredictions":
        if self.settings.reward_model == "boosted":
            trees = value_or_raise(self.shared.boosted)
            single = len(trees.without) == 1  # one context only, none to hold out
            fold_of = np.zeros(self.log.n_rows, dtype=np.int64) if single else self.fold_of
            held_out = replace(trees, fold_of=fold_of).held_out
            return RewardPredictions(self, lambda rows: held_out(self.log.contexts, rows))
        return RewardPredictions(self, self._held_out)

    def _held_out(self, rows: slice) -> np.ndarray:
        x, theta = self.log.contexts[rows], value_or_raise(self.shared.fold_theta)
        return out_of_fold(self.fold_of[rows], self.log.n_actions, lambda fold, held: x[held] @ theta[fold].T)

    @property
    def supports_all(self) -> bool:
        support = self.log.support
        return support.known and int(support.sizes.min(initial=self.log.n_actions)) == self.log.n_actions

    @cached_property
    def unsupported(self) -> "PolicyPart | None":
        """The policy outside the support; None where the support is unknown."""
        support = self.log.support
        if not support.known:
            return None
        if self.supports_all:
            return PolicyPart(self, lambda rows, chances: np.zeros_like(chances), np.zeros(self.log.n_rows))
        return PolicyPart.of(self, lambda rows, chances: np.where(support.mask(rows), 0.0, chances))

    @cached_property
    def clipped_away(self) -> "PolicyPart | None":
        """max(0, π − M·μ), the unsupported mass included; None where μ is known of logged actions only."""
        support = self.log.support
        if not support.known or support.probabilities is None:
            return None
        most = min(self.clip_threshold, 1e300)

        def excess(rows: slice, chances: np.ndarray) -> np.ndarray:
            known = support.distribution(rows)
            assert known is not None
            return np.maximum(chances - np.where(known > 0, known * most, 0.0), 0.0)

        return PolicyPart.of(self, excess)

    def policy_feature_sums(self, *, within_support: bool) -> np.ndarray:
        """Σ_i π(a|x_i)·x_i, (K, d), over supported pairs only if `within_support`."""
        log = self.log
        sums = np.zeros((log.n_actions, log.n_features))
        for rows, chances in self.blocks():
            used = np.where(log.support.mask(rows), chances, 0.0) if within_support else chances
            sums += used.T @ log.contexts[rows]
        return sums

    def influence(self, *, within_support: bool) -> np.ndarray:
        """What a row's residual adds to the direct method through the fit, centred: n·g_aᵀV_a⁻¹x_i·e_i.

        g_a is the mean of π(a|x)·x, over supported pairs only if `within_support`.
        """
        log, vectors = self.log, self.shared.influence_vectors[within_support]
        added = np.einsum("ij,ij->i", vectors[log.actions], log.contexts)
        added *= self._residuals
        added -= self.shared.means["influence inside" if within_support else "influence"]
        return added

    @cached_property
    def _residuals(self) -> np.ndarray:
        theta = value_or_raise(self.shared.theta)
        return self.log.rewards - np.einsum("ij,ij->i", self.log.contexts, theta[self.log.actions])


@dataclass(eq=False)
class PolicyPart:
    """A part of a policy: its mass in each row, (n,); `select` cuts it out of the probabilities of some rows, (rows, K)."""

    of_rows: RowQuantities
    select: Callable[[slice, np.ndarray], np.ndarray]
    mass: np.ndarray

    @classmethod
    def of(cls, of: RowQuantities, select: Callable[[slice, np.ndarray], np.ndarray]) -> "PolicyPart":
        mass = np.zeros(of.log.n_rows)
        for rows, chances in of.blocks():
            mass[rows] = select(rows, chances).sum(axis=1)
        return cls(of, select, mass)

    @cached_property
    def empty(self) -> bool:
        """Whether it has no mass in any row: most often, since policies stay where the log has data."""
        return not self.mass.any()

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the most reward that it may earn in each row, (n,) each."""
        of = self.of_rows
        if self.empty:
            return self.mass, self.mass
        if of.settings.band == "range":
            low, high = (self.mass * end for end in of.reward_range)
            return low, high
        low, high = np.zeros((2, of.log.n_rows))
        for rows, part in self.parts():
            ends = value_or_raise(of.shared.ellipsoids).limits(of.log.contexts[rows])
            low[rows], high[rows] = (np.einsum("ik,ik->i", part, end) for end in ends)
        return low, high

    def parts(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Slices of rows in which it has mass, and its probabilities there, (rows, K)."""
        for rows, chances in () if self.empty else self.of_rows.blocks():
            if self.mass[rows].any():
                yield rows, self.select(rows, chances)


@dataclass(eq=False)
class RewardPredictions:
    """Rewards r̂(x_i, a) of a slice of rows, (rows, K), by an in-sample fit or by the fold that has not seen the row."""

    of: RowQuantities
    predict: Callable[[slice], np.ndarray]

    @cached_property
    def direct(self) -> tuple[np.ndarray, np.ndarray]:
        """Σ_a π(a|x_i)·r̂(x_i, a) over all actions, and r̂(x_i, a_i)."""
        log = self.of.log
        total, logged = np.empty((2, log.n_rows))
        for rows, chances in self.of.blocks():
            predicted = self.predict(rows)
            total[rows] = np.einsum("ik,ik->i", chances, predicted)
            logged[rows] = predicted[np.arange(len(predicted)), log.actions[rows]]
        return total, logged

    @cached_property
    def inside(self) -> np.ndarray | None:
        """Σ_a π(a|x_i)·r̂(x_i, a) over the supported actions; None where the support is unknown."""
        outside = self.of.unsupported
        if outside is None:
            return None
        return self.direct[0] if outside.empty else self.direct[0] - self.predicted_value(outside)

    def predicted_value(self, part: PolicyPart) -> np.ndarray:
        """Σ_a part(a|x_i)·r̂(x_i, a)."""
        value = np.zeros(len(part.mass))
        for rows, chances in part.parts():
            value[rows] = np.einsum("ik,ik->i", chances, self.predict(rows))
        return value


class BlockQuantities:
    """Makes the row quantities of blocks; with `keep`, those of a log in memory are kept from pass to pass."""

    def __init__(
        self, policy: Policy | np.ndarray, shared: GlobalQuantities, *, keep: bool, keep_terms: bool = False
    ) -> None:
        self.policy, self.shared, self.keep_terms = policy, shared, keep_terms
        self._kept: dict[int, RowQuantities] | None = {} if keep else None

    @contextmanager
    def rows(self, block: Log, first_row: int) -> Iterator[RowQuantities]:
        """A block's quantities during a pass."""
        made = RowQuantities(block, self.policy, self.shared, first_row)
        if self._kept is not None:
            made = self._kept.setdefault(first_row, made)
            made.shared = self.shared
        yield made
        if self._kept is None:
            made.clear()

    def compute(self, quantity: Callable[[RowQuantities], T], block: Log, first_row: int) -> T:
        with self.rows(block, first_row) as of:
            return quantity(of)

    def close(self) -> None:
        for of in (self._kept or {}).values():
            of.clear()
        self._kept = None

    def __getstate__(self) -> dict[str, Any]:
        return {"policy": self.policy, "shared": self.shared, "keep_terms": False, "_kept": None}
