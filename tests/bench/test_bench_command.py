"""`python -m research bench --quick` from end to end, and what stands in the docs."""

import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from research.__main__ import app, main
from research.bench import report
from research.bench.field import Field
from research.bench.parts import startup
from research.bench.setting import BenchmarkSetting
from sparing.errors import FileError

DOCS = Path(__file__).parents[2] / "docs"
PARTS = ["step", "simulation", "statistics", "intervals", "pi-plus", "growth"]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    page = folder / "page.md"
    page.write_text(f"# Fast\n\n{report.BEGIN}\nstale words\n{report.END}\n\nAfter.\n", encoding="utf-8")
    words = ["--only", ",".join(PARTS), "--out", str(folder / "out"), "--page", str(page), "--json"]
    done = CliRunner().invoke(app, ["bench", "--quick", *words])
    assert done.exit_code == 0, done.output
    return folder, json.loads(done.stdout), page


def test_json_has_everything(quick):
    folder, result, _ = quick
    assert result == json.loads((folder / "out" / "benchmarks.json").read_text(encoding="utf-8"))
    assert {
        "version",
        "machine",
        "settings",
        "seconds",
        "peers",
        "ratios",
        "failures",
        "measurements",
    } == set(result)
    assert result["failures"] == result["peers"] == []
    assert {"processor", "cores", "python", "versions"} <= set(result["machine"])
    parts = {each["part"] for each in result["measurements"]}
    assert parts == {*PARTS[:-1], "growth in K", "growth in d", "growth in n"}


def test_numbers_follow_from_the_rounds(quick):
    _, result, _ = quick
    for each in result["measurements"]:
        assert each["minimum"] == min(each["rounds"]) > 0
        assert each["minimum"] <= each["quartiles"][0] <= each["quartiles"][1] <= each["quartiles"][2]
    least = {(m["part"], m["size"], m["contender"]): m["minimum"] for m in result["measurements"]}
    assert result["ratios"]
    for each in result["ratios"]:
        ours = least[each["part"], each["size"], each["ours"]]
        other = least[each["part"], each["size"], each["other"]]
        assert each["value"] == pytest.approx(other / ours if each["of"] == "other / ours" else ours / other)
        assert each["low"] <= each["value"] * (1 + 1e-12) <= each["high"] * (1 + 2e-12)
        assert each["target"] is each["met"] is None, "tiny sizes are not judged"


def test_page_table_and_figure(quick):
    folder, _, page = quick
    table = (folder / "out" / "table.md").read_text(encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    assert report.between_markers(text) == table.strip()
    assert text.startswith("# Fast\n\n" + report.BEGIN)
    assert text.endswith(report.END + "\n\nAfter.\n")
    assert "stale words" not in text
    assert "ours, warm" in table
    assert "not worth quoting" in table
    assert (folder / "out" / "growth.png").read_bytes().startswith(b"\x89PNG")
    assert str(folder) not in json.dumps(quick[1])


def test_markers():
    text = f"a\n{report.BEGIN}\n{report.END}\nb\n"
    once = report.put_into(text, "| t |\n")
    assert once == f"a\n{report.BEGIN}\n\n| t |\n\n{report.END}\nb\n"
    assert report.put_into(once, "| t |\n") == once
    for broken in ("", report.BEGIN, f"{report.END}\n{report.BEGIN}", text + text):
        with pytest.raises(FileError, match="needs the lines"):
            report.put_into(broken, "| t |")


def test_docs_hold_the_committed_run():
    result = report.read(DOCS / "performance" / "benchmarks.json")
    table = report.markdown(result)
    assert (DOCS / "performance" / "table.md").read_text(encoding="utf-8") == table
    assert report.between_markers((DOCS / "performance.md").read_text(encoding="utf-8")) == table.strip()
    committed = (DOCS / "performance" / "benchmarks.json").read_text(encoding="utf-8")
    assert not re.search(r"(/root|/home|/tmp)/", committed)


def test_startup_counts_the_children(monkeypatch):
    spin = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass"
    commands = {name: ["-c", spin.format(0.05)] for name in startup.COMMANDS}
    commands[startup.IMPORT] = ["-c", spin.format(0.4)]
    monkeypatch.setattr(startup, "COMMANDS", commands)
    setting = BenchmarkSetting(repeats=1)
    found = {m.contender: m.minimum for m in startup.measure(setting, Field({})).measurements}
    # Both processes pay for the same interpreter; only the spinning differs.
    assert 0.2 < found[startup.IMPORT] - found[startup.BARE] < 0.6


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--only", "nothing"], "no part 'nothing'"), (["--page", "nowhere.md"], "nowhere.md does not exist")],
)
def test_bad_input_is_one_line_and_code_2(words, message, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["research", "bench", "--quick", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_unknown_part_is_refused_before_anything_is_installed(monkeypatch, capsys, tmp_path):
    def install(*_, **__):
        raise AssertionError("peers were installed for a part that does not exist")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("research.environments.install", install)
    monkeypatch.setattr(sys, "argv", ["research", "bench", "--only", "step,foo"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert "no part 'foo'; known are step" in capsys.readouterr().err
