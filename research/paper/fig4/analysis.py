"""Put the runs of Fig. 4 together: means over seeds, paired differences, verdicts."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from research.paper.experiment import Analysis, Record
from research.paper.fig4.cells import WHERE, Cells, kind, places
from research.paper.fig4.claims import MEASURES, judge
from research.paper.fig4.setting import Setting
from research.paper.lineup import SHOWN


def analyse(setting: Setting, results: Sequence[tuple[Record, Record]]) -> Analysis:
    """Means and differences by data set, reward, stream, radius scale and n^UA, and what becomes of C5."""
    cells = Cells(results)
    logs = {
        f"{unit['dataset']}, {kind(unit['noisy'])}": {
            "rows": result["log_rows"],
            "features": result["features"],
        }
        for unit, result in results
    }
    tables = {"summary": cells.summary(), "differences": _differences(setting, cells), "runs": cells.rows()}
    return Analysis({"logs": logs}, tables, judge(setting, cells))


def _differences(setting: Setting, cells: Cells) -> dict[str, list[Any]]:
    """Errors of every other algorithm less those of mOFUL, paired by seed; a row each."""
    columns: dict[str, list[Any]] = {
        name: [] for name in (*WHERE, "algorithm", "metric", "value", "low", "high")
    }
    for place, metric, name in product(places(setting), MEASURES, SHOWN):
        if name != "moful" and cells.has(name, place):
            gap = cells.gap(name, "moful", place, metric)
            row = (*vars(place).values(), name, metric, gap.value, gap.low, gap.high)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    return columns
