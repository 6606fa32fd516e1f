"""Reading the theorems' tables, and how their curves look."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from research.paper.theorems.setting import Cell, Setting
from sparing.report.figures import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Columns = dict[str, list[Any]]
Row = dict[str, Any]

LABEL = {
    "moful": "mOFUL",
    "eps_moful": "ε-mOFUL",
    "eps_moful_ips": "ε-mOFUL-IPS, M = P90/P10",
    "eps_moful_ips_inf": "ε-mOFUL-IPS, M = inf",
    "certified": "certified (ours)",
}
COLOUR = dict(zip(LABEL, COLOURS[:5], strict=True))


def rows(table: Columns) -> list[Row]:
    """A table as rows."""
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]


def of_cell(table: Columns, cell: Cell) -> Columns:
    """The rows of one cell."""
    wanted = asdict(cell)
    keep = [
        place
        for place in range(len(table["features"]))
        if all(table[name][place] == value for name, value in wanted.items())
    ]
    return {name: [column[place] for place in keep] for name, column in table.items()}


def curve(table: Columns, algorithm: str, quantity: str) -> list[Row]:
    """One curve, point by point."""
    return [row for row in rows(table) if row["algorithm"] == algorithm and row["quantity"] == quantity]


def banded(axes: "Axes", points: Sequence[Row], colour: str, label: str, *, style: str = "-") -> None:
    """A mean with its 95 % band."""
    t, value, low, high = ([row[name] for row in points] for name in ("t", "value", "low", "high"))
    axes.plot(t, value, style, color=colour, label=label, linewidth=1.8)
    axes.fill_between(t, low, high, color=colour, alpha=0.2, linewidth=0)


def settings_text(setting: Setting) -> str:
    """What every figure of this experiment shares, in words."""
    return (
        f"Means and 95 % intervals over {len(setting.seeds)} seeds. K = {setting.actions}, σ = {setting.noise:g}, "
        f"λ = {setting.ridge:g}, δ = {setting.delta:g}, n = T logged rows, stream in-log, {setting.support} logging with "
        f"n^UA = {setting.unsupported:g}, L = {setting.supported} with θ̂ ~ N(θ*, {setting.epsilon:g}²I), "
        f"certified τ = {setting.tolerance:g}; noise and bounds given truthfully."
    )
