"""Count rows, features and classes of the data sets, and hold them against what is printed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from research.paper.experiment import FAILS, HOLDS, Analysis, Record, Verdict
from research.paper.table1.setting import Setting
from sparing.simulation import datasets

COUNTED = ("rows", "features", "classes", "smallest_class", "largest_class")


def run(unit: Record) -> Record:
    """What the data themselves say."""
    data = datasets.load(unit["dataset"])
    sizes = np.bincount(data.labels, minlength=len(data.classes))
    return {
        "rows": len(data.features),
        "features": int(data.features.shape[1]),
        "classes": len(np.unique(data.labels)),
        "smallest_class": int(sizes.min()),
        "largest_class": int(sizes.max()),
        "source": data.source,
    }


def analyse(setting: Setting, results: Sequence[tuple[Record, Record]]) -> Analysis:
    """The table with both counts, and whether they agree."""
    names = ("dataset", *COUNTED, "printed_rows", "printed_classes", "agrees", "source")
    table: dict[str, list[Any]] = {name: [] for name in names}
    for column, (_, found) in zip(setting.printed, results, strict=True):
        agrees = (found["rows"], found["classes"]) == (column.rows, column.classes)
        counted = [found[name] for name in COUNTED]
        row = (column.dataset, *counted, column.rows, column.classes, agrees, found["source"])
        for cells, value in zip(table.values(), row, strict=True):
            cells.append(value)
    found_by_name = {unit["dataset"]: result for unit, result in results}
    return Analysis({"datasets": found_by_name}, {"table1": table}, (_verdict(table),))


def _verdict(table: dict[str, list[Any]]) -> Verdict:
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
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
