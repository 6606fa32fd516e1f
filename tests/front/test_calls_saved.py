"""The front page's picture, its numbers and the texts around it are those of today's code."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from research.front import numbers, picture, telling
from research.front.setting import ALONE, FULL, OURS, WARM
from sparing.errors import DataError, FileError
from sparing.simulation import datasets

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "tutorials" / "routing.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def found():
    return json.loads((DOCS / "front" / "calls-saved.json").read_text(encoding="utf-8"))


def place(found, weight, model):
    return next(one for one in found["places"] if (one["weight"], numbers.short(one)) == (weight, model))


def test_the_committed_setting_is_the_full_one(found):
    assert found["setting"] == json.loads(json.dumps(vars(FULL)))
    assert len(found["places"]) == 12
    assert len(FULL.seeds) >= 20
    assert FULL.learners[OURS]["call_cost"] == FULL.call_cost


@pytest.mark.parametrize("number", [120 + 40 + 7, 120 + 80 + 39], ids=["Mistral", "Gemini"])
def test_a_run_again_gives_the_committed_numbers(found, number):
    try:
        datasets.load("llm-routing")
    except DataError as error:
        if "could not be had" not in str(error):
            raise
        pytest.skip(str(error))
    unit = numbers.units(FULL)[number]
    kept = next(
        one
        for one in found["places"]
        if (one["weight"], one["untried"]) == (unit["weight"], found["models"][unit["untried"]])
    )
    with threadpool_limits(1):  # as in the processes that ran it
        again = numbers.run(unit)
    at = FULL.seeds.index(unit["seed"])
    for name, played in again.items():
        assert played["calls"] == kept["runs"][name]["calls"][at], name
        assert played["reward"] == pytest.approx(kept["runs"][name]["reward"][at], abs=1e-9), name


def test_means_and_differences_are_those_of_the_runs(found):
    for one in found["places"]:
        again = numbers.summary(one["runs"], FULL.call_cost, found["rounds"])
        assert {key: one[key] for key in again} == again
        ours, alone = (np.array(one["runs"][name]["reward"]) for name in (OURS, ALONE))
        paid = FULL.call_cost * np.array(one["runs"][OURS]["calls"]) / found["rounds"]
        net = one["economical less"][ALONE]["net"]
        assert net["value"] == pytest.approx((ours - alone - paid).mean(), abs=1e-12)
        assert net["low"] < net["value"] < net["high"]


def test_the_file_holds_what_it_is_made_of(found):
    assert json.loads(numbers.text(found)) == found


@pytest.mark.parametrize("scheme", picture.SCHEMES, ids=lambda scheme: scheme.name)
@pytest.mark.parametrize("shape", picture.SHAPES)
def test_pictures_were_drawn_from_these_numbers(found, scheme, shape):
    Image = pytest.importorskip("PIL.Image")
    path = DOCS / "images" / f"calls-saved-{scheme.name}{shape}.png"
    assert path.stat().st_size < 150_000
    with Image.open(path) as drawn:
        assert drawn.text[picture.NUMBERS] == picture.digest(found)


def test_the_headline_says_what_the_numbers_say(found):
    """More than who asks always only if surely so in all three panels; less only if surely so."""
    assert picture.headline(found) == "Paying for 1 to 6 % of the rewards earns more than paying for all"
    worse = copy.deepcopy(found)
    less = [one["economical less"][WARM]["reward"] for one in numbers.shown(worse)]
    less[1].update(value=0.0, low=-0.001, high=0.001)
    assert "about as much as" in picture.headline(worse)
    for one in less:
        one.update(value=-0.002, low=-0.003, high=-0.001)
    assert "less than" in picture.headline(worse)


def test_the_tutorial_tells_these_numbers(found):
    assert telling.put_into(PAGE, telling.markdown(found)) == PAGE
    nothing = [place(found, 3, model)["means"][OURS]["calls"]["value"] for model in ("Llama", "Gemini")]
    assert f"pays for {nothing[0]:.0f} or {nothing[1]:.0f} answers" in PAGE
    assert f"scored up to {max(place(found, 3, 'Mistral')['runs'][OURS]['calls'])} answers" in PAGE
    dear = place(found, 0, "Gemini")["means"]
    assert f"took {100 * dear[OURS]['calls']['value'] / found['rounds']:.0f} % of the answers" in PAGE
    assert 0.4 < dear["confident"]["calls"]["value"] / dear[OURS]["calls"]["value"] < 0.6  # "half as many"
    assert dear["confident"]["net"]["value"] > dear[OURS]["net"]["value"]
    lost = min(one["economical less"][ALONE]["net"]["value"] for one in found["places"])
    assert f"by up to {-lost:.3f} a prompt" in PAGE


def test_a_page_without_its_markers_is_refused():
    with pytest.raises(FileError, match="needs the lines"):
        telling.put_into("no markers", "numbers")


def test_the_front_pages_tell_these_numbers(found):
    calls = [
        place(found, 3, model)["means"][OURS]["calls"]["value"] for model in ("Llama", "Mistral", "Gemini")
    ]
    paid = "paid for {:.0f}, {:.0f} and {:.0f}".format(*calls)
    nets = [one["economical less"][ALONE]["net"] for one in found["places"]]
    better, worse = sum(one["low"] > 0 for one in nets), sum(one["high"] < 0 for one in nets)
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert f"{paid} scores" in " ".join(readme.split())
    assert f"{paid} of {found['rounds']:,} scores" in (DOCS / "index.md").read_text(encoding="utf-8")
    assert (
        f"in {better} and worse in {worse}, by at most {-min(one['value'] for one in nets):.3f} per prompt"
        in " ".join(readme.split())
    )
