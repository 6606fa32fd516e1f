"""Figures of the propositions: IPS's bias on the diagonal, and the error of least squares as the log grows."""

from typing import TYPE_CHECKING

import numpy as np

from research.paper.experiment import Analysis
from research.paper.frame import Frame
from research.paper.propositions import ENOUGH, RATE, Setting
from research.paper.report import drawing
from research.paper.report.drawing import captioned
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHADES = ("#999999", "#56b4e9", "#e69f00", "#d55e00", "#000000")


def draw(setting: Setting, analysis: Analysis) -> "dict[str, Figure]":
    """All figures, from the tables alone."""
    return {
        "bias": bias(setting, Frame.of(analysis.tables["bias"])),
        "least_squares": least_squares(
            setting, Frame.of(analysis.tables["errors"]), Frame.of(analysis.tables["slopes"])
        ),
    }


def bias(setting: Setting, table: Frame) -> "Figure":
    """Measured against predicted bias of IPS, a panel for each logging policy."""
    figure, axes = figures.panels(len(setting.supports), width=4.0)
    style = {"linestyle": "none", "marker": "o", "markersize": 3.5, "capsize": 0, "alpha": 0.85, "zorder": 3}
    with figures.styled():
        for panel, support in zip(axes, setting.supports, strict=True):
            for share, colour in zip(setting.unsupported, SHADES, strict=False):
                points = table.where(support=support, unsupported=share)
                label = f"n^UA = {share:g}"
                drawing.barred(
                    panel, points, points["predicted"], "measured", color=colour, label=label, **style
                )
            ends = (*panel.get_xlim(), *panel.get_ylim())
            low, high = min(ends), max(ends)
            panel.plot([low, high], [low, high], color="black", linewidth=1, linestyle="--", zorder=1)
            panel.set(xlim=(low, high), ylim=(low, high), title=support, xlabel="predicted bias")
        axes[0].set_ylabel("measured bias of IPS")
        axes[0].legend(loc="upper left", fontsize=8)
    return captioned(
        figure,
        "Proposition 1: the bias of IPS against minus the expected reward on unsupported actions, a point for each world and "
        f"n^UA, with its 95 % interval over {setting.logs} independent logs of {setting.rows:,} rows. Policy evaluated: 0.8 on the "
        f"action that θ* blurred by {setting.blur:g} ranks first, 0.2 spread evenly. {_world_text(setting)}",
    )


def least_squares(setting: Setting, table: Frame, slopes: Frame) -> "Figure":
    """The error of θ̂ against N_a, and its exponent, for each logging policy."""
    figure, (left, right) = figures.panels(2)
    colours = dict(zip(setting.supports, figures.COLOURS[1:], strict=False))
    with figures.styled():
        for support, colour in colours.items():
            points = table.where(support=support)
            drawing.banded(left, points, "count", color=colour, marker="o", markersize=4, label=support)
        ends = np.array([min(table["count"]), max(table["count"])])
        first = table.where(rows=setting.sizes[0])
        start = 0.8 * min(first["value"]) * np.sqrt(min(first["count"]))
        left.plot(ends, start * ends**RATE, "k--", linewidth=1, label=f"slope {RATE:g}")
        left.set(xscale="log", yscale="log", xlabel="rows of the action, N_a", ylabel="error ‖θ̂ − θ*‖")
        left.set_title("Error of least squares on the log")
        left.legend(loc="upper right", fontsize=8)
        for place, row in enumerate(slopes):
            drawing.dot(right, row, "value", place, color=colours[row["support"]], linewidth=3, markersize=7)
        right.axvline(RATE, color="black", linewidth=1, linestyle="--")
        right.set_yticks(range(len(slopes)), slopes["support"])
        right.set(ylim=(len(slopes) - 0.4, -0.6), xlabel="exponent of the error in N_a", title="Its slope")
    return captioned(
        figure,
        f"Proposition 2: least squares on a log that grows from {setting.sizes[0]:,} to {setting.sizes[-1]:,} rows, n^UA = "
        f"{setting.growing_unsupported:g}. Left: geometric means over the actions with at least {ENOUGH * setting.features} rows at the "
        f"smallest size. Right: exponent by least squares on logarithms, one constant for each action. {_world_text(setting)}",
    )


def _world_text(setting: Setting) -> str:
    return (
        f"K = {setting.actions}, d = {setting.features}, σ = {setting.noise:g}; {len(setting.seeds)} worlds, 95 % intervals over "
        "seeds where several are pooled. Nothing is played, so there are no reward calls and no regret; no confidence sets, so no radius."
    )
