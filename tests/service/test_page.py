"""The page in Chromium: what it shows, asks for and keeps, in light and dark, on a phone, with a thousand actions and with none."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import expect

from reference.accessibility import SCREENS, faint, overflow, violations
from service.overviews import (
    HOSTILE,
    NOW,
    empty,
    explained,
    hostile,
    iso,
    retention,
    scaled,
    shadowed,
    thousand,
)
from service.standin import ADMIN, KEY, served
from sparing.service import page as files
from sparing.service.messages import Look

VARIANTS = {
    "retention": retention,
    "thousand": thousand,
    "empty": empty,
    "hostile": hostile,
    "shadowed": shadowed,
}
SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => window.shifts.push(...list.getEntries().map((entry) => entry.value)))
  .observe({ type: "layout-shift", buffered: true });
"""


@pytest.fixture(scope="module")
def standin():
    with served() as running:
        yield running


@pytest.fixture
def visit(standin, chromium):
    """Opens the page and gives it back once it is drawn; in the end nothing may stand on its console but what was expected."""
    contexts, said, allowed = [], [], []

    def opened(*overviews, width=1280, scheme="light", path="", ready="#actions-rows tr", expected=()):
        standin.show(*overviews)
        allowed.extend(expected)
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            timezone_id="UTC",
            reduced_motion="reduce",
        )
        contexts.append(context)
        context.set_default_timeout(5000)
        page = context.new_page()
        page.add_init_script(SHIFTS)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.clock.install()
        page.goto(standin.address + path)
        if ready:
            page.locator(ready).first.wait_for()
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [line for line in said if not any(part in line for part in allowed)] == []


def refreshed(page, standin):
    """The page after its next refresh."""
    with page.expect_response(lambda response: response.url.endswith("/summary")):
        page.clock.fast_forward(5100)
    page.wait_for_function("() => document.getElementById('updated').textContent.includes(' 0')")


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_overflows_and_everyone_can_read_it(visit, variant):
    page = visit(VARIANTS[variant]())
    for width in (1280, 800, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert overflow(page) == 0
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert faint(page) == []
            if (width, scheme) in SCREENS[::3]:  # each width and each scheme
                assert violations(page) == []


def test_the_first_look(visit):
    overview = retention()
    page = visit(overview)
    expect(page).to_have_title("retention-offers · sparing")
    expect(page.locator("#saved")).to_have_text("83\u202f%")
    expect(page.locator("#saved-text")).to_contain_text("21\u202f660 of 26\u202f072 decisions")
    expect(page.locator("#gain")).to_have_text("+0.62")
    expect(page.locator("#gain-text")).to_contain_text("higher than the holdout")
    expect(page.locator("#spent")).to_have_text("1\u202f765\u202f€")
    expect(page.locator("#spend-list")).to_contain_text("in 11\u202fh")
    expect(page.locator("#badges")).to_have_text("✓ healthymode: live")
    expect(page.locator("#about")).to_have_text("economical · warm-started from 9\u202f000 logged rows")
    expect(page.locator("#updated")).to_contain_text("ago")
    expect(page.locator("#switcher")).to_be_hidden()


def test_it_is_not_called_healthy_beside_an_alarm(visit):
    overview = replace(
        retention(), look=[Look("alarm", "The budget is used up"), Look("good", "All is well")]
    )
    page = visit(overview)
    expect(page.locator("#badges")).to_have_text("✕ 1 alarmmode: live")
    expect(page.locator("#badges .badge").first).to_have_class("badge alarm")


EXTREMES = {
    "huge": scaled(3.7e17, 10**9),
    "tiny": scaled(4.2e-13),
    "close together": scaled(1e-3, offset=1.234567e11),
    "no digits left": scaled(1.0, offset=1e18),
    "none": scaled(0.0),
}
# Charts are drawn again in the frame after a new width.
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
OUTSIDE = """
() => {
  const found = [];
  const walker = document.createTreeWalker(document.getElementById("main"), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const own = node.parentElement;
    if (!node.textContent.trim() || own.closest(".unseen, [hidden], .scroll .gap-table")) continue;
    const head = own.closest("thead");
    if (head && getComputedStyle(head).clipPath !== "none") continue;
    const cell = own.closest("td, th, dd, dt, .plot, .axis, .difference, p, li") ?? own.closest(".card");
    const card = own.closest(".card").getBoundingClientRect();
    const hides = getComputedStyle(cell).overflow !== "visible" || getComputedStyle(own).overflow !== "visible";
    const range = document.createRange();
    range.selectNodeContents(node);
    const text = range.getBoundingClientRect();
    if (text.width === 0) continue;
    const box = cell.getBoundingClientRect();
    const inside = (outer, slack) => text.left >= outer.left - slack && text.right <= outer.right + slack;
    if (!inside(card, 1) || (!hides && !inside(box, cell.matches(".axis, .difference") ? 40 : 2))) found.push(`${cell.className || cell.tagName}: ${node.textContent}`);
  }
  return found;
}
"""


@pytest.mark.parametrize("variant", EXTREMES)
def test_numbers_of_any_size_stay_in_their_cells(visit, variant):
    page = visit(EXTREMES[variant])
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(DRAWN)
        assert overflow(page) == 0
        assert page.evaluate(OUTSIDE) == []
    estimates = page.locator("#actions-rows .estimate").all_inner_texts()
    assert all("NaN" not in text and "e+" not in text and len(text) < 30 for text in estimates)
    if variant in ("huge", "tiny"):
        assert any("×10" in text for text in estimates)


@pytest.mark.parametrize("reward", [-1.487e15, 3.26e-12, 123456.7])
def test_a_received_reward_is_in_one_line(visit, reward):
    page = visit(replace(retention(), recent=[replace(one, reward=reward) for one in retention().recent]))
    cell = page.locator("#recent tbody td:last-child").first
    lines = cell.evaluate(
        "(cell) => { const all = document.createRange(); all.selectNodeContents(cell); return all.getClientRects().length; }"
    )
    assert lines == 1


def test_intervals_of_actions_have_the_level_of_their_learner(visit):
    for level, said in ((0.95, "95 % interval"), (0.8, "80 % interval"), (None, "no level is proved")):
        page = visit(replace(retention(), level=level))
        expect(page.locator("#level")).to_contain_text(said.replace(" %", "\u2009%"))
        expect(page.locator("#actions-note")).to_contain_text(said.replace(" %", "\u2009%"))


def test_the_bar_and_its_legend_count_every_decision(visit):
    overview = retention()
    page = visit(overview)
    counts = page.locator("#saved-legend b").all_inner_texts()
    assert sum(int(text.replace("\u202f", "")) for text in counts) == overview.decisions
    sizes = page.locator("#saved-bar i").evaluate_all(
        "all => all.map((i) => parseFloat(i.style.getPropertyValue('--size')))"
    )
    assert sum(sizes) == pytest.approx(100, abs=0.1)


def test_shadow_calls_are_shown_as_such(visit):
    overview = shadowed()
    page = visit(overview)
    expect(page.locator("#badges")).to_have_text("✓ healthymode: liveasks by shadow calls")
    counts = page.locator("#saved-legend b").all_inner_texts()
    assert sum(int(text.replace("\u202f", "")) for text in counts) == overview.decisions
    expect(page.locator("#saved")).to_have_text("83\u202f%")
    expect(page.locator("#saved-text")).to_contain_text("of them in the shadow")
    expect(page.locator("#saved-legend")).to_contain_text("called: shadow call")
    expect(page.locator("#stacked .key").filter(has_text="called: shadow call")).to_be_visible()
    assert page.locator("#stacked .area.shadow-call").count() >= 1
    rows = page.locator("#recent tbody tr")
    place = next(number for number, row in enumerate(overview.recent) if row.arm == "also")
    expect(rows.nth(place)).to_contain_text("shadow call: explore")
    expect(rows.nth(place + 1)).to_contain_text("best mean, with a shadow call")


def test_charts_have_axes_a_legend_and_a_readout(visit):
    page = visit(retention())
    assert page.locator("#stacked .key").count() == 5
    assert page.locator("#stacked .area").count() >= 5
    assert {"0", "200", "400", "600", "now"} <= set(page.locator("#stacked .tick").all_text_contents())
    assert page.locator("#bands .line").count() == page.locator("#bands path.band").count() == 2
    plot = page.locator("#stacked [data-plot]")
    plot.focus()
    page.keyboard.press("End")
    expect(page.locator("#stacked [data-readout]")).to_contain_text(
        "1 Jul, 12:00 (incomplete): no call: not needed"
    )
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#stacked [data-readout]")).to_contain_text("1 Jul, 11:00: no call: not needed")
    page.keyboard.press("Escape")
    expect(page.locator("#stacked [data-readout]")).to_contain_text("Point at the chart")


def test_reasons_that_cost_no_call_are_distinguished(visit):
    """A budget that is used up saves nothing; a reason that is new is shown as it is."""
    hours = [
        replace(hour, decisions={"budget": 3, "spent": 1, "fallback": 2, "new": 4})
        for hour in retention().hours
    ]
    page = visit(replace(retention(), hours=hours))
    expect(page.locator("#stacked .key")).to_have_text("budget, fallback, other")


def test_actions_show_where_they_were_learnt(visit):
    page = visit(retention())
    rows = page.locator("#actions-rows tr")
    assert rows.count() == 12
    assert rows.locator(".badge.never-tried").count() == 3
    expect(rows.first).to_contain_text("no-action")
    expect(rows.first).to_contain_text("0.802 ± 0.021")
    expect(page.locator("#filter")).to_be_hidden()
    assert page.locator("#gaps td.hatched").count() == 3 * 6 + 1


def test_a_thousand_actions(visit):
    page = visit(thousand())
    rows = page.locator("#actions-rows tr")
    assert rows.count() == 24
    assert rows.locator("nth=12").locator(".badge").inner_text() == "✕ never tried"
    page.locator("#all").click()
    assert rows.count() == 1000
    page.locator("#filter").fill("ITEM-01")
    assert rows.count() == 100
    page.locator("#filter").fill("never tried")
    assert rows.count() == sum(action.learnt == "never tried" for action in thousand().actions)
    page.locator("#filter").fill("no such thing")
    expect(page.locator("#actions-note")).to_contain_text("0 actions of 1\u202f000 match")


def test_nothing_has_happened_yet(visit):
    page = visit(replace(empty(), gaps=None, look=[], actions=empty().actions[:1]))
    expect(page.locator("#saved")).to_have_text("no decision yet")
    expect(page.locator("#gain")).to_have_text("not measured")
    expect(page.locator("#gain-text")).to_have_text("No reward has come yet.")
    for part in ("stacked", "bands", "gaps", "recent"):
        assert page.locator(f"#{part} .empty").count() == 1
    assert "NaN" not in page.locator("body").inner_text()


def test_hostile_words_stay_words(visit):
    page = visit(hostile())
    assert page.title() == f"{'x' * 63} · sparing"
    shown = page.locator("#actions-rows .name").all_inner_texts()
    assert HOSTILE[0] in shown
    assert {"true", "false", "3", "(empty)"} <= set(shown)
    assert page.locator("main img, main script, main b b, #about b").count() == 0
    expect(page.locator("#recent")).to_contain_text("needed: <b>new</b>")
    expect(page.locator("#gain-text")).to_contain_text("do not trust this comparison")
    expect(page.locator("#health")).to_contain_text("some disagree")


def test_a_refresh_moves_nothing(visit, standin):
    page = visit(thousand())
    page.locator("#filter").fill("item-00")
    page.evaluate("scrollTo(0, 500)")
    page.wait_for_function("scrollY === 500")
    page.wait_for_timeout(100)
    page.evaluate("() => { window.shifts = []; }")
    before = standin.overviews["front-page-items"]
    actions = [replace(action, live=action.live + 1, value=action.value + 0.001) for action in before.actions]
    changed = replace(
        before, time=iso(NOW + 5), decisions=before.decisions + 9, skipped=before.skipped + 9, actions=actions
    )
    standin.overviews["front-page-items"] = changed
    refreshed(page, standin)
    expect(page.locator("#saved-text")).to_contain_text(f"{changed.decisions:,}".replace(",", "\u202f"))
    page.wait_for_timeout(100)
    assert page.evaluate("[scrollY, document.activeElement.id, document.activeElement.value]") == [
        500,
        "filter",
        "item-00",
    ]
    assert page.evaluate("window.shifts") == []


def test_service_gone_and_back(visit, standin):
    page = visit(retention(), expected=["ERR_INTERNET_DISCONNECTED", "503"])
    page.context.set_offline(True)
    page.clock.fast_forward(5100)
    expect(page.locator("#trouble")).to_contain_text("Cannot reach the service. The numbers below are")
    expect(page.locator("body")).to_have_class("stale")
    expect(page.locator("#saved")).to_have_text("83\u202f%")
    page.context.set_offline(False)
    standin.down = True
    page.clock.fast_forward(5100)
    expect(page.locator("#trouble")).to_contain_text("The store is away.")
    standin.down = False
    page.clock.fast_forward(5100)
    expect(page.locator("#trouble")).to_be_hidden()
    expect(page.locator("body")).not_to_have_class("stale")


def test_a_key_is_swapped_for_a_cookie(visit, standin):
    page = visit(retention(), expected=["401"], ready=None)
    standin.locked = True
    page.reload()
    expect(page.locator("#key")).to_be_focused()
    expect(page.locator("main")).to_be_hidden()
    page.locator("#key").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#key-wrong")).to_have_text("This key is not valid.")
    page.locator("#key").fill(KEY)
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_visible()
    expect(page.locator("#key-form")).to_be_hidden()
    assert page.evaluate("document.cookie") == ""
    page.locator("#forget").click()
    expect(page.locator("#key-form")).to_be_visible()


def test_stop_asks_first(visit, standin):
    page = visit(retention())
    page.locator("[data-mode=fallback]").click()
    expect(page.locator("#ask-text")).to_contain_text(
        "retention-offers: from the next decision on, the fallback serves every request"
    )
    page.keyboard.press("Escape")
    assert standin.modes == []
    page.locator("[data-mode=fallback]").click()
    page.locator("#ask-yes").click()
    expect(page.locator("#badges")).to_contain_text("mode: stopped (fallback served)")
    assert standin.modes == [("retention-offers", {"mode": "fallback"}, None)]
    expect(page.locator("[data-mode=fallback]")).to_be_hidden()
    expect(page.locator("[data-mode=live]")).to_be_visible()


def test_an_admin_key_is_used_once(visit, standin):
    page = visit(retention(), expected=["403"])
    standin.guarded = True
    page.locator("[data-mode=shadow]").click()
    page.locator("#ask-yes").click()
    page.locator("#admin-key").fill("wrong")
    page.locator("#ask-yes").click()
    expect(page.locator("#ask-wrong")).to_have_text("This key does not permit changing the mode.")
    page.locator("#admin-key").fill(ADMIN)
    page.locator("#ask-yes").click()
    expect(page.locator("#badges")).to_contain_text("mode: shadow")
    assert [key for *_, key in standin.modes] == [None, "Bearer wrong", f"Bearer {ADMIN}"]
    page.locator("[data-mode=live]").click()
    with page.expect_response("**/mode"):
        page.locator("#ask-yes").click()
    expect(page.locator("#admin-key")).to_have_value("")
    assert standin.modes[-1][2] is None


def test_several_experiments(visit, standin):
    page = visit(retention(), empty(), path="#new-experiment")
    expect(page).to_have_title("new-experiment · sparing")
    page.locator("#switcher").select_option("retention-offers")
    expect(page.locator("#saved")).to_have_text("83\u202f%")
    assert page.url.endswith("#retention-offers")
    page.locator("#export summary").click()
    link = page.locator("#formats a").first
    assert link.get_attribute("href") == "v1/retention-offers/export?format=parquet"
    with page.expect_download() as download:
        link.click()
    assert download.value.url.endswith("/v1/retention-offers/export?format=parquet")


def test_no_such_experiment_and_none_at_all(visit, standin):
    page = visit(retention(), path="#gone", ready="#plain", expected=["404"])
    expect(page.locator("#plain")).to_contain_text("no experiment called gone")
    page.locator("#switcher").select_option("retention-offers")
    expect(page.locator("#saved")).to_have_text("83\u202f%")
    page = visit(ready="#plain")
    expect(page.locator("#plain-title")).to_have_text("No experiment yet")


def test_the_guarantee_is_one_click_away(visit):
    page = visit(retention())
    expect(page.locator("#guarantee")).to_be_hidden()
    page.locator("#guarantee-link").click()
    expect(page.locator("#guarantee")).to_contain_text("no guarantee for each environment")


def numbers(texts):
    return [round(1e6 * float(text.replace("\u2212", "-"))) for text in texts]


def test_a_recent_decision_is_explained_and_the_parts_sum(visit, standin):
    overview = retention()
    page = visit(overview)
    standin.record = explained()
    page.locator("#recent button").nth(2).click()
    dialog = page.locator("#why")
    expect(dialog).to_contain_text("At the decision the estimate was 0.7")
    expect(dialog).to_contain_text("with the model as of now")
    assert standin.explained == [(overview.recent[2].decision_id, "explain=true")]
    for place in (1, 2):
        cells = f"> :nth-child({place + 1})"
        *parts, total = numbers(page.locator(f"#why tbody tr:not(.word) {cells}").all_inner_texts())
        assert sum(parts) == total
        assert sum(numbers(page.locator(f"#why tbody .word {cells}").all_inner_texts())) == parts[2]
    lines = page.locator("#why tbody th").all_inner_texts()
    assert {"age (missing)", "plan = annual", "visits = 310 (beyond the log, counted as 85.1)"} <= set(lines)
    assert (lines[0], lines[-1]) == ("average of 9\u202f000 rows", "sum")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert overflow(page) == 0
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert faint(page) == []
            assert violations(page) == []
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_explanations_of_hostile_words_many_columns_and_erased_contexts(visit, standin):
    page = visit(hostile(), expected=["409"])
    standin.record = explained(
        {str(label) + str(place): str(label) for place, label in enumerate(2 * HOSTILE)}
    )
    page.locator("#recent button").first.click()
    expect(page.locator("#why tbody")).to_contain_text("other columns")
    assert page.locator("#why tbody tr:not(.word)").count() == 12
    assert page.locator("#why :is(img, script, b)").count() == 0
    expect(page.locator("#why-head")).to_contain_text("<b>no-action</b>")
    assert overflow(page) == 0
    page.locator("#why-close").click()
    standin.record = None
    page.locator("#recent button").first.click()
    expect(page.locator("#why-text")).to_have_text("The context of the decision was erased.")
    assert page.locator("#why tbody tr").count() == 0
    assert page.title() == f"{'x' * 63} · sparing"


def test_times_are_relative_with_the_exact_one_beside(visit):
    page = visit(retention())
    first = page.locator("#recent time").first
    expect(first).to_have_attribute("title", "1 Jul 2026, 12:02:57 UTC")
    expect(page.locator("#recent .why").first).to_have_attribute("title", "reason not-worth-it, arm policy")


def test_every_file_is_sent_and_short():
    folder = Path(files.__file__).parent
    names = {path.name for path in folder.iterdir() if path.suffix in (".html", ".css", ".js")}
    assert names == {name for name, _ in files.FILES.values()}
    for path, (name, _) in files.FILES.items():
        content = files.read(path)[0].decode()
        assert len(content.splitlines()) < 400, name
        assert "innerHTML =" not in content
        assert "http://" not in content.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in content
