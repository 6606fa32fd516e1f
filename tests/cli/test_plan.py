"""`sparing plan`: table, JSON, figure and page, and errors in one line."""

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import sparing
from reference.browser import assert_self_contained
from sparing.cli import app
from sparing.planning.page import draw
from sparing.planning.planning import plan

QUICK = ["--rounds", "80", "--worlds", "19", "--workers", "1", "--radius-scale", "0.2"]


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
    words = ["plan", str(path), *QUICK, "--regret", "0.001", "--budget", "60", "--out", str(folder), "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return folder, json.loads(result.stdout)


def test_json_is_what_the_library_says(path, shown):
    _, result = shown
    log = sparing.read_log(path)
    expected = plan(log, rounds=80, worlds=19, workers=1, radius_scale=0.2, regret=0.001, budget=60.0)
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
    for text in (*result["frontier"], "What this rests on", "exchangeable"):
        assert text in html
    assert (folder / "plan.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(file.name for file in folder.iterdir()) == ["plan.html", "plan.png"]


def test_table_for_people_and_no_files_unasked(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["plan", str(path), *QUICK, "--tolerance", "0.1, 0.3", "--learners", "greedy,confident"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    for label in ("greedy", "confident, τ 0.1", "confident, τ 0.3", "What this rests on"):
        assert label in result.stdout
    assert "certified" not in result.stdout
    assert not list(tmp_path.iterdir())


def test_figure_shows_every_mean_and_interval(path):
    planned = plan(sparing.read_log(path), rounds=60, worlds=19, workers=1, tolerances=[0.1, 0.3])
    figure = draw(planned)
    above, calls, regret = figure.axes
    for axes, found in (
        (calls, [option.calls_at() for option in planned.options]),
        (regret, [option.regret_at() for option in planned.options]),
    ):
        drawn = [line.get_xydata() for line in axes.lines]
        for place, summary in enumerate(found):
            bar, mean, median = drawn[3 * place : 3 * place + 3]
            np.testing.assert_allclose(bar, [[summary.low, place], [summary.high, place]])
            np.testing.assert_allclose(mean, [[summary.mean, place]])
            np.testing.assert_allclose(median, [[summary.median, place]])
    low, high = above.get_ylim()
    assert low < min(option.regret_at().low for option in planned.options)
    assert high > max(option.regret_at().high for option in planned.options)
    numbers = [
        int(number) for text in above.texts for run in text.get_text().split(", ") for number in spread(run)
    ]
    assert sorted(numbers) == list(range(1, len(planned.options) + 1))


def spread(run):
    first, _, last = run.partition("–")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rounds", "0"], "rounds=0"),
        (["--worlds", "3"], "needs 19 or more"),
        (["--tolerance", "0.1,x"], "tolerance='0.1,x'"),
        (["--tolerance", "-0.1"], "tolerances=-0.1"),
        (["--learners", "oracle"], "'oracle'; must be one of"),
        (["--budget", "-5"], "budget=-5"),
        (["--noise", "-1"], "noise=-1"),
    ],
)
def test_bad_numbers_are_one_line(path, tmp_path, words, message):
    result = CliRunner().invoke(app, ["plan", str(path), *QUICK, *words, "--out", str(tmp_path / "o")])
    assert isinstance(result.exception, sparing.errors.SettingError)
    assert message in str(result.exception)
    assert not (tmp_path / "o").exists()


def test_a_log_that_says_nothing_names_the_options(tmp_path):
    x = np.random.default_rng(0).random((40, 2))
    target = tmp_path / "two.csv"
    sparing.write_log(sparing.Log.from_arrays(x, ["a", "b"] * 20, np.zeros(40)), target)
    command = [sys.executable, "-m", "sparing", "plan", str(target), *QUICK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("sparing: theta_bound would be estimated as 0")
    assert "Traceback" not in done.stderr


def test_a_log_without_rows(tmp_path):
    target = tmp_path / "none.csv"
    target.write_text("x_0,action,reward\n")
    result = CliRunner().invoke(app, ["plan", str(target), *QUICK])
    assert isinstance(result.exception, sparing.errors.SparingError)
