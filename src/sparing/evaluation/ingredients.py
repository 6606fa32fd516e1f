"""What every estimator is made of: a few numbers for each row, gathered block by block."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from sparing.errors import LogError
from sparing.log import Log
from sparing.log.blocks import Blocks
from sparing.model.assumptions import Assumptions
from sparing.model.folds import context_folds
from sparing.model.propensities import fitted_propensities
from sparing.model.radius import determinant
from sparing.model.regression import ridge_regression
from sparing.model.statistics import Statistics
from sparing.policies.pi_plus import clip_constant
from sparing.policies.policy import Policy
from sparing.policies.walking import policy_blocks

Found = TypeVar("Found")

KEPT_CELLS = 2**25
"""(row, action) pairs of a policy that are kept: a quarter of a gigabyte."""


@dataclass(frozen=True, eq=False)
class Model:
    """Rewards r̂(x, a) = x·θ_a of an in-sample fit, or of the fold that has not seen the row."""

    theta: np.ndarray
    fold_of: np.ndarray | None = None

    def predict(self, log: Log, rows: slice) -> np.ndarray:
        """r̂(x_i, a), (rows, K)."""
        x = log.contexts[rows]
        if self.fold_of is None:
            return x @ self.theta.T
        return np.einsum("ij,ikj->ik", x, self.theta[self.fold_of[rows]])


@dataclass(frozen=True, eq=False)
class Sides:
    """Mass of one kind and what it may be worth, for each row (n,): mass, fitted, low and high worth."""

    mass: np.ndarray
    fitted: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Ingredients:
    """Lazily computed per-row quantities of a policy on a log; all (n,) unless said otherwise."""

    def __init__(
        self,
        log: Log,
        policy: Policy | np.ndarray,
        *,
        reward_range: tuple[float, float],
        band: str,
        clip: float | str,
        ridge: float,
        folds: int,
        seed: int,
        assumptions: dict[str, Any],
    ) -> None:
        self.log, self.reward_range, self.band = log, reward_range, band
        self.ridge, self.folds, self.seed = ridge, folds, seed
        self._clip, self._settings = clip, assumptions
        self.policy = policy
        self._table: np.ndarray | None = None
        self._found: dict[tuple[str, Model], Any] = {}

    @cached_property
    def clip(self) -> float:
        """M."""
        return clip_constant(self.log, self._clip)

    @cached_property
    def sums(self) -> Statistics:
        """The log's per-action sums."""
        return Statistics.of(self.log)

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Row slices and the policy's probabilities there, checked the first time.

        They are kept if there are at most `KEPT_CELLS`; a larger policy is asked again.
        """
        if self._table is not None:
            for rows in Blocks.of(self.log.n_rows, self.log.n_actions):
                yield rows, self._table[rows]
            return
        kept = []
        for rows, chances in policy_blocks(self.log, self.policy):
            if self.log.n_rows * self.log.n_actions <= KEPT_CELLS and not isinstance(self.policy, np.ndarray):
                kept.append(chances)
            yield rows, chances
        if isinstance(self.policy, np.ndarray):
            self._table = self.policy
        elif kept:
            self._table = np.concatenate(kept)

    @cached_property
    def target(self) -> np.ndarray:
        """π(a_i|x_i)."""
        picked = np.empty(self.log.n_rows)
        for rows, chances in self.blocks():
            picked[rows] = chances[np.arange(len(chances)), self.log.actions[rows]]
        return picked

    @cached_property
    def untried(self) -> float:
        """The policy's mass on actions that the support allows but that have no row at all."""
        never, mass = self.log.counts == 0, 0.0
        if never.any() and self.log.support.known:
            for rows, chances in self.blocks():
                mass += float((chances * self.log.support.mask(rows))[:, never].sum())
        return mass / self.log.n_rows

    @cached_property
    def weights(self) -> np.ndarray:
        """w_i = π(a_i|x_i)/μ(a_i|x_i)."""
        return self.target / self.propensities

    @property
    def propensities(self) -> np.ndarray:
        """μ(a_i|x_i) as logged."""
        if self.log.propensities is None:
            raise LogError("the log has no propensities; use dm or mlips, or log them")
        return self.log.propensities

    @cached_property
    def fitted_weights(self) -> np.ndarray:
        """w_i with a fitted propensity in the place of the logged one (MLIPS)."""
        chances = fitted_propensities(self.log, folds=self.folds, seed=self.seed)
        picked = chances[np.arange(self.log.n_rows), self.log.actions]
        return self.target / np.maximum(picked, 1e-6)

    @cached_property
    def model(self) -> Model:
        """The reward model fitted to all rows."""
        return Model(ridge_regression(self.sums, self.ridge))

    @cached_property
    def cross_fitted(self) -> Model:
        """The reward model of each row's own fold."""
        fold_of = context_folds(self.log, self.folds, self.seed)
        fits = [Statistics.of(self.log.take(fold_of != fold)) for fold in range(self.folds)]
        return Model(np.array([ridge_regression(fit, self.ridge) for fit in fits]), fold_of)

    def direct(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """Σ_a π(a|x_i)·r̂(x_i, a) over all actions, and r̂(x_i, a_i)."""
        return self._once("direct", model, self._direct)

    def _once(self, what: str, model: Model, find: Callable[[Model], Found]) -> Found:
        """What several estimators need of the same model, found once."""
        if (what, model) not in self._found:
            self._found[what, model] = find(model)
        found: Found = self._found[what, model]
        return found

    def _direct(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        total, logged = np.empty(self.log.n_rows), np.empty(self.log.n_rows)
        for rows, chances in self.blocks():
            predicted = model.predict(self.log, rows)
            total[rows] = np.einsum("ik,ik->i", chances, predicted)
            logged[rows] = predicted[np.arange(len(predicted)), self.log.actions[rows]]
        return total, logged

    def unsupported(self, model: Model) -> Sides | None:
        """The policy's mass outside the support; None where the support is unknown."""
        if not self.log.support.known:
            return None
        if self.log.support.sizes.min() == self.log.n_actions:
            nothing = np.zeros(self.log.n_rows)
            return Sides(nothing, nothing, nothing, nothing)

        def outside(rows: slice, chances: np.ndarray) -> np.ndarray:
            return np.where(self.log.support.mask(rows), 0.0, chances)

        return self._once("unsupported", model, lambda of: self._sides(of, outside))

    def clipped_away(self, model: Model) -> Sides | None:
        """max(0, π − M·μ), the unsupported mass included; None where μ is known of logged actions only."""
        if not self.log.support.known or self.log.support.probabilities is None:
            return None

        def excess(rows: slice, chances: np.ndarray) -> np.ndarray:
            known = self.log.support.distribution(rows)
            assert known is not None
            capped = np.where(known > 0, known * min(self.clip, 1e300), 0.0)
            return np.maximum(chances - capped, 0.0)

        return self._once("clipped", model, lambda of: self._sides(of, excess))

    def _sides(self, model: Model, select: Callable[[slice, np.ndarray], np.ndarray]) -> Sides:
        columns = {name: np.empty(self.log.n_rows) for name in ("mass", "fitted", "low", "high")}
        for rows, chances in self.blocks():
            part = select(rows, chances)
            if not part.any():  # most often: the policy stays where the log has been
                for column in columns.values():
                    column[rows] = 0
                continue
            mass = part.sum(axis=1)
            columns["mass"][rows] = mass
            columns["fitted"][rows] = np.einsum("ik,ik->i", part, model.predict(self.log, rows))
            low, high = self._worth(rows)
            model_band = self.band == "model"
            columns["low"][rows] = np.einsum("ik,ik->i", part, low) if model_band else mass * low
            columns["high"][rows] = np.einsum("ik,ik->i", part, high) if model_band else mass * high
        return Sides(**columns)

    def _worth(self, rows: slice) -> tuple[Any, Any]:
        """Lowest and highest mean reward: the caller's range, or the linear model's confidence band."""
        if self.band == "range":
            return self.reward_range
        theta, inverse, radius = self._ellipsoids
        x = self.log.contexts[rows]
        center = x @ theta.T
        spread = radius * np.sqrt(np.einsum("ij,kjl,il->ik", x, inverse, x))
        return center - spread, center + spread

    @cached_property
    def _ellipsoids(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        assumptions = Assumptions.resolve(self.sums, ridge=self.ridge, **self._settings)
        eye = np.eye(self.log.n_features)
        regular = self.sums.gram + self.ridge * eye
        log_det = np.linalg.slogdet(regular / self.ridge)[1]
        k, d = self.sums.response.shape
        radius = determinant(log_det, self.sums.counts, d, self.sums.n_rows, k, assumptions)
        return self.model.theta, np.linalg.inv(regular), radius

    def influence(self, within_support: bool) -> np.ndarray:
        """What a row's residual adds to the direct method through the fit, centred: n·g_aᵀV_a⁻¹x_i·e_i.

        g_a is the mean of π(a|x)·x, over supported pairs only if `within_support`.
        """
        log, model = self.log, self.model
        pull = np.zeros((log.n_actions, log.n_features))
        for rows, chances in self.blocks():
            used = np.where(log.support.mask(rows), chances, 0.0) if within_support else chances
            pull += used.T @ log.contexts[rows]
        regular = self.sums.gram + self.ridge * np.eye(log.n_features)
        lever = np.linalg.solve(regular, pull[:, :, None])[:, :, 0]
        residual = log.rewards - np.einsum("ij,ij->i", log.contexts, model.theta[log.actions])
        rows_ = np.einsum("ij,ij->i", lever[log.actions], log.contexts) * residual
        return rows_ - rows_.mean()
