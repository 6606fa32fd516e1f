"""Calls over the rounds with regret under them: the figures of Figs. 1 and 2."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from research.learners import IPS, RATIO, UNCLIPPED
from research.paper.frame import Frame
from research.paper.report import drawing
from research.paper.report.plate import Plate, level, panel, plate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("moful", "eps_moful", *IPS)
CLIPS = (None, None, RATIO, UNCLIPPED)

COMMON = (
    "K = 20 actions, σ = 2, λ = 1, δ = 0.05, determinant radius × radius_scale (below 1: no guarantee), noise and bounds "
    "given truly; log of n = T rows, per-context logging, uniform on the support; contexts of the log replayed (in-log). "
    "Prior: the L actions with most rows are known, θ̂ ~ N(θ*, ε²I), ε = 0.05. M = P90/P10 of the propensities unless ∞. "
    "Calls have no price here: they are counted"
)

Panels = Mapping[str, Frame]
"""The title of each panel, and the rows of a table that it shows."""


def over_rounds(panels: Panels, title: str, *, rounds: int, regime: str, folded: bool = False) -> Plate:
    """Mean calls, then regret, over the rounds, with 95 % bands over seeds."""
    both = []
    for value, up in (("calls", "reward calls so far"), ("regret", "regret so far")):
        row = []
        for name, table in panels.items():
            axes = panel(name, across="rounds", up=up)
            for learner, points in _by_learner(table).items():
                drawing.banded(axes, points, "round", value, **drawing.line_of(learner))
            axes.set_xlim(left=0)
            _thousands(axes)
            row.append(axes)
        level(row, low=0, high=1.03 * rounds if value == "calls" else None)
        both += row
    return plate(
        title,
        both,
        see="Across: rounds. Up: reward calls so far (first half), and what the decisions lost meanwhile, the regret (second "
        "half). A line below grey in the first half saves calls; look in the second half what the saving costs.",
        regime=regime,
        folded=folded,
    )


def at_the_end(
    panels: Panels,
    title: str,
    *,
    along: str,
    across: str,
    ticks: Sequence[float],
    see: str,
    regime: str,
    shaded: tuple[float, float] | None = None,
    folded: bool = False,
) -> Plate:
    """Calls as a share of T, then regret, along a setting; a range of shares may be shaded."""
    both = []
    for value, up in (("calls_share", "calls as a share of T"), ("regret", "regret")):
        row = []
        for name, table in panels.items():
            axes = panel(name, across=across, up=up)
            _sweep(axes, table, value, along, ticks)
            if shaded and value == "calls_share":
                axes.axhspan(*shaded, color="#e69f00", alpha=0.2, linewidth=0)
            row.append(axes)
        level(row, low=0, high=1.03 if value == "calls_share" else None)
        both += row
    for axes in both[len(panels) :]:
        axes.yaxis.set_major_formatter("{x:,.0f}")
    return plate(title, both, see=see, regime=regime, folded=folded, columns=4 if len(panels) == 4 else 3)


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
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def _thousands(axes: "Axes") -> None:
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,.0f}")
