"""The estimators, each as the rows of docs/math.md, section 10: one for its value, two for its bounds.

Each returns the terms of its value and those of the lower and the upper end of the support-aware interval (None where the
support is not known well enough to bound it), with its weights.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sparing.errors import LogError
from sparing.evaluation.intervals import Terms
from sparing.evaluation.rows import RewardPredictions, RowQuantities


@dataclass(frozen=True, eq=False)
class EstimatorTerms:
    """An estimator's rows in a block; arrays are (n,).

    Attributes
    ----------
    plain, low, high : Terms
        Of the value, and of the ends of the support-aware interval.
    missing, clipped : ndarray
        The policy's unsupported mass, and the further mass that clipping takes away.
    weights, unclipped : ndarray
        The weights, and those before clipping.
    deficit : ndarray
        The weight deficit of a row, 1 − u_i − w_i; its expectation is 0.
    imputed : bool
        Whether the deficit counts with the model's value or the mean, not with 0.
    ends : tuple of Terms
        Of the ends of the value's own interval, where it must reach further.
    check : EstimatorTerms
        Of another estimate that the interval must contain.
    model : bool
        Whether a reward model enters.
    fit : tuple of float
        The standard error and the lift that fitted propensities bring.
    """

    plain: Terms
    low: Terms | None
    high: Terms | None
    missing: np.ndarray | None
    weights: np.ndarray
    notes: tuple[str, ...] = ()
    clipped: np.ndarray | None = None
    unclipped: np.ndarray | None = None
    deficit: np.ndarray | None = None
    imputed: bool = True
    ends: tuple[Terms, Terms] | None = None
    check: "EstimatorTerms | None" = None
    model: bool = False
    fit: tuple[float, float] = (0.0, 0.0)


def dm(of: RowQuantities) -> EstimatorTerms:
    """Direct method: mean Σ_a π·r̂, with the error of the fit in its interval; and that of the model, where DR can estimate it."""
    if of.settings.reward_model == "boosted":
        found = _modelled(of, of.model, lambda base, within: Terms(base), np.ones(of.log.n_rows))
        return replace(found, notes=("the interval leaves out the boosted model's own error; aipw's has it",))

    def terms(base: np.ndarray, within: bool) -> Terms:
        return Terms(base + of.influence(within_support=within))

    return _checked(of, _modelled(of, of.model, terms, np.ones(of.log.n_rows)))


def _checked(of: RowQuantities, parts: EstimatorTerms) -> EstimatorTerms:
    """A value that rests on the reward model alone: its interval reaches as far as the doubly robust one's."""
    if of.log.propensities is not None:
        return replace(parts, check=dr(of))
    note = "dm's interval holds only if rewards are linear in the features; without propensities that is not checked"
    return replace(parts, notes=(*parts.notes, note))


def ips(of: RowQuantities) -> EstimatorTerms:
    """Inverse propensity scoring: mean w·r."""
    return _weighted(of, of.weights)


def mlips(of: RowQuantities) -> EstimatorTerms:
    """IPS with a fitted propensity, even where the logged one is known; the support is the log's.

    Fitted propensities do not define a support. Where it is unknown, so is the missing mass.
    """
    weights = of.fitted_weights
    parts = EstimatorTerms(Terms(weights * of.log.rewards), None, None, None, weights, imputed=False)
    if of.log.support.known:
        parts = _weighted(of, weights)
    return replace(parts, fit=of.fit_error)


def _weighted(of: RowQuantities, weights: np.ndarray) -> EstimatorTerms:
    terms = weights * of.log.rewards
    missing, low, high, notes = _missing(of, weights)
    plain, deficit = Terms(terms), 1 - missing - weights
    lower, upper = (plain if worth is missing else Terms(terms + worth) for worth in (low, high))
    return EstimatorTerms(plain, lower, upper, missing, weights, notes, deficit=deficit, imputed=False)


def _missing(
    of: RowQuantities, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[str, ...]]:
    """Missing mass and the bounds of its rewards; by the weights where the support is unknown, since E[1 − w] = ū.

    The bounds are the missing mass itself where that is 0 in every row.
    """
    outside = of.unsupported
    if outside is not None:
        return outside.mass, *outside.bounds, ()
    lack = 1 - weights
    note = "the support is unknown: the policy's probability on unsupported actions is estimated as 1 − mean weight"
    return lack, lack * of.reward_range[0], lack * of.reward_range[1], (note,)


def clipped(of: RowQuantities) -> EstimatorTerms:
    """Clipped IPS: mean min(w, M)·r; what clipping takes away is missing too."""
    weights, (low_end, high_end) = of.weights, of.reward_range
    most, away = of.clip_threshold, of.clipped_away
    kept = np.minimum(weights, most)
    terms = kept * of.log.rewards
    reach = most * (max(0.0, high_end) - min(0.0, low_end))
    span = reach if np.isfinite(reach) else None
    wide = None if span is None else span + max(abs(low_end), abs(high_end))
    missing, _, _, notes = _missing(of, of.weights)
    if away is None:
        lack = missing + of.weights - kept
        low, high = lack * low_end, lack * high_end
        note = "what clipping takes away is estimated from the weights: μ is known of logged actions only"
        notes += (note,)
    else:
        lack, (low, high) = away.mass, away.bounds
    cut = lack - missing
    lower, upper = (Terms(terms + worth, span=wide) for worth in (low, high))
    ends = Terms(terms + cut * low_end, span=wide), Terms(terms + cut * high_end, span=wide)
    return EstimatorTerms(
        Terms(terms, span=span),
        lower,
        upper,
        missing,
        kept,
        notes,
        clipped=cut,
        unclipped=of.weights,
        deficit=None if away is None else 1 - lack - kept,
        imputed=False,
        ends=ends,
    )


def cab(of: RowQuantities) -> EstimatorTerms:
    """Clipped weights, and r̂ for what they leave: mean[Σ_a max(0, π − Mμ)·r̂ + min(w, M)·r]."""
    away = of.clipped_away
    if away is None:
        raise LogError("cab needs μ of every action, not only of the logged ones (columns p_<action>)")
    kept, missing = np.minimum(of.weights, of.clip_threshold), _missing(of, of.weights)[0]
    terms = kept * of.log.rewards
    plain, low, high = (Terms(terms + worth) for worth in (of.model.predicted_value(away), *away.bounds))
    cut, short = away.mass - missing, 1 - away.mass - kept
    return _checked(
        of, EstimatorTerms(plain, low, high, missing, kept, clipped=cut, deficit=short, model=True)
    )


def snips(of: RowQuantities) -> EstimatorTerms:
    """Self-normalised IPS: Σwr/Σw; bounds (1 − ū)·SNIPS + ū·[r_min, r_max]."""
    zero, numerator = np.zeros(of.log.n_rows), of.weights * of.log.rewards
    missing, _, _, notes = _missing(of, of.weights)
    share = float(np.clip(of.global_mean("missing"), 0, 1))
    worth = [of.global_mean("low"), of.global_mean("high")]
    if not of.log.support.known:  # an estimate of the mass, which may be below 0 by chance
        worth = [share * end for end in of.reward_range]
    lower, upper = (Terms(zero + each, numerator, of.weights, 1 - share) for each in worth)
    plain, deficit = Terms(zero, numerator, of.weights), 1 - missing - of.weights
    return EstimatorTerms(plain, lower, upper, missing, of.weights, notes, deficit=deficit)


def dr(of: RowQuantities) -> EstimatorTerms:
    """Doubly robust: DM + mean w·(r − r̂)."""
    return _doubly_robust(of, of.model)


def aipw(of: RowQuantities) -> EstimatorTerms:
    """Doubly robust with cross-fitted rewards: no row is predicted by a model that has seen its context."""
    return _doubly_robust(of, of.cross_fitted)


def _doubly_robust(of: RowQuantities, model: RewardPredictions) -> EstimatorTerms:
    correction = of.weights * (of.log.rewards - model.direct[1])
    return _with_deficit(of, _modelled(of, model, lambda base, within: Terms(base + correction), of.weights))


def _with_deficit(of: RowQuantities, parts: EstimatorTerms) -> EstimatorTerms:
    return parts if parts.missing is None else replace(parts, deficit=1 - parts.missing - of.weights)


def sndr(of: RowQuantities) -> EstimatorTerms:
    """Self-normalised doubly robust: DM + Σw(r − r̂)/Σw; in the bounds the ratio counts 1 − ū."""
    numerator, outside = of.weights * (of.log.rewards - of.model.direct[1]), of.unsupported

    def terms(base: np.ndarray, within: bool) -> Terms:
        factor = 1 - of.global_mean("missing") if within and outside is not None else 1.0
        return Terms(base, numerator, of.weights, factor)

    return _with_deficit(of, _modelled(of, of.model, terms, of.weights))


def _modelled(
    of: RowQuantities,
    model: RewardPredictions,
    terms: Callable[[np.ndarray, bool], Terms],
    weights: np.ndarray,
) -> EstimatorTerms:
    """What the model predicts of all actions, and of those within the support, each made into terms.

    The bounds add to the latter the least and the most that the policy may earn outside.
    """
    plain, outside = terms(model.direct[0], False), of.unsupported
    if outside is None or model.inside is None:
        return EstimatorTerms(plain, None, None, None, weights, model=True)
    inside = terms(model.inside, True)
    low, high = (
        inside if outside.empty else replace(inside, base=inside.base + worth) for worth in outside.bounds
    )
    return EstimatorTerms(plain, low, high, outside.mass, weights, model=True)


ESTIMATORS: dict[str, Callable[[RowQuantities], EstimatorTerms]] = {
    estimator.__name__: estimator for estimator in (dm, ips, clipped, snips, dr, sndr, cab, mlips, aipw)
}
