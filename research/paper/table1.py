"""Table 1: the data sets of the classification experiments, counted and held against what is printed."""

from dataclasses import dataclass

import numpy as np

from research.paper.experiment import FAILS, HOLDS, Analysis, Experiment, Pairs, Record, Verdict
from research.paper.frame import Frame
from sparing.simulation import datasets


@dataclass(frozen=True)
class Printed:
    """A column of the paper's table."""

    dataset: str
    classes: int
    rows: int


@dataclass(frozen=True)
class Setting:
    """The columns of the paper's table. Nothing in it is random, so there are no seeds."""

    seeds: tuple[int, ...] = ()
    printed: tuple[Printed, ...] = (
        Printed("letter", classes=26, rows=20_000),
        Printed("pendigits", classes=10, rows=10_992),
        Printed("satimage", classes=6, rows=6_435),
    )


FULL = QUICK = Setting()


def units(setting: Setting) -> list[Record]:
    """One unit a data set."""
    return [{"dataset": column.dataset} for column in setting.printed]


def run(unit: Record) -> Record:
    """What the data themselves say."""
    data = datasets.load(str(unit["dataset"]))
    sizes = np.bincount(data.labels, minlength=len(data.classes))
    return {
        "rows": len(data.features),
        "features": int(data.features.shape[1]),
        "classes": len(np.unique(data.labels)),
        "smallest_class": int(sizes.min()),
        "largest_class": int(sizes.max()),
        "source": data.source,
    }


def analyse(setting: Setting, results: Pairs) -> Analysis:
    """The table with both counts, and whether they agree."""
    rows = []
    for column, (_, found) in zip(setting.printed, results, strict=True):
        counted = {name: value for name, value in found.items() if name != "source"}
        printed = {"printed_rows": column.rows, "printed_classes": column.classes}
        agrees = (found["rows"], found["classes"]) == (column.rows, column.classes)
        more = {"agrees": agrees, "source": found["source"]}
        rows.append({"dataset": column.dataset, **counted, **printed, **more})
    numbers = {"datasets": {unit["dataset"]: result for unit, result in results}}
    return Analysis(numbers, {"table1": Frame(rows).columns()}, (_verdict(rows),))


def _verdict(rows: list[Record]) -> Verdict:
    measured = "; ".join(
        f"{row['dataset']} {row['rows']:,} rows, {row['classes']} classes, {row['features']} features"
        for row in rows
    )
    says = "; ".join(
        f"{row['dataset']} {row['printed_rows']:,} rows, {row['printed_classes']} classes" for row in rows
    )
    different = [row["dataset"] for row in rows if not row["agrees"]]
    when = f"different: {', '.join(different)}" if different else "all as printed; features are not printed"
    return Verdict("T1", "Table 1", says, measured, FAILS if different else HOLDS, when)


EXPERIMENT = Experiment(
    name="table1",
    title="Sizes of the data sets, counted and printed",
    quick=QUICK,
    full=FULL,
    units=units,
    run=run,
    analyse=analyse,
)
