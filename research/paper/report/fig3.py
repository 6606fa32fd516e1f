"""The figures of Fig. 3: what the policies earn, what they gain on mOFUL, and what that cost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from research.learners import IPS, OFFLINE, OPR
from research.paper.experiment import Analysis
from research.paper.fig3 import MAIN, Setting
from research.paper.frame import Frame
from research.paper.report import drawing
from research.paper.report.plate import Plate, panel, plate
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TIMES = (1, 1.5, 2, 3, 5, 10, 20, 50, 100)
PAPER = (*OPR, "moful", "eps_moful", *IPS)
OTHERS = ("moful", "eps_moful_ips", "greedy", "warm_started", "certified", "confident")
"""Who is drawn: the paper's learners, and the two that matter most beside ours."""


def draw(setting: Setting, analysis: Analysis) -> dict[str, Plate]:
    """For each radius scale the paper's learners, and ours with them."""
    drawn = {}
    for number, scale in enumerate(setting.radius_scales):
        drawn[f"reward_scale_{scale:g}"] = _plate(setting, analysis, scale, PAPER, folded=number > 0)
        drawn[f"ours_scale_{scale:g}"] = _plate(setting, analysis, scale, OTHERS, folded=True)
    return drawn


def _plate(
    setting: Setting, analysis: Analysis, scale: float, names: Sequence[str], *, folded: bool
) -> Plate:
    summary = drawing.at_scale(Frame.of(analysis.tables["summary"]).where(variant=MAIN), scale)
    differences = Frame.of(analysis.tables["differences"]).where(variant=MAIN, scale=scale)
    from matplotlib import ticker

    live = summary.only(lambda row: row["algorithm"] not in OFFLINE)
    reward, gain, rounds, regret = (
        panel(title, across=drawing.SHARES, up=up)
        for title, up in (
            ("What the final policy earns", "expected reward a round"),
            ("Gain on mOFUL, paired by seed", "difference in reward"),
            ("Rounds until the calls were spent", "rounds"),
            ("Regret on the way", "regret"),
        )
    )
    with figures.styled():
        drawing.along_shares(reward, summary.where(metric="reward"), names)
        drawing.along_shares(gain, differences, names)
        gain.axhline(0, color=figures.COLOURS[0], linewidth=1)
        close = differences.among("algorithm", names).only(lambda row: row["algorithm"] not in OPR)
        _close_up(gain, close)
        drawing.along_shares(rounds, live.where(metric="rounds"), names)
        drawing.along_shares(regret, live.where(metric="regret"), names)
        for axes in (rounds, regret):
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:,.0f}")
            axes.yaxis.set_minor_formatter("")
        regret.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        _ticks_from(rounds, setting.budget)
    who = "the paper's learners" if names == PAPER else "with ours"
    return plate(
        f"After {setting.budget} reward calls, {who}, at {drawing.guarantee(scale)}",
        (reward, gain, rounds, regret),
        see=f"Across: n^UA, the {drawing.SHARES}. Up, panel by panel: what the final policy earns; how much more than mOFUL's "
        "(OPR only where it fits); how many rounds it took to spend the calls; what was lost meanwhile. Higher is better in the "
        "first two, lower in the last.",
        regime=_regime(setting, analysis, scale),
        folded=folded,
        columns=4,
    )


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


def _regime(setting: Setting, analysis: Analysis, scale: float) -> str:
    world = setting.synthetic
    short = [one for one in analysis.numbers["short_of_budget"] if one["radius_scale"] in (None, scale)]
    spent = (
        f"in {sum(one['seeds'] for one in short)} runs fewer calls came within {setting.longest:,} rounds (fewest: "
        f"{min(one['fewest_calls'] for one in short)})"
        if short
        else f"all calls came within {setting.longest:,} rounds"
    )
    return (
        f"{world.radius} radius, radius_scale {scale:g}{'' if scale >= 1 else ' (no guarantee)'}; {world.support} logging, uniform "
        f"on the support; prior: L = {world.supported} known actions (most rows; θ̂ ~ N(θ*, ε²I), ε = {world.epsilon:g}); no price, "
        f"{setting.budget} calls for each live learner, {spent}; OPR and greedy ridge make none. Means over {len(setting.seeds)} "
        f"seeds, bars are 95 % intervals (of rewards they span the worlds' differences; paired ones do not). Scored exactly on "
        f"{setting.evaluation:,} fresh contexts; OPR keeps to the support of those, too. K = {world.actions}, d = {world.features}, "
        f"σ = {world.noise:g}, n = {world.rows:,}, λ = {world.ridge:g}, δ = {world.delta:g}, noise and bounds given truly; "
        f"{world.stream} stream, fresh contexts when the log's run out; M = P90/P10 (here 1) unless ∞; tolerance "
        f"{world.tolerance:g} for certified and confident."
    )
