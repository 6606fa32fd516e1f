"""How a learner's sets start from what a log teaches: as a posterior, or around centres."""

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sparing.errors import SettingError, UnitWarning
from sparing.log import Log
from sparing.log.reservoir import sampled
from sparing.model.assumptions import Assumptions
from sparing.model.kernels import with_kernel
from sparing.model.prior import (
    BETWEEN,
    Prior,
    between_actions,
    blocks_of,
    evidence_prior,
    reward_deviation,
    standardised,
)
from sparing.model.statistics import Statistics, Summary
from sparing.online.beginning import known_log
from sparing.online.engine.learning import CONDITION
from sparing.online.origins import Origins
from sparing.online.sets import ConfidenceSets

Items = Mapping[Hashable, Sequence[float]] | np.ndarray
"""Features of the items that the actions stand for: by name, or a row for each action (K, q)."""

Kernel = int | str | None
"""Kernel features to add: a number of landmarks, `auto` by evidence, or none."""

TOLERATED = 0.05
"""What a skipped round may cost unless it is said, in deviations of a reward."""

MOST_RAISES = 20
"""How often the noise may be raised before a posterior is given up as inexact."""


def learn(
    log: Log | Summary,
    sums: Statistics,
    *,
    noise: float | None,
    items: Items | None = None,
    scale: float | None = None,
    mean: Any = None,
) -> Prior:
    """The prior that a log teaches, with the blocks of its encoder if it has one."""
    names = _block_names(log)
    z, standard = (None, None) if items is None else standardised(features_of(items, log))
    return evidence_prior(
        sums, blocks=blocks_of(sums, names), items=z, standard=standard, noise=noise, scale=scale, mean=mean
    )


def learn_spread(log: Log | Summary, sums: Statistics, ridge: float, **given: Any) -> Prior:
    """The prior of a posterior: by evidence, but for raw features without a constant, whose level it cannot tell apart."""
    own = given["items"] is not None or given["scale"] is not None or given["mean"] is not None
    found = None if own else between_actions(sums, blocks_of(sums, _block_names(log)), ridge)
    if found is None:
        return learn(log, sums, **given)
    prior = learn(log, sums, **{**given, "scale": found[0], "mean": found[1]})
    return replace(prior, given=(*prior.given, BETWEEN))


def _block_names(log: Log | Summary) -> tuple[str, ...] | None:
    """The blocks of a log's features; None where they are raw numbers."""
    return None if log.encoder.is_raw else log.encoder.blocks


def known_items(log: Any, items: Items | None) -> Items | None:
    """The items that were given, else those of the log, if it has any."""
    known = log.items if isinstance(log, Log | Summary) else None
    return items if items is not None or known is None else known.features


def with_wanted_kernel(log: Any, kernel: Kernel) -> Any:
    """The log, or what walking it told, with kernel features if they are asked for."""
    if kernel is None:
        return known_log(log)
    if not isinstance(log, Log):
        raise SettingError(
            "kernel=... needs the log's rows; scan it with features=sparing.features(..., kernel=...) instead"
        )
    return with_kernel(log, kernel)


def contexts_to_come(log: Log | Summary) -> np.ndarray:
    """Logged contexts that stand for those to come, (m, d)."""
    found = log.reservoir if isinstance(log, Summary) else sampled(log.contexts)
    if not len(found):
        raise SettingError(
            "economical needs logged contexts, which stand for those to come; this log has no rows, or its summary keeps none"
        )
    return found


def known_tolerance(tolerance: float | None, log: Any, sums: Statistics) -> float:
    """What a skipped round may cost: as given, with a warning where it is large; else a share of the rewards' deviation."""
    if not sums.n_rows:
        if tolerance is None:
            raise SettingError(
                "without logged rows there is no deviation to take a tolerance from; pass tolerance=..."
            )
        return float(tolerance)
    deviation = reward_deviation(sums, blocks_of(sums, _block_names(log)))
    if tolerance is None:
        return TOLERATED * deviation
    if tolerance > deviation / 2 > 0:
        warnings.warn(
            f"tolerance={tolerance:g} is more than half of {deviation:.4g}, the deviation of the log's rewards: skipped rounds may "
            f"cost nearly all there is to learn. Leave it out for {TOLERATED * deviation:.3g}, {TOLERATED:.0%} of the deviation",
            UnitWarning,
            stacklevel=4,
        )
    return float(tolerance)


def features_of(items: Items, log: Log | Summary) -> np.ndarray:
    """Item features, a row for each action (K, q)."""
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


def posterior(
    sums: Statistics,
    assumptions: Assumptions,
    prior: Prior,
    misfit: float,
    *,
    reservoir: np.ndarray | None = None,
) -> tuple[ConfidenceSets, Prior]:
    """Sets of the posterior, and the prior they come from; σ is raised to where every V_a can be learnt on exactly."""
    for _ in range(MOST_RAISES):
        believed, origins = replace(assumptions, noise=prior.noise), Origins.of(prior, sums)
        try:
            sets = ConfidenceSets(
                sums,
                believed,
                origins=origins,
                constant=prior.noise,
                misfit=misfit,
                watch=True,
                reservoir=reservoir,
            )
        except SettingError:
            least = 10 * prior.noise
        else:
            if sets.condition <= CONDITION / 2:
                return sets, prior
            least = 1.1 * prior.noise * float(np.sqrt(2 * sets.condition / CONDITION))
        prior = prior.noisier(sums, least)
    raise SettingError(
        "some features repeat others so closely that no posterior is exact in double precision. Scale the features to sizes "
        "around 1 and drop those that repeat others, or pass a smaller prior_scale"
    )


def centred(
    sums: Statistics,
    assumptions: Assumptions,
    prior: Prior | None,
    *,
    growing: bool = False,
    added: np.ndarray | None = None,
) -> ConfidenceSets:
    """V_a = λI + G_a, b_a = λc_a + Σxr around c_a = Ŵz_a; around 0 without a prior.

    The radius holds around any centre, one learnt from the same rows too: θ̂ − θ* = V⁻¹(λ(c − θ*) + Σxε), so that S_θ need only
    bound ‖θ*_a − c_a‖. Where that is to be estimated, it is how far logged actions lie from where all others put them.
    """
    if prior is None:
        return ConfidenceSets(sums, assumptions, growing=growing, added=added)
    centers = prior.centers()
    center = centers if prior.items.shape[1] > 1 else centers[0]
    if "theta_bound" in assumptions.estimated:
        assumptions = replace(assumptions, theta_bound=prior.farthest(sums, assumptions.ridge))
    origins = Origins.ridge(assumptions.ridge, center, sums.n_actions)
    return ConfidenceSets(sums, assumptions, origins=origins, growing=growing, added=added)
