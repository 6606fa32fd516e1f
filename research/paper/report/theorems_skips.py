"""Figures of ε-mOFUL-IPS: what its skipped rounds cost, and why."""

from typing import TYPE_CHECKING

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
from research.paper.theorems.runs import CLIPS
from research.paper.theorems.setting import Cell, Setting
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = {
    "log-beats": ("log-beats", "#d55e00"),
    "supported": ("supported", "#009e73"),
    "explore": ("called", "#7f7f7f"),
}


def skipped(setting: Setting, table: Columns) -> "Figure":
    """Cumulative regret and rounds by what decided the round, for both M and each radius_scale."""
    cells = _alike(setting)
    figure, _ = figures.panels(1, width=4.0 * len(cells) * len(CLIPS), height=6.8)
    with figures.styled():
        figure.clear()
        grid = figure.subplots(2, len(cells) * len(CLIPS), sharex="col", squeeze=False)
        places = [(cell, name) for cell in cells for name in CLIPS]
        for column, (cell, name) in enumerate(places):
            here = [row for row in rows(of_cell(table, cell)) if row["algorithm"] == name]
            for line, quantity in enumerate(("regret", "rounds")):
                for kind, (label, colour) in KINDS.items():
                    points = [row for row in here if row["kind"] == kind and row["quantity"] == quantity]
                    banded(grid[line, column], points, colour, label)
                grid[line, column].set_ylim(bottom=0)
            grid[0, column].set_title(f"{LABEL[name].split(', ')[1]}, radius_scale {cell.radius_scale:g}")
            grid[1, column].set_xlabel("round t")
        grid[0, 0].set_ylabel("regret so far, by kind of round")
        grid[1, 0].set_ylabel("rounds so far (called = reward calls)")
        grid[0, 0].legend(loc="upper left")
    return captioned(
        figure,
        f"ε-mOFUL-IPS: what rounds skipped by log-beats, rounds skipped as supported, and called rounds have cost, and "
        f"how many there were; d = {cells[0].features}, radius {cells[0].radius}, T = {cells[0].rounds:,}. A radius_scale below 1 "
        f"voids every guarantee. {settings_text(setting)}",
    )


def _alike(setting: Setting) -> list[Cell]:
    """The main cell and the cells that differ from it in radius_scale alone."""
    main = setting.main
    return [
        cell
        for cell in setting.cells
        if (cell.features, cell.radius, cell.rounds) == (main.features, main.radius, main.rounds)
    ]


def log_beats(setting: Setting, tables: dict[str, Columns]) -> "Figure":
    """The winner's curse; what `log-beats` costs a learner that knows all; the same run with 𝓛 = all actions."""
    figure, axes = figures.panels(4, width=4.4, height=max(4.2, 1.4 + 0.3 * len(setting.cells)))
    with figures.styled():
        _curse(axes[0], setting, tables["cells"], "eps_moful_ips")
        _curse(axes[1], setting, tables["cells"], "eps_moful_ips_inf")
        axes[1].tick_params(labelleft=False)
        _knowing(axes[2], tables["knowing"])
        for name in ("eps_moful", *CLIPS):
            banded(axes[3], curve(tables["given"], name, "regret"), COLOUR[name], LABEL[name])
        axes[3].set(xlabel="round t", ylabel="regret so far", title="All actions supported (0 calls)")
        axes[3].set_ylim(bottom=0)
        axes[3].legend(loc="upper left", fontsize=8)
    return captioned(
        figure,
        "Left two: threshold − true expected reward of the log's answer, mean over the rounds that log-beats skipped and "
        "over all rounds, in every cell (d, radius × radius_scale, T). Third: regret a round by log-beats when every θ* is "
        f"known, on {setting.knowing_rows:,} logged rows, both M; no sets are left to close, so this is linear regret. "
        f"Right: the algorithm itself with every action supported (L = K), T = {setting.given_rounds:,}, d = {setting.main.features}, "
        f"no reward call by any of the three. {settings_text(setting)}",
    )


def _curse(axes: "Axes", setting: Setting, table: Columns, name: str) -> None:
    shown = (("selected", COLOUR[name], "rounds skipped by log-beats"), ("unselected", "black", "all rounds"))
    for place, cell in enumerate(setting.cells):
        row = next(row for row in rows(of_cell(table, cell)) if row["algorithm"] == name)
        for quantity, colour, label in shown:
            value, low, high = (row[key] for key in (quantity, f"{quantity}_low", f"{quantity}_high"))
            if value is None:
                continue
            if low is not None:
                axes.plot([low, high], [place, place], color=colour, linewidth=2.5, alpha=0.5)
            axes.plot(value, place, "o", color=colour, markersize=5, label=label if place == 0 else None)
    axes.axvline(0, color="black", linewidth=1, linestyle="--")
    axes.set_yticks(range(len(setting.cells)), [cell.label for cell in setting.cells])
    axes.set(
        ylim=(len(setting.cells) - 0.4, -0.9 - 0.06 * len(setting.cells)),
        xlabel="threshold − true reward of the answer",
        title=f"Winner's curse, {LABEL[name].split(', ')[1]}",
    )
    axes.legend(loc="upper center", ncols=2, fontsize=8, handletextpad=0, columnspacing=1)


def _knowing(axes: "Axes", table: Columns) -> None:
    found = rows(table)
    features = sorted(set(table["features"]))
    for name in CLIPS:
        for d, style in zip(features, ("-", "--", ":", "-."), strict=False):
            here = [row for row in found if row["algorithm"] == name and row["features"] == d]
            label = f"{LABEL[name].split(', ')[1]}, d = {d}"
            noise, rate = [row["noise"] for row in here], [row["rate"] for row in here]
            axes.plot(noise, rate, style, color=COLOUR[name], marker="o", markersize=4, label=label)
            low, high = (
                [row["rate"] if row[key] is None else row[key] for row in here]
                for key in ("rate_low", "rate_high")
            )
            axes.fill_between(noise, low, high, color=COLOUR[name], alpha=0.12, linewidth=0)
    axes.set(
        xlabel="noise σ of the logged rewards", ylabel="regret a round", title="log-beats with every θ* known"
    )
    axes.legend(loc="upper left", fontsize=8)
    axes.set_ylim(0, 1.45 * axes.get_ylim()[1])
