"""The pictures of worlds that move: their numbers are those of today's code, and the page shows them."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from research.front.picture import NUMBERS, SCHEMES, digest
from research.moving import numbers, picture
from research.tables import forgetting, shift

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "how-to" / "drift.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def found():
    return json.loads((DOCS / "front" / "moving.json").read_text(encoding="utf-8"))


def test_the_committed_setting_is_the_full_one_and_that_of_the_tables(found):
    assert found["setting"] == json.loads(json.dumps(asdict(numbers.FULL)))
    assert len(numbers.FULL.seeds) >= 20
    assert numbers.FULL.seeds == shift.Setting.seeds == forgetting.Setting.seeds
    assert (
        forgetting.Setting.rounds % (2 * numbers.FULL.long_stretch) == 0
    )  # the change is between two points


@pytest.mark.parametrize("name", picture.NAMES)
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_pictures_were_drawn_from_these_numbers_and_are_on_the_page(found, name, scheme):
    Image = pytest.importorskip("PIL.Image")
    path = DOCS / "images" / f"moving-{name}-{scheme.name}.png"
    assert path.stat().st_size < 100_000
    with Image.open(path) as drawn:
        assert drawn.text[NUMBERS] == digest(found)
    assert f"../images/{path.name}" in PAGE


def test_a_run_again_gives_the_committed_numbers(found):
    """The histories of all pieces but two are known from what is left; runs of two learners agree with the tables."""
    unit = next(one for one in numbers.units(numbers.FULL) if one["picture"] == numbers.WATCHED)
    every, once = np.array(numbers.run({**unit, "seed": 3}))
    assert (every <= found[numbers.WATCHED]["every"]).all()
    assert (once <= found[numbers.WATCHED]["once"]).all()
    table = json.loads((DOCS / "tables" / "forgetting.json").read_text(encoding="utf-8"))["rows"]
    for half_life, curve in found[numbers.TRADED].items():
        (row,) = [
            one for one in table if (one["half_life"], one["change"]) == (int(half_life), forgetting.TRADED)
        ]
        paid = np.mean(row["paid"]) - forgetting.Setting.price * np.mean(row["calls"])
        assert numbers.FULL.long_stretch * sum(curve["mean"]) == pytest.approx(paid, rel=1e-4)


def test_the_interval_of_the_picture_is_the_dashboards():
    """Of an arm whose rewards are all known it is the mean, with Student's variance; of a sample of skipped decisions nearly so."""
    rng = np.random.default_rng(0)
    rewards, held = (rng.random(500) < 0.3).astype(float), rng.random(500) < 0.5
    got = numbers._holdout(rewards, held, np.array([500]))
    mine = rewards[held]
    assert got.value[0] == pytest.approx(mine.mean(), rel=1e-12)
    assert got.variance[0] == pytest.approx(mine.var(ddof=1) / len(mine), rel=0.01)
    checked = rng.random(500) < 0.3
    sampled = numbers._policy(rewards, held, checked, np.array([500]))
    mine = rewards[checked & ~held]
    assert sampled.value[0] == pytest.approx(mine.mean(), rel=1e-12)
    assert sampled.rewards[0] == len(mine)


def test_most_histories_hold_at_every_look_and_many_fail_at_one():
    unit = next(one for one in numbers.units(numbers.FULL) if one["picture"] == numbers.WATCHED)
    with threadpool_limits(1):
        every, once = np.array(numbers.run({**unit, "histories": 400, "pieces": 10}))
    assert every[-1] <= 0.05 * 40 + 2
    assert once[-1] > 3 * 0.05 * 40
    assert (np.diff(once) >= 0).all()
