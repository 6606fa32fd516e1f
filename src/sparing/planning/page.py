"""A plan's figure and page: what the calls buy, and how sure that is."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from sparing.planning.result import HEADER, Plan, Summary
from sparing.report import figures, page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEAR = (0.016, 0.045)
"""Points closer than these shares of the axes have their numbers written together."""

OFFSETS = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1], [0, 1.6], [0, -1.6]])
"""Where numbers may stand beside a point, in units of their size; the first free one is taken."""

WIDE = 8.0
"""An axis whose numbers span more than this factor is logarithmic,"""

DECADES = 4
"""over at most about so many powers of ten; below them it is linear down to zero."""


def draw(plan: Plan) -> "Figure":
    """Mean regret against mean calls, every option numbered; below, the intervals of both by number."""
    figure = figures.blank(width=10, height=5 + 0.23 * len(plan.options))
    with figures.styled():
        rows = figure.subplot_mosaic(
            [["map", "map"], ["calls", "regret"]], height_ratios=[4, 0.8 + 0.23 * len(plan.options)]
        )
        calls = [option.calls_at() for option in plan.options]
        regret = [option.regret_at() for option in plan.options]
        _map(rows["map"], plan, calls, regret)
        _intervals(rows["calls"], plan, calls, "reward calls")
        _intervals(rows["regret"], plan, regret, "regret")
        rows["regret"].tick_params(labelleft=False)
    return figure


def colours(plan: Plan) -> list[str]:
    """A colour for each option, the same for all tolerances of a learner."""
    names = list(dict.fromkeys(option.name for option in plan.options))
    palette = figures.COLOURS
    return [palette[names.index(option.name) % len(palette)] for option in plan.options]


def _map(axes: "Axes", plan: Plan, calls: Sequence[Summary], regret: Sequence[Summary]) -> None:
    for number, (x, y, colour) in enumerate(zip(calls, regret, colours(plan), strict=True)):
        axes.plot([x.low, x.high], [y.mean, y.mean], color=colour, alpha=0.35, linewidth=1, zorder=2)
        axes.plot([x.mean, x.mean], [y.low, y.high], color=colour, alpha=0.35, linewidth=1, zorder=2)
        axes.plot(x.mean, y.mean, "o", color=colour, markersize=6, zorder=4 - number / 100)
    path = [(option.calls_at().mean, option.regret_at().mean) for option in plan.frontier]
    axes.plot(*zip(*path, strict=True), "k:", drawstyle="steps-post", linewidth=1.3, zorder=3)
    axes.plot(*zip(*path, strict=True), "o", markersize=11, fillstyle="none", color="black", zorder=3)
    _scale(axes, "x", calls, "reward calls")
    _scale(axes, "y", regret, f"regret after {plan.rounds:,} rounds")
    axes.set_title("What the calls buy: means (numbered below), intervals as bars, the frontier ringed")
    _numbers(axes, np.array([(x.mean, y.mean) for x, y in zip(calls, regret, strict=True)]))


def _intervals(axes: "Axes", plan: Plan, found: Sequence[Summary], label: str) -> None:
    labels, stars = [], {option: " ◂ frontier" for option in plan.frontier}
    for place, (option, summary, colour) in enumerate(zip(plan.options, found, colours(plan), strict=True)):
        axes.plot([summary.low, summary.high], [place, place], color=colour, linewidth=2.5, alpha=0.5)
        axes.plot(summary.mean, place, "o", color=colour, markersize=6)
        axes.plot(summary.median, place, "|", color="black", markersize=9)
        labels.append(f"{option.label}{stars.get(option, '')}  {place + 1}")
    axes.set_yticks(range(len(found)), labels)
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.set_title(f"{label.capitalize()}: mean, median, {plan.coverage:.0%} interval")
    _scale(axes, "x", found, label)


def _scale(axes: "Axes", which: str, found: Sequence[Summary], label: str) -> None:
    """Choose a scale that shows the small and the large, zero included, and say which."""
    values = [value for summary in found for value in (summary.low, summary.mean, summary.high)]
    positive = [value for value in values if value > 0]
    top = max(positive, default=1.0)
    least = max(min(positive, default=1.0), top / 10**DECADES)
    limits = (-0.03 * top, 1.05 * top)
    axis: Any = getattr(axes, f"{which}axis")
    if top > WIDE * least:
        label += ", log scale"
        set_scale = getattr(axes, f"set_{which}scale")
        if min(values) < least:
            start = 10 ** np.floor(np.log10(least))
            set_scale("symlog", linthresh=start, linscale=0.5)
            limits = (-0.3 * start, 1.3 * top)
        else:
            set_scale("log")
            limits = (least / 1.3, 1.3 * top)
        few = top < 100 * least  # powers of ten: one or two, too few to read the others from
        axis.get_major_locator().set_params(subs=(1, 2, 5) if few else (1,))
        axis.set_minor_formatter("")
    axes.set(**{f"{which}lim": limits, f"{which}label": label})
    axis.set_major_formatter("{x:,.10g}")


def _numbers(axes: "Axes", points: np.ndarray) -> None:
    """Write the options' numbers beside their points (n, 2), once where several stand together."""
    shares = (axes.transScale + axes.transLimits).transform(points)
    near = (np.abs(shares[:, None] - shares) < NEAR).all(axis=2)
    groups, group_of = connected_components(near)
    taken = shares
    for group in range(groups):
        members = np.flatnonzero(group_of == group)
        last = max(members, key=lambda number: tuple(shares[number]))
        text = _listed((members + 1).tolist())
        size = np.array([0.012 + 0.004 * len(text), 0.03])
        spots = shares[last] + OFFSETS * size * (1, 4 / 3)
        gaps = (np.abs(spots[:, None] - taken) / size).max(axis=2).min(axis=1)
        best = spots[np.minimum(gaps, 2.0).argmax()]
        taken = np.vstack([taken, best])
        axes.annotate(text, best, xycoords="axes fraction", ha="center", va="center", fontsize=9, zorder=6)


def _listed(numbers: list[int]) -> str:
    """1, 2, 3, 5 as 1–3, 5."""
    starts = [number for number in numbers if number - 1 not in numbers]
    ends = [number for number in numbers if number + 1 not in numbers]
    return ", ".join(f"{a}–{b}" if a < b else f"{a}" for a, b in zip(starts, ends, strict=True))


def headline(plan: Plan) -> str:
    """The plan in a sentence or two, from its numbers."""
    if plan.answers:
        return " ".join(plan.answers)
    return f"On the frontier, by mean calls and mean regret: {'; '.join(o.label for o in plan.frontier)}."


def write(plan: Plan, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write plan.png and plan.html into a folder, which is made if needed; return both paths."""
    drawn, best = draw(plan), [plan.options.index(option) for option in plan.frontier]
    caption = (
        f"Above: mean regret against mean reward calls after {plan.rounds:,} rounds; lower and further left is "
        f"better; bars are prediction intervals ({plan.coverage:.0%}) over {plan.worlds} worlds drawn from the log's "
        "posterior. Below: the same intervals option by option; a dot is a mean, a stroke a median."
    )
    parts = [
        page.paragraph(headline(plan), kind="lead"),
        page.table(HEADER, plan.rows(), emphasised=best),
        page.figure(figures.to_svg(drawn), caption),
        page.heading("What this rests on"),
        *(page.paragraph(text, kind="note") for text in plan.assumptions),
    ]
    title = "sparing: how many reward calls it will take"
    return page.write_report(folder, "plan", drawn, title=title, parts=parts)
