"""Every Python example in README and docs runs, in order, as a newcomer would run it."""

import os
import re
from pathlib import Path

import pytest

from each import for_each
from sparing.errors import DataError

ROOT = Path(__file__).parents[2]
MADE, ELSEWHERE = ROOT / "docs" / "reproduction", ROOT / "docs" / "migrate"
"""Pages that a program writes, and those whose examples test_migration.py runs, theirs among ours."""

PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if MADE not in page.parents),
]
BLOCK = re.compile(r"^```python\n((?:(?!```).*\n)*)```", re.MULTILINE)
SHOWN = re.compile(BLOCK.pattern + r"\n\n```text\n((?:(?!```).*\n)*)```", re.MULTILINE)
"""An example and, directly below, what it prints. A `<!-- volatile -->` between them says: not to the letter."""

REWRITE = "REWRITE_OUTPUTS"
"""Set this in the environment, and tutorials get what their examples print today."""


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix().removeprefix("docs/")


def examples(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def run_elsewhere(page: Path) -> bool:
    return ELSEWHERE in page.parents and page.name[0].isalpha()


@pytest.mark.parametrize(
    "page", [page for page in PAGES if examples(page) and not run_elsewhere(page)], ids=named
)
def test_examples_run(page, tmp_path, monkeypatch, capsys):
    """In an empty folder; in tutorials what is shown below an example is what it prints, to the letter."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "example"}
    printed = {}
    for number, block in enumerate(examples(page), start=1):
        try:
            exec(compile(block, f"{named(page)}, example {number}", "exec", dont_inherit=True), namespace)
        except DataError as error:
            if "could not be had" not in str(error):
                raise
            pytest.skip(str(error))  # a data set, and no route to it is open
        printed[block] = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()) + "\n"
    if page.parent.name == "tutorials":
        text = page.read_text(encoding="utf-8")
        if os.environ.get(REWRITE):
            text = SHOWN.sub(
                lambda found: found[0].replace(f"```text\n{found[2]}", f"```text\n{printed[found[1]]}"), text
            )
            page.write_text(text, encoding="utf-8")
        for block, shown in SHOWN.findall(text):
            assert shown == printed[block], (
                f"{named(page)} shows other output; {REWRITE}=1 takes over today's"
            )


def test_readme_has_examples():
    assert len(examples(ROOT / "README.md")) >= 1


@for_each("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    """On GitHub too; what the site generates is checked when it is built."""
    text = page.read_text(encoding="utf-8")
    inline = re.findall(r"\]\(([^)#]*)(?:#[^)]*)?\)", text)
    for target in (*inline, *re.findall(r'(?:src|srcset)="([^"]*)"', text)):
        assert (
            not target
            or target.startswith("http")
            or "reference/" in target
            or (page.parent / target).exists()
        ), target
