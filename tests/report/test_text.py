"""Numbers and names in words."""

import pytest

from sparing.report.text import counted, join_names, percent


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0%"), (1e-9, "<1%"), (0.006, "1%"), (0.25, "25%"), (0.994, "99%"), (0.9999, ">99%"), (1, "100%")],
)
def test_what_is_neither_nothing_nor_all_never_looks_so(share, text):
    assert percent(share) == text


def test_names_are_listed_up_to_ten_and_cut_at_forty_letters():
    assert join_names(["a", 1, ("b", 2)]) == "a, 1, ('b', 2)"
    assert join_names(range(11)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …"
    assert join_names(["x" * 40]) == "x" * 40
    assert join_names(["x" * 41]) == "x" * 39 + "…"
    assert join_names([]) == ""


def test_counted():
    assert [counted(n, "row") for n in (0, 1, 2, 1234)] == ["0 rows", "1 row", "2 rows", "1,234 rows"]
