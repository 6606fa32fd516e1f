"""The reproduction's pages as they are kept in docs: drawn from the kept numbers, plain, small, and legible."""

import json
import re
from pathlib import Path

import pytest

from reference.accessibility import contrast
from reference.browser import assert_self_contained, look
from research.learners import LEARNERS
from research.paper import experiment as experiments
from research.paper.experiment import CLAIMS, HOLDS, ONLY_WHEN
from research.paper.report import folder, glance, html, markdown, page, plain, svg
from research.paper.report.plate import MOST, panel, plate
from research.paper.report.words import parts_of
from sparing.report import figures

FOLDER = Path(__file__).parents[2] / "docs" / "reproduction"
PAGE = FOLDER / "reproduction.html"
SYMBOLS = re.compile(r"[^\x00-\x7f]|[=<>^_{}·]")


@pytest.fixture(scope="module")
def record():
    return json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def text():
    return (FOLDER / "REPRODUCTION.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def written():
    return PAGE.read_text(encoding="utf-8")


def test_the_pages_are_what_the_kept_results_give(record, text, written):
    assert page.gather(FOLDER, kept=True) == (record, [])
    assert markdown.document(record) == text
    _, summary, table, *_ = html.parts(record, FOLDER)
    assert summary in written
    assert table in written
    drawings = sum(
        len(about["drawings"]) for one in record["experiments"].values() for about in one["figures"].values()
    )
    assert written.count("<svg") == drawings


@pytest.mark.parametrize("name", experiments.NAMES)
def test_figures_are_those_of_the_kept_numbers_and_have_six_lines_at_most(record, name):
    kept = record["experiments"][name]
    drawn = folder.draw(experiments.load(name), kept, FOLDER / name)
    assert {key: folder.describe(key, one) for key, one in drawn.items()} == kept["figures"]
    assert drawn or name == "table1"
    for one in drawn.values():
        assert 1 <= len(one.entries) <= MOST == 6
        assert one.see.startswith(("Across", "Both axes", "A row", "Left"))
        for word in ("seeds|worlds", "log", "radius", "price"):
            assert re.search(word, one.regime), f"{word} is not said: {one.regime}"
        for figure in one.panels:
            (axes,) = figure.axes
            _, names = axes.get_legend_handles_labels()
            assert set(names) <= set(one.entries)
            assert figure.get_size_inches()[0] < 3.6, "a phone shows it whole"


def test_every_claim_has_a_plain_sentence_for_what_was_found(record):
    rows = glance.rows(record)
    assert {row.verdict["claim"] for row in rows} >= CLAIMS.keys()
    assert len({row.label for row in rows}) == len(rows) == len(plain.PLAIN)
    for row in rows:
        assert row.found not in plain.GENERIC.values(), row.label
        for sentence in (row.claimed, row.found):
            assert not SYMBOLS.search(sentence), sentence
            assert 10 < len(sentence) < 170
            assert sentence.endswith(".")


def test_a_sentence_says_no_more_than_the_run_showed(record):
    result = record["experiments"]["fig1"]
    verdict = next(one for one in result["verdicts"] if one["claim"] == "C1")
    share = result["numbers"]["shares"]["share"][0]
    assert f"{100 * share:.0f} of 100" in plain.found(verdict, result)
    assert plain.found(verdict, result | {"full": False}) == plain.GENERIC[HOLDS]
    assert plain.found(verdict | {"verdict": ONLY_WHEN}, result) == plain.GENERIC[ONLY_WHEN]
    assert plain.found(verdict, result | {"numbers": {}}) == plain.GENERIC[HOLDS]


def test_the_summary_counts_the_rows(record):
    words = [row.word for row in glance.rows(record) if row.verdict["claim"] not in glance.OURS]
    summary = glance.summary(record)
    assert summary.startswith(
        f"Of {len(words)} claims of the paper that were run again, {words.count(HOLDS)} hold, "
    )
    assert f"{words.count('does not hold')} do not hold" in summary


def test_economical_is_judged_by_all_its_differences(record):
    result = record["experiments"]["beyond"]
    totals = result["numbers"]["differences"]["totals"]
    ends = [
        (kind, low, high)
        for kind, other, low, high in zip(
            *(totals[key] for key in ("kind", "other", "low", "high")), strict=True
        )
        if other == "log_alone" and kind == "routing"
    ]
    cheaper, dearer = sum(high < 0 for *_, high in ends), sum(low > 0 for _, low, _ in ends)
    alone, libraries = glance.economical("beyond", result)
    assert f"{cheaper} of {len(ends)} cases of routed prompts (worse in {dearer})" in alone["measured"]
    assert alone["verdict"] == libraries["verdict"] == ONLY_WHEN


def slugs(heading):
    """As GitHub makes them, and as Python-Markdown does."""
    github = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    python = re.sub(
        r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.encode("ascii", "ignore").decode()).strip().lower()
    )
    return github, python


def test_links_within_the_pages_lead_somewhere(text, written):
    found = [slugs(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    linked = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert len(linked) > 20
    for anchors in zip(*found, strict=True):
        assert linked <= set(anchors)
        assert len(set(anchors)) == len(anchors)
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (FOLDER / target).is_file(), target
    named = re.findall(r'\bid="([^"]+)"', written)
    assert len(set(named)) == len(named)
    assert set(re.findall(r'href="#([^"]+)"', written)) | set(re.findall(r"url\(#([^)]+)\)", written)) <= set(
        named
    )


def test_the_pages_are_small_and_ask_for_nothing(written):
    assert_self_contained(written)
    assert len(written.encode()) <= 2_000_000
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) <= 8_000_000
    for path in FOLDER.rglob("*.svg"):
        drawn = path.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"https?:|<script|<image|@import|href=\"(?!#)|url\((?!#)", drawn), path


@pytest.mark.parametrize("width", [1280, 480])
def test_a_browser_shows_every_open_figure_and_does_not_scroll_sideways(tmp_path, width):
    seen = look(PAGE, tmp_path, width=width)
    assert seen["console"] == []
    assert seen["requests"] == []
    assert seen["wide"] <= 0
    shown = [one for one in seen["figures"] if one[0] > 0]
    assert len(shown) >= 60
    for across, height, marks in shown:
        assert across > 270
        assert height > 25
        assert marks >= 1


def test_drawings_can_be_seen_on_a_dark_page_and_learners_told_apart():
    axes = panel("Black", across="x", up="y")
    axes.plot([0, 1], [0, 1], color="black", marker="o", label="a")
    drawn = svg.small(plate("Black", [axes], see="", regime="").panels[0])
    head, _, body = drawn.partition("</style>")
    assert "prefers-color-scheme:dark" in head
    assert not re.search(r"(?<!,)#000000", body), "black is not seen on a dark page"
    assert "fill:var(--c000000,#000000)" in head, "nor is a black dot that says nothing of its filling"
    colours = {one.colour for one in LEARNERS.values()}
    dark = {figures.DARK[colour] for colour in colours}
    assert len(dark) == len(colours)
    assert all(contrast(colour, figures.DARK["#ffffff"]) >= 3 for colour in dark)


def test_a_finding_is_told_in_parts():
    assert parts_of("One thing; another one. A third.") == ["One thing;", "another one.", "A third."]
