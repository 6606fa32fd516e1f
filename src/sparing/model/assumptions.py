"""What a learner takes as given: noise, bounds, ridge, δ — and which of them were estimated."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sparing.errors import SettingError
from sparing.log.limits import LARGEST
from sparing.model.statistics import Statistics, residual_noise, ridge_regression
from sparing.validation import fraction, one_of

RADII = ("determinant", "trace", "paper")
"""The forms of a confidence set's radius, see ellipsoids.py."""

SMALLEST = 1e-50
"""The smallest setting that is not 0: products of smaller ones underflow."""


@dataclass(frozen=True)
class Assumptions:
    """The numbers behind every confidence set, shown wherever a result is."""

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
        """Check what was given and estimate the rest from the log's sums."""
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
        """What a promise rests on beyond the model: values nobody gave."""
        named = [f"{name} = {getattr(self, name):.4g}" for name in (*self.estimated, *self.assumed)]
        return f"conditional on estimated or assumed {', '.join(named)}" if named else ""

    def __str__(self) -> str:
        def shown(name: str) -> str:
            mark = " (estimated)" if name in self.estimated else " (assumed)" if name in self.assumed else ""
            return f"{name} {getattr(self, name):.4g}{mark}"

        values = ", ".join(
            shown(name) for name in ("noise", "theta_bound", "context_bound", "ridge", "delta")
        )
        return f"{values}, radius {self.radius} × {self.radius_scale:g}"


def _estimates(missing: tuple[str, ...], sums: Statistics | None, ridge: float) -> dict[str, float]:
    """What the log says of these; an error where it says nothing."""
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
            f"next to it): it says nothing about untried actions. Look at the column of rewards first; if it is right, "
            f"pass {', '.join(f'{n}=...' for n in empty)}"
        )
    return found


def positive(name: str, value: float) -> None:
    """Refuse what is not a number above 0, or too small or large to be squared."""
    if not SMALLEST <= float(value) <= LARGEST:
        raise SettingError(
            f"{name}={value}; must be a finite number above 0, from {SMALLEST:g} to {LARGEST:g}"
        )


def vector(name: str, values: ArrayLike, d: int) -> np.ndarray:
    """Parameters of the caller's, (d,), as finite numbers."""
    given = np.array(values, dtype=np.float64)
    if given.shape != (d,) or not np.isfinite(given).all():
        raise SettingError(f"{name} of shape {given.shape}; expected {d} finite numbers")
    return given
