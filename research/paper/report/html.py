"""reproduction.html: the verdicts on one screen, each experiment with its figures, numbers folded."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from research.paper.experiment import FAILS, HOLDS, ONLY_WHEN, Record
from research.paper.report import glance, plain, words
from research.paper.report.glance import LOST, Row, section, slug
from research.paper.report.svg import Shared
from sparing.report import html

KINDS = {HOLDS: "holds", ONLY_WHEN: "partly", FAILS: "fails"}

CSS = """
body { max-width: 80rem; } a { color: var(--blue); }
p.summary { font-size: 1.1rem; font-weight: 600; }
table.verdicts { width: 100%; margin: .6rem 0; font-size: .87rem; line-height: 1.3; }
table.verdicts td, table.verdicts th, table.words td, table.words th { text-align: left; vertical-align: top; padding: .2rem .6rem; }
table.verdicts td:first-child { white-space: nowrap; }
.mark { display: inline-block; font-weight: 600; border-radius: .3rem; padding: 0 .45rem; --own: var(--grey);
  background: color-mix(in srgb, var(--own) 25%, var(--paper)); }
.mark.holds { --own: var(--green); } .mark.partly { --own: var(--amber); } .mark.fails { --own: var(--orange); }
section { border-top: 1px solid var(--line); margin-top: 2.2rem; } section > h2 { margin-top: 1rem; }
.claimed { color: var(--soft); } ul.found { list-style: none; padding: 0; } ul.found li { margin: .35rem 0; }
figure h3 { font-size: 1rem; margin: .2rem 0 .4rem; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 17rem), 1fr)); gap: .6rem 1rem; }
figure .panels svg { width: 100%; max-width: 27rem; } figure > svg { display: block; max-width: 100%; }
figcaption { margin-top: .4rem; max-width: 62rem; } figcaption p { margin: .3rem 0; } figcaption p.see { color: inherit; font-size: .95rem; }
details { margin: .5rem 0; } summary { cursor: pointer; font-weight: 600; padding: .2rem 0; }
details ul { padding-left: 1.2rem; overflow-wrap: anywhere; } details :target { outline: 2px solid var(--amber); outline-offset: .3rem; }
@media (min-width: 72rem) { .panels { grid-template-columns: repeat(3, 1fr); } .panels.four { grid-template-columns: repeat(4, 1fr); } }
@media (max-width: 44rem) {
  table.verdicts thead { display: none; }
  table.verdicts tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--line); }
  table.verdicts td { display: block; border: 0; padding: .1rem 0; }
  table.verdicts { font-size: .95rem; } table.verdicts td:first-child { white-space: normal; }
}
"""


def parts(record: Record, out: Path) -> list[str]:
    """The parts of the page; drawings are read from the folders of `out`."""
    rows, shared = glance.rows(record), Shared()
    body = [
        html.paragraph(glance.summary(record), kind="summary"),
        _verdicts(rows, record),
        html.paragraph(plain.WORDS, kind="note"),
        html.paragraph(words.READ, kind="note"),
    ]
    for name, result in record["experiments"].items():
        mine = [row for row in rows if row.experiment == name and row.run]
        body.append(_section(name, result, mine, out, shared))
    body.append(html.paragraph(words.provenance(record), kind="note"))
    return [f"<style>{CSS}{shared.css()}</style>", *body]


def _mark(row: Row) -> str:
    kind = KINDS.get(row.word, "")
    return f'<span class="mark {kind}">{row.sign} {escape(row.word)}</span>'


def _verdicts(rows: Iterable[Row], record: Record) -> str:
    body = []
    for row in rows:
        claim, link = escape(row.label), ""
        if row.run:
            place = slug(section(row.experiment, record["experiments"][row.experiment]))
            claim = f'<a href="#{place}">{claim}</a>'
            link = f' <a href="#{slug(row.heading)}">Numbers</a>'
        body.append(
            f'<tr><td>{_mark(row)} {claim}</td><td class="claimed">{escape(row.claimed)}</td><td>{escape(row.found)}{link}</td></tr>'
        )
    head = "".join(
        f'<th scope="col">{cell}</th>' for cell in ("verdict", "what was claimed", "what we found")
    )
    return f'<table class="verdicts"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'


def _section(name: str, result: Record, rows: Sequence[Row], out: Path, shared: Shared) -> str:
    heading = section(name, result)
    found = [f'<section id="{slug(heading)}">', html.heading(heading)]
    if rows:
        lines = "".join(
            f'<li>{_mark(row)} {escape(row.label)}. <span class="claimed">{escape(row.claimed)}</span> {escape(row.found)}</li>'
            for row in rows
        )
        found.append(f'<ul class="found">{lines}</ul>')
    table = words.counted(result)
    found += [html.table(*table, words=True)] if table else []
    drawn = {plate: _figure(out / name, plate, about, shared) for plate, about in result["figures"].items()}
    folded = {plate: about["title"] for plate, about in result["figures"].items() if about["folded"]}
    found += [figure for plate, figure in drawn.items() if plate not in folded]
    found += [html.folded(f"More figures: {title}", drawn[plate]) for plate, title in folded.items()]
    found += [_numbers(row) for row in rows]
    notes = result["numbers"].get("notes", [])
    found += [html.folded("Every comparison", _list(notes))] if notes else []
    files = html.paragraph(
        f"{words.about(result)} Data: {', '.join(words.data_files(name, result))}.", kind="note"
    )
    found.append(
        html.folded(
            "Settings and data", html.table(("setting", "value"), words.settings(result), words=True) + files
        )
    )
    return "\n".join([*found, "</section>"])


def _numbers(row: Row) -> str:
    """A claim in full, folded; a link to what is inside opens it."""
    verdict = row.verdict
    inner = (
        f'<div id="{slug(row.heading)}">{html.paragraph(words.says(verdict))}'
        + html.paragraph("Measured:")
        + _list(words.parts_of(verdict["measured"]))
        + html.paragraph("When it changes:")
        + _list(words.parts_of(verdict["when"]))
        + "</div>"
    )
    return html.folded(f"Numbers of {row.label} ({verdict['source']}): {row.word}", inner)


def _list(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _figure(folder: Path, plate: str, about: Record, shared: Shared) -> str:
    """A figure: its title, key and panels, then what to see and the regime."""
    drawings = list(about["drawings"])
    try:
        drawn = {
            file: shared.within((folder / f"{file}.svg").read_text(encoding="utf-8")) for file in drawings
        }
    except OSError as error:
        return html.paragraph(
            f"{error.filename} is missing; draw it again: python -m research reproduce --render",
            kind="warning",
        )
    key = drawn.pop(f"{plate}_key", "")
    four = about["columns"] == 4
    lost = html.folded(LOST, html.paragraph(about["lost"])) if about["lost"] else ""
    return (
        f'<figure id="{folder.name}-{plate}"><h3>{escape(about["title"])}</h3>{key}'
        f'<div class="panels{" four" if four else ""}">{"".join(drawn.values())}</div>'
        f'<figcaption><p class="see">{escape(about["see"])}</p><p>Regime: {escape(about["regime"])}</p>{lost}</figcaption></figure>'
    )
