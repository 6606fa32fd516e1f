"""How many rewards are worth asking for? Simulate what the log leaves possible, count and weigh."""

import inspect
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from sparing.errors import SettingError, UnitWarning
from sparing.log import Log
from sparing.log.rows import AnyLog, Rows, rows_of
from sparing.model.statistics import Summary
from sparing.model.supported import Supported, better_half, elbow, find_elbow, top
from sparing.online import algorithms
from sparing.online.learner import Learner
from sparing.online.start import known_log
from sparing.planning.result import Option, Plan
from sparing.planning.slices import Slices, draw_slices, draw_world, interval_rank, world_luck
from sparing.settings import among, known_name, number, share, whole
from sparing.simulation.loop import Progress, play
from sparing.simulation.many import run_in_threads
from sparing.simulation.worlds import LinearWorld

LOG_ALONE = "the log alone"
"""Plays the best mean of the posterior and never asks: what all others are compared with."""

LEARNERS = ("economical", "confident", "certified", "eps_moful", "warm_started", "moful")
"""What a plan can compare with the log alone,"""

COMPARED = LEARNERS[:3]
"""and what it does unless told."""

PRICES = (0.01, 0.05, 0.2, 1.0)
"""What a reward may cost where nothing is said, in deviations of the noise,"""

TOLERANCES = (0.05, 0.2, 0.5)
"""and the losses that a skipped round may have."""

MOST_CONTEXTS = 20_000
"""Of a longer log, a random part of this many rows stands for its contexts."""

CHECKPOINTS = 8
"""Points of a run, evenly spaced, at which calls and regret are recorded."""

SMALL = 1_000_000
"""Fewer rounds than this, over all worlds and learners, are done as soon in one thread: most is not compiled then."""


class PlanSettings(algorithms.Believed, total=False):
    """How the planned learners are set, as in their factories.

    `skip_confidence` is the `confidence` of `confident`. `supported` is the set 𝓛 of `eps_moful`; else
    it is `elbow()`, or, where the counts have none, the better logged half of the logged actions.
    """

    prior_scale: float | None
    prior_mean: ArrayLike | None
    spot_check: float
    misfit: float
    skip_confidence: float
    supported: Supported


OF_POSTERIORS = ("prior_scale", "prior_mean", "spot_check", "misfit")
"""Settings that `economical` and `confident` take, under the same name."""


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
    **settings: Unpack[PlanSettings],
) -> Plan:
    """Predict how many rewards to ask for over `horizon` rounds (as many as the log has rows), and what that gains and costs.

    `call_cost` is what a reward costs, in the reward's own units: `economical` is planned at that price. Without it, `budget` is how
    many calls may be made: it is planned at the price that makes them last. With neither it is tried at a few prices.

    Each of the `worlds` draws θ_a ~ N(V_a⁻¹ b_a, σ² V_a⁻¹) from the posterior that `economical` and `confident` start
    with, and its contexts from the log's, with replacement; every learner starts from the real log and
    meets the same worlds, and so does the log alone: the best mean in every round, and no calls. Many more are drawn than are lived
    through: ordered by what the log alone would lose in them, and cut into `worlds` equal slices, of which each gives one, and the
    dearest one of each of four parts. Intervals are order statistics: a further world falls inside with at least the `confidence`.

    `regret` asks for the cheapest option with at most so much regret, `budget` also for the least regret
    within so many calls. `tolerances` are those of `confident` and `certified`. `settings` are those of the learners. `workers` are
    threads, one a core unless told; their number changes nothing but the time.
    """
    _check_log(log)
    rank = interval_rank(
        whole("worlds", worlds, least=1), share("confidence", confidence, hint=", such as 0.9")
    )
    length = log.n_rows if horizon is None else whole("horizon", horizon, least=1)
    seed, names = whole("seed", seed), _names(learners)
    cost, bound = (
        None if value is None else number(name, value, least=0)
        for name, value in (("call_cost", call_cost), ("regret", regret))
    )
    calls = None if budget is None else whole("budget", budget)
    levels = None if tolerances is None else _levels(tolerances)
    for name in settings:
        known_name(name, (*inspect.getfullargspec(plan).kwonlyargs, *PlanSettings.__annotations__))
    terms = {"call_cost": cost, "calls": calls, "horizon": length}
    starts = _starts(_known(log, names), names, settings, terms, levels)
    pool = _pool(log, seed)
    checkpoints = np.unique(np.ceil(length * np.arange(1, CHECKPOINTS + 1) / CHECKPOINTS).astype(int))
    if workers is None and worlds * len(starts) * length < SMALL:
        workers = 1
    slices = draw_slices(starts[0], pool, worlds, rank, seed)
    run = partial(_try, partial(draw_world, starts[0], pool), starts, checkpoints, seed)
    results = np.array(run_in_threads(run, slices.numbers.tolist(), workers=workers, progress=progress))
    options = tuple(map(partial(_option, slices), starts, *results.transpose(2, 1, 0, 3)))
    return Plan(
        horizon=length,
        worlds=worlds,
        confidence=float(confidence),
        coverage=slices.coverage,
        checkpoints=tuple(checkpoints.tolist()),
        options=options,
        noise=starts[0].assumptions.noise,
        prior_scale=float(np.sqrt((starts[0].prior.spread ** 2).mean())) if starts[0].prior else 0.0,
        assumptions=(*_assumptions(log, starts), _reading(options, slices)),
        call_cost=cost,
        budget=calls,
        regret=bound,
        seed=seed,
    )


def context_pool(contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Contexts to draw live ones from, (m, d): those of the log, or a random part of many."""
    if len(contexts) <= MOST_CONTEXTS:
        return contexts
    return contexts[rng.choice(len(contexts), MOST_CONTEXTS, replace=False)]


def _pool(log: AnyLog, seed: int) -> np.ndarray:
    """The same of a log, in memory or walked."""
    rows = rows_of(log)
    if rows.whole:
        return context_pool(rows.read().contexts, np.random.default_rng([seed, 0]))
    return rows.narrowed().sample(MOST_CONTEXTS, seed).contexts


def _known(log: AnyLog, names: Sequence[str]) -> Any:
    """What learners start from: of a scan, what walking it once told; and rows for those that need them."""
    if isinstance(log, Log) or "eps_moful" not in names:
        return known_log(log)
    raise SettingError(
        "a plan with eps_moful fits points to the log's rows, and a scan never holds them all. Leave it out of learners=..., "
        "plan from a random part, plan(log.sample(200_000), ...), at the prompt --sample 200000, or read the log with sparing.read_log(...)"
    )


def _try(
    draw: Callable[[np.random.Generator], LinearWorld],
    starts: tuple[Learner, ...],
    checkpoints: np.ndarray,
    seed: int,
    number: int,
    progress: Progress | None = None,
) -> np.ndarray:
    """Calls and regret of every learner in one world at each checkpoint, (learners, 2, C)."""
    world = draw(world_luck(seed, number))
    stream = world.live_stream(int(checkpoints[-1]), np.random.default_rng([seed, 2, number]))
    found = np.empty((len(starts), 2, len(checkpoints)))
    for place, start in enumerate(starts):
        learner = start.copy()
        # A live learner's own luck is as unknown as the world: ties and samples differ between worlds.
        learner.reseed([seed, 3, number])
        trace = play(learner, stream, progress=progress)
        found[place] = trace.calls[checkpoints - 1], trace.regret[checkpoints - 1]
    return found


def _starts(
    log: Log | Summary,
    names: Sequence[str],
    settings: PlanSettings,
    terms: dict[str, Any],
    tolerances: Sequence[float] | None,
) -> tuple[Learner, ...]:
    """The log alone, then every learner, with each price or each tolerance that it is compared with.

    The log alone is `economical` with nothing to spend: it answers every round with the best mean of the posterior.
    """
    nothing = {**terms, "call_cost": 0.0, "calls": 0, "spot_check": 0.0}
    alone = _started("economical", log, settings, nothing)
    alone.algorithm, noise = LOG_ALONE, alone.assumptions.noise
    said = terms["call_cost"] is not None or terms["calls"] is not None
    prices = [terms["call_cost"]] if said else _shares(PRICES, noise)
    tolerant = [{"tolerance": level} for level in tolerances or _shares(TOLERANCES, noise)]
    own: dict[str, list[dict[str, Any]]] = {"confident": tolerant, "certified": tolerant}
    own["economical"] = [{**terms, "call_cost": price} for price in prices]
    chosen = [(name, each) for name in names for each in own.get(name, [{}])]
    return alone, *(_started(name, log, settings, each) for name, each in chosen)


def _started(name: str, log: Log | Summary, settings: PlanSettings, own: dict[str, Any]) -> Learner:
    """A learner at its start on the log, with settings of its `own`."""
    given: Any = {key: value for key, value in settings.items() if key in algorithms.Believed.__annotations__}
    if name in ("economical", "confident"):
        given |= {key: value for key, value in settings.items() if key in OF_POSTERIORS}
    if name == "confident" and "skip_confidence" in settings:
        given["confidence"] = settings["skip_confidence"]
    if name == "eps_moful" and isinstance(log, Log):
        given["supported"] = settings.get("supported") or _supported(log)
    with warnings.catch_warnings():  # large tolerances are tried on purpose
        warnings.simplefilter("ignore", UnitWarning)
        learner: Learner = getattr(algorithms, name)(log, **{**given, **own})
    # Simulated rewards are normal: a learner that refuses those out of range could not go on.
    learner.reward_range = None
    return learner


def _shares(shares: Sequence[float], unit: float) -> list[float]:
    """Shares of a unit, as round numbers."""
    return [float(f"{share * unit:.2g}") for share in shares]


def _option(slices: Slices, start: Learner, calls: np.ndarray, regret: np.ndarray) -> Option:
    """A learner as it started, and what became of it."""
    name, rule = start.algorithm, start.rules[0].header() if start.rules else {}
    price = rule["call_cost"] if name == "economical" else None
    detail = f"L = {int(start.sets.frozen.sum())}" if name == "eps_moful" else ""
    return Option(name, price, rule.get("tolerance"), detail, calls, regret, slices)


def _supported(log: Log) -> Supported:
    if find_elbow(log.counts, log.n_features) is not None:
        return elbow()
    return top(better_half(log.counts))


def _reading(options: tuple[Option, ...], slices: Slices) -> str:
    """How to read the intervals and the means."""
    calls, regret = (
        max((found.error / found.mean for found in summaries if found.mean > 0), default=0.0)
        for summaries in ([o.calls_at() for o in options], [o.regret_at() for o in options])
    )
    return (
        f"Of {slices.drawn:,} worlds drawn, ordered by what the log alone would lose in them, one of each of {slices.equal} equal slices "
        f"is lived through, {len(slices.numbers) - slices.equal + 1} of the dearest, each for its share: rare worlds are there, and "
        f"count as rare. A further world falls inside an interval with a probability of {slices.coverage:.1%} or "
        "more, for each learner alone, not for all at once. ± is one standard error over worlds, of a gain that of the differences "
        f"world by world. The means' own are up to {calls:.0%} (calls) and {regret:.0%} (regret) of them. More worlds tell options apart."
    )


def _assumptions(log: AnyLog, starts: tuple[Learner, ...]) -> tuple[str, ...]:
    """What the plan rests on, a sentence each."""
    believed, given = starts[0], starts[0].assumptions
    part = f", a random {MOST_CONTEXTS:,} of them" if log.n_rows > MOST_CONTEXTS else ""
    told = "estimated from the log" if "noise" in given.estimated else "given"
    return (
        f"Rewards are linear in the context, and actions, logged or not, are exchangeable: their parameters "
        f"vary between actions ({believed.prior}).",
        f"Live contexts are like the log's {log.n_rows:,}{part}, drawn with replacement; every action may be "
        "played in every round, and rewards come at once.",
        f"Noise is normal with deviation {given.noise:.3g} everywhere ({told}). The intervals do not count the "
        "uncertainty of the noise and of the prior themselves.",
        *dict.fromkeys(filter(None, map(_setting, starts))),
    )


def _setting(start: Learner) -> str:
    """How a learner was set, in a sentence; nothing where that stands elsewhere."""
    given = start.assumptions
    checked = f" and spot-checks {start.spot_check:g} of the rounds" if start.spot_check else ""
    if start.algorithm == "economical":
        return f"economical weighs a call against its price over the rounds to come{checked}."
    if start.algorithm == "confident":
        return f"confident skips at {start.rules[0].header()['confidence']:g}{checked}."
    if start.algorithm == LOG_ALONE:
        return ""
    return (
        f"The others have radius {given.radius} × {given.radius_scale:g}"
        + (" (below 1: no worst-case guarantee)" if given.radius_scale < 1 else "")
        + f", ridge {given.ridge:g}, δ {given.delta:g}."
    )


def _check_log(log: AnyLog) -> None:
    if not isinstance(log, Log | Rows):
        raise SettingError(f"got a {type(log).__name__}; expected a Log. Read one with sparing.read_log(...)")
    if log.n_rows == 0:
        raise SettingError(
            "the log has no rows, so there is no posterior to plan from; log some rounds first"
        )


def _names(names: Sequence[str]) -> tuple[str, ...]:
    """The learners to compare, each once; those that a plan cannot simulate are refused."""
    listed = tuple(dict.fromkeys([names] if isinstance(names, str) else names))
    if not listed:
        raise SettingError(f"learners is empty; name some of {', '.join(LEARNERS)}")
    ips = ". It answers contexts of the log, and a plan has new ones only: there it is eps_moful. Plan with 'eps_moful'"
    hints = {"eps_moful_ips": ips}
    return tuple(among("learners", name, LEARNERS, hint=hints.get(name, "")) for name in listed)


def _levels(tolerances: Sequence[float]) -> list[float]:
    """The tolerances to compare, growing."""
    listed = {number("tolerances", value, least=0) for value in np.atleast_1d(tolerances)}
    if not listed:
        raise SettingError(f"tolerances={tolerances!r}; must be one at least")
    return sorted(listed)
