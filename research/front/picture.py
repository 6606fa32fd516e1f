"""Draw the front page's picture, for light pages and for dark ones."""

import hashlib
import io
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from research.front.numbers import short, shown, text
from research.front.setting import ALONE, COLD, OURS, SURE, WARM
from research.paper.experiment import Record
from sparing.archive import replacing
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
    "Gemini": "the best, and far dearer",
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
    ALONE: "the log alone",
    OURS: "economical",
    SURE: "confident",
    WARM: "LinUCB after the log",
    COLD: "LinUCB, no log",
}
NEAR = {"": 0.0034, "-narrow": 0.0044}
"""Names this close to each other would touch."""

MARKS = {ALONE: "s", OURS: "o", SURE: "D", WARM: "^", COLD: "v"}


def digest(found: Record) -> str:
    """What tells these numbers from any others."""
    return hashlib.sha256(text(found).encode()).hexdigest()


def save(found: Record, folder: Path) -> Iterator[Path]:
    """Write the pictures, each with the digest of its numbers."""
    from PIL import Image, PngImagePlugin

    told = PngImagePlugin.PngInfo()
    told.add_text(NUMBERS, digest(found))
    for scheme, shape in itertools.product(SCHEMES, SHAPES):
        buffer, path = io.BytesIO(), folder / f"calls-saved-{scheme.name}{shape}.png"
        drawn(found, scheme, shape).savefig(buffer, format="png", dpi=DPI, facecolor=scheme.page)
        with replacing(path) as part, Image.open(buffer) as picture:
            few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
            few.save(part, format="png", optimize=True, pnginfo=told)
        yield path


def headline(found: Record) -> str:
    """The point in one line, from the numbers: ours beside who asks always after the same log, in all three panels."""
    places = shown(found)
    shares = [100 * place["means"][OURS]["calls"]["value"] / found["rounds"] for place in places]
    less = [place["economical less"][WARM]["reward"] for place in places]
    word = "more than" if all(one["low"] > 0 for one in less) else "less than"
    if word == "less than" and any(one["high"] >= 0 for one in less):
        word = "about as much as"
    return f"Judging {min(shares):.0f} to {max(shares):.0f} % of the answers earns {word} judging them all"


def drawn(found: Record, scheme: Scheme, shape: str = "") -> "Figure":
    """Three panels, one for each model that the log never tried."""
    width, height = SHAPES[shape]
    title = headline(found) if not shape else headline(found).replace(" earns", "\nearns")
    figure = figures.blank(width=width, height=height)
    with figures.styled():
        axes = figure.subplots(*((3, 1) if shape else (1, 3)), sharex=True, sharey=True)
    figure.suptitle(
        title, x=0.012, ha="left", color=scheme.text, fontsize=11 if shape else 12.5, fontweight="bold"
    )
    for axis, place in zip(axes, shown(found), strict=True):
        axis.set_facecolor(scheme.page)
        _panel(axis, place, found["rounds"], scheme, NEAR[shape])
    told = {"color": scheme.soft, "fontsize": 9}
    figure.supylabel("earned per prompt: quality less cost", **told)
    figure.supxlabel(f"answers judged, and paid for, of {found['rounds']:,}", **told)
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
    box = {"facecolor": scheme.page, "edgecolor": "none", "pad": 0.6}
    _always(axis, means, colours, near, box)
    _sparing(axis, means, rounds, colours, near, box)
    _frame(axis, place, scheme)


def _always(axis: "Axes", means: Record, colours: dict[str, str], near: float, box: Record) -> None:
    """Name those on the right, who pay for every answer, beside their marks; one above and one below if they are near."""
    heights = {name: means[name]["reward"]["value"] for name in (WARM, COLD)}
    touching = abs(heights[WARM] - heights[COLD]) < near
    for name, shift in ((WARM, 6), (COLD, -6)):
        axis.annotate(
            LABELS[name],
            (100, heights[name]),
            xytext=(-8, shift if touching else 0),
            textcoords="offset points",
            ha="right",
            va="center",
            bbox=box,
            fontsize=9,
            color=colours[name],
        )


def _sparing(
    axis: "Axes", means: Record, rounds: int, colours: dict[str, str], near: float, box: Record
) -> None:
    """Name those on the left in a column, in the order of their height, with a line to each mark."""
    left = sorted((ALONE, OURS, SURE), key=lambda name: -means[name]["reward"]["value"])
    heights = _apart([means[name]["reward"]["value"] for name in left], near)
    for name, height in zip(left, heights, strict=True):
        calls, reward = means[name]["calls"]["value"], means[name]["reward"]["value"]
        axis.annotate(
            f"{LABELS[name]}, {calls:,.0f} judged" if calls else LABELS[name],
            (100 * calls / rounds, reward),
            xytext=(19, height),
            ha="left",
            va="center",
            bbox=box,
            fontsize=9.5 if name == OURS else 9,
            fontweight="bold" if name == OURS else "normal",
            color=colours[name],
            arrowprops={"arrowstyle": "-", "color": colours[name], "lw": 0.8, "shrinkA": 1, "shrinkB": 3},
        )


def _apart(heights: list[float], near: float) -> list[float]:
    """Heights from the top down, moved so that no two are nearer than `near`."""
    placed = [heights[0] + (near if heights[0] - heights[1] < near else 0)]
    for height in heights[1:]:
        placed.append(min(height, placed[-1] - near))
    return placed


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
