"""Names in a plan's figure are told apart where points crowd."""

import itertools

import numpy as np
import pytest

from sparing.planning.page import draw
from sparing.planning.result import Option, Plan
from sparing.planning.strata import Strata

WORLDS = 40
ALIKE = Strata(np.arange(WORLDS), np.full(WORLDS, 10**9), WORLDS, 2)
FOUND = [
    ("offline policy", None, None, 0, 489, 69),
    ("economical", 0.5, None, 14, 223, 15),
    ("confident", None, 0.1, 2586, 155, 9),
    ("confident", None, 0.4, 372, 193, 11),
    ("confident", None, 1.0, 61, 244, 20),
    ("certified", None, 0.1, 4276, 240, 10),
    ("certified", None, 0.4, 3969, 241, 10),
    ("certified", None, 1.0, 3587, 255, 13),
]


def option(name, price, tolerance, calls, regret, error):
    luck = np.tile([-1.0, 1.0], WORLDS // 2)
    luck /= ALIKE.error(luck)
    calls = np.full((WORLDS, 1), float(calls))
    return Option(name, price, tolerance, "", calls, (regret + error * luck)[:, None], ALIKE)


@pytest.mark.parametrize("narrow", [False, True])
def test_names_side_by_side_do_not_touch(narrow):
    options = tuple(option(*each) for each in FOUND)
    figure = draw(
        Plan(5000, WORLDS, 0.9, 0.902, (5000,), options, 2.0, 1.0, (), call_cost=0.5), narrow=narrow
    )
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    for one, two in itertools.combinations(boxes, 2):
        beside = max(one.x0, two.x0) - min(one.x1, two.x1)
        above = max(one.y0, two.y0) - min(one.y1, two.y1)
        assert beside > 2 or above >= 0
