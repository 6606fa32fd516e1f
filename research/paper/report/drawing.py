"""What the figures share: panels, curves with bands, points with bars, one legend, and a caption."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from research.learners import LEARNERS, SCALED
from research.paper.experiment import Record
from research.paper.frame import Frame
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHARACTERS_PER_INCH = 14.5
"""How many letters of a caption go into an inch of width."""

APART = 0.006
"""How far two learners' points stand from each other, so that their bars can be told apart."""

SHARES = "$n^{UA}$, mean share of unsupported actions"


def captioned(figure: "Figure", text: str) -> "Figure":
    """Write a caption under a figure, wrapped to its width; pages read it again as the figure's label."""
    width = int(figure.get_size_inches()[0] * CHARACTERS_PER_INCH)
    lines = textwrap.wrap(text, width)
    with figures.styled():
        figure.set_size_inches(figure.get_size_inches()[0], figure.get_size_inches()[1] + 0.16 * len(lines))
        figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=8, color="#555555")
    figure.set_label(text)
    return figure


def grid(
    rows: int, columns: int, *, width: float = 4.0, height: float = 2.9, **sharing: Any
) -> "tuple[Figure, list[list[Axes]]]":
    """Rows of axes, each so large, drawn without a display."""
    figure, _ = figures.panels(1, width=width * columns, height=height * rows)
    with figures.styled():
        figure.clear()
        axes = figure.subplots(rows, columns, squeeze=False, **sharing)
    return figure, [list(row) for row in axes]


def look(name: str, size: float = 4.5) -> dict[str, Any]:
    """Colour, line, marker and label of a learner, the same in every figure; a hollow marker is a ring."""
    one = LEARNERS[name]
    larger = 1.8 if one.marker == "*" else 1.0 if one.filled else 1.4
    return {
        "color": one.colour,
        "linestyle": one.line,
        "marker": one.marker,
        "markerfacecolor": one.colour if one.filled else "none",
        "markersize": larger * size,
        "label": one.label,
    }


def line_of(name: str) -> dict[str, Any]:
    """A learner's look without its marker, for curves of many points."""
    return {key: value for key, value in look(name).items() if not key.startswith("marker")}


def limits(points: Frame, name: str = "value") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values and their 95 % limits; where a limit is not known, the value itself."""
    ends = ("value", "low", "high") if name == "value" else (name, f"{name}_low", f"{name}_high")
    value, low, high = (np.array(points[end], dtype=float) for end in ends)
    return value, np.where(np.isnan(low), value, low), np.where(np.isnan(high), value, high)


def banded(axes: "Axes", points: Frame, at: str, name: str = "value", **style: Any) -> None:
    """A curve along a column with its 95 % band."""
    value, low, high = limits(points, name)
    (drawn,) = axes.plot(points[at], value, **style)
    axes.fill_between(points[at], low, high, color=drawn.get_color(), alpha=0.15, linewidth=0)


def barred(axes: "Axes", points: Frame, x: Any, name: str = "value", **style: Any) -> None:
    """Points with bars for their 95 % intervals."""
    value, low, high = limits(points, name)
    style = {"linewidth": 1.2, "elinewidth": 0.8, "capsize": 1.5} | style
    axes.errorbar(x, value, yerr=[value - low, high - value], **style)


def dot(axes: "Axes", row: Record, name: str, y: float, *, of: float = 1.0, **style: Any) -> None:
    """A number and its interval on a line across; nothing where it is not known."""
    value, low, high = (each[0] / of for each in limits(Frame([row]), name))
    if not np.isnan(value):
        colour = style["color"]
        axes.plot([low, high], [y, y], color=colour, linewidth=style.pop("linewidth", 2), alpha=0.5)
        axes.plot(value, y, "o", **{"markersize": 4, **style})


def along_shares(axes: "Axes", table: Iterable[Record]) -> None:
    """Each learner's values along n^UA, with bars for the 95 % intervals over seeds."""
    frame = Frame(table)
    present = [name for name in LEARNERS if len(frame.where(algorithm=name))]
    for number, name in enumerate(present):
        points = Frame(sorted(frame.where(algorithm=name), key=lambda row: row["unsupported"]))
        x = np.array(points["unsupported"]) + APART * (number - len(present) / 2)
        barred(axes, points, x, **look(name))
    levels = sorted(set(frame["unsupported"]))
    axes.set_xticks(levels, [f"{level:g}" for level in levels])


def at_scale(table: Frame, scale: float) -> Frame:
    """The rows of one radius scale, and those of learners that have none."""
    return table.only(lambda row: row["scale"] == scale or row["algorithm"] not in SCALED)


def legend(figure: "Figure", axes: "Iterable[Axes]", **placing: Any) -> None:
    """One legend of all panels, above them unless placed elsewhere."""
    found: dict[str, Any] = {}
    for one in axes:
        handles, names = one.get_legend_handles_labels()
        found |= dict(zip(names, handles, strict=True))
    figure.legend(
        list(found.values()), list(found), **{"loc": "outside upper center", "fontsize": 9, **placing}
    )


def numbers(values: Sequence[float]) -> str:
    """Numbers with commas."""
    return ", ".join(f"{value:g}" for value in values)
