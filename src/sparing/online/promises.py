"""What each learner promises, in words, with the conditions it rests on."""

from dataclasses import replace
from typing import TYPE_CHECKING

from sparing.model.assumptions import Assumptions
from sparing.model.prior import Prior
from sparing.online.rules import Certified, Confident, Economical

if TYPE_CHECKING:
    from sparing.online.learner import Learner

FRESH = (
    "fresh noise in every reward (no replayed labels, no log filtered by reward, no delays that depend on it)"
)


CENTRED = "theta_bound bounds how far parameters lie from the centres that the log teaches"


def again(learner: "Learner") -> str:
    """The promise of a learner whose prior was learnt anew."""
    rules = learner.rules
    if rules and isinstance(rules[0], Confident) and learner.prior is not None:
        rule = rules[0]
        return confident(
            learner.assumptions, learner.prior, rule.tolerance, rule.confidence, strict=rule.strict
        )
    if rules and isinstance(rules[0], Economical) and learner.prior is not None:
        return economical(learner.assumptions, learner.prior, rules[0])
    if rules and isinstance(rules[0], Certified):
        return certified(learner.assumptions, rules[0].tolerance, centred=True)
    return optimistic(learner.assumptions, centred=True)


def optimistic(assumptions: Assumptions, *, centred: bool = False) -> str:
    """Regret of OFUL."""
    if assumptions.radius_scale < 1:
        return none(f"radius_scale {assumptions.radius_scale:g} < 1")
    return _joined(
        f"with probability {1 - assumptions.delta:g} every confidence set holds its action's parameters "
        f"and regret grows like sqrt(K·T); rests on linear rewards, {FRESH}",
        CENTRED if centred else "",
        assumptions.conditions,
        _paper(assumptions),
    )


def points(assumptions: Assumptions, how: str) -> str:
    """Corrected Theorem 2."""
    return _joined(
        f"corrected Theorem 2, if the parameters of 𝓛 ({how}) are within ε: skipped rounds cost up to "
        "2·ε·S_x each; nothing checks ε",
        optimistic(assumptions),
    )


def unproved(how: str) -> str:
    """Theorem 3."""
    return none(
        f"Theorem 3 is not proved as printed (its threshold is one noisy sample, selected by its value); 𝓛: {how}"
    )


def limited(assumptions: Assumptions, how: str) -> str:
    """Theorem 3 with a lower limit for a threshold; live sets and limits have `assumptions.delta` each."""
    return _joined(
        f"corrected Theorem 2, if the parameters of 𝓛 ({how}) are within ε: rounds skipped as log-beats cost up to "
        "ε·S_x each (nothing if inflate ≥ ε), other skipped rounds up to 2·ε·S_x; nothing checks ε",
        optimistic(replace(assumptions, delta=2 * assumptions.delta)),
    )


def certified(assumptions: Assumptions, tolerance: float, *, centred: bool = False) -> str:
    """The worst-case guarantee."""
    if assumptions.radius_scale < 1:
        return none(f"radius_scale {assumptions.radius_scale:g} < 1")
    return _joined(
        f"with probability {1 - assumptions.delta:g} every skipped round costs at most {tolerance:g}; "
        f"rests on linear rewards, {FRESH}",
        CENTRED if centred else "",
        assumptions.conditions,
        _paper(assumptions),
    )


def confident(
    assumptions: Assumptions, prior: Prior, tolerance: float, confidence: float, *, strict: bool
) -> str:
    """The Bayesian promise."""
    conditions = [c for c in (assumptions.estimated + assumptions.assumed) if c == "noise"]
    together = (
        "differences are taken √2 times as uncertain, whatever the correlation of two estimates"
        if strict
        else "two estimates count as independent, which can understate their difference up to √2-fold (strict=True does not)"
    )
    return _joined(
        f"on average over worlds drawn from the prior ({prior}), at most "
        f"{1 - confidence:.4g} of the skipped rounds are worse than {tolerance:g}; not a promise for each "
        "world; rests on linear rewards and on unlogged actions being exchangeable with logged ones",
        "" if prior.certain else together,
        f"conditional on estimated noise = {assumptions.noise:.4g}" if conditions else "",
    )


def economical(assumptions: Assumptions, prior: Prior, rule: Economical) -> str:
    """What a price promises."""
    future = (
        f"{rule.horizon:,} rounds" if rule.discount is None else f"rounds that count {rule.discount:g} each"
    )
    return _joined(
        f"no call is made where even knowing all would not repay its price of {rule.call_cost:.4g} over {future}, as far as the "
        f"posterior knows ({prior}); designed so that regret and calls together cost no more on average than the log alone, "
        "which is proved for one call ahead and tested for more; no promise for each world; rests on linear rewards, on contexts "
        "to come being like the log's, and on unlogged actions being exchangeable with logged ones",
        f"at most {rule.calls:,} calls" if rule.calls is not None else "",
        f"conditional on estimated noise = {assumptions.noise:.4g}"
        if "noise" in assumptions.estimated
        else "",
    )


def none(why: str) -> str:
    """No promise, and why."""
    return f"none: {why}"


def _paper(assumptions: Assumptions) -> str:
    return "the paper's radius is proved for two features or more" if assumptions.radius == "paper" else ""


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
