"""The algorithms as functions that build a learner, and what each of them guarantees."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from sparing.errors import SettingError
from sparing.log import Log
from sparing.log.rows import AnyLog, Rows
from sparing.model.confidence import Assumptions, positive
from sparing.model.confidence import SupportedSetRule as ChooseSupported
from sparing.model.posterior import ItemFeatures, fit_prior, fit_prior_scale, resolve_items
from sparing.model.prior import Prior
from sparing.model.statistics import LogSummary
from sparing.online import drift
from sparing.online.confidence_sets import ConfidenceSets
from sparing.online.drift import ShiftOption
from sparing.online.learner import Learner
from sparing.online.log_beats import LogBeats
from sparing.online.rules import CertifiedRule, ConfidentRule, EconomicalRule, SkipRule, SupportedRule
from sparing.online.start import (
    KernelOption,
    LearnerSettings,
    LearnerStart,
    call_terms,
    centred_sets,
    future_contexts,
    posterior_sets,
    price_for,
    reprice,
    resolve_kernel,
    resolve_start,
    resolve_tolerance,
    rewards_of,
    with_settings_signature,
    with_unseen,
)
from sparing.validation import fraction, number, one_of


@with_settings_signature
def moful(
    log: AnyLog | LogSummary | None = None,
    *,
    n_actions: int | None = None,
    n_features: int | None = None,
    actions: Sequence[Hashable] | None = None,
    **settings: Unpack[LearnerSettings],
) -> Learner:
    """Make a learner that uses optimism on online rows only and calls in every round: mOFUL (Alg. 1).

    Parameters
    ----------
    log : Log, LogSummary or scan, optional
        Gives the actions, and the estimates of noise and bounds. Without a log, those that are not set are 1.
    n_actions, n_features : int, optional
        Size of the problem if there is no log.
    actions : sequence of hashable, optional
        Action labels if there is no log.
    **settings : LearnerSettings
        See `sparing.online.start.LearnerSettings`. An invalid setting raises a SettingError.

    Examples
    --------
    >>> import sparing
    >>> sparing.moful(n_actions=3, n_features=2)
    Learner(moful, 3 actions, 2 features, 0 calls in 0 rounds, 0 open)
    """
    start = resolve_start(log, settings, n_actions, n_features, actions)
    sets = ConfidenceSets(start.nothing, start.assumptions, growing=start.growing)
    return start.learner("moful", sets, [], guarantee=optimistic_guarantee(start.assumptions))


@with_settings_signature
def eps_moful(
    log: Log, *, supported: ChooseSupported, inflate: float = 0.0, **settings: Unpack[LearnerSettings]
) -> Learner:
    """Make a learner that treats well-logged actions as known and learns the others online: ε-mOFUL (Alg. 2).

    Parameters
    ----------
    log : Log
        Rows in memory.
    supported : callable
        Chooses the known actions: `most_logged(L)`, `elbow()`, `certified_within(ε)` or
        `supported_actions({action: theta})`.
    inflate : float
        ε: half-width of the known actions' values per unit of `context_bound`, which restores optimism.
    **settings : LearnerSettings
        See `sparing.online.start.LearnerSettings`. An invalid setting raises a SettingError.
    """
    _needs_rows("eps_moful", log)
    start = resolve_start(log, settings)
    sets, how = _points(log, start, supported, inflate)
    guarantee = points_guarantee(start.assumptions, how, "skipped rounds cost up to 2·ε·S_x each")
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
    """Make an ε-mOFUL learner that also skips contexts where the logged reward is not exceeded (Alg. 3).

    Parameters
    ----------
    log : Log
        Rows in memory.
    supported : callable
        Chooses the known actions, as in `eps_moful`.
    clip : float or str
        M of π⁺: `"percentile-ratio"`, a number or `"inf"`.
    answer : {"logged", "policy"}
        Action of a `log-beats` round: the context's logged action, or one drawn from π⁺.
    beats : {"sample", "limit"}
        What the upper bound is compared with: one noisy weighted reward (the paper), or a lower confidence limit of the
        logged action, which has a guarantee and needs no π⁺.
    inflate : float
        As in `eps_moful`.
    **settings : LearnerSettings
        See `sparing.online.start.LearnerSettings`. An invalid setting raises a SettingError.
    """
    _needs_rows("eps_moful_ips", log)
    start = given = resolve_start(log, settings)
    if beats == "limit":  # live sets and limits have half of δ each
        start = replace(start, assumptions=replace(start.assumptions, delta=start.assumptions.delta / 2))
    sets, how = _points(log, start, supported, inflate)
    beaten = LogBeats.of(log, start, beats, clip, answer)
    guarantee = no_guarantee(
        f"Theorem 3 is not proved as printed (its threshold is one noisy sample, selected by its value); 𝓛: {how}"
    )
    if beats == "limit":  # Theorem 3 with a lower limit as the threshold
        costs = "rounds skipped as log-beats cost up to ε·S_x each (nothing if inflate ≥ ε), other skipped rounds up to 2·ε·S_x"
        guarantee = points_guarantee(given.assumptions, how, costs)
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
    """Make a learner that uses optimism on logged and online rows together and calls in every round.

    Parameters
    ----------
    log : Log, LogSummary or scan
        Logged rows.
    center : {"auto", "learnt", "zero"}
        Where confidence sets are centred and what `theta_bound` is measured from. `"learnt"`: the prediction Ŵz_a from the
        log's other actions (and `items`); `"auto"`: learnt unless `theta_bound` is set.
    items : mapping or array of shape (K, q), optional
        Features of the actions.
    kernel : int or "auto", optional
        Number of kernel features to add; `"auto"` chooses by evidence.
    **settings : LearnerSettings
        See `sparing.online.start.LearnerSettings`. An invalid setting raises a SettingError.
    """
    log, items = resolve_kernel(log, kernel), resolve_items(log, items)
    start = resolve_start(log, settings)
    sets, prior = _centred(log, start, settings, center, items)
    return start.learner(
        "warm_started", sets, [], guarantee=guarantee_of([], sets.assumptions, prior), prior=prior
    )


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
    """Make a warm-started learner that skips if no rival can exceed the leader by more than `tolerance`.

    With `radius_scale` ≥ 1 each skipped round costs at most `tolerance`, with probability 1 − δ.

    Parameters
    ----------
    log : Log, LogSummary or scan
        Logged rows.
    tolerance : float, optional
        Largest loss of a skipped round, in units of the reward; by default 5 % of the rewards' standard deviation.
    explore : {"leader", "wider"}
        Action of a call: the highest upper bound, or the less certain of it and its closest rival.
    center, items, kernel
        As in `warm_started`.
    **settings : LearnerSettings
        See `sparing.online.start.LearnerSettings`. An invalid setting raises a SettingError.
    """
    if tolerance is not None and not tolerance < np.inf:
        raise SettingError(f"tolerance={tolerance}; must be a number (−inf never skips)")
    one_of("explore", explore, ("leader", "wider"))
    log, items = resolve_kernel(log, kernel), resolve_items(log, items)
    start = resolve_start(log, settings)
    tolerance = resolve_tolerance(tolerance, log, start.sums)
    sets, prior = _centred(log, start, settings, center, items)
    rules = [CertifiedRule(float(tolerance))]
    guarantee = guarantee_of(rules, sets.assumptions, prior)
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
    shift: ShiftOption = None,
    half_life: int | None = None,
    **settings: Unpack[LearnerSettings],
) -> Learner:
    """Make a Bayesian learner that skips if it is confident enough in the best mean. The practical default.

    The prior is estimated from the log by evidence (docs/math.md). A round is skipped if the probability that some action
    exceeds the best mean by more than `tolerance` is at most 1 − `confidence`.

    Parameters
    ----------
    log : Log, LogSummary or scan
        Logged rows, of one action at least.
    tolerance : float, optional
        Loss that counts as an error, in units of the reward; by default 5 % of the rewards' standard deviation.
    confidence : float
        Required probability, between 0 and 1.
    explore : {"optimistic", "wider", "sampled"}
        Action of a call: the highest upper bound, the less certain of the best mean and its likeliest rival, or the best of
        one posterior sample.
    prior_scale : float, optional
        Standard deviation of parameters between actions.
    prior_mean : array of shape (d,), optional
        Mean of the parameters over actions.
    items : mapping or array of shape (K, q), optional
        Features of the actions: actions with similar features are expected to have similar parameters.
    kernel : int or "auto", optional
        Number of kernel features to add; `"auto"` chooses by evidence.
    spot_check : float
        Share of the rounds that are called in any case.
    misfit : float
        Standard deviation of the linear model's own error, in units of the reward.
    strict : bool
        Multiply the standard deviation of a difference by √2, which covers any correlation of two estimates.
    shift : {"auto", "none"}, float or None
        Whether parameters may have moved between log and live. `"auto"` finds out from live rewards how far; a number up to
        100 is the deviation of the shift, in units of the deviation between actions. None takes live rounds to be like the log.
    half_life : int, optional
        Rounds in which every row loses half of its weight, at least 20; by default nothing is forgotten.
    **settings : LearnerSettings
        See `sparing.online.start.LearnerSettings`. An invalid setting raises a SettingError. The radius settings have no effect.

    Examples
    --------
    >>> import sparing
    >>> world = sparing.simulation.LinearWorld(n_actions=3, n_features=2, noise=0.5, seed=0)
    >>> log = sparing.simulation.draw_log(world, rows=200, seed=1)
    >>> learner = sparing.confident(log)
    >>> decision = learner.decide([1.0, 0.5])
    >>> if decision.needs_reward:
    ...     learner.update(decision, 0.3)
    """
    if tolerance is not None:
        number("tolerance", tolerance, least=0)
    fraction("confidence", confidence)
    fraction("spot_check", spot_check, zero=True)
    number("misfit", misfit, least=0)
    one_of("explore", explore, ("optimistic", "wider", "sampled"))
    log, known = (
        with_unseen(resolve_kernel(log, kernel)),
        {"scale": prior_scale, "mean": prior_mean, "items": items},
    )
    moving = drift.resolve_shift(shift), drift.resolve_half_life(half_life)
    start, sets, prior = _posterior(log, settings, misfit, known, shift=moving[0])
    tolerance = resolve_tolerance(tolerance, log, start.sums)
    rules = [ConfidentRule(float(tolerance), float(confidence), bool(strict))]
    learner = start.learner(
        "confident",
        sets,
        rules,
        explore="wider-rival" if explore == "wider" else explore,
        optimism=2.0,
        spot_check=float(spot_check),
        guarantee=guarantee_of(rules, sets.assumptions, prior),
        prior=prior,
    )
    return _forgetting(learner, moving[1])


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
    shift: ShiftOption = None,
    half_life: int | None = None,
    **settings: Unpack[LearnerSettings],
) -> Learner:
    """Make a Bayesian learner that requests a reward only if its expected future gain exceeds its cost.

    A call is made if some number n of equal calls is expected to gain more in the remaining rounds than it costs
    (docs/math.md). 128 logged contexts stand for future ones.

    Parameters
    ----------
    log : Log, LogSummary or scan
        Logged rows.
    call_cost : float, optional
        Cost of one reward, in units of the reward. Without it, the smallest cost at which simulated problems like the log's
        need at most `calls` on average.
    horizon : int, optional
        Number of rounds; by default the number of logged rows.
    discount : float, optional
        Weight of each round relative to the one before it, instead of a horizon.
    calls : int, optional
        Budget: no more calls are made. Required without `call_cost`.
    prior_scale, prior_mean, items, kernel, spot_check, misfit, shift, half_life
        As in `confident`. With `shift="auto"` some rewards are requested that say more about a shift.
    **settings : LearnerSettings
        See `sparing.online.start.LearnerSettings`. An invalid setting raises a SettingError.
    """
    rule = call_terms(call_cost, horizon, discount, calls, rows=getattr(log, "n_rows", 0))
    fraction("spot_check", spot_check, zero=True)
    number("misfit", misfit, least=0)
    log, known = (
        with_unseen(resolve_kernel(log, kernel)),
        {"scale": prior_scale, "mean": prior_mean, "items": items},
    )
    moving = drift.resolve_shift(shift), drift.resolve_half_life(half_life)
    start, sets, prior = _posterior(log, settings, misfit, known, lookahead=True, shift=moving[0])
    learner = start.learner(
        "economical", sets, [rule], explore="worthiest", spot_check=float(spot_check), prior=prior
    )
    _forgetting(learner, moving[1])
    if call_cost is None:
        reprice(learner, price_for(learner, rule.calls or 0))
    learner._guarantee = guarantee_of(learner.rules, learner.assumptions, learner.prior)
    return learner


@with_settings_signature
def linucb(
    log: AnyLog | LogSummary | None = None,
    *,
    alpha: float = 1.0,
    half_life: int | None = None,
    n_actions: int | None = None,
    n_features: int | None = None,
    actions: Sequence[Hashable] | None = None,
    **settings: Unpack[LearnerSettings],
) -> Learner:
    """Make a disjoint LinUCB learner, mean + alpha·width; a baseline.

    Parameters
    ----------
    log : Log, LogSummary or scan, optional
        Logged rows to start from.
    n_actions, n_features, actions
        As in `moful`.
    alpha : float
        Multiplier of the width sqrt(xᵀV⁻¹x).
    half_life : int, optional
        As in `confident`.
    **settings : LearnerSettings
        See `sparing.online.start.LearnerSettings`. An invalid setting raises a SettingError.
    """
    positive("alpha", alpha)
    checked = drift.resolve_half_life(half_life)
    start = resolve_start(log, settings, n_actions, n_features, actions)
    sets = ConfidenceSets(start.sums, start.assumptions, constant=float(alpha))
    why = no_guarantee("LinUCB with a constant alpha")
    return _forgetting(start.learner("linucb", sets, [], guarantee=why), checked)


@with_settings_signature
def lints(
    log: AnyLog | LogSummary | None = None,
    *,
    scale: float | None = None,
    half_life: int | None = None,
    n_actions: int | None = None,
    n_features: int | None = None,
    actions: Sequence[Hashable] | None = None,
    **settings: Unpack[LearnerSettings],
) -> Learner:
    """Make a linear Thompson sampling learner, θ ~ N(θ̂_a, scale²·V_a⁻¹); a baseline.

    Parameters
    ----------
    log : Log, LogSummary or scan, optional
        Logged rows to start from.
    n_actions, n_features, actions
        As in `moful`.
    scale : float, optional
        Standard deviation of the posterior samples; by default the noise.
    half_life : int, optional
        As in `confident`.
    **settings : LearnerSettings
        See `sparing.online.start.LearnerSettings`. An invalid setting raises a SettingError.
    """
    start = resolve_start(log, settings, n_actions, n_features, actions)
    deviation = start.assumptions.noise if scale is None else scale
    positive("scale", deviation)
    checked = drift.resolve_half_life(half_life)
    sets = ConfidenceSets(start.sums, start.assumptions, constant=float(deviation))
    why = no_guarantee("Thompson sampling")
    return _forgetting(start.learner("lints", sets, [], explore="sampled", guarantee=why), checked)


def _forgetting(learner: Learner, half_life: int) -> Learner:
    """The learner, which forgets from its first round on if the half-life is not 0."""
    if half_life:
        drift.set_half_life(learner, half_life)
    return learner


def _posterior(
    log: Any,
    settings: LearnerSettings,
    misfit: float,
    known: dict[str, Any],
    *,
    lookahead: bool = False,
    shift: str | float | None = None,
) -> tuple[LearnerStart, ConfidenceSets, Prior]:
    """The posterior of the prior that a log gives; with `lookahead`, some of its contexts stand for future ones.

    `known` are the scale, mean and items of the prior, if they are set.
    """
    unused: LearnerSettings = {"theta_bound": 0.0, "context_bound": 0.0}
    empty = isinstance(log, Log | LogSummary) and log.n_rows == 0
    given: LearnerSettings = {**(unused if empty else {}), **settings}
    if given.get("noise") is None:
        # Replaced by the prior's: half of a reward range, a proxy for the worst case, is no deviation.
        given["noise"] = 1.0
    start = resolve_start(log, given)
    positive("noise", start.assumptions.noise)
    noise, items = settings.get("noise"), resolve_items(log, known["items"])
    if known["mean"] is not None and len(log.encoder.logged) < log.encoder.size:
        known = {**known, "mean": log.encoder.completed(np.asarray(known["mean"]))}
    prior = fit_prior_scale(
        log, start.sums, start.assumptions.ridge, noise=noise, **{**known, "items": items}
    )
    estimated = start.assumptions.estimated if noise is not None else ("noise", *start.assumptions.estimated)
    start = replace(start, assumptions=replace(start.assumptions, noise=prior.noise, estimated=estimated))
    contexts = future_contexts(log) if lookahead else None
    shift = shift if start.sums.n_rows else None  # without a log, nothing can differ from it
    sets, prior = posterior_sets(
        start.sums,
        start.assumptions,
        prior,
        float(misfit),
        context_sample=contexts,
        shift=drift.allowance(shift),
    )
    rewards = rewards_of(log)
    ones = rewards.total / start.sums.n_rows if rewards is not None and rewards.zero_one else None
    drift.begin_shift(sets, shift, ones=ones)
    return start, sets, prior


def _centred(
    log: Any, start: LearnerStart, settings: LearnerSettings, center: str, items: ItemFeatures | None
) -> tuple[ConfidenceSets, Prior | None]:
    """Sets around the prediction of the log for each action, or around 0, and the prior of that prediction."""
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
    """Points for 𝓛, ellipsoids from online rows for the other actions."""
    if not callable(supported):
        raise SettingError(
            f"supported={supported!r}; must be most_logged(L), elbow(), certified_within(ε) or supported_actions({{...}})"
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


CENTRED = "theta_bound bounds the distance of the parameters from the centres estimated from the log"


def guarantee_of(rules: Sequence[SkipRule], assumptions: Assumptions, prior: Prior | None) -> str:
    """The guarantee of a learner that starts from all rows of a log."""
    rule = rules[0] if rules else None
    if isinstance(rule, ConfidentRule) and prior is not None:
        return confident_guarantee(assumptions, prior, rule)
    if isinstance(rule, EconomicalRule) and prior is not None:
        return economical_guarantee(assumptions, prior, rule)
    if isinstance(rule, CertifiedRule):
        claim = f"every skipped round costs at most {rule.tolerance:g}"
        return _proved_guarantee(assumptions, claim, centred=prior is not None)
    return optimistic_guarantee(assumptions, centred=prior is not None)


def optimistic_guarantee(assumptions: Assumptions, *, centred: bool = False) -> str:
    claim = "every confidence set holds its action's parameters and regret grows like sqrt(K·T)"
    return _proved_guarantee(assumptions, claim, centred=centred)


def _proved_guarantee(assumptions: Assumptions, claim: str, *, centred: bool) -> str:
    if assumptions.radius_scale < 1:
        return no_guarantee(f"radius_scale {assumptions.radius_scale:g} < 1")
    return _joined(
        f"with probability {1 - assumptions.delta:g} {claim}; rests on linear rewards, {FRESH}",
        CENTRED if centred else "",
        assumptions.conditions,
        "the paper's radius is proved for two features or more" if assumptions.radius == "paper" else "",
    )


def points_guarantee(assumptions: Assumptions, how: str, costs: str) -> str:
    """Corrected Theorem 2: what skipped rounds may cost if every point is within ε."""
    theorem = f"corrected Theorem 2, if the parameters of 𝓛 ({how}) are within ε: {costs}; nothing checks ε"
    return _joined(theorem, optimistic_guarantee(assumptions))


def confident_guarantee(assumptions: Assumptions, prior: Prior, rule: ConfidentRule) -> str:
    together = (
        "differences are taken √2 times as uncertain, whatever the correlation of two estimates"
        if rule.strict
        else "two estimates count as independent, which can understate their difference up to √2-fold (strict=True does not)"
    )
    return _joined(
        f"on average over environments drawn from the prior ({prior}), at most "
        f"{1 - rule.confidence:.4g} of the skipped rounds are worse than {rule.tolerance:g}; not a guarantee for each "
        "environment; rests on linear rewards and on unlogged actions being exchangeable with logged ones",
        "" if prior.certain else together,
        _noise_condition(assumptions.estimated + assumptions.assumed, assumptions.noise),
    )


def economical_guarantee(assumptions: Assumptions, prior: Prior, rule: EconomicalRule) -> str:
    future = (
        f"{rule.horizon:,} rounds" if rule.discount is None else f"rounds that count {rule.discount:g} each"
    )
    return _joined(
        f"a reward is requested only if its expected value over {future} exceeds its cost of {rule.call_cost:.4g}, as far as the "
        f"posterior knows ({prior}); designed so that regret and calls together cost no more on average than the offline policy, "
        "which is proved for one call ahead and tested for more; no guarantee for each environment; rests on linear rewards, on contexts "
        "to come being like the log's, and on unlogged actions being exchangeable with logged ones",
        f"at most {rule.calls:,} calls" if rule.calls is not None else "",
        _noise_condition(assumptions.estimated, assumptions.noise),
    )


def no_guarantee(why: str) -> str:
    return f"none: {why}"


def _noise_condition(guessed: tuple[str, ...], noise: float) -> str:
    return f"conditional on estimated noise = {noise:.4g}" if "noise" in guessed else ""


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
