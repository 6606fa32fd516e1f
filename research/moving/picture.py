"""Draw the pictures, for light pages and for dark ones, so that a phone shows them readably too."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from research.front.picture import DPI, NUMBERS, SCHEMES, Scheme, digest
from research.moving.numbers import CUT, TRADED, WATCHED
from research.paper.experiment import Record
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 4.4, 3.2
"""Inches; 360 pixels of a phone show four fifths of that."""

NAMES = (CUT, TRADED, WATCHED)


def save(found: Record, folder: Path) -> Iterator[Path]:
    """Write the pictures, each with the digest of its numbers."""
    for name, scheme in itertools.product(NAMES, SCHEMES):
        path = folder / f"moving-{name}-{scheme.name}.png"
        figures.save_png(drawn(found, name, scheme), path, dpi=DPI, entries={NUMBERS: digest(found)})
        yield path


def drawn(found: Record, name: str, scheme: Scheme) -> "Figure":
    """One of the pictures."""
    figure = figures.empty_figure(width=WIDTH, height=HEIGHT)
    figure.set_facecolor(scheme.page)
    with figures.styled():
        axes = figure.subplots()
    axes.set_facecolor(scheme.page)
    {CUT: _cut, TRADED: _traded, WATCHED: _watched}[name](axes, found, scheme)
    axes.tick_params(colors=scheme.soft, labelsize=9, length=0)
    axes.grid(axis="y", color=scheme.faint, linewidth=0.7)
    axes.grid(visible=False, axis="x")
    for side in ("left", "bottom"):
        axes.spines[side].set_color(scheme.faint)
    return figure


def _cut(axes: "Axes", found: Record, scheme: Scheme) -> None:
    stretch, runs = found["setting"]["stretch"], found[CUT]
    middles = stretch * (np.arange(len(runs["auto"]["mean"])) + 0.5)
    best = found["best"]["mean"]
    axes.plot(middles, best, color=scheme.soft, linewidth=1.2, linestyle=(0, (4, 2)))
    _line(axes, middles, runs["none"], scheme.always, scheme)
    _line(axes, middles, runs["auto"], scheme.ours, scheme)
    last = middles[-1]
    _name(axes, last, float(np.mean(best)) + 0.03, "best model after the change", scheme.soft)
    _name(axes, last, float(np.mean(runs["auto"]["mean"][-8:])) - 0.05, 'shift="auto"', scheme.ours)
    _name(axes, last, float(np.mean(runs["none"]["mean"][-8:])) + 0.05, "without", scheme.always)
    axes.set_ylim(0.35, 1.0)
    axes.set_xlim(0, None)
    title = "Half of a model's quality is lost after the log"
    _words(axes, scheme, title, "prompts since the log", "quality less cost of a prompt")


def _traded(axes: "Axes", found: Record, scheme: Scheme) -> None:
    stretch, runs = found["setting"]["long_stretch"], found[TRADED]
    never, fades = (str(how) for how in found["setting"]["half_lives"])
    count = len(runs[never]["mean"])
    middles = stretch * (np.arange(count) + 0.5)
    _line(axes, middles, runs[never], scheme.always, scheme)
    _line(axes, middles, runs[fades], scheme.ours, scheme)
    end = middles[-1]
    top = 1.05 * max(max(curve["high"]) for curve in runs.values())
    _name(axes, end, runs[never]["mean"][-1] + 0.08 * top, "forgets nothing", scheme.always)
    _name(axes, end, runs[fades]["mean"][-1] - 0.08 * top, f"half-life {int(fades):,} rounds", scheme.ours)
    axes.axvline(stretch * count / 2, color=scheme.soft, linewidth=1, linestyle=(0, (1, 2)))
    axes.set_ylim(0, top)
    axes.set_xlim(0, None)
    title = "Ten actions trade places half-way"
    _words(axes, scheme, title, "rounds", "loss per round, units of reward")


def _watched(axes: "Axes", found: Record, scheme: Scheme) -> None:
    said, wrong = found["setting"], found[WATCHED]
    looks = said["every"] * (np.arange(len(wrong["every"])) + 1)
    shares = {name: 100 * np.array(counts) / said["histories"] for name, counts in wrong.items()}
    axes.axhline(5, color=scheme.soft, linewidth=1.2, linestyle=(0, (4, 2)))
    axes.plot(looks, shares["once"], color=scheme.always, linewidth=2)
    axes.plot(looks, shares["every"], color=scheme.ours, linewidth=2)
    end = looks[-1]
    _name(axes, end, shares["once"][-1] + 3, "95 % interval for one look", scheme.always)
    _name(axes, 0.3 * end, 7.3, "5 % allowed", scheme.soft)
    _name(axes, end, 8, "dashboard: for every look", scheme.ours)
    axes.set_ylim(0, 50)
    axes.set_xlim(0, None)
    title = "Look often, and an interval for one look is wrong"
    _words(
        axes,
        scheme,
        title,
        f"decisions, with a look every {said['every']}",
        "histories wrong so far, %",
    )


def _line(axes: "Axes", x: np.ndarray, curve: Record, colour: str, scheme: Scheme) -> None:
    """A mean with where eight in ten runs are."""
    axes.fill_between(x, curve["low"], curve["high"], color=colour, alpha=0.15, linewidth=0)
    axes.plot(x, curve["mean"], color=colour, linewidth=2)


def _name(axes: "Axes", x: float, y: float, words: str, colour: str) -> None:
    axes.text(x, y, words, ha="right", va="center", fontsize=10, color=colour, fontweight="bold")


def _words(axes: "Axes", scheme: Scheme, title: str, x: str, y: str) -> None:
    axes.figure.suptitle(title, x=0.015, ha="left", fontsize=10.5, fontweight="bold", color=scheme.text)
    axes.set_xlabel(x, fontsize=10, color=scheme.soft)
    axes.set_ylabel(y, fontsize=10, color=scheme.soft)
    axes.xaxis.set_major_formatter("{x:,.0f}")
