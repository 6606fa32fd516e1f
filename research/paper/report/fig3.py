"""The figures of Fig. 3: what the policies earn, what they gain on mOFUL, and what that cost."""

from typing import TYPE_CHECKING

from research.paper.experiment import Analysis, Record
from research.paper.fig3.setting import MAIN, Setting
from research.paper.lineup import OFFLINE, OPR, SCALED
from research.paper.report import lines
from research.paper.report.calls import rows
from research.paper.report.captions import captioned
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TIMES = (1, 3, 10, 30, 100)


def draw(setting: Setting, analysis: Analysis) -> "dict[str, Figure]":
    """One figure a radius scale."""
    return {f"reward_scale_{scale:g}": _figure(setting, analysis, scale) for scale in setting.radius_scales}


def _figure(setting: Setting, analysis: Analysis, scale: float) -> "Figure":
    summary = _at(rows(analysis.tables["summary"], variant=MAIN), scale)
    differences = rows(analysis.tables["differences"], variant=MAIN, scale=scale)
    live = [row for row in summary if row["algorithm"] not in OFFLINE]
    figure, ((reward, gain), (rounds, regret)) = lines.grid(2, 2, width=5.0, height=3.2)
    with figures.styled():
        lines.lines(reward, (row for row in summary if row["metric"] == "reward"))
        reward.set(title="What the final policy earns", ylabel="expected reward a round")
        lines.lines(gain, differences)
        gain.axhline(0, color=figures.COLOURS[0], linewidth=1)
        _close_up(gain, [row for row in differences if row["algorithm"] not in OPR])
        gain.set(title="Gain on mOFUL, paired by seed (OPR where it fits)", ylabel="difference in reward")
        lines.lines(rounds, (row for row in live if row["metric"] == "rounds"))
        rounds.set(title="Rounds until the calls were spent", ylabel="rounds", yscale="log")
        _ticks_from(rounds, setting.budget)
        lines.lines(regret, (row for row in live if row["metric"] == "regret"))
        regret.set(title="Regret on the way", ylabel="regret", yscale="log")
        for axes in (rounds, regret):
            axes.set_xlabel(lines.SHARES)
            axes.yaxis.set_major_formatter("{x:,.0f}")
            axes.yaxis.set_minor_formatter("")
        lines.legend(figure, reward)
    return captioned(figure, _caption(setting, analysis, scale))


def _at(table: list[Record], scale: float) -> list[Record]:
    """The rows of one radius scale, and those of algorithms that have none."""
    return [row for row in table if row["scale"] == scale or row["algorithm"] not in SCALED]


def _close_up(axes: "Axes", table: list[Record]) -> None:
    """Show 0 and the intervals of these rows in full."""
    ends = [row[end] for row in table for end in ("value", "low", "high") if row[end] is not None]
    known = [end for end in ends if end == end]
    low, high = min(0, *known), max(0, *known)
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
