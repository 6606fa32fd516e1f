"""Charts made of the page itself: bars beside names, columns, areas and maps, in its ink and type, with numbers as text."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

STEPS = 400
"""Steps of an area, at most."""

NUMBERED = 8
"""Columns that have room for a number each."""

FRAMED = ' class="gap"'


@dataclass(frozen=True)
class Bar:
    """A bar of parts, each a kind and a share of the full width, and the number that stands beside it."""

    parts: tuple[tuple[str, float], ...]
    number: str

    def html(self) -> str:
        """The bar as a table's cell."""
        parts = "".join(
            f'<i class="{kind}" style="--s: {share:.4g}"></i>' for kind, share in self.parts if share > 0
        )
        return f'<td class="bar"><div>{parts}<span>{escape(self.number)}</span></div></td>'


def bars(header: Sequence[str], rows: Sequence[tuple[str, Sequence[Bar]]], *, marks: dict[int, str]) -> str:
    """A table of names with bars beside them; before the row of this number a mark says what changes there."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = []
    for place, (name, cells) in enumerate(rows):
        if place in marks:
            body.append(f'<tr class="elbow"><td colspan="{len(header)}">{escape(marks[place])}</td></tr>')
        body.append(f'<tr><th scope="row">{escape(name)}</th>{"".join(cell.html() for cell in cells)}</tr>')
    return f'<table class="bars"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'


def key(entries: Sequence[tuple[str, str]]) -> str:
    """What the kinds of parts are; nothing where there is but one."""
    if len(entries) < 2:
        return ""
    items = "".join(f'<li><i class="{kind}"></i>{escape(label)}</li>' for kind, label in entries)
    return f'<ul class="key">{items}</ul>'


def columns(values: Sequence[float], ticks: Sequence[str], *, kind: str, label: str) -> str:
    """Columns over ticks: one under each column, or some from the left end to the right; few columns have their numbers."""
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
    """Layers (K,) over one another up to `top`, over ticks from the left end to the right."""
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
    """The corners of a line of steps."""
    return list(zip(edges.repeat(2)[1:-1].tolist(), heights.repeat(2).tolist(), strict=True))


def heat(
    corner: str, across: Sequence[str], rows: Sequence[tuple[str, Sequence[tuple[float, str, bool]]]]
) -> str:
    """A table whose cells, each a share, its text and whether it is framed, are shaded by their shares."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in (corner, *across))
    body = []
    for name, cells in rows:
        shown = "".join(
            f'<td{FRAMED * framed} style="--s: {share:.3g}">{escape(text)}</td>'
            for share, text, framed in cells
        )
        body.append(f'<tr><th scope="row">{escape(name)}</th>{shown}</tr>')
    return f'<table class="map"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'
