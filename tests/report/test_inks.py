"""Figures that take the ink of the page they stand on, in both schemes, and pages that say what drawings show."""

import re

import numpy as np

from each import for_each
from reference.accessibility import contrast, legends, violations
from sparing.planning import page as plan_page
from sparing.report import figures, html
from sparing.report.figures import DARK, variable

TEXT, MARK = 4.5, 3.0
"""Least contrasts of words and of marks (WCAG 2)."""


def drawn(label="a line: #000000"):
    figure, (axes,) = figures.panels(1)
    axes.plot([0, 1], [0, 1], color=figures.COLOURS[1], label=label)
    axes.set_title("A title")
    with figures.styled():
        axes.legend()
    return figure


@for_each("colour", [*figures.COLOURS, *plan_page.COLOURS])
def test_every_colour_can_be_seen_in_the_dark(colour):
    assert contrast(DARK[colour], DARK["#ffffff"]) >= TEXT


@for_each("colour", plan_page.COLOURS)
def test_colours_of_names_can_be_read_in_the_light(colour):
    assert contrast(colour, "#ffffff") >= TEXT


def test_colours_stay_apart_in_the_dark():
    for colours in (figures.COLOURS, plan_page.COLOURS):
        assert len({DARK[colour] for colour in colours}) == len(colours)


def test_a_figure_has_no_ink_of_its_own():
    svg = figures.to_svg(drawn(), "What <it> shows")
    assert svg.startswith('<svg role="img" aria-label="What &lt;it&gt; shows"')
    assert variable(figures.COLOURS[1]) in svg
    bare = re.sub(r"var\(--c[0-9a-f]{6},#[0-9a-f]{6}\)", "", svg)
    assert not re.findall(r"(?:fill|stroke): #", bare)
    assert "DejaVu" not in svg
    assert "A title</text>" in svg
    assert "a line: #000000</text>" in svg
    assert all(f"--c{colour[1:]}:" in html.style() for colour in DARK)


def test_two_figures_on_a_page_share_no_names():
    one, two = figures.to_svg(drawn()), figures.to_svg(drawn("another"))
    own = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (one, two)]
    assert own[0]
    assert not own[0] & own[1]
    for svg, names in zip((one, two), own, strict=True):
        assert set(re.findall(r"url\(#([^)]+)\)|href=\"#([^\"]+)\"", svg)) <= {
            (name, "") for name in names
        } | {("", name) for name in names}


def test_the_check_notices_what_it_looks_for(chromium):
    """A drawing without words, a table that only a mouse can scroll, and a legend's length."""
    figure, (axes,) = figures.panels(1)
    for number in range(7):
        axes.plot([0, 1], [0, number], label=str(number))
    axes.legend()
    svg = figures.to_svg(figure).replace("aria-label", "data-label")
    wide = (
        "<div style='overflow-x: auto; width: 90px'><table><tr><td>" + "x" * 400 + "</td></tr></table></div>"
    )
    seen = chromium.new_page()
    seen.set_content(html.page("bad", [html.figure(svg, "caption"), wide]))
    found = " ".join(violations(seen))
    assert "svg-img-alt" in found
    assert "scrollable-region-focusable" in found
    assert legends(seen) == [7]
    seen.close()


def test_names_are_spread_out_in_order_and_no_more_than_needed():
    places = np.array([0.5, 0.1, 0.52, 0.51, 0.9])
    found = figures.spread_out(places, 0.06)
    assert (found.argsort() == places.argsort()).all()
    assert np.diff(np.sort(found)).min() >= 0.06 - 1e-12
    np.testing.assert_allclose(found[[1, 4]], [0.1, 0.9])
    np.testing.assert_allclose(found[[0, 2, 3]].mean(), 0.51)
    np.testing.assert_allclose(figures.spread_out(np.array([0.3, 0.3]), 0.1), [0.25, 0.35])
