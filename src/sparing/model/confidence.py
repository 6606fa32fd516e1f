"""Assumptions, confidence ellipsoids with their radii, and ε-supported sets of actions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from sparing.errors import SettingError
from sparing.log import Log
from sparing.log.limits import LARGEST
from sparing.model.statistics import Statistics, least_squares, residual_noise, ridge_regression
from sparing.validation import fraction, one_of

RADII = ("determinant", "trace", "paper")
SMALLEST = 1e-50  # products of smaller settings underflow


@dataclass(frozen=True)
class Assumptions:
    """The numbers that every confidence set depends on; results report them.

    `estimated` and `assumed` name the values that the caller did not give.
    """

    noise: float
    theta_bound: float
    context_bound: float
    ridge: float = 1.0
    delta: float = 0.05
    radius: str = "determinant"
    radius_scale: float = 1.0
    estimated: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    @classmethod
    def resolve(
        cls,
        sums: Statistics | None,
        *,
        noise: float | None = None,
        theta_bound: float | None = None,
        context_bound: float | None = None,
        ridge: float = 1.0,
        delta: float = 0.05,
        radius: str = "determinant",
        radius_scale: float = 1.0,
    ) -> "Assumptions":
        """Check the given values and estimate the others from the log's sums."""
        positive("ridge", ridge)
        positive("radius_scale", radius_scale)
        fraction("delta", delta, hint=", such as 0.05")
        one_of("radius", radius, RADII)
        values: dict[str, Any] = {"noise": noise, "theta_bound": theta_bound, "context_bound": context_bound}
        for name, value in values.items():
            if value is not None and not 0 <= float(value) <= LARGEST:
                raise SettingError(f"{name}={value}; must be a number from 0 to {LARGEST:g}")
        missing = tuple(name for name, value in values.items() if value is None)
        values |= {"ridge": ridge, "delta": delta, "radius_scale": radius_scale}
        values |= _estimates(missing, sums, ridge) if missing else {}
        numbers: dict[str, Any] = {name: float(value) for name, value in values.items()}
        return cls(**numbers, radius=radius, estimated=missing)

    @property
    def conditions(self) -> str:
        """The values a guarantee depends on that the caller did not give; empty if there are none."""
        named = [f"{name} = {getattr(self, name):.4g}" for name in (*self.estimated, *self.assumed)]
        return f"conditional on estimated or assumed {', '.join(named)}" if named else ""

    def __str__(self) -> str:
        def shown(name: str) -> str:
            mark = " (estimated)" if name in self.estimated else " (assumed)" if name in self.assumed else ""
            return f"{name} {getattr(self, name):.4g}{mark}"

        values = ", ".join(
            shown(name) for name in ("noise", "theta_bound", "context_bound", "ridge", "delta")
        )
        kind = "" if self.radius == "determinant" else f", confidence radius by the {self.radius}"
        scaled = "" if self.radius_scale == 1 else f", confidence radius scaled by {self.radius_scale:g}"
        return values + kind + scaled


def _estimates(missing: tuple[str, ...], sums: Statistics | None, ridge: float) -> dict[str, float]:
    if sums is None or sums.n_rows == 0:
        raise SettingError(
            f"{', '.join(missing)} cannot be estimated without logged rows; "
            f"pass {', '.join(f'{name}=...' for name in missing)}"
        )
    estimates = {
        "noise": lambda: residual_noise(sums, ridge),
        "theta_bound": lambda: float(np.linalg.norm(ridge_regression(sums, ridge), axis=1).max()),
        "context_bound": lambda: sums.largest,
    }
    found = {name: estimates[name]() for name in missing}
    empty = [name for name, value in found.items() if not value]
    if empty:
        raise SettingError(
            f"{', '.join(empty)} would be estimated as 0, because the log's rewards or contexts are all 0 (or "
            f"almost 0). Check the column of rewards first; if it is right, "
            f"pass {', '.join(f'{n}=...' for n in empty)}"
        )
    return found


def positive(name: str, value: float) -> None:
    """Raise SettingError unless the value is above 0 and neither too small nor too large to be squared."""
    if not SMALLEST <= float(value) <= LARGEST:
        raise SettingError(
            f"{name}={value}; must be a finite number above 0, from {SMALLEST:g} to {LARGEST:g}"
        )


def vector(name: str, values: ArrayLike, d: int) -> np.ndarray:
    """Return given parameters as an array of d finite numbers."""
    given = np.array(values, dtype=np.float64)
    if given.shape != (d,) or not np.isfinite(given).all():
        raise SettingError(f"{name} of shape {given.shape}; expected {d} finite numbers")
    return given


FloatOrArray = TypeVar("FloatOrArray", float, np.ndarray)


class ConfidenceEllipsoids:
    """For each action {θ : ‖θ − θ̂_a‖_{V_a} ≤ ρ_a}, V_a = λI + G_a, from a log's sums; K' = K.

    At radius_scale ≥ 1 they contain the true parameters of all actions at once with probability 1 − δ.
    """

    def __init__(self, sums: Statistics, assumptions: Assumptions) -> None:
        self.sums, self.assumptions = sums, assumptions

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        # (K, d) and (K, d, d)
        eigenvalues, vectors = np.linalg.eigh(self.sums.gram)
        return self._regular(eigenvalues), vectors

    def _regular(self, eigenvalues: np.ndarray) -> np.ndarray:
        # Rounding may leave an eigenvalue of a Gram matrix just below 0.
        return np.maximum(eigenvalues, 0) + self.assumptions.ridge

    @cached_property
    def inverse(self) -> np.ndarray:
        """V_a⁻¹, (K, d, d)."""
        eigenvalues, vectors = self._eigen
        return np.einsum("kij,kj,klj->kil", vectors, 1 / eigenvalues, vectors)

    @cached_property
    def theta(self) -> np.ndarray:
        """θ̂_a = V_a⁻¹ Σ x r, (K, d)."""
        return np.einsum("kij,kj->ki", self.inverse, self.sums.response)

    @cached_property
    def radius(self) -> np.ndarray:
        """ρ_a times radius_scale, (K,)."""
        return self.assumptions.radius_scale * self._radii(self._eigen[0], self.assumptions.radius)

    @cached_property
    def errors(self) -> np.ndarray:
        """Certified bound on ‖θ̂_a − θ*_a‖, (K,): always with radius determinant × 1."""
        eigenvalues = self._regular(np.linalg.eigvalsh(self.sums.gram))
        return self._radii(eigenvalues, "determinant") / np.sqrt(eigenvalues[:, 0])

    def _radii(self, eigenvalues: np.ndarray, name: str) -> np.ndarray:
        log_det = np.log(eigenvalues / self.assumptions.ridge).sum(axis=1)
        return radii(name, log_det, self.sums.counts, self.sums.n_features, self.assumptions)

    def limits(
        self, contexts: np.ndarray, reward_range: tuple[float, float] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """L_a(x) and U_a(x) = x·θ̂_a ∓ ρ_a·width_a(x), both (n, K), clipped to the reward range."""
        mean, spread = contexts @ self.theta.T, self.radius * widths(self.inverse, contexts)
        low, high = mean - spread, mean + spread
        if reward_range is not None:
            low, high = np.clip(low, *reward_range), np.clip(high, *reward_range)
        return low, high

    def own_lows(self, contexts: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """L_a(x) of each row's own action: contexts (n, d) and actions (n,) give (n,)."""
        low, order = np.empty(len(actions)), np.argsort(actions, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(actions, minlength=len(self.theta)))])
        for action in np.flatnonzero(np.diff(starts)):
            rows = order[starts[action] : starts[action + 1]]
            width = widths(self.inverse[action : action + 1], contexts[rows])[:, 0]
            low[rows] = contexts[rows] @ self.theta[action] - self.radius[action] * width
        return low


def widths(inverse: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """width_a(x) = sqrt(xᵀV_a⁻¹x) for V⁻¹ (K, d, d) and contexts (n, d), (n, K)."""
    squares = np.empty((len(contexts), len(inverse)))
    for action, matrix in enumerate(inverse):
        squares[:, action] = np.einsum("nd,nd->n", contexts @ matrix, contexts)
    return np.sqrt(np.maximum(squares, 0))


def radii(name: str, log_det: np.ndarray, counts: np.ndarray, d: int, bounds: Assumptions) -> np.ndarray:
    """ρ_a (K,) of this name, from log(det V_a/λ^d) and N_a, both (K,)."""
    log_delta = 2 * np.log(max(1, len(counts)) / bounds.delta)
    shared = bounds.noise, float(np.sqrt(bounds.ridge) * bounds.theta_bound), log_delta
    growth = bounds.context_bound**2 / bounds.ridge
    if name == "determinant":
        return determinant(log_det, *shared)
    if name == "trace":
        return trace(counts, growth / d, d, *shared)
    return np.full(len(counts), paper(int(counts.sum()), growth, d, *shared))


def determinant(log_det: FloatOrArray, noise: float, bias: float, log_delta: float) -> FloatOrArray:
    """σ·sqrt(log(det V/λ^d) + 2·log(K'/δ)) + √λ·S_θ, the tightest of the three."""
    return noise * np.sqrt(log_det + log_delta) + bias


def trace(
    rows: FloatOrArray, growth: float, d: int, noise: float, bias: float, log_delta: float
) -> FloatOrArray:
    """σ·sqrt(d·log(1 + N·S_x²/(λd)) + 2·log(K'/δ)) + √λ·S_θ, without a determinant; growth = S_x²/(λd)."""
    return noise * np.sqrt(d * np.log1p(rows * growth) + log_delta) + bias


def paper(total: float, growth: float, d: int, noise: float, bias: float, log_delta: float) -> float:
    """σ·sqrt(d·log(K'·(1 + t·S_x²/λ)/δ)) + √λ·S_θ (Eq. 12), proved for d ≥ 2 only.

    total is t, the number of rows in all learnt sets; growth = S_x²/λ.
    """
    return noise * np.sqrt(d * (np.log1p(total * growth) + log_delta / 2)) + bias


# An elbow divides N_a by at least ELBOW_DROP, and by more than ELBOW_DEVIATIONS standard deviations.
ELBOW_DROP = 2.0
ELBOW_DEVIATIONS = 4.0


@dataclass(frozen=True, eq=False)
class SupportedSet:
    """The actions of 𝓛: indices (L,), point estimates (L, d), and the rule that chose them."""

    actions: np.ndarray
    theta: np.ndarray
    how: str


SupportedSetRule = Callable[[Log, Statistics, Assumptions], SupportedSet]


def most_logged(size: int) -> SupportedSetRule:
    """Choose the actions with the most rows as the ε-supported set 𝓛 (Remark 3).

    Parameters
    ----------
    size : int
        Number of actions, at most as many as have rows.

    Returns
    -------
    callable
        Pass it as ``supported=`` to `eps_moful` or `eps_moful_ips`. It raises SettingError if an action has no rows.

    Examples
    --------
    >>> learner = sparing.eps_moful(log, supported=sparing.most_logged(10))
    """

    def choose(log: Log, sums: Statistics, assumptions: Assumptions) -> SupportedSet:
        if not 0 <= size <= sums.n_actions:
            raise SettingError(
                f"most_logged({size}); must be between 0 and {sums.n_actions}, the number of actions"
            )
        actions = np.argsort(-sums.counts, kind="stable")[:size]
        empty = actions[sums.counts[actions] == 0]
        if len(empty):
            logged = int((sums.counts > 0).sum())
            raise SettingError(
                f"most_logged({size}) includes action {log.action_names[empty[0]]!r}, which has no rows; "
                f"only {logged} actions have rows. Use most_logged({logged}) or fewer"
            )
        return _fitted(np.sort(actions), sums, assumptions, f"top({size})")

    return choose


def elbow() -> SupportedSetRule:
    """Choose the actions before the largest drop of the sorted row counts as the ε-supported set 𝓛.

    Returns
    -------
    callable
        Pass it as ``supported=`` to `eps_moful` or `eps_moful_ips`. It raises SettingError if no count is half of the
        one before or less.

    Examples
    --------
    >>> learner = sparing.eps_moful(log, supported=sparing.elbow())
    """

    def choose(log: Log, sums: Statistics, assumptions: Assumptions) -> SupportedSet:
        size = find_elbow(sums.counts, sums.n_features)
        if size is None:
            raise SettingError(
                "elbow() found no sharp drop in the actions' numbers of rows: none "
                f"({sums.counts.min()} to {sums.counts.max()}) is half of the next larger one or less. "
                "Choose a number of actions with most_logged(L), or use certified_within(ε)"
            )
        return replace(most_logged(size)(log, sums, assumptions), how=f"elbow() at {size}")

    return choose


def find_elbow(counts: np.ndarray, n_features: int) -> int | None:
    """Number of actions before the largest drop of the sorted counts, by the ratio of N_a + d; None without a clear drop."""
    ordered = np.sort(counts)[::-1].astype(float)
    high, low = ordered[:-1], ordered[1:]
    ratio = (high + n_features) / (low + n_features)
    sure = high - low > ELBOW_DEVIATIONS * np.sqrt(high + low)
    ratio[~(sure & (high >= ELBOW_DROP * low))] = 0
    return int(ratio.argmax()) + 1 if len(ratio) and ratio.max() > 0 else None


def more_logged_half(counts: np.ndarray) -> int:
    """Half the number of logged actions, at least 1."""
    return max(1, int((counts > 0).sum()) // 2)


def certified_within(error: float) -> SupportedSetRule:
    """Choose the actions with a certified estimation error as the ε-supported set 𝓛.

    The bound is ρ_a·sqrt(λ_max(V_a⁻¹)) with the determinant radius. It is conservative.

    Parameters
    ----------
    error : float
        Largest allowed bound on ‖θ̂_a − θ*_a‖, above 0.

    Returns
    -------
    callable
        Pass it as ``supported=`` to `eps_moful` or `eps_moful_ips`.

    Examples
    --------
    >>> learner = sparing.eps_moful(log, supported=sparing.certified_within(0.5))
    """
    positive("certified_within", error)

    def choose(log: Log, sums: Statistics, assumptions: Assumptions) -> SupportedSet:
        actions = np.flatnonzero(ConfidenceEllipsoids(sums, assumptions).errors <= error)
        theta = ridge_regression(sums, assumptions.ridge)[actions]
        return SupportedSet(actions, theta, f"certified_within({error:g})")

    return choose


def supported_actions(actions: Mapping[Any, Any] | Iterable[Any]) -> SupportedSetRule:
    """Choose given actions as the ε-supported set 𝓛.

    Parameters
    ----------
    actions : mapping or iterable
        Labels of actions, or a mapping from labels to parameters of shape (d,). Parameters that are missing or None
        are fitted to the log.

    Returns
    -------
    callable
        Pass it as ``supported=`` to `eps_moful` or `eps_moful_ips`. It raises SettingError for a label that is not in
        the log, and for an action with neither rows nor parameters.

    Examples
    --------
    >>> learner = sparing.eps_moful(log, supported=sparing.supported_actions(["a", "b"]))
    """
    parameters = dict(actions) if isinstance(actions, Mapping) else dict.fromkeys(actions)

    def choose(log: Log, sums: Statistics, assumptions: Assumptions) -> SupportedSet:
        index = {name: i for i, name in enumerate(log.action_names)}
        unknown = [label for label in parameters if label not in index]
        if unknown:
            raise SettingError(f"given action {unknown[0]!r} is not one of the log's {log.n_actions} actions")
        numbers = np.array(sorted(index[label] for label in parameters), dtype=np.int64)
        fitted = _fitted(numbers, sums, assumptions, f"given({len(numbers)} actions)")
        for row, action in enumerate(numbers):
            name = log.action_names[action]
            theta = parameters[name]
            if theta is not None:
                fitted.theta[row] = vector(f"theta given for {name!r}", theta, sums.n_features)
            elif sums.counts[action] == 0:
                raise SettingError(f"given action {name!r} has no rows to fit; give its parameters")
        return fitted

    return choose


def _fitted(actions: np.ndarray, sums: Statistics, assumptions: Assumptions, how: str) -> SupportedSet:
    return SupportedSet(actions, least_squares(sums, assumptions.ridge)[actions], how)
