"""The figure of Table 1: the counts beside the printed ones."""

from typing import TYPE_CHECKING

from research.paper.experiment import Analysis
from research.paper.frame import Frame
from research.paper.report.drawing import captioned
from research.paper.table1 import Setting
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADER = ("data set", "rows", "printed", "classes", "printed", "features", "rows a class", "agrees")


def draw(setting: Setting, analysis: Analysis) -> "dict[str, Figure]":
    """The table, drawn."""
    counted = Frame.of(analysis.tables["table1"])
    cells = [
        [
            row["dataset"],
            f"{row['rows']:,}",
            f"{row['printed_rows']:,}",
            str(row["classes"]),
            str(row["printed_classes"]),
            str(row["features"]),
            f"{row['smallest_class']:,} to {row['largest_class']:,}",
            "yes" if row["agrees"] else "NO",
        ]
        for row in counted
    ]
    figure, (axes,) = figures.panels(1, width=8.0, height=1.6)
    with figures.styled():
        axes.set_axis_off()
        drawn = axes.table(cells, colLabels=HEADER, loc="center", cellLoc="right", edges="horizontal")
        drawn.scale(1, 1.5)
        drawn.auto_set_font_size(False)
        drawn.auto_set_column_width(list(range(len(HEADER))))
    sources = ", ".join(dict.fromkeys(counted["source"]))
    return {
        "table1": captioned(
            figure, f"Rows and classes counted in the data ({sources}) beside those that the paper prints."
        )
    }
