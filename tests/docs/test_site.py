"""The site builds without a warning or a dead link, and has a page for everything that is public."""

import functools
import re
import threading
import tomllib
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import sparing
from reference.accessibility import SCREENS, overflow, violations
from research.site import building, reference

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    building.build(folder / "site", folder / "gathered")
    return folder / "site"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture(scope="module")
def address(site):
    """The site as it is published: the page of addresses that do not exist finds its style from the root."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_every_public_name_and_command_has_a_page(site):
    for name in sparing.__all__:
        page = site / "reference" / ("types" if name[0].isupper() else "") / f"{name}.html"
        text = page.read_text(encoding="utf-8")
        assert f'id="sparing.{name}"' in text, f"the page of {name} says nothing of it"
    pages = {path.stem for path in (site / "reference/commands").glob("*.html")}
    assert {"audit", "learn", "evaluate", "plan", "serve", "convert", "demo", "keys-add", "verify"} <= pages
    index = (site / "reference/index.html").read_text(encoding="utf-8")
    assert all(f'href="commands/{name}.html"' in index for name in pages)


def test_every_page_is_in_the_navigation():
    nav = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if f'"{page}"' not in nav} == {"performance/table.md"}
    assert tomllib.loads(nav)["project"]["nav"]


def test_nothing_is_fetched_from_anywhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(
            r'<(?:script|link|img|iframe|source)[^>]*(?:src|href|srcset)="(https?://[^"]*)"', text
        )
        assert not fetched, f"{page.relative_to(site)} fetches {fetched}"
        assert not re.search(r"@import|url\(['\"]?https?:", text), page


@pytest.mark.parametrize(
    ("broken", "told"),
    [("[x](nowhere.md)", "page does not exist"), ("[x](idea.md#nowhere)", "anchor does not exist")],
)
def test_a_dead_link_stops_the_build(tmp_path, monkeypatch, broken, told):
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / "docs/index.md").write_text(f"# Home\n\n{broken}\n", encoding="utf-8")
    (root / "docs/idea.md").write_text("# Idea\n", encoding="utf-8")
    (root / "zensical.toml").write_text(
        '[project]\nsite_name = "x"\nnav = [{ "Home" = "index.md" }, { "Idea" = "idea.md" }]\n',
        encoding="utf-8",
    )
    monkeypatch.setattr(building, "ROOT", root)
    monkeypatch.setattr(building, "EXTRA_PAGES", ())
    monkeypatch.setattr(reference, "pages", dict)
    with pytest.raises(SystemExit, match=told):
        building.build(tmp_path / "site", tmp_path / "gathered")
    assert not (tmp_path / "site").exists()


SAMPLE = (
    "index",
    "tutorials/clicks",
    "learners",
    "reference/index",
    "reference/commands/audit",
    "reference/types/Learner",
)
"""A page of each kind."""


def assert_readable(chromium, address, names, screens):
    for width, scheme in screens:
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = context.new_page()
        for name in names:
            page.goto(f"{address}/{name}", wait_until="load")
            page.evaluate(
                "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
            )
            assert not violations(page), (name, width, scheme, violations(page))
            assert overflow(page) <= 0, f"{name} at {width} px is wider than the screen"
        context.close()


@pytest.mark.parametrize("at", [0, 1], ids=["wide", "phone"])
def test_a_page_of_each_kind_is_readable(address, chromium, at):
    """Half of the pages in light on a wide screen, the others in dark on a phone; all of them everywhere below."""
    assert_readable(chromium, address, [f"{name}.html" for name in SAMPLE[at::2]], [SCREENS[3 * at]])


@pytest.mark.thorough
def test_every_page_is_readable(site, address, chromium):
    pages = sorted(str(path.relative_to(site)) for path in site.rglob("*.html"))
    assert "404.html" in pages
    assert_readable(chromium, address, pages, SCREENS)
