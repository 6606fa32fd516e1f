"""REPRODUCTION.md, reproduction.html and results.json, from what stands in the experiments' folders."""

from pathlib import Path

from research.paper.experiment import NAMES, Record, text
from research.paper.report import html, markdown, words
from research.paper.report.folder import RESULTS, read
from research.paper.report.glance import verdicts
from research.paper.running import libraries
from sparing import __version__
from sparing.archive import replacing
from sparing.report import html as page

VERSIONS = ("version", "libraries")


def gather(out: Path, *, kept: bool = False) -> tuple[Record, list[str]]:
    """What stands in the folders of `out`, as one record; and the names left out as of other versions.

    The versions are those that run now. Results that are only kept are all taken: the versions are then those of the
    first, and an experiment of other versions has its own.
    """
    found = {name: read(out / name / RESULTS) for name in NAMES}
    there = {name: result for name, result in found.items() if result}
    same: Record = {"version": __version__, "libraries": libraries()}
    if kept and there:
        first = next(iter(there.values()))
        same = {key: first[key] for key in VERSIONS}
    alike = {name: result for name, result in there.items() if kept or same.items() <= result.items()}
    experiments = {
        name: {key: value for key, value in result.items() if same.get(key) != value}
        for name, result in alike.items()
    }
    return {**same, "experiments": experiments}, sorted(set(there) - set(alike))


def write(out: Path, *, kept: bool = False) -> tuple[Record, Path, list[str]]:
    """Write results.json and both pages from what stands in `out`; the record, the page, names left out."""
    record, left_out = gather(out, kept=kept)
    with replacing(out / RESULTS) as part:
        part.write_text(text(record), encoding="utf-8")
    with replacing(out / "REPRODUCTION.md") as part:
        part.write_text(markdown.document(record), encoding="utf-8")
    for name, mark in markdown.marks().items():
        with replacing(out / name) as part:
            part.write_text(mark, encoding="utf-8")
    target = out / "reproduction.html"
    page.write_page(target, page.page(words.TITLE, html.parts(record, out)))
    return record, target, left_out


__all__ = ["gather", "verdicts", "write"]
