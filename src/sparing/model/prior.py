"""Empirical-Bayes prior of the parameters of all actions, fitted to the logged ones by maximum evidence."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from sparing.errors import SettingError
from sparing.log.features.encoder import CONSTANT
from sparing.model.confidence import positive, vector
from sparing.model.statistics import SMALLEST_NOISE, Statistics, least_squares

MOST_WORK = 1e8  # actions × d³; with more, the scales are fitted to evenly spaced actions
REGULAR = 1e-12  # least ridge of an inverted matrix, as a share of its trace
AT_ONCE = 128  # actions per batch of matrices
CACHED = 2**18  # matrix cells per batch, so that a batch stays in the cache


class PriorScales(NamedTuple):
    """σ, and for each coordinate (d,) the standard deviations of η and of the columns of W except the first."""

    noise: float
    spread: np.ndarray
    slope: np.ndarray


class ActionSums(NamedTuple):
    """Sums of the logged actions: N (m,), G (m, d, d), Σxr (m, d), Σr² (m,), z (m, q).

    `flat` (d,) is the standard deviation of W's column 0, or None if W is known; its mean is then subtracted.
    """

    counts: np.ndarray
    gram: np.ndarray
    response: np.ndarray
    squares: np.ndarray
    items: np.ndarray
    flat: np.ndarray | None

    @classmethod
    def of(
        cls, sums: Statistics, items: np.ndarray, flat: np.ndarray | None, mean: np.ndarray | None
    ) -> "ActionSums":
        """Select the logged actions; with a mean (d,), the sums are those of r − x·mean."""
        known = sums.counts > 0
        gram, response, squares = (part[known] for part in (sums.gram, sums.response, sums.squares))
        if mean is not None:
            fitted = gram @ mean
            squares = np.maximum(squares + (fitted - 2 * response) @ mean, 0.0)
            response = response - fitted
        return cls(sums.counts[known].astype(float), gram, response, squares, items[known], flat)

    def some(self) -> "ActionSums":
        """Return evenly spaced actions if all would take too long."""
        m, d = self.response.shape
        step = max(1, int(np.ceil(m * d**3 / MOST_WORK)))
        return ActionSums(*(part[::step] for part in self[:-1]), self.flat)  # type: ignore[call-arg]


class EvidenceFit(NamedTuple):
    """The fit at given scales, in scaled coordinates.

    W (q, d) and its covariance (q, d, q, d); the log evidence and its gradient by log σ and by the logarithms of each
    coordinate's spread and slope; and the effective number of actions that inform each spread (d,).
    """

    weights: np.ndarray
    coefficient_covariance: np.ndarray
    evidence: float
    by_noise: float
    by_spread: np.ndarray
    by_slope: np.ndarray
    n_informative: np.ndarray


def fit(rows: ActionSums, scales: PriorScales) -> EvidenceFit:
    """Integrate W out exactly.

    By Fisher's identity the gradient is the posterior expectation of the gradient of the joint log density.
    """
    spread, z = scales.spread, rows.items
    (m, d), q = rows.response.shape, z.shape[1]
    diagonal = np.einsum("kii->ki", rows.gram) * spread**2
    square = max(scales.noise**2, REGULAR * float(diagonal.sum(axis=1).max(initial=0.0)))
    share, left, estimate, volume = _shrinkage_terms(rows, spread, square)
    weights, covariance, gained = _averaged(rows, scales, *_gathered(z, share, estimate))
    volume -= m * d * np.log(square)
    explained = np.einsum("ki,ki->", rows.response * spread, estimate)
    loss = (rows.squares.sum() - explained) / square + rows.counts.sum() * np.log(2 * np.pi * square) + volume
    centre = z @ weights
    own = estimate - np.einsum("kij,kj->ki", share, centre)  # E η_a
    once, twice = _coefficient_variance(share, covariance, z)
    variance = left.sum(axis=0) + twice
    mean = (centre + own) * spread
    residual = rows.squares.sum() - 2 * np.einsum("ki,ki->", rows.response, mean)
    residual += np.einsum("ki,ki->", (rows.gram @ mean[:, :, None])[:, :, 0], mean)
    residual += square * (np.einsum("kii->", share) + once - twice.sum())
    by_slope = np.zeros(d)
    if q > 1:
        moments = weights[1:] ** 2 + np.einsum("kiki->ki", covariance)[1:]
        by_slope = (moments * (spread / scales.slope) ** 2 - 1).sum(axis=0)
    return EvidenceFit(
        weights,
        covariance,
        gained - 0.5 * loss,
        residual / square - rows.counts.sum(),
        (own**2).sum(axis=0) + variance - m,
        by_slope,
        m - variance,
    )


def _parts(m: int, d: int) -> list[slice]:
    size = max(1, CACHED // d**2)
    return [slice(start, start + size) for start in range(0, m, size)]


def _shrinkage_terms(
    rows: ActionSums, spread: np.ndarray, square: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """In scaled coordinates: A (m, d, d), the diagonal of σ²V⁻¹ (m, d), h = V⁻¹b (m, d), and Σ log det V."""
    (m, d), volume = rows.response.shape, 0.0
    share, left, estimate = np.empty((m, d, d)), np.empty((m, d)), np.empty((m, d))
    scale, ridge, unit = spread[:, None] * spread, square * np.eye(d), np.eye(d)
    for part in _parts(m, d):
        inverse, size = _inverses(rows.gram[part] * scale + ridge)
        volume += size
        estimate[part] = np.einsum("kij,kj->ki", inverse, rows.response[part] * spread)
        inverse *= square
        left[part] = np.einsum("kii->ki", inverse)
        np.subtract(unit, inverse, out=share[part])
    return share, left, estimate, volume


def _coefficient_variance(
    share: np.ndarray, covariance: np.ndarray, z: np.ndarray
) -> tuple[float, np.ndarray]:
    """Σ_a tr A_aC_a and the diagonal of Σ_a A_aC_aA_a (d,), C_a = (z_a⊗I)ᵀP⁻¹(z_a⊗I)."""
    (m, d, _), q = share.shape, z.shape[1]
    once, twice = 0.0, np.zeros(d)
    for part in _parts(m, d):
        known = share[part]
        if q == 1:
            product = (known.reshape(-1, d) @ covariance[0, :, 0]).reshape(known.shape)
        else:
            product = known @ item_variances(covariance, z[part])
        once += float(np.einsum("kii->", product))
        twice += np.einsum("kij,kij->i", product, known)
    return once, twice


def _inverses(matrices: np.ndarray) -> tuple[np.ndarray, float]:
    """Exactly symmetric inverses (m, d, d), and the sum of the log determinants."""
    root = np.linalg.cholesky(matrices)
    return inverses(root), 2 * float(np.log(np.einsum("kii->ki", root)).sum())


def regular(noise: float, gram: np.ndarray) -> float:
    """σ², or the least value with which σ²I + G is invertible for all G (m, d, d)."""
    return max(noise**2, REGULAR * float(np.einsum("kii->k", gram).max(initial=0.0)))


def inverses(root: np.ndarray) -> np.ndarray:
    """(L Lᵀ)⁻¹ for L (m, d, d), exactly symmetric."""
    half = np.linalg.inv(root)
    return np.swapaxes(half, 1, 2) @ half


def scaled_inverses(gram: np.ndarray, noise: float, spread: np.ndarray) -> tuple[np.ndarray, float]:
    """(σ²I + SGS)⁻¹ for G (m, d, d) and S = diag(spread), and σ², or the least value with which they exist."""
    scaled = gram * (spread[:, None] * spread)
    square = regular(noise, scaled)
    return inverses(np.linalg.cholesky(scaled + square * np.eye(len(spread)))), square


def common(rows: ActionSums, scales: PriorScales) -> tuple[np.ndarray, np.ndarray]:
    """Ŵ (q, d) and its covariance (q, d, q, d) without the evidence, in memory independent of the number of actions."""
    spread, (m, d) = scales.spread, rows.response.shape
    q = rows.items.shape[1]
    blocks, gathered = np.zeros((q, q, d, d)), np.zeros((q, d))
    for start in range(0, m, AT_ONCE):
        part = slice(start, start + AT_ONCE)
        inverse, square = scaled_inverses(rows.gram[part], scales.noise, spread)
        estimate = np.einsum("kij,kj->ki", inverse, rows.response[part] * spread)
        more = _gathered(rows.items[part], np.eye(d) - square * inverse, estimate)
        blocks, gathered = blocks + more[0], gathered + more[1]
    return _averaged(rows, scales, blocks, gathered)[:2]


def _gathered(z: np.ndarray, seen: np.ndarray, estimate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Σ_a z_a z_aᵀ ⊗ A_a, (q, q, d, d), and Σ_a z_a ⊗ h_a, (q, d)."""
    (m, d), q = estimate.shape, z.shape[1]
    pairs = (z[:, :, None] * z[:, None, :]).reshape(m, q * q)
    return (pairs.T @ seen.reshape(m, d * d)).reshape(q, q, d, d), z.T @ estimate


def _averaged(
    rows: ActionSums, scales: PriorScales, blocks: np.ndarray, gathered: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Ŵ (q, d), its covariance (q, d, q, d), and the change of the log evidence by integrating W out."""
    q, d = gathered.shape
    if rows.flat is None:
        return np.zeros((q, d)), np.zeros((q, d, q, d)), 0.0
    before = np.tile((scales.spread / scales.slope) ** 2, (q, 1))
    before[0] = (scales.spread / rows.flat) ** 2
    precision = np.swapaxes(blocks, 1, 2).reshape(q * d, q * d) + np.diag(before.ravel())
    covariance, volume = _inverse(precision, float(before.min()))
    weights = covariance @ gathered.ravel()
    gained = 0.5 * (np.log(before).sum() - volume + gathered.ravel() @ weights)
    return weights.reshape(q, d), covariance.reshape(q, d, q, d), float(gained)


def _inverse(matrix: np.ndarray, least: float) -> tuple[np.ndarray, float]:
    """Inverse and log determinant of a symmetric matrix; eigenvalues below `least` are rounding errors."""
    try:
        root = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        values = np.maximum(values, least)
        return (vectors / values) @ vectors.T, float(np.log(values).sum())
    half = np.linalg.inv(root)
    return half.T @ half, 2 * float(np.log(np.diag(root)).sum())


def item_variances(covariance: np.ndarray, items: np.ndarray) -> np.ndarray:
    """C_a = (z_a⊗I)ᵀP⁻¹(z_a⊗I), (m, d, d)."""
    return np.asarray(np.einsum("kp,piqj,kq->kij", items, covariance, items, optimize=True))


# Hyperprior: medians of the deviation between actions over 19 real problems, in reward deviations, and the deviation of its
# logarithm between problems (docs/research-notes.md): of the level (constant features), and of the slopes of a block.
LEVEL, SLOPES, LOG_DEVIATION = 0.34, 0.23, 0.73
PROPOSALS = 64  # scales at which their posterior is evaluated; even
WIDER = 1.5  # proposals are this much wider than the normal approximation of the posterior

FLOOR = 1e-3  # least spread, as a share of the hyperprior's
STEEPEST = 1e5  # largest ratio of the deviation of column 0 to the spread
NEARBY = 1e-7  # relative tolerance of a search that starts near its end


class Evidence(NamedTuple):
    """The log evidence at the fitted scales: σ, and the spread of each block by name."""

    value: float
    noise: float
    spreads: dict[str, float]


class ScalePosterior(NamedTuple):
    """The posterior of the scales, as weighted points; the weights (n,) sum to 1."""

    points: tuple[PriorScales, ...]
    weights: np.ndarray

    def spread(self) -> np.ndarray:
        """Root mean square of the spread, (d,): the deviation of a parameter whose scale is not known."""
        return np.sqrt(self.weights @ np.array([each.spread for each in self.points]) ** 2)


class Search:
    """Maximise evidence times hyperprior by L-BFGS over the logarithms of the free scales, of which the noise is one."""

    def __init__(
        self, rows: ActionSums, blocks: "FeatureBlocks", start: PriorScales, *, spread: bool
    ) -> None:
        self.rows, self.blocks, self.start = rows, blocks, start
        m, q, width = len(rows.counts), rows.items.shape[1], np.bincount(blocks.of)
        _, first = np.unique(blocks.of, return_index=True)
        self.free = [i for i, free in enumerate((spread, q > 1, True)) if free]
        expected = start.spread[first], start.slope[first], np.array([start.noise])
        floor = np.full(len(width), FLOOR)
        if rows.flat is not None:
            floor = np.maximum(floor, (rows.flat / start.spread)[first] / STEEPEST)
        lowest = floor, floor, np.array([SMALLEST_NOISE])
        # Steps in units of each scale's standard error, so that all directions have about the same curvature.
        unit = np.sqrt(1 + m * width), np.sqrt(1 + (q - 1) * width), np.sqrt([1 + rows.counts.sum()])
        own, slopes = (np.full(len(width), LOG_DEVIATION),) * 2
        known = own, slopes, np.ones(1)
        self.expected, self.lowest, self.unit, self.deviation = map(
            self._chosen, (expected, lowest, unit, known)
        )
        self.ends = np.cumsum([len(expected[i]) for i in self.free])[:-1]

    def _chosen(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate([parts[i] for i in self.free])

    def scales(self, step: np.ndarray) -> PriorScales:
        """Return the scales at a step from those of the hyperprior."""
        values = np.split(self.expected * np.exp(step / self.unit), self.ends)
        found = dict(zip(self.free, values, strict=True))
        return PriorScales(
            float(found[2][0]),
            found[0][self.blocks.of] if 0 in found else self.start.spread,
            found[1][self.blocks.of] if 1 in found else self.start.slope,
        )

    def loss(self, step: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the negative log posterior and its gradient."""
        found, away = fit(self.rows, self.scales(step)), step / self.unit
        by_blocks = self.blocks.sums(found.by_spread), self.blocks.sums(found.by_slope)
        slope = self._chosen((*by_blocks, np.array([found.by_noise]))) - away / self.deviation**2
        return float(0.5 * ((away / self.deviation) ** 2).sum()) - found.evidence, -slope / self.unit

    def best(self, near: Evidence | None = None) -> PriorScales:
        """Minimise the loss, starting just below the hyperprior's scales.

        With `near`, the evidence of a similar model, start from its scales and stop at a looser tolerance.
        """
        from scipy import optimize  # slow to import

        low, high = np.log(self.lowest), -np.log(FLOOR)
        begin, close = np.maximum(-0.5, low / 2), 1e-10
        if near is not None:
            spreads = [near.spreads.get(name, np.nan) for name in self.blocks.names]
            known = np.log(np.array([*spreads, near.noise]) / self.expected)
            begin, close = np.where(np.isnan(known), begin, np.clip(known, low, high)), NEARBY
            n_informative = self.blocks.sums(fit(self.rows, self.scales(begin * self.unit)).n_informative)
            n_informative = np.append(n_informative, self.rows.counts.sum() - n_informative.sum())
            self.unit = np.sqrt(1 + 2 * np.maximum(n_informative, 0.0))
        least = None

        def above(step: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal least
            value, slope = self.loss(step)
            least = value if least is None else least
            return value - least, slope

        bounds = list(zip((low * self.unit).tolist(), (high * self.unit).tolist(), strict=True))
        limits: Any = {"maxiter": 60, "ftol": close, "gtol": 1e-4}
        steps = begin * self.unit
        found = optimize.minimize(above, steps, jac=True, method="L-BFGS-B", bounds=bounds, options=limits)
        self.mode = found.x
        return self.scales(found.x)

    def posterior(self) -> "ScalePosterior":
        """Importance-weighted scales around the mode; `best` must have been called.

        The proposal is the normal approximation by the curvature of the loss, made wider.
        """
        n = len(self.mode)
        known, (least, _) = self.unit * self.deviation, self.loss(self.mode)
        curvature = np.empty((n, n))
        for i in range(n):
            shift = np.zeros(n)
            shift[i] = 0.05 * known[i]
            change = self.loss(self.mode + shift)[1] - self.loss(self.mode - shift)[1]
            curvature[i] = change / (2 * shift[i])
        values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
        values = np.maximum(values, float((1 / known**2).min()))  # no wider than the hyperprior
        half = np.random.default_rng(n).standard_normal((PROPOSALS // 2, n))
        z = np.concatenate([half, -half])
        steps = self.mode + WIDER * (z / np.sqrt(values)) @ vectors.T
        steps = np.clip(steps, np.log(self.lowest) * self.unit, -np.log(FLOOR) * self.unit)
        weights = np.array([least - self.loss(each)[0] for each in steps]) + 0.5 * (z**2).sum(axis=1)
        weights = np.exp(weights - weights.max())
        return ScalePosterior(tuple(map(self.scales, steps)), weights / weights.sum())


FLAT = 30.0  # deviation of W's column 0 in root mean square rewards,
FLATTEST = 1e4  # at most, in reward deviations
LEAST_ACTIONS = 3  # least well-logged actions for `spread_between_actions`;
BETWEEN = "between"  # its mark in `given`
MOST_BLOCKS = 8  # with more blocks, the narrowest are joined


class FeatureBlocks(NamedTuple):
    """Coordinates that share a scale: the block index of each coordinate (d,), and the names of the blocks."""

    of: np.ndarray
    names: tuple[str, ...]

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sum values (d,) by block."""
        return np.bincount(self.of, weights=values, minlength=len(self.names))

    def by_name(self, values: np.ndarray) -> dict[str, float]:
        """The value (d,) that each block's coordinates share."""
        return {name: float(values[self.of == j][0]) for j, name in enumerate(self.names)}


def constant_features(sums: Statistics) -> np.ndarray:
    """Mask (d,) of features whose mean square is the same for all logged actions; with one action, 1."""
    known = sums.counts > 0
    squares = np.einsum("kii->ki", sums.gram)[known] / sums.counts[known, None]
    level = squares[0] if len(squares) > 1 else np.ones(sums.n_features)
    return (np.abs(squares - level) <= 1e-9 * level).all(axis=0) & (level > 0) & known.any()


def blocks_of(sums: Statistics, names: Sequence[str] | None = None) -> FeatureBlocks:
    """Return the blocks by an encoder's block names (d,); without names, constant features and the others."""
    constant = constant_features(sums)
    if names is None:
        named = np.where(constant, CONSTANT, "features")
    else:
        named = np.array([str(name) for name in names], dtype=object)
        if len(named) != len(constant):
            raise SettingError(f"{len(named)} block names for {len(constant)} features")
    found, of = np.unique(named, return_inverse=True)
    if len(found) > MOST_BLOCKS:
        width = np.bincount(of) + len(of) * np.isin(found, named[constant])
        joined = np.argsort(-width, kind="stable")[MOST_BLOCKS - 1 :]
        return blocks_of(sums, np.where(np.isin(of, joined), "others", named).tolist())
    return FeatureBlocks(of, tuple(map(str, found)))


@dataclass(frozen=True, eq=False)
class Prior:
    """The prior θ_a = W z_a + η_a of every action, logged or not.

    spread, slope and flat (d,) are the standard deviations of η, of W's columns except the first, and of the first (0 if it
    is given). weights (q, d) is Ŵ and coefficient_covariance (q, d, q, d) its covariance given the log; items (K, q) are the
    z_a. It was fitted to `actions` logged actions. `informative` holds for each block whether the log determines its spread;
    otherwise the spread is the hyperprior's. `standard` (2, q − 1) holds the means and deviations that standardise item
    features. The spread is the root mean square over `scale_posterior`, which a loaded prior lacks.
    """

    noise: float
    spread: np.ndarray
    slope: np.ndarray
    flat: np.ndarray
    weights: np.ndarray
    coefficient_covariance: np.ndarray
    items: np.ndarray
    blocks: FeatureBlocks
    actions: int = 0
    informative: tuple[bool, ...] = ()
    given: tuple[str, ...] = ()
    standard: np.ndarray = field(default_factory=lambda: np.zeros((2, 0)))
    scale_posterior: ScalePosterior | None = None

    def centers(self, items: np.ndarray | None = None) -> np.ndarray:
        """Ŵz_a, (m, d)."""
        return np.asarray((self.items if items is None else items) @ self.weights)

    def start(
        self, gram: np.ndarray, response: np.ndarray, items: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Leave-one-out priors of actions with the given sums: Λ_a = σ²(S + C_{−a})⁻¹ (m, d, d) and Λ_a·m_{−a} (m, d).

        The posterior is N(V⁻¹b, σ²V⁻¹) with V = Λ_a + G_a, b = Λ_a·m_{−a} + Σxr. With A and h of the action's own rows and C
        from all: Λ = σ²(I + σ²CV⁻¹)⁻¹(I − CA), Λm = σ²(I + σ²CV⁻¹)⁻¹(Ŵz − Ch), in scaled coordinates.
        """
        s, unit = self.spread, np.eye(len(self.spread))
        inverse, square = scaled_inverses(gram, self.noise, s)
        left = square * inverse
        covariance = item_variances(self.coefficient_covariance / (s[:, None, None] * s), items)
        estimate = np.einsum("kij,kj->ki", inverse, response * s)
        centre = self.centers(items) / s - np.einsum("kij,kj->ki", covariance, estimate)
        right = np.concatenate([unit - covariance @ (unit - left), centre[:, :, None]], axis=2)
        found = square * np.linalg.solve(unit + covariance @ left, right)
        matrix = found[:, :, :-1] / (s[:, None] * s)
        return 0.5 * (matrix + np.swapaxes(matrix, 1, 2)), found[:, :, -1] / s

    def most_uncertain(self, sums: Statistics, ridge: float) -> float:
        """Largest distance of a logged action's ridge estimate from its leave-one-out prior mean, max ‖θ̂_a − m_{−a}‖."""
        known, most = np.flatnonzero(sums.counts), 0.0
        for start in range(0, len(known), AT_ONCE):
            part = known[start : start + AT_ONCE]
            gram, response = sums.gram[part], sums.response[part]
            matrix, weighted = self.start(gram, response, self.items[part])
            center = np.linalg.solve(matrix, weighted[:, :, None])
            regular = gram + ridge * np.eye(sums.n_features)
            away = np.linalg.solve(regular, response[:, :, None] - gram @ center)
            most = max(most, float(np.linalg.norm(away, axis=1).max()))
        return most

    def place(self, features: np.ndarray) -> np.ndarray:
        """z (1, q) of an item with these features (q − 1,)."""
        mean, deviation = self.standard
        return np.concatenate([[1.0], (features - mean) / deviation])[None]

    def joined(self, z: np.ndarray) -> "Prior":
        """Add an action at z (1, q)."""
        return replace(self, items=np.vstack([self.items, z]))

    def unlogged_action(self) -> tuple[np.ndarray, np.ndarray]:
        """As `start`, for an action without rows or item features: (d, d) and (d,), z = (1, 0, …)."""
        d = len(self.spread)
        z = np.eye(1, self.items.shape[1])
        matrix, weighted = self.start(np.zeros((1, d, d)), np.zeros((1, d)), z)
        return matrix[0], weighted[0]

    def with_noise(self, sums: Statistics, noise: float) -> "Prior":
        """Keep the scales, replace the noise, and fit W again."""
        return self.at(sums, PriorScales(noise, self.spread, self.slope))

    def at(self, sums: Statistics, scales: PriorScales) -> "Prior":
        """Replace the scales and fit W again."""
        found = replace(self, noise=scales.noise, spread=scales.spread, slope=scales.slope)
        if self.certain:
            return found
        rows = ActionSums.of(sums, self.items, self.flat, None)
        weights, covariance = common(rows, scales)
        size = scales.spread[:, None, None] * scales.spread
        return replace(found, weights=weights * scales.spread, coefficient_covariance=covariance * size)

    @property
    def scale_weights(self) -> np.ndarray:
        """Weights of the points of `scale_posterior`, (n,); a single one without."""
        return np.ones(1) if self.scale_posterior is None else self.scale_posterior.weights

    def at_point(self, sums: Statistics, index: int) -> "Prior":
        """The prior with the scales of a point of `scale_posterior`, but its own noise; itself without."""
        if self.scale_posterior is None:
            return self
        point = self.scale_posterior.points[index]
        return self.at(sums, point._replace(noise=self.noise))

    def among(self, features: np.ndarray) -> "Prior":
        """The prior of some features alone, by index (e,); the others must have no logged rows."""
        found, covariance = self.scale_posterior, self.coefficient_covariance
        if found is not None:
            points = (
                PriorScales(one.noise, one.spread[features], one.slope[features]) for one in found.points
            )
            found = ScalePosterior(tuple(points), found.weights)
        return replace(
            self,
            spread=self.spread[features],
            slope=self.slope[features],
            flat=self.flat[features],
            weights=self.weights[:, features],
            coefficient_covariance=covariance[:, features][:, :, :, features],
            blocks=FeatureBlocks(self.blocks.of[features], self.blocks.names),
            scale_posterior=found,
        )

    @property
    def certain(self) -> bool:
        """Whether W is known; actions are then independent."""
        return not self.coefficient_covariance.any()

    def scales(self) -> dict[str, float]:
        """Spread of each block by name."""
        return self.blocks.by_name(self.spread)

    def __str__(self) -> str:
        if BETWEEN in self.given:
            return f"deviation {self.spread[0]:.4g} around the mean, as between the well-logged actions"
        if "scale" in self.given:
            how = f"deviation {self.spread[0]:.4g}, given"
        else:
            pairs = zip(self.scales().items(), self.informative, strict=True)
            marks = [
                f"{name} {value:.4g}{'' if known else ' (the hyperprior’s)'}"
                for (name, value), known in pairs
            ]
            how = f"deviations {', '.join(marks)}"
        if "mean" in self.given and "scale" in self.given:
            return how
        return f"{how}; learnt from {self.actions} action{'s' if self.actions != 1 else ''}"


def standardised(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """z = (1, standardised features), (K, q), and the features' means and deviations, (2, q − 1)."""
    deviation = features.std(axis=0)
    standard = np.stack([features.mean(axis=0), np.where(deviation > 0, deviation, 1.0)])
    return np.c_[np.ones(len(features)), (features - standard[0]) / standard[1]], standard


def evidence_prior(
    sums: Statistics,
    *,
    blocks: FeatureBlocks | None = None,
    items: np.ndarray | None = None,
    standard: np.ndarray | None = None,
    noise: float | None = None,
    scale: float | None = None,
    mean: ArrayLike | None = None,
) -> Prior:
    """Fit the prior of maximum evidence; one logged action is enough.

    Scales have the hyperprior log s ~ N(log s°, LOG_DEVIATION²), s° = c · reward deviation ÷ root mean square ‖x_block‖, with c =
    LEVEL for a constant and SLOPES for every other block. The spread is the root mean square over the posterior of
    the scales. A noise that is not given has log σ ~ N(log reward deviation, 1). A given `scale` replaces all spreads; a given `mean` (d,)
    is Ŵ, without uncertainty. `items` (K, q) and `standard` are as returned by `standardised`.
    """
    n_actions, d = sums.response.shape
    blocks = blocks_of(sums) if blocks is None else blocks
    z = np.ones((n_actions, 1)) if items is None else items
    center = None if mean is None else vector("prior_mean", mean, d)
    if center is not None and z.shape[1] > 1:
        raise SettingError("prior_mean with items; items determine the prior mean. Leave out one of them")
    if scale is not None:
        positive("prior_scale", scale)
    given = tuple(name for name, value in (("scale", scale), ("mean", mean)) if value is not None)
    about = np.zeros((2, 0)) if standard is None else standard
    if not sums.n_rows:
        missing = [
            f"{name}=..." for name, value in (("noise", noise), ("prior_scale", scale)) if value is None
        ]
        if scale is None or noise is None:
            raise SettingError(f"a prior cannot be learnt without logged rows; pass {' and '.join(missing)}")
        q, spread = z.shape[1], np.full(d, float(scale))
        weights, covariance = np.zeros((q, d)), np.zeros((q, d, q, d))
        weights[0] = 0.0 if center is None else center
        for k in range(1, q):
            covariance[k, :, k] = scale**2 * np.eye(d)
        scales = PriorScales(float(noise), spread, spread)
        return Prior(*scales, np.zeros(d), weights, covariance, z, blocks, 0, (), given, about)
    expected, flat, deviation = _expected(sums, blocks, noise)
    spread = expected if scale is None else np.full(d, float(scale))
    flat = flat if scale is None else np.minimum(flat, STEEPEST * spread)
    rows = ActionSums.of(sums, z, None if center is not None else flat, center)
    start = PriorScales(deviation if noise is None else noise, spread, expected)
    # A given noise may be a bound, such as half the reward range: spreads are fitted together with the log's own noise.
    search = Search(rows.some(), blocks, start, spread=scale is None)
    scales = search.best()
    uncertain = search.posterior()
    if scale is None:
        scales = scales._replace(spread=uncertain.spread())
    if noise is not None:
        scales = scales._replace(noise=noise)
    weights, covariance = common(rows, scales)
    empty = np.diag(sums.gram.sum(axis=0)) == 0
    if rows.flat is not None and empty.any():
        flat = np.where(empty, _between_values(weights[0] * scales.spread, blocks, empty, expected), flat)
        rows = rows._replace(flat=flat)
        weights, covariance = common(rows, scales)
    n_informative = blocks.sums(fit(rows.some(), scales._replace(spread=spread)).n_informative)
    weights = weights * scales.spread
    if center is not None:
        weights[0] = center
    size = scales.spread[:, None, None] * scales.spread
    return Prior(
        *scales,
        np.zeros(d) if center is not None else flat,
        weights,
        covariance * size,
        z,
        blocks,
        len(rows.counts),
        tuple(bool(2 * each >= 1) for each in n_informative),
        given,
        about,
        uncertain,
    )


def _between_values(
    shared: np.ndarray, blocks: FeatureBlocks, empty: np.ndarray, least: np.ndarray
) -> np.ndarray:
    """Deviation of what actions share between the coordinates of a block that have logged rows, (d,), at least `least`.

    It is that of a coordinate without rows, such as an unseen category: actions share as much there as at the values seen.
    """
    squares = blocks.sums(np.where(empty, 0.0, shared**2))
    seen = blocks.sums((~empty).astype(float))
    return np.maximum(np.sqrt(squares / np.maximum(seen - 1, 1))[blocks.of], least)


def spread_between_actions(
    sums: Statistics, blocks: FeatureBlocks, ridge: float
) -> tuple[float, np.ndarray] | None:
    """s₀ and θ₀ (d,) of raw features without a constant, from the actions with N_a ≥ 2d; None if there are too few.

    Without a constant, the common level of the rewards lies in no single coordinate, and one scale for all directions would
    count it as a difference between actions. θ₀ is the mean of the least-squares estimates, s₀² the mean over coordinates of
    their variance between actions. It includes estimation noise; a wider prior explores more.
    """
    known = sums.counts >= 2 * sums.n_features
    if len(blocks.names) > 1 or CONSTANT in blocks.names or known.sum() < LEAST_ACTIONS:
        return None
    theta = least_squares(sums, ridge)[known]
    scale = float(theta.var(axis=0, ddof=1).mean()) ** 0.5
    return (scale, theta.mean(axis=0)) if scale > 0 else None


def evidence_of(sums: Statistics, *, blocks: FeatureBlocks, near: Evidence | None = None) -> Evidence:
    """Return the log evidence at the fitted scales; `near` is the result for a similar model, to start from."""
    expected, flat, deviation = _expected(sums, blocks, None)
    rows = ActionSums.of(sums, np.ones((sums.n_actions, 1)), flat, None)
    search = Search(rows, blocks, PriorScales(deviation, expected, expected), spread=True)
    scales = search.best(near)
    return Evidence(float(fit(rows, scales).evidence), scales.noise, blocks.by_name(scales.spread))


def _expected(
    sums: Statistics, blocks: FeatureBlocks, noise: float | None
) -> tuple[np.ndarray, np.ndarray, float]:
    """The hyperprior's s° (d,), the deviation of W's column 0 (d,), and the reward deviation, or the given noise if that is 0."""
    gram = sums.gram.sum(axis=0)
    root = float(np.sqrt(sums.squares.sum() / sums.n_rows))
    deviation = max(reward_deviation(sums, blocks), SMALLEST_NOISE * root) or noise or 0.0
    if not deviation > 0:
        raise SettingError(
            "the log's rewards are all 0, so the noise and the prior's width would be estimated as 0. "
            "Pass noise=... and prior_scale=..."
        )
    sizes = np.sqrt(blocks.sums(np.diag(gram)) / sums.n_rows)
    sizes = np.where(sizes > 0, sizes, max(float(sizes.max()), SMALLEST_NOISE))[blocks.of]
    flat = min(FLAT * max(root, deviation) / deviation, FLATTEST)
    unit, constant = deviation / sizes, _constant_blocks(sums, blocks)
    if not constant.any():
        return float(np.hypot(LEVEL, SLOPES)) * unit, flat * unit, deviation
    # Features explain at most one reward deviation on average, so that is the deviation of their common coefficients.
    return np.where(constant, LEVEL, SLOPES) * unit, np.where(constant, flat, 1.0) * unit, deviation


def _constant_blocks(sums: Statistics, blocks: FeatureBlocks) -> np.ndarray:
    """Mask (d,) of the coordinates of constant blocks."""
    constant = np.array([name == CONSTANT for name in blocks.names])[blocks.of]
    if (sums.counts > 0).sum() > 1:
        constant |= constant_features(sums)
    return constant


def reward_deviation(sums: Statistics, blocks: FeatureBlocks) -> float:
    """Standard deviation of the rewards around the fit of constant features; around 0 without them."""
    gram, response = sums.gram.sum(axis=0), sums.response.sum(axis=0)
    constant, explained = _constant_blocks(sums, blocks), 0.0
    if constant.any():
        level = linalg.lstsq(gram[np.ix_(constant, constant)], response[constant])[0]
        explained = float(level @ response[constant])
    return float(np.sqrt(max(float(sums.squares.sum()) - explained, 0.0) / max(1, sums.n_rows)))
