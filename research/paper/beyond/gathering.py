"""The results by place and learner, one value a seed."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from research.paper.beyond.setting import Setting
from research.paper.experiment import Record

METRICS = ("calls", "regret", "final")
"""Reward calls; regret (on classes: wrong answers) of the live rounds; the final policy's mean loss a context."""


@dataclass(frozen=True)
class Place:
    """Where learners met: a synthetic `world` of some size under a logging policy, or a data set's `classes`."""

    kind: str
    name: str
    features: int | None = None
    rows: int | None = None

    def to_dict(self) -> Record:
        """Plain values; `place` is the logging policy or the data set."""
        size = {"features": self.features, "rows": self.rows} if self.kind == "world" else {}
        return {**size, "place": self.name}


@dataclass(frozen=True)
class Who:
    """A learner and, if it has one, its tolerance."""

    name: str
    tolerance: float | None = None


Gathered = dict[tuple[Place, Who], dict[str, list[float]]]
"""Values over seeds, in the order of the seeds, by place, learner and metric."""


def gather(setting: Setting, results: Sequence[tuple[Record, Record]]) -> Gathered:
    """All results; those who start cold stand in every logging policy's place."""
    found: Gathered = defaultdict(lambda: {metric: [] for metric in METRICS})
    for unit, result in results:
        records = [*unit["learners"], *unit["outside"]]
        for record, values in zip(records, result["runs"], strict=True):
            who = Who(record["name"], record.get("tolerance"))
            for place in _places(setting, unit):
                for metric in METRICS:
                    found[place, who][metric].append(values[metric])
    return dict(found)


def _places(setting: Setting, unit: Record) -> list[Place]:
    if unit["kind"] == "classes":
        return [Place("classes", unit["data"])]
    supports = setting.supports if unit["support"] == "cold" else (unit["support"],)
    return [Place("world", support, unit["features"], unit["rows"]) for support in supports]
