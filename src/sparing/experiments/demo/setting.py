"""What the demonstration runs, as data."""

from collections.abc import Callable
from dataclasses import dataclass

from sparing.auditing.supported import top
from sparing.log import Log
from sparing.online import algorithms
from sparing.online.learner import Learner


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
