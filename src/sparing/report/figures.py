"""Figures: the colours and the style sheet of pages, and Matplotlib drawings as PNG and SVG."""

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


def variable(colour: str) -> str:
    """Return a CSS colour that follows the page's scheme, if the palette has it."""
    return f"var(--c{colour[1:]},{colour})" if colour in DARK else colour


def scheme() -> str:
    return "".join(f"--c{light[1:]}:{dark};" for light, dark in DARK.items())


CSS = f"""
:root {{ color-scheme: light dark; --paper: #fff; --ink: #1c1c1c; --soft: #555; --line: #ddd; --panel: #f5f5f5;
        --blue: #0072b2; --blue-rgb: 0 114 178; --orange: #c44e00; --amber: #b87d00; --green: #00805d; --grey: #767676; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --paper: #16181b; --ink: #e6e6e6; --soft: #b4b4b4; --line: #3a3d42; --panel: #22252a;
          --blue: #4c9fe6; --blue-rgb: 76 159 230; --orange: #ff8a4c; --amber: #e0b040; --green: #3fcfa4; --grey: #8d9299; {scheme()} }}
  figure img {{ background: #fff; border-radius: .4rem; }}
}}
"""
CSS += """
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
       max-width: 62rem; padding: 0 1.2rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .8rem; } h2 { font-size: 1.15rem; margin: 2.4rem 0 .6rem; }
h3 { font-size: .95rem; margin: 0 0 .4rem; }
p.headline { font-size: 1.2rem; line-height: 1.45; font-weight: 600; margin: .6rem 0; }
p.headline.deficient { border-left: .35rem solid var(--orange); padding-left: .9rem; }
p.headline.full { border-left: .35rem solid var(--green); padding-left: .9rem; }
p.headline.unknown { border-left: .35rem solid var(--grey); padding-left: .9rem; }
p.lead { color: var(--soft); margin-top: 0; } p.note, figcaption { color: var(--soft); font-size: .9rem; }
p.warning { border-left: .35rem solid var(--amber); background: var(--panel); padding: .6rem .9rem; }
code { font: .92em ui-monospace, monospace; background: var(--panel); padding: .1em .3em; border-radius: .2rem; white-space: nowrap; }
pre { background: var(--panel); padding: .8rem; white-space: pre-wrap; }
table { border-collapse: collapse; margin: .6rem 0; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; } .wide:focus-visible, summary:focus-visible { outline: 2px solid var(--blue); outline-offset: 2px; }
th, td { text-align: right; padding: .3rem .8rem; border-bottom: 1px solid var(--line); font-weight: inherit; overflow-wrap: break-word; }
th:first-child, td:first-child, table.words th, table.words td { text-align: left; }
thead th { border-bottom: 2px solid var(--grey); vertical-align: bottom; font-weight: 600; }
tr.best td { font-weight: 600; } table.numbers td { white-space: nowrap; } table.words td { vertical-align: top; overflow-wrap: anywhere; }
table.words td:nth-child(n+3) { white-space: nowrap; } table.words td:first-child { min-width: 9rem; }
dl { display: grid; grid-template-columns: max-content 1fr; margin: 1rem 0; }
dt, dd { margin: 0; padding: .35rem 0; border-bottom: 1px solid var(--line); } dt { padding-right: 1.6rem; color: var(--soft); }
figure { margin: 1.2rem 0; } figure svg, figure img { max-width: 100%; height: auto; } figure svg { display: block; fill: var(--ink); }
figure svg text { paint-order: stroke; stroke: var(--paper); stroke-width: 2.5px; stroke-linejoin: round; }
.narrow { display: none; }
summary { cursor: pointer; color: var(--soft); } details[open] summary { margin-bottom: .4rem; }
ul.key { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; padding: 0; margin: .4rem 0; font-size: .9rem; }
ul.key i { display: inline-block; width: .9em; height: .9em; margin-right: .45em; vertical-align: -.08em; }
.bar i, ul.key i, .columns i { background: var(--blue); forced-color-adjust: none; } .columns.chance i { background: var(--green); }
.bar i.rare, ul.key i.rare { background: var(--amber); } .bar i.undecided, ul.key i.undecided { background: var(--grey); }
.columns.lack i { background: var(--orange); }
.bar i.missing, ul.key i.missing { background: repeating-linear-gradient(135deg, var(--orange) 0 3px, transparent 3px 6px); }
table.bars { width: 100%; table-layout: fixed; } table.bars th, table.bars td { border: 0; padding: .2rem .5rem .2rem 0; text-align: left; line-height: 1.3; }
table.bars thead th { vertical-align: bottom; color: var(--soft); font-size: .9rem; } table.bars tr.elbow td { border-top: 2px dashed var(--orange);
       color: var(--soft); font-size: .85rem; }
td.bar div { display: flex; align-items: center; height: 1.1rem; --room: 3.8rem; } td.bar i { height: 100%; width: calc((100% - var(--room)) * var(--s)); }
td.bar span { padding-left: .5rem; white-space: nowrap; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 1.6rem; } .pair figure { margin: .4rem 0; min-width: 0; }
.columns { display: flex; align-items: flex-end; gap: 1px; height: 8rem; border-bottom: 1px solid var(--grey); margin-top: 1.4rem; }
.columns span { position: relative; flex: 1; max-width: 7rem; height: 100%; display: flex; align-items: flex-end; min-width: 0; }
.columns i { display: block; width: 100%; } .columns b { position: absolute; left: 0; right: 0; text-align: center; font-weight: 400; font-size: .8rem; line-height: 1.3; }
.ticks { display: flex; justify-content: space-between; font-size: .8rem; color: var(--soft); } .ticks.each { justify-content: flex-start; gap: 1px; } .ticks.each span { flex: 1; max-width: 7rem; text-align: center; min-width: 0; }
svg.area { width: 100%; height: 8rem; } figure svg.area { max-width: none; height: 8rem; border-bottom: 1px solid var(--grey); }
svg .supported { fill: var(--blue); } svg .rare { fill: var(--amber); } svg .undecided { fill: var(--grey); } svg .missing { fill: var(--orange); fill-opacity: .45; }
table.map { border-collapse: separate; border-spacing: 2px; } table.map th, table.map td { border: 0; padding: .15rem .4rem; font-size: .85rem; }
table.map thead th + th { text-align: center; } table.map td { text-align: center; min-width: 2.9rem; background: rgb(var(--blue-rgb) / calc(var(--s) * .45)); }
table.map tbody th { position: sticky; left: 0; background: var(--paper); max-width: 14rem; }
table.map td.gap { outline: 2px solid var(--orange); outline-offset: -2px; font-weight: 700; }
@media (max-width: 40rem) {
  body { margin: 1rem auto; padding: 0 .8rem; } th, td { padding: .3rem .4rem; } .narrow { display: block; } .broad { display: none; } code { white-space: normal; }
  figure .wide > svg { max-width: none; width: 44rem; }
  dl { grid-template-columns: 1fr; } dt { border: 0; padding: .4rem 0 0; font-size: .9rem; } dd { padding-top: 0; }
  td.bar div { --room: 2.9rem; } td.bar span { padding-left: .3rem; font-size: .85rem; } table.bars th { font-size: .85rem; }
  table.words thead { display: none; } table.words, table.words tbody { display: block; }
  table.words tr { display: flex; flex-wrap: wrap; gap: 0 1.2rem; border-bottom: 1px solid var(--line); padding: .4rem 0; }
  table.words td { border: 0; padding: 0; } table.words td:nth-child(-n+2) { flex: 1 0 100%; } table.words td:first-child { font-weight: 600; }
  table.words td:nth-child(n+3) { font-size: .9rem; } table.words td:nth-child(n+2)::before { content: attr(data-name) ": "; color: var(--soft); }
  table.map tbody th { max-width: 7rem; }
}
"""


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


def spread_out(places: np.ndarray, least: float) -> np.ndarray:
    """Move places (n,) as little as possible so that they are `least` apart, in the same order."""
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
