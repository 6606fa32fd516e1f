"""Figures of what `log-beats` costs and why."""

from typing import TYPE_CHECKING, Any

from research.learners import LEARNERS, LIMIT, M_NAMES
from research.paper.frame import Frame
from research.paper.report import drawing
from research.paper.report.cells import USUAL, curve, of_cell, settings_text, short
from research.paper.report.plate import Plate, panel, plate
from research.paper.theorems.runs import CLIPS, GIVEN
from research.paper.theorems.setting import Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = {
    "log-beats": {"label": "log-beats", "color": "#d55e00"},
    "supported": {"label": "supported", "color": "#009e73"},
    "explore": {"label": "called", "color": "#7f7f7f"},
}
"""How rounds are shown by what decided them."""


def skipped(setting: Setting, table: Frame) -> Plate:
    """Cumulative regret and rounds by what decided the round, for both M and each radius_scale."""
    cells = setting.alike
    panels = []
    for quantity, up in (("regret", "regret so far"), ("rounds", "rounds so far")):
        for cell in cells:
            for name, clip in CLIPS.items():
                here = of_cell(table, cell).where(algorithm=name)
                axes = panel(f"{M_NAMES[clip]}, radius scale {cell.radius_scale:g}", across="round", up=up)
                for kind, style in KINDS.items():
                    drawing.banded(axes, here.where(kind=kind, quantity=quantity), "t", **style)
                axes.set_ylim(bottom=0)
                for axis in (axes.xaxis, axes.yaxis):
                    axis.set_major_formatter("{x:,.0f}")
                panels.append(axes)
    return plate(
        "What the rounds cost that ε-mOFUL-IPS does not ask about",
        panels,
        see="Across: rounds. Up: regret so far by what decided the round (first half), and how many such rounds there were (second "
        "half). Answers from the log are log-beats, answers by known actions supported; a straight line upwards never ends.",
        regime=f"ε-mOFUL-IPS, d = {cells[0].features}, radius {cells[0].radius}, radius_scale as titled (below 1 every guarantee is "
        f"void), T = {cells[0].rounds:,}; {settings_text(setting)}",
        folded=True,
        columns=4,
    )


def knowing(setting: Setting, table: Frame) -> Plate:
    """What `log-beats` costs a learner with all parameters known."""
    return plate(
        "Answering from the log costs regret even if all else is known",
        [_knowing(table, name) for name in CLIPS],
        see="Across: the noise of the logged rewards. Up: regret a round, if all else is known. Above zero it never goes "
        "away: linear regret. By limits, our mended rule, it stays at zero.",
        regime=f"log-beats alone, every θ* known: no prior, no confidence sets, so no radius; {setting.knowing_rows:,} logged rows, "
        f"otherwise {settings_text(setting)}",
    )


def given(setting: Setting, table: Frame) -> Plate:
    """The algorithm itself with 𝓛 = all actions."""
    axes = panel("All actions known, no calls", across="round", up="regret so far")
    for name in GIVEN:
        curve(axes, table, name, "regret")
    axes.set_ylim(bottom=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,.0f}")
    return plate(
        "The algorithm itself when every action is known beforehand",
        [axes],
        see="Across: rounds. Up: regret so far. None of the three asks for a reward; what answering from the log adds to the regret of "
        "ε-mOFUL is a straight line.",
        regime=f"L = K, T = {setting.given_rounds:,}, d = {setting.main.features}, radius_scale {setting.main.radius_scale:g}; otherwise "
        f"{settings_text(setting)}",
        folded=True,
    )


def _knowing(table: Frame, name: str) -> "Axes":
    axes = panel(f"log-beats, {M_NAMES[CLIPS[name]]}", across="noise σ of the log", up="regret a round")
    lines = dict(zip(sorted(set(table["features"])), ("-", "--", ":", "-."), strict=False))
    for d, line in lines.items():
        found = table.where(algorithm=name, features=d)
        style = {"color": "#cc79a7", "linestyle": line, "marker": "o", "markersize": 4}
        drawing.banded(axes, found, "noise", "rate", label=f"d = {d}, by one sample", **style)
    for d in lines:
        named = {"label": "every d, by limits"} if d == min(lines) else {}
        found = table.where(algorithm=LIMIT, features=d)
        drawing.banded(axes, found, "noise", "rate", color="black", linewidth=3, **named)
    axes.set_ylim(bottom=-0.02)
    return axes


def curse(setting: Setting, table: Frame) -> Plate:
    """The winner's curse of the threshold, in every cell and for both M."""
    panels = [_curse(setting, table, name) for name in CLIPS]
    return plate(
        "Why: the logged reward that wins is overestimated",
        panels,
        see="Across: the reward estimated from the log less the true reward of its answer, on average. Over all rounds (black) it is "
        "about fair when M caps the weights; over the rounds that it decides (colour) it is too high. A row for each number of "
        f"features d and radius × radius_scale ({USUAL}).",
        regime=f"ε-mOFUL-IPS, radius_scale 1 and below (below 1 no guarantee); {settings_text(setting)}",
        folded=True,
    )


def _curse(setting: Setting, table: Frame, name: str) -> "Axes":
    axes = panel(
        f"Winner's curse, {M_NAMES[CLIPS[name]]}",
        across="threshold − true reward of the answer",
        up="",
        height=1.0 + 0.22 * len(setting.cells),
    )
    shown: dict[str, dict[str, Any]] = {
        "selected": {"color": LEARNERS["eps_moful_ips"].colour, "label": "decided by log-beats"},
        "unselected": {"color": "black", "label": "all rounds"},
    }
    for place, cell in enumerate(setting.cells):
        (row,) = of_cell(table, cell).where(algorithm=name)
        for quantity, style in shown.items():
            named = style if place == 0 else {"color": style["color"]}
            drawing.dot(axes, row, quantity, place, linewidth=2.5, markersize=5, **named)
    axes.axvline(0, color="black", linewidth=1, linestyle="--")
    axes.set_yticks(range(len(setting.cells)), [short(cell, scaled=True) for cell in setting.cells])
    axes.set_ylim(len(setting.cells) - 0.4, -0.6)
    return axes
