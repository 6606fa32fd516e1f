"""The tables of the docs: their arithmetic, their pages, and that a run again gives the committed numbers."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

from research.__main__ import app
from research.pages import put_between
from research.tables import classes, methods, part, shapes
from research.tables.command import NAMES, load
from sparing.errors import DataError, FileError
from sparing.simulation import LinearWorld

DOCS = Path(__file__).parents[2] / "docs"


def committed(name):
    return json.loads((DOCS / "tables" / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_the_page_says_what_the_numbers_say(name):
    """Of the full setting, and neither edited by hand."""
    one, found = load(name), committed(name)
    page = (DOCS / one.page).read_text(encoding="utf-8")
    assert one.put_into(page, found) == page
    assert part.text(found) == (DOCS / "tables" / f"{name}.json").read_text(encoding="utf-8")
    assert found["setting"] == json.loads(json.dumps(vars(one.full)))
    units = one.units(one.full)
    shared = [name for name in one.by if name in units[0]]
    for row in found["rows"]:
        asked = {unit["seed"] for unit in units if all(unit[name] == row[name] for name in shared)}
        assert sorted(row["seed"]) == sorted(asked)


@pytest.mark.parametrize(
    ("name", "number"), [("shapes", 3), ("routing", 37), ("items", 12), ("holding", 7), ("shift", 241)]
)
def test_a_run_again_gives_the_committed_numbers(name, number):
    one, found = load(name), committed(name)
    unit = one.units(one.full)[number]
    with threadpool_limits(1):  # as in the processes that ran it
        try:
            again = one.run(unit)["rows"]
        except DataError as error:
            pytest.skip(str(error))
    for row in again:
        whole = {**unit, **row}
        (kept,) = [kept for kept in found["rows"] if all(kept[name] == whole[name] for name in one.by)]
        place = kept["seed"].index(unit["seed"])
        for of in one.of:
            expected = kept[of][place]
            assert whole[of] == (None if expected is None else pytest.approx(expected, rel=1e-6, abs=1e-9))


def test_averages_are_means_and_standard_errors():
    rng = np.random.default_rng(0)
    values = rng.normal(size=9)
    pairs = [
        ({"seed": seed, "place": "here"}, {"rows": [{"calls": value, "few": value if seed < 4 else None}]})
        for seed, value in enumerate(values)
    ]
    (row,) = part.gathered(pairs, ("place",), ("calls", "few"))
    found = part.averages(row, ("calls", "few"))
    assert found["runs"] == 9
    assert found["calls"] == pytest.approx(values.mean())
    assert found["calls_se"] == pytest.approx(math.sqrt(((values - values.mean()) ** 2).sum() / 8 / 9))
    assert found["few"] == pytest.approx(values[:4].mean())
    assert (found["calls_of"], found["few_of"]) == (9, 4)


def test_calls_until_an_error_is_reached_for_good():
    assert classes.needed([0, 5, 10, 15], [0.4, 0.1, 0.3, 0.1], 0.2) == 15
    assert classes.needed([0, 5, 10, 15], [0.4, 0.1, 0.2, 0.1], 0.2) == 5
    assert classes.needed([0, 5], [0.1, 0.2], 0.2) == 0
    assert classes.needed([0, 5], [0.1, 0.3], 0.2) is None


def test_a_run_in_pieces_is_the_run():
    """Stopping to look changes nothing that is decided."""
    from sparing.online.algorithms import confident
    from sparing.simulation import draw_log
    from sparing.simulation.simulate import play

    world = LinearWorld(n_actions=5, n_features=3, seed=1)
    log = draw_log(world, rows=200, support="never-logged", seed=1)
    stream = world.live_stream(300, np.random.default_rng(2))
    whole = play(confident(log, seed=3), stream)
    pieces = list(classes._pieces(confident(log, seed=3), stream))
    assert len(pieces) > 3
    assert np.array_equal(np.concatenate([one.actions for one in pieces]), whole.actions)
    assert np.array_equal(np.concatenate([one.needs_reward for one in pieces]), whole.needs_reward)


def test_the_logger_drops_the_least_likely():
    world = shapes.ShapedWorld("z", n_actions=10, n_features=6, seed=0)
    contexts = world.contexts(500, np.random.default_rng(1))
    table = methods.dropping(world, world.theta, 0.4, 1.0, never=[2, 5, 7]).probabilities(contexts)
    scores = contexts @ world.theta.T
    assert table.sum(axis=1) == pytest.approx(np.ones(500))
    assert not table[:, [2, 5, 7]].any()
    assert ((table > 0).sum(axis=1) == 4).all()  # 7 of 10 are played, 40 % of these dropped
    rest = np.delete(scores, [2, 5, 7], axis=1), np.delete(table, [2, 5, 7], axis=1)
    least = np.where(rest[1] > 0, rest[0], np.inf).min(axis=1)
    assert (np.where(rest[1] == 0, rest[0], -np.inf).max(axis=1) < least).all()


def test_marks():
    assert put_between("a <b> x <e> c <e>", "<b>", "<e>", " new\n") == "a <b>\n\nnew\n\n<e> c <e>"
    for page in ("", "<e> <b>", "<b> <b> <e>", "<b> old, its end lost; prose <!-- other --> new <e>"):
        with pytest.raises(FileError, match="needs the lines"):
            put_between(page, "<b>", "<e>", "new")


def test_quick_prints_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, ["tables", "items", "holding", "--quick", "--workers", "1"])
    assert found.exit_code == 0, found.output
    assert "| 20 | 0.25 |" in found.output
    assert "README" in found.output
    assert not list(tmp_path.iterdir())
    wrong = CliRunner().invoke(app, ["tables", "itmes", "--quick"])
    assert wrong.exit_code != 0
    assert "there are classes" in str(wrong.exception)
