"""What every estimator is made of: a few numbers for each row, gathered block by block."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sparing.errors import LogError
from sparing.log import Log
from sparing.model.assumptions import Assumptions
from sparing.model.boosting import boost
from sparing.model.crossfitting import Folds, PropensityFit, fit_propensities
from sparing.model.ellipsoids import Ellipsoids
from sparing.model.linearity import linear_notes
from sparing.model.statistics import Statistics, ridge_regression, times_inverse
from sparing.policies.pi_plus import clip_constant
from sparing.policies.policy import Policy, policy_blocks

KEPT_CELLS = 2**25
"""(row, action) pairs of a policy that are kept: a quarter of a gigabyte."""


@dataclass(frozen=True)
class Settings:
    """Those of `evaluate`."""

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

    def ellipsoids(self, sums: Statistics) -> Ellipsoids:
        """The linear model's confidence band."""
        assumptions = Assumptions.resolve(
            sums, ridge=self.ridge, noise=self.noise, theta_bound=self.theta_bound, delta=self.delta
        )
        return Ellipsoids(sums, assumptions)


USUAL = Settings()


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a policy, for each row: its mass (n,), and what that may be worth at least and at most, (n,).

    `select` cuts the part out of a block of rows and the policy's probabilities there, (rows, K).
    """

    select: Callable[[slice, np.ndarray], np.ndarray]
    mass: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(eq=False)
class Ingredients:
    """Lazily computed per-row quantities of a policy on a log; all (n,) unless said otherwise.

    range_known is False where the reward range is that of the rewards seen. What is of the whole
    log, not of its rows, is a method or a property of its own: of a block of a longer log it is another (`block.py`).
    """

    log: Log
    policy: Policy | np.ndarray
    reward_range: tuple[float, float]
    given: Settings = USUAL
    range_known: bool = True
    progress: Callable[[int, int], None] | None = None
    first_row: int = 0
    _kept: list[tuple[slice, np.ndarray]] | None = field(default=None, init=False)

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Row slices and the policy's probabilities there, checked the first time.

        They are kept if there are at most `KEPT_CELLS`; a larger policy is asked again.
        """
        if self._kept is not None:
            yield from self._kept
            return
        small = self.log.n_rows * self.log.n_actions <= KEPT_CELLS or isinstance(self.policy, np.ndarray)
        kept = []
        for rows, chances in policy_blocks(self.log, self.policy, first_row=self.first_row):
            if small:
                kept.append((rows, chances))
            yield rows, chances
        if small:
            self._kept = kept

    @cached_property
    def cap(self) -> float:
        """M, at which weights are clipped."""
        return clip_constant(self.log, self.given.clip)

    @cached_property
    def sums(self) -> Statistics:
        """The log's per-action sums."""
        return Statistics.of(self.log)

    @cached_property
    def target(self) -> np.ndarray:
        """π(a_i|x_i)."""
        picked = np.empty(self.log.n_rows)
        for rows, chances in self.blocks():
            picked[rows] = chances[np.arange(len(chances)), self.log.actions[rows]]
        return picked

    @cached_property
    def untried(self) -> float:
        """The policy's mass on actions that the support allows, or is not known to forbid, but that have no row at all."""
        never, support, mass = self.log.counts == 0, self.log.support, 0.0
        for rows, chances in self.blocks() if never.any() else ():
            allowed = chances * support.mask(rows) if support.known else chances
            mass += float(allowed[:, never].sum())
        return mass / self.log.n_rows

    @cached_property
    def weights(self) -> np.ndarray:
        """w_i = π(a_i|x_i)/μ(a_i|x_i)."""
        if self.log.propensities is None:
            raise LogError("the log has no propensities; use dm or mlips, or log them")
        return self.target / self.log.propensities

    @cached_property
    def fitted_weights(self) -> np.ndarray:
        """w_i with a fitted propensity in the place of the logged one (MLIPS)."""
        return self.target / np.maximum(self.propensity_fit.logged, 1e-6)

    @cached_property
    def propensity_fit(self) -> PropensityFit:
        """Propensities fitted to the log, each row's by a model that has not seen its context."""
        return fit_propensities(
            self.log, folds=self.given.folds, seed=self.given.seed, progress=self.progress
        )

    @property
    def fit_error(self) -> tuple[float, float]:
        """The standard error and the lift that fitted propensities bring to MLIPS."""
        return self.propensity_fit.error_of(self.target * self.log.rewards)

    @cached_property
    def linear_notes(self) -> tuple[str, ...]:
        """What speaks against a linear reward model."""
        return tuple(linear_notes(self.log, self.sums, self.given.ridge))

    @cached_property
    def theta(self) -> np.ndarray:
        """The linear reward model fitted to all rows, (K, d)."""
        return ridge_regression(self.sums, self.given.ridge)

    @cached_property
    def model(self) -> "Model":
        """The reward model fitted to all rows; a boosted one is cross-fitted always, since it knows its rows by heart."""
        if self.given.reward_model == "boosted":
            return self.cross_fitted
        return Model(self, lambda rows: self.log.contexts[rows] @ self.theta.T)

    @cached_property
    def cross_fitted(self) -> "Model":
        """The reward model of each row's own fold."""
        contexts = self.log.contexts
        if self.given.reward_model == "boosted":
            trees = boost(
                self.log, folds=self.given.folds, seed=self.given.seed, purpose="reward_model='boosted'"
            )
            return Model(self, lambda rows: trees.held_out(contexts, rows))
        folds = Folds.of(self.log, self.given.folds, self.given.seed)
        fold_of = folds.assign_folds(self.log)
        others = (Statistics.of(self.log.take(fold_of != fold)) for fold in range(folds.count))
        theta = np.array([ridge_regression(sums, self.given.ridge) for sums in others])
        return Model(self, lambda rows: np.einsum("ij,ikj->ik", contexts[rows], theta[fold_of[rows]]))

    @cached_property
    def unsupported(self) -> Part | None:
        """The policy outside the support; None where the support is unknown."""
        support = self.log.support
        if not support.known:
            return None
        if support.sizes.min() == self.log.n_actions:
            nothing = np.zeros(self.log.n_rows)
            return Part(lambda rows, chances: np.zeros_like(chances), nothing, nothing, nothing)
        return self._part(lambda rows, chances: np.where(support.mask(rows), 0.0, chances))

    @cached_property
    def clipped_away(self) -> Part | None:
        """max(0, π − M·μ), the unsupported mass included; None where μ is known of logged actions only."""
        support = self.log.support
        if not support.known or support.probabilities is None:
            return None

        def excess(rows: slice, chances: np.ndarray) -> np.ndarray:
            known = support.distribution(rows)
            assert known is not None
            capped = np.where(known > 0, known * min(self.cap, 1e300), 0.0)
            return np.maximum(chances - capped, 0.0)

        return self._part(excess)

    def _part(self, select: Callable[[slice, np.ndarray], np.ndarray]) -> Part:
        mass, low, high = np.zeros((3, self.log.n_rows))
        for rows, chances in self.blocks():
            part = select(rows, chances)
            if not part.any():  # most often: the policy stays where the log has been
                continue
            mass[rows] = part.sum(axis=1)
            if self.given.band == "range":
                low[rows], high[rows] = (mass[rows] * end for end in self.reward_range)
            else:
                ends = self._ellipsoids.limits(self.log.contexts[rows])
                low[rows], high[rows] = (np.einsum("ik,ik->i", part, end) for end in ends)
        return Part(select, mass, low, high)

    @cached_property
    def _ellipsoids(self) -> Ellipsoids:
        return self.given.ellipsoids(self.sums)

    def mean_of(self, name: str, rows: np.ndarray) -> float:
        """The mean over all rows of the log of what is given (n,) for the rows here, by name."""
        return float(rows.mean())

    def pull(self, *, within_support: bool) -> np.ndarray:
        """Σ_i π(a|x_i)·x_i, (K, d), over supported pairs only if `within_support`."""
        log = self.log
        pull = np.zeros((log.n_actions, log.n_features))
        for rows, chances in self.blocks():
            used = np.where(log.support.mask(rows), chances, 0.0) if within_support else chances
            pull += used.T @ log.contexts[rows]
        return pull

    def lever(self, *, within_support: bool) -> np.ndarray:
        """V_a⁻¹ times the pull of the whole log, (K, d)."""
        return times_inverse(self.sums, self.given.ridge, self.pull(within_support=within_support))

    def influence(self, *, within_support: bool) -> np.ndarray:
        """What a row's residual adds to the direct method through the fit, centred: n·g_aᵀV_a⁻¹x_i·e_i.

        g_a is the mean of π(a|x)·x, over supported pairs only if `within_support`.
        """
        log, lever = self.log, self.lever(within_support=within_support)
        residual = log.rewards - np.einsum("ij,ij->i", log.contexts, self.theta[log.actions])
        added = np.einsum("ij,ij->i", lever[log.actions], log.contexts) * residual
        return added - self.mean_of("influence inside" if within_support else "influence", added)


@dataclass(eq=False)
class Model:
    """Rewards r̂(x_i, a) of a slice of rows, (rows, K), by an in-sample fit or by the fold that has not seen the row."""

    of: Ingredients
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
        return None if outside is None else self.direct[0] - self.worth(outside)

    def worth(self, part: Part) -> np.ndarray:
        """What the model says that a part of the policy is worth, Σ_a part(a|x_i)·r̂(x_i, a)."""
        worth = np.zeros(len(part.mass))
        for rows, chances in self.of.blocks() if part.mass.any() else ():
            if part.mass[rows].any():
                worth[rows] = np.einsum("ik,ik->i", part.select(rows, chances), self.predict(rows))
        return worth
