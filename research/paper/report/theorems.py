"""Figures of the theorems: regret and calls against their bounds, slopes, and what `log-beats` costs and why."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from research.learners import LEARNERS, LIMIT, M_NAMES, label
from research.paper.experiment import Analysis
from research.paper.frame import Frame
from research.paper.report import drawing
from research.paper.report.drawing import captioned, line_of
from research.paper.theorems.runs import ALGORITHMS, CLIPS, GIVEN
from research.paper.theorems.setting import Cell, Setting
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BOUND = {"color": "black", "linestyle": "--"}
PRINTED = {"color": "#777777", "linestyle": ":", "label": "Theorem 2 as printed"}
KINDS = {
    "log-beats": {"label": "log-beats", "color": "#d55e00"},
    "supported": {"label": "supported", "color": "#009e73"},
    "explore": {"label": "called", "color": "#7f7f7f"},
}
"""How rounds are shown by what decided them."""


def draw(setting: Setting, analysis: Analysis) -> "dict[str, Figure]":
    """All figures, from the tables alone."""
    tables = {name: Frame.of(table) for name, table in analysis.tables.items()}
    return {
        "bounds": bounds(setting, tables["curves"]),
        "slopes": slopes(setting, tables["cells"]),
        "contrary": contrary(setting, tables["contrary"]),
        "skipped": skipped(setting, tables["kinds"]),
        "log_beats": log_beats(setting, tables),
    }


def _settings_text(setting: Setting) -> str:
    """What every figure of this experiment shares, in words."""
    return (
        f"Means and 95 % intervals over {len(setting.seeds)} seeds. K = {setting.actions}, σ = {setting.noise:g}, "
        f"λ = {setting.ridge:g}, δ = {setting.delta:g}, n = T logged rows, stream in-log, {setting.support} logging with "
        f"n^UA = {setting.unsupported:g}, L = {setting.supported} with θ̂ ~ N(θ*, {setting.epsilon:g}²I), "
        f"certified τ = {setting.tolerance:g}; noise and bounds given truthfully."
    )


def _of(table: Frame, cell: Cell) -> Frame:
    """The rows of one cell."""
    return table.where(**asdict(cell))


def _curve(axes: "Axes", table: Frame, name: str, quantity: str, **style: Any) -> None:
    """One learner's curve with its band, in the learner's look unless told otherwise."""
    chosen = {**line_of(name), "linestyle": "-", "linewidth": 1.8, **style} if name in LEARNERS else style
    drawing.banded(axes, table.where(algorithm=name, quantity=quantity), "t", **chosen)


def bounds(setting: Setting, table: Frame) -> "Figure":
    """Regret under its bound for the three learners that have one, and the calls of all."""
    here = _of(table, setting.main)
    figure, axes = figures.panels(4, width=4.3)
    shown = {"moful": "Theorem 1", "eps_moful": "corrected Theorem 2", "certified": "certified's bound"}
    with figures.styled():
        for panel, (name, bound) in zip(axes, shown.items(), strict=False):
            _curve(panel, here, "any", "worst", color="#cc79a7", linestyle="-.", label="worst possible")
            _curve(panel, here, name, "bound", **BOUND, label=bound)
            if name == "eps_moful":
                _curve(panel, here, name, "printed", **PRINTED)
            _curve(panel, here, name, "regret", label="measured regret")
            _log_log(panel, "regret so far", f"{label(name)}: regret")
        for name in shown:
            _curve(axes[3], here, name, "calls")
        _curve(axes[3], here, "certified", "call_bound", **BOUND, label="certified's bound on calls")
        _log_log(axes[3], "reward calls so far", "Calls")
    scale = setting.main.radius_scale
    return captioned(
        figure,
        f"Regret and calls against their bounds, {setting.main.label}; radius_scale {scale:g}: the guarantees "
        f"{'hold' if scale >= 1 else 'are void'}. Worst possible: the sum of each round's largest gap; a bound above it "
        f"says nothing. {_settings_text(setting)}",
    )


def _log_log(axes: "Axes", label: str, title: str) -> None:
    axes.set(xscale="log", yscale="log", xlabel="round t", ylabel=label, title=title)
    axes.legend(loc="lower right", fontsize=8)
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, high / 1e6) / 2.5, high)


def slopes(setting: Setting, table: Frame) -> "Figure":
    """Slopes of regret, the share of rounds called, regret a round, and bound ÷ worst possible, by cell."""
    figure, axes = figures.panels(4, width=4.0, height=1.6 + 0.62 * len(setting.cells))
    shown = (
        ("slope", 1, "log-log slope of regret on [T/10, T]", "Slope (sublinear: below 1)"),
        ("calls", None, "reward calls ÷ T", "Calls"),
        ("regret", None, "regret ÷ T, log scale", "Regret a round"),
        ("vacuity", 1, "bound ÷ worst possible regret, log scale", "Bound (above 1: vacuous)"),
    )
    with figures.styled():
        for panel, (quantity, mark, unit, title) in zip(axes, shown, strict=True):
            for place, cell in enumerate(setting.cells):
                for row in _of(table, cell):
                    divisor = cell.rounds if quantity in ("calls", "regret") else 1
                    y = place + 0.15 * (ALGORITHMS.index(row["algorithm"]) - 2)
                    drawing.dot(panel, row, quantity, y, of=divisor, color=LEARNERS[row["algorithm"]].colour)
                if place % 2:
                    panel.axhspan(place - 0.5, place + 0.5, color="#f4f4f4", zorder=0)
            if mark is not None:
                panel.axvline(mark, color="black", linewidth=1, linestyle="--")
            panel.set(xlabel=unit, title=title, ylim=(len(setting.cells) - 0.4, -0.6))
            panel.set_yticks(range(len(setting.cells)), [cell.label for cell in setting.cells])
            panel.tick_params(labelleft=panel is axes[0])
            panel.grid(visible=False, axis="y")
            if quantity in ("vacuity", "regret"):
                panel.set_xscale("log")
        axes[1].set_xlim(0, 1.05)
        for name in ALGORITHMS:
            axes[0].plot([], [], "o", color=LEARNERS[name].colour, label=label(name))
        drawing.legend(figure, axes[:1], ncols=len(ALGORITHMS), fontsize=10)
    return captioned(
        figure,
        "How fast regret grows, what it costs in calls, and whether the bound says anything, in every cell "
        "(d, radius × radius_scale, T). At radius_scale below 1 no guarantee holds and the bounds, computed with the smaller "
        f"radius, are void. ε-mOFUL-IPS has no proved bound. {_settings_text(setting)}",
    )


def contrary(setting: Setting, table: Frame) -> "Figure":
    """The world that breaks the printed Theorem 2: regret beside calls."""
    figure, (left, right) = figures.panels(2)
    informed = {**line_of("eps_moful"), "linestyle": "-"}
    with figures.styled():
        for axes, quantity, style in (
            (left, "bound", {**BOUND, "label": "corrected Theorem 2"}),
            (left, "printed", PRINTED),
            (left, "regret", {**informed, "label": "measured regret"}),
            (right, "calls", informed),
        ):
            drawing.banded(axes, table.where(quantity=quantity), "t", linewidth=1.8, **style)
        _log_log(left, "regret so far", "ε-mOFUL: regret")
        _log_log(right, "reward calls so far", "ε-mOFUL: calls")
    return captioned(
        figure,
        "A world built against Theorem 2 as printed: two actions, x = 1, means 1 and 0.82; the better one is supported (in L) "
        "with its point at 0.8 (ε = 0.2). The other's optimistic value always leads, every round is called and costs 0.18: "
        "linear regret, where the printed bound grows like sqrt(T' log T'). σ = 0.1, λ = 1, δ = 0.05, determinant × 1, "
        f"T = {setting.contrary_rounds:,}, {len(setting.seeds)} seeds.",
    )


def skipped(setting: Setting, table: Frame) -> "Figure":
    """Cumulative regret and rounds by what decided the round, for both M and each radius_scale."""
    cells = setting.alike
    places = [(cell, name) for cell in cells for name in CLIPS]
    figure, grid = drawing.grid(2, len(places), width=4.0, height=3.4, sharex="col")
    with figures.styled():
        for column, (cell, name) in enumerate(places):
            here = _of(table, cell).where(algorithm=name)
            for line, quantity in zip(grid, ("regret", "rounds"), strict=True):
                for kind, style in KINDS.items():
                    points = here.where(kind=kind, quantity=quantity)
                    drawing.banded(line[column], points, "t", linewidth=1.8, **style)
                line[column].set_ylim(bottom=0)
            grid[0][column].set_title(f"{M_NAMES[CLIPS[name]]}, radius_scale {cell.radius_scale:g}")
            grid[1][column].set_xlabel("round t")
        grid[0][0].set_ylabel("regret so far, by kind of round")
        grid[1][0].set_ylabel("rounds so far (called = reward calls)")
        grid[0][0].legend(loc="upper left")
    return captioned(
        figure,
        f"ε-mOFUL-IPS: what rounds skipped by log-beats, rounds skipped as supported, and called rounds have cost, and "
        f"how many there were; d = {cells[0].features}, radius {cells[0].radius}, T = {cells[0].rounds:,}. A radius_scale below 1 "
        f"voids every guarantee. {_settings_text(setting)}",
    )


def log_beats(setting: Setting, tables: dict[str, Frame]) -> "Figure":
    """The winner's curse; what `log-beats` costs a learner that knows all; the same run with 𝓛 = all actions."""
    figure, axes = figures.panels(4, width=4.4, height=max(4.2, 1.4 + 0.3 * len(setting.cells)))
    with figures.styled():
        _curse(axes[0], setting, tables["cells"], "eps_moful_ips")
        _curse(axes[1], setting, tables["cells"], "eps_moful_ips_inf")
        axes[1].tick_params(labelleft=False)
        _knowing(axes[2], tables["knowing"])
        for name in GIVEN:
            _curve(axes[3], tables["given"], name, "regret")
        axes[3].set(xlabel="round t", ylabel="regret so far", title="All actions supported (0 calls)")
        axes[3].set_ylim(bottom=0)
        axes[3].legend(loc="upper left", fontsize=8)
    return captioned(
        figure,
        "Left two: threshold − true expected reward of the log's answer, mean over the rounds that log-beats skipped and "
        "over all rounds, in every cell (d, radius × radius_scale, T). Third: regret a round by log-beats when every θ* is "
        f"known, on {setting.knowing_rows:,} logged rows, both M; no sets are left to close, so this is linear regret; by lower "
        "limits (mended) it costs nothing. "
        f"Right: the algorithm itself with every action supported (L = K), T = {setting.given_rounds:,}, d = {setting.main.features}, "
        f"no reward call by any of the three. {_settings_text(setting)}",
    )


def _curse(axes: "Axes", setting: Setting, table: Frame, name: str) -> None:
    shown: dict[str, dict[str, Any]] = {
        "selected": {"color": LEARNERS[name].colour, "label": "rounds skipped by log-beats"},
        "unselected": {"color": "black", "label": "all rounds"},
    }
    for place, cell in enumerate(setting.cells):
        (row,) = _of(table, cell).where(algorithm=name)
        for quantity, style in shown.items():
            named = style if place == 0 else {"color": style["color"]}
            drawing.dot(axes, row, quantity, place, linewidth=2.5, markersize=5, **named)
    axes.axvline(0, color="black", linewidth=1, linestyle="--")
    axes.set_yticks(range(len(setting.cells)), [cell.label for cell in setting.cells])
    axes.set(
        ylim=(len(setting.cells) - 0.4, -0.9 - 0.06 * len(setting.cells)),
        xlabel="threshold − true reward of the answer",
        title=f"Winner's curse, {M_NAMES[CLIPS[name]]}",
    )
    axes.legend(loc="upper center", ncols=2, fontsize=8, handletextpad=0, columnspacing=1)


def _knowing(axes: "Axes", table: Frame) -> None:
    lines = dict(zip(sorted(set(table["features"])), ("-", "--", ":", "-."), strict=False))
    for name, clip in CLIPS.items():
        for d, line in lines.items():
            style = {"color": LEARNERS[name].colour, "linestyle": line, "marker": "o", "markersize": 4}
            found = table.where(algorithm=name, features=d)
            drawing.banded(axes, found, "noise", "rate", label=f"{M_NAMES[clip]}, d = {d}", **style)
    for d in lines:
        named = {"label": "by limits, every d"} if d == min(lines) else {}
        found = table.where(algorithm=LIMIT, features=d)
        drawing.banded(axes, found, "noise", "rate", color="black", linewidth=3, **named)
    axes.set(
        xlabel="noise σ of the logged rewards", ylabel="regret a round", title="log-beats with every θ* known"
    )
    axes.legend(loc="upper left", fontsize=8)
    axes.set_ylim(0, 1.45 * axes.get_ylim()[1])
