"""The figures of Fig. 3: what the policies earn, what they gain on mOFUL, and what that cost."""

from typing import TYPE_CHECKING

import numpy as np

from research.learners import OFFLINE, OPR
from research.paper.experiment import Analysis
from research.paper.fig3 import MAIN, Setting
from research.paper.frame import Frame
from research.paper.report import drawing
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TIMES = (1, 3, 10, 30, 100)


def draw(setting: Setting, analysis: Analysis) -> "dict[str, Figure]":
    """One figure a radius scale."""
    return {f"reward_scale_{scale:g}": _figure(setting, analysis, scale) for scale in setting.radius_scales}


def _figure(setting: Setting, analysis: Analysis, scale: float) -> "Figure":
    summary = drawing.at_scale(Frame.of(analysis.tables["summary"]).where(variant=MAIN), scale)
    differences = Frame.of(analysis.tables["differences"]).where(variant=MAIN, scale=scale)
    live = summary.only(lambda row: row["algorithm"] not in OFFLINE)
    figure, ((reward, gain), (rounds, regret)) = drawing.grid(2, 2, width=5.0, height=3.2)
    with figures.styled():
        drawing.along_shares(reward, summary.where(metric="reward"))
        reward.set(title="What the final policy earns", ylabel="expected reward a round")
        drawing.along_shares(gain, differences)
        gain.axhline(0, color=figures.COLOURS[0], linewidth=1)
        _close_up(gain, differences.only(lambda row: row["algorithm"] not in OPR))
        gain.set(title="Gain on mOFUL, paired by seed (OPR where it fits)", ylabel="difference in reward")
        drawing.along_shares(rounds, live.where(metric="rounds"))
        rounds.set(title="Rounds until the calls were spent", ylabel="rounds", yscale="log")
        _ticks_from(rounds, setting.budget)
        drawing.along_shares(regret, live.where(metric="regret"))
        regret.set(title="Regret on the way", ylabel="regret", yscale="log")
        for axes in (rounds, regret):
            axes.set_xlabel(drawing.SHARES)
            axes.yaxis.set_major_formatter("{x:,.0f}")
            axes.yaxis.set_minor_formatter("")
        drawing.legend(figure, [reward], ncols=5)
    return drawing.captioned(figure, _caption(setting, analysis, scale))


def _close_up(axes: "Axes", table: Frame) -> None:
    """Show 0 and the intervals of these rows in full."""
    ends = np.concatenate([[0.0], *drawing.limits(table)])
    low, high = float(ends.min()), float(ends.max())
    margin = 0.06 * (high - low or 1)
    axes.set_ylim(low - margin, high + margin)


def _ticks_from(axes: "Axes", least: int) -> None:
    """Begin a logarithmic axis a little below its least value, and mark multiples of that."""
    axes.set_ylim(bottom=0.8 * least)
    axes.set_yticks([least * times for times in TIMES if least * times < axes.get_ylim()[1]])


def _caption(setting: Setting, analysis: Analysis, scale: float) -> str:
    world = setting.synthetic
    short = [one for one in analysis.numbers["short_of_budget"] if one["radius_scale"] in (None, scale)]
    spent = (
        f"In {sum(one['seeds'] for one in short)} runs fewer came within {setting.longest:,} rounds (fewest: "
        f"{min(one['fewest_calls'] for one in short)}). "
        if short
        else f"All came within {setting.longest:,} rounds. "
    )
    return (
        f"Final policies after {setting.budget} reward calls at radius_scale {scale:g}: means over {len(setting.seeds)} "
        f"seeds, bars are 95 % intervals (of rewards they span the worlds' differences; paired ones do not). {spent}"
        f"OPR and greedy ridge make no calls. Scored exactly on {setting.evaluation:,} fresh contexts; OPR keeps to the "
        f"support of those, too. K = {world.actions}, d = {world.features}, σ = {world.noise:g}, ε = {world.epsilon:g}, "
        f"L = {world.supported} (most rows; θ̂ ~ N(θ*, ε²I)), n = {world.rows:,}, λ = {world.ridge:g}, δ = "
        f"{world.delta:g}, {world.radius} radius × {scale:g}{'' if scale >= 1 else ' (no guarantee)'}, noise and bounds "
        f"given truly; {world.support} logging, uniform on the support; {world.stream} stream, fresh contexts when the "
        f"log's run out; M = P90/P10 (here 1) unless ∞; tolerance {world.tolerance:g} for certified and confident."
    )
