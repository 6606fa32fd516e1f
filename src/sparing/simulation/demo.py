"""The demonstration: a real data set, classes the log never tried, and what each learner makes of it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sparing.auditing import Audit, audit
from sparing.errors import SettingError
from sparing.log import Log
from sparing.model.supported import top
from sparing.online import algorithms
from sparing.online.learner import Learner
from sparing.simulation import ClassificationWorld, draw_log, simulate
from sparing.simulation.datasets import Dataset
from sparing.simulation.loop import Progress

LOG_ALONE = "the log alone"


@dataclass(frozen=True)
class DemoSetting:
    """A data set, the classes its log never tries (its last three unless named), and the learners' settings.

    The contexts have unit norm, so the ridge is small. radius_scale < 1 voids the worst-case guarantees
    and is what practice uses.
    """

    data: str = "pendigits"
    never: tuple[str, ...] = ()
    tolerance: float = 0.1
    ridge: float = 0.1
    radius_scale: float = 0.2
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)

    def learners(self, log: Log, seed: int) -> dict[str, Callable[[], Learner]]:
        """How to start each learner on a log, by the name it is shown under."""
        common: algorithms.Settings = {
            "ridge": self.ridge,
            "radius_scale": self.radius_scale,
            "seed": seed,
        }
        trusted = max(1, int((log.counts > 0).sum()) // 2)
        return {
            "mOFUL, cold": lambda: algorithms.moful(log, **common),
            f"ε-mOFUL, {trusted} trusted": lambda: algorithms.eps_moful(
                log, supported=top(trusted), **common
            ),
            "warm-started": lambda: algorithms.warm_started(log, **common),
            "certified": lambda: algorithms.certified(log, tolerance=self.tolerance, **common),
            "confident": lambda: algorithms.confident(
                log, tolerance=self.tolerance, ridge=self.ridge, seed=seed
            ),
        }


@dataclass(frozen=True, eq=False)
class Outcome:
    """One learner over all seeds: final calls (S,), live errors (S,), held-out errors (S,), calls (S, T)."""

    name: str
    calls: np.ndarray
    live_error: np.ndarray
    final_error: np.ndarray
    calls_over_time: np.ndarray


@dataclass(frozen=True, eq=False)
class DemoResult:
    """Everything the demonstration shows."""

    setting: DemoSetting
    dataset: str
    source: str
    rounds: int
    audit: Audit
    outcomes: tuple[Outcome, ...]

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values, the curves left out."""
        return {
            "setting": asdict(self.setting),
            "dataset": self.dataset,
            "source": self.source,
            "rounds": self.rounds,
            "audit": self.audit.to_dict(),
            "learners": [
                {
                    "name": outcome.name,
                    "calls": outcome.calls.tolist(),
                    "live_error": outcome.live_error.tolist(),
                    "final_error": outcome.final_error.tolist(),
                }
                for outcome in self.outcomes
            ],
        }


def demonstrate(setting: DemoSetting, dataset: Dataset, *, progress: Progress | None = None) -> DemoResult:
    """Log a data set without some of its classes, then let each learner go live on fresh contexts."""
    never = setting.never or dataset.classes[-3:]
    unknown = [name for name in never if name not in dataset.classes]
    if unknown or len(never) > len(dataset.classes) - 3:
        raise SettingError(
            f"never={list(never)}; {dataset.name} has the classes {', '.join(dataset.classes)}, "
            "and at least three must be logged"
        )
    runs: list[dict[str, tuple[np.ndarray, float, float]]] = []
    report = _Steps(progress, len(setting.seeds))
    logs = []
    for seed in setting.seeds:
        world = ClassificationWorld(dataset, seed=seed)
        log = draw_log(world, never=never, seed=seed)
        logs.append(log)
        learners = setting.learners(log, seed)
        report.each = len(learners)
        alone = learners["warm-started"]().policy()
        live = world.live_stream(None, np.random.default_rng(0))
        wrong = alone.actions(live.contexts) != live.means.argmax(axis=1)
        run = {LOG_ALONE: (np.zeros(len(live)), float(wrong.mean()), world.error(alone))}
        for name, start in learners.items():
            learner = start()
            trace = simulate(learner, world, seed=seed)
            run[name] = (trace.calls, float(trace.losses.mean()), world.error(learner.policy()))
            report.step()
        runs.append(run)
    outcomes = tuple(_outcome(name, [run[name] for run in runs]) for name in runs[0])
    rounds = outcomes[0].calls_over_time.shape[1]
    found = audit(logs[0])
    return DemoResult(setting, dataset.name, dataset.source, rounds, found, outcomes)


def _outcome(name: str, runs: list[tuple[np.ndarray, float, float]]) -> Outcome:
    curves = np.array([curve for curve, _, _ in runs])
    live, final = (np.array([run[i] for run in runs]) for i in (1, 2))
    return Outcome(name, curves[:, -1], live, final, curves)


class _Steps:
    """Counts runs for a progress bar."""

    def __init__(self, progress: Progress | None, seeds: int) -> None:
        self.tell: Callable[[int, int], None] = progress or (lambda done, total: None)
        self.seeds, self.each, self.done = seeds, 1, 0

    def step(self) -> None:
        self.done += 1
        self.tell(self.done, self.seeds * self.each)
