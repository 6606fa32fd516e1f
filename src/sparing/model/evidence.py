"""The evidence of a log for the scales of a prior, exactly, from per-action sums alone.

The model, for the encoded context x and z_a = (1, standardised item features):

    r = x·θ_a + noise,   θ_a = W z_a + η_a,   η_a ~ N(0, S),   S = diag(spread²), one spread a block of coordinates

column 0 of W is nearly flat, the others are N(0, slope²) by blocks. With x scaled by the spread, so that S = I:

    V_a = σ²I + G_a,   A_a = I − σ²V_a⁻¹,   h_a = V_a⁻¹b_a,   P = P₀ + Σ_a z_a z_aᵀ ⊗ A_a,   vec Ŵ = P⁻¹ Σ_a z_a ⊗ h_a
    log evidence = Σ_a[−½ log det(V_a/σ²) + b_aᵀV_a⁻¹b_a/2σ² − ½N_a log 2πσ² − Σr²/2σ²] + ½ log det P₀ − ½ log det P + ½ hᵀP⁻¹h
"""

from typing import NamedTuple

import numpy as np

from sparing.model.statistics import Statistics

MOST_WORK = 1e8
"""Actions times d³ from which the scales are learnt from a part of the actions, evenly spaced."""

REGULAR = 1e-12
"""The least ridge, as a share of a matrix's trace, with which it is inverted."""

AT_ONCE = 128
"""Actions whose matrices are worked on at a time."""

CACHED = 2**18
"""Cells of matrices that are worked on at a time where that is done often."""


class Scales(NamedTuple):
    """σ, and for each coordinate (d,): the deviation of η, and that of the columns of W but the first."""

    noise: float
    spread: np.ndarray
    slope: np.ndarray


class Rows(NamedTuple):
    """What logged actions say: N (m,), G (m, d, d), Σxr (m, d), Σr² (m,), z (m, q); `flat` (d,) is the deviation of W's column
    0, or None where W is known (and taken out)."""

    counts: np.ndarray
    gram: np.ndarray
    response: np.ndarray
    squares: np.ndarray
    items: np.ndarray
    flat: np.ndarray | None

    @classmethod
    def of(
        cls, sums: Statistics, items: np.ndarray, flat: np.ndarray | None, mean: np.ndarray | None
    ) -> "Rows":
        """Of the logged actions; of r − x·mean where a mean is given."""
        known = sums.counts > 0
        gram, response, squares = (part[known] for part in (sums.gram, sums.response, sums.squares))
        if mean is not None:
            fitted = gram @ mean
            squares = np.maximum(squares + (fitted - 2 * response) @ mean, 0.0)
            response = response - fitted
        return cls(sums.counts[known].astype(float), gram, response, squares, items[known], flat)

    def some(self) -> "Rows":
        """A part of the actions, evenly spaced, where all would take too long."""
        m, d = self.response.shape
        step = max(1, int(np.ceil(m * d**3 / MOST_WORK)))
        return Rows(*(part[::step] for part in self[:-1]), self.flat)  # type: ignore[call-arg]


class Fit(NamedTuple):
    """Rows at given scales, in scaled coordinates: W (q, d) and its covariance (q, d, q, d), the log evidence and its gradient by
    log σ and by the logarithms of every coordinate's spread and slope, and how much of each spread the rows can tell (d,)."""

    weights: np.ndarray
    doubt: np.ndarray
    evidence: float
    by_noise: float
    by_spread: np.ndarray
    by_slope: np.ndarray
    told: np.ndarray


class Seen(NamedTuple):
    """Of many actions, in scaled coordinates: A (m, d, d), the diagonal of σ²V⁻¹ (m, d), h = V⁻¹b (m, d), and Σ log det V."""

    share: np.ndarray
    left: np.ndarray
    pull: np.ndarray
    volume: float


def fit(rows: Rows, scales: Scales) -> Fit:
    """Average W out, exactly. The gradient is Fisher's identity: the expectation, given the rows, of that of the joint density."""
    spread, z = scales.spread, rows.items
    (m, d), q = rows.response.shape, z.shape[1]
    diagonal = np.einsum("kii->ki", rows.gram) * spread**2
    square = max(scales.noise**2, REGULAR * float(diagonal.sum(axis=1).max(initial=0.0)))
    seen = _seen(rows, spread, square)
    weights, doubt, gained = _averaged(rows, scales, *_gathered(z, seen.share, seen.pull))
    volume = seen.volume - m * d * np.log(square)
    explained = np.einsum("ki,ki->", rows.response * spread, seen.pull)
    loss = (rows.squares.sum() - explained) / square + rows.counts.sum() * np.log(2 * np.pi * square) + volume
    centre = z @ weights
    own = seen.pull - np.einsum("kij,kj->ki", seen.share, centre)  # E η_a
    once, twice = _doubted(seen.share, doubt, z)
    variance = seen.left.sum(axis=0) + twice
    mean = (centre + own) * spread
    residual = rows.squares.sum() - 2 * np.einsum("ki,ki->", rows.response, mean)
    residual += np.einsum("ki,ki->", (rows.gram @ mean[:, :, None])[:, :, 0], mean)
    residual += square * (np.einsum("kii->", seen.share) + once - twice.sum())
    by_slope = np.zeros(d)
    if q > 1:
        moments = weights[1:] ** 2 + np.einsum("kiki->ki", doubt)[1:]
        by_slope = (moments * (spread / scales.slope) ** 2 - 1).sum(axis=0)
    return Fit(
        weights,
        doubt,
        gained - 0.5 * loss,
        residual / square - rows.counts.sum(),
        (own**2).sum(axis=0) + variance - m,
        by_slope,
        m - variance,
    )


def _parts(m: int, d: int) -> list[slice]:
    """Slices of m actions whose matrices stay in the cache."""
    size = max(1, CACHED // d**2)
    return [slice(start, start + size) for start in range(0, m, size)]


def _seen(rows: Rows, spread: np.ndarray, square: float) -> Seen:
    """A, σ²V⁻¹ and h of every action, at this σ²."""
    (m, d), volume = rows.response.shape, 0.0
    share, left, pull = np.empty((m, d, d)), np.empty((m, d)), np.empty((m, d))
    scale, ridge, unit = spread[:, None] * spread, square * np.eye(d), np.eye(d)
    for part in _parts(m, d):
        inverse, size = _inverses(rows.gram[part] * scale + ridge)
        volume += size
        pull[part] = np.einsum("kij,kj->ki", inverse, rows.response[part] * spread)
        inverse *= square
        left[part] = np.einsum("kii->ki", inverse)
        np.subtract(unit, inverse, out=share[part])
    return Seen(share, left, pull, volume)


def _doubted(share: np.ndarray, doubt: np.ndarray, z: np.ndarray) -> tuple[float, np.ndarray]:
    """Σ_a tr A_aC_a and the diagonal of Σ_a A_aC_aA_a (d,), C_a = (z_a⊗I)ᵀP⁻¹(z_a⊗I)."""
    (m, d, _), q = share.shape, z.shape[1]
    once, twice = 0.0, np.zeros(d)
    for part in _parts(m, d):
        known = share[part]
        if q == 1:
            product = (known.reshape(-1, d) @ doubt[0, :, 0]).reshape(known.shape)
        else:
            product = known @ doubts(doubt, z[part])
        once += float(np.einsum("kii->", product))
        twice += np.einsum("kij,kij->i", product, known)
    return once, twice


def _inverses(matrices: np.ndarray) -> tuple[np.ndarray, float]:
    """The inverse of each of many (m, d, d), exactly symmetric, and the sum of their log det."""
    root = np.linalg.cholesky(matrices)
    return inverses(root), 2 * float(np.log(np.einsum("kii->ki", root)).sum())


def regular(noise: float, gram: np.ndarray) -> float:
    """σ², or the least with which σ²I + G can be inverted for all of these (m, d, d)."""
    return max(noise**2, REGULAR * float(np.einsum("kii->k", gram).max(initial=0.0)))


def inverses(root: np.ndarray) -> np.ndarray:
    """(L Lᵀ)⁻¹ for each of many, exactly symmetric."""
    half = np.linalg.inv(root)
    return np.swapaxes(half, 1, 2) @ half


def common(rows: Rows, scales: Scales) -> tuple[np.ndarray, np.ndarray]:
    """Ŵ (q, d) and its covariance (q, d, q, d) alone, in bounded memory however many actions there are."""
    spread, (m, d) = scales.spread, rows.response.shape
    q = rows.items.shape[1]
    blocks, pulled = np.zeros((q, q, d, d)), np.zeros((q, d))
    for start in range(0, m, AT_ONCE):
        part = slice(start, start + AT_ONCE)
        gram = rows.gram[part] * (spread[:, None] * spread)
        square = regular(scales.noise, gram)
        inverse = inverses(np.linalg.cholesky(gram + square * np.eye(d)))
        pull = np.einsum("kij,kj->ki", inverse, rows.response[part] * spread)
        more = _gathered(rows.items[part], np.eye(d) - square * inverse, pull)
        blocks, pulled = blocks + more[0], pulled + more[1]
    return _averaged(rows, scales, blocks, pulled)[:2]


def _gathered(z: np.ndarray, seen: np.ndarray, pull: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Σ_a z_a z_aᵀ ⊗ A_a, (q, q, d, d), and Σ_a z_a ⊗ h_a, (q, d)."""
    (m, d), q = pull.shape, z.shape[1]
    pairs = (z[:, :, None] * z[:, None, :]).reshape(m, q * q)
    return (pairs.T @ seen.reshape(m, d * d)).reshape(q, q, d, d), z.T @ pull


def _averaged(
    rows: Rows, scales: Scales, blocks: np.ndarray, pulled: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Ŵ (q, d), its covariance (q, d, q, d), and what averaging over W adds to the log evidence."""
    q, d = pulled.shape
    if rows.flat is None:
        return np.zeros((q, d)), np.zeros((q, d, q, d)), 0.0
    before = np.tile((scales.spread / scales.slope) ** 2, (q, 1))
    before[0] = (scales.spread / rows.flat) ** 2
    precision = np.swapaxes(blocks, 1, 2).reshape(q * d, q * d) + np.diag(before.ravel())
    doubt, volume = _inverse(precision, float(before.min()))
    weights = doubt @ pulled.ravel()
    gained = 0.5 * (np.log(before).sum() - volume + pulled.ravel() @ weights)
    return weights.reshape(q, d), doubt.reshape(q, d, q, d), float(gained)


def _inverse(matrix: np.ndarray, least: float) -> tuple[np.ndarray, float]:
    """A symmetric matrix's inverse and log det; none of its eigenvalues is below `least`, whatever rounding made of them."""
    try:
        root = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        values = np.maximum(values, least)
        return (vectors / values) @ vectors.T, float(np.log(values).sum())
    half = np.linalg.inv(root)
    return half.T @ half, 2 * float(np.log(np.diag(root)).sum())


def doubts(doubt: np.ndarray, items: np.ndarray) -> np.ndarray:
    """C_a = (z_a⊗I)ᵀP⁻¹(z_a⊗I), (m, d, d)."""
    return np.asarray(np.einsum("kp,piqj,kq->kij", items, doubt, items, optimize=True))
