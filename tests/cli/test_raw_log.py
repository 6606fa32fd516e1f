"""A raw clicks log goes through every command without any preparation."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import sparing
from sparing.cli import app

runner = CliRunner()
ROLES = ["--action", "banner", "--reward", "clicked"]


def write_clicks(path, n=1500, seed=0, order=None):
    """Categories, truth values, moments, gaps, words for actions, no propensities."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        country, age = str(rng.choice(["NZ", "CH", "DE"])), int(rng.integers(18, 80))
        member, banner = (
            bool(rng.random() < 0.4),
            str(rng.choice(["red", "blue", "green"], p=[0.5, 0.3, 0.2])),
        )
        rate = 0.15 + 0.3 * (banner == "red" and country == "NZ") + 0.2 * (banner == "green" and member)
        rows.append(
            {
                "visitor": f"v{i}",
                "age": "" if rng.random() < 0.05 else age,
                "country": country,
                "member": str(member).lower(),
                "seen_at": str(np.datetime64("2026-03-01T10:00") + 7 * i),
                "banner": banner,
                "clicked": int(rng.random() < rate),
            }
        )
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, order or list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    write_clicks(folder / "clicks.csv")
    done = run("learn", folder / "clicks.csv", *ROLES, "--out", folder / "p.sparing", "--json")
    assert done.exit_code == 0, done.output
    return folder


def run(*words):
    return runner.invoke(app, [str(word) for word in words])


def test_the_columns_are_told(folder):
    done = run("audit", folder / "clicks.csv", *ROLES, "--json")
    assert done.exit_code == 0, done.output
    assert (
        "age: number, some missing; country: category of 3 values; member: bool; seen_at: time" in done.stderr
    )
    assert "visitor: left out, a different value in nearly every row" in done.stderr
    assert json.loads(done.stdout)["metrics"]["rows"] == 1500


def test_learn_then_evaluate_on_the_same_file_judges_by_rows_held_out(folder):
    done = run("evaluate", folder / "clicks.csv", *ROLES, "--policy", folder / "p.sparing", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"] < 1500 / 2


def test_another_file_is_read_as_the_policys_was(folder, tmp_path):
    names = ["seen_at", "clicked", "member", "country", "banner", "age", "visitor"]
    values = []
    for order in (None, names):
        other = write_clicks(tmp_path / "other.csv", seed=5, order=order)
        done = run("evaluate", other, *ROLES, "--policy", folder / "p.sparing", "--methods", "dm", "--json")
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        assert found["rows"] == 1500
        values.append(found["estimates"][0]["value"])
    assert values[0] == values[1]
    other.write_text(other.read_text().replace("country", "land", 1))
    done = run("evaluate", other, *ROLES, "--policy", folder / "p.sparing")
    assert "no context column 'country'" in str(done.exception)


def test_features_by_a_file_and_items_by_a_table(folder, tmp_path):
    (tmp_path / "f.json").write_text('{"age": "number", "country": "category"}')
    (tmp_path / "items.csv").write_text("banner,price\nred,1\ngreen,2\nblue,3\nnew,4\n")
    words = ["--features", tmp_path / "f.json", "--items", tmp_path / "items.csv"]
    done = run("audit", folder / "clicks.csv", *ROLES, *words, "--json")
    assert done.exit_code == 0, done.output
    assert "features: age: number, some missing; country: category of 3 values\n" in done.stderr
    assert json.loads(done.stdout)["metrics"]["actions"] == 4
    done = run("audit", folder / "clicks.csv", *ROLES, "--features", "raw")
    assert "no context columns x_0" in str(done.exception)


def test_convert_keeps_the_encoder(folder, tmp_path):
    done = run(
        "convert",
        folder / "clicks.csv",
        tmp_path / "clicks.parquet",
        "--option",
        "action=banner",
        "--option",
        "reward=clicked",
    )
    assert done.exit_code == 0, done.output
    done = run("evaluate", tmp_path / "clicks.parquet", "--policy", "uniform", "--json")
    assert done.exit_code == 0, done.output


def test_plan_and_a_live_loop(folder):
    words = ["--horizon", "200", "--worlds", "20", "--workers", "1", "--tolerances", "0.05", "--json"]
    done = run("plan", folder / "clicks.csv", *ROLES, *words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)
    log = sparing.read_log(folder / "clicks.csv", action="banner", reward="clicked")
    learner = sparing.confident(log, reward_range=(0, 1))
    rng = np.random.default_rng(3)
    for i in range(50):
        request = {
            "age": None if i % 9 == 0 else 30 + i,
            "country": "NZ",
            "member": i % 2 == 0,
            "seen_at": "2026-04-01",
        }
        decision = learner.decide(request, eligible=["red", "green"])
        assert decision.action in ("red", "green")
        if decision.needs_reward:
            learner.update(decision, float(rng.random() < 0.3))
    assert learner.rounds == 50


@pytest.mark.parametrize("walked", [[], ["--engine", "local"]])
def test_actions_that_may_be_one_are_told(tmp_path, walked):
    path = tmp_path / "log.csv"
    labels = ["red", "Red ", "blue", "BLUE", "green"]
    path.write_text("age,action,reward\n" + "".join(f"{i},{labels[i % 5]},{i % 2}\n" for i in range(60)))
    done = runner.invoke(app, ["audit", str(path), *walked])
    assert done.exit_code == 0, done.output
    assert "and 1 more, differ only in case or spaces and count as different" in done.stderr
    path.write_text(path.read_text().replace("Red ", "red").replace("BLUE", "blue"))
    assert "differ only" not in runner.invoke(app, ["audit", str(path)]).stderr
