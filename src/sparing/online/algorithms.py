"""The algorithms as functions that build a learner, and what each of them guarantees."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from sparing.errors import SettingError
from sparing.log import Log
from sparing.log.rows import AnyLog, Rows
from sparing.model.confidence import Assumptions, positive
from sparing.model.confidence import SupportedSetRule as ChooseSupported
from sparing.model.prior import Prior
from sparing.model.statistics import LogSummary
from sparing.online.confidence_sets import ConfidenceSets
from sparing.online.learner import Learner
from sparing.online.log_beats import LogBeats
from sparing.online.rules import CertifiedRule, ConfidentRule, EconomicalRule, SupportedRule
from sparing.online.start import AssumptionSettings as AssumptionSettings
from sparing.online.start import (
    ItemFeatures,
    KernelOption,
    LearnerSettings,
    LearnerStart,
    call_terms,
    centred_sets,
    fit_prior,
    fit_prior_scale,
    future_contexts,
    posterior_sets,
    price_for,
    reprice,
    resolve_items,
    resolve_kernel,
    resolve_reward_range,
    resolve_start,
    resolve_tolerance,
    with_settings_signature,
)
from sparing.validation import fraction, number, one_of

if TYPE_CHECKING:
    from sparing.online.learner import Learner


@with_settings_signature
def moful(
    log: AnyLog | LogSummary | None = None,
    *,
    n_actions: int | None = None,
    n_features: int | None = None,
    actions: Sequence[Hashable] | None = None,
    **settings: Unpack[LearnerSettings],
) -> Learner:
    """mOFUL (Alg. 1): optimism from online rows only, a reward call every round.

    A log, where given, names the actions and teaches noise and bounds, nothing else. Without one, noise
    and bounds that are not given are assumed to be 1.
    """
    start = resolve_start(log, settings, n_actions, n_features, actions)
    sets = ConfidenceSets(start.nothing, start.assumptions, growing=start.growing)
    return start.learner("moful", sets, [], guarantee=optimistic_guarantee(start.assumptions))


@with_settings_signature
def eps_moful(
    log: Log, *, supported: ChooseSupported, inflate: float = 0.0, **settings: Unpack[LearnerSettings]
) -> Learner:
    """ε-mOFUL (Alg. 2): actions in 𝓛 are points fitted to the log, the others learn online.

    `supported` is top(L), elbow(), certified_within(ε) or given({action: theta}); `inflate` = ε adds
    ε·S_x to the points, which restores optimism.
    """
    _needs_rows("eps_moful", log)
    start = resolve_start(log, settings)
    sets, how = _points(log, start, supported, inflate)
    guarantee = points_guarantee(start.assumptions, how)
    return start.learner("eps_moful", sets, [SupportedRule(sets.frozen)], guarantee=guarantee)


@with_settings_signature
def eps_moful_ips(
    log: Log,
    *,
    supported: ChooseSupported,
    clip: float | str = "percentile-ratio",
    answer: str = "logged",
    beats: str = "sample",
    inflate: float = 0.0,
    **settings: Unpack[LearnerSettings],
) -> Learner:
    """ε-mOFUL-IPS (Alg. 3): ε-mOFUL that also skips where the log's own reward is not beaten.

    `clip` is M of π⁺: `percentile-ratio`, a number or `inf`. `answer` says what a round that the log
    beats plays: the context's `logged` action, or one drawn from π⁺ (`policy`). `beats`: by the log's weighted reward, one
    noisy `sample` (the paper), or by a lower confidence `limit` of the logged action, which has a guarantee and no π⁺.
    """
    _needs_rows("eps_moful_ips", log)
    start = resolve_start(log, settings)
    if beats == "limit":  # live sets and limits have half of δ each
        start = replace(start, assumptions=replace(start.assumptions, delta=start.assumptions.delta / 2))
    sets, how = _points(log, start, supported, inflate)
    beaten = LogBeats.of(log, start.sums, start.assumptions, start.priority, beats, clip, answer)
    guarantee = limited_guarantee(start.assumptions, how) if beats == "limit" else unproved_guarantee(how)
    return start.learner("eps_moful_ips", sets, [beaten, SupportedRule(sets.frozen)], guarantee=guarantee)


@with_settings_signature
def warm_started(
    log: AnyLog | LogSummary,
    *,
    center: str = "auto",
    items: ItemFeatures | None = None,
    kernel: KernelOption = None,
    **settings: Unpack[LearnerSettings],
) -> Learner:
    """Optimism from the log's rows and online ones together, a reward call every round.

    `center` is what sets shrink to and S_θ is measured from: `zero`; `learnt`, what the log's other actions (and `items`)
    say of an action, Ŵz_a; `auto`, learnt unless a theta_bound is given, which then speaks of θ* itself. `kernel` adds
    kernel features to the log's: a number of landmarks, or `auto` (see `with_kernel`).
    """
    log, items = resolve_kernel(log, kernel), resolve_items(log, items)
    start = resolve_start(log, settings)
    sets, prior = _centred(log, start, settings, center, items)
    guarantee = optimistic_guarantee(sets.assumptions, centred=prior is not None)
    return start.learner("warm_started", sets, [], guarantee=guarantee, prior=prior)


@with_settings_signature
def certified(
    log: AnyLog | LogSummary,
    *,
    tolerance: float | None = None,
    explore: str = "leader",
    center: str = "auto",
    items: ItemFeatures | None = None,
    kernel: KernelOption = None,
    **settings: Unpack[LearnerSettings],
) -> Learner:
    """Warm-started, and skips where no rival can beat the leader by more than `tolerance`.

    With radius_scale ≥ 1 every skipped round costs at most `tolerance` (5 % of the rewards' deviation, if it is not said),
    with probability 1 − δ. `explore` plays the `leader`, or the `wider` of leader and closest rival; `center`, `items` and
    `kernel` are those of `warm_started`.
    """
    if tolerance is not None and not tolerance < np.inf:
        raise SettingError(f"tolerance={tolerance}; must be a number (−inf never skips)")
    one_of("explore", explore, ("leader", "wider"))
    log, items = resolve_kernel(log, kernel), resolve_items(log, items)
    start = resolve_start(log, settings)
    tolerance = resolve_tolerance(tolerance, log, start.sums)
    sets, prior = _centred(log, start, settings, center, items)
    guarantee = certified_guarantee(sets.assumptions, tolerance, centred=prior is not None)
    rules = [CertifiedRule(float(tolerance))]
    return start.learner("certified", sets, rules, explore=explore, guarantee=guarantee, prior=prior)


@with_settings_signature
def confident(
    log: AnyLog | LogSummary,
    *,
    tolerance: float | None = None,
    confidence: float = 0.95,
    explore: str = "optimistic",
    prior_scale: float | None = None,
    prior_mean: ArrayLike | None = None,
    items: ItemFeatures | None = None,
    kernel: KernelOption = None,
    spot_check: float = 0.01,
    misfit: float = 0.0,
    strict: bool = False,
    **settings: Unpack[LearnerSettings],
) -> Learner:
    """A posterior from a prior that the log teaches and its rows; skips where it is sure enough.

    The practical default. Skips if the chance that some action beats the best mean by more than
    `tolerance` (5 % of the rewards' deviation, if it is not said) is at most 1 − `confidence`. `explore` is `optimistic`,
    `wider` or `sampled`. `kernel` adds kernel features to the log's: a number of landmarks, or `auto`.
    `spot_check` of the rounds play a posterior-sampled action and are called; `misfit` is a deviation
    of the linear model itself, added to every estimate's. Radius settings have no effect here.

    The prior is fitted by evidence (docs/math.md), from one logged action on; `prior_scale` replaces the deviations of
    parameters between actions, `prior_mean` (d,) what they vary around. `items` are features of what the actions stand for, by
    name or (K, q): actions with like features are then expected to have like parameters. Two actions' estimates are correlated through what
    both were learnt from; `strict` takes √2 times the deviation of their difference, whatever the correlation.
    """
    if tolerance is not None:
        number("tolerance", tolerance, least=0)
    fraction("confidence", confidence)
    fraction("spot_check", spot_check, zero=True)
    number("misfit", misfit, least=0)
    one_of("explore", explore, ("optimistic", "wider", "sampled"))
    wanted: Any = {"prior_scale": prior_scale, "prior_mean": prior_mean, "items": items, "kernel": kernel}
    log, start, sets, prior = _posterior(log, settings, wanted, misfit)
    tolerance = resolve_tolerance(tolerance, log, start.sums)
    return start.learner(
        "confident",
        sets,
        [ConfidentRule(float(tolerance), float(confidence), bool(strict))],
        explore="wider-rival" if explore == "wider" else explore,
        optimism=2.0,
        spot_check=float(spot_check),
        guarantee=confident_guarantee(sets.assumptions, prior, tolerance, confidence, strict=bool(strict)),
        prior=prior,
    )


@with_settings_signature
def economical(
    log: AnyLog | LogSummary,
    *,
    call_cost: float | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    calls: int | None = None,
    prior_scale: float | None = None,
    prior_mean: ArrayLike | None = None,
    items: ItemFeatures | None = None,
    kernel: KernelOption = None,
    spot_check: float = 0.0,
    misfit: float = 0.0,
    **settings: Unpack[LearnerSettings],
) -> Learner:
    """Asks for a reward only where it repays its price over the rounds to come.

    `call_cost` is what one reward costs, in the reward's own units. `horizon` is how many rounds there will be, as many as the
    log has rows if nothing is said; or each further round counts `discount` times the one before it. `calls` is a budget: no
    more are made, and without a call_cost the price is the smallest at which worlds like the log's want no more on average.

    A call is made where some number n of calls like it is expected to better the rounds to come by more than it costs (docs/math.md);
    128 logged contexts stand for those to come. The prior, `items`, `kernel`, `spot_check` and `misfit` are those of `confident`.
    """
    rule = call_terms(call_cost, horizon, discount, calls, rows=getattr(log, "n_rows", 0))
    fraction("spot_check", spot_check, zero=True)
    number("misfit", misfit, least=0)
    wanted: Any = {"prior_scale": prior_scale, "prior_mean": prior_mean, "items": items, "kernel": kernel}
    log, start, sets, prior = _posterior(log, settings, wanted, misfit, lookahead=True)
    learner = start.learner(
        "economical",
        sets,
        [rule],
        explore="worthiest",
        spot_check=float(spot_check),
        prior=prior,
    )
    if call_cost is None:
        reprice(learner, price_for(learner, rule.calls or 0))
    learner._guarantee = refreshed_guarantee(learner)
    return learner


@with_settings_signature
def linucb(
    log: AnyLog | LogSummary | None = None,
    *,
    alpha: float = 1.0,
    n_actions: int | None = None,
    n_features: int | None = None,
    actions: Sequence[Hashable] | None = None,
    **settings: Unpack[LearnerSettings],
) -> Learner:
    """Disjoint LinUCB: mean + alpha·width, warm-started if a log is given; a baseline."""
    positive("alpha", alpha)
    start = resolve_start(log, settings, n_actions, n_features, actions)
    sets = ConfidenceSets(start.sums, start.assumptions, constant=float(alpha))
    return start.learner("linucb", sets, [], guarantee=no_guarantee("LinUCB with a constant alpha"))


@with_settings_signature
def lints(
    log: AnyLog | LogSummary | None = None,
    *,
    scale: float | None = None,
    n_actions: int | None = None,
    n_features: int | None = None,
    actions: Sequence[Hashable] | None = None,
    **settings: Unpack[LearnerSettings],
) -> Learner:
    """Linear Thompson sampling: θ ~ N(θ̂_a, scale²·V_a⁻¹), scale = noise unless given; a baseline."""
    start = resolve_start(log, settings, n_actions, n_features, actions)
    deviation = start.assumptions.noise if scale is None else scale
    positive("scale", deviation)
    sets = ConfidenceSets(start.sums, start.assumptions, constant=float(deviation))
    return start.learner("lints", sets, [], explore="sampled", guarantee=no_guarantee("Thompson sampling"))


def _posterior(
    log: Any, settings: LearnerSettings, wanted: dict[str, Any], misfit: float, *, lookahead: bool = False
) -> tuple[Any, LearnerStart, ConfidenceSets, Prior]:
    """The posterior of a prior that the log teaches, and its rows; the log with the kernel features that are wanted.

    Where it `lookahead`, some of the log's contexts stand for those to come.
    """
    log = resolve_kernel(log, wanted["kernel"])
    # A posterior's σ is a deviation: half of the reward range, a proxy for the worst case, is not one.
    reward_range = resolve_reward_range(log, settings.get("reward_range"))
    unused: LearnerSettings = {"theta_bound": 0.0, "context_bound": 0.0}
    empty = isinstance(log, Log | LogSummary) and log.n_rows == 0
    given: LearnerSettings = {**(unused if empty else {}), **settings, "reward_range": None}
    if given.get("noise") is None:
        given["noise"] = 1.0  # the prior says more of it
    start = replace(resolve_start(log, given), reward_range=reward_range)
    positive("noise", start.assumptions.noise)
    known: Any = {"items": resolve_items(log, wanted["items"])}
    known |= {"scale": wanted["prior_scale"], "mean": wanted["prior_mean"]}
    noise = settings.get("noise")
    prior = fit_prior_scale(log, start.sums, start.assumptions.ridge, noise=noise, **known)
    estimated = start.assumptions.estimated if noise is not None else ("noise", *start.assumptions.estimated)
    start = replace(start, assumptions=replace(start.assumptions, noise=prior.noise, estimated=estimated))
    reservoir = future_contexts(log) if lookahead else None
    return (
        log,
        start,
        *posterior_sets(start.sums, start.assumptions, prior, float(misfit), reservoir=reservoir),
    )


def _centred(
    log: Any, start: LearnerStart, settings: LearnerSettings, center: str, items: ItemFeatures | None
) -> tuple[ConfidenceSets, Prior | None]:
    """Sets around what the log says of each action, or around 0; and the prior that says it."""
    one_of("center", center, ("auto", "learnt", "zero"))
    if center == "zero" and items is not None:
        raise SettingError(
            "items with center='zero'; items say where sets are centred. Leave out one of them"
        )
    zero = center == "auto" and items is None and settings.get("theta_bound") is not None
    prior = None
    if start.sums.n_rows and center != "zero" and not zero:
        prior = fit_prior(log, start.sums, noise=start.assumptions.noise or None, items=items)
    return centred_sets(start.sums, start.assumptions, prior, growing=start.growing), prior


def _points(
    log: Log, start: LearnerStart, supported: ChooseSupported, inflate: float
) -> tuple[ConfidenceSets, str]:
    """Points for 𝓛, ellipsoids from online rows for the others."""
    if not callable(supported):
        raise SettingError(
            f"supported={supported!r}; must be top(L), elbow(), certified_within(ε) or given({{...}})"
        )
    number("inflate", inflate, least=0)
    chosen = supported(log, start.sums, start.assumptions)
    slack = inflate * start.assumptions.context_bound
    sets = ConfidenceSets(start.nothing, start.assumptions, slack=slack)
    sets.freeze(chosen.actions, chosen.theta)
    return sets, chosen.how


def _needs_rows(algorithm: str, log: Any) -> None:
    if isinstance(log, Rows | LogSummary):
        why = "a scan never holds them all" if isinstance(log, Rows) else "a Summary holds only their sums"
        raise SettingError(
            f"{algorithm} needs the log's rows, and {why}. Read the log with sparing.read_log(...), or use certified, "
            "confident or warm_started"
        )


FRESH = (
    "fresh noise in every reward (no replayed labels, no log filtered by reward, no delays that depend on it)"
)


CENTRED = "theta_bound bounds how far parameters lie from the centres that the log teaches"


def refreshed_guarantee(learner: "Learner") -> str:
    """The promise of a learner whose prior was learnt anew."""
    rules = learner.rules
    if rules and isinstance(rules[0], ConfidentRule) and learner.prior is not None:
        rule = rules[0]
        return confident_guarantee(
            learner.assumptions, learner.prior, rule.tolerance, rule.confidence, strict=rule.strict
        )
    if rules and isinstance(rules[0], EconomicalRule) and learner.prior is not None:
        return economical_guarantee(learner.assumptions, learner.prior, rules[0])
    if rules and isinstance(rules[0], CertifiedRule):
        return certified_guarantee(learner.assumptions, rules[0].tolerance, centred=True)
    return optimistic_guarantee(learner.assumptions, centred=True)


def optimistic_guarantee(assumptions: Assumptions, *, centred: bool = False) -> str:
    """Regret of OFUL."""
    if assumptions.radius_scale < 1:
        return no_guarantee(f"radius_scale {assumptions.radius_scale:g} < 1")
    return _joined(
        f"with probability {1 - assumptions.delta:g} every confidence set holds its action's parameters "
        f"and regret grows like sqrt(K·T); rests on linear rewards, {FRESH}",
        CENTRED if centred else "",
        assumptions.conditions,
        _paper(assumptions),
    )


def points_guarantee(assumptions: Assumptions, how: str) -> str:
    """Corrected Theorem 2."""
    return _joined(
        f"corrected Theorem 2, if the parameters of 𝓛 ({how}) are within ε: skipped rounds cost up to "
        "2·ε·S_x each; nothing checks ε",
        optimistic_guarantee(assumptions),
    )


def unproved_guarantee(how: str) -> str:
    """Theorem 3."""
    return no_guarantee(
        f"Theorem 3 is not proved as printed (its threshold is one noisy sample, selected by its value); 𝓛: {how}"
    )


def limited_guarantee(assumptions: Assumptions, how: str) -> str:
    """Theorem 3 with a lower limit for a threshold; live sets and limits have `assumptions.delta` each."""
    return _joined(
        f"corrected Theorem 2, if the parameters of 𝓛 ({how}) are within ε: rounds skipped as log-beats cost up to "
        "ε·S_x each (nothing if inflate ≥ ε), other skipped rounds up to 2·ε·S_x; nothing checks ε",
        optimistic_guarantee(replace(assumptions, delta=2 * assumptions.delta)),
    )


def certified_guarantee(assumptions: Assumptions, tolerance: float, *, centred: bool = False) -> str:
    """The worst-case guarantee."""
    if assumptions.radius_scale < 1:
        return no_guarantee(f"radius_scale {assumptions.radius_scale:g} < 1")
    return _joined(
        f"with probability {1 - assumptions.delta:g} every skipped round costs at most {tolerance:g}; "
        f"rests on linear rewards, {FRESH}",
        CENTRED if centred else "",
        assumptions.conditions,
        _paper(assumptions),
    )


def confident_guarantee(
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


def economical_guarantee(assumptions: Assumptions, prior: Prior, rule: EconomicalRule) -> str:
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


def no_guarantee(why: str) -> str:
    """No promise, and why."""
    return f"none: {why}"


def _paper(assumptions: Assumptions) -> str:
    return "the paper's radius is proved for two features or more" if assumptions.radius == "paper" else ""


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
