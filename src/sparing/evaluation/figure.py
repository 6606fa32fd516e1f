"""The figure of an evaluation: estimates with their intervals."""

from typing import TYPE_CHECKING

import numpy as np

from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparing.evaluation.result import Evaluation


def plot(evaluation: "Evaluation", axes: "Axes | None") -> "Axes":
    found = figures.axes_or_new(axes)
    places = figures.bars_of(found, [estimate.method for estimate in evaluation.estimates])
    colour, wide = figures.ink(found, "#0072b2"), figures.ink(found, "#777777")
    for place, one in zip(places.tolist(), evaluation.estimates, strict=True):
        if one.support_low is not None and one.support_high is not None and not one.refused:
            found.hlines(place, one.support_low, one.support_high, color=wide, linewidth=1)
        if not one.refused and np.isfinite([one.low, one.high]).all():
            found.hlines(place, one.low, one.high, color=colour, linewidth=4)
        if not one.unknown and not one.inconsistent:
            sound = not (one.flagged or one.few_rows or one.in_sample or one.refused)
            found.plot(
                one.value, place, "o", markersize=8, color=colour, fillstyle="full" if sound else "none"
            )
    found.axvline(evaluation.logged_mean, color=wide, linestyle=":", linewidth=1.2)
    level = evaluation.estimates[0].level if evaluation.estimates else "interval"
    less = "" if evaluation.policy_cost is None else " less cost"
    figures.label_below(found, f"mean reward{less}, in the reward's unit")
    from matplotlib.lines import Line2D

    lines = [
        Line2D([], [], color=colour, linewidth=4, marker="o", markersize=8, label=f"estimate, {level}"),
        Line2D([], [], color=wide, linewidth=1, label="with what the log cannot see"),
        Line2D([], [], color=wide, linewidth=1.2, linestyle=":", label="logged mean"),
    ]
    if any(one.flagged or one.few_rows or one.in_sample or one.refused for one in evaluation.estimates):
        lines.append(
            Line2D(
                [],
                [],
                color=colour,
                linewidth=0,
                marker="o",
                fillstyle="none",
                markersize=8,
                label="do not use alone",
            )
        )
    figures.legend_below(found, handles=lines)
    return found
