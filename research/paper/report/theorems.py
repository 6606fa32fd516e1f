"""Figures of the theorems: regret and calls against their bounds, slopes, and the world against Theorem 2."""

from typing import TYPE_CHECKING

from research.learners import LEARNERS, label
from research.paper.experiment import Analysis
from research.paper.frame import Frame
from research.paper.report import drawing, log_beats
from research.paper.report.cells import USUAL, curve, of_cell, settings_text, short
from research.paper.report.drawing import line_of
from research.paper.report.plate import Plate, panel, plate
from research.paper.theorems.runs import ALGORITHMS
from research.paper.theorems.setting import Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BOUND = {"color": "black", "linestyle": "--"}
PRINTED = {"color": "#777777", "linestyle": ":", "label": "Theorem 2 as printed"}
BOUNDED = {"moful": "Theorem 1", "eps_moful": "corrected Theorem 2", "certified": "certified's bound"}


def draw(setting: Setting, analysis: Analysis) -> dict[str, Plate]:
    """All figures, from the tables alone."""
    tables = {name: Frame.of(table) for name, table in analysis.tables.items()}
    drawn = {
        "bounds": bounds(setting, tables["curves"]),
        "contrary": contrary(setting, tables["contrary"]),
        "knowing": log_beats.knowing(setting, tables["knowing"]),
        "given": log_beats.given(setting, tables["given"]),
        "skipped": log_beats.skipped(setting, tables["kinds"]),
        "curse": log_beats.curse(setting, tables["cells"]),
    }
    scales = sorted({cell.radius_scale for cell in setting.cells}, reverse=True)
    return drawn | {f"slopes_scale_{scale:g}": slopes(setting, tables["cells"], scale) for scale in scales}


def bounds(setting: Setting, table: Frame) -> Plate:
    """Regret under its bound for the three learners that have one, and the calls of all."""
    here, panels = of_cell(table, setting.main), []
    for name, bound in BOUNDED.items():
        axes = panel(f"{label(name)}: {bound}", across="round", up="regret so far")
        curve(axes, here, "any", "worst", color="#cc79a7", linestyle="-.", label="worst possible")
        curve(axes, here, name, "bound", **BOUND, label="its bound")
        if name == "eps_moful":
            curve(axes, here, name, "printed", **PRINTED)
        curve(axes, here, name, "regret")
        _log_log(axes)
        panels.append(axes)
    calls = panel("Calls: certified's bound", across="round", up="reward calls so far")
    for name in BOUNDED:
        curve(calls, here, name, "calls")
    curve(calls, here, "certified", "call_bound", **BOUND, label="_certified's bound")
    _log_log(calls)
    scale = setting.main.radius_scale
    return plate(
        "Does the regret stay below its bound, and does the bound say anything?",
        [*panels, calls],
        see="Both axes logarithmic. Across: rounds. Up: regret (or calls) so far, coloured; its bound, dashed. A bound above "
        "the worst possible (the sum of each round's largest gap) guarantees nothing.",
        regime=f"{setting.main.label}; radius_scale {scale:g}: the guarantees {'hold' if scale >= 1 else 'are void'}; "
        f"{settings_text(setting)}",
        columns=4,
    )


def _log_log(axes: "Axes") -> None:
    axes.set(xscale="log", yscale="log")
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, high / 1e6) / 2.5, high)


def slopes(setting: Setting, table: Frame, scale: float) -> Plate:
    """Slopes of regret, the share of rounds called, regret a round, and bound ÷ worst possible, by cell."""
    shown = (
        ("slope", 1, "log-log slope of regret on [T/10, T]", "Slope (sublinear: below 1)"),
        ("calls", None, "reward calls ÷ T", "Calls"),
        ("regret", None, "regret ÷ T, log scale", "Regret a round"),
        ("vacuity", 1, "bound ÷ worst possible, log scale", "Bound (above 1: says nothing)"),
    )
    cells = [cell for cell in setting.cells if cell.radius_scale == scale]
    panels = []
    for quantity, mark, unit, title in shown:
        axes = panel(title, across=unit, up="", height=1.0 + 0.32 * len(cells))
        for place, cell in enumerate(cells):
            for row in of_cell(table, cell):
                divisor = cell.rounds if quantity in ("calls", "regret") else 1
                y = place + 0.15 * (ALGORITHMS.index(row["algorithm"]) - 2)
                one = LEARNERS[row["algorithm"]]
                named = {"label": one.label} if place == 0 else {}
                drawing.dot(axes, row, quantity, y, of=divisor, color=one.colour, **named)
            if place % 2:
                axes.axhspan(place - 0.5, place + 0.5, color="#f4f4f4", zorder=0)
        if mark is not None:
            axes.axvline(mark, color="black", linewidth=1, linestyle="--")
        axes.set_ylim(len(cells) - 0.4, -0.6)
        axes.set_yticks(range(len(cells)), [short(cell) for cell in cells])
        axes.grid(visible=False, axis="y")
        if quantity in ("vacuity", "regret"):
            axes.set_xscale("log")
        if quantity == "calls":
            axes.set_xlim(0, 1.05)
        panels.append(axes)
    return plate(
        f"How fast regret grows, what it costs in calls, and what the bound says, at {drawing.guarantee(scale)}",
        panels,
        see=f"A row for each number of features d and radius ({USUAL}); dots are means, bars 95 % intervals. Left of the "
        "dashed line the regret grows slower than the rounds (first panel), and the bound is below the worst possible (last).",
        regime=f"radius_scale {scale:g}{'' if scale >= 1 else ': the bounds, computed with the smaller radius, are void'}; "
        f"ε-mOFUL-IPS has no proved bound; {settings_text(setting)}",
        folded=True,
        columns=4,
    )


def contrary(setting: Setting, table: Frame) -> Plate:
    """The world that breaks the printed Theorem 2: regret beside calls."""
    left = panel("ε-mOFUL: regret", across="round", up="regret so far")
    right = panel("ε-mOFUL: calls", across="round", up="reward calls so far")
    informed = {**line_of("eps_moful"), "linestyle": "-", "label": "measured"}
    for axes, quantity, style in (
        (left, "bound", {**BOUND, "label": "corrected Theorem 2"}),
        (left, "printed", PRINTED),
        (left, "regret", informed),
        (right, "calls", informed),
    ):
        drawing.banded(axes, table.where(quantity=quantity), "t", **{"linewidth": 1.8, **style})
    for axes in (left, right):
        _log_log(axes)
    return plate(
        "A world built against Theorem 2 as printed",
        (left, right),
        see="Both axes logarithmic. Across: rounds. Up: regret so far (left) and calls (right). Where the blue line stands above "
        "the dotted one, the printed bound is broken.",
        regime="two actions, x = 1, means 1 and 0.82; the better one is supported (in L) with its point at 0.8 (ε = 0.2). The other's "
        "optimistic value always leads, every round is called and costs 0.18: linear regret, where the printed bound grows like "
        "sqrt(T' log T'). σ = 0.1, λ = 1, δ = 0.05, determinant radius, radius_scale 1; a log of 20 rows that tries both; calls have no price; "
        f"T = {setting.contrary_rounds:,}, {len(setting.seeds)} seeds.",
    )
