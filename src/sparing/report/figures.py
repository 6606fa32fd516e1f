"""Figures: the colours and the style sheet of pages, and Matplotlib drawings as PNG and SVG."""

import io
import os
import re
import textwrap
import zlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.archive import replacing
from sparing.errors import require
from sparing.report.text import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


DARK = {
    "#000000": "#e6e6e6",
    "#ffffff": "#16181b",
    "#e4e4e4": "#35393f",
    "#f4f4f4": "#212429",
    "#777777": "#9a9a9a",
    "#7f7f7f": "#9a9a9a",
    "#332288": "#a99cff",
    "#0072b2": "#4c9fe6",
    "#d55e00": "#ff8a4c",
    "#e69f00": "#ffc04d",
    "#009e73": "#3fcfa4",
    "#cc79a7": "#e59cc4",
    "#56b4e9": "#a5daf8",
    "#c44e00": "#ff8a4c",
    "#9a6a00": "#e0b040",
    "#00805d": "#3fcfa4",
    "#b0578a": "#e59cc4",
    "#2a7aa8": "#a5daf8",
}
"""Colours of figures in the light scheme, and their replacements in the dark one."""

LEGEND_ROOM = 4.0
"""Width of axes in inches from which a legend below them has two columns, and a title is in the middle."""


def variable(colour: str) -> str:
    """Return a CSS colour that follows the page's scheme, if the palette has it."""
    return f"var(--c{colour[1:]},{colour})" if colour in DARK else colour


def scheme() -> str:
    return "".join(f"--c{light[1:]}:{dark};" for light, dark in DARK.items())


# Distinguishable with any colour vision.
COLOURS = ("#7f7f7f", "#0072b2", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#000000")

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
    """Return a context manager that sets the figure style."""
    mpl = require("matplotlib", extra="report", purpose="drawing a figure")
    return mpl.rc_context(STYLE)


def empty_figure(*, width: float, height: float) -> "Figure":
    """Return a figure without axes that needs no display."""
    with styled():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
    return figure


def panels(count: int, *, width: float = 5.2, height: float = 4.2) -> tuple["Figure", Sequence["Axes"]]:
    """Return a figure with a row of axes, each of this size in inches."""
    figure = empty_figure(width=width * count, height=height)
    with styled():
        return figure, list(figure.subplots(1, count, squeeze=False)[0])


def axes_or_new(axes: "Axes | None") -> "Axes":
    """Return the axes, or those of a new figure, which a notebook shows; they follow Matplotlib's style."""
    plt = require("matplotlib.pyplot", extra="report", purpose="plotting")
    made: Axes = plt.subplots(layout="constrained")[1] if axes is None else axes
    return made


def ink(axes: "Axes", colour: str) -> str:
    """Return a colour of the palette as it can be seen on these axes: on dark ones its replacement."""
    return DARK.get(colour, colour) if is_dark(axes) else colour


def is_dark(axes: "Axes") -> bool:
    from matplotlib.colors import to_rgba

    *colour, opacity = to_rgba(axes.get_facecolor())
    if not opacity:
        colour = list(to_rgba(axes.figure.get_facecolor())[:3])
    return float(np.dot(colour, (0.2126, 0.7152, 0.0722))) < 0.4


def plain_text(text: object, most: int = 40) -> str:
    """Return a label of a log as Matplotlib shows it: on one line, cut, and never read as mathematics."""
    shown = " ".join(str(text).split())
    shown = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in shortened(shown, most)
    )
    return shown.replace("$", r"\$").lstrip("_") or "–"


def bars_of(axes: "Axes", names: Sequence[object]) -> np.ndarray:
    """Name rows of axes from the top; return their places (n,)."""
    places = np.arange(len(names))
    axes.set_yticks(places, labels=[plain_text(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    return places


def _wrapped(text: str, room: float, size: Any) -> list[str]:
    """Lines of at most `room` inches in letters of `size` points, which are half as wide as high and a little more.

    A number stays with its percent sign.
    """
    return textwrap.wrap(text.replace(" %", "\N{NO-BREAK SPACE}%"), max(12, int(room * 72 / (0.56 * size))))


def label_below(axes: "Axes", text: str) -> None:
    """Label the horizontal axis in lines that stay in a narrow figure, also beside long names of rows."""
    size, room = axes.xaxis.label.get_fontsize(), axes.bbox.width / axes.figure.dpi
    lines = _wrapped(text, room, size)
    long = len(_wrapped(text, room / 2, size)) > 1
    axes.set_xlabel("\n".join(lines), loc="right" if long else "center")


def label_left(axes: "Axes", text: str) -> None:
    """Label the vertical axis in lines that are no longer than it is."""
    room = axes.bbox.height / axes.figure.dpi
    axes.set_ylabel("\n".join(_wrapped(text, room, axes.yaxis.label.get_fontsize())))


def title_above(axes: "Axes", text: str) -> None:
    """Give axes a title in lines that stay in a narrow figure."""
    size, room = axes.title.get_fontsize(), axes.bbox.width / axes.figure.dpi
    right_aligned = room < LEGEND_ROOM and len(_wrapped(text, room / 2, size)) > 1
    place: Any = {"x": 1.0, "ha": "right"} if right_aligned else {}
    axes.set_title("\n".join(_wrapped(text, room, size)), **place)


def legend_below(axes: "Axes", **given: Any) -> None:
    """Put the legend under the label of the horizontal axis, in two columns where there is room."""
    wide = axes.bbox.width / axes.figure.dpi >= LEGEND_ROOM
    further = axes.get_xlabel().count("\n") * 1.3 * float(axes.xaxis.label.get_fontsize()) / 72
    low = 0.14 if wide else 0.22
    place = (0.5 if wide else 1.0, -low - further * axes.figure.dpi / axes.bbox.height)
    loc = "upper center" if wide else "upper right"
    look: Any = {"loc": loc, "bbox_to_anchor": place, "ncols": 2 if wide else 1}
    axes.legend(**look, **given)


def spread_out(places: np.ndarray, least: float) -> np.ndarray:
    """Move places (n,) as little as possible so that they are `least` apart, in the same order."""
    from scipy.optimize import isotonic_regression  # slow to import

    order, steps = np.argsort(places, kind="stable"), least * np.arange(len(places))
    found = np.empty(len(places))
    found[order] = isotonic_regression(places[order] - steps).x + steps
    return found


def save_png(
    figure: "Figure",
    path: str | os.PathLike[str],
    *,
    dpi: int = 144,
    entries: Mapping[str, str] | None = None,
) -> None:
    """Write a figure as PNG with text entries, atomically; 256 colours reduce it to a third of the size."""
    from PIL import Image, PngImagePlugin

    entries_chunk = PngImagePlugin.PngInfo()
    for name, text in (entries or {}).items():
        entries_chunk.add_text(name, text)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    with replacing(path) as part, Image.open(buffer) as drawn:
        few = drawn.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        few.save(part, format="png", optimize=True, pnginfo=entries_chunk)


def to_svg(figure: "Figure", alternative: str = "") -> str:
    """Return a figure as an SVG element with an alternative text; it uses the page's font and colours.

    Ids are unique, so that several figures can be on a page.
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
