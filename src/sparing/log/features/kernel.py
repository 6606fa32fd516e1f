"""Nyström features: what a linear model needs to follow a smooth function of the context."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparing.errors import SettingError
from sparing.validation import integer

SAMPLE = 4096
"""Rows that landmarks are chosen among, at most."""

PAIRED = 512
"""Rows whose distances say how wide the kernel is."""

NARROW = 0.7
"""The kernel's width over the median distance of two rows."""

FLAT = 1e-6
"""Directions of the landmarks' kernel matrix below this share of the largest are left out."""


@dataclass(frozen=True)
class Nystroem:
    """The number of kernel features to add to the linear ones."""

    landmarks: int

    def __post_init__(self) -> None:
        integer("landmarks", self.landmarks, least=1, hint=", such as 128")


def nystroem(landmarks: int = 128) -> Nystroem:
    """Declare kernel features, for the `kernel` parameter of `sparing.features`.

    Parameters
    ----------
    landmarks : int
        Number of landmarks, and so the largest number of kernel features.

    Returns
    -------
    Nystroem

    Examples
    --------
    >>> import sparing
    >>> sparing.features("auto", kernel=sparing.nystroem(64)).kernel
    Nystroem(landmarks=64)
    """
    return Nystroem(landmarks)


@dataclass(frozen=True, eq=False)
class NystroemMap:
    """φ(x) = k(x, L)·K_LL^(−½) with k(x, y) = exp(−‖x − y‖²/2w²), so that φ(x)·φ(y) ≈ k(x, y).

    landmarks (m, d) are rows of the linear features without the constant, `root` (m, r) is K_LL^(−½).
    """

    landmarks: np.ndarray
    width: float
    root: np.ndarray

    @classmethod
    def fit(cls, rows: np.ndarray, wanted: int, seed: int = 0) -> "NystroemMap":
        """Landmarks by k-means++ and a few rounds of k-means on (a sample of) the log's linear features (n, d)."""
        from scipy.cluster.vq import kmeans2

        rng = np.random.default_rng(seed)
        some = rows[rng.choice(len(rows), SAMPLE, replace=False)] if len(rows) > SAMPLE else rows
        distinct = np.unique(some, axis=0)
        if len(distinct) < 2:
            raise SettingError(
                "kernel features need two different contexts or more; the log has one. Leave kernel out"
            )
        if wanted < len(distinct):
            landmarks, _ = kmeans2(distinct, wanted, iter=10, minit="++", rng=rng)
        else:
            landmarks = distinct
        few = distinct[rng.choice(len(distinct), min(PAIRED, len(distinct)), replace=False)]
        squares = _squares(few, few)[np.triu_indices(len(few), 1)]
        width = NARROW * float(np.sqrt(np.median(squares[squares > 0])))
        values, vectors = np.linalg.eigh(np.exp(-_squares(landmarks, landmarks) / (2 * width**2)))
        kept = values > FLAT * values[-1]
        return cls(np.ascontiguousarray(landmarks), width, vectors[:, kept] / np.sqrt(values[kept]))

    @property
    def size(self) -> int:
        """How many features it makes, r."""
        return int(self.root.shape[1])

    @cached_property
    def comparison(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Lᵀ/w², ‖L‖²/2w² and 1/2w²: what a row is compared by."""
        half = 0.5 / self.width**2
        return 2 * half * self.landmarks.T, half * (self.landmarks**2).sum(axis=1), half

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """φ of linear features (n, d) or (d,), (n, r) or (r,)."""
        towards, away, half = self.comparison
        exponent = x @ towards
        exponent -= away
        exponent -= half * (x * x).sum(axis=-1)[..., None] if x.ndim == 2 else half * (x @ x)
        return np.asarray(np.exp(np.minimum(exponent, 0.0, out=exponent), out=exponent) @ self.root)

    def header(self) -> dict[str, Any]:
        """The kernel as JSON."""
        return {"landmarks": self.landmarks.tolist(), "width": self.width, "root": self.root.tolist()}

    @classmethod
    def from_header(cls, saved: dict[str, Any], d: int) -> "NystroemMap":
        """The kernel from JSON, for d linear features; a ValueError where it does not fit."""
        landmarks, root = (np.array(saved[name], dtype=np.float64) for name in ("landmarks", "root"))
        width = float(saved["width"])
        if landmarks.ndim != 2 or landmarks.shape[1] != d or root.ndim != 2 or len(root) != len(landmarks):
            raise ValueError(f"landmarks of shape {landmarks.shape} with a root of shape {root.shape}")
        if not (np.isfinite(landmarks).all() and np.isfinite(root).all() and 0 < width < np.inf):
            raise ValueError("landmarks that are not finite")
        return cls(landmarks, width, root)


def _squares(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """‖x_i − y_j‖², (n, m)."""
    squares = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1) - 2 * x @ y.T
    return np.asarray(np.maximum(squares, 0))
