"""A block of a longer log, as the estimators see it: its own rows, and what is of the whole log from elsewhere."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np

from sparing.errors import SparingError
from sparing.evaluation.ingredients import Ingredients, Model, Settings
from sparing.log import Log
from sparing.model.crossfitting import Folds, PropensityFit
from sparing.model.ellipsoids import Ellipsoids
from sparing.policies.policy import Policy

Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class Shared:
    """What a block must know of the whole log; an error in the place of what could not be had, which is raised where it is asked for.

    cap: M. theta (K, d): the reward model; fold_theta (F, K, d): those without a fold's rows. levers: what `Ingredients.lever` gives, by
    `within_support`. fit: the propensities' models, without rows, and the error and lift they bring. means: by name, of all rows.
    """

    reward_range: tuple[float, float]
    given: Settings
    cap: float | SparingError | None = None
    folds: Folds | SparingError | None = None
    theta: np.ndarray | None = None
    fold_theta: np.ndarray | SparingError | None = None
    levers: dict[bool, np.ndarray] = field(default_factory=dict)
    ellipsoids: Ellipsoids | SparingError | None = None
    fit: tuple[PropensityFit, tuple[float, float]] | SparingError | None = None
    means: dict[str, float] = field(default_factory=dict)


def had(value: Value | SparingError | None) -> Value:
    """The value; raises what stands in its place."""
    if isinstance(value, SparingError):
        raise value
    assert value is not None
    return value


class Block(Ingredients):
    """The ingredients of a block's rows."""

    def __init__(self, log: Log, policy: Policy, shared: Shared, first_row: int) -> None:
        super().__init__(log, policy, shared.reward_range, shared.given, first_row=first_row)
        self.shared = shared

    def let_go(self) -> None:
        """Forget the rows: models and their block refer to each other, and would else stay until Python looks for such rings."""
        vars(self).clear()

    @property
    def cap(self) -> float:
        """M, of all propensities."""
        return had(self.shared.cap)

    @property
    def theta(self) -> np.ndarray:
        """The linear reward model fitted to all rows, (K, d)."""
        return had(self.shared.theta)

    @cached_property
    def fold_of(self) -> np.ndarray:
        """The fold of each row, by its context alone."""
        return had(self.shared.folds).assign_folds(self.log)

    @cached_property
    def cross_fitted(self) -> Model:
        """The reward model of each row's own fold."""
        return Model(self, self._held_out)

    def _held_out(self, rows: slice) -> np.ndarray:
        contexts, fold_of = self.log.contexts[rows], self.fold_of[rows]
        predicted = np.empty((len(contexts), self.log.n_actions))
        for fold, theta in enumerate(had(self.shared.fold_theta)):
            held = fold_of == fold
            predicted[held] = contexts[held] @ theta.T
        return predicted

    @cached_property
    def propensity_fit(self) -> PropensityFit:
        """The propensities' models, for these rows."""
        return had(self.shared.fit)[0].of_rows(self.log, self.fold_of)

    @property
    def fit_error(self) -> tuple[float, float]:
        """What was found where they were fitted."""
        return had(self.shared.fit)[1]

    @property
    def _ellipsoids(self) -> Ellipsoids:
        return had(self.shared.ellipsoids)

    def mean_of(self, name: str, rows: np.ndarray) -> float:
        """That of all rows."""
        return self.shared.means[name]

    def lever(self, *, within_support: bool) -> np.ndarray:
        """That of all rows."""
        return self.shared.levers[within_support]
