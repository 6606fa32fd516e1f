"""The posterior of all actions that a log gives: its prior with the log's blocks and items, and its mean."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sparing.errors import SettingError
from sparing.log import Log
from sparing.log.rows import AnyLog, Rows
from sparing.model.prior import (
    AT_ONCE,
    BETWEEN,
    FeatureBlocks,
    Prior,
    blocks_of,
    evidence_prior,
    scaled_inverses,
    spread_between_actions,
    standardised,
)
from sparing.model.statistics import LogSummary, Statistics

ItemFeatures = Mapping[Hashable, Sequence[float]] | np.ndarray
"""Features of the actions: by label, or an array (K, q)."""


def fit_prior(
    log: AnyLog | LogSummary,
    sums: Statistics,
    *,
    noise: float | None,
    items: ItemFeatures | None = None,
    scale: float | None = None,
    mean: Any = None,
) -> Prior:
    """The prior estimated from a log, with the blocks of its encoder if it has one."""
    z, standard = (None, None) if items is None else standardised(features_of(items, log))
    return evidence_prior(
        sums,
        blocks=feature_blocks(log, sums),
        items=z,
        standard=standard,
        noise=noise,
        scale=scale,
        mean=mean,
    )


def fit_prior_scale(log: AnyLog | LogSummary, sums: Statistics, ridge: float, **given: Any) -> Prior:
    """The prior of a posterior: by evidence, except for raw features without a constant, whose level it cannot separate."""
    own = given["items"] is not None or given["scale"] is not None or given["mean"] is not None
    found = None if own else spread_between_actions(sums, feature_blocks(log, sums), ridge)
    if found is None:
        return fit_prior(log, sums, **given)
    prior = fit_prior(log, sums, **{**given, "scale": found[0], "mean": found[1]})
    return replace(prior, given=(*prior.given, BETWEEN))


def feature_blocks(log: AnyLog | LogSummary, sums: Statistics) -> FeatureBlocks:
    """The blocks of the log's encoder; of raw features, constant ones and the others."""
    return blocks_of(sums, None if log.encoder.is_raw else log.encoder.blocks)


def resolve_items(log: Any, items: ItemFeatures | None) -> ItemFeatures | None:
    """The items that were passed, else those of the log, if any."""
    known = log.items if isinstance(log, Log | Rows | LogSummary) else None
    return items if items is not None or known is None else known.features


def features_of(items: ItemFeatures, log: AnyLog | LogSummary) -> np.ndarray:
    """Item features of every action, (K, q)."""
    names = log.action_names
    if isinstance(items, Mapping):
        missing = [name for name in names if name not in items]
        if missing:
            raise SettingError(
                f"items has no features of action {missing[0]!r} ({len(missing)} of {len(names)} are missing); "
                "give features of every action"
            )
        rows = [as_features(items[name]) for name in names]
        given: np.ndarray = np.array(rows) if len({len(row) for row in rows}) == 1 else np.zeros(0)
    else:
        found = np.asarray(items)
        given = found.astype(np.float64) if found.dtype.kind in "biuf" else np.zeros(0)
    fits = given.ndim == 2 and len(given) == len(names) and given.size > 0
    if not (fits and np.isfinite(given).all()):
        raise SettingError(
            f"items of shape {given.shape}; expected as many finite numbers for each of {len(names)} actions"
        )
    return given


def as_features(features: Any, many: int | None = None) -> np.ndarray:
    """The features of one item (q,), as finite numbers."""
    try:
        given = np.array(features, dtype=np.float64)
    except (TypeError, ValueError):
        given = np.zeros((0, 0))
    if given.ndim != 1 or not np.isfinite(given).all() or (many is not None and len(given) != many):
        number = "a list of" if many is None else many
        raise SettingError(f"item features {features!r}; expected {number} finite numbers")
    return given


def posterior_mean(prior: Prior, sums: Statistics) -> np.ndarray:
    """θ̂_a = (σ²S⁻¹ + G_a)⁻¹(σ²S⁻¹Ŵz_a + Σxr) of every action, (K, d), S = diag(spread²); without rows, Ŵz_a.

    It is the mean of θ_a given all rows, W integrated out: given W it is linear in W, whose mean is Ŵ.
    """
    s, center = prior.spread, prior.centers() / prior.spread
    found = np.empty_like(sums.response)
    for start in range(0, len(found), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        inverse, square = scaled_inverses(sums.gram[part], prior.noise, s)
        found[part] = s * np.einsum("kij,kj->ki", inverse, sums.response[part] * s + square * center[part])
    return found
