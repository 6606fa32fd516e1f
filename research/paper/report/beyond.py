"""The figures beyond the paper: calls against regret, and calls against held-out error."""

from typing import TYPE_CHECKING

from research.learners import LEARNERS
from research.paper.beyond.comparing import CLASSES, MISSING, where
from research.paper.beyond.setting import Setting, Size
from research.paper.beyond.tuning import DATA
from research.paper.experiment import Analysis, Record
from research.paper.frame import Frame
from research.paper.report import drawing
from research.paper.report.drawing import captioned, numbers
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(setting: Setting, analysis: Analysis) -> "dict[str, Figure]":
    """One figure for each size of synthetic world, one for the data sets."""
    drawn = {
        f"frontier_d{size.features}": _frontier(setting, analysis, size)
        for size in setting.sizes
        if analysis.tables["frontier"]
    }
    if analysis.tables["classes"]:
        drawn["classes"] = _classes(setting, analysis)
    return drawn


def _frontier(setting: Setting, analysis: Analysis, size: Size) -> "Figure":
    rows = Frame.of(analysis.tables["frontier"]).where(features=size.features, rows=size.rows)
    figure, axes = _grid(len(setting.supports), columns=2, width=5.0, height=4.0)
    with figures.styled():
        for one, support in zip(axes, setting.supports, strict=True):
            _panel(one, rows.where(place=support), "regret")
            one.set_xscale("symlog", linthresh=30, linscale=0.6)
            one.set_yscale("log")
            one.set_xlim(-4, 1.5 * setting.rounds)
            one.set_ylim(*_reach(rows))
            one.set_title(support)
            one.set(xlabel="reward calls", ylabel="regret")
            one.xaxis.set_major_formatter("{x:,.0f}")
            one.yaxis.set_major_formatter("{x:,.0f}")
        drawing.legend(figure, axes, loc="outside right upper", fontsize=8.5)
    return captioned(figure, _frontier_caption(setting, analysis, size, rows))


def _frontier_caption(setting: Setting, analysis: Analysis, size: Size, rows: Frame) -> str:
    part = where(size)
    return (
        f"Regret against reward calls after T = {setting.rounds:,} rounds, further left and lower is better; both axes "
        f"logarithmic (calls linear below 30). Means over {_seeds(rows)} seeds with 95 % bars. K = 20, σ = 2, {part}, "
        f"n^UA = {setting.unsupported:g}; the log's contexts replayed (in-log) with fresh noise; λ = 1, δ = 0.05, "
        f"determinant radius, radius_scale {setting.radius_scale:g} (no guarantee) unless named, noise and bounds given "
        f"truly. Lines join tolerances: {numbers(setting.certified)} (certified), {numbers(setting.guaranteed)} (radius_scale 1, guaranteed), "
        f"{numbers(setting.confident)} (confident, larger ones ask less). ε-mOFUL and -IPS: L = {setting.supported} points "
        f"fitted to the log, M = P90/P10 or ∞; θ̂ given: the paper's θ̂ ~ N(θ*, 0.05²I). LinUCB: alpha 1. "
        f"{_outside(analysis, rows, 'warm', 'cold')} {analysis.numbers['losses'][part]}"
    )


def _classes(setting: Setting, analysis: Analysis) -> "Figure":
    rows = Frame.of(analysis.tables["classes"])
    figure, axes = _grid(len(setting.data), columns=4, width=3.3, height=3.2)
    with figures.styled():
        for one, name in zip(axes, setting.data, strict=True):
            _panel(one, rows.where(place=name), "final")
            one.set_title(_about(name, analysis.numbers["data"][name]))
            one.set_xlim(left=-0.04 * one.get_xlim()[1])
            one.set_ylim(0, min(1.0, one.get_ylim()[1]))
            one.set(xlabel="reward calls", ylabel="held-out error")
            one.xaxis.set_major_formatter("{x:,.0f}")
        drawing.legend(figure, axes, loc="outside right upper", fontsize=8.5)
    return captioned(
        figure,
        f"Share of wrong classes of the final policy on held-out rows (15 %) against the reward calls of all live rounds "
        f"(25 % of the rows, fresh); further left and lower is better. Means over {_seeds(rows)} seeds with 95 % bars. "
        f"Actions are classes; n^UA = {setting.class_unsupported:.2g}: that share of them, drawn for each seed, is never "
        f"logged, the others uniformly. Rewards without noise; λ = {setting.class_ridge:g}, δ = 0.05, σ = 1/2 "
        f"(confident: fitted), determinant radius, radius_scale {setting.radius_scale:g} (no guarantee). Lines join "
        f"tolerances: {numbers(setting.class_certified)} (certified), {numbers(setting.class_confident)} (confident). "
        f"ε-mOFUL-IPS: L = K/2, and on fresh contexts its log-beats rule never fires. "
        f"{_outside(analysis, rows, 'classes')} {analysis.numbers['losses'][CLASSES]}",
    )


def _panel(axes: "Axes", rows: Frame, value: str) -> None:
    """Points with 95 % bars; those of one learner at several tolerances joined by a line."""
    for name in LEARNERS:
        points = rows.where(name=name)
        if len(points):
            calls, low, high = drawing.limits(points, "calls")
            line = "-" if len(points) > 1 else "none"
            style = {**drawing.look(name, size=6), "linestyle": line, "capsize": 0}
            drawing.barred(axes, points, calls, value, xerr=[calls - low, high - calls], **style)


def _grid(count: int, *, columns: int, width: float, height: float) -> "tuple[Figure, list[Axes]]":
    """So many axes in rows."""
    columns = min(columns, count)
    figure, rows = drawing.grid(-(-count // columns), columns, width=width, height=height)
    axes = [one for row in rows for one in row]
    for spare in axes[count:]:
        spare.set_axis_off()
    return figure, axes[:count]


def _reach(rows: Frame) -> tuple[float, float]:
    """The same limits in every panel, around the means: bars may reach beyond them."""
    values = [value for value in rows["regret"] if value > 0]
    return min(values, default=1.0) / 1.8, max(values, default=1.0) * 1.8


def _about(name: str, numbers: Record) -> str:
    return f"{name}: {numbers['rounds']:,} rounds"


def _seeds(rows: Frame) -> str:
    return " to ".join(str(count) for count in sorted(set(rows["seeds"])))


def _outside(analysis: Analysis, rows: Frame, *parts: str) -> str:
    """How Vowpal Wabbit was set, or that it is not there."""
    if analysis.numbers["outside"] is None:
        return MISSING
    if not any(row["name"].startswith(("squarecb", "regcb")) for row in rows):
        return "Vowpal Wabbit was not run at this size."
    outside = analysis.numbers["outside"]
    tuned_on = " and ".join(DATA) if "classes" in parts else "d = 10 under never-logged"
    kept = [", ".join(_tuned(options)) for key in parts for options in outside[key]]
    return (
        f"Vowpal Wabbit (VW {outside['version']}) calls every round; it has the same linear model, costs −r, and was set "
        f"on seeds of its own ({tuned_on}): {'; '.join(kept)}."
    )


def _tuned(options: str) -> list[str]:
    """The part of a command line that was chosen."""
    shown = ("squarecb", "gamma_scale", "regcb", "mellowness", "learning_rate")
    return [word.strip() for word in options.split("--") if word.startswith(shown)]
