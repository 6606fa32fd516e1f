"""How many reward calls will it take? Simulate what the log leaves possible, and count."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from sparing.errors import SettingError, UnitWarning
from sparing.log import Log
from sparing.model.supported import Supported, better_half, elbow, find_elbow, given, top
from sparing.online import algorithms
from sparing.online.learner import Learner
from sparing.planning.result import Option, Plan
from sparing.settings import among, number, share, whole
from sparing.simulation.loop import Progress, play
from sparing.simulation.many import run_many
from sparing.simulation.worlds import LinearWorld

LEARNERS = ("greedy", "confident", "certified", "eps_moful", "warm_started", "moful")
"""What a plan can compare; `greedy` plays the log's ridge estimates and never asks."""

TOLERANT = ("confident", "certified")
"""Learners that take a tolerance: compared once for each."""

MOST_CONTEXTS = 20_000
"""Of a longer log, a random part of this many rows stands for its contexts: each process gets a copy."""

CHECKPOINTS = 8
"""Points of a run, evenly spaced, at which calls and regret are recorded."""

SMALL = 100_000
"""Fewer rounds than this, over all worlds and learners, are done before other processes have started."""

SLACK = 1e-9
"""Keeps (W + 1)·α/2 from falling below a whole number by rounding."""


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


OF_CONFIDENT = ("prior_scale", "prior_mean", "spot_check", "misfit")
"""Settings that only `confident` takes, under the same name."""


def plan(
    log: Log,
    *,
    rounds: int,
    tolerances: Sequence[float] = (0.05, 0.1, 0.2, 0.5),
    learners: Sequence[str] = LEARNERS,
    worlds: int = 40,
    confidence: float = 0.9,
    regret: float | None = None,
    budget: float | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress | None = None,
    **settings: Unpack[PlanSettings],
) -> Plan:
    """Predict how many reward calls, and how much regret, each learner will need over `rounds` rounds.

    Each of the `worlds` draws θ_a ~ N(V_a⁻¹ b_a, σ² V_a⁻¹) from the posterior that `confident` starts
    with, and its contexts from the log's, with replacement; every learner starts from the real log and
    meets the same worlds. Intervals are order statistics: a further world falls between the k-th
    smallest and the k-th largest of W with probability (W + 1 − 2k)/(W + 1) ≥ `confidence`.

    `regret` asks for the cheapest option with at most so much regret, `budget` for the least regret
    within so many calls. `settings` are those of the learners. In a script, call this under
    `if __name__ == "__main__":`, or with `workers=1`, because the other processes import the script.
    """
    _check_log(log)
    rank = _rank(whole("worlds", worlds, least=1), share("confidence", confidence, hint=", such as 0.9"))
    coverage = (worlds + 1 - 2 * rank) / (worlds + 1)
    horizon, seed = whole("rounds", rounds, least=1), whole("seed", seed)
    for name, value in (("regret", regret), ("budget", budget)):
        if value is not None:
            number(name, value, least=0, hint=", or None")
    chosen = [(name, level) for name in _names(learners) for level in _levels(name, tolerances)]
    for name in settings:
        among("setting", name, PlanSettings.__annotations__)
    believed = _started("confident", log, settings)
    pool = context_pool(log.contexts, np.random.default_rng([seed, 0]))
    starts = tuple(_started(name, log, settings, tolerance=level) for name, level in chosen)
    checkpoints = np.unique(np.ceil(horizon * np.arange(1, CHECKPOINTS + 1) / CHECKPOINTS).astype(int))
    if workers is None and worlds * len(starts) * horizon < SMALL:
        workers = 1
    run = partial(_try, partial(draw_world, believed, pool), starts, checkpoints, seed)
    results = np.array(run_many(run, range(worlds), workers=workers, progress=progress))
    options = tuple(
        Option(name, level, _detail(name, start), calls, lost, rank)
        for (name, level), start, calls, lost in zip(
            chosen, starts, *results.transpose(2, 1, 0, 3), strict=True
        )
    )
    return Plan(
        rounds=horizon,
        worlds=worlds,
        confidence=float(confidence),
        coverage=coverage,
        checkpoints=tuple(checkpoints.tolist()),
        options=options,
        noise=believed.assumptions.noise,
        prior_scale=float(np.sqrt((believed.prior.spread**2).mean())) if believed.prior else 0.0,
        assumptions=(*_assumptions(log, believed), _reading(options, worlds, coverage)),
        regret=regret,
        budget=budget,
        seed=seed,
    )


def context_pool(contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Contexts to draw live ones from, (m, d): those of the log, or a random part of many."""
    if len(contexts) <= MOST_CONTEXTS:
        return contexts
    return contexts[rng.choice(len(contexts), MOST_CONTEXTS, replace=False)]


def draw_world(believed: Learner, pool: np.ndarray, rng: np.random.Generator) -> LinearWorld:
    """A world of θ_a ~ N(V_a⁻¹ b_a, σ² V_a⁻¹), independent between actions: what `confident` believes at its start.

    A live context that looks like a logged one is a new round, with new luck.
    """
    noise, mean = believed.assumptions.noise, believed.sets.theta
    root = noise * np.linalg.cholesky(believed.sets.inverse)
    theta = mean + np.einsum("kij,kj->ki", root, rng.standard_normal(mean.shape))
    return LinearWorld(theta=theta, noise=noise, pool=pool, action_names=believed.action_names)


def _try(
    draw: Callable[[np.random.Generator], LinearWorld],
    starts: tuple[Learner, ...],
    checkpoints: np.ndarray,
    seed: int,
    number: int,
) -> np.ndarray:
    """Calls and regret of every learner in one world at each checkpoint, (learners, 2, C)."""
    world = draw(np.random.default_rng([seed, 1, number]))
    stream = world.live_stream(int(checkpoints[-1]), np.random.default_rng([seed, 2, number]))
    found = np.empty((len(starts), 2, len(checkpoints)))
    for place, start in enumerate(starts):
        learner = start.copy()
        # A live learner's own luck is as unknown as the world: ties and samples differ between worlds.
        learner.reseed([seed, 3, number])
        trace = play(learner, stream)
        found[place] = trace.calls[checkpoints - 1], trace.regret[checkpoints - 1]
    return found


def _started(name: str, log: Log, settings: PlanSettings, *, tolerance: float | None = None) -> Learner:
    """A learner at its start on the log."""
    taken = algorithms.Believed.__annotations__
    own: Any = {key: value for key, value in settings.items() if key in taken}
    if name == "greedy":  # ε-mOFUL that trusts the log for all actions, and so never asks
        theta = algorithms.warm_started(log, center="zero", **own).sets.theta
        own["supported"] = given(dict(zip(log.action_names, theta, strict=True)))
        name = "eps_moful"
    elif name == "eps_moful":
        own["supported"] = settings.get("supported") or _supported(log)
    elif name == "confident":
        own |= {key: value for key, value in settings.items() if key in OF_CONFIDENT}
        if "skip_confidence" in settings:
            own["confidence"] = settings["skip_confidence"]
    if name in TOLERANT:
        own["tolerance"] = tolerance or 0.0
    with warnings.catch_warnings():  # large tolerances are tried on purpose
        warnings.simplefilter("ignore", UnitWarning)
        learner: Learner = getattr(algorithms, name)(log, **own)
    # Simulated rewards are normal: a learner that refuses those out of range could not go on.
    learner.reward_range = None
    return learner


def _supported(log: Log) -> Supported:
    if find_elbow(log.counts, log.n_features) is not None:
        return elbow()
    return top(better_half(log.counts))


def _detail(name: str, learner: Learner) -> str:
    return f"L = {int(learner.sets.frozen.sum())}" if name == "eps_moful" else ""


def _reading(options: tuple[Option, ...], worlds: int, coverage: float) -> str:
    """How to read the intervals and the means."""
    rank = options[0].rank
    calls, regret = (
        max((found.error / found.mean for found in summaries if found.mean > 0), default=0.0)
        for summaries in ([o.calls_at() for o in options], [o.regret_at() for o in options])
    )
    return (
        f"Intervals run from rank {rank} to rank {worlds + 1 - rank} of {worlds} worlds: a further world falls "
        f"inside with probability {coverage:.1%}, for each learner alone, not for all at once. The standard errors "
        f"of the means are up to {calls:.0%} (calls) and {regret:.0%} (regret) of them: means closer than that "
        "may be in either order, on the frontier too. More worlds tell them apart."
    )


def _assumptions(log: Log, believed: Learner) -> tuple[str, ...]:
    """What the plan rests on, a sentence each."""
    given = believed.assumptions
    estimated = "noise" in given.estimated
    part = f", a random {MOST_CONTEXTS:,} of them" if log.n_rows > MOST_CONTEXTS else ""
    return (
        f"Rewards are linear in the context, and actions, logged or not, are exchangeable: their parameters "
        f"vary between actions ({believed.prior}).",
        f"Live contexts are like the log's {log.n_rows:,}{part}, drawn with replacement; every action may be "
        "played in every round, and rewards come at once.",
        f"Noise is normal with deviation {given.noise:.3g} everywhere ("
        + ("estimated from the log, upper 95 % limit" if estimated else "given")
        + "). The intervals do not count the uncertainty of the noise and of the prior themselves.",
        f"Learners: radius {given.radius} × {given.radius_scale:g}"
        + (" (below 1: no worst-case guarantee)" if given.radius_scale < 1 else "")
        + f", ridge {given.ridge:g}, δ {given.delta:g}; confident skips at "
        f"{believed.rules[0].header()['confidence']:g} and spot-checks {believed.spot_check:g} of the rounds.",
    )


def _rank(worlds: int, confidence: float) -> int:
    """k of the prediction interval: the largest with (W + 1 − 2k)/(W + 1) ≥ confidence."""
    rank = int((worlds + 1) * (1 - confidence) / 2 + SLACK)
    if rank < 1:
        needed = int(np.ceil(2 / (1 - confidence) - SLACK)) - 1
        raise SettingError(
            f"worlds={worlds}; an interval with confidence {confidence:g} needs {needed} or more. "
            "Simulate more worlds, or ask for less confidence"
        )
    return rank


def _check_log(log: Log) -> None:
    if not isinstance(log, Log):
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


def _levels(name: str, tolerances: Sequence[float]) -> tuple[float | None, ...]:
    """The tolerances to try a learner with, growing; None for one that takes none."""
    listed = {number("tolerances", value, least=0) for value in np.atleast_1d(tolerances)}
    if not listed:
        raise SettingError(f"tolerances={tolerances!r}; must be one at least")
    return tuple(sorted(listed)) if name in TOLERANT else (None,)
