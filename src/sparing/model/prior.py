"""The prior that a log teaches: what logged actions say of all actions, fitted by evidence (evidence.py has the model)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from sparing.errors import SettingError
from sparing.log.features.encoder import CONSTANT, KERNEL
from sparing.model.assumptions import positive, vector
from sparing.model.evidence import AT_ONCE, Rows, Scales, common, doubts, fit, inverses, regular
from sparing.model.searching import STEEPEST, Evidence, Search
from sparing.model.statistics import SMALLEST_NOISE, Statistics, least_squares

FLAT, FLATTEST = 30.0, 1e4
"""The deviation of column 0 of W, in root mean square rewards; and at most so many reward deviations."""

LEAST_ACTIONS, BETWEEN = 3, "between"
"""Fewer well-logged actions say nothing about how actions differ; what tells that they said it."""

MOST_BLOCKS = 8
"""Scales to learn; the narrowest blocks are joined where there are more."""


class Blocks(NamedTuple):
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


def blocks_of(sums: Statistics, names: Sequence[str] | None = None) -> Blocks:
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
    return Blocks(of, tuple(map(str, found)))


@dataclass(frozen=True, eq=False)
class Prior:
    """θ_a = W z_a + η_a: where every action starts, logged or not.

    spread, slope and flat (d,) are the deviations of η, of W's columns but the first, and of the first (0 where it is given);
    weights (q, d) is Ŵ and doubt (q, d, q, d) its covariance given the log; items (K, q) are the z_a. `actions` taught it;
    `told` says of each block whether the log could tell its spread, which is the hyperprior's where it could not.
    `standard` (2, q − 1) holds the mean and the deviation of each item feature, by which features become z.
    """

    noise: float
    spread: np.ndarray
    slope: np.ndarray
    flat: np.ndarray
    weights: np.ndarray
    doubt: np.ndarray
    items: np.ndarray
    blocks: Blocks
    actions: int = 0
    told: tuple[bool, ...] = ()
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
        doubt = doubts(self.doubt / (s[:, None, None] * s), items)
        pull = np.einsum("kij,kj->ki", inverse, response * s)
        centre = self.centers(items) / s - np.einsum("kij,kj->ki", doubt, pull)
        right = np.concatenate([unit - doubt @ (unit - left), centre[:, :, None]], axis=2)
        found = square * np.linalg.solve(unit + doubt @ left, right)
        matrix = found[:, :, :-1] / (s[:, None] * s)
        return 0.5 * (matrix + np.swapaxes(matrix, 1, 2)), found[:, :, -1] / s

    def farthest(self, sums: Statistics, ridge: float) -> float:
        """How far a logged action's ridge estimate lies from where all others put it, at most: max ‖θ̂_a − m_{−a}‖."""
        known, most = np.flatnonzero(sums.counts), 0.0
        for start in range(0, len(known), AT_ONCE):
            part = known[start : start + AT_ONCE]
            gram, response = sums.gram[part], sums.response[part]
            matrix, pull = self.start(gram, response, self.items[part])
            center = np.linalg.solve(matrix, pull[:, :, None])
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

    def blank(self) -> tuple[np.ndarray, np.ndarray]:
        """The same for an action of which nothing is known, (d, d) and (d,): z = (1, 0, …)."""
        d = len(self.spread)
        z = np.eye(1, self.items.shape[1])
        matrix, pull = self.start(np.zeros((1, d, d)), np.zeros((1, d)), z)
        return matrix[0], pull[0]

    def noisier(self, sums: Statistics, noise: float) -> "Prior":
        """The same scales with more noise, and W learnt anew."""
        if self.certain:
            return replace(self, noise=noise)
        rows = Rows.of(sums, self.items, self.flat, None)
        weights, doubt = common(rows, Scales(noise, self.spread, self.slope))
        size = self.spread[:, None, None] * self.spread
        return replace(self, noise=noise, weights=weights * self.spread, doubt=doubt * size)

    @property
    def certain(self) -> bool:
        """Whether W is known, so that what is learnt of one action says nothing of another."""
        return not self.doubt.any()

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
            pairs = zip(self.scales().items(), self.told, strict=True)
            marks = [
                f"{name} {value:.4g}{'' if told else ' (the hyperprior’s)'}" for (name, value), told in pairs
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
    blocks: Blocks | None = None,
    items: np.ndarray | None = None,
    standard: np.ndarray | None = None,
    noise: float | None = None,
    scale: float | None = None,
    mean: ArrayLike | None = None,
) -> Prior:
    """The prior of greatest evidence, from one logged action on.

    Spreads have the weak hyperprior log s ~ N(log s°, 1), s° = reward deviation ÷ root mean square ‖x_block‖; so have slopes, and
    a noise that is not given (around the reward deviation). A given `scale` replaces all spreads; a given `mean` (d,) is Ŵ,
    without doubt. `items` (K, q) are the z_a and `standard` what made them of features, as `standardised` has them.
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
        return replace(_untaught(z, d, blocks, given, noise, scale, center), standard=about)
    expected, flat, deviation = _expected(sums, blocks, noise)
    spread = expected if scale is None else np.full(d, float(scale))
    flat = flat if scale is None else np.minimum(flat, STEEPEST * spread)
    rows = Rows.of(sums, z, None if center is not None else flat, center)
    start = Scales(deviation if noise is None else noise, spread, expected)
    # A given noise may be a bound, such as half the rewards' range: the spreads are learnt beside the log's own.
    scales = Search(rows.some(), blocks, start, noise=True, spread=scale is None).best()
    if noise is not None:
        scales = scales._replace(noise=noise)
    weights, doubt = common(rows, scales)
    could = blocks.sums(fit(rows.some(), scales._replace(spread=spread)).told)
    weights = weights * scales.spread
    if center is not None:
        weights[0] = center
    size = scales.spread[:, None, None] * scales.spread
    return Prior(
        *scales,
        np.zeros(d) if center is not None else flat,
        weights,
        doubt * size,
        z,
        blocks,
        len(rows.counts),
        tuple(bool(2 * told >= 1) for told in could),
        given,
        about,
    )


def between_actions(sums: Statistics, blocks: Blocks, ridge: float) -> tuple[float, np.ndarray] | None:
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


def evidence_of(sums: Statistics, *, blocks: Blocks, near: Evidence | None = None) -> Evidence:
    """The log evidence of a log's rewards at the scales fitted to it, which are sought from those of a like model on."""
    expected, flat, deviation = _expected(sums, blocks, None)
    rows = Rows.of(sums, np.ones((sums.n_actions, 1)), flat, None)
    search = Search(rows, blocks, Scales(deviation, expected, expected), noise=True, spread=True)
    scales = search.best(near)
    spreads = {name: float(scales.spread[blocks.of == j][0]) for j, name in enumerate(blocks.names)}
    return Evidence(float(fit(rows, scales).evidence), scales.noise, spreads)


def _untaught(
    items: np.ndarray,
    d: int,
    blocks: Blocks,
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
    doubt = np.zeros((q, d, q, d))
    for k in range(1, q):
        doubt[k, :, k] = scale**2 * np.eye(d)
    spread = np.full(d, float(scale))
    return Prior(float(noise), spread, spread, np.zeros(d), weights, doubt, items, blocks, 0, (), given)


def _expected(sums: Statistics, blocks: Blocks, noise: float | None) -> tuple[np.ndarray, np.ndarray, float]:
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


def reward_deviation(sums: Statistics, blocks: Blocks) -> float:
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
