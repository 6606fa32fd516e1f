"""The figure and page of a plan: the advice, and regret against calls for each option."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.planning import result
from sparing.planning.result import Option, Plan
from sparing.report import figures, html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OFFSETS = (
    ((7, 5), "left"),
    ((7, -13), "left"),
    ((-7, 5), "right"),
    ((-7, -13), "right"),
    ((0, 10), "center"),
)
"""Where a setting may stand next to its point, in points of type; the first place where it covers nothing is taken."""

POINT = 5.0  # half the width of a marker, in pixels
# Width and height of the figure on a wide and on a narrow screen, in inches.
BROAD, NARROW = (9.8, 4.8), (3.75, 4.4)

WIDE = 8.0  # an axis that spans more than this factor is logarithmic,
DECADES = 4  # over about so many powers of ten; below them it is linear down to zero
# A marker for the offline policy and for each learner, so that colour is not the only difference.
MARKS = "*os^Dvp"

# As figures.COLOURS, dark enough for text on white.
COLOURS = ("#000000", "#0072b2", "#c44e00", "#9a6a00", "#00805d", "#b0578a", "#2a7aa8")


def draw(plan: Plan, *, narrow: bool = False) -> "Figure":
    """Draw mean regret against mean calls, one line per learner through its prices or tolerances."""
    width, height = NARROW if narrow else BROAD
    figure = figures.empty_figure(width=width, height=height)
    with figures.styled():
        axes = figure.add_subplot()
        _lines(axes, plan, COLOURS)
        figure.legend(loc="outside lower center", ncols=2 if narrow else 4)
        figure.draw_without_rendering()  # places the axes, so that the size of a label is known
        _label_settings(axes, plan, COLOURS)
    return figure


def plot(plan: Plan, axes: "Axes | None") -> "Axes":
    """Draw the same into axes that follow Matplotlib's style."""
    found = figures.axes_or_new(axes)
    colours = [figures.ink(found, colour) for colour in COLOURS]
    _lines(found, plan, colours)
    found.legend(title=f"bars: {100 * plan.coverage:g} % intervals")
    _label_settings(found, plan, colours)
    return found


def _lines(axes: "Axes", plan: Plan, colours: Sequence[str]) -> None:
    for place, (name, options) in enumerate(series(plan).items()):
        look: Any = {"color": colours[place], "marker": MARKS[place], "markersize": 6 if place else 11}
        axes.errorbar(
            *_means(options), yerr=_intervals(options), elinewidth=0.8, linewidth=1.3, label=name, **look
        )
    if plan.chosen is not None:
        axes.plot(*_means([plan.chosen]), "o", color=colours[0], fillstyle="none", markersize=14)
    calls, regret = _means(plan.options)
    _scale(axes, "x", calls, calls, f"reward calls in {plan.horizon:,} rounds")
    tops = [option.regret_at().high for option in plan.options]
    _scale(axes, "y", regret, tops, "regret, in the reward's unit")


def series(plan: Plan) -> dict[str, list[Option]]:
    """Return the options of each learner by increasing price or tolerance; the offline policy comes first."""
    found: dict[str, list[Option]] = {}
    for option in plan.options:
        found.setdefault(option.name, []).append(option)
    return found


def _means(options: Sequence[Option]) -> tuple[list[float], list[float]]:
    return [option.calls_at().mean for option in options], [option.regret_at().mean for option in options]


def _intervals(options: Sequence[Option]) -> np.ndarray:
    """Distances from the mean regret down and up to the ends of its interval, (2, options)."""
    found = [option.regret_at() for option in options]
    return np.array([[max(each.mean - each.low, 0), max(each.high - each.mean, 0)] for each in found]).T


def _scale(axes: "Axes", which: str, values: list[float], tops: list[float], label: str) -> None:
    """Set a linear or logarithmic scale that includes zero, and add it to the label."""
    positive = [value for value in values if value > 0]
    top = max(tops) or 1.0
    least = max(min(positive, default=1.0), top / 10**DECADES)
    limits = (-0.03 * top, 1.1 * top)
    axis: Any = getattr(axes, f"{which}axis")
    if top > WIDE * least:
        label += ", log scale"
        set_scale = getattr(axes, f"set_{which}scale")
        if min(values) < least:
            start = 10 ** np.floor(np.log10(least))
            set_scale("symlog", linthresh=start, linscale=0.5)
            limits = (-0.3 * start, 1.6 * top)
        else:
            set_scale("log")
            limits = (least / 1.6, 1.6 * top)
        few = top < 30 * least  # only one or two powers of ten on the axis
        axis.get_major_locator().set_params(subs=(1, 2, 5) if few else (1,))
        axis.set_minor_formatter("")
    axes.set(**{f"{which}lim": limits, f"{which}label": label})
    axis.set_major_formatter("{x:,.10g}")


def _label_settings(axes: "Axes", plan: Plan, palette: Sequence[str]) -> None:
    """Write an option's price or tolerance next to its point, unless it would cover a point or another label."""
    from matplotlib.transforms import Bbox

    placed = axes.transData.transform(np.column_stack(_means(plan.options)))
    taken = [Bbox.from_extents(*(point - POINT), *(point + POINT)) for point in placed]
    colours = dict(zip(series(plan), palette, strict=False))
    for option in plan.options:
        text = f"{option.setting} (advised)".lstrip() if option is plan.chosen else option.setting
        for offset, side in OFFSETS if text else ():
            look: Any = {
                "textcoords": "offset points",
                "ha": side,
                "fontsize": 9,
                "color": colours[option.name],
            }
            label = axes.annotate(text, (option.calls_at().mean, option.regret_at().mean), offset, **look)
            box = label.get_window_extent()
            if axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1 and not box.count_overlaps(taken):
                taken.append(box.padded(3))
                break
            label.remove()


def write(plan: Plan, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write plan.png and plan.html into a folder, which is made if needed; return both paths."""
    drawn, best = draw(plan), [plan.options.index(option) for option in plan.frontier]
    caption = (
        f"Mean regret against the mean number of reward calls in {plan.horizon:,} rounds, over "
        f"{result.n_worlds_text(plan)}; lower and further left is better. Labels are the price of a reward, or the "
        f"tolerance τ. Bars are {plan.coverage:.0%} intervals of the regret."
        + (" The ring marks the advised option." if plan.chosen else "")
    )
    spoken = f"Regret against reward calls: {'; '.join(map(str, plan.options))}."
    narrow = figures.to_svg(draw(plan, narrow=True), spoken)
    parts = [
        html.paragraph(plan.sentence, kind="headline"),
        html.figure(figures.to_svg(drawn, spoken), caption, narrow=narrow),
        html.table(result.header(plan), result.rows(plan), emphasised=best, numbers=True),
        html.paragraph(
            f"Means and {plan.coverage:.0%} intervals of outcomes; gain is over the offline policy. Calls are counted; regret, gain, net and prices are in the reward's unit, over all rounds.",
            kind="note",
        ),
        *(html.paragraph(text) for text in (*plan.warnings, *plan.answers)),
        html.heading("What this rests on"),
        *(html.paragraph(text, kind="note") for text in plan.assumptions),
    ]
    title = "sparing: how many rewards to request"
    return html.write_report(folder, "plan", drawn, title=title, parts=parts)
