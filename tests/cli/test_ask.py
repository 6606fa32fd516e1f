"""`sparing ask` at the prompt: a queue, its judged file, the verdict, and answers as rows for learn, plan and serve."""

import csv
import json
import shlex
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import sparing
from reference.accessibility import assert_readable
from reference.browser import assert_self_contained
from sparing.cli import app, main

ROLES = ["--action", "model", "--reward", "quality"]
ASKED = ["--about", "new", "--calls", "30", "--call-cost", "0.01", "--horizon", "20000"]
HOSTILE = "=cmd|'<script>x</script>"


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    with (tmp_path / "log.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "topic", "action", "model", "quality"])
        for _ in range(300):
            row = [int(rng.integers(18, 80)), str(rng.choice(["billing", HOSTILE])), "kept"]
            model = str(rng.choice(["small", "large"]))
            writer.writerow(
                [*row, model, f"{0.5 + 0.1 * (model == 'large') + 0.2 * rng.standard_normal():.3f}"]
            )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def judge(source, target, *, most=None):
    """New is better where the topic is billing; the rest is left open beyond `most`."""
    with source.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows[:most]:
        row["reward"] = "0.95" if row["topic"] == "billing" else "0.3"
    with target.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return rows


def test_from_the_queue_to_the_verdict_and_on(folder):
    asked = run("ask", "log.csv", *ROLES, *ASKED, "--out", "queue.csv", "--html", "queue.html")
    assert asked.exit_code == 0, asked.output
    assert "--answers queue.csv" in asked.stdout
    judged = judge(folder / "queue.csv", folder / "judged.csv", most=20)
    assert {row["topic"] for row in judged} <= {"billing", f"'{HOSTILE}"}
    assert list(judged[0]) == ["id", "row", "age", "topic", "log action", "action", "worth", "why", "reward"]
    words = ["ask", "log.csv", *ROLES, *ASKED, "--answers", "judged.csv"]
    told = run(*words, "--out", "next.csv", "--html", "next.html", "--json")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    roles = {"action": "model", "reward": "quality"}
    library = sparing.ask(
        sparing.read_log(folder / "log.csv", **roles),
        calls=30,
        call_cost=0.01,
        horizon=20_000,
        actions=["new"],
        table=folder / "log.csv",
        columns=roles,
    )
    after = library.tell(folder / "judged.csv")
    assert found["verdict"] == json.loads(json.dumps(after.verdict.to_dict()))
    assert [call["id"] for call in found["queue"]["calls"]] == [call.id for call in after.queue.calls]
    assert [call["id"] for call in found["queue"]["calls"]][:10] == [row["id"] for row in judged[20:]]
    judge(folder / "next.csv", folder / "more.csv")
    more = run(*words, "--answers", "more.csv")
    assert more.exit_code == 0, more.output
    assert "Switch" in more.stdout
    assert "topic is billing" in more.stdout
    for name in ("queue.html", "next.html"):
        html = (folder / name).read_text(encoding="utf-8")
        assert "<script>" not in html
        assert_self_contained(html, figure="<table")


def test_answers_are_rows_for_learn_plan_and_serve(folder, monkeypatch):
    from sparing.service import server

    run("ask", "log.csv", *ROLES, *ASKED, "--out", "queue.csv")
    judge(folder / "queue.csv", folder / "judged.csv")
    given = ["log.csv", *ROLES, "--answers", "judged.csv"]
    done = run("learn", *given, "--holdout", "0", "--json")
    assert done.exit_code == 0, done.output
    learned = json.loads(done.stdout)
    assert learned["rows_taught"] == 330
    assert learned["shares"]["new"] > 0.3
    left_out = json.loads(run("learn", *given, "--method", "opr", "--json").stdout)
    assert left_out["shares"]["new"] == 0
    assert any("30 judged answers have no logging propensity" in note for note in left_out["notes"])
    planned = run("plan", *given, "--horizon", "40", "--worlds", "19", "--workers", "1", "--json")
    assert planned.exit_code == 0, planned.output
    made = []
    monkeypatch.setattr(server, "run", lambda *_, **__: made.append(True))
    served = run(
        "serve",
        "store",
        "--name",
        "live",
        "--log",
        *given,
        "--call-cost",
        "0.01",
        "--horizon",
        "500",
        "--port",
        "0",
    )
    assert served.exit_code == 0, served.output
    assert "3 actions, warm-started from 300 rows and 30 judged answers" in served.output
    assert made


def test_the_cost_of_a_new_action_is_named_with_the_others(folder):
    priced = ["log.csv", *ROLES, "--costs", "small=0,large=0.1,new=0.15"]
    asked = run("ask", *priced, *ASKED, "--out", "queue.csv", "--json")
    assert asked.exit_code == 0, asked.output
    roles = {"action": "model", "reward": "quality"}
    library = sparing.ask(
        sparing.read_log(folder / "log.csv", **roles),
        calls=30,
        call_cost=0.01,
        horizon=20_000,
        actions=["new"],
        costs={"small": 0, "large": 0.1, "new": 0.15},
        table=folder / "log.csv",
        columns=roles,
    )
    assert json.loads(asked.stdout) == {"verdict": None, "queue": json.loads(json.dumps(library.to_dict()))}
    judge(folder / "queue.csv", folder / "judged.csv")
    nothing = ["--about", "new", "--calls", "30", "--call-cost", "9999", "--answers", "judged.csv"]
    done = run("ask", *priced, *nothing)
    assert done.exit_code == 0, done.output
    said = done.stdout[done.stdout.index("sparing learn") :].replace("\\\n", " ").splitlines()[0]
    learned = run(*shlex.split(said)[1:])
    assert learned.exit_code == 0, learned.output
    assert "small,large,new" in said or "large,small,new" in said


@pytest.mark.filterwarnings("default::sparing.errors.UnitWarning")
def test_costs_in_another_unit_are_warned_about_in_a_line(folder, monkeypatch, capsys):
    for command in (
        ["ask", "--about", "small"],
        ["plan", "--horizon", "40", "--worlds", "19", "--workers", "1"],
    ):
        words = [*command, "log.csv", *ROLES, "--call-cost", "0.01", "--costs", "small=0,large=900"]
        monkeypatch.setattr(sys, "argv", ["sparing", *words])
        with pytest.raises(SystemExit):
            main()
        told = capsys.readouterr().err
        assert told.count("sparing: warning: a cost of 900 is larger than the span") == 1
        assert "UnitWarning" not in told


def test_mistakes_are_told_by_line_and_nothing_is_lost(folder, monkeypatch, capsys):
    run("ask", "log.csv", *ROLES, *ASKED, "--out", "queue.csv")
    judge(folder / "queue.csv", folder / "judged.csv")
    text = (folder / "judged.csv").read_text()

    def refused(*words):
        monkeypatch.setattr(sys, "argv", ["sparing", *words])
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code == 2
        return capsys.readouterr().err

    again = ["ask", "log.csv", *ROLES, *ASKED, "--answers", "judged.csv"]
    assert "would be lost" in refused(*again, "--out", "judged.csv")
    assert "30 rewards already" in refused("ask", "log.csv", *ROLES, *ASKED, "--out", "judged.csv")
    assert (folder / "judged.csv").read_text() == text
    assert "Leave --sample out" in refused(*again, "--sample", "50")
    assert "--call-cost is missing" in refused("ask", "log.csv", *ROLES)
    (folder / "judged.csv").write_text(text.replace("0.3", "30"))
    error = refused("learn", "log.csv", *ROLES, "--answers", "judged.csv")
    assert "judged.csv, line " in error
    assert "outside" in error
    lines = (folder / "log.csv").read_text().splitlines()
    (folder / "log.csv").write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")
    (folder / "judged.csv").write_text(text)
    assert "of another log" in refused(*again)


def test_everyone_can_read_the_page_on_every_screen(folder, chromium):
    run("ask", "log.csv", *ROLES, *ASKED, "--out", "queue.csv")
    judge(folder / "queue.csv", folder / "judged.csv")
    told = run("ask", "log.csv", *ROLES, *ASKED, "--answers", "judged.csv", "--html", "told.html")
    assert told.exit_code == 0, told.output
    assert_readable(chromium, folder / "told.html")
