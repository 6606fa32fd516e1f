"""Compile every function that a round can reach, so that no round has to wait."""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.errors import SparingError
from sparing.log.features import texts

if TYPE_CHECKING:
    from sparing.log import Log
    from sparing.online.learner import Learner

LEARNERS = (
    "moful",
    "eps_moful",
    "eps_moful_ips",
    "warm_started",
    "certified",
    "confident",
    "economical",
    "linucb",
    "lints",
)
SIZES = ((4, 2), (120, 10))
"""Actions and features of a problem without bounds, and of one with them."""

SMALL = 20_000  # numbers of all matrices, up to which a learner itself is moved


def warm_up(learner: "Learner") -> None:
    """Play a few rounds on a copy of a learner: decide, open, learn, cancel, many at once; check and renew its state, as files do."""
    from sparing.online.engine import random_stream, runs, search, updates
    from sparing.online.engine.state import NEVER
    from sparing.online.log_beats import LogBeats

    if any(isinstance(column, texts.TextColumn) for column in learner.encoder.columns):
        texts.warm_up()
    trial = learner.copy()
    mask = learner.active()
    first = int(mask.argmax())
    contexts = np.random.default_rng(0).random((3, learner.n_features))
    for x in contexts:
        with contextlib.suppress(SparingError):
            action = trial.propose(x, allowed=mask, entropy=b"warm").action
            one, other = trial.begin(action, x), trial.begin(action, x)
            trial.propose(x)
            trial.check_learnable(action, x)
            trial.propose_in_shadow(x)
            trial.best(x, mask)
            trial.value(action, x)
            trial.cancel(action, x, other)
            trial.finish(action, x, one, one)
            trial.decide(x)
    trial.decide_many(contexts)
    trial.watch.reward(first, 0.5, 0.5, 1.0, None, 0)
    trial.watch.context(contexts[0], 0)
    _ = trial.alarms
    table, x, bounds = trial.sets.scratch.observed, contexts[0], trial.sets.bounds
    if trial.spot_check:
        runs.CHECK_KEY.call(trial.key, 0, trial.spot_check)
        runs.SPOT_CHECK_KIND.call(runs.STREAM_KEY.call(trial.key, 0), trial.spot_check, True)
        runs.RANDOM_OTHER_ACTION[bounds].call(table, x, mask, first, 0, bounds)
        runs.VALUE.call(table, x, first)
    if any(isinstance(rule, LogBeats) for rule in trial.rules):
        random_stream.uniform(runs.STREAM_KEY.call(trial.key, 0), random_stream.ANSWER)
    trial.sets.inconsistent()
    search.radii_all(table)
    updates.factor(table, 0, updates.CONDITION)
    search.renew_bounds(table, 0)
    if trial.next_entry != NEVER:
        trial.enter_context(x)
    if trial.explore == "sampled":
        normals = np.zeros(trial.n_actions)
        random_stream.normals(runs.STREAM_KEY.call(trial.key, 0), normals)
        runs.SAMPLE[bounds].call(table, x, normals, mask, bounds)
        trial.chance(first, x, mask)
    if trial.n_actions * trial.n_features**2 <= SMALL:
        _move(trial, first, x)
    else:  # the same code, and fading every action of a large learner takes seconds
        _move(_small(), 0, np.ones(SIZES[0][1]))


def _small() -> "Learner":
    """Return a small learner that moves. Its prior is of no rows: fitting one takes longer than the rest, with what it imports."""
    from sparing.model.posterior import fit_prior
    from sparing.online import drift
    from sparing.online.start import posterior_sets, resolve_start

    log = _log(*SIZES[0])
    start = resolve_start(log, {"noise": 1.0, "theta_bound": 1.0, "context_bound": 1.0})
    prior = fit_prior(log, start.nothing, noise=1.0, scale=1.0)
    sets, _ = posterior_sets(start.sums, start.assumptions, prior, 0.0, shift=drift.allowance(drift.AUTO))
    drift.begin_shift(sets, drift.AUTO)
    return start.learner("confident", sets, [])


def _move(trial: "Learner", action: int, x: np.ndarray) -> None:
    """Review a shift, and fade with a call pending, as rounds in a world that moves do."""
    from sparing.online import drift
    from sparing.online.engine import runs
    from sparing.online.engine.state import NEVER

    if trial.sets.arrays.next_review != NEVER:
        runs.REVIEW.call(trial.sets.scratch.observed)
        trial.sets.apply_shift(max(1.0, trial.sets.arrays.shift))
    with contextlib.suppress(SparingError):  # a proof assumes that nothing changes
        drift.check_forgets(trial)
        trial.begin(action, x)
        drift.set_half_life(trial, drift.SHORTEST)
        drift.tick(trial, trial.rounds + drift.SHORTEST)


def warm_up_all(progress: Callable[[int, int], None] | None = None) -> int:
    """Compile what every learner needs, small and large, one by one and in whole runs; return the number of kernels."""
    from numba.core import event

    from sparing.online import algorithms

    total = len(LEARNERS) * len(SIZES)
    with event.install_recorder("numba:compile") as recorder:
        texts.warm_up()
        for place, (n_actions, n_features) in enumerate(SIZES):
            log = _log(n_actions, n_features)
            for number, name in enumerate(LEARNERS):
                if progress is not None:
                    progress(place * len(LEARNERS) + number, total)
                learner = getattr(algorithms, name)(log, **_settings(name, log))
                warm_up(learner)
                if learner.uses_voi:
                    _ask(learner)
        if progress is not None:
            progress(total, total)
    return sum(1 for _, what in recorder.buffer if what.is_end)


def _ask(learner: "Learner") -> None:
    """Value calls in a pool of contexts, as `ask` does."""
    from sparing.online.engine import pool

    contexts, left = np.ones((1, learner.n_features)), np.ones(1, dtype=np.int64)
    pool.best_call(learner.sets.scratch.pending, 0, contexts, left, pool.chords(), np.empty(1))


def _log(n_actions: int, n_features: int) -> "Log":
    from sparing.log import Log

    rng = np.random.default_rng(0)
    actions = np.repeat(np.arange(n_actions), 3)
    contexts = rng.random((len(actions), n_features))
    contexts[:, 0] = 1.0  # as tables have it: then contexts are watched
    chances = np.full((len(actions), n_actions), 1 / n_actions)
    return Log.from_arrays(
        contexts, actions, rng.random(len(actions)), distribution=chances, action_names=range(n_actions)
    )


def _settings(name: str, log: "Log") -> dict[str, Any]:
    from sparing.model.confidence import supported_actions

    settings: dict[str, Any] = {"noise": 1.0, "theta_bound": 1.0, "context_bound": 1.0}
    if name.startswith("eps"):
        settings["supported"] = supported_actions({log.action_names[0]: np.zeros(log.n_features)})
    if name in ("confident", "economical"):
        settings |= {"prior_scale": 1.0, "shift": "auto"}
    if name == "economical":
        settings |= {"call_cost": 0.01, "horizon": 10_000}
    return settings
