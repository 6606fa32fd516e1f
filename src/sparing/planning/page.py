"""A plan's figure and page: what to ask for, and the frontier of calls against regret."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.planning import wording
from sparing.planning.result import Option, Plan
from sparing.report import figures, page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AROUND = np.array([[0, 1], [0, -1], [1, 1], [-1, 1], [1, -1], [-1, -1], [1, 0], [-1, 0]])
"""Where a name may stand, seen from its point; of equally free places the first is taken."""

POINT = np.array([0.014, 0.018])
"""Half the width and height that a point takes, as shares of the axes,"""

LETTER = np.array([0.0076, 0.017])
"""and what a letter of a name does."""

DOTS = 20
"""Dots that stand for a line between two points."""

WIDE = 8.0
"""An axis whose numbers span more than this factor is logarithmic,"""

DECADES = 4
"""over at most about so many powers of ten; below them it is linear down to zero."""

MARKS = "*os^Dvp"
"""A mark for the log alone and for each learner, so that colour is not all that tells them apart."""

COLOURS = ("#000000", "#0072b2", "#c44e00", "#9a6a00", "#00805d", "#b0578a", "#2f86b8")
"""As figures.COLOURS, dark enough for words on white."""


def draw(plan: Plan) -> "Figure":
    """Mean regret against mean calls, a line for each learner through its prices or tolerances, the log alone a point.

    Narrow, so that it can be read on a phone too.
    """
    figure = figures.blank(width=5.6, height=5.0)
    with figures.styled():
        axes = figure.add_subplot()
        for place, (name, options) in enumerate(series(plan).items()):
            look: Any = {"color": COLOURS[place], "marker": MARKS[place], "markersize": 6 if place else 11}
            shown = name if place else None  # the log alone is named on the spot
            axes.errorbar(*_means(options), yerr=_errors(options), label=shown, linewidth=1.3, **look)
        if plan.chosen is not None:
            axes.plot(*_means([plan.chosen]), "o", color=COLOURS[0], fillstyle="none", markersize=14)
        (calls, regret), errors = _means(plan.options), _errors(plan.options)
        _scale(axes, "x", calls, calls, "rewards asked for")
        top = [mean + error for mean, error in zip(regret, errors, strict=True)]
        _scale(axes, "y", regret, top, f"regret after {plan.horizon:,} rounds, in reward units")
        figure.legend(loc="outside lower center", ncols=3)
        _name_points(axes, plan, dict(zip(series(plan), COLOURS, strict=False)))
    return figure


def series(plan: Plan) -> dict[str, list[Option]]:
    """The options of each learner, by growing price or tolerance; the log alone comes first."""
    found: dict[str, list[Option]] = {}
    for option in plan.options:
        found.setdefault(option.name, []).append(option)
    return found


def _means(options: Sequence[Option]) -> tuple[list[float], list[float]]:
    return [option.calls_at().mean for option in options], [option.regret_at().mean for option in options]


def _errors(options: Sequence[Option]) -> list[float]:
    return [option.regret_at().error for option in options]


def _scale(axes: "Axes", which: str, values: list[float], tops: list[float], label: str) -> None:
    """Choose a scale that shows the small and the large up to their tops, zero included, and say which."""
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
        few = top < 30 * least  # powers of ten: one or two, too few to read the others from
        axis.get_major_locator().set_params(subs=(1, 2, 5) if few else (1,))
        axis.set_minor_formatter("")
    axes.set(**{f"{which}lim": limits, f"{which}label": label})
    axis.set_major_formatter("{x:,.10g}")


def _name_points(axes: "Axes", plan: Plan, colours: dict[str, str]) -> None:
    """Write beside each point what it is, where it is in the way of as little as may be."""
    low, shares, high = _bars(axes, plan)
    middles, bars = (low + high) / 2, np.maximum((high - low) / 2, POINT)
    names = [option.name for option in plan.options]
    ends = [place for place in range(1, len(names)) if names[place] == names[place - 1]]
    lines = np.array([np.linspace(shares[end - 1], shares[end], DOTS) for end in ends]).reshape(-1, 2)
    centres, halves = np.vstack([middles, lines]), np.vstack([bars, np.tile(POINT / 4, (len(lines), 1))])
    for option, share, middle, bar in zip(plan.options, shares, middles, bars, strict=True):
        text = option.label if option is plan.alone else option.setting  # the legend names the learner
        half = LETTER * (len(text), 1)
        spots = np.where(AROUND[:, :1], share + AROUND * (half + POINT), middle + AROUND * (half + bar))
        common = half + halves - np.abs(spots[:, None] - centres)  # how far boxes reach into each other
        covered = np.clip(common, 0, None).prod(axis=2).sum(axis=1)
        outside = np.clip(np.abs(spots - 0.5) + half - 0.5, 0, None).sum(axis=1)
        best = spots[(covered + outside).round(4).argmin()]
        centres, halves = np.vstack([centres, best]), np.vstack([halves, half])
        look: Any = {
            "ha": "center",
            "va": "center",
            "fontsize": 9,
            "color": colours[option.name],
            "zorder": 6,
        }
        axes.annotate(text, best, xycoords="axes fraction", **look)


def _bars(axes: "Axes", plan: Plan) -> Any:
    """The lower ends, the points and the upper ends of the bars, as shares of the axes, (n, 2) each."""
    (calls, regret), errors = map(np.array, _means(plan.options)), np.array(_errors(plan.options))
    inside, placed = axes.get_ylim()[0], axes.transScale + axes.transLimits
    return (
        placed.transform(np.column_stack([calls, (regret + side * errors).clip(inside)]))
        for side in (-1, 0, 1)
    )


def write(plan: Plan, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write plan.png and plan.html into a folder, which is made if needed; return both paths."""
    drawn, best = draw(plan), [plan.options.index(option) for option in plan.frontier]
    caption = (
        f"Mean regret against the mean number of rewards asked for in {plan.horizon:,} rounds, over {plan.worlds} worlds drawn "
        "from the log's posterior; lower and further left is better. Beside a point stands the price of a reward, or the "
        "tolerance τ; bars are standard errors of the regret."
        + (" The ring is what is advised." if plan.chosen else "")
    )
    parts = [
        page.paragraph(plan.sentence, kind="headline"),
        page.figure(figures.to_svg(drawn), caption),
        page.table(wording.header(plan), wording.rows(plan), emphasised=best, numbers=True),
        page.paragraph(
            f"Means and {plan.coverage:.0%} prediction intervals of calls and regret; gain over the log alone ± its standard "
            "error. Rewards, regret, gain and price have the same unit.",
            kind="note",
        ),
        *(page.paragraph(text) for text in plan.answers),
        page.heading("What this rests on"),
        *(page.paragraph(text, kind="note") for text in plan.assumptions),
    ]
    title = "sparing: how many rewards to ask for"
    return page.write_report(folder, "plan", drawn, title=title, parts=parts)
