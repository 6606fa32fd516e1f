"""Calls over the rounds with regret under them: the figures of Figs. 1 and 2."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from research.learners import IPS, RATIO, UNCLIPPED
from research.paper.frame import Frame
from research.paper.report import drawing
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = ("moful", "eps_moful", *IPS)
CLIPS = (None, None, RATIO, UNCLIPPED)

COMMON = (
    "K = 20, σ = 2, ε = 0.05, λ = 1, δ = 0.05, determinant radius × radius_scale (below 1: no guarantee), noise and "
    "bounds given truly; log of n = T rows, per-context support, uniform on it; contexts of the log replayed (in-log); "
    "the L actions with most rows are known, θ̂ ~ N(θ*, ε²I); M = P90/P10 of the propensities unless ∞"
)

Panels = Mapping[str, Frame]
"""The title of each panel, and the rows of a table that it shows."""


def over_rounds(panels: Panels, *, rounds: int, caption: str) -> "Figure":
    """Mean calls (above) and regret (below) over the rounds, with 95 % bands over seeds."""
    figure, (upper, lower) = _panels(len(panels), width=3.6)
    with figures.styled():
        for top, bottom, (title, table) in zip(upper, lower, panels.items(), strict=True):
            for name, points in _by_learner(table).items():
                drawing.banded(top, points, "round", "calls", **drawing.line_of(name))
                drawing.banded(bottom, points, "round", "regret", **drawing.line_of(name))
            top.set_title(title)
            bottom.set(xlabel="rounds")
            bottom.set_xlim(left=0)
            bottom.xaxis.set_major_formatter("{x:,.0f}")
        upper[0].set(ylabel="reward calls so far", ylim=(0, 1.03 * rounds))
        upper[0].yaxis.set_major_formatter("{x:,.0f}")
        _finish(figure, upper, lower, "regret so far")
    return drawing.captioned(figure, caption)


def at_the_end(
    panels: Panels, *, along: str, ticks: Sequence[float], width: float, caption: str
) -> "tuple[Figure, list[Axes]]":
    """Calls as a share of T (above) and regret (below) along a setting; the figure and its upper panels."""
    figure, (upper, lower) = _panels(len(panels), width=width)
    with figures.styled():
        for top, bottom, (title, table) in zip(upper, lower, panels.items(), strict=True):
            for axes, value in ((top, "calls_share"), (bottom, "regret")):
                _sweep(axes, table, value, along, ticks)
            top.set_title(title)
            bottom.set_xlabel("n^UA" if along == "unsupported" else along)
        upper[0].set(ylabel="calls as a share of T", ylim=(0, 1.03))
        _finish(figure, upper, lower, "regret")
    return drawing.captioned(figure, caption), upper


def _panels(columns: int, *, width: float) -> "tuple[Figure, list[list[Axes]]]":
    return drawing.grid(2, columns, width=width, height=3.1, sharex=True, sharey="row")


def _by_learner(table: Frame) -> dict[str, Frame]:
    """The rows of each learner; ε-mOFUL-IPS is another with another M."""
    keys = zip(SHOWN, ("moful", "eps_moful", "eps_moful_ips", "eps_moful_ips"), CLIPS, strict=True)
    named = {name: table.where(algorithm=algorithm, clip=clip) for name, algorithm, clip in keys}
    return {name: points for name, points in named.items() if len(points)}


def _sweep(axes: "Axes", table: Frame, value: str, along: str, ticks: Sequence[float]) -> None:
    """Final values along a setting; the learners stand side by side."""
    for name, found in _by_learner(table).items():
        points = Frame(sorted(found, key=lambda row: row[along]))
        x = np.array(points[along], dtype=float) * (1 + 0.02 * (SHOWN.index(name) - 1.5))
        drawing.barred(axes, points, x, value, **drawing.look(name))
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], rotation=60, fontsize=8)
    axes.minorticks_off()


def _finish(figure: "Figure", upper: "list[Axes]", lower: "list[Axes]", regret: str) -> None:
    """The lower panels' scale, and one legend above all."""
    lower[0].set(ylabel=regret)
    lower[0].set_ylim(bottom=0)
    lower[0].yaxis.set_major_formatter("{x:,.0f}")
    options: dict[str, Any] = {"ncols": len(SHOWN), "fontsize": 10}
    drawing.legend(figure, upper, **options)
