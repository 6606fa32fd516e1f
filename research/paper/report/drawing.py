"""What the figures share: how learners look, curves with bands, points with bars, and how they lie along an axis."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from research.learners import LEARNERS, SCALED
from research.paper.experiment import Record
from research.paper.frame import Frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

APART = 0.006
"""How far two learners' points stand from each other, so that their bars can be told apart."""

SHARES = "share of actions the log never tries"

LOGGING = {
    "per-context": "per-context logging: in each context other actions are never tried",
    "never-logged": "never-logged: the same actions are never tried anywhere",
    "region": "region: each action is never tried in a part of the contexts",
    "sharpened": "sharpened: the logger prefers what it thinks good and never plays what it thinks poor",
}
"""The logging policies in words."""


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


def barred(
    axes: "Axes", points: Frame, x: Any, name: str = "value", *, across: str = "", **style: Any
) -> None:
    """Points with bars for their 95 % intervals: upwards, and of the column `across` sidewards, too."""
    value, low, high = limits(points, name)
    x = np.asarray(x, dtype=float)
    _bars(axes, style["color"], (x, x), (low, high))
    if across:
        _, left, right = limits(points, across)
        _bars(axes, style["color"], (left, right), (value, value))
    axes.plot(x, value, **{"linewidth": 1.2, "markeredgewidth": 0.9} | style)


def _bars(axes: "Axes", colour: str, x: tuple[Any, Any], y: tuple[Any, Any]) -> None:
    """All bars of a learner as one broken line."""
    gap = np.full(len(x[0]), np.nan)
    ends = (np.column_stack([*both, gap]).ravel() for both in (x, y))
    axes.plot(*ends, color=colour, linewidth=0.9, alpha=0.7)


def dot(axes: "Axes", row: Record, name: str, y: float, *, of: float = 1.0, **style: Any) -> None:
    """A number and its interval on a line across; nothing where it is not known."""
    value, low, high = (each[0] / of for each in limits(Frame([row]), name))
    if not np.isnan(value):
        colour = style["color"]
        axes.plot([low, high], [y, y], color=colour, linewidth=style.pop("linewidth", 2), alpha=0.5)
        axes.plot(value, y, **{"marker": "o", "linestyle": "none", "markersize": 4, **style})


def along_shares(axes: "Axes", table: Iterable[Record], names: Sequence[str]) -> None:
    """These learners' values along n^UA, with bars for the 95 % intervals over seeds."""
    frame = Frame(table).among("algorithm", names)
    present = [name for name in names if len(frame.where(algorithm=name))]
    for number, name in enumerate(present):
        points = Frame(sorted(frame.where(algorithm=name), key=lambda row: row["unsupported"]))
        x = np.array(points["unsupported"]) + APART * (number - len(present) / 2)
        barred(axes, points, x, **look(name))
    levels = sorted(set(frame["unsupported"]))
    axes.set_xticks(levels, [f"{level:g}" for level in levels])


def at_scale(table: Frame, scale: float) -> Frame:
    """The rows of one radius scale, and those of learners that have none."""
    return table.only(lambda row: row["scale"] == scale or row["algorithm"] not in SCALED)


def numbers(values: Sequence[float]) -> str:
    """Numbers with commas."""
    return ", ".join(f"{value:g}" for value in values)


def guarantee(scale: float) -> str:
    """What a radius scale means for the guarantees."""
    return f"radius scale {scale:g} ({'as wide as theory asks' if scale >= 1 else 'no guarantee holds'})"
