"""`sparing plan`: table, JSON, figure and page, and errors in one line."""

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import sparing
from reference.accessibility import assert_readable
from reference.browser import assert_self_contained
from sparing.cli import app
from sparing.cli.terminal import as_cli_options
from sparing.planning.page import draw, series
from sparing.planning.plan import LEARNERS, plan

QUICK = ["--horizon", "80", "--worlds", "19", "--workers", "1", "--radius-scale", "0.2"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    world = sparing.simulation.LinearWorld(n_actions=6, n_features=3, noise=1.0, seed=0)
    log = sparing.simulation.draw_log(world, rows=200, never=[5], seed=1)
    target = tmp_path_factory.mktemp("plan") / "log.parquet"
    sparing.write_log(log, target)
    return target


@pytest.fixture(scope="module")
def shown(path, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out") / "new"
    asked = ["--call-cost", "0.1", "--regret", "0.001", "--budget", "60"]
    words = ["plan", str(path), *QUICK, *asked, "--out", str(folder), "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return folder, json.loads(result.stdout)


def test_json_is_what_the_library_says(path, shown):
    _, result = shown
    log = sparing.read_log(path)
    asked = {"call_cost": 0.1, "regret": 0.001, "budget": 60}
    expected = plan(log, horizon=80, worlds=19, workers=1, radius_scale=0.2, **asked)
    assert result == json.loads(json.dumps(expected.to_dict()))


def test_a_regret_out_of_reach_is_not_promised(shown):
    _, result = shown
    assert result["asked"]["regret"]["by_mean"] is None
    assert any("none of these reaches it" in answer for answer in result["answers"])
    chosen = next(o for o in result["options"] if o["label"] == result["asked"]["budget"]["option"])
    assert chosen["calls"]["high"] <= 60


def test_page_is_self_contained(shown):
    folder, result = shown
    html = (folder / "plan.html").read_text(encoding="utf-8")
    assert_self_contained(html)
    for text in (result["sentence"], *result["frontier"], "What this rests on", "exchangeable"):
        assert text in html
    assert html.index(result["sentence"]) < html.index("<svg")  # first of all, what to do
    assert (folder / "plan.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(file.name for file in folder.iterdir()) == ["plan.html", "plan.png"]


def test_table_for_people_and_no_files_unasked(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["plan", str(path), *QUICK, "--tolerances", "0.1, 0.3", "--learners", "economical,confident"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Rewards to request")
    for label in ("offline policy", "confident, τ 0.1", "confident, τ 0.3", "What this rests on"):
        assert label in result.stdout
    assert "certified" not in result.stdout
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def priced(path):
    asked = {"horizon": 60, "call_cost": 0.1, "worlds": 19, "workers": 1}
    return plan(sparing.read_log(path), tolerances=[0.1, 0.3], learners=LEARNERS, **asked)


def test_figure_shows_every_mean_and_names_it(priced):
    planned = priced
    figure = draw(planned)
    (axes,) = figure.axes
    drawn = [container.lines[0].get_xydata() for container in axes.containers]
    for line, options in zip(drawn, series(planned).values(), strict=True):
        means = [(option.calls_at().mean, option.regret_at().mean) for option in options]
        np.testing.assert_allclose(line, means)
    (low, high), (left, right) = axes.get_ylim(), axes.get_xlim()
    for option in planned.options:
        assert low < option.regret_at().mean < high
        assert left < option.calls_at().mean < right
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.texts} == {"offline policy", *LEARNERS}
    labels = " ".join(text.get_text() for text in axes.texts)
    assert [labels.count(f"τ {tolerance}") for tolerance in (0.1, 0.3)] == [2, 2]
    assert labels.count("(advised)") == 1
    assert "in the reward's unit" in axes.get_ylabel()


@pytest.mark.parametrize("narrow", [False, True])
def test_names_in_the_figure_do_not_lie_over_one_another(priced, narrow):
    figure = draw(priced, narrow=narrow)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) > 2
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:place])
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width


def test_everyone_can_read_the_page_on_every_screen(shown, chromium):
    folder, _ = shown
    assert_readable(chromium, folder / "plan.html")
    page = chromium.new_page(viewport={"width": 390, "height": 900})
    page.goto((folder / "plan.html").as_uri())
    drawn = page.locator("figure svg:visible")
    assert drawn.count() == 1
    assert drawn.get_attribute("role") == "img"
    assert "economical at 0.1 with" in drawn.get_attribute("aria-label")
    heights = drawn.locator("text").evaluate_all(
        "all => all.map((text) => text.getBoundingClientRect().height)"
    )
    assert min(heights) >= 11  # of type that can be read
    page.close()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--horizon", "0"], "--horizon 0; must be a whole number"),
        (["--budget", "-5"], "--budget -5; must be a whole number, 0 or more"),
        (["--call-cost", "-1"], "--call-cost -1.0; must be a finite number, 0 or more"),
        (["--worlds", "3"], "needs 19 or more"),
        (["--tolerances", "0.1,x"], "--tolerances 0.1,x; must be numbers"),
        (["--tolerances", "-0.1"], "--tolerances -0.1"),
        (["--learners", "oracle"], "--learners oracle; must be one of"),
        (["--noise", "-1"], "--noise -1"),
    ],
)
def test_bad_numbers_are_one_line(path, tmp_path, words, message):
    result = CliRunner().invoke(app, ["plan", str(path), *QUICK, *words, "--out", str(tmp_path / "o")])
    assert isinstance(result.exception, sparing.errors.SettingError)
    assert message in as_cli_options(str(result.exception), ["plan"])
    assert not (tmp_path / "o").exists()


def test_a_log_that_says_nothing_names_the_options(tmp_path):
    x = np.random.default_rng(0).random((40, 2))
    target = tmp_path / "two.csv"
    sparing.write_log(sparing.Log.from_arrays(x, ["a", "b"] * 20, np.zeros(40)), target)
    command = [sys.executable, "-m", "sparing", "plan", str(target), *QUICK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("sparing: theta_bound would be estimated as 0")
    assert "Check the column of rewards first" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_log_without_rows(tmp_path):
    target = tmp_path / "none.csv"
    target.write_text("x_0,action,reward\n")
    result = CliRunner().invoke(app, ["plan", str(target), *QUICK])
    assert isinstance(result.exception, sparing.errors.SparingError)
