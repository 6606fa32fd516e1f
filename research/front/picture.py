"""Draw the front page's picture, for light pages and for dark ones."""

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from research.front.numbers import short, shown, text
from research.front.setting import ALONE, COLD, OURS, SURE, WARM
from research.paper.experiment import Record
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHAPES = {"": (8.0, 4.0), "-narrow": (3.9, 8.8)}
"""Inches of the picture, panels side by side, and of the one for a phone, panels one below the other."""

DPI = 200
"""Twice as many as it is shown with."""

NUMBERS = "Numbers"
"""The picture's own entry with the SHA-256 of the numbers that it was drawn from."""

PLACES = {
    "Llama": "the cheapest of the three",
    "Mistral": "cheap, and nearly the best",
    "Gemini": "the best, at a far higher price",
}


@dataclass(frozen=True)
class Scheme:
    """Colours on a page of a kind: the page, ours, the others who ask, text, and faint lines.

    The page's own is painted, so that the picture can be read on a page of the other kind too.
    """

    name: str
    page: str
    ours: str
    sure: str
    always: str
    text: str
    soft: str
    faint: str


SCHEMES = (
    Scheme("light", "#ffffff", "#00785a", "#0b63b0", "#b4500a", "#1f2328", "#59636e", "#d8dde3"),
    Scheme("dark", "#0d1117", "#3fd6a2", "#6cb6ff", "#f0934e", "#e6edf3", "#9aa4af", "#353c45"),
)

LABELS = {
    ALONE: "the offline policy",
    OURS: "economical",
    SURE: "confident",
    WARM: "LinUCB after the log",
    COLD: "LinUCB, no log",
}
NEAR = {"": 0.0034, "-narrow": 0.0044}
"""Names this close to each other would touch."""

MARKS = {ALONE: "s", OURS: "o", SURE: "D", WARM: "^", COLD: "v"}


def digest(found: Record) -> str:
    """SHA-256 of the numbers."""
    return hashlib.sha256(text(found).encode()).hexdigest()


def save(found: Record, folder: Path) -> Iterator[Path]:
    """Write the pictures, each with the digest of its numbers."""
    for scheme, shape in itertools.product(SCHEMES, SHAPES):
        path = folder / f"calls-saved-{scheme.name}{shape}.png"
        figures.save_png(drawn(found, scheme, shape), path, dpi=DPI, entries={NUMBERS: digest(found)})
        yield path


def headline(found: Record) -> str:
    """The point in one line, from the numbers: ours and LinUCB after the same log, in all three panels."""
    places = shown(found)
    shares = [100 * place["means"][OURS]["calls"]["value"] / found["rounds"] for place in places]
    less = [place["economical less"][WARM]["reward"] for place in places]
    word = "more than" if all(one["low"] > 0 for one in less) else "less than"
    if word == "less than" and any(one["high"] >= 0 for one in less):
        word = "about as much as"
    return f"Paying for {min(shares):.0f} to {max(shares):.0f} % of the rewards earns {word} paying for all"


def drawn(found: Record, scheme: Scheme, shape: str = "") -> "Figure":
    """Three panels, one for each model that the log never tried."""
    width, height = SHAPES[shape]
    title = headline(found) if not shape else headline(found).replace(" earns", "\nearns")
    figure = figures.empty_figure(width=width, height=height)
    figure.set_facecolor(scheme.page)
    with figures.styled():
        axes = figure.subplots(*((3, 1) if shape else (1, 3)), sharex=True, sharey=True)
    figure.suptitle(
        title, x=0.012, ha="left", color=scheme.text, fontsize=11 if shape else 12.5, fontweight="bold"
    )
    for axis, place in zip(axes, shown(found), strict=True):
        axis.set_facecolor(scheme.page)
        _panel(axis, place, found["rounds"], scheme, NEAR[shape])
    style = {"color": scheme.soft, "fontsize": 9}
    figure.supylabel("earned per prompt: quality less cost", **style)
    figure.supxlabel(f"reward calls, of {found['rounds']:,}", **style)
    return figure


def _panel(axis: "Axes", place: Record, rounds: int, scheme: Scheme, near: float) -> None:
    colours = {
        ALONE: scheme.soft,
        OURS: scheme.ours,
        SURE: scheme.sure,
        WARM: scheme.always,
        COLD: scheme.always,
    }
    means = place["means"]
    for name, colour in colours.items():
        calls, reward = means[name]["calls"], means[name]["reward"]
        x = 100 * calls["value"] / rounds
        axis.errorbar(
            x,
            reward["value"],
            yerr=[[reward["value"] - reward["low"]], [reward["high"] - reward["value"]]],
            xerr=[[x - 100 * calls["low"] / rounds], [100 * calls["high"] / rounds - x]],
            color=colour,
            marker=MARKS[name],
            markersize=9 if name == OURS else 6.5,
            elinewidth=1.2,
            zorder=4 if name == OURS else 3,
            clip_on=False,
        )
    _name(axis, means, rounds, colours, near, scheme.page)
    _frame(axis, place, scheme)


def _name(axis: "Axes", means: Record, rounds: int, colours: dict[str, str], near: float, page: str) -> None:
    """Name those who pay for every reward next to their marks, the others in a column with a line to each mark."""
    heights = figures.spread_out(np.array([means[name]["reward"]["value"] for name in colours]), near)
    for (name, colour), height in zip(colours.items(), heights, strict=True):
        calls, reward = means[name]["calls"]["value"], means[name]["reward"]["value"]
        always = calls == rounds
        line = {"arrowstyle": "-", "color": colour, "lw": 0.8, "shrinkA": 1, "shrinkB": 3}
        axis.annotate(
            LABELS[name] if always or not calls else f"{LABELS[name]}, {calls:,.0f} calls",
            (100 * calls / rounds, reward),
            xytext=(95 if always else 19, height),
            ha="right" if always else "left",
            va="center",
            bbox={"facecolor": page, "edgecolor": "none", "pad": 0.6},
            fontsize=9.5 if name == OURS else 9,
            fontweight="bold" if name == OURS else "normal",
            color=colour,
            arrowprops=None if always else line,
        )


def _frame(axis: "Axes", place: Record, scheme: Scheme) -> None:
    model = short(place)
    axis.set_title(f"The new model is {model}\n", loc="left", fontsize=11, color=scheme.text)
    axis.text(0, 1.03, PLACES[model], transform=axis.transAxes, fontsize=9, color=scheme.soft)
    axis.set_xlim(-2, 103)
    axis.set_ylim(0.884, 0.9275)
    axis.set_xticks([0, 50, 100], ["0", "50", "100 %"])
    axis.set_yticks([0.89, 0.90, 0.91, 0.92], ["0.89", "0.90", "0.91", "0.92"])
    axis.tick_params(colors=scheme.soft, labelsize=9, length=0)
    axis.grid(axis="y", color=scheme.faint, linewidth=0.7)
    axis.grid(visible=False, axis="x")
    for side in ("left", "bottom"):
        axis.spines[side].set_color(scheme.faint)
