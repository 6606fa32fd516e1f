"""One self-contained HTML page: no script, no request to anywhere."""

import os
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from sparing import archive
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CSS = """
:root { color-scheme: light dark; }
body { font: 16px/1.55 system-ui, sans-serif; color: #1c1c1c; background: #fff; margin: 2rem auto;
       max-width: 62rem; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; margin-bottom: .3rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.headline { font-size: 1.15rem; font-weight: 600; } p.lead { color: #444; margin-top: 0; } p.note { color: #555; font-size: .9rem; }
p.warning { border-left: .3rem solid #d55e00; background: #fdf3ec; padding: .6rem .9rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
th, td { text-align: right; padding: .3rem .8rem; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; } th { border-bottom: 2px solid #888; vertical-align: bottom; }
tr.best td { font-weight: 600; } table.numbers td { white-space: nowrap; }
figure { margin: 1.2rem 0; } figure svg { max-width: 100%; height: auto; }
figcaption { color: #555; font-size: .9rem; } pre { background: #f6f6f6; padding: .8rem; white-space: pre-wrap; }
@media (prefers-color-scheme: dark) {
  body { color: #e4e4e4; background: #16181b; } p.lead, p.note, figcaption { color: #b4b4b4; }
  th, td { border-color: #3a3d42; } pre { background: #22252a; } p.warning { background: #33241a; }
  figure svg, figure img { background: #fff; border-radius: .4rem; }
}
@media (max-width: 40rem) { body { margin: 1rem auto; padding: 0 .8rem; } th, td { padding: .3rem .45rem; } }
"""

ICON = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E%3Ccircle cx='4' cy='4' r='3' fill='%230072b2'/%3E%3C/svg%3E"


def page(title: str, parts: Iterable[str]) -> str:
    """Put parts of HTML together under a title."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="{ICON}">\n<style>{CSS}</style>\n</head>\n'
        f"<body>\n<h1>{escape(title)}</h1>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    emphasised: Sequence[int] = (),
    numbers: bool = False,
) -> str:
    """A table; the rows with these numbers stand out. Cells of names and `numbers` stay on one line each."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = []
    for number, row in enumerate(rows):
        mark = ' class="best"' if number in emphasised else ""
        body.append(f"<tr{mark}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
    kind = ' class="numbers"' if numbers else ""
    return f'<div class="wide"><table{kind}><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names and what is said of each: two columns of words, both set from the left."""
    left = "text-align: left; vertical-align: top"
    body = "".join(
        f'<tr><td style="{left}; white-space: nowrap">{escape(name)}</td><td style="{left}">{escape(text)}</td></tr>'
        for name, text in rows
    )
    return f'<div class="wide"><table><tbody>{body}</tbody></table></div>'


def figure(svg: str, caption: str) -> str:
    """A drawing with what it shows in words."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def paragraph(text: str, *, kind: str = "") -> str:
    """A paragraph; kind is `headline`, `lead`, `note`, `warning` or nothing."""
    mark = f' class="{kind}"' if kind else ""
    return f"<p{mark}>{escape(text)}</p>"


def heading(text: str) -> str:
    """A second-level heading."""
    return f"<h2>{escape(text)}</h2>"


def preformatted(text: str) -> str:
    """Text as it stands."""
    return f"<pre>{escape(text)}</pre>"


def write_page(path: str | os.PathLike[str], html: str) -> None:
    """Write a page, whole or not at all; what UTF-8 lacks (a byte of a file's name) as an escape."""
    with archive.replacing(path) as part:
        Path(part).write_text(html, encoding="utf-8", errors="backslashreplace")


def write_report(
    folder: str | os.PathLike[str], name: str, drawn: "Figure", *, title: str, parts: Iterable[str]
) -> tuple[Path, Path]:
    """Write a figure as name.png and a page as name.html into a folder, which is made if needed; both paths."""
    target = archive.folder(folder)
    image, document = target / f"{name}.png", target / f"{name}.html"
    figures.save_png(drawn, image)
    write_page(document, page(title, parts))
    return image, document
