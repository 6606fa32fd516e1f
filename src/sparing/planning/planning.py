"""How many reward calls will it take? Simulate what the log leaves possible, and count."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from sparing.errors import SettingError
from sparing.log import Log
from sparing.model.assumptions import Prior, empirical_prior
from sparing.model.statistics import Statistics
from sparing.online.learner import Learner
from sparing.planning.candidates import (
    LEARNERS,
    Candidate,
    PlanSettings,
    believer,
    candidates,
    check_names,
    check_settings,
)
from sparing.planning.result import Option, Plan
from sparing.planning.world import MOST_CONTEXTS, Posterior, PosteriorWorld
from sparing.simulation.loop import Progress, play
from sparing.simulation.many import run_many

__all__ = ["Plan", "plan"]

CHECKPOINTS = 8
"""Points of a run, evenly spaced, at which calls and regret are recorded."""

SMALL = 100_000
"""Fewer rounds than this, over all worlds and learners, are done before other processes have started."""

SLACK = 1e-9
"""Keeps (W + 1)·α/2 from falling below a whole number by rounding."""


@dataclass(frozen=True, eq=False)
class _Job:
    """One world and all that a process needs to try every learner in it."""

    world: PosteriorWorld
    learners: tuple[Learner, ...]
    checkpoints: np.ndarray
    seed: tuple[int, int]


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
    if not isinstance(log, Log):
        raise SettingError(f"got a {type(log).__name__}; expected a Log. Read one with sparing.read_log(...)")
    if log.n_rows == 0:
        raise SettingError(
            "the log has no rows, so there is no posterior to plan from; log some rounds first"
        )
    rank = _rank(_whole("worlds", worlds), confidence)
    horizon = _whole("rounds", rounds)
    _limits(regret, budget)
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise SettingError(f"seed={seed!r}; must be a whole number, 0 or more")
    names, levels = check_names(learners), _tolerances(tolerances)
    check_settings(settings)
    believed = believer(log, settings)
    posterior = Posterior.of(believed, log.contexts, np.random.default_rng([seed, 0]))
    compared = candidates(log, names, levels, settings)
    checkpoints = np.unique(np.ceil(horizon * np.arange(1, CHECKPOINTS + 1) / CHECKPOINTS).astype(int))
    starts = tuple(candidate.learner for candidate in compared)
    jobs = [
        _Job(
            posterior.draw(np.random.default_rng([seed, 1, number])), starts, checkpoints, (int(seed), number)
        )
        for number in range(worlds)
    ]
    if workers is None and worlds * len(starts) * horizon < SMALL:
        workers = 1
    options = _options(compared, np.array(run_many(_try, jobs, workers=workers, progress=progress)), rank)
    return Plan(
        rounds=horizon,
        worlds=worlds,
        confidence=float(confidence),
        coverage=(worlds + 1 - 2 * rank) / (worlds + 1),
        checkpoints=tuple(checkpoints.tolist()),
        options=options,
        noise=posterior.noise,
        prior_scale=_prior(log, believed, settings).scale,
        assumptions=(*_assumptions(log, believed, settings), _reading(options, worlds, rank)),
        regret=regret,
        budget=budget,
        seed=int(seed),
    )


def _try(job: _Job) -> np.ndarray:
    """Calls and regret of every learner in one world at each checkpoint, (learners, 2, C)."""
    rounds = int(job.checkpoints[-1])
    stream = job.world.live_stream(rounds, np.random.default_rng([job.seed[0], 2, job.seed[1]]))
    found = np.empty((len(job.learners), 2, len(job.checkpoints)))
    for number, start in enumerate(job.learners):
        learner = start.copy()
        # A live learner's own luck is as unknown as the world: ties and samples differ between worlds.
        learner.reseed([job.seed[0], 3, job.seed[1]])
        trace = play(learner, stream)
        found[number] = trace.calls[job.checkpoints - 1], trace.regret[job.checkpoints - 1]
    return found


def _options(compared: tuple[Candidate, ...], results: np.ndarray, rank: int) -> tuple[Option, ...]:
    return tuple(
        Option(c.name, c.tolerance, c.detail, results[:, number, 0], results[:, number, 1], rank)
        for number, c in enumerate(compared)
    )


def _prior(log: Log, believed: Learner, settings: PlanSettings) -> Prior:
    return empirical_prior(
        Statistics.of(log),
        believed.assumptions.ridge,
        scale=settings.get("prior_scale"),
        mean=settings.get("prior_mean"),
    )


def _reading(options: tuple[Option, ...], worlds: int, rank: int) -> str:
    """How to read the intervals and the means."""
    share = (worlds + 1 - 2 * rank) / (worlds + 1)
    found = [(option.calls_at(), option.regret_at()) for option in options]
    calls, regret = (
        max((pair[which].error / pair[which].mean for pair in found if pair[which].mean > 0), default=0.0)
        for which in (0, 1)
    )
    return (
        f"Intervals run from rank {rank} to rank {worlds + 1 - rank} of {worlds} worlds: a further world falls "
        f"inside with probability {share:.1%}, for each learner alone, not for all at once. The standard errors "
        f"of the means are up to {calls:.0%} (calls) and {regret:.0%} (regret) of them: means closer than that "
        "may be in either order, on the frontier too. More worlds tell them apart."
    )


def _assumptions(log: Log, believed: Learner, settings: PlanSettings) -> tuple[str, ...]:
    """What the plan rests on, a sentence each."""
    prior, given = _prior(log, believed, settings), believed.assumptions
    taught = f"learnt from {prior.actions} well-logged actions" if prior.actions else "given"
    estimated = "noise" in given.estimated
    part = f", a random {MOST_CONTEXTS:,} of them" if log.n_rows > MOST_CONTEXTS else ""
    return (
        f"Rewards are linear in the context, and actions, logged or not, are exchangeable: their parameters "
        f"vary by a deviation of {prior.scale:.3g} between actions ({taught}).",
        f"Live contexts are like the log's {log.n_rows:,}{part}, drawn with replacement; every action may be "
        "played in every round, and rewards come at once.",
        f"Noise is normal with deviation {given.noise:.3g} everywhere ("
        + ("estimated from the log, upper 95 % limit" if estimated else "given")
        + "). The intervals do not count the uncertainty of the noise and of the prior themselves.",
        f"Learners: radius {given.radius} × {given.radius_scale:g}"
        + (" (below 1: no worst-case guarantee)" if given.radius_scale < 1 else "")
        + f", ridge {given.ridge:g}, δ {given.delta:g}; confident skips at "
        f"{settings.get('skip_confidence', 0.95):g} and spot-checks {believed.spot_check:g} of the rounds.",
    )


def _rank(worlds: int, confidence: float) -> int:
    """k of the prediction interval: the largest with (W + 1 − 2k)/(W + 1) ≥ confidence."""
    if not 0 < confidence < 1:
        raise SettingError(f"confidence={confidence}; must be in (0, 1), such as 0.9")
    rank = int((worlds + 1) * (1 - confidence) / 2 + SLACK)
    if rank < 1:
        needed = int(np.ceil(2 / (1 - confidence) - SLACK)) - 1
        raise SettingError(
            f"worlds={worlds}; an interval with confidence {confidence:g} needs {needed} or more. "
            "Simulate more worlds, or ask for less confidence"
        )
    return rank


def _whole(name: str, value: int) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise SettingError(f"{name}={value!r}; must be a whole number, 1 or more")
    return int(value)


def _limits(regret: float | None, budget: float | None) -> None:
    for name, value in (("regret", regret), ("budget", budget)):
        if value is not None and not (np.isfinite(value) and value >= 0):
            raise SettingError(f"{name}={value}; must be a finite number, 0 or more, or None")


def _tolerances(values: Sequence[float]) -> tuple[float, ...]:
    listed = tuple(dict.fromkeys(float(value) for value in np.atleast_1d(values)))
    if not listed or not all(np.isfinite(value) and value >= 0 for value in listed):
        raise SettingError(f"tolerances={values!r}; must be finite numbers, 0 or more, one at least")
    return tuple(sorted(listed))
