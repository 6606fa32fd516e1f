"""Self-contained HTML pages, and charts of plain HTML and inline SVG."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sparing import archive
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


ICON = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E%3Ccircle cx='4' cy='4' r='3' fill='%230072b2'/%3E%3C/svg%3E"


def style() -> str:
    """Return the style sheet of pages, with the colours of figures in the dark scheme."""
    sheet = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return sheet.replace("/* colours of figures */", figures.scheme())


def page(title: str, parts: Iterable[str]) -> str:
    """Return a complete page of HTML parts."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="{ICON}">\n<style>\n{style()}</style>\n</head>\n'
        f"<body>\n<main>\n<h1>{escape(title)}</h1>\n" + "\n".join(parts) + "\n</main>\n</body>\n</html>\n"
    )


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    emphasised: Sequence[int] = (),
    numbers: bool = False,
    words: bool = False,
) -> str:
    """Return a table with some rows emphasised.

    With `numbers`, cells do not wrap; with `words`, they are left-aligned and stacked on a phone.
    """
    body = []
    for number, row in enumerate(rows):
        mark = ' class="best"' if number in emphasised else ""
        names = [f' data-name="{escape(name)}"' if words else "" for name in header]
        cells = (f"<td{name}>{escape(cell)}</td>" for name, cell in zip(names, row, strict=True))
        body.append(f"<tr{mark}>{''.join(cells)}</tr>")
    kind = ' class="numbers"' if numbers else ' class="words"' if words else ""
    return scrolling(_table(kind, header, body), label=f"Table: {', '.join(header)}")


def _table(kind: str, header: Sequence[str], body: Iterable[str]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    return f"<table{kind}><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def scrolling(html: str, *, label: str) -> str:
    """Wrap wide content so that it scrolls by itself, also by keyboard."""
    return f'<div class="wide" tabindex="0" role="group" aria-label="{escape(label)}">{html}</div>'


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Return a description list of names and texts."""
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(text)}</dd>' for name, text in rows)}</dl>"


def figure(drawn: str, caption: str, *, narrow: str = "") -> str:
    """Return a drawing with its caption; `narrow` is the drawing for phones. Without one, a wide drawing scrolls."""
    if drawn.startswith("<svg") and not narrow:
        drawn = scrolling(drawn, label="Figure")
    if narrow:
        drawn = f'<div class="broad">{drawn}</div><div class="narrow">{narrow}</div>'
    return f"<figure>{drawn}<figcaption>{escape(caption)}</figcaption></figure>"


def folded(summary: str, html: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{html}</details>"


def paragraph(text: str, *, kind: str = "", commands: Iterable[str] = ()) -> str:
    """Return a paragraph of a CSS class: `lead`, `note`, `warning`, `headline`, or a verdict such as `headline full`."""
    mark, html = f' class="{kind}"' if kind else "", escape(text)
    for command in commands:
        html = html.replace(escape(command), f"<code>{escape(command)}</code>")
    return f"<p{mark}>{html}</p>"


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>"


def preformatted(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def write_page(path: str | os.PathLike[str], html: str) -> None:
    """Write a page atomically; characters that UTF-8 cannot encode (from file names) are escaped."""
    with archive.replacing(path) as part:
        Path(part).write_text(html, encoding="utf-8", errors="backslashreplace")


def write_report(
    folder: str | os.PathLike[str], name: str, drawn: "Figure", *, title: str, parts: Iterable[str]
) -> tuple[Path, Path]:
    """Write name.png and name.html into a folder, which is made if needed; return both paths."""
    target = archive.folder(folder)
    image, document = target / f"{name}.png", target / f"{name}.html"
    figures.save_png(drawn, image)
    write_page(document, page(title, parts))
    return image, document


STEPS = 400  # most steps of an area
NUMBERED = 8  # most columns with a number each
FRAMED = ' class="gap"'


@dataclass(frozen=True)
class Bar:
    """A bar of parts, each a CSS class and a share of the width, and a number."""

    parts: tuple[tuple[str, float], ...]
    number: str

    def html(self) -> str:
        parts = "".join(
            f'<i class="{kind}" style="--s: {share:.4g}"></i>' for kind, share in self.parts if share > 0
        )
        return f'<td class="bar"><div>{parts}<span>{escape(self.number)}</span></div></td>'


def bars(header: Sequence[str], rows: Sequence[tuple[str, Sequence[Bar]]], *, marks: dict[int, str]) -> str:
    """Return a table of names and bars; `marks` are texts before the rows of these indices."""
    body = []
    for place, (name, cells) in enumerate(rows):
        if place in marks:
            body.append(f'<tr class="elbow"><td colspan="{len(header)}">{escape(marks[place])}</td></tr>')
        body.append(f'<tr><th scope="row">{escape(name)}</th>{"".join(cell.html() for cell in cells)}</tr>')
    return _table(' class="bars"', header, body)


def key(entries: Sequence[tuple[str, str]]) -> str:
    """Return a legend; empty for a single entry."""
    if len(entries) < 2:
        return ""
    items = "".join(f'<li><i class="{kind}"></i>{escape(label)}</li>' for kind, label in entries)
    return f'<ul class="key">{items}</ul>'


def columns(values: Sequence[float], ticks: Sequence[str], *, kind: str, label: str) -> str:
    """Return a column chart; ticks are one per column, or spread from left to right."""
    top, few = max(values) or 1, len(values) <= NUMBERED
    drawn = []
    for value in values:
        height = 100 * value / top
        number = f'<b style="bottom: {height:.4g}%">{value:,.0f}</b>' if few else ""
        drawn.append(f'<span><i style="height: {height:.4g}%"></i>{number}</span>')
    below = "".join(f"<span>{escape(tick)}</span>" for tick in ticks)
    each = " each" if len(ticks) == len(values) else ""
    return (
        f'<div role="img" aria-label="{escape(label)}"><div class="columns {kind}">{"".join(drawn)}</div>'
        f'<div class="ticks{each}">{below}</div></div>'
    )


def area(layers: Sequence[tuple[str, np.ndarray]], *, top: float, ticks: Sequence[str], label: str) -> str:
    """Return stacked areas of layers (K,) up to `top`, with ticks spread from left to right."""
    count = len(layers[0][1])
    picked = np.unique(np.linspace(0, count - 1, min(STEPS, count)).round().astype(int))
    edges, below, paths = np.arange(len(picked) + 1), np.zeros(len(picked)), []
    for kind, values in layers:
        above = below + values[picked]
        if values.any():
            outline = [*_steps(edges, 1 - above / top), *reversed(_steps(edges, 1 - below / top))]
            points = " ".join(f"{x:g},{100 * y:.4g}" for x, y in outline)
            paths.append(f'<polygon class="{kind}" points="{points}"/>')
        below = above
    return (
        f'<div><svg class="area" role="img" aria-label="{escape(label)}" viewBox="0 0 {len(picked)} 100" '
        f'preserveAspectRatio="none">{"".join(paths)}</svg><div class="ticks">'
        + "".join(f"<span>{escape(tick)}</span>" for tick in ticks)
        + "</div></div>"
    )


def _steps(edges: np.ndarray, heights: np.ndarray) -> list[tuple[float, float]]:
    return list(zip(edges.repeat(2)[1:-1].tolist(), heights.repeat(2).tolist(), strict=True))


def heat(
    corner: str, across: Sequence[str], rows: Sequence[tuple[str, Sequence[tuple[float, str, bool]]]]
) -> str:
    """Return a table of cells (share, text, framed), shaded by their shares."""
    body = []
    for name, cells in rows:
        shown = "".join(
            f'<td{FRAMED * framed} style="--s: {share:.3g}">{escape(text)}</td>'
            for share, text, framed in cells
        )
        body.append(f'<tr><th scope="row">{escape(name)}</th>{shown}</tr>')
    return _table(' class="map"', (corner, *across), body)
