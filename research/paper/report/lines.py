"""Values along the share of unsupported actions: the panels that Figs. 3 and 4 share."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from research.paper.experiment import Record
from research.paper.lineup import SHOWN
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHED, DOTTED = (0, (5, 2)), (0, (1, 1.5))
LOOKS: dict[str, tuple[str, Any, str]] = {
    "opr": (figures.COLOURS[5], "-", "v"),
    "opr-dlm": (figures.COLOURS[5], DOTTED, "^"),
    "moful": (figures.COLOURS[0], "-", "o"),
    "eps_moful": (figures.COLOURS[1], DASHED, "s"),
    "eps_moful_ips": (figures.COLOURS[2], "-", "D"),
    "eps_moful_ips_inf": (figures.COLOURS[4], "-.", "d"),
    "greedy": (figures.COLOURS[7], DOTTED, "x"),
    "warm_started": (figures.COLOURS[3], DASHED, "P"),
    "certified": (figures.COLOURS[6], "-", "*"),
    "confident": ("#332288", "-.", "h"),
}
"""Colour, line and marker of each algorithm."""

APART = 0.006
"""How far two algorithms' points stand from each other, so that their bars can be told apart."""

SHARES = "$n^{UA}$, mean share of unsupported actions"


def grid(
    rows: int, columns: int, *, width: float = 4.0, height: float = 2.9
) -> "tuple[Figure, list[list[Axes]]]":
    """Rows of axes, drawn without a display."""
    figure, _ = figures.panels(1, width=width * columns, height=height * rows)
    with figures.styled():
        figure.clear()
        axes = figure.subplots(rows, columns, squeeze=False)
    return figure, [list(row) for row in axes]


def lines(axes: "Axes", table: Iterable[Record]) -> None:
    """Each algorithm's values along n^UA, with bars for the 95 % intervals over seeds."""
    rows = list(table)
    for number, (name, (colour, line, marker)) in enumerate(LOOKS.items()):
        points = sorted((row for row in rows if row["algorithm"] == name), key=lambda row: row["unsupported"])
        if not points:
            continue
        x = np.array([row["unsupported"] for row in points]) + APART * (number - len(LOOKS) / 2)
        y = np.array([row["value"] for row in points], dtype=float)
        ends = np.array([[row[end] for row in points] for end in ("low", "high")], dtype=float)
        axes.errorbar(
            x,
            y,
            yerr=np.abs(np.nan_to_num(ends - y)),
            color=colour,
            linestyle=line,
            marker=marker,
            markersize=4,
            linewidth=1.2,
            elinewidth=0.8,
            capsize=1.5,
            label=SHOWN[name],
        )
    levels = sorted({row["unsupported"] for row in rows})
    axes.set_xticks(levels, [f"{level:g}" for level in levels])


def legend(figure: "Figure", axes: "Axes") -> None:
    """One legend above all panels."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=5, fontsize=9)
