"""REPRODUCTION.md: the verdicts in a table, each experiment with its figures, then all numbers."""

from collections.abc import Sequence

from research.paper.experiment import FAILS, HOLDS, ONLY_WHEN, Record
from research.paper.report import glance, plain, words
from research.paper.report.glance import LOST, Row, section, slug

HEADER = ("verdict", "what was claimed", "what we found")
MORE = "More figures"
MARKS = {
    HOLDS: ("#00845f", "M4 8.5L7 11.5L12 5", "none"),
    ONLY_WHEN: ("#c98200", "M8 4A4 4 0 0 0 8 12z", "#fff"),
    FAILS: ("#c8451b", "M5 5L11 11M11 5L5 11", "none"),
}
"""Colour, path and filling of each verdict's sign."""
NUMBERS = "Numbers"
SETTINGS = "Settings and data"


def document(record: Record) -> str:
    """The whole text."""
    lines = [f"# {words.TITLE}", "", f"**{glance.summary(record)}**", ""]
    lines += [_row(HEADER), _row(["---"] * len(HEADER))]
    rows = glance.rows(record)
    lines += [_verdict(row, record) for row in rows]
    lines += ["", plain.WORDS, "", words.READ]
    for name, result in record["experiments"].items():
        lines += ["", f"## {section(name, result)}", "", words.about(result)]
        lines += _findings([row for row in rows if row.experiment == name])
        lines += _counts(result)
        for plate, about in result["figures"].items():
            if not about["folded"]:
                lines += _figure(name, plate, about)
    lines += ["", f"## {NUMBERS}"]
    for row in rows:
        lines += _numbers(row)
    for name, result in record["experiments"].items():
        lines += _notes(name, result)
    lines += ["", f"## {MORE}", "", "The same in other settings, and what stands behind the figures above."]
    for name, result in record["experiments"].items():
        folded = {plate: about for plate, about in result["figures"].items() if about["folded"]}
        lines += ["", f"### {glance.SHOWN[name]} in other settings"] if folded else []
        for plate, about in folded.items():
            lines += _figure(name, plate, about)
    lines += ["", f"## {SETTINGS}"]
    for name, result in record["experiments"].items():
        lines += ["", f"### {glance.SHOWN[name]} settings", "", "| setting | value |", "|---|---|"]
        lines += [_row(pair) for pair in words.settings(result)]
        files = words.data_files(name, result)
        lines += ["", "Data: " + ", ".join(f"[{file}]({file})" for file in files) + "."]
    return "\n".join([*lines, "", words.provenance(record), ""])


def _verdict(row: Row, record: Record) -> str:
    claim, found = row.label, row.found
    if row.run:
        claim = f"[{row.label}](#{slug(section(row.experiment, record['experiments'][row.experiment]))})"
        found += f" [Numbers](#{slug(row.heading)})"
    return _row((f"{_mark(row)} **{row.word}** {claim}", row.claimed, found))


def _mark(row: Row) -> str:
    """The verdict's sign in its colour: Markdown has none, so that it is an image."""
    return f"![{row.sign}]({mark_file(row.word)})" if row.run else row.sign


def mark_file(verdict: str) -> str:
    """The file of a verdict's sign."""
    return f"{slug(verdict)}.svg"


def marks() -> dict[str, str]:
    """The signs by file: a disc in a colour that light and dark pages can bear, with the sign on it."""
    begin = '<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 16 16" role="img"'
    return {
        mark_file(verdict): f'{begin} aria-label="{verdict}"><circle cx="8" cy="8" r="8" fill="{colour}"/>'
        f'<path d="{path}" fill="{filled}" stroke="#fff" stroke-width="2"/></svg>\n'
        for verdict, (colour, path, filled) in MARKS.items()
    }


def _findings(rows: Sequence[Row]) -> list[str]:
    """What came of the claims of one experiment, a line each."""
    shown = [
        f"- {_mark(row)} **{row.label} {row.word}.** {row.claimed} *{row.found}*" for row in rows if row.run
    ]
    return ["", *shown] if shown else []


def _counts(result: Record) -> list[str]:
    table = words.counted(result)
    if table is None:
        return []
    header, rows = table
    return ["", _row(header), _row(["---"] * len(header)), *map(_row, rows)]


def _figure(name: str, plate: str, about: Record) -> list[str]:
    """A figure's title, its key, its panels side by side where there is room, and its caption."""
    drawings = dict(about["drawings"])
    key = drawings.pop(f"{plate}_key", None)
    lines = ["", f"**{about['title']}**", ""]
    lines += [f"![{_cell(key)}]({name}/{plate}_key.svg)", ""] if key else []
    lines += [f"![{_cell(alt)}]({name}/{file}.svg)" for file, alt in drawings.items()]
    where = (
        f" {LOST}: [in numbers](#{slug(f'{glance.SHOWN[name]} where ours lose')})." if about["lost"] else ""
    )
    return [*lines, "", about["see"] + where, "", f"*Regime:* {about['regime']}"]


def _numbers(row: Row) -> list[str]:
    """A claim in full, under a heading that the table links to."""
    if not row.run:
        return []
    verdict = row.verdict
    lines = ["", f"### {row.heading}", "", f"{words.name_of(verdict)}: {row.word}. {words.says(verdict)}", ""]
    lines += ["Measured:", "", *(f"- {part}" for part in words.parts_of(verdict["measured"]))]
    return [*lines, "", "When it changes:", "", *(f"- {part}" for part in words.parts_of(verdict["when"]))]


def _notes(name: str, result: Record) -> list[str]:
    lost = [f"- {about['title']}. {about['lost']}" for about in result["figures"].values() if about["lost"]]
    notes = [f"- {note}" for note in result["numbers"].get("notes", [])]
    lines = ["", f"### {glance.SHOWN[name]} where ours lose", "", *lost] if lost else []
    return [*lines, "", f"### {glance.SHOWN[name]} in every comparison", "", *notes] if notes else lines


def _row(row: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in row) + " |"


def _cell(cell: str) -> str:
    return " ".join(cell.replace("|", "\\|").split())
