"""One version everywhere."""

import re
from pathlib import Path

import sparing

ROOT = Path(__file__).parents[2]


def test_the_newest_version_of_the_changelog_is_this_one():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\d+\.\d+\.\d+) \((\d{4}-\d{2}-\d{2})\)$", text, re.MULTILINE)
    assert versions[0][0] == sparing.__version__
    assert [one for one, _ in versions] == sorted((one for one, _ in versions), reverse=True)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {versions[0][0]}\ndate-released: {versions[0][1]}\n" in citation
