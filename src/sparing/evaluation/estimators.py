"""The estimators, each as the rows of docs/math.md, section 10: one for its value, two for its bounds.

Each returns its own terms and those of the lower and the upper end of the support-aware interval
(None where the support is not known well enough to bound it), with the weights it leans on.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sparing.errors import LogError
from sparing.evaluation.ingredients import Ingredients, Model
from sparing.evaluation.intervals import Terms


@dataclass(frozen=True, eq=False)
class Parts:
    """An estimator's rows: its value's, the bounds', the policy's unsupported mass, the weights.

    `clipped` is the further mass that clipping takes away, `whole` (n,) are the weights before it. `lack` (n,) is what the weights of a row are short of, on average 0:
    1 − u_i − w_i; `filled` says whether what they are short of counts with the model or the mean, not with 0. `ends`
    are rows for the ends of the value's own interval, where it must reach further. `check` are those of an estimate
    which must lie in it too. `model`: whether a reward model speaks in it. `fit`: the standard error and
    the lift that fitted propensities bring.
    """

    plain: Terms
    low: Terms | None
    high: Terms | None
    missing: np.ndarray | None
    weights: np.ndarray
    notes: tuple[str, ...] = ()
    clipped: np.ndarray | None = None
    whole: np.ndarray | None = None
    lack: np.ndarray | None = None
    filled: bool = True
    ends: tuple[Terms, Terms] | None = None
    check: "Parts | None" = None
    model: bool = False
    fit: tuple[float, float] = (0.0, 0.0)


def dm(of: Ingredients) -> Parts:
    """Direct method: mean Σ_a π·r̂, with the error of the fit in its interval; and that of the model, where DR can tell."""
    if of.given.reward_model == "boosted":
        found = _modelled(of, of.model, lambda base, within: Terms(base), np.ones(of.log.n_rows))
        return replace(found, notes=("the interval leaves out the boosted model's own error; aipw's has it",))

    def terms(base: np.ndarray, within: bool) -> Terms:
        return Terms(base + of.influence(within_support=within))

    return _checked(of, _modelled(of, of.model, terms, np.ones(of.log.n_rows)))


def _checked(of: Ingredients, parts: Parts) -> Parts:
    """A value that rests on the reward model alone: its interval reaches as far as the doubly robust one's."""
    if of.log.propensities is not None:
        return replace(parts, check=dr(of))
    note = "dm's interval holds only if rewards are linear in the features; without propensities that is not checked"
    return replace(parts, notes=(*parts.notes, note))


def ips(of: Ingredients) -> Parts:
    """Inverse propensity scoring: mean w·r."""
    return _weighted(of, of.weights)


def mlips(of: Ingredients) -> Parts:
    """IPS with a fitted propensity, even where the logged one is known; the support is the log's.

    Fitted propensities know nothing of the support: where that is unknown, so is what is missing.
    """
    weights = of.fitted_weights
    parts = Parts(Terms(weights * of.log.rewards), None, None, None, weights, filled=False)
    if of.log.support.known:
        parts = _weighted(of, weights)
    return replace(parts, fit=of.fit_error)


def _weighted(of: Ingredients, weights: np.ndarray) -> Parts:
    terms = weights * of.log.rewards
    missing, low, high, notes = _missing(of, weights)
    ends = Terms(terms + low), Terms(terms + high)
    return Parts(Terms(terms), *ends, missing, weights, notes, lack=1 - missing - weights, filled=False)


def _missing(
    of: Ingredients, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[str, ...]]:
    """Missing mass and its worth; from the weights where the support is unknown, since E[1 − w] = ū."""
    outside = of.unsupported
    if outside is not None:
        return outside.mass, outside.low, outside.high, ()
    lack = 1 - weights
    note = "the support is unknown: the unsupported mass is estimated as 1 − mean weight"
    return lack, lack * of.reward_range[0], lack * of.reward_range[1], (note,)


def clipped(of: Ingredients) -> Parts:
    """Clipped IPS: mean min(w, M)·r; what clipping takes away is missing too."""
    kept, away = np.minimum(of.weights, of.cap), of.clipped_away
    terms = kept * of.log.rewards
    low_end, high_end = of.reward_range
    reach = of.cap * (max(0.0, high_end) - min(0.0, low_end))
    span = reach if np.isfinite(reach) else None
    wide = None if span is None else span + max(abs(low_end), abs(high_end))
    missing, _, _, notes = _missing(of, of.weights)
    if away is None:
        lack = missing + of.weights - kept
        low, high = lack * low_end, lack * high_end
        note = "what clipping takes away is estimated from the weights: μ is known of logged actions only"
        notes += (note,)
    else:
        lack, low, high = away.mass, away.low, away.high
    cut = lack - missing
    lower, upper = (Terms(terms + worth, span=wide) for worth in (low, high))
    ends = Terms(terms + cut * low_end, span=wide), Terms(terms + cut * high_end, span=wide)
    short = None if away is None else 1 - lack - kept
    return Parts(
        Terms(terms, span=span), lower, upper, missing, kept, notes, cut, of.weights, short, False, ends
    )


def cab(of: Ingredients) -> Parts:
    """Clipped weights, and r̂ for what they leave: mean[Σ_a max(0, π − Mμ)·r̂ + min(w, M)·r]."""
    away = of.clipped_away
    if away is None:
        raise LogError("cab needs μ of every action, not only of the logged ones (columns p_<action>)")
    kept, missing = np.minimum(of.weights, of.cap), _missing(of, of.weights)[0]
    terms = kept * of.log.rewards
    plain, low, high = (Terms(terms + worth) for worth in (of.model.worth(away), away.low, away.high))
    cut, short = away.mass - missing, 1 - away.mass - kept
    return _checked(of, Parts(plain, low, high, missing, kept, clipped=cut, lack=short, model=True))


def snips(of: Ingredients) -> Parts:
    """Self-normalised IPS: Σwr/Σw; bounds (1 − ū)·SNIPS + ū·[r_min, r_max]."""
    zero, numerator = np.zeros(of.log.n_rows), of.weights * of.log.rewards
    missing, low, high, notes = _missing(of, of.weights)
    share = float(np.clip(of.mean_of("missing", missing), 0, 1))
    worth = [of.mean_of("low", low), of.mean_of("high", high)]
    if not of.log.support.known:  # an estimate of the mass, which luck can take below 0
        worth = [share * end for end in of.reward_range]
    lower, upper = (Terms(zero + each, numerator, of.weights, 1 - share) for each in worth)
    plain = Terms(zero, numerator, of.weights)
    return Parts(plain, lower, upper, missing, of.weights, notes, lack=1 - missing - of.weights)


def dr(of: Ingredients) -> Parts:
    """Doubly robust: DM + mean w·(r − r̂)."""
    return _doubly_robust(of, of.model)


def aipw(of: Ingredients) -> Parts:
    """Doubly robust with cross-fitted rewards: no row is judged by a model that has seen its context."""
    return _doubly_robust(of, of.cross_fitted)


def _doubly_robust(of: Ingredients, model: Model) -> Parts:
    correction = of.weights * (of.log.rewards - model.direct[1])
    return _weighing(of, _modelled(of, model, lambda base, within: Terms(base + correction), of.weights))


def _weighing(of: Ingredients, parts: Parts) -> Parts:
    """The same, knowing what its weights are short of, where the support says what they ought to be."""
    return parts if parts.missing is None else replace(parts, lack=1 - parts.missing - of.weights)


def sndr(of: Ingredients) -> Parts:
    """Self-normalised doubly robust: DM + Σw(r − r̂)/Σw; in the bounds the ratio counts 1 − ū."""
    numerator, outside = of.weights * (of.log.rewards - of.model.direct[1]), of.unsupported

    def terms(base: np.ndarray, within: bool) -> Terms:
        factor = 1 - of.mean_of("missing", outside.mass) if within and outside is not None else 1.0
        return Terms(base, numerator, of.weights, factor)

    return _weighing(of, _modelled(of, of.model, terms, of.weights))


def _modelled(
    of: Ingredients, model: Model, terms: Callable[[np.ndarray, bool], Terms], weights: np.ndarray
) -> Parts:
    """What the model says of all actions, and of those within the support, each made into terms.

    The bounds add to the latter the least and the most that the policy may earn outside.
    """
    plain, outside = terms(model.direct[0], False), of.unsupported
    if outside is None or model.inside is None:
        return Parts(plain, None, None, None, weights, model=True)
    inside = terms(model.inside, True)
    low, high = (replace(inside, base=inside.base + worth) for worth in (outside.low, outside.high))
    return Parts(plain, low, high, outside.mass, weights, model=True)


ESTIMATORS: dict[str, Callable[[Ingredients], Parts]] = {
    estimator.__name__: estimator for estimator in (dm, ips, clipped, snips, dr, sndr, cab, mlips, aipw)
}
