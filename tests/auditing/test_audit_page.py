"""The audit's page in a browser: it begins with what to do, asks for nothing, and everyone can read it on every screen."""

import re
import subprocess
import sys
from html import escape

import numpy as np
import pytest

import sparing
from reference.accessibility import assert_readable
from reference.browser import assert_self_contained, look
from sparing.auditing import page as report
from sparing.auditing import text
from sparing.log import Log
from sparing.simulation import LinearWorld, draw_log
from sparing.simulation.logging_policies import uniform_on

EMPTY = """() => [...document.querySelectorAll("figure")].filter((figure) => {
  const marks = [...figure.querySelectorAll("i, polygon, td.gap")].map((mark) => mark.getBoundingClientRect());
  return !marks.some((box) => box.width > 0 && box.height > 0) || figure.getBoundingClientRect().width < 150;
}).map((figure) => figure.innerText)"""
"""Figures in which nothing is to be seen."""

COLLIDING = """() => {
  const texts = [...document.querySelectorAll("figure th, figure td span, .ticks span, .columns b, ul.key li")].filter((each) => each.innerText.trim());
  const boxes = texts.map((each) => {
    const range = document.createRange();
    range.selectNodeContents(each);
    return range.getBoundingClientRect();
  });
  const found = [];
  boxes.forEach((a, i) => boxes.forEach((b, j) => {
    const [across, down] = [Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)];
    if (i < j && across > 1 && down > 2) found.push([texts[i].innerText, texts[j].innerText]);
  }));
  return found.concat(boxes.filter((box) => box.left < 0).map((box) => [box.left]));
}"""
"""Texts of charts that lie over one another, or out of the page."""


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


def raw_log():
    """Raw columns, and names of forty letters, where a country and a device lack one action each."""
    rng, rows = np.random.default_rng(0), 1200
    offers = [
        "no offer",
        "ten per cent off the next three orders!",
        "early access to the whole summer sale  ",
    ]
    country, device = rng.choice(["NZ", "AU", "UK"], rows), rng.choice(["phone", "desktop", "tablet"], rows)
    lacks = zip(country == "NZ", device == "phone", strict=True)
    eligible = [[offers[0], *([] if a else [offers[1]]), *([] if b else [offers[2]])] for a, b in lacks]
    table = {
        "country": country,
        "device": device,
        "age": rng.integers(18, 80, rows),
        "action": [str(rng.choice(each)) for each in eligible],
        "reward": rng.random(rows),
        "eligible": eligible,
    }
    return sparing.read_log(table)


def many_log(actions=500):
    world = LinearWorld(n_actions=actions, n_features=2, noise=1.0, seed=0)
    return draw_log(world, rows=4 * actions, support="never-logged", unsupported=0.3, seed=0)


LOGS = {"bare": bare_log, "hostile": hostile_log, "raw": raw_log, "many": many_log}


@pytest.fixture(scope="module", params=LOGS)
def shown(request, tmp_path_factory):
    """An audit and its page."""
    found, path = sparing.audit(LOGS[request.param]()), tmp_path_factory.mktemp("page") / "audit.html"
    report.write(found, path, title="<i>log</i>")
    return found, path


def test_everyone_can_read_it_on_every_screen(shown, chromium):
    assert_readable(chromium, shown[1])


def test_it_begins_with_what_to_do(shown):
    found, path = shown
    html = path.read_text(encoding="utf-8")
    first = re.search(r"</h1>\s*<p class=.headline (\w+).>(.*?)</p>", html, re.DOTALL)
    assert first[1] == found.verdict
    assert re.sub(r"</?code>", "", first[2]) == escape(found.recommendation)


def test_no_panel_is_empty_and_no_name_is_cut_off(shown, chromium):
    """Every chart has something in it, and text that is drawn lies inside of what holds it, beside no other."""
    page = chromium.new_page(viewport={"width": 390, "height": 900})
    page.goto(shown[1].as_uri())
    assert page.evaluate(EMPTY) == []
    assert page.evaluate(COLLIDING) == []
    page.close()


def test_the_page_holds_no_script_no_address_and_no_markup_of_the_log(shown):
    html = shown[1].read_text(encoding="utf-8")
    assert_self_contained(html, figure="<figure")
    assert "<i>log" not in html
    assert "<b>age" not in html


def test_every_action_has_a_bar_beside_its_name_or_the_least_known_have():
    for actions, bars in ((30, 30), (31, report.LEAST_KNOWN)):
        found = sparing.audit(many_log(actions))
        html = "".join(report._of_actions(found))
        named = re.findall(r'<tr><th scope="row">(.*?)</th><td class="bar">', html)
        assert len(named) == bars
        assert set(named) <= set(map(str, found.counts))
        assert ('class="area"' in html) is (actions > 30)


def test_bars_are_as_long_as_their_numbers():
    found = sparing.audit(exact_log())
    html = "".join(report._of_actions(found))
    most = max(found.counts.values())
    for action in found.per_action:
        row = re.search(rf'<th scope="row">{action.name}</th>(.*?)</tr>', html)[1]
        rows, support = row.split("</td>")[:2]
        (length,) = re.findall(r"--s: ([\d.e-]+)", rows)
        assert float(length) == pytest.approx(action.rows / most, rel=1e-3)
        assert f"<span>{action.rows:,}</span>" in rows
        parts = [float(part) for part in re.findall(r"--s: ([\d.e-]+)", support)]
        assert sum(parts) == pytest.approx(1, rel=1e-3)
        assert parts[-1] == pytest.approx(action.zero, rel=1e-3)


def test_gaps_are_told_in_raw_columns():
    html = "".join(report._gaps(sparing.audit(raw_log())))
    assert ": country is NZ<" in html
    assert ": device is phone<" in html
    assert '<td class="gap" style="--s: 0">0%</td>' in html


def test_the_probe_notices_requests_and_errors(tmp_path):
    page = tmp_path / "bad.html"
    page.write_text('<body><img src="http://nowhere.invalid/a.png"><script>boom()</script></body>')
    seen = look(page, tmp_path)
    assert seen["requests"] == ["http://nowhere.invalid/a.png"]
    assert any("boom" in line for line in seen["console"])


def test_the_page_says_what_the_audit_says(tmp_path):
    found = sparing.audit(exact_log(), policy=np.full((1500, 8), 1 / 8))
    report.write(found, tmp_path / "audit.html", title="log")
    html = (tmp_path / "audit.html").read_text(encoding="utf-8")
    text = re.sub(r"<svg.*?</svg>", "", html, flags=re.DOTALL)
    assert "could not have taken 40% of the actions" in text
    assert "40% of its decisions are unsupported" in text
    for number, gap in enumerate(found.gap_map.gaps, start=1):
        assert f"S{number}: {gap.where}".replace(">", "&gt;").replace("<", "&lt;") in text
    assert str(found.assumptions) in text


def test_an_estimated_page_warns_first(tmp_path):
    report.write(sparing.audit(bare_log()), tmp_path / "audit.html", title="log")
    html = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert html.index('class="warning"') < html.index("<h2>")
    assert "Support was estimated from the rows" in html
    assert "a single context may lack more" in html
    assert "could have taken the action, by estimate" in html


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
    html = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert "nan" not in html
    assert ("<figure" in html) is bool(log.n_rows)


def test_many_actions_are_cut_to_what_fits(tmp_path):
    found = sparing.audit(many_log(120))
    header, rows = text.action_table(found)
    assert len(rows) == text.MOST_ACTIONS
    assert all(row[header.index("rows")] == "0" for row in rows[:36])
    report.write(found, tmp_path / "audit.html", title="log")
    html = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert "Numbers of the 40 least known of 120 actions" in html
    assert f"The 12 least known of the {120 - len(found.never_logged)} actions that were tried" in html


def test_a_page_needs_nothing_but_the_library(tmp_path):
    code = (
        "import sys; sys.modules['matplotlib'] = None; import sparing; from sparing.auditing import page;"
        "log = sparing.Log.from_arrays([[1.0], [2.0]], ['a', 'b'], [1.0, 0.0]);"
        f"page.write(sparing.audit(log), {str(tmp_path / 'audit.html')!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "<figure" in (tmp_path / "audit.html").read_text(encoding="utf-8")
