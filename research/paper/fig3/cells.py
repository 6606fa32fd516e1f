"""The results of Fig. 3 by algorithm and setting, one value a seed."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from research.paper.experiment import Record
from research.paper.fig3.setting import MAIN
from research.paper.intervals import Interval, difference, mean
from research.paper.lineup import SCALED, SHOWN

METRICS = ("reward", "share", "calls", "rounds", "regret")
"""`share` is the reward as a share of what the best policy earns."""

Key = tuple[str, float | None, str, float]
"""Variant, radius scale (None where there is none), algorithm, n^UA."""


class Cells:
    """Looks up the values over seeds of one algorithm in one setting."""

    def __init__(self, results: Sequence[tuple[Record, Record]]) -> None:
        self.values: dict[Key, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.seeds: dict[Key, list[int]] = defaultdict(list)
        for unit, result in results:
            world = unit["synthetic"]
            for outcome in result["outcomes"]:
                key = (unit["variant"], outcome.get("scale"), outcome["algorithm"], world["unsupported"])
                self.seeds[key].append(world["seed"])
                for metric in METRICS:
                    value = outcome["reward"] / result["best"] if metric == "share" else outcome[metric]
                    self.values[key][metric].append(value)

    def at(
        self, algorithm: str, scale: float, share: float, *, metric: str = "reward", variant: str = MAIN
    ) -> np.ndarray:
        """One value a seed; the scale is ignored for an algorithm that has none."""
        key = (variant, scale if algorithm in SCALED else None, algorithm, share)
        return np.array(self.values[key][metric], dtype=float)

    def gap(self, first: str, second: str, scale: float, share: float, *, variant: str = MAIN) -> Interval:
        """Reward of the first less that of the second, paired by seed."""
        return difference(
            self.at(first, scale, share, variant=variant), self.at(second, scale, share, variant=variant)
        )

    def summary(self) -> dict[str, list[Any]]:
        """A row for each algorithm, setting and metric: its mean and 95 % limits."""
        columns: dict[str, list[Any]] = {
            name: [] for name in ("variant", "scale", "algorithm", "shown", "unsupported", "metric")
        } | {name: [] for name in ("value", "low", "high", "seeds")}
        for (variant, scale, algorithm, share), metrics in self.values.items():
            for metric, values in metrics.items():
                found = mean(values)
                ends = (found.value, found.low, found.high, len(values))
                row = (variant, scale, algorithm, SHOWN[algorithm], share, metric, *ends)
                for column, value in zip(columns.values(), row, strict=True):
                    column.append(value)
        return columns

    def rows(self) -> dict[str, list[Any]]:
        """A row for each algorithm, setting and seed."""
        names = ("variant", "scale", "algorithm", "unsupported", "seed", *METRICS)
        columns: dict[str, list[Any]] = {name: [] for name in names}
        for key, metrics in self.values.items():
            for place, seed in enumerate(self.seeds[key]):
                row = (*key, seed, *(metrics[metric][place] for metric in METRICS))
                for column, value in zip(columns.values(), row, strict=True):
                    column.append(value)
        return columns
