"""Calls over the rounds with regret under them: the panels that Figs. 1 and 2 share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from research.paper.calls import RATIO, UNCLIPPED
from research.paper.experiment import Record
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Table = dict[str, list[Any]]

LOOKS: dict[tuple[str, str | None], tuple[str, str, Any]] = {
    ("moful", None): ("mOFUL", figures.COLOURS[0], "-"),
    ("eps_moful", None): ("ε-mOFUL", figures.COLOURS[1], (0, (5, 2))),
    ("eps_moful_ips", RATIO): ("ε-mOFUL-IPS, M = P90/P10", figures.COLOURS[2], "-"),
    ("eps_moful_ips", UNCLIPPED): ("ε-mOFUL-IPS, M = ∞", figures.COLOURS[4], "-."),
}
"""Name, colour and line of each algorithm, by algorithm and M."""

WIDE = 9.0
"""Inches into which the four names go side by side."""


def rows(table: Table, **where: Any) -> list[Record]:
    """The rows of a table that have these values."""
    listed = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    return [row for row in listed if all(row[name] == value for name, value in where.items())]


def grid(columns: int, *, height: float = 6.2, width: float = 3.6) -> "tuple[Figure, list[list[Axes]]]":
    """Two rows of axes: calls above, regret below."""
    figure, _ = figures.panels(1, width=width * columns, height=height)
    with figures.styled():
        figure.clear()
        axes = figure.subplots(2, columns, squeeze=False, sharex=True, sharey="row")
    return figure, [list(row) for row in axes]


def curves(upper: "Axes", lower: "Axes", table: list[Record]) -> None:
    """Mean calls and regret over the rounds, with 95 % bands over seeds."""
    for key, (name, colour, line) in LOOKS.items():
        points = [row for row in table if (row["algorithm"], row["clip"]) == key]
        if not points:
            continue
        at = [row["round"] for row in points]
        for axes, value in ((upper, "calls"), (lower, "regret")):
            axes.plot(at, [row[value] for row in points], color=colour, linestyle=line, label=name)
            low, high = ([row[f"{value}_{end}"] for row in points] for end in ("low", "high"))
            axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
    lower.set_xlabel("rounds")
    lower.set_xlim(left=0)
    for axis in (upper.yaxis, lower.yaxis, lower.xaxis):
        axis.set_major_formatter("{x:,.0f}")


def sweep(axes: "Axes", table: list[Record], value: str, along: str, ticks: Sequence[float]) -> None:
    """Final values along a setting, with bars for the 95 % intervals; the algorithms stand side by side."""
    for number, (key, (name, colour, line)) in enumerate(LOOKS.items()):
        points = [row for row in table if (row["algorithm"], row["clip"]) == key]
        if not points:
            continue
        points.sort(key=lambda row: row[along])
        x = np.array([row[along] for row in points], dtype=float) * (1 + 0.02 * (number - 1.5))
        y = np.array([row[value] for row in points], dtype=float)
        ends = [[row[f"{value}_{end}"] for row in points] for end in ("low", "high")]
        spread = np.abs(np.array(ends, dtype=float) - y)
        axes.errorbar(
            x, y, yerr=spread, color=colour, linestyle=line, marker="o", markersize=4, capsize=2, label=name
        )
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], rotation=60, fontsize=8)
    axes.minorticks_off()


def legend(figure: "Figure", axes: "Axes") -> None:
    """One legend above all panels, in two lines where the figure is narrow."""
    columns = 4 if figure.get_size_inches()[0] > WIDE else 2
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=columns)


def numbers(values: Sequence[float]) -> str:
    """Numbers with commas."""
    return ", ".join(f"{value:g}" for value in values)
