"""Whether everyone can read a page: what axe-core finds, text too faint, and pages wider than the screen."""

from importlib.resources import files

SCREENS = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]
"""A desk and a phone, in both colour schemes."""

MOST = 6
"""Entries of a legend."""

GRAVE = ("serious", "critical")

RUN = """() => axe.run(document, { resultTypes: ["violations"] }).then((found) => found.violations.map((each) => ({
  id: each.id, impact: each.impact, help: each.help, where: each.nodes.slice(0, 3).map((node) => node.target.join(" ")) })))"""

CONTRAST = """
() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parts(colour).slice(0, 3).map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    const layers = [];
    for (let n = node; n; n = n.parentElement) {
      const [r, g, b, alpha = 1] = parts(getComputedStyle(n).backgroundColor);
      if (alpha > 0) layers.unshift([r, g, b, alpha]);
      if (alpha === 1) break;
    }
    const seen = layers.reduce((below, [r, g, b, alpha]) =>
      [r, g, b].map((c, i) => alpha * c + (1 - alpha) * below[i]), [255, 255, 255]);
    return `rgb(${seen.join(", ")})`;
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !node.checkVisibility()) continue;
    const style = getComputedStyle(node);
    const [a, b] = [light(node.closest("svg") ? style.fill : style.color), light(ground(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push([ratio.toFixed(2), node.className, walker.currentNode.data.slice(0, 40)]);
  }
  return low;
}
"""


def light(colour):
    """Relative luminance, as WCAG 2 has it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    """Of two colours, as WCAG 2 has it: from 1 to 21."""
    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def violations(page, *, impacts=GRAVE):
    """What axe-core finds on a page that is open in Playwright: rule, impact, what is wrong and where, a line each."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    return [
        f"{each['id']} ({each['impact']}): {each['help']}: {'; '.join(each['where'])}"
        for each in page.evaluate(RUN)
        if each["impact"] in impacts
    ]


def faint(page):
    """Text, also in drawings, whose contrast with what is behind it is below 4.5: the ratio, its class and its words."""
    return page.evaluate(CONTRAST)


def overflow(page):
    """By how much a page is wider than the screen."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def legends(page):
    """How many entries each legend of a page has."""
    return page.evaluate(
        """() => [...document.querySelectorAll("ul.key, svg g[id*='legend_']")].map(
          (legend) => legend.querySelectorAll("li, text").length)"""
    )


def assert_readable(chromium, path):
    """A file's page has no grave violation, faint text, sideways scrolling or long legend, on every screen, folds open and closed."""
    page = chromium.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: said.append(request.url))
    page.goto(path.as_uri())
    assert said == [path.as_uri()]
    assert max(legends(page), default=0) <= MOST
    assert page.locator("figure svg:not([role=img][aria-label])").count() == 0
    for width, scheme in SCREENS[::3]:  # each width and each scheme; one does not change what the other shows
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        assert overflow(page) == 0
        assert faint(page) == []
        assert violations(page) == []
        page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    page.close()
