"""How large, how often and for how long."""

from collections.abc import Sequence
from dataclasses import dataclass

from sparing.errors import SettingError

PARTS = (
    "step",
    "simulation",
    "statistics",
    "intervals",
    "pi-plus",
    "startup",
    "encoding",
    "service",
    "growth-of-service",
    "scale",
    "growth",
)
"""What can be measured, in the order it is."""


def check_parts(parts: Sequence[str]) -> None:
    """Refuse a part that cannot be measured, and no part at all."""
    unknown = [name for name in parts if name not in PARTS]
    if unknown or not parts:
        raise SettingError(f"no part {unknown[0] if unknown else ''!r}; known are {', '.join(PARTS)}")


@dataclass(frozen=True)
class BenchmarkSetting:
    """Sizes and patience; the defaults take under a quarter of an hour on two quiet cores.

    steps: (K, d, rounds) of the online step; `patience` is the CPU time that one round of one contender
    may take, in seconds (but one step at least). *_rows_an_action: the log behind a warm step, and behind
    the worst regime's equally explored arms. bootstrap_resamples: OBP's bootstrap is measured with 1 resample
    and with so many, and its time for RESAMPLES follows on a line. service_*: (K, d) under load, (K, d, rows an action)
    of the workers that are weighed, decisions in a round's load and in a new worker's first one, stored decisions and open calls of filled stores, and (decisions, open calls,
    decisions since the state file) of a service that is killed. scale_rows: those of the log that is walked, older_rows where an older release walks it too. judged: whether the targets, which are for
    these sizes, apply.
    """

    steps: tuple[tuple[int, int, int], ...] = (
        (20, 10, 9),
        (26, 17, 9),
        (1000, 32, 7),
        (10_000, 64, 5),
    )
    patience: float = 0.15
    warm_rows_an_action: int = 50
    worst_rows_an_action: int = 10
    simulation_rounds: int = 5000
    simulation_runs: int = 20
    statistics_rows: int = 5_000_000
    statistics_features: int = 32
    statistics_actions: int = 100
    interval_rows: int = 1_000_000
    bootstrap_resamples: int = 100
    pi_plus_rows: tuple[int, int] = (10_000, 10_000_000)
    repeats: int = 3
    growth_actions: tuple[int, ...] = (10, 100, 1000, 10_000, 100_000)
    growth_features: tuple[int, ...] = (8, 16, 32, 64, 128, 256)
    growth_rows: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    growth_rows_an_action: int = 20
    service_sizes: tuple[tuple[int, int], ...] = ((20, 10), (1000, 32))
    service_workers: tuple[tuple[int, int, int], ...] = ((20, 10, 100), (1000, 32, 100), (10_000, 64, 10))
    service_rows_an_action: int = 100
    service_decisions: int = 2000
    service_first: int = 1000
    service_rounds: int = 7
    service_stored: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    service_open: tuple[int, ...] = (1000, 10_000, 100_000, 1_000_000)
    service_restart: tuple[int, int, int] = (1_000_000, 50_000, 9000)
    service_growth_rounds: int = 3
    scale_rows: int = 20_000_000
    older_rows: int = 1_000_000
    seed: int = 0
    judged: bool = True

    @classmethod
    def quick(cls) -> "BenchmarkSetting":
        """Seconds in all: proves that it runs, measures nothing worth quoting."""
        return cls(
            steps=((5, 3, 2),),
            patience=0.01,
            warm_rows_an_action=10,
            worst_rows_an_action=5,
            simulation_rounds=50,
            simulation_runs=2,
            statistics_rows=2000,
            statistics_features=3,
            statistics_actions=4,
            interval_rows=2000,
            pi_plus_rows=(200, 2000),
            repeats=2,
            growth_actions=(5, 20),
            growth_features=(2, 4),
            growth_rows=(500, 1000),
            service_sizes=((5, 3), (6, 4)),
            service_workers=((5, 3, 20),),
            service_rows_an_action=20,
            service_decisions=100,
            service_first=50,
            service_rounds=2,
            service_stored=(200, 1000),
            service_open=(10, 100),
            service_restart=(200, 20, 100),
            service_growth_rounds=2,
            scale_rows=3000,
            older_rows=3000,
            judged=False,
        )
