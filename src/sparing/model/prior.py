"""The prior that a log teaches: what logged actions say of all actions, fitted by evidence (evidence.py has the model)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from sparing.errors import SettingError
from sparing.log.features.encoder import CONSTANT, KERNEL
from sparing.model.confidence import positive, vector
from sparing.model.statistics import SMALLEST_NOISE, Statistics, least_squares

MOST_WORK = 1e8
"""Actions times d³ from which the scales are learnt from a part of the actions, evenly spaced."""

REGULAR = 1e-12
"""The least ridge, as a share of a matrix's trace, with which it is inverted."""

AT_ONCE = 128
"""Actions whose matrices are worked on at a time."""

CACHED = 2**18
"""Cells of matrices that are worked on at a time where that is done often."""


class PriorScales(NamedTuple):
    """σ, and for each coordinate (d,): the deviation of η, and that of the columns of W but the first."""

    noise: float
    spread: np.ndarray
    slope: np.ndarray


class ActionSums(NamedTuple):
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
    ) -> "ActionSums":
        """Of the logged actions; of r − x·mean where a mean is given."""
        known = sums.counts > 0
        gram, response, squares = (part[known] for part in (sums.gram, sums.response, sums.squares))
        if mean is not None:
            fitted = gram @ mean
            squares = np.maximum(squares + (fitted - 2 * response) @ mean, 0.0)
            response = response - fitted
        return cls(sums.counts[known].astype(float), gram, response, squares, items[known], flat)

    def some(self) -> "ActionSums":
        """A part of the actions, evenly spaced, where all would take too long."""
        m, d = self.response.shape
        step = max(1, int(np.ceil(m * d**3 / MOST_WORK)))
        return ActionSums(*(part[::step] for part in self[:-1]), self.flat)  # type: ignore[call-arg]


class EvidenceFit(NamedTuple):
    """Rows at given scales, in scaled coordinates: W (q, d) and its covariance (q, d, q, d), the log evidence and its gradient by
    log σ and by the logarithms of every coordinate's spread and slope, and how much of each spread the rows can tell (d,)."""

    weights: np.ndarray
    coefficient_covariance: np.ndarray
    evidence: float
    by_noise: float
    by_spread: np.ndarray
    by_slope: np.ndarray
    n_informative: np.ndarray


class ShrinkageTerms(NamedTuple):
    """Of many actions, in scaled coordinates: A (m, d, d), the diagonal of σ²V⁻¹ (m, d), h = V⁻¹b (m, d), and Σ log det V."""

    share: np.ndarray
    left: np.ndarray
    estimate: np.ndarray
    volume: float


def fit(rows: ActionSums, scales: PriorScales) -> EvidenceFit:
    """Average W out, exactly. The gradient is Fisher's identity: the expectation, given the rows, of that of the joint density."""
    spread, z = scales.spread, rows.items
    (m, d), q = rows.response.shape, z.shape[1]
    diagonal = np.einsum("kii->ki", rows.gram) * spread**2
    square = max(scales.noise**2, REGULAR * float(diagonal.sum(axis=1).max(initial=0.0)))
    seen = _shrinkage_terms(rows, spread, square)
    weights, covariance, gained = _averaged(rows, scales, *_gathered(z, seen.share, seen.estimate))
    volume = seen.volume - m * d * np.log(square)
    explained = np.einsum("ki,ki->", rows.response * spread, seen.estimate)
    loss = (rows.squares.sum() - explained) / square + rows.counts.sum() * np.log(2 * np.pi * square) + volume
    centre = z @ weights
    own = seen.estimate - np.einsum("kij,kj->ki", seen.share, centre)  # E η_a
    once, twice = _coefficient_variance(seen.share, covariance, z)
    variance = seen.left.sum(axis=0) + twice
    mean = (centre + own) * spread
    residual = rows.squares.sum() - 2 * np.einsum("ki,ki->", rows.response, mean)
    residual += np.einsum("ki,ki->", (rows.gram @ mean[:, :, None])[:, :, 0], mean)
    residual += square * (np.einsum("kii->", seen.share) + once - twice.sum())
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
    """Slices of m actions whose matrices stay in the cache."""
    size = max(1, CACHED // d**2)
    return [slice(start, start + size) for start in range(0, m, size)]


def _shrinkage_terms(rows: ActionSums, spread: np.ndarray, square: float) -> ShrinkageTerms:
    """A, σ²V⁻¹ and h of every action, at this σ²."""
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
    return ShrinkageTerms(share, left, estimate, volume)


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


def common(rows: ActionSums, scales: PriorScales) -> tuple[np.ndarray, np.ndarray]:
    """Ŵ (q, d) and its covariance (q, d, q, d) alone, in bounded memory however many actions there are."""
    spread, (m, d) = scales.spread, rows.response.shape
    q = rows.items.shape[1]
    blocks, gathered = np.zeros((q, q, d, d)), np.zeros((q, d))
    for start in range(0, m, AT_ONCE):
        part = slice(start, start + AT_ONCE)
        gram = rows.gram[part] * (spread[:, None] * spread)
        square = regular(scales.noise, gram)
        inverse = inverses(np.linalg.cholesky(gram + square * np.eye(d)))
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
    """Ŵ (q, d), its covariance (q, d, q, d), and what averaging over W adds to the log evidence."""
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
    """A symmetric matrix's inverse and log det; none of its eigenvalues is below `least`, whatever rounding made of them."""
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


if TYPE_CHECKING:
    pass

FLOOR, STEEPEST = 1e-3, 1e5
"""A spread is at least this share of what the hyperprior expects; column 0 is at most so many times as wide as it."""

NEARBY = 1e-7
"""A step that gains less than this share of what was gained ends a search that began near its end."""


class Evidence(NamedTuple):
    """The log evidence at the scales fitted to a log: σ, and the spread of each block by its name."""

    value: float
    noise: float
    spreads: dict[str, float]


class Search:
    """The scales of greatest evidence, hyperprior included: L-BFGS on the logarithms of those that are free."""

    def __init__(
        self, rows: ActionSums, blocks: "FeatureBlocks", start: PriorScales, *, noise: bool, spread: bool
    ) -> None:
        self.rows, self.blocks, self.start = rows, blocks, start
        m, q, width = len(rows.counts), rows.items.shape[1], np.bincount(blocks.of)
        _, first = np.unique(blocks.of, return_index=True)
        self.free = [i for i, free in enumerate((spread, q > 1, noise)) if free]
        expected = start.spread[first], start.slope[first], np.array([start.noise])
        floor = np.full(len(width), FLOOR)
        if rows.flat is not None:
            floor = np.maximum(floor, (rows.flat / start.spread)[first] / STEEPEST)
        lowest = floor, floor, np.array([SMALLEST_NOISE])
        # Steps in units of what the rows could tell of each, so that all are about as steep.
        unit = np.sqrt(1 + m * width), np.sqrt(1 + (q - 1) * width), np.sqrt([1 + rows.counts.sum()])
        self.expected, self.lowest, self.unit = map(self._chosen, (expected, lowest, unit))
        self.ends = np.cumsum([len(expected[i]) for i in self.free])[:-1]

    def _chosen(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate([parts[i] for i in self.free]) if self.free else np.zeros(0)

    def scales(self, step: np.ndarray) -> PriorScales:
        """The scales so many steps from those that the hyperprior expects."""
        values = np.split(self.expected * np.exp(step / self.unit), self.ends)
        found = dict(zip(self.free, values, strict=True))
        return PriorScales(
            float(found[2][0]) if 2 in found else self.start.noise,
            found[0][self.blocks.of] if 0 in found else self.start.spread,
            found[1][self.blocks.of] if 1 in found else self.start.slope,
        )

    def loss(self, step: np.ndarray) -> tuple[float, np.ndarray]:
        """What is to be made small, and its gradient."""
        found, away = fit(self.rows, self.scales(step)), step / self.unit
        by_blocks = self.blocks.sums(found.by_spread), self.blocks.sums(found.by_slope)
        slope = self._chosen((*by_blocks, np.array([found.by_noise]))) - away
        return float(0.5 * away @ away) - found.evidence, -slope / self.unit

    def best(self, near: Evidence | None = None) -> PriorScales:
        """Where the loss is least, sought from a bit below what is expected on; or from where a like model has it, in steps of what the
        rows tell there and only as closely as it takes to compare the two."""
        from scipy import optimize  # a learner that fits no prior need not wait for it

        if not self.free:
            return self.start
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
        return self.scales(found.x)


FLAT, FLATTEST = 30.0, 1e4
"""The deviation of column 0 of W, in root mean square rewards; and at most so many reward deviations."""

LEAST_ACTIONS, BETWEEN = 3, "between"
"""Fewer well-logged actions say nothing about how actions differ; what tells that they said it."""

MOST_BLOCKS = 8
"""Scales to learn; the narrowest blocks are joined where there are more."""


class FeatureBlocks(NamedTuple):
    """Which coordinates share a scale: a block's number for each (d,), and the blocks' names."""

    of: np.ndarray
    names: tuple[str, ...]

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Add up what each coordinate has (d,), block by block."""
        return np.bincount(self.of, weights=values, minlength=len(self.names))


def constant_features(sums: Statistics) -> np.ndarray:
    """Which features are constant (d,): their mean square is the same for all logged actions (1, if there is one)."""
    known = sums.counts > 0
    squares = np.einsum("kii->ki", sums.gram)[known] / sums.counts[known, None]
    level = squares[0] if len(squares) > 1 else np.ones(sums.n_features)
    return (np.abs(squares - level) <= 1e-9 * level).all(axis=0) & (level > 0) & known.any()


def blocks_of(sums: Statistics, names: Sequence[str] | None = None) -> FeatureBlocks:
    """The blocks of an encoder's names (d,), the narrow ones joined; without names, constant features and the rest."""
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
    """θ_a = W z_a + η_a: where every action starts, logged or not.

    spread, slope and flat (d,) are the deviations of η, of W's columns but the first, and of the first (0 where it is given);
    weights (q, d) is Ŵ and coefficient_covariance (q, d, q, d) its covariance given the log; items (K, q) are the z_a. `actions` taught it;
    `informative` says of each block whether the log could tell its spread, which is the hyperprior's where it could not.
    `standard` (2, q − 1) holds the mean and the deviation of each item feature, by which features become z.
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

    def centers(self, items: np.ndarray | None = None) -> np.ndarray:
        """Ŵz_a, (m, d)."""
        return np.asarray((self.items if items is None else items) @ self.weights)

    def start(
        self, gram: np.ndarray, response: np.ndarray, items: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """What all other actions say of actions with these sums, (m, d, d) and (m, d): Λ_a = σ²(S + C_{−a})⁻¹ and Λ_a·m_{−a}.

        The posterior is N(V⁻¹b, σ²V⁻¹) with V = Λ_a + G_a, b = Λ_a·m_{−a} + Σxr. With A and h of the action's own rows and C
        from all: Λ = σ²(I + σ²CV⁻¹)⁻¹(I − CA), Λm = σ²(I + σ²CV⁻¹)⁻¹(Ŵz − Ch), in scaled coordinates.
        """
        s, unit = self.spread, np.eye(len(self.spread))
        scaled = gram * (s[:, None] * s)
        square = regular(self.noise, scaled)
        inverse = inverses(np.linalg.cholesky(scaled + square * unit))
        left = square * inverse
        covariance = item_variances(self.coefficient_covariance / (s[:, None, None] * s), items)
        estimate = np.einsum("kij,kj->ki", inverse, response * s)
        centre = self.centers(items) / s - np.einsum("kij,kj->ki", covariance, estimate)
        right = np.concatenate([unit - covariance @ (unit - left), centre[:, :, None]], axis=2)
        found = square * np.linalg.solve(unit + covariance @ left, right)
        matrix = found[:, :, :-1] / (s[:, None] * s)
        return 0.5 * (matrix + np.swapaxes(matrix, 1, 2)), found[:, :, -1] / s

    def most_uncertain(self, sums: Statistics, ridge: float) -> float:
        """How far a logged action's ridge estimate lies from where all others put it, at most: max ‖θ̂_a − m_{−a}‖."""
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
        """With one more action, at z (1, q)."""
        return replace(self, items=np.vstack([self.items, z]))

    def unlogged_action(self) -> tuple[np.ndarray, np.ndarray]:
        """The same for an action of which nothing is known, (d, d) and (d,): z = (1, 0, …)."""
        d = len(self.spread)
        z = np.eye(1, self.items.shape[1])
        matrix, weighted = self.start(np.zeros((1, d, d)), np.zeros((1, d)), z)
        return matrix[0], weighted[0]

    def with_noise(self, sums: Statistics, noise: float) -> "Prior":
        """The same scales with more noise, and W learnt anew."""
        if self.certain:
            return replace(self, noise=noise)
        rows = ActionSums.of(sums, self.items, self.flat, None)
        weights, covariance = common(rows, PriorScales(noise, self.spread, self.slope))
        size = self.spread[:, None, None] * self.spread
        return replace(
            self, noise=noise, weights=weights * self.spread, coefficient_covariance=covariance * size
        )

    @property
    def certain(self) -> bool:
        """Whether W is known, so that what is learnt of one action says nothing of another."""
        return not self.coefficient_covariance.any()

    def scales(self) -> dict[str, float]:
        """The spread of each block, by its name."""
        first = [int(np.flatnonzero(self.blocks.of == j)[0]) for j in range(len(self.blocks.names))]
        return {name: float(self.spread[i]) for name, i in zip(self.blocks.names, first, strict=True)}

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
    """The prior of greatest evidence, from one logged action on.

    Spreads have the weak hyperprior log s ~ N(log s°, 1), s° = reward deviation ÷ root mean square ‖x_block‖; so have slopes, and
    a noise that is not given (around the reward deviation). A given `scale` replaces all spreads; a given `mean` (d,) is Ŵ,
    without uncertainty. `items` (K, q) are the z_a and `standard` what made them of features, as `standardised` has them.
    """
    k, d = sums.response.shape
    blocks = blocks_of(sums) if blocks is None else blocks
    z = np.ones((k, 1)) if items is None else items
    center = None if mean is None else vector("prior_mean", mean, d)
    if center is not None and z.shape[1] > 1:
        raise SettingError("prior_mean with items; items say where an action starts. Leave out one of them")
    if scale is not None:
        positive("prior_scale", scale)
    given = tuple(name for name, value in (("scale", scale), ("mean", mean)) if value is not None)
    about = np.zeros((2, 0)) if standard is None else standard
    if not sums.n_rows:
        return replace(_default_prior(z, d, blocks, given, noise, scale, center), standard=about)
    expected, flat, deviation = _expected(sums, blocks, noise)
    spread = expected if scale is None else np.full(d, float(scale))
    flat = flat if scale is None else np.minimum(flat, STEEPEST * spread)
    rows = ActionSums.of(sums, z, None if center is not None else flat, center)
    start = PriorScales(deviation if noise is None else noise, spread, expected)
    # A given noise may be a bound, such as half the rewards' range: the spreads are learnt beside the log's own.
    scales = Search(rows.some(), blocks, start, noise=True, spread=scale is None).best()
    if noise is not None:
        scales = scales._replace(noise=noise)
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
    )


def spread_between_actions(
    sums: Statistics, blocks: FeatureBlocks, ridge: float
) -> tuple[float, np.ndarray] | None:
    """s₀ and θ₀ (d,) of raw features without a constant, from the actions with N_a ≥ 2d; None where there are too few.

    Such features have a level that is no coordinate of theirs: one scale for all directions would take it for all that
    differs. θ₀ is the mean of the least-squares estimates, s₀² the mean over coordinates of their variance between
    actions, left uncorrected for estimation noise (a wider prior errs towards exploring).
    """
    known = sums.counts >= 2 * sums.n_features
    if len(blocks.names) > 1 or CONSTANT in blocks.names or known.sum() < LEAST_ACTIONS:
        return None
    theta = least_squares(sums, ridge)[known]
    scale = float(theta.var(axis=0, ddof=1).mean()) ** 0.5
    return (scale, theta.mean(axis=0)) if scale > 0 else None


def evidence_of(sums: Statistics, *, blocks: FeatureBlocks, near: Evidence | None = None) -> Evidence:
    """The log evidence of a log's rewards at the scales fitted to it, which are sought from those of a like model on."""
    expected, flat, deviation = _expected(sums, blocks, None)
    rows = ActionSums.of(sums, np.ones((sums.n_actions, 1)), flat, None)
    search = Search(rows, blocks, PriorScales(deviation, expected, expected), noise=True, spread=True)
    scales = search.best(near)
    spreads = {name: float(scales.spread[blocks.of == j][0]) for j, name in enumerate(blocks.names)}
    return Evidence(float(fit(rows, scales).evidence), scales.noise, spreads)


def _default_prior(
    items: np.ndarray,
    d: int,
    blocks: FeatureBlocks,
    given: tuple[str, ...],
    noise: float | None,
    scale: float | None,
    center: np.ndarray | None,
) -> Prior:
    """What is left without rows: a scale that was given, around the mean that was, or 0."""
    if scale is None or noise is None:
        missing = [
            f"{name}=..." for name, value in (("noise", noise), ("prior_scale", scale)) if value is None
        ]
        raise SettingError(f"a prior cannot be learnt without logged rows; pass {' and '.join(missing)}")
    q = items.shape[1]
    weights = np.zeros((q, d))
    if center is not None:
        weights[0] = center
    covariance = np.zeros((q, d, q, d))
    for k in range(1, q):
        covariance[k, :, k] = scale**2 * np.eye(d)
    spread = np.full(d, float(scale))
    return Prior(float(noise), spread, spread, np.zeros(d), weights, covariance, items, blocks, 0, (), given)


def _expected(
    sums: Statistics, blocks: FeatureBlocks, noise: float | None
) -> tuple[np.ndarray, np.ndarray, float]:
    """What the hyperprior expects: s° and the deviation of W's column 0 for each coordinate (d,), and the reward deviation.

    The deviation is around what constant features explain, and at least a given noise; without a constant there is no level.
    """
    gram = sums.gram.sum(axis=0)
    root = float(np.sqrt(sums.squares.sum() / sums.n_rows))
    deviation = max(reward_deviation(sums, blocks), noise or 0.0)
    deviation = max(deviation, SMALLEST_NOISE * root)
    if not deviation > 0:
        raise SettingError(
            "the log's rewards are all 0, so the noise would be estimated as 0 and the prior's width too: it says nothing "
            "about untried actions. Pass noise=... and prior_scale=..."
        )
    sizes = np.sqrt(blocks.sums(np.diag(gram)) / sums.n_rows)
    sizes = np.where(sizes > 0, sizes, max(float(sizes.max()), SMALLEST_NOISE))[blocks.of]
    flat = min(FLAT * max(root, deviation) / deviation, FLATTEST)
    # Kernel features are many and small: what they have in common is of the size that the hyperprior expects.
    kernel = np.array([name == KERNEL for name in blocks.names])[blocks.of]
    return deviation / sizes, np.where(kernel, 1.0, flat) * deviation / sizes, deviation


def reward_deviation(sums: Statistics, blocks: FeatureBlocks) -> float:
    """The deviation of a log's rewards around what constant features explain; around 0 where there are none."""
    gram, response = sums.gram.sum(axis=0), sums.response.sum(axis=0)
    constant = np.array([name == CONSTANT for name in blocks.names])[blocks.of]
    if (sums.counts > 0).sum() > 1:
        constant |= constant_features(sums)
    explained = 0.0
    if constant.any():
        level = linalg.lstsq(gram[np.ix_(constant, constant)], response[constant])[0]
        explained = float(level @ response[constant])
    return float(np.sqrt(max(float(sums.squares.sum()) - explained, 0.0) / max(1, sums.n_rows)))
