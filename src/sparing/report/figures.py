"""How our figures look, and the ways they leave the house."""

import io
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.archive import replacing
from sparing.errors import require
from sparing.report.style import variable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#7f7f7f", "#0072b2", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#000000")
"""Told apart by readers with any colour vision."""

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "axes.axisbelow": True,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "svg.hashsalt": "sparing",
    "svg.fonttype": "none",
    "figure.dpi": 100,
}


def styled() -> Any:
    """A context in which titles, legends and text are made in our style."""
    mpl = require("matplotlib", extra="report", purpose="drawing a figure")
    return mpl.rc_context(STYLE)


def blank(*, width: float, height: float) -> "Figure":
    """A figure without axes, drawn without a display."""
    with styled():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
    return figure


def panels(count: int, *, width: float = 5.2, height: float = 4.2) -> tuple["Figure", Sequence["Axes"]]:
    """A row of axes, each so wide and high."""
    figure = blank(width=width * count, height=height)
    with styled():
        return figure, list(figure.subplots(1, count, squeeze=False)[0])


def spread_out(places: np.ndarray, least: float) -> np.ndarray:
    """Places (n,) moved as little as it takes to be `least` apart, in the same order."""
    order = np.argsort(places, kind="stable")
    blocks: list[tuple[float, int]] = []  # the middle and the size of places that touch
    for place in places[order].tolist():
        middle, size = place, 1
        while blocks and blocks[-1][0] + least * (blocks[-1][1] + size) / 2 > middle:
            other, many = blocks.pop()
            middle, size = (other * many + middle * size) / (many + size), many + size
        blocks.append((middle, size))
    found = np.empty(len(places))
    found[order] = [
        middle + least * (number - (size - 1) / 2) for middle, size in blocks for number in range(size)
    ]
    return found


def save_png(
    figure: "Figure",
    path: str | os.PathLike[str],
    *,
    dpi: int = 144,
    entries: Mapping[str, str] | None = None,
) -> None:
    """Write a figure as PNG with text entries, whole or not at all; a palette of 256 colours makes it a third of the size."""
    from PIL import Image, PngImagePlugin

    told = PngImagePlugin.PngInfo()
    for name, text in (entries or {}).items():
        told.add_text(name, text)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    with replacing(path) as part, Image.open(buffer) as drawn:
        few = drawn.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        few.save(part, format="png", optimize=True, pnginfo=told)


def to_svg(figure: "Figure", alternative: str = "") -> str:
    """A figure as an SVG element for a page, whose ink and type it takes; with a text that says what is to be seen.

    Its names are its own: two figures on a page do not share clips and marks.
    """
    with styled():
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    own = f"f{zlib.crc32(text.encode()):08x}-"
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{own}", text)
    text = re.sub(r"font-family: [^;\"]*", "font-family: system-ui, sans-serif", text)
    text = re.sub(r"((?:fill|stroke): )(#[0-9a-f]{6})", lambda found: found[1] + variable(found[2]), text)
    spoken = f' role="img" aria-label="{escape(alternative or "figure; the caption says what it shows")}"'
    return text.replace("<svg", f"<svg{spoken}", 1)
