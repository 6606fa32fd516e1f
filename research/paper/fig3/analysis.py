"""Put the runs of Fig. 3 together: means over seeds, paired differences, verdicts."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from research.paper.experiment import Analysis, Record
from research.paper.fig3.cells import Cells
from research.paper.fig3.claims import judge
from research.paper.fig3.setting import MAIN, Setting
from research.paper.lineup import OFFLINE, SHOWN


def analyse(setting: Setting, results: Sequence[tuple[Record, Record]]) -> Analysis:
    """Means and differences by n^UA and radius scale, and what becomes of C4."""
    cells = Cells(results)
    numbers = {
        "best": sum(result["best"] for _, result in results) / len(results),
        "short_of_budget": _short(setting, cells),
    }
    tables = {"summary": cells.summary(), "differences": _differences(setting, cells), "runs": cells.rows()}
    return Analysis(numbers, tables, judge(setting, cells))


def _differences(setting: Setting, cells: Cells) -> dict[str, list[Any]]:
    """Reward of every other algorithm less that of mOFUL, paired by seed; a row each."""
    names = ("variant", "scale", "algorithm", "unsupported", "value", "low", "high")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    places = [(MAIN, at) for at in setting.unsupported]
    places += [(variant, at) for variant in setting.variants for at in setting.variant_unsupported]
    for scale, (variant, at), name in product(setting.radius_scales, places, SHOWN):
        if name != "moful" and len(cells.at(name, scale, at, variant=variant)):
            gap = cells.gap(name, "moful", scale, at, variant=variant)
            row = (variant, scale, name, at, gap.value, gap.low, gap.high)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    return columns


def _short(setting: Setting, cells: Cells) -> list[Record]:
    """Where the calls of the budget did not come within the longest run, and how many came."""
    found = []
    for (variant, scale, algorithm, share), metrics in cells.values.items():
        short = [calls for calls in metrics["calls"] if calls < setting.budget]
        if short and variant == MAIN and algorithm not in OFFLINE:
            found.append(
                {
                    "algorithm": algorithm,
                    "radius_scale": scale,
                    "unsupported": share,
                    "seeds": len(short),
                    "fewest_calls": min(short),
                }
            )
    return found
