"""Figures of the propositions: IPS's bias on the diagonal, and the error of least squares as the log grows."""

from typing import Any

import numpy as np

from research.paper.experiment import Analysis
from research.paper.frame import Frame
from research.paper.propositions import ENOUGH, RATE, Setting
from research.paper.report import drawing
from research.paper.report.plate import Plate, panel, plate
from sparing.report import figures

SHADES = ("#7f7f7f", "#56b4e9", "#e69f00", "#d55e00", "#000000")


def draw(setting: Setting, analysis: Analysis) -> dict[str, Plate]:
    """All figures, from the tables alone."""
    return {
        "bias": bias(setting, Frame.of(analysis.tables["bias"])),
        "least_squares": least_squares(
            setting, Frame.of(analysis.tables["errors"]), Frame.of(analysis.tables["slopes"])
        ),
    }


def bias(setting: Setting, table: Frame) -> Plate:
    """Measured against predicted bias of IPS, a panel for each logging policy."""
    style: dict[str, Any] = {
        "linestyle": "none",
        "marker": "o",
        "markersize": 3.2,
        "alpha": 0.85,
        "zorder": 3,
    }
    panels = []
    for support in setting.supports:
        axes = panel(support, across="predicted bias", up="measured bias of IPS", height=2.9)
        for share, colour in zip(setting.unsupported, SHADES, strict=False):
            points = table.where(support=support, unsupported=share)
            named: dict[str, Any] = {"color": colour, "label": f"n^UA = {share:g}"}
            drawing.barred(axes, points, points["predicted"], "measured", **named, **style)
        ends = (*axes.get_xlim(), *axes.get_ylim())
        low, high = min(ends), max(ends)
        axes.plot([low, high], [low, high], color="black", linewidth=1, linestyle="--", zorder=1)
        axes.set(xlim=(low, high), ylim=(low, high))
        panels.append(axes)
    return plate(
        "Proposition 1: the error of weighting the log is what unlogged actions earn",
        panels,
        see="Across: minus the expected reward on unsupported actions, which the paper predicts as the bias. Up: the bias that was "
        "measured. Points on the dashed diagonal bear it out; a point is a world and an n^UA.",
        regime=f"logging policy as titled; bars are 95 % intervals over {setting.logs} independent logs of {setting.rows:,} rows. Policy "
        f"evaluated: 0.8 on the action that θ* blurred by {setting.blur:g} ranks first, 0.2 spread evenly. {_world_text(setting)}",
        columns=4,
    )


def least_squares(setting: Setting, table: Frame, slopes: Frame) -> Plate:
    """The error of θ̂ against N_a, and its exponent, for each logging policy."""
    left = panel("Error of least squares on the log", across="rows of the action", up="error ‖θ̂ − θ*‖")
    right = panel("Its slope", across="exponent of the error in the rows", up="")
    colours = dict(zip(setting.supports, figures.COLOURS[1:], strict=False))
    marks = dict(zip(setting.supports, "osD^", strict=False))
    for support, colour in colours.items():
        points = table.where(support=support)
        style: dict[str, Any] = {"color": colour, "marker": marks[support], "markersize": 4, "label": support}
        drawing.banded(left, points, "count", **style)
    ends = np.array([min(table["count"]), max(table["count"])])
    first = table.where(rows=setting.sizes[0])
    start = 0.8 * min(first["value"]) * np.sqrt(min(first["count"]))
    dashed: dict[str, Any] = {"color": "black", "linestyle": "--", "linewidth": 1}
    left.plot(ends, start * ends**RATE, **dashed, label=f"slope {RATE:g}")
    left.set(xscale="log", yscale="log")
    for place, row in enumerate(slopes):
        drawing.dot(right, row, "value", place, color=colours[row["support"]], linewidth=3, markersize=7)
    right.axvline(RATE, **dashed)
    right.set_yticks(range(len(slopes)), slopes["support"])
    right.set_ylim(len(slopes) - 0.4, -0.6)
    return plate(
        "Proposition 2: with a longer log the model becomes right",
        (left, right),
        see="Left, both axes logarithmic: the error of the fitted model (up) as an action has more rows (across); parallel to the "
        "dashed line is the rate that theory expects. Right: that rate as a number, with its 95 % interval.",
        regime=f"a log that grows from {setting.sizes[0]:,} to {setting.sizes[-1]:,} rows, n^UA = {setting.growing_unsupported:g}, by "
        f"logging policy; geometric means over the actions with at least {ENOUGH * setting.features} rows at the smallest size; "
        f"exponent by least squares on logarithms, one constant for each action. {_world_text(setting)}",
    )


def _world_text(setting: Setting) -> str:
    return (
        f"K = {setting.actions}, d = {setting.features}, σ = {setting.noise:g}; {len(setting.seeds)} worlds, 95 % intervals over "
        "seeds where several are pooled. Nothing is played, so there are no reward calls, no regret and no price; no confidence "
        "sets, so no radius."
    )
