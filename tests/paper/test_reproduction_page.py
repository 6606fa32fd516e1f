"""The reproduction's page in a browser, as it is kept in docs."""

from pathlib import Path

import pytest

from reference.browser import look
from research.paper.report.page import BRIEF, brief, parts_of

PAGE = Path(__file__).parents[2] / "docs" / "reproduction" / "reproduction.html"


@pytest.mark.parametrize("width", [1100, 480])
def test_the_page_asks_for_nothing_and_its_figures_can_be_seen(tmp_path, width):
    seen = look(PAGE, tmp_path, width=width)
    assert seen["console"] == []
    assert seen["requests"] == []
    assert len(seen["figures"]) >= 20
    for across, height, marks in seen["figures"]:
        assert across > 0.8 * min(width, 990) - 60
        assert height > 60
        assert marks > 5
    assert seen["wide"] <= 0


def test_a_long_finding_is_cut_at_the_end_of_a_part():
    long = "calls fall by 3 [2, 4] at scale 1; " * 20
    assert brief(long) == long[: long.rfind(";", 0, BRIEF)] + " …"
    assert brief("short") == "short"
    assert len(brief("no mark to cut at " * 40)) <= BRIEF + 2
    assert parts_of("One thing; another one. A third.") == ["One thing;", "another one.", "A third."]
