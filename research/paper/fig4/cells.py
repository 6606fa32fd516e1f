"""The results of Fig. 4 by algorithm and setting, one value a seed."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from research.paper.experiment import Record
from research.paper.fig4.setting import Setting
from research.paper.intervals import Interval, difference, mean
from research.paper.lineup import SCALED, SHOWN

METRICS = ("held_out", "live", "calls", "regret")
WHERE = ("dataset", "rewards", "stream", "scale", "unsupported")


@dataclass(frozen=True)
class Place:
    """One setting of the comparison."""

    dataset: str
    rewards: str
    stream: str
    scale: float | None
    unsupported: float

    def levels(self) -> tuple[str, ...]:
        """In words, one for each of WHERE."""
        scale = "no radius" if self.scale is None else f"radius × {self.scale:g}"
        return self.dataset, self.rewards, self.stream, scale, f"n^UA {self.unsupported:g}"


def places(setting: Setting) -> Iterator[Place]:
    """All settings of the comparison."""
    kinds = [kind(noisy) for noisy in setting.noisy]
    axes = (setting.datasets, kinds, setting.streams, setting.radius_scales, setting.unsupported)
    return (Place(*levels) for levels in product(*axes))


def kind(noisy: bool) -> str:
    """The kind of reward in words."""
    return "noisy" if noisy else "noiseless"


class Cells:
    """Looks up the values over seeds of one algorithm in one setting."""

    def __init__(self, results: Sequence[tuple[Record, Record]]) -> None:
        self.values: dict[tuple[str, Place], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.seeds: dict[tuple[str, Place], list[int]] = defaultdict(list)
        for unit, result in results:
            for outcome in result["outcomes"]:
                place = Place(
                    unit["dataset"],
                    kind(unit["noisy"]),
                    outcome["stream"],
                    outcome.get("scale"),
                    unit["unsupported"],
                )
                self.seeds[outcome["algorithm"], place].append(unit["seed"])
                for metric in METRICS:
                    self.values[outcome["algorithm"], place][metric].append(outcome[metric])

    def at(self, algorithm: str, place: Place, metric: str) -> np.ndarray:
        """One value a seed; the scale is ignored for an algorithm that has none."""
        if algorithm not in SCALED:
            place = Place(place.dataset, place.rewards, place.stream, None, place.unsupported)
        found = self.values.get((algorithm, place))
        return np.array([] if found is None else found[metric], dtype=float)

    def has(self, algorithm: str, place: Place) -> bool:
        """Was the algorithm run there?"""
        return len(self.at(algorithm, place, METRICS[0])) > 0

    def gap(self, first: str, second: str, place: Place, metric: str) -> Interval:
        """The first less the second, paired by seed."""
        return difference(self.at(first, place, metric), self.at(second, place, metric))

    def summary(self) -> dict[str, list[Any]]:
        """A row for each algorithm, setting and metric: its mean and 95 % limits."""
        names = (*WHERE, "algorithm", "shown", "metric", "value", "low", "high", "seeds")
        columns: dict[str, list[Any]] = {name: [] for name in names}
        for (algorithm, place), metrics in self.values.items():
            for metric, values in metrics.items():
                found = mean(values)
                ends = (found.value, found.low, found.high, len(values))
                row = (*vars(place).values(), algorithm, SHOWN[algorithm], metric, *ends)
                for column, value in zip(columns.values(), row, strict=True):
                    column.append(value)
        return columns

    def rows(self) -> dict[str, list[Any]]:
        """A row for each algorithm, setting and seed."""
        names = (*WHERE, "algorithm", "seed", *METRICS)
        columns: dict[str, list[Any]] = {name: [] for name in names}
        for (algorithm, place), metrics in self.values.items():
            for number, seed in enumerate(self.seeds[algorithm, place]):
                row = (*vars(place).values(), algorithm, seed, *(metrics[name][number] for name in METRICS))
                for column, value in zip(columns.values(), row, strict=True):
                    column.append(value)
        return columns
