"""One version everywhere, and a release is one step."""

import datetime
import itertools
import re
import shutil
from pathlib import Path

import pytest

import sparing
from research import release
from sparing.errors import SettingError

ROOT = Path(__file__).parents[2]
TODAY = datetime.date(2031, 2, 3)


def test_the_changelog_the_code_and_the_citation_agree():
    """The newest section is this version's, or the one that it works towards; the citation is of the newest release."""
    sections = release.HEADING.findall((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    versions = [one for one, _ in sections]
    numbers = [tuple(map(int, one.split("."))) for one in versions]
    assert numbers == sorted(numbers, reverse=True)
    newest, date = sections[0]
    assert sparing.__version__ == (f"{newest}.dev0" if date == "unreleased" else newest)
    version, date = next(each for each in sections if each[1] != "unreleased")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {version}\ndate-released: {date}\n" in citation


def test_each_version_with_changes_for_callers_has_its_page():
    minors = [
        one.rpartition(".")[0] for one, _ in release.HEADING.findall((ROOT / "CHANGELOG.md").read_text())
    ]
    nav = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    for new, old in itertools.pairwise(minors):
        assert (ROOT / f"docs/migrate/{old}-to-{new}.md").is_file()
        assert f'"migrate/{old}-to-{new}.md"' in nav


FILES = (release.CHANGELOG, release.CITATION, release.MODULE, release.PACKAGE, release.LOCK)


@pytest.fixture
def copy(tmp_path):
    """What a release writes, and the migration pages, with an unreleased version 0.7.0 above 0.6.2."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    text = (tmp_path / release.CHANGELOG).read_text(encoding="utf-8")
    first = release.HEADING.search(text).start()
    begun = "## 0.7.0 (unreleased)\n\n- A change.\n\n## 0.6.2 (2030-01-01)\n\n- Another.\n\n"
    (tmp_path / release.CHANGELOG).write_text(text[:first] + begun, encoding="utf-8")
    return tmp_path


def contents(root):
    return {name: (root / name).read_text(encoding="utf-8") for name in FILES}


def test_a_release_writes_one_version_everywhere(copy):
    before = contents(copy)
    with pytest.raises(SettingError, match=r"0\.6-to-0\.7\.md is missing"):
        release.finish_version(copy, TODAY)
    assert contents(copy) == before
    (copy / "docs/migrate").mkdir(parents=True)
    (copy / "docs/migrate/0.6-to-0.7.md").touch()
    assert release.finish_version(copy, TODAY) == "0.7.0"
    after = contents(copy)
    assert "## 0.7.0 (2031-02-03)\n\n- A change." in after[release.CHANGELOG]
    assert "version: 0.7.0\ndate-released: 2031-02-03\n" in after[release.CITATION]
    assert '__version__ = "0.7.0"\n' in after[release.MODULE]
    assert after[release.PACKAGE].count('"version": "0.7.0"') == 1
    assert after[release.LOCK].count('"version": "0.7.0"') == 2
    for name in FILES:  # a line or two of each, and nothing else
        pairs = list(zip(before[name].splitlines(), after[name].splitlines(), strict=True))
        changed = [line for old, line in pairs if old != line]
        assert changed
        assert all(re.search(r"0\.7\.0|2031-02-03", line) for line in changed)
    with pytest.raises(SettingError, match="is not unreleased"):
        release.finish_version(copy, TODAY)


def test_the_next_version_begins_above_the_last(copy):
    with pytest.raises(SettingError, match="unreleased section already"):
        release.begin_version(copy, "0.8.0")
    (copy / "docs/migrate").mkdir(parents=True)
    (copy / "docs/migrate/0.6-to-0.7.md").touch()
    release.finish_version(copy, TODAY)
    for wrong in ("0.7.0", "0.6.9", "0.10", "next"):
        with pytest.raises(SettingError, match="expected three numbers above"):
            release.begin_version(copy, wrong)
    release.begin_version(copy, "0.10.0")
    after = contents(copy)
    assert "## 0.10.0 (unreleased)\n\n## 0.7.0 (2031-02-03)" in after[release.CHANGELOG]
    assert '__version__ = "0.10.0.dev0"\n' in after[release.MODULE]
    assert after[release.PACKAGE].count('"version": "0.10.0-dev.0"') == 1
    assert "version: 0.7.0\n" in after[release.CITATION]
