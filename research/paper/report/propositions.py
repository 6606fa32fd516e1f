"""Figures of the propositions: IPS's bias on the diagonal, and the error of least squares as the log grows."""

from typing import TYPE_CHECKING, Any

import numpy as np

from research.paper.experiment import Analysis
from research.paper.propositions.runs import ENOUGH
from research.paper.propositions.setting import Setting
from research.paper.propositions.verdicts import RATE
from research.paper.report.captions import captioned
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Columns = dict[str, list[Any]]
SHADES = ("#999999", "#56b4e9", "#e69f00", "#d55e00", "#000000")


def draw(setting: Setting, analysis: Analysis) -> "dict[str, Figure]":
    """All figures, from the tables alone."""
    return {
        "bias": bias(setting, analysis.tables["bias"]),
        "least_squares": least_squares(setting, analysis.tables["errors"], analysis.tables["slopes"]),
    }


def bias(setting: Setting, table: Columns) -> "Figure":
    """Measured against predicted bias of IPS, a panel for each logging policy."""
    figure, axes = figures.panels(len(setting.supports), width=4.0)
    columns = {name: np.array(column) for name, column in table.items()}
    with figures.styled():
        for panel, support in zip(axes, setting.supports, strict=True):
            here = columns["support"] == support
            for share, colour in zip(setting.unsupported, SHADES, strict=False):
                _points(panel, columns, here & (columns["unsupported"] == share), colour, f"n^UA = {share:g}")
            low, high = (
                min(panel.get_xlim()[0], panel.get_ylim()[0]),
                max(panel.get_xlim()[1], panel.get_ylim()[1]),
            )
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


def _points(
    axes: "Axes", columns: dict[str, np.ndarray], chosen: np.ndarray, colour: str, label: str
) -> None:
    x, y = columns["predicted"][chosen], columns["measured"][chosen]
    ends = [np.abs(columns[f"measured_{end}"][chosen] - y) for end in ("low", "high")]
    axes.errorbar(
        x,
        y,
        yerr=ends,
        fmt="o",
        color=colour,
        markersize=3.5,
        elinewidth=0.8,
        alpha=0.85,
        label=label,
        zorder=3,
    )


def least_squares(setting: Setting, table: Columns, slopes: Columns) -> "Figure":
    """The error of θ̂ against N_a, and its exponent, for each logging policy."""
    figure, (left, right) = figures.panels(2)
    colours = dict(zip(setting.supports, figures.COLOURS[1:], strict=False))
    with figures.styled():
        for support in setting.supports:
            here = [place for place, name in enumerate(table["support"]) if name == support]
            count, value, low, high = (
                [table[name][place] for place in here] for name in ("count", "value", "low", "high")
            )
            left.plot(count, value, "o-", color=colours[support], markersize=4, label=support)
            left.fill_between(count, low, high, color=colours[support], alpha=0.2, linewidth=0)
        ends = np.array([min(table["count"]), max(table["count"])])
        start = (
            0.8
            * min(table["value"][:: len(setting.sizes)])
            * np.sqrt(min(table["count"][:: len(setting.sizes)]))
        )
        left.plot(ends, start * ends**RATE, "k--", linewidth=1, label=f"slope {RATE:g}")
        left.set(xscale="log", yscale="log", xlabel="rows of the action, N_a", ylabel="error ‖θ̂ − θ*‖")
        left.set_title("Error of least squares on the log")
        left.legend(loc="upper right", fontsize=8)
        for place, support in enumerate(slopes["support"]):
            if slopes["low"][place] is not None:
                right.plot(
                    [slopes["low"][place], slopes["high"][place]],
                    [place] * 2,
                    color=colours[support],
                    linewidth=3,
                )
            right.plot(slopes["value"][place], place, "o", color=colours[support], markersize=7)
        right.axvline(RATE, color="black", linewidth=1, linestyle="--")
        right.set_yticks(range(len(slopes["support"])), slopes["support"])
        right.set(
            ylim=(len(slopes["support"]) - 0.4, -0.6),
            xlabel="exponent of the error in N_a",
            title="Its slope",
        )
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
