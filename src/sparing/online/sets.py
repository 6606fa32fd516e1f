"""Every action's confidence set, side by side: a struct of arrays, updated in place."""

import contextlib
from dataclasses import replace

import numpy as np

from sparing.errors import SettingError
from sparing.offline.assumptions import Assumptions
from sparing.offline.radius import RADII
from sparing.offline.statistics import Statistics
from sparing.online import kernels

REFACTOR = 256
"""Rows of an action after which its inverse is computed afresh, so that rounding cannot pile up."""

STATE = {
    "gram": np.float64,
    "response": np.float64,
    "logged": np.int64,
    "live": np.int64,
    "frozen": np.bool_,
    "inverse": np.float64,
    "theta": np.float64,
    "log_det": np.float64,
}
"""The arrays that are saved, and their types."""


class ConfidenceSets:
    """An ellipsoid {θ : ‖θ̂_a − θ‖_{V_a} ≤ ρ_a}, or a frozen point {θ̂_a}, for each action.

    gram (K, d, d) is V_a and response (K, d) is b_a; they are the state. inverse, theta, log_det and
    radius follow from them and are kept for speed. `logged` (K,) counts the log's rows in a set, `live`
    (K,) those since. `constant`, where given, replaces the three radii by one number (LinUCB's α, a
    posterior's σ). `slack` widens frozen points; `misfit` widens everything else.
    """

    def __init__(
        self,
        sums: Statistics,
        assumptions: Assumptions,
        *,
        ridge: float | None = None,
        center: np.ndarray | None = None,
        constant: float | None = None,
        slack: float = 0.0,
        misfit: float = 0.0,
    ) -> None:
        """Start from per-action sums: V_a = λI + G_a, b_a = Σxr + λ·center."""
        k, d = sums.response.shape
        self.assumptions = assumptions
        self.ridge = assumptions.ridge if ridge is None else ridge
        self.constant, self.slack, self.misfit = constant, slack, misfit
        self.gram = sums.gram + self.ridge * np.eye(d)
        self.response = sums.response.copy() if center is None else sums.response + self.ridge * center
        self.logged = sums.counts.copy()
        self.live = np.zeros(k, dtype=np.int64)
        self.frozen = np.zeros(k, dtype=np.bool_)
        self._derive()

    def _derive(self) -> None:
        """Compute what follows from the state, from scratch."""
        k, d = self.response.shape
        self.inverse = np.empty((k, d, d))
        self.theta = np.empty((k, d))
        self.log_det = np.empty(k)
        for action in range(k):
            self._factor(action)
        self.mean, self.spread = np.empty(k), np.empty(k)
        self._scratch = np.empty(d)
        self._refresh_radius()

    def _factor(self, action: int) -> None:
        try:
            root = np.linalg.inv(np.linalg.cholesky(self.gram[action]))
        except np.linalg.LinAlgError:
            raise SettingError(
                f"ridge={self.ridge:g} is too small beside this log's contexts: the matrix of action number "
                f"{action} is singular in double precision. Pass a larger ridge, or scale the features"
            ) from None
        self.inverse[action] = root.T @ root
        self.theta[action] = self.inverse[action] @ self.response[action]
        self.log_det[action] = -2 * np.log(np.diag(root) * np.sqrt(self.ridge)).sum()

    def freeze(self, actions: np.ndarray, theta: np.ndarray) -> None:
        """Make these actions points {θ̂_a}: known, and never learnt further."""
        self.frozen[actions] = True
        self.theta[actions] = theta
        self._refresh_radius()

    @property
    def counts(self) -> np.ndarray:
        """Rows in each set, logged and live, (K,)."""
        return self.logged + self.live

    @property
    def learnt(self) -> int:
        """K': how many sets are learnt rather than frozen."""
        return max(1, int((~self.frozen).sum()))

    def _refresh_radius(self, action: int | None = None) -> None:
        """Recompute ρ for one action, or for all."""
        if self.constant is not None:
            self.radius = np.full(len(self.live), self.constant)
            return
        a = self.assumptions
        which = slice(None) if action is None or a.radius == "paper" else slice(action, action + 1)
        if action is None:
            self.radius = np.empty(len(self.live))
        total = int(self.counts[~self.frozen].sum()) if a.radius == "paper" else 0
        rho = RADII[a.radius](
            self.log_det[which], self.counts[which], self.response.shape[1], total, self.learnt, a
        )
        self.radius[which] = a.radius_scale * rho

    def evaluate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means x·θ̂_a and half-widths at x for all actions; both arrays are overwritten by the next call."""
        kernels.evaluate(
            x,
            self.theta,
            self.inverse,
            self.radius,
            self.frozen,
            self.slack,
            self.misfit,
            self.mean,
            self.spread,
        )
        return self.mean, self.spread

    def absorb(self, action: int, x: np.ndarray, reward: float) -> None:
        """Add one live row to an action's set."""
        growth = kernels.absorb(
            x,
            reward,
            self.gram[action],
            self.response[action],
            self.inverse[action],
            self.theta[action],
            self._scratch,
        )
        self.log_det[action] += growth
        self.live[action] += 1
        if self.live[action] % REFACTOR == 0:
            # A matrix that has grown singular keeps its running inverse, which stays usable.
            with contextlib.suppress(SettingError):
                self._factor(action)
        if self.constant is None:
            self._refresh_radius(action)

    def scale_constant(self, constant: float) -> None:
        """Change the constant radius (a posterior whose noise turned out larger)."""
        self.constant = constant
        self._refresh_radius()

    def state(self) -> dict[str, np.ndarray]:
        """The arrays to save; the derived ones go along so that a loaded learner goes on bit for bit."""
        return {name: getattr(self, name) for name in STATE}

    @classmethod
    def from_state(
        cls,
        arrays: dict[str, np.ndarray],
        assumptions: Assumptions,
        *,
        ridge: float,
        constant: float | None,
        slack: float,
        misfit: float,
    ) -> "ConfidenceSets":
        """Rebuild from saved arrays, refusing those that do not fit together."""
        k, d = arrays["response"].shape
        shapes = {"gram": (k, d, d), "inverse": (k, d, d), "response": (k, d), "theta": (k, d)}
        for name in STATE:
            if arrays[name].shape != shapes.get(name, (k,)) or arrays[name].dtype != STATE[name]:
                raise ValueError(f"array {name} of shape {arrays[name].shape} and type {arrays[name].dtype}")
        sets = cls.__new__(cls)
        sets.assumptions, sets.ridge = replace(assumptions), ridge
        sets.constant, sets.slack, sets.misfit = constant, slack, misfit
        for name in STATE:
            setattr(sets, name, np.ascontiguousarray(arrays[name]))
        sets.mean, sets.spread, sets._scratch = np.empty(k), np.empty(k), np.empty(d)
        sets._refresh_radius()
        return sets

    def residual(self) -> float:
        """How far V·V⁻¹ is from I, at worst over actions, in units of ‖V‖·‖V⁻¹‖ (Frobenius, d at least).

        Rounding alone leaves some 1e-16 of it, however ill-conditioned V is.
        """
        product = self.gram @ self.inverse - np.eye(self.response.shape[1])
        size = np.linalg.norm(self.gram, axis=(1, 2)) * np.linalg.norm(self.inverse, axis=(1, 2))
        return float((np.abs(product).max(axis=(1, 2)) / size).max())
