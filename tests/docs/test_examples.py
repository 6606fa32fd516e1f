"""Every Python example in README and docs runs, in order, as a newcomer would run it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MADE, ELSEWHERE = ROOT / "docs" / "reproduction", ROOT / "docs" / "migrate"
"""Pages that a program writes, and those whose examples test_migration.py runs, theirs among ours."""

PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if MADE not in page.parents),
]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def examples(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if examples(page) and ELSEWHERE not in page.parents],
    ids=lambda page: page.name,
)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "example"}
    for number, block in enumerate(examples(page), start=1):
        exec(compile(block, f"{page.name}, example {number}", "exec", dont_inherit=True), namespace)


def test_readme_has_examples():
    assert len(examples(ROOT / "README.md")) >= 4


def test_readme_audit_is_what_the_code_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for block in examples(ROOT / "README.md")[:3]:
        exec(block, namespace)
    printed = capsys.readouterr().out.partition("3,000 rows")
    assert "".join(printed[1:]).strip() in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]*)(?:#[^)]*)?\)", text):
        assert not target or target.startswith("http") or (page.parent / target).exists(), target
