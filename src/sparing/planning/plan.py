"""Simulate the worlds that the log leaves possible, and count the reward calls and the regret of each learner."""

import inspect
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from sparing.engines import Progress
from sparing.errors import InputError, SettingError, UnitWarning
from sparing.log import Log
from sparing.log.costs import CostsOption
from sparing.log.labels import check_action_labels
from sparing.log.rows import AnyLog, Rows, as_rows
from sparing.model.confidence import SupportedSetRule, elbow, find_elbow, more_logged_half, most_logged
from sparing.model.linearity import LackOfFit, lack_of_fit, sample
from sparing.model.statistics import LogSummary, Statistics
from sparing.online import algorithms
from sparing.online.drift import ShiftOption
from sparing.online.learner import Learner
from sparing.online.start import AssumptionSettings, KernelOption, check_log, resolve_kernel
from sparing.planning.result import Option, Plan
from sparing.planning.strata import Strata, draw_strata, interval_rank
from sparing.planning.worlds import Worlds
from sparing.simulation.parallel import run_in_threads
from sparing.simulation.simulate import play
from sparing.validation import check_known, fraction, integer, number, one_of

# Plays the best mean of the posterior without calls; all others are compared with it.
LOG_ALONE = "offline policy"

LEARNERS = ("economical", "confident", "certified", "eps_moful", "warm_started", "moful")
COMPARED = LEARNERS[:3]
PRICES = (0.01, 0.05, 0.2, 1.0)  # default prices and
TOLERANCES = (0.05, 0.2, 0.5)  # tolerances, in standard deviations of the noise
MOST_CONTEXTS = 20_000  # a longer log is represented by so many random rows
UNINFORMATIVE = ("empty", "the same in every row")  # reasons to leave out a column that says nothing
CHECKPOINTS = 8  # evenly spaced points of a run at which calls and regret are recorded
SMALL = 1_000_000
"""Fewer rounds than this, over all worlds and learners, are done as soon in one thread: most is not compiled then."""


class PlanSettings(AssumptionSettings, total=False):
    """Settings of the planned learners, as in their factories.

    `skip_confidence` is the `confidence` of `confident`. Worlds do not change: with `shift` and `half_life` the plan shows what these cost
    where they are not needed. `supported` is the set 𝓛 of `eps_moful`; by default
    `elbow()`, or, where the counts have none, the more logged half of the logged actions.
    """

    prior_scale: float | None
    prior_mean: ArrayLike | None
    spot_check: float
    misfit: float
    skip_confidence: float
    supported: SupportedSetRule
    shift: ShiftOption
    half_life: int | None


# Settings that `economical` and `confident` take, under the same name.
OF_POSTERIORS = ("prior_scale", "prior_mean", "spot_check", "misfit", "shift", "half_life")


def plan(
    log: AnyLog,
    *,
    horizon: int | None = None,
    call_cost: float | None = None,
    budget: int | None = None,
    regret: float | None = None,
    tolerances: Sequence[float] | None = None,
    learners: Sequence[str] = COMPARED,
    worlds: int = 40,
    confidence: float = 0.9,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress | None = None,
    kernel: KernelOption = None,
    costs: CostsOption = None,
    **settings: Unpack[PlanSettings],
) -> Plan:
    """Predict how many reward calls are worth making live, and what they gain and cost.

    Each world has the scales of the prior, what actions share, and each action's parameters, drawn from their joint posterior, and
    contexts drawn from the log's with replacement. The share of the residuals that a flexible model predicts, if any, is part of the
    worlds, and cannot be learnt. Regret is against the best policy of these features: what columns that are not in the log, or
    were left out, would explain is not counted. Every learner starts from the real log and meets the same
    worlds; so does the offline policy, which plays the best mean and makes no calls. Many more worlds are drawn than simulated: they are ordered by the
    regret of the offline policy and cut into `worlds` equal strata, and one world of each stratum is simulated (of the highest one,
    four). Intervals are order statistics: a further world falls inside with probability `confidence` or more.

    Parameters
    ----------
    log : Log or Scan
        The log that the learners start from; it must have rows.
    horizon : int, optional
        Number of live rounds; by default the number of rows of the log.
    call_cost : float, optional
        Cost of a reward call, in units of the reward: the price at which `economical` is planned.
    budget : int, optional
        Number of calls that may be made. Without `call_cost`, `economical` is planned at the price that makes them last; with
        neither, at a few prices. The plan also names the option with the least regret within the budget.
    regret : float, optional
        Ask for the cheapest option with at most this regret.
    tolerances : sequence of float, optional
        Tolerances of `confident` and `certified`; by default 0.05, 0.2 and 0.5 of the noise.
    learners : sequence of str
        Learners to compare with the offline policy, of `LEARNERS`.
    worlds : int
        Number of strata, and thereby of simulated worlds.
    confidence : float
        Least coverage of the prediction intervals.
    seed : int
        Seed of the worlds.
    workers : int, optional
        Number of threads; by default one per core. It does not change the results.
    progress : callable, optional
        Called with the worlds done and the worlds in all.
    kernel : int, "auto" or None
        Kernel features to add, as in `economical`.
    costs : mapping or sequence of K numbers, optional
        Known costs of playing the actions, in units of the reward; by default those of the log. Regret and gain are of
        reward − cost.
    **settings
        Settings of the learners, see `PlanSettings`.

    Returns
    -------
    Plan
        Calls, regret and gain of every option.

    Raises
    ------
    SettingError
        If a setting is out of its range, or the log has no rows.

    Examples
    --------
    >>> plan = sparing.plan(log, call_cost=0.05, horizon=5000)
    >>> print(plan)
    """
    _check_log(log)
    rank = interval_rank(
        integer("worlds", worlds, least=1), fraction("confidence", confidence, hint=", such as 0.9")
    )
    length = log.n_rows if horizon is None else integer("horizon", horizon, least=1)
    seed, names = integer("seed", seed), _names(learners)
    cost, bound = (
        None if value is None else number(name, value, least=0)
        for name, value in (("call_cost", call_cost), ("regret", regret))
    )
    calls = None if budget is None else integer("budget", budget)
    levels = None if tolerances is None else _levels(tolerances)
    for name in settings:
        check_known(name, (*inspect.getfullargspec(plan).kwonlyargs, *PlanSettings.__annotations__))
    terms = {"call_cost": cost, "calls": calls, "horizon": length}
    if kernel is not None:
        log = resolve_kernel(log, kernel)
    known = _known(log, names)
    starts = _starts(known, names, settings, {**terms, "costs": costs}, levels)
    pool, prior, fit = _pool(log, seed), starts[0].prior, _fit(log)
    assert prior is not None
    sums = known.statistics if isinstance(known, LogSummary) else Statistics.of(known)
    misfit = prior.noise * float(np.sqrt(fit.explained)) if fit is not None else 0.0
    checkpoints = np.unique(np.ceil(length * np.arange(1, CHECKPOINTS + 1) / CHECKPOINTS).astype(int))
    if workers is None and worlds * len(starts) * length < SMALL:
        workers = 1
    features = starts[0].encoder.logged  # simulated contexts are logged ones, without unseen values
    possible = Worlds(prior.among(features), sums, pool, misfit, seed, starts[0].action_costs)
    strata = draw_strata(possible, starts[0].sets.theta[:, features], worlds, rank)
    run = partial(_run_world, possible, starts, checkpoints)
    results = np.array(run_in_threads(run, strata.numbers.tolist(), workers=workers, progress=progress))
    options = tuple(map(partial(_option, strata), starts, *results.transpose(2, 1, 0, 3)))
    return Plan(
        horizon=length,
        worlds=worlds,
        confidence=float(confidence),
        coverage=strata.coverage,
        checkpoints=tuple(checkpoints.tolist()),
        options=options,
        noise=starts[0].assumptions.noise,
        prior_scale=float(np.sqrt((starts[0].prior.spread ** 2).mean())) if starts[0].prior else 0.0,
        assumptions=(*_assumptions(log, starts), _reading(options, strata)),
        left_out=tuple(name for name, why in log.encoder.left_out if not why.endswith(UNINFORMATIVE)),
        warnings=(*check_action_labels(sums.counts, log.items), *_warnings(fit, kernel)),
        call_cost=cost,
        budget=calls,
        regret=bound,
        seed=seed,
        costs=starts[0].costs,
    )


def context_pool(contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return contexts to draw live ones from, (m, d): all of the log's, or a random `MOST_CONTEXTS`."""
    if len(contexts) <= MOST_CONTEXTS:
        return contexts
    return contexts[rng.choice(len(contexts), MOST_CONTEXTS, replace=False)]


def _pool(log: AnyLog, seed: int) -> np.ndarray:
    rows = as_rows(log)
    if rows.partition.rows <= rows.partition.block:
        return context_pool(rows.read().contexts, np.random.default_rng([seed, 0]))
    return rows.select(ids=False, support=False).sample(MOST_CONTEXTS, seed).contexts


def _known(log: AnyLog, names: Sequence[str]) -> Any:
    if isinstance(log, Log) or "eps_moful" not in names:
        return check_log(log)
    raise SettingError(
        "a plan with eps_moful fits points to the log's rows, and a scan never holds them all. Leave it out of learners=..., "
        "plan from a random part, plan(log.sample(200_000), ...), at the prompt --sample 200000, or read the log with sparing.read_log(...)"
    )


def _run_world(
    possible: Worlds,
    starts: tuple[Learner, ...],
    checkpoints: np.ndarray,
    number: int,
    progress: Progress | None = None,
) -> np.ndarray:
    """Return calls and regret of every learner in one world at each checkpoint, (learners, 2, C)."""
    stream = possible.stream(number, int(checkpoints[-1]))
    found = np.empty((len(starts), 2, len(checkpoints)))
    for place, start in enumerate(starts):
        learner = start.copy()
        # The random stream of a live learner is unknown too: ties and samples differ between worlds.
        learner.reseed([possible.seed, 3, number])
        trace = play(learner, stream, progress=progress)
        found[place] = trace.calls[checkpoints - 1], trace.regret[checkpoints - 1]
    return found


def _fit(log: AnyLog) -> LackOfFit | None:
    """Whether the log shows that rewards are not linear; None if it has too few rows to tell."""
    try:
        return lack_of_fit(sample(log), boosted=False)
    except InputError:
        return None


def _starts(
    log: Log | LogSummary,
    names: Sequence[str],
    settings: PlanSettings,
    terms: dict[str, Any],
    tolerances: Sequence[float] | None,
) -> tuple[Learner, ...]:
    """Return the offline policy, then every learner with each of its prices or tolerances.

    The offline policy is `economical` without a budget: it plays the best mean of the posterior in every round.
    """
    priced = {"costs": terms["costs"]}
    nothing = {**terms, "call_cost": 0.0, "calls": 0, "spot_check": 0.0, "shift": None, "half_life": None}
    alone = _started("economical", log, settings, nothing)
    alone.algorithm, noise = LOG_ALONE, alone.assumptions.noise
    said = terms["call_cost"] is not None or terms["calls"] is not None
    prices = [terms["call_cost"]] if said else _shares(PRICES, noise)
    tolerant = [{"tolerance": level, **priced} for level in tolerances or _shares(TOLERANCES, noise)]
    own: dict[str, list[dict[str, Any]]] = {"confident": tolerant, "certified": tolerant}
    own["economical"] = [{**terms, "call_cost": price} for price in prices]
    chosen = [(name, each) for name in names for each in own.get(name, [priced])]
    return alone, *(_started(name, log, settings, each) for name, each in chosen)


def _started(name: str, log: Log | LogSummary, settings: PlanSettings, own: dict[str, Any]) -> Learner:
    given: Any = {key: value for key, value in settings.items() if key in AssumptionSettings.__annotations__}
    if name in ("economical", "confident"):
        given |= {key: value for key, value in settings.items() if key in OF_POSTERIORS}
    if name == "confident" and "skip_confidence" in settings:
        given["confidence"] = settings["skip_confidence"]
    if name == "eps_moful" and isinstance(log, Log):
        given["supported"] = settings.get("supported") or _supported(log)
    with warnings.catch_warnings():  # large tolerances are intended here
        warnings.simplefilter("ignore", UnitWarning)
        learner: Learner = getattr(algorithms, name)(log, **{**given, **own})
    # Simulated rewards are normal; a learner with a range would refuse some of them.
    learner.reward_range = None
    return learner


def _shares(shares: Sequence[float], unit: float) -> list[float]:
    return [float(f"{share * unit:.2g}") for share in shares]


def _option(strata: Strata, start: Learner, calls: np.ndarray, regret: np.ndarray) -> Option:
    name, rule = start.algorithm, start.rules[0].header() if start.rules else {}
    price = rule["call_cost"] if name == "economical" else None
    detail = f"L = {int(start.sets.frozen.sum())}" if name == "eps_moful" else ""
    return Option(name, price, rule.get("tolerance"), detail, calls, regret, strata)


def _supported(log: Log) -> SupportedSetRule:
    if find_elbow(log.counts, log.n_features) is not None:
        return elbow()
    return most_logged(more_logged_half(log.counts))


def _reading(options: tuple[Option, ...], strata: Strata) -> str:
    calls, regret = (
        max((found.error / found.mean for found in summaries if found.mean > 0), default=0.0)
        for summaries in ([o.calls_at() for o in options], [o.regret_at() for o in options])
    )
    return (
        f"{len(strata.numbers)} of {strata.drawn:,} posterior draws are simulated, stratified by the regret of the offline policy and reweighted. "
        f"{strata.coverage:.0%} of outcomes lie in an interval if what stands here holds, for each learner separately. Simulation "
        f"error, one standard error: up to {calls:.0%} of mean calls and {regret:.0%} of mean regret. More simulations (worlds) separate options better."
    )


def _warnings(fit: LackOfFit | None, kernel: KernelOption) -> tuple[str, ...]:
    if fit is None or not fit.found:
        return ()
    remedy = (
        "More features may help"
        if kernel is not None
        else "Plan with kernel='auto', at the prompt --kernel auto"
    )
    return (
        f"The log shows that rewards are not linear in the features (p = {fit.p_value:.2g}): at least {fit.explained:.0%} of the residual "
        f"variance has a pattern. It is simulated as a part that no learner can learn; calls, regret and net may differ. {remedy}.",
    )


def _assumptions(log: AnyLog, starts: tuple[Learner, ...]) -> tuple[str, ...]:
    posterior, given = starts[0], starts[0].assumptions
    part = f", a random {MOST_CONTEXTS:,} of them" if log.n_rows > MOST_CONTEXTS else ""
    source = "estimated from the log" if "noise" in given.estimated else "given"
    return (
        "Rewards are linear in the features, and actions, logged or not, are exchangeable. Their parameters vary between actions "
        f"({posterior.prior}); simulations differ in these scales as far as the log leaves them open.",
        f"Live contexts are like the log's {log.n_rows:,}{part}, drawn with replacement; every action may be "
        "played in every round, and rewards come at once.",
        "Regret is against the best policy of these features. What columns that are not in the log would explain is not counted.",
        f"Noise is normal with deviation {given.noise:.3g} everywhere ({source}).",
        *(
            ["Known costs of the actions are subtracted: regret and gain are of reward − cost."]
            if posterior.costs
            else []
        ),
        *dict.fromkeys(filter(None, map(_setting, starts))),
    )


def _setting(start: Learner) -> str:
    """Describe how a learner was set; empty where that is said elsewhere."""
    given = start.assumptions
    checked = f" and spot-checks {start.spot_check:g} of the rounds" if start.spot_check else ""
    if start.algorithm == "economical":
        return f"economical weighs a call against its price over the rounds to come{checked}."
    if start.algorithm == "confident":
        return f"confident skips at {start.rules[0].header()['confidence']:g}{checked}."
    if start.algorithm == LOG_ALONE:
        return ""
    times = "" if given.radius_scale == 1 else f"{given.radius_scale:g} times "
    return (
        f"The others have confidence sets of {times}the proved size ({given.radius})"
        + (", which voids their guarantee" if given.radius_scale < 1 else "")
        + f"; ridge {given.ridge:g}, δ {given.delta:g}."
    )


def _check_log(log: AnyLog) -> None:
    if not isinstance(log, Log | Rows):
        raise SettingError(f"got a {type(log).__name__}; expected a Log. Read one with sparing.read_log(...)")
    if log.n_rows == 0:
        raise SettingError(
            "the log has no rows, so there is no posterior to plan from; log some rounds first"
        )


def _names(names: Sequence[str]) -> tuple[str, ...]:
    listed = tuple(dict.fromkeys([names] if isinstance(names, str) else names))
    if not listed:
        raise SettingError(f"learners is empty; name some of {', '.join(LEARNERS)}")
    ips = ". It answers contexts of the log, and a plan has new ones only: there it is eps_moful. Plan with 'eps_moful'"
    hints = {"eps_moful_ips": ips}
    return tuple(one_of("learners", name, LEARNERS, hint=hints.get(name, "")) for name in listed)


def _levels(tolerances: Sequence[float]) -> list[float]:
    listed = {number("tolerances", value, least=0) for value in np.atleast_1d(tolerances)}
    if not listed:
        raise SettingError(f"tolerances={tolerances!r}; must be one at least")
    return sorted(listed)
