"""REPRODUCTION.md and reproduction.html: a row for each claim, then every experiment with its figures."""

import base64
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from research.paper.experiment import CLAIMS, NAMES, Record, text
from research.paper.report.folder import RESULTS, read
from research.paper.running import libraries
from sparing import __version__
from sparing.archive import replacing
from sparing.report import page

TITLE = "The paper, run again"
HEADER = ("claim", "the paper says", "measured", "verdict", "and when it changes")
LEAD = (
    "Each row is a claim of the paper, what came out when it was run again, and whether that bears it out. "
    "Measured values stand with 95 % intervals over seeds. Reward calls are shown with regret, never alone. What the "
    "paper leaves unstated is a setting with a default, listed with each experiment. A cell that ends in … goes on "
    "under “In full”."
)
FIT = 'style="max-width: 100%; height: auto"'
BRIEF = 230
"""Letters of a long finding that the table shows."""


def gather(out: Path) -> tuple[Record, list[str]]:
    """What stands in the folders of `out`, as one record; and the names left out as of other versions."""
    found = {name: read(out / name / RESULTS) for name in NAMES}
    there = {name: result for name, result in found.items() if result}
    same = {"version": __version__, "libraries": libraries()}
    kept = {name: result for name, result in there.items() if same.items() <= result.items()}
    experiments = {
        name: {key: value for key, value in result.items() if key not in same}
        for name, result in kept.items()
    }
    return {**same, "experiments": experiments}, sorted(set(there) - set(kept))


def write(out: Path) -> tuple[Record, Path, list[str]]:
    """Write results.json and both pages from what stands in `out`; the record, the page, names left out."""
    record, left_out = gather(out)
    with replacing(out / RESULTS) as part:
        part.write_text(text(record), encoding="utf-8")
    with replacing(out / "REPRODUCTION.md") as part:
        part.write_text(_markdown(record), encoding="utf-8")
    document = out / "reproduction.html"
    page.write_page(document, page.page(TITLE, _html(record, out)))
    return record, document, left_out


def verdicts(record: Record) -> list[Record]:
    """All verdicts in the order of the claims, and a row for each claim that nothing has judged yet."""
    rows = [verdict for result in record["experiments"].values() for verdict in result["verdicts"]]
    judged = {row["claim"] for row in rows}
    for claim, name in CLAIMS.items():
        if claim not in judged:
            hint = f"not run yet: python -m research reproduce {name}"
            rows.append(
                dict.fromkeys(("source", "says", "measured", "when"), "") | {"claim": claim, "verdict": hint}
            )
    order = list(CLAIMS)
    return sorted(rows, key=lambda row: order.index(row["claim"]) if row["claim"] in order else len(order))


def cells(verdict: Record) -> tuple[str, ...]:
    """A verdict as a row of the table, long findings cut short."""
    said, measured, word, when = (verdict[key] for key in ("says", "measured", "verdict", "when"))
    return name_of(verdict), said, brief(measured), word, brief(when)


def name_of(verdict: Record) -> str:
    """A claim and where the paper makes it."""
    return f"{verdict['claim']} ({verdict['source']})" if verdict["source"] else verdict["claim"]


def brief(text: str) -> str:
    """The beginning of a text, up to the end of one of its parts."""
    if len(text) <= BRIEF:
        return text
    ends = [text.rfind(mark, 0, BRIEF) for mark in ("; ", ". ", "), ", "], ")]
    end = max(ends) + 1 if max(ends) >= BRIEF // 2 else text.rfind(" ", 0, BRIEF)
    return text[:end].rstrip(";, ") + " …"


def parts_of(text: str) -> list[str]:
    """The parts of a finding, each a line of its own."""
    return [part.strip() for part in re.split(r"(?<=[;.]) (?=[^a-z(]|[a-z]+[ :])", text) if part.strip()]


def long_ones(record: Record) -> list[Record]:
    """Verdicts of which the table shows only the beginning."""
    return [row for row in verdicts(record) if max(len(row["measured"]), len(row["when"])) > BRIEF]


def provenance(record: Record) -> str:
    """Which code computed this."""
    versions = ", ".join(f"{name} {number}" for name, number in record["libraries"].items())
    return f"Computed by sparing {record['version']} with {versions}. All numbers: {RESULTS}."


def about(result: Record) -> str:
    """How much of an experiment was run."""
    size = (
        "the full setting"
        if result["full"]
        else "not the full setting, so that less may be shown than there is"
    )
    return f"{len(result['seeds'])} seeds, {result['pieces']} pieces of work: {size}."


def settings(result: Record) -> list[tuple[str, str]]:
    """Names and values of a setting."""
    return [(name.replace("_", " "), _value(value)) for name, value in result["setting"].items()]


def _value(value: object) -> str:
    if isinstance(value, list):
        return _span(value) or ", ".join(map(_value, value))
    if isinstance(value, dict):
        return "; ".join(f"{name} {_value(inner)}" for name, inner in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _span(values: list[object]) -> str:
    """Whole numbers that follow one another, by their ends; nothing if they are not that."""
    whole = [value for value in values if type(value) is int]
    if len(values) < 4 or len(whole) < len(values) or whole != list(range(whole[0], whole[-1] + 1)):
        return ""
    return f"{whole[0]} to {whole[-1]}"


def _files(name: str, result: Record) -> list[str]:
    return [*(f"{name}/{table}.parquet" for table in result["tables"]), f"{name}/{RESULTS}"]


def _markdown(record: Record) -> str:
    lines = [f"# {TITLE}", "", LEAD, "", _row(HEADER), _row(["---"] * len(HEADER))]
    lines += [_row(cells(verdict)) for verdict in verdicts(record)]
    lines += ["", "## In full"]
    for verdict in long_ones(record):
        lines += [
            "",
            f"### {name_of(verdict)}: {verdict['verdict']}",
            "",
            f"The paper says: {verdict['says']}.",
            "",
        ]
        lines += ["Measured:", "", *(f"- {part}" for part in parts_of(verdict["measured"]))]
        lines += ["", "When it changes:", "", *(f"- {part}" for part in parts_of(verdict["when"]))]
    for name, result in record["experiments"].items():
        lines += ["", f"## {name}: {result['title']}", "", about(result)]
        lines += ["", *(f"- {note}" for note in result["numbers"].get("notes", []))]
        for drawn, caption in result["figures"].items():
            lines += ["", f"![{_cell(caption or drawn)}]({name}/{drawn}.png)"]
        lines += ["", "| setting | value |", "|---|---|"]
        lines += [_row(pair) for pair in settings(result)]
        lines += ["", "Data: " + ", ".join(f"[{file}]({file})" for file in _files(name, result)) + "."]
    return "\n".join([*lines, "", provenance(record), ""])


def _row(row: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in row) + " |"


def _cell(cell: str) -> str:
    return " ".join(cell.replace("|", "\\|").split())


def _html(record: Record, out: Path) -> list[str]:
    parts = [page.paragraph(LEAD, kind="lead"), _words(HEADER, [cells(row) for row in verdicts(record)])]
    parts.append(page.heading("In full"))
    for verdict in long_ones(record):
        summary = f"{name_of(verdict)}: {verdict['verdict']}"
        parts.append(
            f"<details><summary>{escape(summary)}</summary>"
            + page.paragraph(f"The paper says: {verdict['says']}.")
            + _list("Measured:", verdict["measured"])
            + _list("When it changes:", verdict["when"])
            + "</details>"
        )
    for name, result in record["experiments"].items():
        parts += [page.heading(f"{name}: {result['title']}"), page.paragraph(about(result), kind="note")]
        notes = "".join(f"<li>{escape(note)}</li>" for note in result["numbers"].get("notes", []))
        parts += [f"<ul>{notes}</ul>"] if notes else []
        for drawn, caption in result["figures"].items():
            parts.append(_figure(out / name / f"{drawn}.png", caption or drawn))
        parts.append(
            "<details><summary>Settings</summary>"
            + _words(("setting", "value"), settings(result))
            + "</details>"
        )
        parts.append(page.paragraph("Data: " + ", ".join(_files(name, result)) + ".", kind="note"))
    return [*parts, page.paragraph(provenance(record), kind="note")]


def _list(title: str, finding: str) -> str:
    lines = "".join(f"<li>{escape(part)}</li>" for part in parts_of(finding))
    return page.paragraph(title) + f"<ul>{lines}</ul>"


def _figure(path: Path, caption: str) -> str:
    """A figure as it was drawn, within the page; its caption stands in the drawing, and is read out."""
    try:
        image = base64.b64encode(path.read_bytes()).decode("ascii")
    except OSError:
        return page.paragraph(f"{path.name} is missing; run the experiment again to draw it.", kind="warning")
    return f'<figure><img {FIT} alt="{escape(caption)}" src="data:image/png;base64,{image}"></figure>'


def _words(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of words, set from the left."""
    left = 'style="text-align: left; vertical-align: top"'
    head = "".join(f'<th scope="col" {left}>{escape(cell)}</th>' for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td {left}>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
