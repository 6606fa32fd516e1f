"""A plan's figure and page: what to ask for, and the frontier of calls against regret."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.planning import wording
from sparing.planning.result import Option, Plan
from sparing.report import figures, html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AROUND = np.array(
    [
        [0, 1],
        [0, -1],
        [1, 0],
        [-1, 0],
        [1, 1],
        [-1, 1],
        [1, -1],
        [-1, -1],
        [0.5, 1],
        [-0.5, 1],
        [0.5, -1],
        [-0.5, -1],
    ]
)
"""Where a name may stand, seen from its point; of equally free places the first is taken."""

FAR = (0, 1, 2, 4)
"""How far from its point a learner's name may stand, the near first, in half widths of a point; a setting stands as near as can be."""

NAME = 5.0
"""It is so much worse to cover a name than to cover a line."""

AIR = np.array([0.5, 0.0])
"""Room that is left on both sides of a name, and none above and below, in widths of a point."""

POINT = 5.0
"""Half the width of a point and the room around it, in points of type."""

DOTS = 20
"""Dots that stand for a line between two points."""

BROAD, NARROW = (9.8, 4.8), (3.75, 4.4)
"""Width and height of the figure on a desk and on a phone, in inches."""

FREE = 0.001
"""Share of the axes that a name may cover of others, where there is not room for all."""

WIDE = 8.0
"""An axis whose numbers span more than this factor is logarithmic,"""

DECADES = 4
"""over at most about so many powers of ten; below them it is linear down to zero."""

MARKS = "*os^Dvp"
"""A mark for the log alone and for each learner, so that names and colour are not all that tells them apart."""

COLOURS = ("#000000", "#0072b2", "#c44e00", "#9a6a00", "#00805d", "#b0578a", "#2a7aa8")
"""As figures.COLOURS, dark enough for words on white."""


def draw(plan: Plan, *, narrow: bool = False) -> "Figure":
    """Mean regret against mean calls, a line for each learner through its prices or tolerances, each point named on the spot."""
    width, height = NARROW if narrow else BROAD
    figure = figures.blank(width=width, height=height)
    with figures.styled():
        axes = figure.add_subplot()
        for place, options in enumerate(series(plan).values()):
            look: Any = {"color": COLOURS[place], "marker": MARKS[place], "markersize": 6 if place else 11}
            axes.errorbar(*_means(options), yerr=_errors(options), linewidth=1.3, **look)
        if plan.chosen is not None:
            axes.plot(*_means([plan.chosen]), "o", color=COLOURS[0], fillstyle="none", markersize=14)
        (calls, regret), errors = _means(plan.options), _errors(plan.options)
        _scale(axes, "x", calls, calls, f"rewards asked for in {plan.horizon:,} rounds")
        top = [mean + error for mean, error in zip(regret, errors, strict=True)]
        _scale(axes, "y", regret, top, "regret, in the reward's unit")
        figure.draw_without_rendering()  # places the axes, so that sizes are known
        _name_points(axes, plan, all_of_them=not narrow)
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


@dataclass
class _Room:
    """What is taken: centres and half sizes of boxes, (n, 2) each, as shares of the axes; and how bad it is to cover each, (n,)."""

    centres: np.ndarray
    halves: np.ndarray
    weights: np.ndarray

    def best(self, spots: np.ndarray, half: np.ndarray) -> tuple[float, np.ndarray]:
        """Of places (s, 2) for a box the one that covers least and stands out of the axes least, and how much that is."""
        reach = half + self.halves - np.abs(spots[:, None] - self.centres)  # of boxes into each other
        covered = np.clip(reach, 0, None).prod(axis=2) @ self.weights
        outside = np.clip(np.abs(spots - 0.5) + half - 0.5, 0, None).sum(axis=1)
        cost = (covered + outside).round(4)
        return float(cost.min()), spots[cost.argmin()]

    def take(self, centre: np.ndarray, half: np.ndarray) -> None:
        """A name more."""
        self.centres, self.halves = np.vstack([self.centres, centre]), np.vstack([self.halves, half])
        self.weights = np.append(self.weights, NAME)


def _name_points(axes: "Axes", plan: Plan, *, all_of_them: bool) -> None:
    """Write beside each point what it is: the learner's name at the freest of its points, and the settings at all, or where there is room."""
    low, shares, high = _bars(axes, plan)
    point = POINT / 72 * axes.figure.dpi / np.array([axes.bbox.width, axes.bbox.height])
    middles, bars = (low + high) / 2, np.maximum((high - low) / 2, point)
    names = [option.name for option in plan.options]
    ends = [place for place in range(1, len(names)) if names[place] == names[place - 1]]
    lines = np.array([np.linspace(shares[end - 1], shares[end], DOTS) for end in ends]).reshape(-1, 2)
    halves = np.vstack([bars, np.tile(point / 4, (len(lines), 1))])
    room = _Room(np.vstack([middles, lines]), halves, np.ones(len(halves)))

    def place(text: str, number: int, colour: str, *, write: bool, far: Sequence[int] = FAR) -> float:
        """How well a text fits beside a point; it is written there if it is to be."""
        shown: Any = {"ha": "center", "va": "center", "fontsize": 9, "color": colour, "zorder": 6}
        made = axes.annotate(text, (0.5, 0.5), xycoords="axes fraction", **shown)
        box = made.get_window_extent()
        half = np.array([box.width / axes.bbox.width, box.height / axes.bbox.height]) / 2
        beside = np.abs(AROUND[:, :1]) == 1
        start, off = np.where(beside, shares[number], middles[number]), np.where(beside, point, bars[number])
        spots = np.vstack([start + AROUND * (half + off + steps * point) for steps in far])
        cost, best = room.best(spots, half)
        if write:
            made.set_position(tuple(best))
            room.take(best, half + point * AIR)
        else:
            made.remove()
        return cost

    rest = []
    for options, colour in zip(series(plan).values(), COLOURS, strict=False):
        own = {plan.options.index(option): _named(plan, option) for option in options}
        first = min(own, key=lambda number: place(own[number], number, colour, write=False))
        place(own[first], first, colour, write=True)
        rest += [(plan.options[number].setting, number, colour) for number in own if number != first]
    for text, number, colour in rest:
        if all_of_them or place(text, number, colour, write=False, far=FAR[:1]) <= FREE:
            place(text, number, colour, write=True, far=FAR[:1])


def _named(plan: Plan, option: Option) -> str:
    """A point's full name, and if it is what is advised."""
    name = f"{option.name}\n{option.setting}" if option.setting else option.name
    return f"{name}\n(advised)" if option is plan.chosen else name


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
        f"Mean regret against the mean number of rewards asked for in {plan.horizon:,} rounds, over "
        f"{wording.lived(plan)}; lower and further left is better. Beside a point stands the price of a reward, or the "
        "tolerance τ; bars are standard errors of the regret."
        + (" The ring is what is advised." if plan.chosen else "")
    )
    spoken = f"Regret against rewards asked for: {'; '.join(map(str, plan.options))}."
    narrow = figures.to_svg(draw(plan, narrow=True), spoken)
    parts = [
        html.paragraph(plan.sentence, kind="headline"),
        html.figure(figures.to_svg(drawn, spoken), caption, narrow=narrow),
        html.table(wording.header(plan), wording.rows(plan), emphasised=best, numbers=True),
        html.paragraph(
            f"Means and {plan.coverage:.0%} prediction intervals of calls and regret; gain over the log alone ± its standard "
            "error. Calls are counted; regret, gain, net and prices are in the reward's unit, over all rounds.",
            kind="note",
        ),
        *(html.paragraph(text) for text in plan.answers),
        html.heading("What this rests on"),
        *(html.paragraph(text, kind="note") for text in plan.assumptions),
    ]
    title = "sparing: how many rewards to ask for"
    return html.write_report(folder, "plan", drawn, title=title, parts=parts)
