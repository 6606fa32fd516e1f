"""What the figures of the theorems share: the cells' rows, curves and settings."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from research.learners import LEARNERS
from research.paper.frame import Frame
from research.paper.report import drawing
from research.paper.report.drawing import line_of
from research.paper.theorems.setting import Cell, Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

USUAL = f"T = {Cell.rounds:,} rounds unless named"


def short(cell: Cell, *, scaled: bool = False) -> str:
    """A cell by d, radius and, if asked for, its scale; by T where that is not the usual one."""
    scale = f" × {cell.radius_scale:g}" if scaled else ""
    return f"d={cell.features} {cell.radius}{scale}" + (
        "" if cell.rounds == Cell.rounds else f", T={cell.rounds:,}"
    )


def settings_text(setting: Setting) -> str:
    """What every figure of this experiment shares, in words."""
    return (
        f"{setting.support} logging with n^UA = {setting.unsupported:g}, stream in-log, n = T logged rows; prior: L = "
        f"{setting.supported} known actions with θ̂ ~ N(θ*, {setting.epsilon:g}²I); calls have no price, certified's tolerance is "
        f"{setting.tolerance:g}. Means and 95 % intervals over {len(setting.seeds)} seeds. K = {setting.actions}, σ = "
        f"{setting.noise:g}, λ = {setting.ridge:g}, δ = {setting.delta:g}; noise and bounds given truthfully."
    )


def of_cell(table: Frame, cell: Cell) -> Frame:
    """The rows of one cell."""
    return table.where(**asdict(cell))


def curve(axes: "Axes", table: Frame, name: str, quantity: str, **style: Any) -> None:
    """One learner's curve with its band, in the learner's look unless told otherwise."""
    chosen = {**line_of(name), "linestyle": "-", "linewidth": 1.8, **style} if name in LEARNERS else style
    drawing.banded(axes, table.where(algorithm=name, quantity=quantity), "t", **chosen)
