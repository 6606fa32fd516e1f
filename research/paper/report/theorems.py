"""Figures of the theorems: regret and calls against their bounds, slopes, and what `log-beats` costs."""

from typing import TYPE_CHECKING, Any

from research.paper.experiment import Analysis
from research.paper.report import theorems_skips
from research.paper.report.captions import captioned
from research.paper.report.theorems_tables import (
    COLOUR,
    LABEL,
    Columns,
    banded,
    curve,
    of_cell,
    rows,
    settings_text,
)
from research.paper.theorems.setting import Setting
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(setting: Setting, analysis: Analysis) -> "dict[str, Figure]":
    """All figures, from the tables alone."""
    tables = analysis.tables
    return {
        "bounds": bounds(setting, tables["curves"]),
        "slopes": slopes(setting, tables["cells"]),
        "contrary": contrary(setting, tables["contrary"]),
        "skipped": theorems_skips.skipped(setting, tables["kinds"]),
        "log_beats": theorems_skips.log_beats(setting, tables),
    }


def bounds(setting: Setting, table: Columns) -> "Figure":
    """Regret under its bound for the three learners that have one, and the calls of all."""
    here = of_cell(table, setting.main)
    figure, axes = figures.panels(4, width=4.3)
    shown = (
        ("moful", "Theorem 1", ()),
        ("eps_moful", "corrected Theorem 2", (("printed", "Theorem 2 as printed", ":"),)),
        ("certified", "certified's bound", ()),
    )
    with figures.styled():
        for panel, (name, bound, more) in zip(axes, shown, strict=False):
            banded(panel, curve(here, "any", "worst"), "#cc79a7", "worst possible", style="-.")
            banded(panel, curve(here, name, "bound"), "black", bound, style="--")
            for quantity, label, style in more:
                banded(panel, curve(here, name, quantity), "#777777", label, style=style)
            banded(panel, curve(here, name, "regret"), COLOUR[name], "measured regret")
            _log_log(panel, "regret so far", f"{LABEL[name]}: regret")
        for name in ("moful", "eps_moful", "certified"):
            banded(axes[3], curve(here, name, "calls"), COLOUR[name], LABEL[name])
        banded(
            axes[3], curve(here, "certified", "call_bound"), "black", "certified's bound on calls", style="--"
        )
        _log_log(axes[3], "reward calls so far", "Calls")
    scale = setting.main.radius_scale
    return captioned(
        figure,
        f"Regret and calls against their bounds, {setting.main.label}; radius_scale {scale:g}: the guarantees "
        f"{'hold' if scale >= 1 else 'are void'}. Worst possible: the sum of each round's largest gap; a bound above it "
        f"says nothing. {settings_text(setting)}",
    )


def _log_log(axes: "Axes", label: str, title: str) -> None:
    axes.set(xscale="log", yscale="log", xlabel="round t", ylabel=label, title=title)
    axes.legend(loc="lower right", fontsize=8)
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, high / 1e6) / 2.5, high)


def slopes(setting: Setting, table: Columns) -> "Figure":
    """Slopes of regret, the share of rounds called, regret a round, and bound ÷ worst possible, by cell."""
    figure, axes = figures.panels(4, width=4.0, height=1.6 + 0.62 * len(setting.cells))
    shown = (
        ("slope", 1, "log-log slope of regret on [T/10, T]", "Slope (sublinear: below 1)"),
        ("calls", None, "reward calls ÷ T", "Calls"),
        ("regret", None, "regret ÷ T, log scale", "Regret a round"),
        ("vacuity", 1, "bound ÷ worst possible regret, log scale", "Bound (above 1: vacuous)"),
    )
    names = list(LABEL)
    with figures.styled():
        for panel, (quantity, mark, label, title) in zip(axes, shown, strict=True):
            for place, cell in enumerate(setting.cells):
                for row in rows(of_cell(table, cell)):
                    divisor = cell.rounds if quantity in ("calls", "regret") else 1
                    number = names.index(row["algorithm"])
                    _dot(panel, row, quantity, divisor, place + 0.15 * (number - 2), COLOUR[row["algorithm"]])
                if place % 2:
                    panel.axhspan(place - 0.5, place + 0.5, color="#f4f4f4", zorder=0)
            if mark is not None:
                panel.axvline(mark, color="black", linewidth=1, linestyle="--")
            panel.set(xlabel=label, title=title, ylim=(len(setting.cells) - 0.4, -0.6))
            panel.set_yticks(range(len(setting.cells)), [cell.label for cell in setting.cells])
            panel.tick_params(labelleft=panel is axes[0])
            panel.grid(visible=False, axis="y")
            if quantity in ("vacuity", "regret"):
                panel.set_xscale("log")
        axes[1].set_xlim(0, 1.05)
        handles = [
            axes[0].plot([], [], "o", color=COLOUR[name], label=label)[0] for name, label in LABEL.items()
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return captioned(
        figure,
        "How fast regret grows, what it costs in calls, and whether the bound says anything, in every cell "
        "(d, radius × radius_scale, T). At radius_scale below 1 no guarantee holds and the bounds, computed with the smaller "
        f"radius, are void. ε-mOFUL-IPS has no proved bound. {settings_text(setting)}",
    )


def _dot(axes: "Axes", row: dict[str, Any], quantity: str, divisor: float, y: float, colour: str) -> None:
    value, low, high = (row[name] for name in (quantity, f"{quantity}_low", f"{quantity}_high"))
    if value is None:
        return
    if low is not None and high is not None:
        axes.plot([low / divisor, high / divisor], [y, y], color=colour, linewidth=2, alpha=0.5)
    axes.plot(value / divisor, y, "o", color=colour, markersize=4)


def contrary(setting: Setting, table: Columns) -> "Figure":
    """The world that breaks the printed Theorem 2: regret beside calls."""
    figure, (left, right) = figures.panels(2)
    lines = {name: [row for row in rows(table) if row["quantity"] == name] for name in set(table["quantity"])}
    with figures.styled():
        banded(left, lines["bound"], "black", "corrected Theorem 2", style="--")
        banded(left, lines["printed"], "#777777", "Theorem 2 as printed", style=":")
        banded(left, lines["regret"], COLOUR["eps_moful"], "measured regret")
        banded(right, lines["calls"], COLOUR["eps_moful"], LABEL["eps_moful"])
        _log_log(left, "regret so far", "ε-mOFUL: regret")
        _log_log(right, "reward calls so far", "ε-mOFUL: calls")
    return captioned(
        figure,
        "A world built against Theorem 2 as printed: two actions, x = 1, means 1 and 0.82; the better one is supported (in L) "
        "with its point at 0.8 (ε = 0.2). The other's optimistic value always leads, every round is called and costs 0.18: "
        "linear regret, where the printed bound grows like sqrt(T' log T'). σ = 0.1, λ = 1, δ = 0.05, determinant × 1, "
        f"T = {setting.contrary_rounds:,}, {len(setting.seeds)} seeds.",
    )
