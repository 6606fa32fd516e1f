"""An older release beside ours: here ours itself, whose environment is this one."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from research.__main__ import app
from research.bench import older, report
from research.bench.older import Release
from research.bench.setting import BenchmarkSetting
from sparing.errors import SettingError

HERE = Path(__file__).parents[2]
QUICK = ["statistics", "encoding"]
SLOW = ["step", "simulation", "intervals", "pi-plus", "startup", "service", "scale"]


@pytest.fixture(
    scope="module", params=[QUICK, pytest.param(SLOW, marks=pytest.mark.thorough)], ids=["quick", "slow"]
)
def quick(request, tmp_path_factory):
    parts = request.param
    folder = tmp_path_factory.mktemp("older")
    page = folder / "page.md"
    page.write_text(f"{report.OLDER_BEGIN}\nstale\n{report.OLDER_END}\n", encoding="utf-8")
    words = ["--beside", "HEAD", "--only", ",".join(parts), "--out", str(folder / "out"), "--page", str(page)]
    same = Release("0.0 (this)", HERE, Path(sys.executable))
    tiny = BenchmarkSetting.quick()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(older, "install", lambda what, **_: same)
        patch.setattr("research.bench.parts.startup.FIRST", {"ours, first compile, none": ["-c", "pass"]})
        patch.setattr(BenchmarkSetting, "quick", classmethod(lambda cls: tiny))
        done = CliRunner().invoke(app, ["bench", "--quick", "--json", *words])
    assert done.exit_code == 0, done.output
    return parts, json.loads(done.stdout), page.read_text(encoding="utf-8")


def test_every_contender_of_ours_has_its_older_self(quick):
    parts, result, _ = quick
    assert not [each for each in result["failures"] if "older" in each["contender"]]
    assert result["settings"]["beside"] == "0.0 (this)"
    found = {(m["part"], m["size"], m["contender"]): m for m in result["measurements"]}
    pairs = {each for each in found if each[2].split(",")[0] == "older"}
    assert {part for part, _, _ in pairs} == set(parts)
    for part, size, name in pairs:
        twin = found[part, size, "ours" + name.removeprefix("older")]
        assert len(twin["rounds"]) == len(found[part, size, name]["rounds"])
        # As many steps, so that both learners are in the same state.
        assert twin["count"] == found[part, size, name]["count"]
    compared = {
        (r["part"], r["size"], r["other"]) for r in result["ratios"] if r["other"].startswith("older")
    }
    assert compared == pairs


def test_the_page_gets_the_comparison_alone(quick):
    _, result, page = quick
    assert "stale" not in page
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert len(rows) - 2 == sum(r["other"].startswith("older") for r in result["ratios"])
    assert "Release 0.0 (this) in the same rounds" in page


def test_what_is_neither_a_folder_nor_a_revision_is_refused(tmp_path):
    with pytest.raises(SettingError, match="neither a folder nor a revision"):
        older.install("no-such-revision", folder=tmp_path)
    with pytest.raises(SettingError, match="no checkout of sparing"):
        older.install(str(tmp_path), folder=tmp_path / "kept")


def test_an_environment_is_made_from_the_revisions_own_lock_file(tmp_path, monkeypatch):
    checkout, commands = tmp_path / "old", []
    for place, text in {
        "requirements.lock": "numpy==1",
        "research/bench/house/ours.py": "",
        "src/sparing/__init__.py": '__version__ = "0.0.9"\n',
    }.items():
        (checkout / place).parent.mkdir(parents=True, exist_ok=True)
        (checkout / place).write_text(text, encoding="utf-8")
    monkeypatch.setattr(older, "run_quietly", commands.append)
    release = older.install(str(checkout), folder=tmp_path / "kept")
    assert release.title == "0.0.9 (folder)"
    assert release.module() == "research.bench.house.ours"
    _, locked, own = commands
    assert locked[-3:] == ["--require-hashes", "-r", str(checkout / "requirements.lock")]
    assert own[-4:] == ["--no-deps", "--no-build-isolation", "--editable", str(checkout)]
    assert older.install(str(checkout), folder=tmp_path / "kept") == release
    assert len(commands) == 3, "kept, not made again"
    (checkout / "requirements.lock").write_text("numpy==2", encoding="utf-8")
    older.install(str(checkout), folder=tmp_path / "kept")
    assert len(commands) == 6, "another lock file, another environment"
