"""The audit's page in a browser: it asks for nothing, complains of nothing, and its figures can be seen."""

import re

import numpy as np
import pytest

import sparing
from reference.browser import assert_self_contained, look
from sparing.auditing import page as report
from sparing.auditing import wording
from sparing.log import Log
from sparing.simulation import LinearWorld, draw_log
from sparing.simulation.logging import uniform_on


def exact_log():
    world = LinearWorld(n_actions=8, n_features=3, noise=1.0, seed=0)
    return draw_log(world, rows=1500, support="region", unsupported=0.4, seed=1)


def bare_log():
    world = LinearWorld(n_actions=8, n_features=3, noise=1.0, seed=0)
    log = draw_log(world, rows=1500, never=[2], seed=1)
    return Log.from_arrays(log.contexts, log.actions, log.rewards, action_names=log.action_names)


def hostile_log():
    """Names that would be markup, if a page took them at their word."""
    rng = np.random.default_rng(0)
    names = [
        "<script>alert(1)</script>",
        "a & b",
        '"quoted"',
        "naïve café ✓",
        "日本語",
        r"$\frac{",
        "x" * 200,
    ]
    contexts = rng.random((400, 2))
    supported = np.ones((400, 7), dtype=bool)
    supported[:, 6] = False
    supported[contexts[:, 0] > 0.5, 0] = False
    chances = uniform_on(supported)
    actions = [names[rng.choice(7, p=row)] for row in chances]
    features = ["<b>age</b>", "$x$ & 1"]
    return Log.from_arrays(
        contexts, actions, rng.random(400), distribution=chances, action_names=names, feature_names=features
    )


@pytest.mark.parametrize("make", [exact_log, bare_log, hostile_log])
def test_the_page_in_a_browser(make, tmp_path):
    page = tmp_path / "audit.html"
    report.write(sparing.audit(make()), page, title="log")
    seen = look(page, tmp_path)
    assert seen["console"] == []
    assert seen["requests"] == []
    assert len(seen["figures"]) == 3
    for width, height, marks in seen["figures"]:
        assert width > 600
        assert height > 100
        assert marks > 30
    assert seen["wide"] <= 0


def test_the_probe_notices_requests_and_errors(tmp_path):
    page = tmp_path / "bad.html"
    page.write_text('<body><img src="http://nowhere.invalid/a.png"><script>boom()</script></body>')
    seen = look(page, tmp_path)
    assert seen["requests"] == ["http://nowhere.invalid/a.png"]
    assert any("boom" in line for line in seen["console"])


def test_a_narrow_screen_does_not_scroll_sideways(tmp_path):
    page = tmp_path / "audit.html"
    report.write(sparing.audit(exact_log()), page, title="log")
    assert look(page, tmp_path, width=520)["wide"] <= 0


@pytest.mark.parametrize("make", [exact_log, bare_log, hostile_log])
def test_the_page_holds_no_script_and_no_address(make, tmp_path):
    report.write(sparing.audit(make()), tmp_path / "audit.html", title="<i>log</i>")
    html = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert_self_contained(html)
    assert "<i>" not in html


def test_the_page_says_what_the_audit_says(tmp_path):
    found = sparing.audit(exact_log(), policy=np.full((1500, 8), 1 / 8))
    report.write(found, tmp_path / "audit.html", title="log")
    html = (tmp_path / "audit.html").read_text(encoding="utf-8")
    text = re.sub(r"<svg.*?</svg>", "", html, flags=re.DOTALL)
    assert "could not have taken 40% of the 8 actions" in text
    assert "40% of its mass is unsupported" in text
    for number, gap in enumerate(found.gap_map.gaps, start=1):
        assert f"S{number}: {gap.where}".replace(">", "&gt;").replace("<", "&lt;") in text
    assert str(found.assumptions) in text


def test_an_estimated_page_warns_first(tmp_path):
    report.write(sparing.audit(bare_log()), tmp_path / "audit.html", title="log")
    html = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert html.index('class="warning"') < html.index("<h2>")
    assert "Every statement about support is estimated" in html
    assert "a single context may lack more" in html
    assert "Supported: the same by estimate" in html


@pytest.mark.parametrize(
    "log",
    [
        Log.empty(action_names=["a", "b"], n_features=2),
        Log.from_arrays([[1.0]], ["a"], [1.0]),
        Log.from_arrays([[1.0], [2.0]], ["a", "b"], [1.0, 1.0], propensities=[0.5, 0.25]),
    ],
    ids=["empty", "one row", "tiny"],
)
def test_small_logs_have_a_page_too(log, tmp_path):
    report.write(sparing.audit(log), tmp_path / "audit.html", title="log")
    assert "<svg" in (tmp_path / "audit.html").read_text(encoding="utf-8")


def test_many_actions_are_cut_to_what_fits(tmp_path):
    world = LinearWorld(n_actions=120, n_features=2, noise=1.0, seed=0)
    found = sparing.audit(draw_log(world, rows=2000, support="never-logged", unsupported=0.5, seed=0))
    header, rows = wording.action_table(found)
    assert len(rows) == wording.MOST_ACTIONS
    assert all(row[header.index("rows")] == "0" for row in rows)
    report.write(found, tmp_path / "audit.html", title="log")
    assert "The 40 least known of 120 actions" in (tmp_path / "audit.html").read_text(encoding="utf-8")
