"""The estimators, each as the rows of docs/math.md, section 10: one for its value, two for its bounds.

Each returns the terms of its value and those of the lower and the upper end of the support-aware interval (None where the
support is not known well enough to bound it), with its weights.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sparing.errors import LogError
from sparing.evaluation.intervals import Terms
from sparing.evaluation.rows import RewardPredictions, RowQuantities, value_or_raise


@dataclass(frozen=True, eq=False)
class EstimatorTerms:
    """An estimator's statistics and rows, (n,) each, in a block.

    terms: `plain` is the value; `low` and `high` are the ends of the support-aware interval; `least` and `most` those of the
    value's own interval, where it must reach further. rows: `weights`, and `unclipped` those before clipping; `missing`, the
    policy's unsupported mass; `clipped`, the further mass that clipping takes away; `deficit`, the weight deficit
    1 − u_i − w_i, and `unclipped deficit`, whose expectations are 0. imputed: the deficit counts with the model's value or
    the mean, not with 0. checked: the interval must contain that of `dr`. model: a reward model enters. fit: the standard
    error and the lift that fitted propensities bring.
    """

    terms: dict[str, Terms]
    rows: dict[str, np.ndarray]
    notes: tuple[str, ...] = ()
    imputed: bool = True
    checked: bool = False
    model: bool = False
    fit: tuple[float, float] = (0.0, 0.0)


def dm(of: RowQuantities) -> EstimatorTerms:
    """Direct method: mean Σ_a π·r̂, with the error of the fit in its interval; and that of the model, where DR can estimate it."""
    if of.settings.reward_model == "boosted":
        found = _modelled(of, of.model, lambda base, within: Terms(base))
        return replace(found, notes=("the interval leaves out the boosted model's own error; aipw's has it",))

    def terms(base: np.ndarray, within: bool) -> Terms:
        return Terms(base + of.influence(within_support=within))

    return _checked(of, _modelled(of, of.model, terms))


def _checked(of: RowQuantities, parts: EstimatorTerms) -> EstimatorTerms:
    """A value that rests on the reward model alone: its interval reaches as far as the doubly robust one's."""
    if of.log.propensities is not None:
        return replace(parts, checked=True)
    note = "dm's interval holds only if rewards are linear in the features; without propensities that is not checked"
    return replace(parts, notes=(*parts.notes, note))


def ips(of: RowQuantities) -> EstimatorTerms:
    """Inverse propensity scoring: mean w·r."""
    return _weighted(of, of.weights)


def mlips(of: RowQuantities) -> EstimatorTerms:
    """IPS with a fitted propensity, even where the logged one is known; the support is the log's.

    Fitted propensities do not define a support. Where it is unknown, so is the missing mass.
    """
    weights, (_, error) = of.fitted_weights, value_or_raise(of.shared.propensity_fit)
    if of.log.support.known:
        return replace(_weighted(of, weights), fit=error)
    terms = {"plain": Terms(weights * of.log.rewards)}
    return EstimatorTerms(terms, {"weights": weights}, imputed=False, fit=error)


def _weighted(of: RowQuantities, weights: np.ndarray) -> EstimatorTerms:
    earned = weights * of.log.rewards
    missing, *bounds, notes = _missing(of, weights)
    plain = Terms(earned)
    low, high = (plain if worth is missing else Terms(earned + worth) for worth in bounds)
    rows = {"missing": missing, "deficit": 1 - missing - weights, "weights": weights}
    return EstimatorTerms({"plain": plain, "low": low, "high": high}, rows, notes, imputed=False)


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
    earned = kept * of.log.rewards
    reach = most * (max(0.0, high_end) - min(0.0, low_end))
    span = reach if np.isfinite(reach) else None
    wide = None if span is None else span + max(abs(low_end), abs(high_end))
    missing, _, _, notes = _missing(of, weights)
    rows = {"missing": missing, "weights": kept, "unclipped": weights}
    if away is None:
        lack = missing + weights - kept
        low, high = lack * low_end, lack * high_end
        note = "what clipping takes away is estimated from the weights: μ is known of logged actions only"
        notes += (note,)
    else:
        lack, (low, high) = away.mass, away.bounds
        rows["deficit"] = 1 - lack - kept
    cut = lack - missing
    rows |= {"clipped": cut, "unclipped deficit": 1 - missing - weights}
    worths = {"low": low, "high": high, "least": cut * low_end, "most": cut * high_end}
    terms = {name: Terms(earned + worth, span=wide) for name, worth in worths.items()}
    return EstimatorTerms({"plain": Terms(earned, span=span), **terms}, rows, notes, imputed=False)


def cab(of: RowQuantities) -> EstimatorTerms:
    """Clipped weights, and r̂ for what they leave: mean[Σ_a max(0, π − Mμ)·r̂ + min(w, M)·r]."""
    away = of.clipped_away
    if away is None:
        raise LogError("cab needs μ of every action, not only of the logged ones (columns p_<action>)")
    kept, missing = np.minimum(of.weights, of.clip_threshold), _missing(of, of.weights)[0]
    earned, (low, high) = kept * of.log.rewards, away.bounds
    worths = {"plain": of.model.predicted_value(away), "low": low, "high": high}
    rows = {
        "missing": missing,
        "clipped": away.mass - missing,
        "deficit": 1 - away.mass - kept,
        "weights": kept,
    }
    terms = {name: Terms(earned + worth) for name, worth in worths.items()}
    return _checked(of, EstimatorTerms(terms, rows, model=True))


def snips(of: RowQuantities) -> EstimatorTerms:
    """Self-normalised IPS: Σwr/Σw; bounds (1 − ū)·SNIPS + ū·[r_min, r_max]."""
    zero, numerator = np.zeros(of.log.n_rows), of.weights * of.log.rewards
    missing, _, _, notes = _missing(of, of.weights)
    share = float(np.clip(of.shared.means["missing"], 0, 1))
    worth = [of.shared.means["low"], of.shared.means["high"]]
    if not of.log.support.known:  # an estimate of the mass, which may be below 0 by chance
        worth = [share * end for end in of.reward_range]
    low, high = (Terms(zero + each, numerator, of.weights, 1 - share) for each in worth)
    terms = {"plain": Terms(zero, numerator, of.weights), "low": low, "high": high}
    rows = {"missing": missing, "deficit": 1 - missing - of.weights, "weights": of.weights}
    return EstimatorTerms(terms, rows, notes)


def dr(of: RowQuantities) -> EstimatorTerms:
    """Doubly robust: DM + mean w·(r − r̂)."""
    return _doubly_robust(of, of.model)


def aipw(of: RowQuantities) -> EstimatorTerms:
    """Doubly robust with cross-fitted rewards: no row is predicted by a model that has seen its context."""
    return _doubly_robust(of, of.cross_fitted)


def _doubly_robust(of: RowQuantities, model: RewardPredictions) -> EstimatorTerms:
    correction = of.weights * (of.log.rewards - model.direct[1])
    return _modelled(of, model, lambda base, within: Terms(base + correction), of.weights)


def sndr(of: RowQuantities) -> EstimatorTerms:
    """Self-normalised doubly robust: DM + Σw(r − r̂)/Σw; in the bounds the ratio counts 1 − ū."""
    numerator, outside = of.weights * (of.log.rewards - of.model.direct[1]), of.unsupported

    def terms(base: np.ndarray, within: bool) -> Terms:
        factor = 1 - of.shared.means["missing"] if within and outside is not None else 1.0
        return Terms(base, numerator, of.weights, factor)

    return _modelled(of, of.model, terms, of.weights)


def _modelled(
    of: RowQuantities,
    model: RewardPredictions,
    terms: Callable[[np.ndarray, bool], Terms],
    weights: np.ndarray | None = None,
) -> EstimatorTerms:
    """What the model predicts of all actions, and of those within the support, each made into terms.

    The bounds add to the latter the least and the most that the policy may earn outside. Without weights all are 1.
    """
    found, outside = {"plain": terms(model.direct[0], False)}, of.unsupported
    rows = {"weights": np.ones(of.log.n_rows) if weights is None else weights}
    if outside is not None and model.inside is not None:
        inside = terms(model.inside, True)
        for name, worth in zip(("low", "high"), outside.bounds, strict=True):
            found[name] = inside if outside.empty else replace(inside, base=inside.base + worth)
        rows["missing"] = outside.mass
        if weights is not None:
            rows["deficit"] = 1 - outside.mass - weights
    return EstimatorTerms(found, rows, model=True)


LOGGED_WEIGHTS = ("ips", "clipped", "snips", "dr", "sndr", "cab", "aipw")
"""Estimators that weight rows by logged propensities."""

ESTIMATORS: dict[str, Callable[[RowQuantities], EstimatorTerms]] = {
    estimator.__name__: estimator for estimator in (dm, ips, clipped, snips, dr, sndr, cab, mlips, aipw)
}
