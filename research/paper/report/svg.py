"""Figures as small SVG files that follow the reader's light or dark scheme."""

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Tree

from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPACE = "http://www.w3.org/2000/svg"
LINK = "{http://www.w3.org/1999/xlink}href"
DIGITS = 1
"""Of a coordinate: a tenth of a point is finer than a screen shows."""

STYLE = (
    f"<style>svg{{background:#fff;fill:{figures.variable('#000000')}}}text{{font-family:system-ui,sans-serif}}"
    f"@media(prefers-color-scheme:dark){{svg{{background:{figures.DARK['#ffffff']};{figures.scheme()}}}}}</style>"
)
"""What a file says of itself; a page's own style sheet says it once for all."""


def small(figure: "Figure") -> str:
    """A drawing as the text of an SVG file."""
    root = Tree.fromstring(figures.to_svg(figure, str(figure.get_label())))
    _tidy(root)
    _rename(root)
    width, height = (float(root.attrib[side].removesuffix("pt")) for side in ("width", "height"))
    root.attrib |= {"width": f"{width * 4 / 3:.0f}", "height": f"{height * 4 / 3:.0f}"}
    Tree.register_namespace("", SPACE)
    drawn = Tree.tostring(root, encoding="unicode").replace(" />", "/>")
    end = drawn.index(">") + 1
    return f"{drawn[:end]}{STYLE}{drawn[end:]}\n"


class Shared:
    """Drawings within one page: what they say alike is said once."""

    def __init__(self) -> None:
        self._classes: dict[str, str] = {}
        self._count = 0

    def within(self, text: str) -> str:
        """A file's drawing with ids of its own and classes for its styles."""
        self._count += 1
        text = text.replace(STYLE, "").replace(f' xmlns="{SPACE}"', "").strip()
        text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>g{self._count}", text)
        return re.sub(r'style="([^"]*)"', self._class, text)

    def _class(self, found: re.Match[str]) -> str:
        name = self._classes.setdefault(found[1], f"s{len(self._classes)}")
        return f'class="{name}"'

    def css(self) -> str:
        """The styles of all drawings."""
        return "".join(f".{name}{{{style}}}" for style, name in self._classes.items())


def _tidy(parent: Tree.Element) -> None:
    """Leave out what does not show, and groups that say nothing."""
    kept: list[Tree.Element] = []
    for child in parent:
        kind = child.tag.rpartition("}")[2]
        _tidy(child)
        _shorten(child)
        if kind in ("metadata", "style") or (kind in ("g", "defs") and not len(child)):
            continue
        if kind == "path" and child.attrib.get("style") == "fill:none":
            continue
        bare = kind == "g" and not set(child.attrib) - {"id"}
        kept += list(child) if bare else [child]
    parent[:] = kept
    parent.tail = None
    if parent.tag.rpartition("}")[2] not in ("text", "tspan"):
        parent.text = None


def _shorten(one: Tree.Element) -> None:
    if LINK in one.attrib:
        one.attrib["href"] = one.attrib.pop(LINK)
    for name, value in one.attrib.items():
        if name in ("id", "href", "clip-path"):
            continue
        short = re.sub(r"-?\d+\.\d+", _rounded, value)
        if name == "style":
            short = re.sub(r"font-family: [^;]*;? ?", "", short)
            short = re.sub(r"([;:,]) ", r"\1", short).removesuffix(";")
            short = short.replace("stroke-linejoin:miter;", "").replace(";stroke-linejoin:miter", "")
        one.attrib[name] = re.sub(r"\s*([MLQCz])\s*", r"\1", short) if name == "d" else short
    if one.attrib.get("transform", "").startswith("rotate(-0 "):
        del one.attrib["transform"]


def _rounded(found: re.Match[str]) -> str:
    return f"{round(float(found[0]), DIGITS):g}" if abs(float(found[0])) < 1e5 else found[0]


def _rename(root: Tree.Element) -> None:
    """Short ids, and none that nothing refers to."""
    text = Tree.tostring(root, encoding="unicode")
    used = dict.fromkeys(re.findall(r'(?:url\(#|href="#)([^)"]+)', text))
    names = {old: f"i{number}" for number, old in enumerate(used)}
    for one in root.iter():
        old = one.attrib.pop("id", None)
        if old in names:
            one.attrib["id"] = names[old]
        if "href" in one.attrib:
            one.attrib["href"] = "#" + names[one.attrib["href"][1:]]
        if "clip-path" in one.attrib:
            one.attrib["clip-path"] = f"url(#{names[one.attrib['clip-path'][5:-1]]})"
